//! Which jobs of a user have the same name, for those of which one runs at a time.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::lifecycle::JobState;

use super::Jobs;
use crate::row::name;

/// The jobs that are not over, by user and name; kept from the first job on that waits for its name.
#[derive(Default)]
pub(super) enum Names {
    #[default]
    Unasked,
    Kept(Kept),
}

#[derive(Default)]
pub(super) struct Kept {
    same: BTreeMap<(u32, String), BTreeSet<JobId>>,
    /// Under which it is kept: a name changes.
    of: BTreeMap<JobId, (u32, String)>,
}

impl Kept {
    fn insert(&mut self, job: &Job) {
        let key = (job.submit.user, name(&job.submit));
        self.same.entry(key.clone()).or_default().insert(job.id);
        self.of.insert(job.id, key);
    }

    /// Takes it out; who is first of its name now.
    fn remove(&mut self, id: JobId) -> Option<JobId> {
        let key = self.of.remove(&id)?;
        let same = self.same.get_mut(&key)?;
        same.remove(&id);
        let first = same.first().copied();
        if first.is_none() {
            self.same.remove(&key);
        }
        first
    }
}

impl Names {
    pub fn insert(&mut self, job: &Job) {
        if let Names::Kept(kept) = self {
            kept.insert(job);
        }
    }

    /// Whether no earlier one is left.
    pub fn is_first(&mut self, jobs: &Jobs, job: &Job) -> bool {
        if let Names::Unasked = self {
            let mut kept = Kept::default();
            let open = |job: &&Job| job.state != JobState::Inactive;
            jobs.values().filter(open).for_each(|job| kept.insert(job));
            *self = Names::Kept(kept);
        }
        let Names::Kept(kept) = self else {
            return false;
        };
        let same = kept.of.get(&job.id).and_then(|key| kept.same.get(key));
        same.is_none_or(|same| same.first().is_none_or(|first| *first >= job.id))
    }

    /// A job may have another name than before: if so, who is first of the old one now.
    pub fn renamed(&mut self, job: &Job) -> Option<Option<JobId>> {
        let Names::Kept(kept) = self else {
            return None;
        };
        let (user, before) = kept.of.get(&job.id)?;
        if (*user, before.as_str()) == (job.submit.user, name(&job.submit).as_str()) {
            return None;
        }
        let first = kept.remove(job.id);
        kept.insert(job);
        Some(first)
    }

    /// Takes a job that is over out; who is first of its name now.
    pub fn remove(&mut self, id: JobId) -> Option<JobId> {
        match self {
            Names::Unasked => None,
            Names::Kept(kept) => kept.remove(id),
        }
    }
}
