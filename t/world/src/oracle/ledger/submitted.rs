//! Which jobs there may be, and who took them.

use std::sync::Arc;

use eddy_wire::event::{Entry, Kind, Record, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::lifecycle::JobState;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use super::Ledger;

/// What an instance did with a job of its parent that was away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Below {
    /// It took it.
    Took,
    /// It did, and somebody changed how urgent it is.
    Urged,
    /// It gave it resources.
    Began,
}

impl Ledger {
    /// Whether a record tells of what happened in an instance or under a shell, which may have been told late.
    pub(super) fn is_of_below(&self, record: &Record) -> bool {
        let Some(job) = record.event.job else {
            return false;
        };
        let has_begun = self.has_begun_below(job);
        let is_theirs = has_begun || self.away.contains_key(&job);
        // Shells tell late of what ended while no leader was there, but not of what had not begun.
        let started = self.jobs.get(&job).and_then(|job| job.started);
        let had_begun = started.is_some_and(|started| started <= record.event.t);
        match &record.event.kind {
            Kind::Submit(_) => self.below.contains_key(&job),
            Kind::Passed(_) | Kind::Alloc(_) | Kind::GrantChanged(_) => has_begun,
            Kind::Finish(_) | Kind::Release(..) => is_theirs || had_begun,
            Kind::Start | Kind::Exception(_) | Kind::Recalled(_) => is_theirs,
            _ => false,
        }
    }

    /// What was done by a record of one of its jobs that are its parent's, which is to know it.
    pub fn did(&self, job: JobId, kind: &Kind) -> Option<Below> {
        match kind {
            Kind::Submit(submit) => submit.is_taken_here().then_some(Below::Took),
            Kind::Alloc(_) => self.begun_alone.contains(&job).then_some(Below::Began),
            Kind::Urgency(..) => self.is_unordered(job).then_some(Below::Urged),
            _ => None,
        }
    }

    /// Whether a job asks for what that submission of it does elsewhere. It may have been given another
    /// limit while it was on its way there, or when it was over.
    pub fn asks_for(&self, job: &Job, submit: &Submit) -> bool {
        match self.limited.contains(&job.id) {
            true => job.submit.sent() == submit.sent(),
            false => job.submit.spec == submit.spec,
        }
    }

    /// What a job holds, for as long as its limit says by now.
    pub fn lasting(&self, job: &Job, grant: &Grant) -> Arc<ResourceSet> {
        let limit = job.submit.spec.request.duration;
        let has_cores = !job.suspension.standing().is_without_cores();
        let limit = limit.filter(|_| has_cores && self.limited.contains(&job.id));
        let mut set = Arc::clone(&grant.set);
        if let Some(limit) = limit {
            let left = limit - job.suspension.has_run(Time(set.starttime)).0;
            let end = Some(self.inventory.expiration).filter(|end| *end > 0);
            let end = end.into_iter().chain([set.starttime + left]).min();
            Arc::make_mut(&mut set).expiration = end.unwrap_or(0).max(set.starttime + 1);
        }
        set
    }

    /// An instance in this one did that with a job.
    pub fn did_below(&mut self, job: JobId, did: Below) {
        let known = self.below.entry(job).or_insert(did);
        *known = did.max(*known);
    }

    /// Whether it is other than filters have it: something of its submission was begun without them, or it
    /// was made urgent since.
    pub fn is_not_as_asked(&self, job: JobId, submit: &Submit) -> bool {
        let first = job.0 - u64::from(submit.index);
        let copies = (first..first + u64::from(submit.count)).map(JobId);
        let is_begun = copies.into_iter().any(|copy| self.has_begun_below(copy));
        is_begun || self.below.get(&job).is_some_and(|did| *did >= Below::Urged)
    }

    /// Whether an instance in this one began a job without it.
    pub fn has_begun_below(&self, job: JobId) -> bool {
        self.below.get(&job) == Some(&Below::Began)
    }

    /// Whether what an instance took may be lost: nothing was ever recorded here but that it did.
    pub fn is_lost_below(&self, job: JobId) -> Result<(), String> {
        let is_said = self.waits_below.contains(&job) || self.jobs[&job].grant().is_some();
        match self.below.contains_key(&job) && !is_said {
            true => Ok(()),
            false => Err(format!(
                "job {job} is lost, though what became of it below is known"
            )),
        }
    }

    /// Whether none of its name was left before a job, as far as was known here. What an instance took comes
    /// in its order, and late: another may come after.
    pub fn was_single(&self, job: JobId) -> bool {
        self.waits.single.contains(&job) && !self.below.contains_key(&job)
    }

    /// Whether this instance took a job for its parent, which has not taken it since.
    pub fn is_unordered(&self, job: JobId) -> bool {
        let known = self.jobs.get(&job);
        known.is_some_and(|known| known.submit.is_taken_here()) && !self.ordered.contains(&job)
    }

    pub(super) fn submit(
        &mut self,
        id: JobId,
        submit: &Submit,
        record: &Record,
    ) -> Result<(), String> {
        // One that is refused at a hand-over waits for nothing any more (`oracle/refused.rs`).
        let is_handed = submit.taken_in.is_some();
        let waits = !submit.spec.needs.is_empty() && submit.pass.is_none() && !is_handed;
        if submit.entry == Entry::Priority && waits {
            return Err(format!(
                "job {id} was let go when it was submitted, and waits for something"
            ));
        }
        let key = (submit.user, submit.key, submit.index);
        let before = self.keys.insert(key, id);
        // What is passed down has the key of its submission in each attempt, and may be one that was taken
        // here, too, until both know of it: one of both has had nothing then.
        let is_let = |other: &JobId| {
            let known = self.jobs.get(other);
            let end = known.and_then(|other| other.end.as_ref());
            let gives_way =
                end.is_some_and(|end| end.exception.note.contains("the same submission"));
            let is_over = known.is_some_and(|other| other.state == JobState::Inactive);
            let had_nothing = !self.started.contains(other);
            let is_own = |job: Option<&Job>| job.is_some_and(|job| job.submit.pass.is_none());
            match submit.pass {
                // What is its own has keys of its own.
                Some(_) => *other == id || had_nothing || is_own(known),
                None => had_nothing && (gives_way || is_over && self.has_begun_below(id)),
            }
        };
        if let Some(other) = before.filter(|other| !is_let(other)) {
            let key = submit.key;
            return Err(format!(
                "a submission became two jobs: {other} and {id} (key {key})"
            ));
        }
        // What was passed down has the parent's number; whether it may come again is a matter of order.
        let last = || {
            let mut own = self.jobs.iter().rev();
            own.find(|(id, job)| job.submit.pass.is_none() && !self.below.contains_key(id))
        };
        if submit.pass.is_none()
            && !self.below.contains_key(&id)
            && last().is_some_and(|(last, _)| *last >= id)
        {
            return Err(format!("job number {id} was given before"));
        }
        self.jobs
            .extend(Job::from_record(record).map(|job| (id, job)));
        Ok(())
    }
}
