//! The end of a turn: planning, the batch for the journal, and one write to
//! each connection.
//!
//! Part of the loop. Waits for nothing.

use std::time::Instant;

use eddy_broker::Arrival;
use eddy_wire::time::Time;

use super::{Holding, Leader};
use crate::journal::Committed;
use crate::leader::planner::Place;
use crate::leader::store::Plan;

/// Slices worked at the end of one turn; what is left then is the thread's, so
/// that a long queue holds up nobody.
const SLICES_MAX: u32 = 4;

/// Commits made here at the end of one turn; what is due then is the next turn's.
const COMMITS_MAX: u32 = 4;

impl Leader {
    /// Plans, hands over the batch or lets it wait, writes answers.
    pub(super) fn finish_turn(&mut self) {
        let now = self.clock.now();
        self.plan(now);
        for _ in 0..COMMITS_MAX {
            let Some(committed) = self.hand_over(now) else {
                break;
            };
            self.committed(committed);
            self.settle();
            self.plan(now);
        }
        self.hold_batch();
        self.peers.flush();
        self.tree.flush();
        if let Some(child) = &mut self.child {
            child.flush();
        }
        self.announce(now);
    }

    /// Hands the batch to the journal if it is to go now; what became of it, if that is known.
    fn hand_over(&mut self, now: Time) -> Option<Committed> {
        let plan = match self.planner.is_busy() {
            true => Plan::UnderWay,
            false => Plan::None,
        };
        if !self.store.is_due(Instant::now(), plan) {
            return None;
        }
        if self.store.is_mark_due() {
            self.handle(Arrival::Marking);
            self.settle();
        }
        match self.store.send(now, &self.broker) {
            Ok(Some(committed)) => Some(committed),
            Ok(None) => {
                self.listings.given(Instant::now());
                None
            }
            Err(error) => {
                tracing::error!(%error, "the journal takes no more");
                self.end_fatally();
            }
        }
    }

    /// Sets the timer for a batch that waits.
    fn hold_batch(&mut self) {
        let Some(at) = self.store.must_go_at() else {
            return;
        };
        // One that ends earlier is as good, and setting it costs a call of the system: then it is
        // set again.
        let is_later = self.hold.deadline() > at.into();
        if self.holding == Holding::Nothing || is_later {
            self.hold.as_mut().reset(at.into());
        }
        self.holding = Holding::Batch;
    }

    /// What a slice lets start may let another be asked for.
    fn plan(&mut self, now: Time) {
        let mut slices = 0;
        loop {
            let place = match slices < SLICES_MAX {
                true => Place::Here,
                false => Place::Beside,
            };
            let Some(outcome) = self.planner.ask(now, place) else {
                return;
            };
            slices += 1;
            self.handle(Arrival::Planned(outcome));
            self.settle();
        }
    }
}
