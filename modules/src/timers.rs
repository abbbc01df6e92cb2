//! When to look at which job again: its time limit, the next KILL, its begin time.
//!
//! Used by exec and by the manager. Each job has one time at most, which goes with it: a job that
//! is over long before its limit leaves nothing behind. Of all times only the
//! first one is asked for.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::JobId;
use eddy_wire::time::Time;

/// The times, in order.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    times: BTreeSet<(Time, JobId)>,
    by_job: BTreeMap<JobId, Time>,
    /// The wake-up that was asked for and has not come.
    announced: Option<Time>,
}

impl Timers {
    /// That job is due then, and no more at any other time.
    pub(crate) fn set(&mut self, job: JobId, due: Option<Time>) {
        self.forget(job);
        if let Some(at) = due {
            self.times.insert((at, job));
            self.by_job.insert(job, at);
        }
    }

    /// That job is over.
    pub(crate) fn forget(&mut self, job: JobId) {
        if let Some(at) = self.by_job.remove(&job) {
            self.times.remove(&(at, job));
        }
    }

    /// Takes out a job that is due by now.
    pub(crate) fn pop(&mut self, now: Time) -> Option<JobId> {
        let (at, job) = self.times.first().copied()?;
        if at > now {
            return None;
        }
        self.forget(job);
        Some(job)
    }

    /// The wake-up to ask for now, unless one is coming that is early enough.
    pub(crate) fn wake(&mut self, now: Time) -> Option<Time> {
        let first = self.times.first()?.0.max(now);
        let coming = self.announced.filter(|at| *at > now);
        if coming.is_some_and(|at| at <= first) {
            return None;
        }
        self.announced = Some(first);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_over_leaves_nothing_behind() {
        let mut timers = Timers::default();
        for job in 1..=1000 {
            timers.set(JobId(job), Some(Time(5)));
            timers.set(JobId(job), Some(Time(7)));
            timers.forget(JobId(job));
        }
        assert!(timers.times.is_empty() && timers.by_job.is_empty());
        assert_eq!(timers.wake(Time(1)), None);
    }

    #[test]
    fn only_the_first_time_is_asked_for_and_each_comes() {
        let mut timers = Timers::default();
        timers.set(JobId(1), Some(Time(9)));
        assert_eq!(timers.wake(Time(1)), Some(Time(9)));
        timers.set(JobId(2), Some(Time(12)));
        assert_eq!(timers.wake(Time(2)), None, "one comes before it");
        timers.set(JobId(3), Some(Time(4)));
        assert_eq!(timers.wake(Time(3)), Some(Time(4)));
        assert_eq!(timers.pop(Time(3)), None);
        assert_eq!(timers.pop(Time(4)), Some(JobId(3)));
        assert_eq!(timers.pop(Time(4)), None);
        assert_eq!(timers.wake(Time(4)), Some(Time(9)), "once more");
        assert_eq!(timers.pop(Time(20)), Some(JobId(1)));
        assert_eq!(timers.pop(Time(20)), Some(JobId(2)));
        timers.set(JobId(4), Some(Time(3)));
        assert_eq!(timers.wake(Time(20)), Some(Time(20)), "it is due already");
    }
}
