//! Nodes that are closed for a while, and what a planner beside this one is to know.
//!
//! Told by the calendar that this planner is a part of.

use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::plan::{Breakdown, Delta, Outcome, Reason, Stay, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use super::held::{rested, resting};
use super::{Certainty, Pass, Planner};
use crate::occupancy::{Cause, Closure};
use crate::turns::Turn;
use crate::walk::Rules;

impl Planner {
    /// Nobody starts on these nodes from a time to a time, nor before it what ends later.
    pub(crate) fn close(&mut self, closure: Closure) {
        self.stir();
        let ranks = closure.ranks.clone();
        self.drop_promises(None, |occupancy, spot| {
            let mut nodes = spot.places().map(|at| occupancy.inventory().node(at));
            nodes.any(|node| ranks.contains(node.rank.0))
        });
        self.occupancy.close(closure);
    }

    /// The reservation of this name closes nothing any more.
    pub(crate) fn reopen(&mut self, name: &Name) {
        self.stir();
        self.occupancy.reopen(name);
        self.agenda.freed();
    }

    /// Until when there is what there is: nobody starts who would not have ended.
    pub(super) fn stays(&mut self, stay: &Stay) {
        self.stir();
        self.occupancy.stays(stay);
        for going in &stay.goes {
            // Whoever is planned until then is over by his limit before.
            self.close(Closure {
                cause: Cause::Goes(going.at),
                from: going.at.after(self.cleanup()),
                until: Time(i64::MAX),
                ranks: going.ranks.clone(),
            });
        }
        self.agenda.freed();
    }

    /// It is later now: what is over is open.
    pub(super) fn lapse(&mut self) {
        if self.occupancy.lapse() {
            self.stir();
            self.agenda.freed();
        }
    }

    /// Something is otherwise than the pass under way knows.
    fn stir(&mut self) {
        self.expect_nothing();
        if self.pass == Pass::Current {
            self.pass = Pass::Stale;
        }
        if let Some(table) = &mut self.table {
            table.stir();
        }
    }

    /// What there is to plan over.
    pub(crate) fn inventory(&self) -> &ResourceSet {
        self.occupancy.inventory().set()
    }

    /// What is recorded as held, as another planner over some of the same nodes is told of it.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = Delta> + '_ {
        let recorded = self.holdings.iter();
        let recorded = recorded.filter(|(_, one)| one.certainty == Certainty::Held);
        recorded.map(|(job, one)| match (&one.owner, rested(*job)) {
            (Some(owner), _) => Delta::Held(*job, owner.clone(), Arc::clone(&one.set)),
            (None, Some(job)) => Delta::Rests(job, None, Arc::clone(&one.set)),
            (None, None) => Delta::Ground(*job, Arc::clone(&one.set)),
        })
    }

    /// The same of who of them is to end, and from whom nobody takes.
    pub(crate) fn standings(&self) -> impl Iterator<Item = Delta> + '_ {
        let ending = self.taking.ending.iter();
        let ending = ending.filter(|(_, one)| one.certainty == Certainty::Held);
        let ending = ending.map(|(job, one)| Delta::Ending(*job, one.by, one.until));
        let spared = self.taking.spared.iter().map(|job| Delta::Spared(*job));
        let kept = self.taking.kept.iter();
        let kept = kept.map(|(job, until)| Delta::Kept(*job, *until));
        let gives = self.taking.gifts();
        let gives = gives.map(|(job, gives)| Delta::Gives(job, gives.clone()));
        ending
            .chain(spared)
            .chain(kept)
            .chain(gives)
            .chain(self.shrinking())
    }

    /// What starts of an outcome took of pools, as other planners are told.
    pub(crate) fn uses(&self, outcome: &Outcome) -> Vec<Delta> {
        let starts = outcome.verdicts.iter();
        let uses = starts.filter_map(|(job, verdict)| {
            let (Verdict::Start(set), Some(waiting)) = (verdict, self.waiting.get(job)) else {
                return None;
            };
            let pools = &waiting.want.pools;
            let takes = !pools.is_empty();
            takes.then(|| Delta::Uses(*job, pools.clone(), Arc::clone(set)))
        });
        uses.collect()
    }

    /// There is so much of pools, and recorded jobs have so much of them, as another planner knows.
    pub(crate) fn know_pools(&mut self, other: &Planner) {
        self.occupancy.share_pools(&other.occupancy, |job| {
            let held = other.holdings.get(&job);
            held.is_none_or(|one| one.certainty == Certainty::Held)
        });
    }

    /// A start elsewhere, of which this one was told, is not to be.
    pub(super) fn not_elsewhere(&mut self, job: JobId) {
        let is_held = [job, resting(job)]
            .iter()
            .any(|id| self.holdings.contains_key(id) || self.charged.contains_key(id));
        if !is_held && self.occupancy.give_pools(job) {
            self.agenda.freed();
        }
    }

    /// What the turn of a job would come from.
    pub(crate) fn priority_of(&self, want: &Want, now: Time) -> Breakdown {
        self.turns.breakdown(want, now)
    }

    /// The pool of which there is less left than a job takes.
    pub(super) fn pool_short(&self, turn: Turn) -> Option<Reason> {
        let (job, _) = self.entry_of(turn.job);
        self.occupancy.pool_short(&job.need)
    }

    /// From when on no reservation keeps a job from starting, if all that runs ended now.
    pub(super) fn let_in(&self, turn: Turn, now: Time) -> Time {
        let (ask, span) = self.ask_of(turn.job);
        self.occupancy.opens_to(&ask, now, span)
    }

    /// The reservation that keeps a job from starting, which could have been `placed` else.
    pub(super) fn barred(
        &self,
        turn: Turn,
        now: Time,
        placed: Option<&ResourceSet>,
    ) -> Option<Reason> {
        let (job, limit) = self.entry_of(turn.job);
        let span = Rules::from(&self.policy.queue).span(limit);
        self.occupancy.barred(&job.need, now, span, placed)
    }
}
