//! Arrays of which only so many elements are under way at a time.
//!
//! An element takes a place when nothing else holds it back, and has it until
//! it is over, through all its attempts. What it is called to be under way is
//! told by its records: its throttle was removed. A job that is held takes none;
//! one that has its place keeps it, also while it is held: given to another, it
//! would be one too many when it is let go.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::jobspec::Need;
use eddy_wire::lifecycle::JobState;

/// The arrays that have a throttle, by their first job.
#[derive(Debug, Default)]
pub(super) struct Arrays {
    arrays: BTreeMap<JobId, Array>,
}

#[derive(Debug, Default)]
struct Array {
    /// Those under way.
    out: BTreeSet<JobId>,
    /// Those that wait for a place and nothing else.
    ready: BTreeSet<JobId>,
}

/// The first job of its array and the throttle, if it has one.
fn throttle(job: &Job) -> Option<(JobId, Need)> {
    // It is the last of a jobspec's needs.
    let need = job.submit.spec.needs.last()?;
    let first = JobId(job.id.0 - u64::from(job.submit.index));
    matches!(need, Need::Throttle(_)).then_some((first, *need))
}

impl Arrays {
    /// Counts a job that is under way when a leader begins.
    pub(super) fn resume(&mut self, job: &Job) {
        let Some((first, need)) = throttle(job) else {
            return;
        };
        let waits = job.dependencies.contains(&need.description());
        if !waits && !matches!(job.state, JobState::New | JobState::Inactive) {
            self.arrays.entry(first).or_default().out.insert(job.id);
        }
    }

    /// A job in DEPEND would take a place.
    pub(super) fn ready(&mut self, job: &Job) {
        if let Some((first, _)) = throttle(job) {
            self.arrays.entry(first).or_default().ready.insert(job.id);
        }
    }

    /// The next that takes a place of this job's array, which it has from now on.
    pub(super) fn next(&mut self, job: &Job) -> Option<(JobId, Need)> {
        let (first, need) = throttle(job)?;
        let Need::Throttle(most) = need else {
            return None;
        };
        let array = self.arrays.get_mut(&first)?;
        if array.out.len() >= most as usize {
            return None;
        }
        let next = array.ready.pop_first();
        match next {
            Some(next) => array.out.insert(next),
            None => array.out.is_empty() && self.arrays.remove(&first).is_some(),
        };
        next.map(|next| (next, need))
    }

    /// It would take none, or none any more.
    pub(super) fn leave(&mut self, job: &Job) {
        if let Some((first, _)) = throttle(job)
            && let Some(array) = self.arrays.get_mut(&first)
        {
            array.ready.remove(&job.id);
        }
    }

    /// It is over: its place is free.
    pub(super) fn over(&mut self, job: &Job) {
        if let Some((first, _)) = throttle(job)
            && let Some(array) = self.arrays.get_mut(&first)
        {
            array.out.remove(&job.id);
        }
    }
}
