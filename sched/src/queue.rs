//! Who waits, in the order of their turn.
//!
//! Kept by the planner. Higher priority first, then the lower job id, which is
//! the earlier submission. A job whose start is proposed, or that still holds
//! what an earlier attempt was given, waits aside until it holds nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Takes};
use eddy_wire::plan::Want;

use crate::beside::Beside;

/// All jobs that want resources.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    wants: BTreeMap<JobId, Want>,
    /// Those that are not aside.
    order: BTreeSet<(Reverse<i64>, JobId)>,
    /// Those that take nothing and are not aside; they are not in the order.
    beside: Beside,
}

impl Queue {
    /// The job wants this, whatever it wanted before. It is put in the order.
    pub fn want(&mut self, job: JobId, want: Want) {
        self.unwant(job);
        self.wants.insert(job, want);
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
            match want.request.takes {
                Takes::Resources => drop(self.order.remove(&(Reverse(want.priority), job))),
                Takes::Nothing => self.beside.remove(job),
            }
        }
    }

    /// It is no longer aside; a job that wants nothing stays out.
    pub fn recall(&mut self, job: JobId) {
        if let Some(want) = self.wants.get(&job) {
            match want.request.takes {
                Takes::Resources => drop(self.order.insert((Reverse(want.priority), job))),
                Takes::Nothing => self.beside.add(job),
            }
        }
    }

    /// Whose turn it is, and what that job asks for.
    pub fn first(&self) -> Option<(JobId, &Request)> {
        let (_, job) = self.order.first()?;
        Some((*job, &self.wants[job].request))
    }

    /// A job that takes nothing and is to be looked at, and what it asks for.
    pub fn first_beside(&self) -> Option<(JobId, &Request)> {
        let job = self.beside.first()?;
        Some((job, &self.wants[&job].request))
    }

    /// That job waits for this rank to be there.
    pub fn sleep(&mut self, job: JobId, rank: u32) {
        self.beside.sleep(job, rank);
    }

    /// These ranks are there.
    pub fn wake(&mut self, ranks: &Idset) {
        self.beside.wake(ranks);
    }

    /// The ranks are others.
    pub fn wake_all(&mut self) {
        self.beside.wake_all();
    }

    /// What a job asks for, aside or not.
    pub fn request(&self, job: JobId) -> Option<&Request> {
        self.wants.get(&job).map(|want| &want.request)
    }
}
