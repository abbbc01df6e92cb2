//! Queues: who may submit what to one, what a job gets there that says nothing, and whether it
//! takes submissions and starts jobs just now.
//!
//! Values only. The configuration gives [`Rules`]; administrators turn a queue on and off
//! ([`Turned`]), records keep that, and who needs to know folds them into [`Gates`]: ingest (what
//! is taken), sched (what starts, and since when a job waited), listings.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::account::{Limits, Name};
use crate::constraint::Constraint;
use crate::time::{Span, Time};

/// Those jobs that name no queue, as if it were the name of theirs.
pub const UNNAMED: &str = "root";
/// Longest reason in bytes.
pub const REASON_BYTES_MAX: usize = 256;

/// What holds for the jobs of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rules {
    /// What the policy's factor `queue` is of its jobs.
    pub priority: f64,
    /// Fewest nodes of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_nodes: Option<u32>,
    /// Most nodes of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_nodes: Option<u32>,
    /// Most cores of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cores: Option<u32>,
    /// Longest time limit of a job; one without a limit is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Span>,
    /// What all its jobs together may have.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// What each user may have in it.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub user_limits: Limits,
    /// These QoS and no others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<BTreeSet<Name>>,
    /// Its jobs start only on nodes that have each of these properties; one that begins with `^` they
    /// must not have (RFC 31, `properties`).
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub requires: BTreeSet<String>,
    /// Open to these users; with `accounts`, to both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<BTreeSet<u32>>,
    /// Open to these accounts and those under them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounts: Option<BTreeSet<Name>>,
    /// The time limit of a job that has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Span>,
    /// The account of a job that names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_account: Option<Name>,
    /// The QoS of a job that names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_qos: Option<Name>,
    /// The class of a job that names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_class: Option<Name>,
}

impl Rules {
    /// What nodes must be like for its jobs, if it says that.
    pub fn required(&self) -> Option<Constraint> {
        let names = self.requires.iter().cloned();
        (!self.requires.is_empty()).then(|| Constraint::Properties(names.collect()))
    }

    /// Whether nothing is asked of its jobs, and nothing given.
    pub fn is_empty(&self) -> bool {
        let priority = self.priority;
        *self
            == Rules {
                priority,
                ..Rules::default()
            }
    }
}

/// What an administrator does to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// It takes submissions.
    Enable,
    /// It takes none.
    Disable,
    /// Its jobs start.
    Start,
    /// None of them starts.
    Stop,
}

/// That it was done, as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turned {
    /// The queue; [`UNNAMED`] is those jobs that name none.
    pub queue: String,
    /// What.
    pub turn: Turn,
    /// Why, one line; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// User id of who did it.
    pub userid: u32,
}

/// That a queue is shut, one way or the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shut {
    /// Since when.
    pub t: Time,
    /// Why; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Who did it.
    pub userid: u32,
}

/// Whether a queue takes submissions and starts jobs. Nothing said is both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// That it takes no submissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Shut>,
    /// That it starts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Shut>,
    /// For how long it was stopped before that, all times together.
    #[serde(default, skip_serializing_if = "is_none")]
    pub before: Span,
}

fn is_none(span: &Span) -> bool {
    *span == Span::ZERO
}

impl Gate {
    /// Whether nothing was ever done to it, as far as it tells.
    pub fn is_open(&self) -> bool {
        *self == Gate::default()
    }

    /// For how long it was stopped until then, all times together.
    fn stopped_until(&self, t: Time) -> Span {
        let since = self.stopped.as_ref().map_or(t, |shut| shut.t);
        Span(self.before.0 + (t - since).0.max(0))
    }

    /// Whether `turned` changes nothing but when.
    pub fn is_so(&self, turned: &Turned) -> bool {
        let same = |shut: &Option<Shut>| {
            let reason = shut.as_ref().map(|shut| &shut.reason);
            reason == Some(&turned.reason)
        };
        match turned.turn {
            Turn::Enable => self.disabled.is_none(),
            Turn::Disable => same(&self.disabled),
            Turn::Start => self.stopped.is_none(),
            Turn::Stop => same(&self.stopped),
        }
    }

    /// Folds what was done at `t`.
    pub fn apply(&mut self, t: Time, turned: &Turned) {
        let shut = |before: &Option<Shut>| {
            Some(Shut {
                // Another reason is no other time.
                t: before.as_ref().map_or(t, |shut| shut.t),
                reason: turned.reason.clone(),
                userid: turned.userid,
            })
        };
        match turned.turn {
            Turn::Enable => self.disabled = None,
            Turn::Disable => self.disabled = shut(&self.disabled),
            Turn::Stop => self.stopped = shut(&self.stopped),
            Turn::Start => {
                self.before = self.stopped_until(t);
                self.stopped = None;
            }
        }
    }
}

/// The gates of all queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    of: BTreeMap<String, Gate>,
}

impl Gates {
    /// Folds what was done at `t`.
    pub fn apply(&mut self, t: Time, turned: &Turned) {
        let gate = self.of.entry(turned.queue.clone()).or_default();
        gate.apply(t, turned);
    }

    /// That of a queue, if anything was ever done to it.
    pub fn gate(&self, queue: &str) -> Option<&Gate> {
        self.of.get(queue)
    }

    /// Why a queue takes nothing; `None` if it does.
    pub fn disabled(&self, queue: &str) -> Option<&Shut> {
        self.gate(queue)?.disabled.as_ref()
    }

    /// Why nothing of a queue starts; `None` if it does.
    pub fn stopped(&self, queue: &str) -> Option<&Shut> {
        self.gate(queue)?.stopped.as_ref()
    }

    /// For how long a queue was stopped until then, all times together: between two instants the
    /// difference is what its jobs did not wait for resources.
    pub fn stopped_until(&self, queue: &str, t: Time) -> Span {
        let gate = self.gate(queue);
        gate.map_or(Span::ZERO, |gate| gate.stopped_until(t))
    }

    /// The queues to which something was ever done.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.of.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(turn: Turn, reason: &str) -> Turned {
        Turned {
            queue: "debug".to_owned(),
            turn,
            reason: reason.to_owned(),
            userid: 7,
        }
    }

    #[test]
    fn what_was_stopped_adds_up_and_another_reason_begins_nothing_anew() {
        let mut gates = Gates::default();
        let of = "debug";
        gates.apply(Time(10), &turned(Turn::Stop, "a"));
        gates.apply(Time(15), &turned(Turn::Stop, "b"));
        assert_eq!(
            gates.stopped(of).map(|shut| shut.reason.as_str()),
            Some("b")
        );
        assert_eq!(gates.stopped_until(of, Time(20)), Span(10));
        gates.apply(Time(20), &turned(Turn::Start, ""));
        gates.apply(Time(20), &turned(Turn::Start, ""));
        gates.apply(Time(30), &turned(Turn::Stop, ""));
        assert_eq!(gates.stopped_until(of, Time(31)), Span(11));
        assert_eq!(gates.stopped_until(UNNAMED, Time(31)), Span::ZERO);
        assert!(gates.disabled(of).is_none());
    }
}
