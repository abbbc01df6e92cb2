//! What passes between the sched module and a planner: changes in, verdicts out.
//!
//! A planner owns its state, is fed every change, and answers with verdicts; a
//! verdict is a proposal until the sched module has recorded it (RFC 27 has
//! the same seam between job manager and scheduler).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::JobId;
use crate::idset::Idset;
use crate::jobspec::Request;
use crate::resource_set::ResourceSet;

/// One change of what a planner plans over. Each is safe to repeat.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// The whole inventory.
    Inventory(Arc<ResourceSet>),
    /// These ranks can be given work.
    Up(Idset),
    /// These ranks get no new work; what runs there goes on.
    Down(Idset, Unavailable),
    /// A job waits for resources at this priority (again: with this one).
    Want(JobId, i64, Request),
    /// It waits no longer.
    Unwant(JobId),
    /// A job holds these resources.
    Held(JobId, Arc<ResourceSet>),
    /// What it held is free.
    Freed(JobId),
}

/// Why a rank gets no new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unavailable {
    /// Its shell is not connected.
    Offline,
    /// An administrator took it out of service; its shell is connected, so
    /// what takes nothing still starts there.
    Drained,
}

/// What a planner found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Verdicts in the order in which they are to be recorded.
    pub verdicts: Vec<(JobId, Verdict)>,
    /// Why the first job that waits does so; those behind it wait for it.
    pub head: Option<(JobId, Reason)>,
    /// Whether the pass stopped at its bound of steps and wants to go on.
    pub unfinished: bool,
}

/// What is to become of one waiting job.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It can start now on these resources.
    Start(Arc<ResourceSet>),
    /// It can never start on this inventory.
    Never(Reason),
}

/// Why a job does not start: data that prints as one readable line. Jobs are
/// spelled as in listings, in the spelling that every terminal shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Reason {
    /// More of one resource on one node than any node has.
    #[error("asks for {asked} {what} on one node; the largest has {most}")]
    NeverOnOneNode {
        /// `cores`, `gpus` or `bytes of memory`.
        what: String,
        /// Asked for per node.
        asked: u64,
        /// The most any node of the instance has.
        most: u64,
    },
    /// More of one resource than the whole instance has.
    #[error("asks for {asked} {what}; the instance has {most}")]
    NeverInAll {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// In the instance.
        most: u64,
    },
    /// Only on ranks that are not all there.
    #[error("asks for ranks {ranks}, which the instance does not have")]
    NoSuchRanks {
        /// Those that are not there.
        ranks: Idset,
    },
    /// It takes nothing, and its ranks are not all to be asked.
    #[error("waits for ranks {ranks}, which are down")]
    RanksDown {
        /// Those whose shells are not connected.
        ranks: Idset,
    },
    /// It fits the instance, but not what is free now.
    #[error("waits for {asked} {what}; {free} are free now")]
    NoRoom {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// Free and usable now.
        free: u64,
    },
    /// It would fit if nodes that are out of service came back.
    #[error("waits for {asked} {what}; only {up} are in service (down or drained: ranks {away})")]
    NotInService {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// In service, free or not.
        up: u64,
        /// The ranks out of service.
        away: Idset,
    },
    /// First come, first served: an earlier job is first.
    #[error("waits behind job {}, which {why}", head.f58_ascii())]
    Behind {
        /// The first job of the queue.
        head: JobId,
        /// Why that one waits.
        why: String,
    },
    /// Its urgency is 0.
    #[error("is held: its urgency is 0 (`eddy job urgency {} 16` lets it go)", job.f58_ascii())]
    Held {
        /// The job.
        job: JobId,
    },
    /// It waits for something else to happen first.
    #[error("waits for {what}")]
    Dependency {
        /// What, in words.
        what: String,
    },
    /// The scheduler has not looked at it yet.
    #[error("is about to be considered")]
    New,
}
