//! A job as a parent passes it to a queue instance: said by `nest`, heard by `passed` (eddy-modules).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::account::Party;
use crate::event::{Pass, Sent};
use crate::hash::Hash;
use crate::id::JobId;

/// A job that a parent passes to a queue instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passed {
    /// Its number, in both.
    pub job: JobId,
    /// Where it runs and which attempt it is.
    pub pass: Pass,
    /// Whose it is.
    pub user: u32,
    /// Its urgency.
    pub urgency: u8,
    /// The value of `{cc}` in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc: Option<u32>,
    /// Whom the parent charges for it.
    #[serde(default)]
    pub party: Party,
    /// The sender's key of its submission; parents of earlier releases say none.
    #[serde(default)]
    pub key: Uuid,
    /// Which job of that submission it is.
    #[serde(default)]
    pub index: u32,
    /// How many that has.
    #[serde(default = "one")]
    pub count: u32,
    /// What was sent, where that is not what is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
    /// Hash of its jobspec; parents of earlier releases say none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobspec: Option<Hash>,
    /// Hash of its environment; the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Hash>,
    /// How many bytes of the tail are its jobspec; the rest is its environment. Of either there are none where
    /// the child keeps it ([`AdoptRequest::keeps`](super::AdoptRequest)).
    pub jobspec_bytes: u32,
}

fn one() -> u32 {
    1
}
