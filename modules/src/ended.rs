//! What is remembered of jobs that are over, for those who come to ask.
//!
//! Whoever left memory is asked of the journal, whose answer is true once the
//! end is durable: until then it is here, and for a while after, since those
//! that ended last are asked about most. Used by the manager.

use std::collections::VecDeque;

use eddy_wire::id::JobId;

use crate::jobs::Jobs;

/// How many jobs whose end is durable are remembered.
const ENDED_MAX: usize = 16_384;

/// Something about each of the jobs that ended last.
#[derive(Debug)]
pub(crate) struct Ended<T> {
    of: Jobs<T>,
    /// Those whose end is durable, the longest so first.
    durable: VecDeque<JobId>,
}

impl<T> Default for Ended<T> {
    fn default() -> Ended<T> {
        Ended {
            of: Jobs::default(),
            durable: VecDeque::new(),
        }
    }
}

impl<T> Ended<T> {
    /// That job is over.
    pub(crate) fn note(&mut self, job: JobId, what: T) {
        self.of.insert(job, what);
    }

    /// Its end is on disk.
    pub(crate) fn durable(&mut self, job: JobId) {
        if !self.of.contains_key(&job) {
            return;
        }
        self.durable.push_back(job);
        if self.durable.len() > ENDED_MAX
            && let Some(oldest) = self.durable.pop_front()
        {
            self.of.remove(&oldest);
        }
    }

    /// What is remembered of it.
    pub(crate) fn get(&self, job: JobId) -> Option<&T> {
        self.of.get(&job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_not_durable_is_never_forgotten() {
        let mut ended = Ended::default();
        let many = ENDED_MAX as u64 + 9;
        for job in 0..many {
            ended.note(JobId(job), ());
        }
        for job in 1..many {
            ended.durable(JobId(job));
        }
        assert!(ended.get(JobId(0)).is_some(), "it is not on disk");
        assert!(ended.get(JobId(1)).is_none(), "the journal knows it");
        assert_eq!(ended.of.keys().count(), ENDED_MAX + 1);
    }
}
