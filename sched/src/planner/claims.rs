//! What is kept for those for whom others end, until they start.
//!
//! Called by the planner at the beginning of each pass and as jobs end. A claim is a promise from
//! now on of where its job goes; it ends with the start of the job, or when that waits no more, or
//! with the nodes. Which jobs end for whom is known from records, so that a planner made anew finds
//! the same claims again, perhaps on other nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::plan::{Mover, Outcome, Reason};
use eddy_wire::time::{Span, Time};

use super::taking::Standing;
use super::{Certainty, Place, Planner};
use crate::cleanup::CLEANUP;
use crate::occupancy::{Ask, Spot};
use crate::placement::Chosen;
use crate::turns::Turn;

/// One who holds something and is to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// For whom; for nobody if it ends anyway.
    pub by: Option<JobId>,
    /// When the last of it is killed.
    pub until: Time,
    pub certainty: Certainty,
}

/// What is kept for one.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub spot: Spot,
    span: Span,
    /// Those who are still to end.
    pub waits: BTreeSet<JobId>,
    /// To when it is promised.
    until: Time,
}

impl Planner {
    /// Those who end for the sake of a job.
    pub(super) fn ending_for(&self, job: JobId) -> impl Iterator<Item = JobId> + '_ {
        let ending = self.taking.ending.iter();
        ending
            .filter(move |(_, one)| one.by == Some(job))
            .map(|(of, _)| *of)
    }

    /// Those who end for it, or give it something, on those nodes. What else is to end for it may hang for long on
    /// nodes that it needs no more.
    fn awaited_on(&self, job: JobId, nodes: &BTreeSet<usize>) -> BTreeSet<JobId> {
        let awaited = self.awaited(job);
        awaited
            .filter(|of| self.gives_on(*of, job, nodes))
            .collect()
    }

    /// Whether one is to give something of those nodes to the other.
    fn gives_on(&self, of: JobId, to: JobId, nodes: &BTreeSet<usize>) -> bool {
        let ending = self.taking.ending.get(&of);
        let ends = ending.is_some_and(|one| one.by == Some(to)) && self.is_on(of, nodes);
        let leaving = self.taking.leaving.get(&of).into_iter().flatten();
        let mut given = leaving.filter(|one| one.by == Some(to));
        ends || given.any(|one| !self.places_of(&one.ranks).is_disjoint(nodes))
    }

    /// One is to give something for the sake of the other, whose claim may count on that.
    pub(super) fn counts_on(&mut self, by: JobId, of: JobId) {
        let Some(claim) = self.taking.claims.get(&by) else {
            return;
        };
        let nodes: BTreeSet<usize> = claim.spot.places().collect();
        if self.gives_on(of, by, &nodes)
            && let Some(claim) = self.taking.claims.get_mut(&by)
        {
            claim.waits.insert(of);
        }
    }

    /// Those who end for it, or give it nodes.
    pub(super) fn awaited(&self, job: JobId) -> impl Iterator<Item = JobId> + '_ {
        let leaving = self.taking.leaving.iter();
        let giving = leaving.filter(move |(_, all)| all.iter().any(|one| one.by == Some(job)));
        self.ending_for(job).chain(giving.map(|(of, _)| *of))
    }

    /// One who holds something is to end by then. For whom it ends is said once.
    pub(super) fn ends(
        &mut self,
        job: JobId,
        by: Option<JobId>,
        until: Time,
        certainty: Certainty,
    ) {
        let Some(holding) = self.holdings.get(&job) else {
            return;
        };
        if holding.certainty != Certainty::Held {
            return;
        }
        if let Some(owner) = &holding.owner {
            self.taking.holds_no_more(owner, job);
        }
        let known = self.taking.ending.get(&job);
        let ending = Ending {
            by: by.or(known.and_then(|known| known.by)),
            until,
            certainty,
        };
        self.taking.ending.insert(job, ending);
        if let Some(by) = ending.by {
            self.counts_on(by, job);
        }
    }

    /// It does not end before then: whoever counted on that waits on.
    pub(super) fn goes_on(&mut self, job: JobId, until: Time) {
        if self.holdings.contains_key(&job) {
            self.taking.kept.insert(job, until);
        }
        let mut heirs = self.goes_on_whole(job);
        let ending = self.taking.ending.get(&job);
        if ending.is_some_and(|ending| ending.certainty == Certainty::Proposed) {
            self.taking.ending.remove(&job);
            if let Some(holding) = self.holdings.get(&job)
                && let Some(owner) = &holding.owner
            {
                self.taking.holds(owner, job);
            }
            let claims = self.taking.claims.iter();
            let counting = claims.filter(|(_, claim)| claim.waits.contains(&job));
            heirs.extend(counting.map(|(by, _)| *by));
        }
        heirs.into_iter().for_each(|by| self.enter(by));
    }

    /// What it held is free.
    pub(super) fn ended_for(&mut self, job: JobId) {
        self.taking.forget(job);
        let ended = self.taking.ending.remove(&job).is_some();
        if ended | self.taking.leaving.remove(&job).is_some() {
            for claim in self.taking.claims.values_mut() {
                claim.waits.remove(&job);
            }
        }
    }

    /// Nothing is kept for it any more.
    pub(super) fn unclaim(&mut self, job: JobId) {
        if let Some(claim) = self.taking.claims.remove(&job) {
            self.occupancy.unclaim(&claim.spot);
            self.agenda.freed();
        }
    }

    /// This is kept for it: whoever was promised a part of it is promised something else.
    pub(super) fn claim(&mut self, turn: Turn, (ask, span): (&Arc<Ask>, Span), on: Vec<Chosen>) {
        let job = turn.job;
        let there = on.iter().flat_map(|one| self.occupancy.promised_on(one.at));
        let others = there.filter(|other| *other != job);
        let standing = Standing::of(&ask.want.owner);
        let stays = |other: &JobId| self.is_late(*other) && !self.displaces(&standing, *other);
        let promised: BTreeSet<JobId> = others.filter(|other| !stays(other)).collect();
        for other in promised {
            self.hindsight.moves(other, Mover::Job { job });
            match self.taking.prospects.contains_key(&other) {
                true => self.enter(other),
                false => self.unpromise(other, Some(Mover::Job { job })),
            }
        }
        self.leave_line(&turn, ask);
        let now = self.occupancy.now();
        let until = self.had_until(now, span);
        let nodes = on.iter().map(|one| one.at).collect();
        let claim = Claim {
            waits: self.awaited_on(job, &nodes),
            spot: self.occupancy.claim(ask, on, (now, until)),
            span,
            until,
        };
        self.taking.claims.insert(job, claim);
    }

    /// It is to be promised something else than it is, unless it has a claim.
    pub(super) fn unpromise(&mut self, job: JobId, by: Option<Mover>) {
        let turn = self.turn_of(job);
        if let Some(turn) = turn.filter(|_| !self.taking.is_out_of_line(job)) {
            self.unreserve(&turn, by);
        }
    }

    /// No pass looks for room for it.
    pub(super) fn leave_line(&mut self, turn: &Turn, ask: &Ask) {
        match &mut self.table {
            Some(table) => table.leave(turn, &ask.want.owner, &mut self.occupancy),
            None => {
                self.agenda.leave(turn, &mut self.occupancy);
            }
        }
    }

    /// To when one has what it takes from then on.
    pub(super) fn had_until(&self, from: Time, span: Span) -> Time {
        from.after(self.taking.grace()).after(CLEANUP).after(span)
    }

    /// Starts whoever waits for nobody any more, and keeps what others wait for.
    pub(super) fn settle_claims(&mut self, outcome: &mut Outcome) {
        if self.taking.claims.is_empty()
            && self.taking.ending.is_empty()
            && self.taking.leaving.is_empty()
        {
            return;
        }
        let now = self.occupancy.now();
        let claims: Vec<JobId> = self.taking.claims.keys().copied().collect();
        for job in claims {
            let claim = &self.taking.claims[&job];
            if claim.waits.is_empty() {
                self.start_claimed(job, outcome);
            } else if claim.until <= now.after(CLEANUP) {
                // Somebody does not end: it is kept on.
                self.enter(job);
            }
        }
        let ending = self.taking.ending.values().filter_map(|one| one.by);
        let leaving = self.taking.leaving.values().flatten();
        let heirs: BTreeSet<JobId> = ending.chain(leaving.filter_map(|one| one.by)).collect();
        for job in heirs {
            let waits = self.turn_of(job);
            if let Some(turn) = waits.filter(|_| !self.taking.claims.contains_key(&job)) {
                self.claim_again(turn);
            }
        }
    }

    fn start_claimed(&mut self, job: JobId, outcome: &mut Outcome) {
        let (ask, _) = self.ask_of(job);
        if let Some(stop) = self.occupancy.limit(&ask) {
            // The pass that begins after this forgets what its limits noted: it is said here.
            let again = self.occupancy.gate().ends(stop);
            outcome.again = outcome.again.into_iter().chain(again).min();
            return;
        }
        if let Some(claim) = self.taking.claims.remove(&job) {
            self.start(job, &claim.spot, claim.span, outcome);
        }
    }

    /// What ends for it is kept for it again, where that is enough.
    fn claim_again(&mut self, turn: Turn) {
        let standing = Standing::of(&self.waiting[&turn.job].want.owner);
        let (ask, span) = self.ask_of(turn.job);
        if let Some(sought) = self.seek((&turn, &standing), (&ask, span), &[]) {
            self.claim(turn, (&ask, span), sought.chosen);
        }
    }

    /// Why one waits for whom others end.
    pub(super) fn claimed(&self, job: JobId, now: Time) -> Option<Reason> {
        let claim = self.taking.claims.get(&job);
        // Where all are over it is a limit that it waits for.
        let claim = claim.filter(|claim| !claim.waits.is_empty())?;
        let last = self.last_of(job, &claim.waits).unwrap_or(now);
        Some(Reason::Preempting {
            jobs: claim.waits.iter().copied().collect(),
            others: 0,
            within: Span((last - now).0.max(0)),
        })
    }

    /// When it starts whose claim stands: as soon as the last is over.
    pub(super) fn claimed_start(&self, job: JobId) -> Option<Time> {
        let claim = self.taking.claims.get(&job)?;
        let last = self.last_of(job, &claim.waits);
        Some(last.unwrap_or(self.occupancy.now()).after(CLEANUP))
    }

    /// When the last of those for whom one waits has given what it is to give.
    fn last_of(&self, by: JobId, waits: &BTreeSet<JobId>) -> Option<Time> {
        let until = |job: &JobId| {
            // What ends gives its nodes with the rest.
            let ending = self.taking.ending.get(job).map(|one| one.until);
            let leaving = self.taking.leaving.get(job).into_iter().flatten();
            let leaving = leaving
                .filter(|one| one.by == Some(by))
                .map(|one| one.until);
            ending.or_else(|| leaving.max())
        };
        waits.iter().filter_map(until).max()
    }

    /// Those who have claims on such nodes wait on without.
    pub(super) fn drop_claims(&mut self, whose: impl Fn(&Planner, &Spot) -> bool) {
        let claims = self.taking.claims.iter();
        let lost = claims.filter(|(_, claim)| whose(self, &claim.spot));
        let lost: Vec<JobId> = lost.map(|(job, _)| *job).collect();
        for job in lost {
            if let Some(Place::Row(_)) = self.waiting.get(&job).map(|one| one.place) {
                self.enter(job);
            }
        }
    }
}
