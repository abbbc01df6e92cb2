//! The order of those who wait, made anew as time passes and usage changes.
//!
//! Called by the planner before a pass, and within one where each start weighs on
//! the next pick. Whoever holds a promise that stays is lined up with the others: only what he is promised stays.

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::plan::{Mover, SharesTold};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Span, Time};

use super::charges::{began, paid};
use super::rows::Apart;
use super::{Pass, Place, Planner, Rows, Waiting};
use crate::policy::{Reservations, Source, Walk, read};
use crate::table::Table;
use crate::turns::{Drift, Turn};
use crate::walk::{Agenda, Rules};

/// So many who wait and who hold something are lined up anew at each start and end; more of them as
/// there is credit for.
const RELINED_MAX: u64 = 1000;
/// What each start and end is credited with, in jobs lined up: what a start costs is bounded.
const CREDIT_EACH: u64 = 250;
/// And each microsecond: a sixth of a core at most is spent on it.
const CREDIT_MICRO: u64 = 1;
/// No more is saved up than a second brings: it is what a pass has that fills a machine which was idle.
const CREDIT_MAX: u64 = CREDIT_MICRO * MICROS.cast_unsigned();
/// All of them after this while in any case.
const RELINE: Span = Span::seconds(1);

/// Since when the order of those who wait is true.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lined {
    pub(super) at: Time,
    pub(super) order: Order,
    /// For how many there is credit, as of when.
    credit: (u64, Time),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    True,
    /// Somebody started or ended since.
    Moved,
}

impl Lined {
    /// Nobody waits.
    pub(super) fn new() -> Lined {
        Lined {
            at: Time(0),
            order: Order::True,
            credit: (0, Time(0)),
        }
    }

    /// Somebody started or ended.
    pub(super) fn moved(&mut self) {
        self.order = Order::Moved;
        self.earn(CREDIT_EACH);
    }

    fn earn(&mut self, jobs: u64) {
        let (credit, _) = &mut self.credit;
        *credit = credit.saturating_add(jobs).min(CREDIT_MAX);
    }

    /// It is now this time.
    fn at(&mut self, now: Time) {
        let passed = (now - self.credit.1).0.max(0).cast_unsigned();
        self.credit.1 = now;
        self.earn(passed.saturating_mul(CREDIT_MICRO));
    }

    /// So many were lined up now.
    fn spend(&mut self, jobs: u64, now: Time) {
        self.at = now;
        self.order = Order::True;
        self.credit.0 = self.credit.0.saturating_sub(jobs);
    }
}

impl Planner {
    /// Makes the order of those who wait anew if it may not be true any more: by time, by what
    /// was used.
    pub(super) fn reline(&mut self, now: Time) {
        self.lined.at(now);
        let rest = now - self.lined.at;
        let is_due = match (self.turns.drift(), self.lined.order) {
            (Drift::None, _) => false,
            (Drift::Time, _) | (Drift::Usage, Order::True) => rest >= self.policy.priority.refresh,
            (Drift::Usage, Order::Moved) => self.is_affordable() || rest >= RELINE,
        };
        if !is_due {
            return;
        }
        if self.turns.drift() == Drift::Usage {
            self.settle(now);
        }
        self.rows.refresh(&self.turns, now);
        self.displace();
        self.rekey();
        self.lined.spend(self.lined_up_anew(), now);
    }

    /// Whether it costs little to go over all of them, or enough has happened since.
    fn is_affordable(&self) -> bool {
        let all = self.lined_up_anew();
        all <= RELINED_MAX || all <= self.lined.credit.0
    }

    /// How many are gone over: who waits, and who pays for something.
    fn lined_up_anew(&self) -> u64 {
        (self.waiting.len() + self.holdings.len() + self.charged.len()) as u64
    }

    /// Makes what everybody is due anew.
    fn settle(&mut self, now: Time) {
        let held = self.holdings.values().chain(self.charged.values());
        // Up to what their grants say, which is within the instance also before it is recorded: what is kept free for
        // their end beyond that nobody is due to use.
        let assumed = self.policy.queue.default_limit;
        let end = |set: &ResourceSet| match (set.expiration, assumed) {
            (0, None) => Time(i64::MAX),
            (0, Some(limit)) => Time(set.starttime).after(limit),
            (end, _) => Time(end),
        };
        let held = held.filter_map(|one| Some((one.owner.as_ref()?, one.rate, end(&one.set))));
        self.turns.settle(self.owners.keys(), held, now);
    }

