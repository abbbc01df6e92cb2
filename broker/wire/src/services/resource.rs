//! Requests about the inventory: what there is, what of it is in service.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::service;
use crate::id::{JobId, Rank};
use crate::idset::Idset;
use crate::message::Roles;
use crate::resource_set::ResourceSet;
use crate::time::Time;

service!(
    /// What is free, allocated and down.
    List, "resource.list", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), () => ListReply
);
service!(
    /// Which ranks are in service and why not.
    Status, "resource.status", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), () => Vec<RankStatus>
);
service!(
    /// Take ranks out of service: no new work, what runs goes on.
    Drain, "resource.drain", Roles::OWNER.or(Roles::ADMIN), DrainRequest => ()
);
service!(
    /// Put ranks back.
    Undrain, "resource.undrain", Roles::OWNER.or(Roles::ADMIN), UndrainRequest => Undrained
);
service!(
    /// Declare that nothing runs any more on ranks that are not heard of.
    Dead, "resource.dead", Roles::OWNER.or(Roles::ADMIN), DeadRequest => ()
);
service!(
    /// Have users' instances give nodes that are drained and go on without, where they can.
    Vacate, "resource.vacate", Roles::OWNER.or(Roles::ADMIN), VacateRequest => Vec<Vacated>
);

/// The inventory by use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListReply {
    /// Everything.
    pub all: ResourceSet,
    /// Held by jobs.
    pub allocated: ResourceSet,
    /// In no use but not in service.
    pub down: ResourceSet,
    /// In no use and in service.
    pub free: ResourceSet,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankStatus {
    /// The rank.
    pub rank: Rank,
    /// Its host.
    pub host: String,
    /// Whether its shell is connected.
    pub state: RankState,
    /// Set while drained.
    pub drain: Option<DrainState>,
    /// Whether the parent has it drained, as it told last: nothing begins here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// Jobs holding something here.
    pub jobs: u32,
}

/// Whether a rank can be given work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankState {
    /// Its shell is connected.
    Online,
    /// It is not.
    Offline,
}

/// A rank out of service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrainState {
    /// Since when.
    pub t: Time,
    /// Why.
    pub reason: String,
    /// By whom.
    pub userid: u32,
}

/// What [`Drain`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// Ranks (`0-3`) or hosts (RFC 29).
    pub targets: Targets,
    /// Why, one line.
    pub reason: String,
    /// Replace the reason of ranks that are drained already.
    #[serde(default)]
    pub force: bool,
    /// Of the sender's making: the same key is the same request, so that whoever lost the answer may ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<Uuid>,
}

/// What [`Undrain`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndrainRequest {
    /// Ranks or hosts.
    pub targets: Targets,
    /// Of the sender's making: the same key is the same request, so that whoever lost the answer may ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<Uuid>,
}

/// What [`Undrain`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undrained {
    /// The hosts of those named that were not drained, RFC 29; a queue instance hands this to its parent, which has
    /// other ranks.
    pub others: String,
}

/// What [`Dead`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadRequest {
    /// Ranks or hosts, none of them in service unless by force.
    pub targets: Targets,
    /// Why they stay out of service, one line. Where nothing is said those that are drained stay so for the
    /// reason that they are.
    #[serde(default)]
    pub reason: String,
    /// Have the shells of those that are ended, and all that they started.
    #[serde(default)]
    pub force: bool,
}

/// What [`Vacate`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VacateRequest {
    /// The ranks, all of them drained.
    pub ranks: Idset,
}

/// An instance that goes on without nodes that it has yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vacated {
    /// Its job.
    pub job: JobId,
    /// Those of the ranks that it gives.
    pub ranks: Idset,
}

/// Ranks named by number or by host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Targets {
    /// By number.
    Ranks(Idset),
    /// By host, RFC 29.
    Hosts(String),
}
