//! Jobs that are over and of which nothing more is recorded.

use std::collections::BTreeSet;

use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::time::Time;

use super::Ledger;

impl Ledger {
    /// The jobs that were over before then, of which nothing more is recorded.
    pub fn over(&self, before: Time) -> BTreeSet<JobId> {
        let is_over = |(id, job): &(&JobId, &Job)| {
            let order = self.order.get(id);
            job.t_inactive.is_some_and(|t| t < before)
                && order.is_some_and(|order| order.is_closed(job.submit.pass.as_ref()))
        };
        self.jobs
            .iter()
            .filter(is_over)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Forgets these jobs.
    pub fn let_go(&mut self, over: &BTreeSet<JobId>) {
        let stays = |job: &JobId| !over.contains(job);
        self.jobs.retain(|job, _| stays(job));
        self.order.retain(|job, _| stays(job));
        self.keys.retain(|_, job| stays(job));
        self.exceptions.retain(|(job, _)| stays(job));
        self.urgencies.retain(|(job, _)| stays(job));
        self.below.retain(|job, _| stays(job));
        self.away.retain(|job, _| stays(job));
        self.names.retain(|job, _| stays(job));
        self.fallen.retain(|job, _| stays(job));
        for jobs in [
            &mut self.started,
            &mut self.limited,
            &mut self.waits_below,
            &mut self.ordered,
            &mut self.begun_alone,
            &mut self.waits.single,
        ] {
            jobs.retain(stays);
        }
        let inside = &mut self.waits.inside;
        inside.retain(|(instance, job), _| stays(instance) && stays(job));
    }
}
