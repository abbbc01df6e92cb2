//! What one who waits will have as soon as those whom he may take from are exempt no more.
//!
//! Asked by `preempt` where nobody can make room now. Who begins by the same outcome on a part of it, and would be
//! ended for it then, is taken back (`proposals`), and a prospect keeps the place: a promise from that time on,
//! so that what is over by then may begin there. It stands until something happens. Then its job is looked at by
//! the walk as all others are, and whether there is a prospect yet is found anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::plan::{Delta, Explained, Mover, Outcome, Reason};
use eddy_wire::time::{Span, Time};

use super::preempt::Holder;
use super::taking::{Armed, Standing};
use super::victims::{Candidate, Sought};
use super::{Pass, Planner, gifts};
use crate::cleanup::CLEANUP;
use crate::occupancy::{Ask, Spot};
use crate::policy::Walk;
use crate::turns::Turn;

/// So many have prospects at a time.
const PROSPECTS_MAX: usize = 64;

/// What one will have.
#[derive(Clone, Debug)]
pub(super) struct Prospect {
    /// When all those may be taken from.
    at: Time,
    spot: Spot,
}

/// Whether somebody does not begin for the sake of a prospect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expects {
    Nothing,
    Something,
}

impl Planner {
    /// Those do not begin by this outcome from whom this one would take as soon as others may be taken from,
    /// too.
    pub(super) fn expect(
        &mut self,
        (turn, standing): (Turn, &Standing),
        (ask, span): (&Arc<Ask>, Span),
        outcome: &mut Outcome,
    ) -> Expects {
        let starts = self.retractable(standing, outcome);
        if starts.is_empty() || self.taking.prospects.len() >= PROSPECTS_MAX {
            return Expects::Nothing;
        }
        let Some((at, sought)) = self.sighted((&turn, standing), (ask, span), &starts) else {
            return Expects::Nothing;
        };
        let victims: BTreeSet<JobId> = sought.victims.iter().map(|one| one.job).collect();
        let begin = starts.into_iter().filter(|job| victims.contains(job));
        let begin: Vec<JobId> = begin.collect();
        if begin.is_empty() {
            return Expects::Nothing;
        }
        for job in begin {
            self.retract(job, outcome);
        }
        // There may be room elsewhere for who did not begin.
        outcome.unfinished = true;
        self.make_way((&turn, standing), ask, &sought);
        let until = self.had_until(at, span);
        let spot = self.occupancy.claim(ask, sought.chosen, (at, until));
        self.taking
            .prospects
            .insert(turn.job, Prospect { at, spot });
        Expects::Something
    }

    /// Where one is to be nothing is promised to others whom he need not heed, nor to himself.
    fn make_way(&mut self, (turn, standing): (&Turn, &Standing), ask: &Ask, sought: &Sought) {
        let on = sought.chosen.iter().map(|one| one.at);
        let there = on.flat_map(|at| self.occupancy.promised_on(at));
        let unheeded = there.filter(|other| !self.heeds_then(turn, standing, *other));
        let unheeded: BTreeSet<JobId> = unheeded.filter(|other| *other != turn.job).collect();
        let by = Some(Mover::Job { job: turn.job });
        unheeded
            .into_iter()
            .for_each(|other| self.unpromise(other, by));
        if !self.keeps_in_line() {
            self.leave_line(turn, ask);
        }
    }

    /// Whether one with a prospect stays in the line: where nobody passes who is ahead, those behind him would.
    fn keeps_in_line(&self) -> bool {
        self.policy.queue.walk == Walk::Stop && self.table.is_none()
    }

    /// The first time at which some are exempt no more with whom there would be room, and who would go then.
    /// Those who begin are the first to.
    fn sighted(
        &self,
        who: (&Turn, &Standing),
        what: (&Arc<Ask>, Span),
        starts: &[JobId],
    ) -> Option<(Time, Sought)> {
        let now = self.occupancy.now();
        let below = self.holders_below(who.1);
        let later = below.iter().map(|one| one.open).filter(|open| *open > now);
        let times: BTreeSet<Time> = later.collect();
        let times: Vec<Time> = times.into_iter().collect();
        let seek = |at: Time| self.seek_at(who, what, (at, starts), &below);
        let mut last = times.len().checked_sub(1)?;
        let mut found = seek(times[last])?;
        // There are more of them as time goes on, so halving finds the first.
        let mut first = 0;
        while first < last {
            let middle = first + (last - first) / 2;
            match seek(times[middle]) {
                Some(sooner) => (last, found) = (middle, sooner),
                None => first = middle + 1,
            }
        }
        // Where what is free by then is enough nobody goes.
        (!found.victims.is_empty()).then(|| (times[last], found))
    }

