//! Whether instances give nodes by the rules: those that can, nodes that they can be without, in time.
//! Whether one ends that could have given some says the watch on the planner (`heads/gifts.rs`).

use eddy_wire::event::Kind;
use eddy_wire::gang;
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::jobspec::Work;
use eddy_wire::preempt::Shrink;
use eddy_wire::time::{Span, Time};

use super::Ledger;
use super::preempts::{Peace, Preempts};

/// Who does not vacate a node is killed there, and that is recorded so soon after: where nothing went wrong yet,
/// and where something did that is not recorded.
const CLEARED: [Span; 2] = [Span::seconds(20), Span::seconds(120)];

impl Preempts {
    /// One more record of a job.
    pub(super) fn fold(&mut self, id: JobId, kind: &Kind) {
        match kind {
            Kind::Shrink(_) => self.shrinking.entry(id).or_default().apply(kind),
            Kind::Clean => drop(self.shrinking.remove(&id)),
            kind => {
                if let Some(shrinking) = self.shrinking.get_mut(&id) {
                    shrinking.apply(kind);
                }
            }
        }
    }

    /// A node that is to be given is to be given once.
    pub(super) fn is_first(&self, id: JobId, kind: &Kind) -> Result<(), String> {
        let (Kind::Shrink(shrink), Some(known)) = (kind, self.shrinking.get(&id)) else {
            return Ok(());
        };
        match known.ranks().is_disjoint(&shrink.ranks) {
            true => Ok(()),
            false => Err(format!("job {id} is to give ranks {} twice", shrink.ranks)),
        }
    }

    /// Whether a running instance that is asked for nodes has those to give.
    pub(super) fn may_shrink(
        &self,
        ledger: &Ledger,
        job: &Job,
        shrink: &Shrink,
        t: Time,
    ) -> Result<(), String> {
        let id = job.id;
        let Some(by) = shrink.by else {
            return Err(format!("job {id} is to give nodes to nobody"));
        };
        let other = self.may_give(ledger, job, by, t)?;
        self.has_its_grace(job, (shrink.until, shrink.grace), t)?;
        if !self.can_shrink(job) {
            return Err(format!("job {id} is to give nodes, and is none that can"));
        }
        let has = ledger.held.get(&id).map(|grant| grant.set.ranks());
        let has = has.unwrap_or_default();
        if shrink.ranks.is_empty() || !has.contains_all(&shrink.ranks) {
            let ranks = &shrink.ranks;
            return Err(format!("job {id} is to give ranks {ranks}, and has {has}"));
        }
        // Where it was passed to, other ranks may be the lowest.
        let first = has.iter().next().filter(|_| !ledger.away.contains_key(&id));
        if first.is_some_and(|first| shrink.ranks.contains(first)) || shrink.ranks == has {
            let ranks = &shrink.ranks;
            return Err(format!(
                "job {id} is to give the node of its leader, of {ranks}"
            ));
        }
        self.is_for(shrink.cause, other, job)
    }

    fn can_shrink(&self, job: &Job) -> bool {
        let shrinks = self.rule(job).is_some_and(|rule| rule.shrink);
        let is_users = job.submit.spec.request.work == Work::Instance { name: None };
        let is_bound = gang::of(&job.submit.spec).is_ok_and(|gang| gang.is_some());
        shrinks && is_users && !is_bound && job.started.is_some()
    }

    /// Some of its nodes may have gone.
    pub(super) fn gave_nodes(&mut self, job: &Job, t: Time) {
        let shrinking = self.shrinking.get(&job.id);
        let owes =
            |by: JobId| shrinking.is_some_and(|it| it.open().iter().any(|one| one.by == Some(by)));
        if job.preemption().is_some() {
            return;
        }
        for (by, heir) in &mut self.heirs {
            if !owes(*by) && heir.victims.remove(&job.id) && heir.victims.is_empty() {
                heir.since = Some(t);
            }
        }
    }

    /// Nobody who runs has a node yet that was to be taken from him long ago.
    pub(super) fn all_gave(&self, ledger: &Ledger, now: Time) -> Result<(), String> {
        let soon = match self.peace {
            Peace::Kept => CLEARED[0],
            Peace::Broken => CLEARED[1],
        };
        for (id, shrinking) in &self.shrinking {
            let goes_on = ledger.jobs.get(id).is_some_and(|job| job.end.is_none());
            let is_here = !ledger.away.contains_key(id) && ledger.held.contains_key(id);
            let late = shrinking.open().iter();
            let mut late = late.filter(|one| now > one.until.max(self.calm).after(soon));
            if let Some(one) = late.next().filter(|_| goes_on && is_here) {
                let (ranks, until) = (&one.ranks, one.until);
                return Err(format!(
                    "job {id} was to give ranks {ranks} by {until}, and has them"
                ));
            }
        }
        Ok(())
    }
}
