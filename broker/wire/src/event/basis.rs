//! What an inventory rests on: part of the record that defines it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::hash::Hash;
use crate::idset::Idset;

/// What an inventory rests on, kept with it so that ranks that were added or
/// taken out stay so over restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// Hash of the inventory that the leader was told (its nodes without times).
    /// Told the same again, a leader keeps what is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Hash>,
    /// One more than the highest rank there ever was: the next new one.
    #[serde(default)]
    pub ranks: u32,
    /// Ranks that were taken out for good.
    #[serde(default, skip_serializing_if = "Idset::is_empty")]
    pub removed: Idset,
    /// The last additions, so that one that is asked for again is not made twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Added>,
    /// User id of who added or took out ranks by this record, if anybody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub userid: Option<u32>,
}

/// Ranks that were added, and the key of the request for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// The sender's.
    pub key: Uuid,
    /// The first of them.
    pub first: u32,
    /// How many.
    pub count: u32,
}
