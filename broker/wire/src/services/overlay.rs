//! Requests about the tree of ranks.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::service;
use crate::id::Rank;
use crate::message::Roles;
use crate::time::Time;

const ANYONE: Roles = Roles::OWNER.or(Roles::USER).or(Roles::ADMIN);

service!(
    /// Every rank: where it hangs and since when. Answered by the leader.
    Status, "overlay.status", ANYONE, () => Vec<RankLink>
);
service!(
    /// What one rank knows of its own links; answered by the rank itself, also without a leader.
    Links, "overlay.links", ANYONE, () => Vec<LinkState>
);
service!(
    /// Adds nodes, each with a new rank, as if each were a host; safe to repeat.
    Add, "overlay.add", Roles::OWNER.or(Roles::ADMIN), AddRequest => Vec<Rank>
);
service!(
    /// Takes ranks out for good: their numbers are never given again. Refused while jobs hold them.
    Remove, "overlay.remove", Roles::OWNER.or(Roles::ADMIN), RemoveRequest => ()
);

/// One rank in the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankLink {
    /// The rank.
    pub rank: Rank,
    /// Its host.
    pub host: String,
    /// The rank above it; none for the leader and for ranks that are not reached.
    pub parent: Option<Rank>,
    /// Whether the leader reaches it.
    pub state: Reach,
    /// Since when.
    pub since: Option<Time>,
    /// Why it is not reached, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Whether a rank is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Letters come and go.
    Full,
    /// It was reached and is not any more.
    Lost,
    /// It has never been reached by this leader.
    Absent,
}

/// One link as one end sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkState {
    /// The rank at the other end.
    pub peer: Rank,
    /// Whether that is the rank above.
    pub is_up: bool,
    /// `open`, `broken`, `knocking`, or `waiting` before the next knock. A rank that
    /// follows always has one up, and a leader none.
    pub state: String,
    /// Frames sent and not acknowledged.
    pub unacknowledged: u64,
    /// Frames sent in all.
    pub sent: u64,
    /// Frames received in all.
    pub received: u64,
}

/// What [`Add`] asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddRequest {
    /// How many.
    pub count: u32,
    /// Of the sender's making: the same key is the same addition, so that whoever
    /// lost the answer may ask again. The last [`ADDITIONS_KEPT`] are known.
    pub key: Uuid,
}

/// How many additions an instance remembers by their keys.
pub const ADDITIONS_KEPT: usize = 64;

/// What [`Remove`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveRequest {
    /// Which.
    pub ranks: crate::idset::Idset,
}
