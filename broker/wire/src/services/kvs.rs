//! Named values: small JSON documents kept with the instance.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::service;
use crate::id::Seq;
use crate::message::Roles;

/// Largest value in bytes of JSON text (limit `kvs value`).
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// Most keys of an instance.
pub const KEYS_MAX: usize = 1_000_000;
/// Most values that one request sets: each is a record of the same commit.
pub const SET_MAX: usize = 10_000;
/// Most keys that one request removes: each is a record of the same commit.
pub const DELETED_MAX: usize = 10_000;

service!(
    /// Set values, all that are named or none; answered once they are durable.
    Put, "kvs.put", Roles::OWNER.or(Roles::ADMIN), PutRequest => ()
);
service!(
    /// Remove values, all that are named or none.
    Delete, "kvs.delete", Roles::OWNER.or(Roles::ADMIN), DeleteRequest => ()
);
service!(
    /// One value.
    Get, "kvs.get", Roles::OWNER.or(Roles::ADMIN), KeyRequest => Entry
);
service!(
    /// Keys that begin with a prefix.
    List, "kvs.list", Roles::OWNER.or(Roles::ADMIN), KeyRequest => Vec<String>
);
service!(
    /// A value now and whenever it changes: a stream.
    Watch, "kvs.watch", Roles::OWNER.or(Roles::ADMIN), KeyRequest => Entry
);

/// What [`Put`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutRequest {
    /// Name: dotted words.
    pub key: String,
    /// The value.
    pub value: Value,
    /// And what with it, in this order: all of them or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Pair>,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Name: dotted words.
    pub key: String,
    /// The value.
    pub value: Value,
}

/// A key, or for `list` a prefix of keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// Name: dotted words.
    pub key: String,
}

/// What [`Delete`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// Name: dotted words.
    pub key: String,
    /// And what with it: all of them or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Of the sender's making: the same key is the same request, so that whoever lost the answer may ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<Uuid>,
}

/// A value as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub key: String,
    /// Its value; `None` when there is none (any more).
    pub value: Option<Value>,
    /// The record that set it.
    pub seq: Seq,
}
