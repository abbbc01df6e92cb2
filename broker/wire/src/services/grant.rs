//! Requests of an instance about what it holds of the instance around it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::resource::Targets;
use super::service;
use crate::id::{JobId, Rank};
use crate::idset::Idset;
use crate::message::Roles;

service!(
    /// Gives nodes back to the instance around it, each when nothing runs there any more; answered
    /// with the ranks that it is about, before they are gone.
    Release, "grant.release", Roles::OWNER.or(Roles::ADMIN), ReleaseRequest => Idset
);
service!(
    /// What it holds.
    List, "grant.list", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), () => Vec<GrantRow>
);

service!(
    /// Waits for the nodes that a job of the instance around it is ground for it on: answered with
    /// their ranks once all of them are in service.
    Arrive, "grant.arrive", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), ArriveRequest => Idset
);

/// What [`Arrive`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArriveRequest {
    /// The job, of the instance around this one.
    pub job: JobId,
}

/// What [`Release`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// Which nodes.
    pub nodes: Which,
    /// Of the sender's making: the same key is the same request, so that whoever lost the answer may ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<Uuid>,
}

/// Which nodes go back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// These.
    Named(Targets),
    /// So many: those first on which the fewest jobs run, of those the last.
    Count(u32),
}

/// One node of the grant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrantRow {
    /// Its rank in the instance that holds it.
    pub rank: Rank,
    /// Its host.
    pub host: String,
    /// How many cores of it are held.
    pub ncores: u32,
    /// How many GPUs.
    pub ngpus: u32,
    /// Jobs that run there.
    pub jobs: u32,
    /// The job of the instance around this one by which it is held, where this instance is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<JobId>,
    /// Whether it stays.
    pub state: GrantState,
}

/// Whether a node of a grant stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantState {
    /// The leader runs there: it is given back with the instance only.
    Leader,
    /// It is held.
    Held,
    /// It goes back when nothing runs there any more.
    Leaving,
}
