//! How many of each gang are ready to start, for the rows of those who wait for the others.
//!
//! A fold of the jobs that the listing has. Decides nothing: who starts says the planner.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::account::Name;
use eddy_wire::gang;
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::Reason;

/// A gang by its user and name.
type Key = (u32, Name);

/// The gangs of jobs that are not over.
#[derive(Debug, Default)]
pub(super) struct Ready {
    gangs: BTreeMap<Key, Members>,
    of: BTreeMap<JobId, Key>,
}

#[derive(Debug, Default)]
struct Members {
    size: u32,
    all: BTreeSet<JobId>,
    ready: BTreeSet<JobId>,
    course: Course,
}

/// Whether any of a gang was ever given its resources: who is to run again waits for others than all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Course {
    #[default]
    Gathers,
    Began,
}

impl Ready {
    /// A job is new.
    pub(super) fn submitted(&mut self, job: &Job) {
        let Ok(Some(gang)) = gang::of(&job.submit.spec) else {
            return;
        };
        let key = (job.submit.user, gang.name);
        let members = self.gangs.entry(key.clone()).or_default();
        members.size = gang.size;
        members.all.insert(job.id);
        self.of.insert(job.id, key);
    }

    /// A record of a job was folded.
    pub(super) fn moved(&mut self, job: &Job) {
        let Some(key) = self.of.get(&job.id) else {
            return;
        };
        let Some(members) = self.gangs.get_mut(key) else {
            return;
        };
        if job.grant().is_some() {
            members.course = Course::Began;
        }
        match job.state == JobState::Sched && job.urgency > 0 {
            true => members.ready.insert(job.id),
            false => members.ready.remove(&job.id),
        };
        if job.state == JobState::Inactive {
            members.all.remove(&job.id);
            if members.all.is_empty() {
                self.gangs.remove(key);
            }
            self.of.remove(&job.id);
        }
    }

    /// That not all of a job's gang are there.
    pub(super) fn incomplete(&self, job: JobId) -> Option<Reason> {
        let (user, name) = self.of.get(&job)?;
        let members = self.gangs.get(&(*user, name.clone()))?;
        let ready = u32::try_from(members.ready.len()).unwrap_or(u32::MAX);
        let gathers = members.course == Course::Gathers && ready < members.size;
        gathers.then(|| Reason::GangIncomplete {
            gang: name.clone(),
            ready,
            size: members.size,
        })
    }
}
