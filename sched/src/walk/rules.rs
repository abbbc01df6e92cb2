//! What of a policy a walk obeys.
//!
//! Made of the rules of the queue; whose job is next, what is evicted and what is
//! limited is not the walk's.

use eddy_wire::time::Span;

use crate::policy::{FillOrder, QueueRules, Reservations, Walk};

/// What a walk obeys; the fields are those of [`QueueRules`].
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// What happens at a job that does not fit.
    pub walk: Walk,
    /// The order of those that fill gaps.
    pub fill_order: FillOrder,
    /// Whether reservations stay.
    pub reservations: Reservations,
    /// How often all is planned anew that is; `None` is in each pass.
    pub replan_every: Option<Span>,
    /// Jobs that are tried in a pass; `None` is all.
    pub lookback: Option<u32>,
    /// After this wait a job is given a reservation whatever the order.
    pub reserve_after: Option<Span>,
    /// The limit assumed of jobs that give none; `None` plans them as without end.
    pub default_limit: Option<Span>,
    /// How far ahead is planned; `None` is without end.
    pub window: Option<Span>,
}

impl Rules {
    /// For how long a job is planned that gives this limit.
    pub fn span(&self, limit: Option<Span>) -> Span {
        limit.or(self.default_limit).unwrap_or(Span(i64::MAX))
    }

    /// How many reservations there may be by the order of jobs.
    pub fn depth(&self) -> usize {
        match self.walk {
            Walk::Stop | Walk::Skip => 0,
            Walk::Reserve { depth: Walk::ALL } => usize::MAX,
            Walk::Reserve { depth } => depth as usize,
        }
    }
}

impl From<&QueueRules> for Rules {
    fn from(queue: &QueueRules) -> Rules {
        Rules {
            walk: queue.walk,
            fill_order: queue.fill_order,
            reservations: queue.reservations,
            replan_every: queue.replan_every,
            lookback: queue.lookback,
            reserve_after: queue.reserve_after,
            default_limit: queue.default_limit,
            window: queue.window,
        }
    }
}