    /// What each account and user is due now. Those who wait stay in the line as it was made last: to ask changes
    /// nothing, and half of the numbers of then would go with no other half.
    pub(super) fn told_shares(&mut self, now: Time) -> SharesTold {
        let in_line = self.turns.clone();
        self.settle(now);
        let rows = self.turns.shares();
        self.turns = in_line;
        SharesTold {
            tags: std::mem::take(&mut self.shares),
            rows,
        }
    }

    /// Another policy: all who wait are lined up anew. What it cannot read it does not obey.
    pub(super) fn obey(&mut self, text: &str) {
        let Ok(policy) = read::read(text) else {
            return;
        };
        self.drop_promises(None, |_, _| true);
        self.hindsight.all_stand_back(Mover::Policy);
        self.agenda = Agenda::new(Rules::from(&policy.queue));
        self.table = Table::new(&policy);
        let now = self.occupancy.now();
        self.recharge(|planner| planner.turns.obey(&policy, now));
        self.occupancy.obey(&policy);
        self.rows = Rows::new(&self.turns);
        self.policy = policy;
        self.weigh();
        self.pass = Pass::Over;
        for job in self.in_line() {
            if let Some(one) = self.waiting.get_mut(&job) {
                one.place = Place::Aside;
                self.enter(job);
            }
        }
        self.lined.order = Order::Moved;
        self.arm(None);
    }

    /// What accounts weigh where they take turns.
    pub(super) fn weigh(&mut self) {
        if let Some(table) = &mut self.table {
            table.weigh(self.turns.weights());
        }
    }

    /// Changes what runs cost; until the pass that follows they are charged as before.
    pub(super) fn recharge(&mut self, change: impl FnOnce(&mut Planner)) {
        // Not by the time of the last pass: what was told of since may have begun later.
        for (job, owner, set, _) in paid(&mut self.holdings, &mut self.charged) {
            self.turns.ended(job, owner, set);
        }
        change(self);
        let now = self.occupancy.now();
        for (job, owner, set, rate) in paid(&mut self.holdings, &mut self.charged) {
            *rate = self.turns.began(job, owner, set, began(set, now));
        }
    }

    /// Who waits for resources and has no claim on any.
    fn in_line(&self) -> Vec<JobId> {
        let waits = |one: &Waiting| matches!(one.place, Place::Row(_));
        let waiting = self.waiting.iter().filter(|(_, one)| waits(one));
        let waiting = waiting.map(|(job, _)| *job);
        waiting
            .filter(|job| !self.taking.is_out_of_line(*job))
            .collect()
    }

    fn keeps(&self) -> bool {
        self.policy.queue.reservations == Reservations::Kept
    }

    /// Gives everybody the turn of the values made just now.
    fn rekey(&mut self) {
        if self.table.is_some() {
            return self.reseat();
        }
        let (rows, turns) = (&self.rows, &self.turns);
        let fetch = |turn: &Turn| rows.fetch(turn);
        let anew = |turn: &Turn, fetched| rows.anew(turn, fetched, turns);
        self.agenda.rekey(fetch, anew);
        let anew = |turn: &Turn| anew(turn, fetch(turn));
        self.agenda.rekey_booked(&mut self.occupancy, anew);
        let claims: Vec<Turn> = self.out_of_line().collect();
        let apart = self.rows.apart(claims.iter());
        self.rows.stand(&self.turns, &apart);
        let rows = &self.rows;
        self.agenda.follow_booked(|turn| rows.current(turn));
        self.agenda.follow(|turn| rows.current(turn));
        for turn in self.rows.risen(&self.turns) {
            let (entry, limit) = self.entry_of(turn.job);
            self.agenda.enter(turn, entry, limit, &self.occupancy);
        }
    }

    /// Those who have a promise, and those for whom others end.
    fn apart(&self) -> Apart {
        let claims: Vec<Turn> = self.out_of_line().collect();
        let promised = self.agenda.bookings().map(|(turn, _)| turn);
        self.rows.apart(promised.chain(&claims))
    }

