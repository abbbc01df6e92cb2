//! Standard input of tasks in portions that may be sent again.
//!
//! A client counts the bytes that it sends; whoever takes a portion knows of each sender how far it has come. So a
//! portion that is repeated after a loss is not written twice, and one before which something is missing is not
//! written at all: the answer says where to go on (doc/protocol/messages.md).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::idset::Idset;

/// The most bytes of one portion.
pub const PORTION_BYTES_MAX: usize = 1 << 20;
/// The most that send input to one attempt of a job.
pub const SENDERS_MAX: usize = 1_024;

/// Where a portion stands in what its sender sends to the same tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The sender, by a name of its own making.
    pub source: Uuid,
    /// How many bytes it sent before.
    pub offset: u64,
}

/// A portion as a shell is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Portion {
    /// Names it in the answer.
    #[serde(default)]
    pub number: u64,
    /// Task ranks it is for; empty is all.
    pub tasks: Idset,
    /// Where it stands; of one that does not say, a repetition is taken as new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Position>,
    /// Whether nothing follows.
    pub eof: bool,
    /// The bytes: the tail of the message, not its body.
    #[serde(skip)]
    pub data: Vec<u8>,
}

/// What became of a portion. Of what several say the last in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taken {
    /// These tasks have their input from elsewhere.
    Elsewhere,
    /// None of them reads any more.
    Unread,
    /// All before the place that goes with it was taken; the sender goes on from there.
    Kept,
    /// Its bytes came behind the end, which another sender said.
    Over,
    /// There is no room now, or the tasks are still being started: the same again later.
    Later,
    /// More send input than may.
    Crowded,
}
