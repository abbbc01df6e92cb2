//! Whose a job is, as the order of those who wait may depend on it.

use std::sync::Arc;

use crate::account::Name;

/// Whom a job is charged to, and what else its order may depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// User id.
    pub user: u32,
    /// The account; none where there are no accounts.
    pub account: Option<Name>,
    /// The QoS; none is the policy's default.
    pub qos: Option<Name>,
    /// The class; none is the policy's default.
    pub class: Option<Name>,
    /// The queue it was submitted to; none is the instance's only one.
    pub queue: Option<Arc<str>>,
    /// The line it waits in.
    pub line: LineName,
}

/// A line of those who wait for nodes that are set aside; none is that of all others.
pub type LineName = Option<Arc<str>>;
