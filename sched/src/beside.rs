//! Jobs that take nothing and wait only for their ranks to be there.
//!
//! Kept by the queue, apart from the order of turns: such a job waits behind
//! nobody and holds up nobody.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;

/// The jobs that want nothing but ranks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// To be looked at.
    ready: BTreeSet<JobId>,
    /// Looked at; each waits for one rank at least, which is not there.
    asleep: BTreeMap<u32, BTreeSet<JobId>>,
    sleepers: BTreeMap<JobId, u32>,
}

impl Beside {
    /// It is to be looked at.
    pub fn add(&mut self, job: JobId) {
        self.remove(job);
        self.ready.insert(job);
    }

    /// It waits no longer.
    pub fn remove(&mut self, job: JobId) {
        self.ready.remove(&job);
        let Some(rank) = self.sleepers.remove(&job) else {
            return;
        };
        if let Some(jobs) = self.asleep.get_mut(&rank) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.asleep.remove(&rank);
            }
        }
    }

    /// There is no use in looking at it before this rank is there.
    pub fn sleep(&mut self, job: JobId, rank: u32) {
        self.remove(job);
        self.asleep.entry(rank).or_default().insert(job);
        self.sleepers.insert(job, rank);
    }

    /// These ranks are there.
    pub fn wake(&mut self, ranks: &Idset) {
        if self.asleep.is_empty() {
            return;
        }
        for &(first, last) in ranks.ranges() {
            let come: Vec<u32> = self.asleep.range(first..=last).map(|(r, _)| *r).collect();
            for rank in come {
                let jobs = self.asleep.remove(&rank).unwrap_or_default();
                for job in &jobs {
                    self.sleepers.remove(job);
                }
                self.ready.extend(jobs);
            }
        }
    }

    /// Everything may be otherwise.
    pub fn wake_all(&mut self) {
        self.ready.extend(self.sleepers.keys());
        self.asleep.clear();
        self.sleepers.clear();
    }

    /// The first to be looked at.
    pub fn first(&self) -> Option<JobId> {
        self.ready.first().copied()
    }
}
