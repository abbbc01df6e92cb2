//! What of a policy a replay obeys, and what it cannot.
//!
//! A policy with one queue is walked; one whose accounts take turns, or that takes
//! from those who run, is played in rounds over nodes; jobs that ask for more than
//! to be so many processors are planned as an instance plans. The replay obeys the
//! data and knows no name.

use thiserror::Error;

use super::replay::Scene;
use crate::amounts::KindsError;
use crate::policy::{Evict, Policy, Rung, Source, preset};
use crate::priority::FormulaError;
use crate::share::{BookError, TreeError};
use crate::usage::TariffError;

/// How a policy is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One queue is walked.
    Walk,
    /// Accounts take turns, in rounds over nodes.
    Rounds,
    /// The planner of an instance plans, with all that jobs ask of nodes.
    Planner,
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("policy: `{0}` is unknown; there are {NAMES} and the others of `eddy policy list`")]
pub struct UnknownPolicy(pub String);

/// Years that a replay may come to: a quarter of what a time can count.
pub(super) const LONGEST_PLAN: i64 = 70_000;

/// The names of published rows, as a sentence needs them.
const NAMES: &str = "fcfs, easy, easy-sjbf, easy-sjf, easy-saf, hybrid-K, cons, cons-compress";

/// Why a policy cannot be replayed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NotSimulated {
    /// More formulas than a turn holds.
    #[error("priority.order: {given} formulas are given; a replay obeys at most {allowed}")]
    Formulas {
        /// How many.
        given: usize,
        /// How many may be.
        allowed: usize,
    },
    /// A round needs nodes.
    #[error("works in rounds over nodes; give --resources with the nodes of the machine")]
    NeedsNodes,
    /// Somebody asks something of nodes.
    #[error("jobs have a jobspec, and ask for nodes; give --resources with those of the machine")]
    AskNodes,
    /// Times beyond what can be counted.
    #[error(
        "all that jobs may wait and run comes to more than {LONGEST_PLAN} years, the most that is played"
    )]
    TooLong,
    /// A round is for all that happens at an instant.
    #[error("works in rounds; --order is per-event, allowed is batch")]
    NeedsBatch,
    /// Owners that make no tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Weights that cannot be charged by.
    #[error(transparent)]
    Tariff(#[from] TariffError),
    /// Shares of what is not counted.
    #[error(transparent)]
    Book(#[from] BookError),
    /// Too many kinds.
    #[error(transparent)]
    Kinds(#[from] KindsError),
    /// A formula that is none.
    #[error("priority.order: {0}")]
    Formula(#[from] FormulaError),
}

/// The policy of a preset or of a published row: `hybrid-8` reserves for the first 8 blocked jobs.
///
/// # Errors
/// [`UnknownPolicy`] lists the names there are.
pub fn named(name: &str) -> Result<Policy, UnknownPolicy> {
    preset(name).ok_or_else(|| UnknownPolicy(name.to_owned()))
}

/// How a policy is replayed on a scene.
pub fn way(policy: &Policy, scene: Scene<'_>) -> Way {
    if !scene.workload.requests.is_empty() {
        return Way::Planner;
    }
    let takes = policy.placement.ladder.iter().any(|rung| match rung {
        Rung::Free => false,
        Rung::Evicted | Rung::Urgency => true,
    });
    let turns = match policy.queue.source {
        Source::Global | Source::ByQueue => false,
        Source::PerAccountCost | Source::PerAccountSlices { .. } => true,
    };
    match turns || takes || policy.queue.evict != Evict::Nothing {
        true => Way::Rounds,
        false => Way::Walk,
    }
}
