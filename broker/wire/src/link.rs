//! The first words of two ranks of an instance: who is there, which protocol
//! is spoken, and where to go instead (doc/protocol/link.md).
//!
//! Said on the door of a rank, a plain Unix socket, before any link stands and
//! before any byte reaches a transport library. What follows on the link are
//! the frames of eddy-broker's `link` and the letters of [`crate::tree`].

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Refusal;
use crate::id::{Attempt, JobId, Rank};

/// The oldest protocol between ranks that this build speaks.
pub const PROTOCOL_MIN: u16 = 1;
/// The newest.
pub const PROTOCOL_MAX: u16 = 1;
/// Longest first word in bytes.
pub const HELLO_BYTES_MAX: usize = 64 << 10;

/// Who knocks, or who answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The oldest and the newest protocol spoken.
    pub protocol: (u16, u16),
    /// The instance's id.
    pub instance: String,
    /// The rank.
    pub rank: Rank,
    /// Which job of its parent the instance is now, and in which attempt; none for
    /// a root. A declared instance keeps its id from job to job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<(JobId, Attempt)>,
    /// This life of the rank: a number drawn when its process (or its hosting) began.
    pub life: Uuid,
    /// Where others knock at this rank.
    pub door: String,
    /// What it has received of the other's life on the link they had before, so
    /// that the link can go on where it broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<Heard>,
}

/// How far a link had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// Of which life of the other end.
    pub life: Uuid,
    /// The last frame taken from it.
    pub seq: u64,
}

/// What a knock comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HelloAnswer {
    /// The link stands, or will in a moment.
    Welcome {
        /// The protocol both speak from now on.
        protocol: u16,
        /// Who answers.
        hello: Hello,
        /// Where the transport is to connect; none goes on on this connection.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<String>,
    },
    /// Knock there: that rank is nearer.
    Elsewhere {
        /// Its rank.
        rank: Rank,
        /// Its door.
        door: String,
    },
    /// No; the text names what was given and what is allowed.
    Refused(Refusal),
}
