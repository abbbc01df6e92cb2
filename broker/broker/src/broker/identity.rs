//! Who a rank is.

/// Who this rank is, told at its start and constant.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The instance's id.
    pub instance: String,
    /// The version of eddy.
    pub version: String,
    /// User id of the owner.
    pub owner: u32,
    /// Its path, as `905/3`; empty for a root.
    pub path: String,
    /// How deep it is nested; 0 for a root.
    pub depth: u32,
    /// Where its parent is reached from the leader's node; none for a root.
    pub parent: Option<String>,
    /// Its name, where its parent's configuration declares it: others have jobs in it.
    pub declared: Option<String>,
}
