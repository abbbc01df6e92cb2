//! Who waits, in the order of their turn.
//!
//! Kept by the planner. Higher priority first, then the lower job id, which is
//! the earlier submission. A job whose start is proposed, or that still holds
//! what an earlier attempt was given, waits aside until it holds nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Request;

/// All jobs that want resources.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    wants: BTreeMap<JobId, Want>,
    /// Those that are not aside.
    order: BTreeSet<(Reverse<i64>, JobId)>,
}

#[derive(Clone, Debug)]
struct Want {
    priority: i64,
    request: Request,
}

impl Queue {
    /// The job wants this at this priority, whatever it wanted before. It is put in the order.
    pub fn want(&mut self, job: JobId, priority: i64, request: Request) {
        self.unwant(job);
        self.wants.insert(job, Want { priority, request });
        self.recall(job);
    }

    /// It wants nothing.
    pub fn unwant(&mut self, job: JobId) {
        self.aside(job);
        self.wants.remove(&job);
    }

    /// It wants what it wants, but not now.
    pub fn aside(&mut self, job: JobId) {
        if let Some(want) = self.wants.get(&job) {
            self.order.remove(&(Reverse(want.priority), job));
        }
    }

    /// It is no longer aside; a job that wants nothing stays out.
    pub fn recall(&mut self, job: JobId) {
        if let Some(want) = self.wants.get(&job) {
            self.order.insert((Reverse(want.priority), job));
        }
    }

    /// Whose turn it is, and what that job asks for.
    pub fn first(&self) -> Option<(JobId, &Request)> {
        let (_, job) = self.order.first()?;
        Some((*job, &self.wants[job].request))
    }

    /// What a job asks for, aside or not.
    pub fn request(&self, job: JobId) -> Option<&Request> {
        self.wants.get(&job).map(|want| &want.request)
    }
}
