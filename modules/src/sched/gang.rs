//! Jobs that start together: how many of a gang the planner is told of, that none is started without
//! the others, and that one who is taken from takes the others with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::Kind;
use eddy_wire::gang::{self, Gang};
use eddy_wire::id::{Epoch, JobId, Rank};
use eddy_wire::plan::{Delta, Verdict};
use eddy_wire::pool::Takes;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use super::present::JustTaken;
use super::seen::PassedWith;
use super::{Intake, Sched, Seen, limit, pools};
use crate::gangs::Known;

impl Seen {
    /// Whether it is one of several that are to be as they were asked for.
    pub(super) fn is_in_gang(&self) -> bool {
        let attributes = &self.submit.spec.jobspec.attributes.system.other;
        attributes.contains_key(gang::ATTRIBUTE)
    }
}

impl Sched {
    /// The gang with which a job starts, with so many as are to be there: all of one that has not
    /// begun, those that have nothing of one that has.
    pub(super) fn starts_with(&self, id: JobId) -> Option<Arc<Gang>> {
        let known = self.gangs.of(id)?;
        let mut gang = known.gang.clone();
        if known.has_begun() {
            // Who runs on is not waited for; who is on its way back is, and nobody of them is left
            // out for good.
            let back = known.members.keys();
            let back = back.filter(|member| !self.goes_on(**member)).count();
            gang.size = u32::try_from(back).unwrap_or(u32::MAX);
            gang.min = gang.size;
        }
        let is_bound = gang.size > 1 || gang.uniform.is_some();
        is_bound.then(|| Arc::new(gang))
    }

    /// Whether a job holds its resources and is not to end. One that was passed down with others, and has not
    /// begun there, may come back with them.
    fn goes_on(&self, id: JobId) -> bool {
        let goes_on = |seen: &Seen| {
            let may_come_back = seen.passed_with == PassedWith::Others;
            seen.held.is_some() && !seen.is_ending() && !may_come_back
        };
        self.jobs.get(&id).is_some_and(goes_on)
    }

    /// After a record of a job by which more or fewer of its gang, if that began, are waited for: one
    /// of them says it for all.
    pub(super) fn gang_moved(&self, kind: &Kind, job: Option<JobId>, out: &mut Outbox) {
        let moves = matches!(
            kind,
            Kind::Exception(_)
                | Kind::Preempted(_)
                | Kind::Requeue(_)
                | Kind::Start
                | Kind::Free
                | Kind::Clean
        );
        if !moves {
            return;
        }
        let known = job.and_then(|id| self.gangs.of(id));
        let begun = known.filter(|known| known.has_begun()).into_iter();
        let mut others = begun.flat_map(|known| known.members.keys());
        let waits =
            |id: &JobId| Some(*id) != job && self.waits(*id) && !self.resting.contains_key(id);
        if let Some(other) = others.find(|id| waits(id)) {
            out.volatile(Volatile::Plan(vec![self.want(*other)]));
        }
    }

    /// All of a gang whose verdicts are not to be, since one of those that were to start cannot.
    pub(super) fn voided(
        &self,
        now: Time,
        gang: &[JobId],
        verdicts: &[(JobId, Verdict)],
        taken: &JustTaken,
    ) -> Vec<JobId> {
        let mut taken = taken.clone();
        let mut starts = verdicts.iter().filter_map(|(id, verdict)| match verdict {
            Verdict::Start(set) if gang.contains(id) => Some((*id, set)),
            Verdict::Start(_) | Verdict::Never(_) | Verdict::Preempt { .. } => None,
        });
        let all_start = starts.all(|(id, set)| {
            let to = self.jobs.get(&id).and_then(|seen| seen.to.as_ref());
            let starts = self.intake == Intake::Open
                && self.waits(id)
                && self.is_let(now, id, set, &mut taken)
                && self.sets.has(to, set)
                && self.shells_for(id, set).is_some();
            let grows = self.jobs.get(&id).and_then(Seen::grows);
            taken.add(set, grows);
            starts
        });
        // One that was to be left out may have gone meanwhile, and left its place to another.
        let known = gang.first().and_then(|id| self.gangs.of(*id));
        match all_start && known.is_none_or(Known::is_there) {
            true => Vec::new(),
            false => gang.to_vec(),
        }
    }

    /// Whether a job may have this set, beside what was taken just now: its reservation and pools let
    /// it, and nobody has any of it. What it takes of pools is taken then.
    pub(super) fn is_let(
        &self,
        now: Time,
        id: JobId,
        set: &ResourceSet,
        taken: &mut JustTaken,
    ) -> bool {
        self.jobs.get(&id).is_some_and(|seen| {
            // What is suspended has what it takes of pools.
            let takes = match seen.resumes() {
                true => Takes::default(),
                false => pools::takes(&seen.submit),
            };
            self.is_like(seen, set)
                && seen.is_timely(set, limit::last(self.inventory.as_deref()))
                && self.reserved.lets(now, seen, (set, self.end_of(set)))
                && self.is_apart(seen, set, taken)
                && self.pools.lets(&takes, &mut taken.pools)
                && self.is_free(set, taken)
        })
    }

    pub(super) fn shells_for(&self, id: JobId, set: &ResourceSet) -> Option<BTreeMap<Rank, Epoch>> {
        let seen = self.jobs.get(&id)?;
        self.shells_of(set, seen.submit.spec.request.takes)
    }

    /// A verdict that is not to be: whoever still waits is asked for again.
    pub(super) fn take_back(&self, id: JobId, out: &mut Outbox) {
        let mut deltas = vec![Delta::Unwant(id)];
        if self.intake == Intake::Open && self.waits(id) {
            deltas.push(self.want(id));
        }
        out.volatile(Volatile::Plan(deltas));
    }

    /// Those of its gang that run beside a job.
    pub(super) fn mates(&self, id: JobId) -> Vec<JobId> {
        let known = self.gangs.of(id);
        let members = known.into_iter().flat_map(|known| known.members.keys());
        members.copied().filter(|mate| *mate != id).collect()
    }
}
