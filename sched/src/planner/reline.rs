//! The order of those who wait, made anew as time passes and usage changes.
//!
//! Called by the planner before a pass, and within one where each start weighs on
//! the next pick. Whoever holds a promise that stays keeps his turn.

use eddy_wire::id::JobId;
use eddy_wire::plan::SharesTold;
use eddy_wire::time::Time;

use super::{Lined, Order, Pass, Place, Planner, RELINE, RELINED_MAX, Waiting};
use crate::policy::{Reservations, Source, Walk, read};
use crate::table::Table;
use crate::turns::{Drift, Turn};
use crate::walk::{Agenda, Rules};

impl Planner {
    /// Makes the order of those who wait anew if it may not be true any more: by time, by what
    /// was used. Whoever has a promise that stays keeps his turn.
    pub(super) fn reline(&mut self, now: Time) {
        let rest = now - self.lined.at;
        let is_due = match (self.turns.drift(), self.lined.order) {
            (Drift::None, _) => false,
            (Drift::Time, _) | (Drift::Usage, Order::True) => rest >= self.policy.priority.refresh,
            (Drift::Usage, Order::Moved) => self.waiting.len() <= RELINED_MAX || rest >= RELINE,
        };
        if !is_due {
            return;
        }
        if self.turns.drift() == Drift::Usage {
            self.settle(now);
        }
        self.displace(now);
        for job in self.in_line() {
            let one = &self.waiting[&job];
            let turn = self.turns.turn(job, &one.want, now);
            let before = match one.place {
                Place::Turn(turn) => Some(turn),
                Place::Aside | Place::Below | Place::Beside => None,
            };
            let promised = before.is_some_and(|turn| self.agenda.booking(&turn).is_some());
            if turn != before && !(promised && self.keeps()) {
                self.enter(job);
            }
        }
        self.lined = Lined {
            at: now,
            order: Order::True,
        };
    }

    /// Makes what everybody is due anew.
    fn settle(&mut self, now: Time) {
        let owners = self.waiting.values().map(|one| &one.want.owner);
        let held = self.holdings.values();
        let held = held.map(|one| (&one.owner, one.set.as_ref(), one.until));
        self.turns.settle(owners, held, now);
    }

    /// What each account and user is due: the numbers by which those who wait are in line, where
    /// the policy asks for them.
    pub(super) fn told_shares(&mut self, now: Time) -> SharesTold {
        if self.turns.drift() != Drift::Usage || self.lined.at == Time(0) {
            self.settle(now);
        }
        SharesTold {
            tags: std::mem::take(&mut self.shares),
            rows: self.turns.shares(),
        }
    }

    /// Another policy: all who wait are lined up anew. What it cannot read it does not obey.
    pub(super) fn obey(&mut self, text: &str) {
        let Ok(policy) = read::read(text) else {
            return;
        };
        self.drop_promises(|_, _| true);
        self.agenda = Agenda::new(Rules::from(&policy.queue));
        self.table = Table::new(&policy);
        let now = self.occupancy.now();
        self.recharge(|planner| planner.turns.obey(&policy, now));
        self.occupancy.obey(&policy);
        self.policy = policy;
        self.pass = Pass::Over;
        for job in self.in_line() {
            if let Some(one) = self.waiting.get_mut(&job) {
                one.place = Place::Aside;
                self.enter(job);
            }
        }
        self.lined.order = Order::Moved;
    }

    /// Changes what runs cost; until now they are charged as before.
    pub(super) fn recharge(&mut self, change: impl FnOnce(&mut Planner)) {
        let now = self.occupancy.now();
        if now == Time(0) {
            // Nobody was charged yet.
            return change(self);
        }
        for one in self.holdings.values() {
            self.turns.ended(&one.owner, &one.set);
        }
        self.turns.at(now);
        change(self);
        for one in self.holdings.values() {
            self.turns.began(&one.owner, &one.set, now);
        }
    }

    /// Who waits for resources.
    fn in_line(&self) -> Vec<JobId> {
        let waits = |one: &Waiting| matches!(one.place, Place::Turn(_) | Place::Below);
        let waiting = self.waiting.iter().filter(|(_, one)| waits(one));
        waiting.map(|(job, _)| *job).collect()
    }

    fn keeps(&self) -> bool {
        self.policy.queue.reservations == Reservations::Kept
    }

    /// Takes promises back from those whom one behind them has overtaken by the policy's margin.
    fn displace(&mut self, now: Time) {
        if !self.keeps() || self.agenda.bookings().next().is_none() {
            return;
        }
        // Alone at its depth a promise goes to whoever is first.
        let margin = match self.policy.queue.walk {
            Walk::Reserve { depth: 1 } => 0.0,
            Walk::Stop | Walk::Skip | Walk::Reserve { .. } => self.policy.queue.displace_margin,
        };
        let turn = |one: &Waiting| match one.place {
            Place::Turn(turn) => Some(turn),
            Place::Aside | Place::Below | Place::Beside => None,
        };
        let mut turns: Vec<Turn> = self.waiting.values().filter_map(turn).collect();
        turns.sort_unstable();
        let mut best = f64::NEG_INFINITY;
        let mut lead = None;
        for turn in turns.into_iter().rev() {
            // Of a lower queue nobody overtakes, whatever the value.
            if self.policy.queue.source == Source::ByQueue
                && lead.replace(turn.lead()) != Some(turn.lead())
            {
                best = f64::NEG_INFINITY;
            }
            let own = self.turns.first_value(&self.waiting[&turn.job].want, now);
            if best > own + own.abs() * margin {
                self.agenda.unreserve(&turn, &mut self.occupancy);
            }
            best = best.max(own);
        }
    }
}
