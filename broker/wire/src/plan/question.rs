//! What somebody asks a planner.

use super::{Suppose, Want};
use crate::id::JobId;

/// Which jobs somebody asks about.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Chosen by who asks; comes back with the answer.
    pub tag: u64,
    /// First and last of each range of jobs, in order, without overlaps; `None` is all that wait.
    pub jobs: Option<Vec<(JobId, JobId)>>,
    /// The most to tell of.
    pub most: usize,
    /// What is supposed to be otherwise, for all of them.
    pub suppose: Suppose,
    /// What some of them would ask for then, by who knows on which nodes they may be. Who waits for something
    /// else than resources is told of as if it waited for these.
    pub wants: Vec<(JobId, Want)>,
    /// What some of them would ask for by a shorter limit, by which they might be given nodes that they are not
    /// lent as they are.
    pub lent: Vec<(JobId, Want)>,
}

impl Question {
    /// Whether it is about this job.
    pub fn names(&self, job: JobId) -> bool {
        let Some(ranges) = &self.jobs else {
            return true;
        };
        let at = ranges.partition_point(|(_, last)| *last < job);
        ranges.get(at).is_some_and(|(first, _)| *first <= job)
    }

    /// The same, where only these would ask for what is said of them.
    pub fn with(&self, is_one: impl Fn(&Want) -> bool) -> Question {
        let of = |wants: &[(JobId, Want)]| {
            let wants = wants.iter().filter(|(_, want)| is_one(want));
            wants.cloned().collect()
        };
        Question {
            tag: self.tag,
            jobs: self.jobs.clone(),
            most: self.most,
            suppose: self.suppose.clone(),
            wants: of(&self.wants),
            lent: of(&self.lent),
        }
    }
}
