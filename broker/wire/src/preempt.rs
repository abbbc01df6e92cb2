//! Taking from jobs that run: who may, and what is recorded when it happens.
//!
//! The planner is told the rules ([`Preempts`]) and names victims; what is decided is a record
//! ([`Preemption`]) before anything ends. It decides nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::account::Name;
use crate::id::{Attempt, JobId};
use crate::idset::Idset;
use crate::time::{Span, Time};

/// How often one job is taken from at most, but for those times that it was suspended, or gave some of its
/// nodes: it goes on.
pub const PREEMPTIONS_MAX: u32 = 3;

/// Why a running job ends for the sake of one that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// The job that needs the room.
    pub by: JobId,
    /// When the last of its tasks is killed; of one that is suspended, when it should have been stopped.
    pub until: Time,
    /// For what.
    #[serde(default)]
    pub cause: Cause,
    /// What becomes of it.
    #[serde(default)]
    pub mode: Mode,
    /// How long it was given, in microseconds.
    #[serde(default)]
    pub grace: i64,
    /// By which rule, one line.
    #[serde(default)]
    pub why: String,
}

impl Preemption {
    /// One line for people: `for job f3: QoS high preempts QoS low`.
    pub fn note(&self) -> String {
        format!("preempted for job {}: {}", self.by.f58_ascii(), self.why)
    }
}

/// Why an instance that runs goes on with fewer nodes: for the sake of a job that waits, or since they are to serve
/// no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shrink {
    /// The nodes that it gives: of the ranks of its grant, never that of its leader.
    pub ranks: Idset,
    /// The job that needs them, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<JobId>,
    /// When whatever is left there is killed.
    pub until: Time,
    /// For what.
    #[serde(default)]
    pub cause: Cause,
    /// How long it was given, in microseconds.
    #[serde(default)]
    pub grace: i64,
    /// By which rule, one line.
    #[serde(default)]
    pub why: String,
}

/// For what a job is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The other stands above it, by QoS or class.
    #[default]
    Urgency,
    /// Its account has more than its share.
    FairShare,
    /// The nodes are out of service, and somebody wants them back: of what an instance gives.
    Drain,
}

/// What becomes of a job that another takes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// It waits again, at its place.
    #[default]
    Requeue,
    /// It ends.
    Cancel,
    /// It gives its cores, and goes on when there are some.
    Suspend,
}

/// That a job was taken from, as everybody sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preempted {
    /// Which attempt.
    pub attempt: Attempt,
    /// When that was recorded.
    pub t: Time,
    /// For whom, and why.
    #[serde(flatten)]
    pub preemption: Preemption,
}

/// Who may take from whom, by QoS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preempts {
    /// The rules of each QoS that has any.
    pub qos: BTreeMap<Name, QosRule>,
    /// From TERM to KILL of those whose QoS says nothing, and of all at the end of their limits.
    pub grace: Span,
}

/// The rules of one QoS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosRule {
    /// The QoS whose jobs its jobs may take from.
    pub preempts: Vec<Name>,
    /// How long after its grant a job is not taken from.
    pub exempt: Span,
    /// From TERM to KILL of its jobs.
    pub grace: Option<Span>,
}
