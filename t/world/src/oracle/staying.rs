//! Whether jobs in an instance have what they are given for all of their limit: they would be over before the instance
//! is, and before a node goes by which it has grown until a time.
//!
//! Knows the records of both, nothing of what one told the other.

use eddy_wire::grant::Grant;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::time::{Span, Time};

use super::LAST_MOMENT;
use crate::nature::{InstanceId, Nature};

impl Nature {
    /// A job is granted this in an instance at this time. Who has no limit takes what time is left; what is passed
    /// down begins where the parent said.
    pub(crate) fn lasts(
        &self,
        instance: InstanceId,
        (job, t): (JobId, Time),
        grant: &Grant,
    ) -> Result<(), String> {
        let Some((parent, child)) = self.tree.parent(instance) else {
            return Ok(());
        };
        // What one clock says of a limit another may take for something else, once somebody has set one of them.
        let mut clocks = self
            .machines
            .iter()
            .map(|machine| machine.read(self.now).wall);
        if (t - self.now).0.abs() > LAST_MOMENT.0 || clocks.any(|wall| wall != self.now) {
            return Ok(());
        }
        let (own, above) = (
            self.judge(instance).recorded(),
            self.judge(parent).recorded(),
        );
        let Some(submit) = own.jobs.get(&job).map(|found| &found.submit) else {
            return Ok(());
        };
        let request = &submit.spec.request;
        let limit = request.duration.filter(|limit| *limit > 0);
        let is_ours = submit.pass.is_none() && request.takes == Takes::Resources;
        let Some(limit) = limit.filter(|_| is_ours) else {
            return Ok(());
        };
        let over = t.after(Span(limit));
        // What was said of a limit that changes may be on its way.
        let until = |id: JobId| {
            let found = above
                .jobs
                .get(&id)
                .filter(|_| !above.limited.contains(&id))?;
            let limit = found
                .submit
                .spec
                .request
                .duration
                .filter(|limit| *limit > 0)?;
            Some(found.started?.after(Span(limit)).after(LAST_MOMENT))
        };
        if let Some(until) = until(child.job).filter(|until| over > *until) {
            return Err(format!(
                "job {job} began at {t} with a limit of {} s, and its instance is over at {until}",
                Span(limit)
            ));
        }
        let ground = above.held.iter().filter(|(id, _)| {
            let found = above.jobs.get(id);
            found.is_some_and(|one| one.submit.spec.request.work == Work::Ground { of: child.job })
        });
        for (id, held) in ground.filter(|(id, _)| until(**id).is_some_and(|until| over > until)) {
            let mut theirs = held.set.nodes.values();
            let is_there = theirs.any(|theirs| {
                let mut ours = grant.set.nodes.values();
                ours.any(|ours| ours.host == theirs.host)
            });
            if is_there {
                return Err(format!(
                    "job {job} began at {t} with a limit of {} s on a node of job {id}, which is over before that",
                    Span(limit)
                ));
            }
        }
        Ok(())
    }
}
