//! The end of a turn: planning, the batch for the journal, and one write to
//! each connection.
//!
//! Part of the loop. Waits for nothing.

use std::time::Instant;

use eddy_broker::Arrival;
use eddy_wire::time::Time;

use super::{Holding, Leader};
use crate::leader::store::Plan;

/// Slices worked at the end of one turn; what is left then is the thread's, so
/// that a long queue holds up nobody.
const SLICES_MAX: u32 = 4;

impl Leader {
    /// Plans, hands over the batch or lets it wait, writes answers.
    pub(super) fn finish_turn(&mut self) {
        let now = self.clock.now();
        self.plan(now);
        let plan = if self.planner.is_busy() {
            Plan::UnderWay
        } else {
            Plan::None
        };
        if self.store.is_due(Instant::now(), plan) {
            self.holding = Holding::Nothing;
            if self.store.is_mark_due() {
                self.handle(Arrival::Marking);
                self.settle();
            }
            if let Err(error) = self.store.send(now, &self.broker) {
                tracing::error!(%error, "the journal takes no more");
                self.end_fatally();
            }
        } else if let Some(at) = self.store.must_go_at() {
            let is_later = self.hold.deadline() > at.into();
            if self.holding == Holding::Nothing || is_later {
                self.hold.as_mut().reset(at.into());
            }
            self.holding = Holding::Batch;
        }
        self.peers.flush();
        self.tree.flush();
        if let Some(child) = &mut self.child {
            child.flush();
        }
        self.announce(now);
    }

    /// What a slice lets start may let another be asked for.
    fn plan(&mut self, now: Time) {
        for _ in 0..SLICES_MAX {
            let Some(outcome) = self.planner.ask(now) else {
                return;
            };
            self.handle(Arrival::Planned(outcome));
            self.settle();
        }
        self.planner.ask_thread(now);
    }
}
