//! The policies of published simulations, by name: combinations of policy data.
//!
//! The replay obeys the data and knows no name. A policy file gives the same data
//! ([`SimRules::queue`]) and may come with any [`JobOrder`].

use eddy_wire::time::Span;
use thiserror::Error;

use super::replay::Turn;
use super::workload::SimJob;
use crate::policy::{FillOrder, QueueRules, Reservations, Walk};
use crate::walk::Rules;

/// What a replay obeys.
#[derive(Clone, Debug, PartialEq)]
pub struct SimRules {
    /// How the queue is walked.
    pub queue: Rules,
    /// Whose turn is first.
    pub order: JobOrder,
}

/// An order of jobs that does not change while they wait; ties go by submission, then id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOrder {
    /// As they come.
    Arrival,
    /// Least time asked for first.
    Shortest,
    /// Least time x processors asked for first.
    SmallestArea,
}

impl JobOrder {
    /// The turn of a job of this place in the workload that is planned for so long.
    pub fn turn(self, job: &SimJob, span: Span, place: usize) -> Turn {
        let first = match self {
            JobOrder::Arrival => 0,
            JobOrder::Shortest => i128::from(span.0),
            JobOrder::SmallestArea => i128::from(span.0) * i128::from(job.procs),
        };
        Turn {
            first,
            submit: job.submit,
            id: job.id,
            place,
        }
    }
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("policy: `{0}` is unknown; there are {NAMES}")]
pub struct UnknownPolicy(pub String);

/// The names, as a sentence needs them.
const NAMES: &str = "fcfs, easy, easy-sjbf, easy-sjf, easy-saf, hybrid-K, cons and cons-compress";

impl SimRules {
    /// The rules of a published row: `hybrid-8` reserves for the first 8 blocked jobs.
    ///
    /// # Errors
    /// [`UnknownPolicy`] lists the names there are.
    pub fn named(name: &str) -> Result<SimRules, UnknownPolicy> {
        let easy = Walk::Reserve { depth: 1 };
        let all = Walk::Reserve { depth: Walk::ALL };
        let rules = |walk, fill_order, reservations, order| SimRules {
            queue: Rules {
                walk,
                fill_order,
                reservations,
                lookback: None,
                reserve_after: None,
                default_limit: None,
                window: None,
            },
            order,
        };
        let (by_turn, anew) = (FillOrder::Queue, Reservations::Replanned);
        Ok(match name {
            "fcfs" => rules(Walk::Stop, by_turn, anew, JobOrder::Arrival),
            "easy" => rules(easy, by_turn, anew, JobOrder::Arrival),
            "easy-sjbf" => rules(easy, FillOrder::Shortest, anew, JobOrder::Arrival),
            "easy-sjf" => rules(easy, by_turn, anew, JobOrder::Shortest),
            "easy-saf" => rules(easy, by_turn, anew, JobOrder::SmallestArea),
            "cons" => rules(all, by_turn, anew, JobOrder::Arrival),
            "cons-compress" => rules(all, by_turn, Reservations::Kept, JobOrder::Arrival),
            _ => {
                let depth = name.strip_prefix("hybrid-");
                let depth = depth.and_then(|depth| depth.parse().ok());
                let depth = depth.filter(|&depth: &u32| depth > 0);
                let depth = depth.ok_or_else(|| UnknownPolicy(name.to_owned()))?;
                rules(Walk::Reserve { depth }, by_turn, anew, JobOrder::Arrival)
            }
        })
    }

    /// The rules of the queue of a policy, with an order.
    pub fn of(queue: &QueueRules, order: JobOrder) -> SimRules {
        let queue = Rules::from(queue);
        SimRules { queue, order }
    }
}