    /// The same at the table.
    fn reseat(&mut self) {
        for job in self.in_line() {
            let moved = match self.waiting[&job].place {
                Place::Row(row) => self.rows.has_moved(row, &self.turns),
                Place::Aside | Place::Gathered | Place::Beside => false,
            };
            if moved {
                self.enter(job);
            }
        }
    }

    /// Whether queues decide before values.
    fn is_by_queue(&self) -> bool {
        self.policy.queue.source == Source::ByQueue
    }

    /// Whether what it is promised is promised whatever the order.
    pub(super) fn waits_too_long(&self, job: JobId) -> bool {
        let since = self.waiting.get(&job).map(|one| one.want.eligible);
        let after = self.policy.queue.reserve_after;
        let waited = since.map(|since| self.occupancy.now() - since);
        waited
            .zip(after)
            .is_some_and(|(waited, after)| waited >= after)
    }

    /// Takes promises back from those whom another who waits has overtaken by the policy's margin: one
    /// without a promise, or with one of a later time.
    fn displace(&mut self) {
        if !self.keeps() || self.agenda.bookings().next().is_none() {
            return;
        }
        // Alone at its depth a promise goes to whoever is first.
        let margin = match self.policy.queue.walk {
            Walk::Reserve { depth: 1 } => 0.0,
            Walk::Stop | Walk::Skip | Walk::Reserve { .. } => self.policy.queue.displace_margin,
        };
        // The best of each queue of those without a promise. Who is ahead may be kept from starting by a
        // promise all the same: he came later, or is due more now.
        let is_by_queue = self.is_by_queue();
        let lead = |turn: &Turn| match is_by_queue {
            true => turn.lead(),
            false => 0,
        };
        let mut best: BTreeMap<i64, (f64, JobId)> = BTreeMap::new();
        let apart = self.apart();
        let values = self.rows.weights(&apart);
        match is_by_queue {
            true => values.for_each(|(turn, value)| {
                let best = best.entry(turn.lead()).or_insert(NONE);
                *best = better(*best, (value, turn.job));
            }),
            false => {
                let values = values.map(|(turn, value)| (value, turn.job));
                best.insert(0, values.fold(NONE, better));
            }
        }
        let booked = self.agenda.bookings();
        let mut promised: Vec<(Time, Turn)> = booked.map(|(turn, one)| (one.at, *turn)).collect();
        promised.sort_unstable();
        let mut lost = BTreeMap::new();
        for (_, turn) in promised.iter().rev() {
            // Whoever is promised a later time counts as those without a promise.
            lost.extend(self.overtaken(turn, &best, margin).map(|job| (*turn, job)));
            let best = best.entry(lead(turn)).or_insert(NONE);
            *best = better(*best, (self.rows.weight(turn), turn.job));
        }
        // Who loses his waits without one. Those who are due less would be moved into his place.
        let mut before = BTreeMap::new();
        for (_, turn) in &promised {
            let by = lost.get(turn).copied();
            let Some(job) = by.or_else(|| self.overtaken(turn, &before, margin)) else {
                continue;
            };
            let best = before.entry(lead(turn)).or_insert(NONE);
            *best = better(*best, (self.rows.weight(turn), turn.job));
            self.hindsight.moves(turn.job, Mover::Job { job });
            self.agenda.unreserve(turn, &mut self.occupancy);
        }
    }

    /// Who takes what one was promised: the best of these, if he is due so much more. Who has waited too long keeps
    /// his, whoever is due more.
    fn overtaken(
        &self,
        turn: &Turn,
        best: &BTreeMap<i64, (f64, JobId)>,
        margin: f64,
    ) -> Option<JobId> {
        let lead = match self.is_by_queue() {
            true => turn.lead(),
            false => 0,
        };
        let own = self.rows.weight(turn);
        let of_higher = best.first_key_value().filter(|(at, _)| **at < lead);
        let of_higher = of_higher.map(|(_, (_, by))| *by);
        let by_value = best
            .get(&lead)
            .filter(|best| best.0 > own + own.abs() * margin);
        let by = of_higher.or(by_value.map(|best| best.1));
        by.filter(|_| !self.waits_too_long(turn.job))
    }
}

/// Nobody.
const NONE: (f64, JobId) = (f64::NEG_INFINITY, JobId(0));

/// Whoever of two has the higher value.
fn better(one: (f64, JobId), other: (f64, JobId)) -> (f64, JobId) {
    match other.0 > one.0 {
        true => other,
        false => one,
    }
}
