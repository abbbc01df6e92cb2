//! Jobs that are ground for an instance: what it has by them, and that they end with it.
//!
//! Such a job is ground of one attempt of the instance, from its `start` on: that its nodes are the
//! instance's is recorded with the instance (`grant-changed`, `beside`). What is to become of it
//! follows from the records alone, so that a leader that begins does what the last one owed.

use std::collections::BTreeMap;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::{Exception, Kind};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::time::Time;

use super::run::Run;
use super::{Exec, SIGKILL};

impl Exec {
    /// A run that begins: of ground it is known for which attempt, and as which instance agents
    /// know that.
    pub(super) fn grounded(&self, mut run: Run) -> Run {
        if let Some(of) = run.grows() {
            run.set_ground_for(self.known.get(&of).map(|known| known.attempt));
            if let Some(instance) = self.runs.get(&of).and_then(Run::instance) {
                run.set_instance(instance);
            }
        }
        run
    }

    /// An instance has said who it is.
    pub(super) fn adopted(&mut self, job: JobId, instance: &str) {
        let attempt = self.known.get(&job).map(|known| known.attempt);
        for ground in self.grounds.get(&job).into_iter().flatten() {
            let run = self.runs.get_mut(ground);
            if let Some(run) = run.filter(|run| run.ground_for() == attempt) {
                run.set_instance(instance);
            }
        }
    }

    /// What an instance has by other jobs now.
    pub(super) fn beside(&self, job: JobId) -> BTreeMap<Rank, JobId> {
        let grounds = self.grounds.get(&job).into_iter().flatten();
        let runs = grounds.filter_map(|ground| self.runs.get(ground));
        let held = runs.filter(|run| run.is_started() && !run.is_over() && self.is_wanted(run));
        let ranks = held.flat_map(|run| run.grant.shells.keys().map(|rank| (*rank, run.job)));
        ranks.collect()
    }

    /// Whether the attempt that it is ground for goes on.
    fn is_wanted(&self, ground: &Run) -> bool {
        let instance = ground.grows().and_then(|of| self.runs.get(&of));
        instance.is_some_and(|of| !of.is_over() && Some(of.attempt) == ground.ground_for())
    }

    /// Something has become of an instance or of ground: what the instance has is as recorded.
    pub(super) fn ground_changed(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let instance = self.runs.get(&job).and_then(Run::grows);
        self.reseat_left(now, instance.unwrap_or(job), out);
    }

    /// What was ground for that instance.
    pub(super) fn settle_grounds(&mut self, now: Time, instance: JobId, out: &mut Outbox) {
        let grounds = self.grounds.get(&instance).cloned().unwrap_or_default();
        for ground in grounds {
            self.settle(now, ground, out);
        }
    }

    /// Clears ground whose instance is over; what has nothing yet is cancelled soon.
    pub(super) fn settle(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        match self.runs.get(&job) {
            Some(run) if run.grows().is_none() || run.is_over() || self.is_wanted(run) => {}
            Some(_) => {
                let run = self.runs.get_mut(&job).expect("it was just found");
                let ranks = run.grant.set.ranks();
                if !run.evicted.contains_all(&ranks) {
                    run.evicted = ranks;
                    run.signal_all(SIGKILL, &self.shells, out);
                }
            }
            None if self.is_orphan(job) => {
                // Not at once: other records of it may be under way.
                self.orphans.insert(job);
                out.volatile(Volatile::Wake(now));
            }
            None => {}
        }
    }

    /// Whether it waits to be ground of an instance that is over. While that waits to run again it
    /// waits, too; what runs in another instance is that one's to end.
    fn is_orphan(&self, job: JobId) -> bool {
        let of = self.submit_of(job);
        let of = of.and_then(|submit| submit.spec.request.grows());
        let waits = !self.away.contains_key(&job) && !self.runs.contains_key(&job);
        waits && of.is_some_and(|of| !self.known.contains_key(&of))
    }

    /// Cancels what waits to be ground of nobody.
    pub(super) fn end_orphans(&mut self, now: Time, out: &mut Outbox) {
        for job in std::mem::take(&mut self.orphans) {
            let of = self.submit_of(job);
            let of = of.and_then(|submit| submit.spec.request.grows());
            let Some(of) = of.filter(|_| self.is_orphan(job)) else {
                continue;
            };
            let exception = Exception {
                kind: "cancel".to_owned(),
                severity: 0,
                note: format!("job {of}, which was to grow by it, is over"),
                userid: None,
                until: None,
            };
            out.append(now, job, Kind::Exception(Box::new(exception)));
        }
    }
}
