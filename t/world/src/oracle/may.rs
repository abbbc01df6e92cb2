//! What a leader may have a shell do: start what was granted, and end or warn tasks when it is time.

use eddy_wire::job::Job;
use eddy_wire::jobspec::Work;
use eddy_wire::shell::{Part, Start};
use eddy_wire::time::{Span, Time};
use eddy_wire::warning;

use super::{LAST_MOMENT, Oracle, due, users};
use crate::task::{SIGKILL, SIGTERM};

impl Oracle {
    pub(super) fn may_start(&self, start: &Start) -> Result<(), String> {
        let part = start.part;
        let job = self.durable.jobs.get(&part.job);
        let granted = job.is_some_and(|job| {
            job.attempt > part.attempt || job.attempt == part.attempt && job.t_alloc.is_some()
        });
        match granted {
            true => users::may_run(job.map(|job| job.submit.user), start),
            false => Err(format!(
                "part {part} was ordered to start before its grant was durable"
            )),
        }
    }

    /// TERM is sent once the end is recorded, KILL a grace later; strays are killed at once.
    pub(super) fn may_signal(&self, now: Time, part: Part, signal: i32) -> Result<(), String> {
        let job = self.durable.jobs.get(&part.job);
        let Some(job) = job.filter(|job| job.attempt == part.attempt && job.grant().is_some())
        else {
            return Ok(());
        };
        if self.signalled.contains(&job.id) {
            return Ok(());
        }
        let work = &job.submit.spec.request.work;
        let instance = matches!(work, Work::Instance { .. });
        let ground =
            job.grant().and_then(|grant| grant.set.nodes.keys().next()) != Some(&part.rank);
        let led = self
            .tasks
            .is_over(job.id, job.attempt, "the end of the ground");
        if instance && ground && signal == SIGKILL && led.is_ok() {
            // It is held as long as the leader lives, and no longer.
            return Ok(());
        }
        let is_gone = !self.durable.inventory.nodes.contains_key(&part.rank);
        if instance && ground && signal == SIGKILL && is_gone {
            // And no longer than the node is one of the instance.
            return Ok(());
        }
        if matches!(work, Work::Ground { .. }) && signal == SIGKILL {
            // So does what is nothing but ground.
            return Ok(());
        }
        if instance && ground && signal == SIGKILL && *work == (Work::Instance { name: None }) {
            // Or as long as the instance wants it: what it says is held against it where it says it.
            return Ok(());
        }
        let warning = warning::of(&job.submit.spec.jobspec).ok().flatten();
        if let (Some(warning), None) = (warning.filter(|one| one.signal == signal), &job.end) {
            return self.may_warn(now, job, warning.left);
        }
        match (signal, &job.end) {
            (_, None) => Err(format!(
                "signal {signal} to part {part}, which nobody ended"
            )),
            (SIGKILL, Some(_)) if due(job, self.grace).is_some_and(|due| now < due) => Err(
                format!("part {part} was killed at {now}, before its KILL was due"),
            ),
            (SIGKILL | SIGTERM, Some(_)) => Ok(()),
            (other, Some(_)) => Err(format!("signal {other} to part {part}, which nobody sent")),
        }
    }

    /// Tasks are warned no earlier than they asked to be before their end, or that of their instance.
    fn may_warn(&self, now: Time, job: &Job, left: Span) -> Result<(), String> {
        let limit = job.submit.spec.request.duration;
        let own = job.started.zip(limit);
        let own = own.map(|(started, limit)| started.0 + limit + job.suspension.lasted().0);
        let until = self
            .until
            .map(|until| until.0 - self.grace.0 - LAST_MOMENT.0);
        let end = own.into_iter().chain(until).min();
        match end.is_some_and(|end| now >= Time(end - left.0)) {
            true => Ok(()),
            false => Err(format!(
                "job {} was warned at {now}, its time is not over in {left} s",
                job.id
            )),
        }
    }
}
