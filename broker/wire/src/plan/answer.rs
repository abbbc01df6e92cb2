//! What a planner answers to who asks why jobs wait, and when they would start.

use serde::{Deserialize, Serialize};

use super::{Reason, Suppose};
use crate::id::JobId;
use crate::idset::Idset;
use crate::jobspec::Sharing;
use crate::time::{Span, Time};

/// Why the jobs of a question wait, as far as they do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The question's.
    pub tag: u64,
    /// In the order of their turn.
    pub jobs: Vec<Explained>,
    /// How many more wait than are told of.
    pub more: u64,
    /// Those of the question's wants that wait for something else than resources, as if they waited for these.
    pub let_go: Vec<Explained>,
}

/// Why one waiting job waits, and what its turn comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The job.
    pub job: JobId,
    /// What binds it.
    pub reason: Reason,
    /// How many are ahead of it.
    pub ahead: u64,
    /// When it would start if nothing else came; `None` where that is not known.
    pub start: Option<Estimate>,
    /// That it was promised an earlier start when it was told of first; told while a planner remembers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// What its turn comes from.
    pub priority: Breakdown,
    /// Whether others may use what it leaves of the nodes that it asks for.
    #[serde(default, skip_serializing_if = "is_shared")]
    pub sharing: Sharing,
    /// By what it would start now, the least change of each kind; told where few are asked about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Suppose>,
    /// The nodes that it is not lent, since its limit is longer; told where few are asked about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lent: Vec<Lent>,
}

/// The home of an instance, of which jobs of others are given only if their limit is short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lent {
    /// Its name.
    pub instance: String,
    /// The longest limit of others' jobs there (`lend_max`); 0 is none.
    pub most: Span,
    /// Where that is, of what the job might be given otherwise.
    pub ranks: Idset,
}

fn is_shared(sharing: &Sharing) -> bool {
    *sharing == Sharing::Shared
}

/// When a job would start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// If all that runs ended now: when the reservations that keep it out are over, or begin that it names.
    pub earliest: Time,
    /// If all that runs and is ahead ran to its limit; `None` if something there has none.
    pub latest: Option<Time>,
    /// What that rests on.
    #[serde(default)]
    pub basis: Basis,
    /// Between when four of five such really started lately; `None` while too few did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely: Option<Likely>,
}

/// What a time that is told rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// It is kept for the job.
    Promise,
    /// It is only reckoned, as if nobody else came.
    #[default]
    Forecast,
}

/// A time between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Likely {
    /// The earlier.
    pub from: Time,
    /// The later.
    pub to: Time,
}

impl Likely {
    /// What is left of it where nothing happens before `earliest`; `None` if nothing is.
    #[must_use]
    pub fn not_before(self, earliest: Time) -> Option<Likely> {
        let from = self.from.max(earliest);
        (from <= self.to).then_some(Likely { from, ..self })
    }
}

/// That a start which was promised is later now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// By when it was promised.
    pub from: Time,
    /// For what it moved first.
    pub by: Mover,
}

/// For what a promised start moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Mover {
    /// A job came before it.
    Job {
        /// That one.
        job: JobId,
    },
    /// Nodes that it was to have are not in service.
    Nodes,
    /// A job on nodes that it was to have was given a longer time limit.
    Extension {
        /// That one.
        job: JobId,
    },
    /// A job came before it of which its user may not know.
    Another,
    /// A job of which its user may not know was given a longer time limit on nodes that it was to have.
    ExtensionOfAnother,
    /// Another policy is obeyed since, by which it has another time.
    Policy,
    /// Nobody came, and no node went: something runs on beyond its planned end.
    Overrun,
}

/// A value of a policy's formula, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// What the policy started from.
    pub policy: String,
    /// The value, the higher the earlier.
    pub value: f64,
    /// Its terms, in the order of the formula; they add up to the value.
    pub terms: Vec<Term>,
}

/// One term of a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// What it is of: `fair_share`, `wait`, or the text of the term.
    pub name: String,
    /// The factor, mostly 0 to 1.
    pub factor: f64,
    /// What the factor is multiplied by.
    pub weight: f64,
    /// What the term adds.
    pub contribution: f64,
}