    /// Who goes at a time so that it fits, of those who may be taken from then and have not ended.
    fn seek_at(
        &self,
        who: (&Turn, &Standing),
        what: (&Arc<Ask>, Span),
        (at, starts): (Time, &[JobId]),
        below: &[Holder],
    ) -> Option<Sought> {
        let is_there = |job: JobId| self.holdings[&job].until > at;
        let open = below.iter().filter(|one| one.open <= at);
        let open = open.filter(|one| is_there(one.job())).copied();
        let starts = starts.iter().copied().filter(|job| is_there(*job));
        let starts = starts.map(|job| self.candidate(job, 0));
        let all = starts.chain(self.lined_up(open.collect()));
        let candidates: Vec<Candidate> = all.filter(|one| !one.parts.is_empty()).collect();
        let mut back = self.coming_for(who.0.job);
        back.extend(self.coming_anyway());
        gifts::least(
            self.search(who, what, &candidates, (at, &back)),
            &candidates,
        )
    }

    /// Whether one who takes later keeps off what is promised to another. Nothing is expected in the place of what
    /// another expects, or each would find it anew for ever in the place of the other.
    pub(super) fn heeds_then(&self, turn: &Turn, standing: &Standing, other: JobId) -> bool {
        let expects = other != turn.job && self.taking.prospects.contains_key(&other);
        expects || self.heeds(turn, standing, other)
    }

    /// What it waits for whom the end of an exemption will help, and when it starts by that at the latest.
    pub(super) fn tell_prospect(&self, turn: Turn, one: &mut Explained, now: Time) {
        let want = &self.waiting[&turn.job].want;
        let (ask, span) = self.ask_of(turn.job);
        let takes = self.taking.armed == Armed::Yes && want.gang.is_none();
        if !takes || ask.need.sockets.is_some() || !matches!(one.reason, Reason::NoRoom { .. }) {
            return;
        }
        let standing = Standing::of(&want.owner);
        let Some((at, sought)) = self.sighted((&turn, &standing), (&ask, span), &[]) else {
            return;
        };
        let victims = sought.victims.iter().map(|victim| victim.job);
        let jobs = victims.filter(|job| self.is_exempt(*job, now)).collect();
        let within = Span((at - now).0);
        one.reason = Reason::Exempt {
            jobs,
            others: 0,
            within,
        };
        if let Some(start) = &mut one.start {
            let then = self.taken_by(at);
            start.latest = Some(start.latest.map_or(then, |latest| latest.min(then)));
        }
    }

    fn is_exempt(&self, job: JobId, now: Time) -> bool {
        let owner = self.holdings[&job].owner.as_ref();
        let standing = owner.map(Standing::of);
        standing.is_some_and(|one| self.exempt_until(job, self.qos_of(&one)) > now)
    }

    /// When those are over at the latest who are named then.
    pub(super) fn taken_by(&self, at: Time) -> Time {
        at.after(self.taking.grace()).after(CLEANUP)
    }

    /// When it starts at the latest that has a prospect.
    pub(super) fn expected_start(&self, job: JobId) -> Option<Time> {
        let prospect = self.taking.prospects.get(&job)?;
        Some(self.taken_by(prospect.at))
    }

    /// When those who have prospects take.
    pub(super) fn expected(&self) -> impl Iterator<Item = (JobId, Time)> + '_ {
        let prospects = self.taking.prospects.iter();
        prospects.map(|(job, prospect)| (*job, prospect.at))
    }

    /// The turns of those for whom no pass looks for room, since it is known what they will have.
    pub(super) fn out_of_line(&self) -> impl Iterator<Item = Turn> + '_ {
        let prospects = self.taking.prospects.keys();
        let prospects = prospects.filter(|_| !self.keeps_in_line());
        let all = self.taking.claims.keys().chain(prospects);
        all.filter_map(|job| self.turn_of(*job))
    }

    /// Something is to happen of which prospects know nothing. What was only proposed and is recorded now is
    /// nothing new.
    pub(super) fn hear(&mut self, delta: &Delta) {
        match delta {
            Delta::Held(..) | Delta::Used(_) | Delta::Past(_) | Delta::Settled(..) => {}
            Delta::Explain(_) | Delta::Shares(_) => {}
            _ => self.expect_nothing(),
        }
    }

    /// It is later now: what was a prospect may be had.
    pub(super) fn expect_until(&mut self, now: Time) {
        let mut prospects = self.taking.prospects.values();
        if prospects.any(|prospect| prospect.at <= now) {
            self.expect_nothing();
        }
    }

    /// All who had prospects are looked at as others are.
    pub(super) fn expect_nothing(&mut self) {
        if self.taking.prospects.is_empty() {
            return;
        }
        let jobs: Vec<JobId> = self.taking.prospects.keys().copied().collect();
        jobs.into_iter().for_each(|job| self.enter(job));
        if self.pass == Pass::Current {
            self.pass = Pass::Stale;
        }
    }

    /// Nothing is kept for it any more.
    pub(super) fn expects_no_more(&mut self, job: JobId) {
        if let Some(prospect) = self.taking.prospects.remove(&job) {
            self.occupancy.unclaim(&prospect.spot);
            self.agenda.freed();
        }
    }
}
