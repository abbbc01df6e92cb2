//! The contexts of events as they stand on disk: one small struct per shape.
//!
//! Used only by [`Kind`](super::Kind) to encode and decode; nothing else sees
//! them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{
    Basis, DeclaredDead, Entry, EventError, Final, Kind, Pass, Requeue, Sent, SpecLookup, Submit,
    Waitable,
};
use crate::account::Party;
use crate::filter::Filtered;
use crate::hash::Hash;
use crate::id::{Attempt, Epoch};
use crate::idset::Idset;
use crate::resource_set::ResourceSet;

/// `submit` on disk: the jobspec and its environment by hash.
#[derive(Serialize, Deserialize)]
pub(super) struct SubmitContext {
    pub(super) userid: u32,
    pub(super) urgency: u8,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) waitable: Waitable,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) requeue: Requeue,
    pub(super) key: Uuid,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) index: u32,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(super) count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cc: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_by: Option<u32>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) party: Party,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pass: Option<Arc<Pass>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) taken_in: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) entry: Entry,
    pub(super) jobspec: Hash,
    pub(super) environment: Hash,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<Arc<Sent>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) filtered: Option<Arc<Vec<Filtered>>>,
    pub(super) version: u32,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

impl SubmitContext {
    pub(super) fn of(submit: &Submit) -> SubmitContext {
        SubmitContext {
            userid: submit.user,
            urgency: submit.urgency,
            waitable: submit.waitable,
            requeue: submit.requeue,
            key: submit.key,
            index: submit.index,
            count: submit.count,
            cc: submit.cc,
            asked_by: submit.asked_by,
            party: submit.party.clone(),
            pass: submit.pass.clone(),
            taken_in: submit.taken_in.clone(),
            entry: submit.entry,
            jobspec: submit.spec.hash,
            environment: submit.spec.environment_hash,
            sent: submit.sent.clone(),
            filtered: submit.filtered.clone(),
            version: 1,
        }
    }

    pub(super) fn resolve(self, specs: SpecLookup<'_>) -> Result<Submit, EventError> {
        let spec = specs(&self.jobspec, &self.environment).ok_or(EventError::Spec(self.jobspec))?;
        Ok(Submit {
            user: self.userid,
            urgency: self.urgency,
            waitable: self.waitable,
            requeue: self.requeue,
            key: self.key,
            index: self.index,
            count: self.count,
            cc: self.cc,
            asked_by: self.asked_by,
            party: self.party,
            spec,
            sent: self.sent,
            filtered: self.filtered,
            pass: self.pass,
            taken_in: self.taken_in,
            entry: self.entry,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Described {
    pub(super) description: String,
}
#[derive(Serialize, Deserialize)]
pub(super) struct DescribedStatus {
    pub(super) description: String,
    pub(super) status: i32,
}
#[derive(Deserialize)]
pub(super) struct PriorityContext {
    pub(super) priority: i64,
}
#[derive(Deserialize)]
pub(super) struct UrgencyContext {
    pub(super) urgency: u8,
    pub(super) userid: u32,
}
#[derive(Deserialize)]
pub(super) struct Asker {
    pub(super) userid: u32,
}
#[derive(Deserialize)]
pub(super) struct OrderContext {
    pub(super) at: u32,
    pub(super) of: u32,
    pub(super) userid: u32,
}
#[derive(Deserialize)]
pub(super) struct Status {
    pub(super) status: i32,
}
#[derive(Serialize, Deserialize)]
pub(super) struct ReleaseContext {
    pub(super) ranks: Idset,
    #[serde(rename = "final")]
    pub(super) last: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) free: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) over: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<i32>,
}

impl ReleaseContext {
    pub(super) fn kind(self) -> Kind {
        let last = match (self.last, self.free, self.over) {
            (_, _, true) => Final::Over(self.status),
            (_, true, false) => Final::Free(self.status),
            (true, false, false) => Final::Yes,
            (false, false, false) => Final::No,
        };
        Kind::Release(self.ranks, last)
    }
}
#[derive(Deserialize)]
pub(super) struct AttemptContext {
    pub(super) attempt: Attempt,
}
#[derive(Serialize, Deserialize)]
pub(super) struct Instance {
    pub(super) instance: String,
}

impl Instance {
    pub(super) fn of(name: &str) -> Instance {
        let instance = name.to_owned();
        Instance { instance }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Epoched {
    pub(super) epoch: Epoch,
}
#[derive(Serialize, Deserialize)]
pub(super) struct Defined {
    #[serde(rename = "R")]
    pub(super) set: Arc<ResourceSet>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) basis: Basis,
}

impl Defined {
    pub(super) fn of(set: &Arc<ResourceSet>, basis: &Basis) -> Defined {
        Defined {
            set: Arc::clone(set),
            basis: basis.clone(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct ShellContext {
    pub(super) ranks: Idset,
    pub(super) epoch: Epoch,
}

impl ShellContext {
    pub(super) fn of(ranks: &Idset, epoch: Epoch) -> ShellContext {
        ShellContext {
            ranks: ranks.clone(),
            epoch,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct LostContext {
    epoch: Epoch,
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    by: Option<DeclaredDead>,
}

impl LostContext {
    pub(super) fn of(epoch: Epoch, by: Option<&DeclaredDead>) -> LostContext {
        let by = by.cloned();
        LostContext { epoch, by }
    }

    pub(super) fn into_kind(self) -> Kind {
        Kind::ShellLost(self.epoch, self.by.map(Box::new))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct DrainContext {
    pub(super) ranks: Idset,
    pub(super) reason: String,
    pub(super) userid: u32,
}

impl DrainContext {
    pub(super) fn of(ranks: &Idset, reason: &str, userid: u32) -> DrainContext {
        DrainContext {
            ranks: ranks.clone(),
            reason: reason.to_owned(),
            userid,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Ranks {
    pub(super) ranks: Idset,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) userid: Option<u32>,
}

impl Ranks {
    pub(super) fn of(ranks: &Idset, userid: Option<u32>) -> Ranks {
        let ranks = ranks.clone();
        Ranks { ranks, userid }
    }

    pub(super) fn undrain(self) -> Kind {
        Kind::Undrain(self.ranks, self.userid)
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Pair {
    pub(super) key: String,
    pub(super) value: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) userid: Option<u32>,
}

impl Pair {
    pub(super) fn of(key: &str, value: &Value, userid: Option<u32>) -> Pair {
        Pair {
            key: key.to_owned(),
            value: value.clone(),
            userid,
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) userid: Option<u32>,
}

impl Key {
    pub(super) fn of(key: &str, userid: Option<u32>) -> Key {
        let key = key.to_owned();
        Key { key, userid }
    }
}
