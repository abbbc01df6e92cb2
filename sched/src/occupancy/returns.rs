//! What comes back of each node, and when: by the ends of what is held.
//!
//! Kept by [`super::Occupancy`] beside the ends themselves, so that a search that
//! looks at a node need not look at every job.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use super::{OVERDUE, Occupancy};
use crate::inventory::Inventory;
use crate::rooms::Room as Amounts;

/// What a set has of each node, by place. A job that takes nothing has no part of its nodes.
pub(crate) fn parts<'s>(
    inventory: &'s Inventory,
    set: &'s ResourceSet,
) -> impl Iterator<Item = (usize, Amounts)> + 's {
    let parts = set.nodes.iter().filter(|(_, part)| !part.is_empty());
    parts.filter_map(|(&rank, part)| {
        let amounts = Amounts {
            cores: part.cores.len(),
            gpus: part.gpus.len(),
            memory: part.memory,
        };
        Some((inventory.place_of(rank)?, amounts))
    })
}

/// What a job gives back of a node, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Return {
    pub until: Time,
    job: JobId,
    pub back: Amounts,
}

impl Return {
    pub fn key(&self) -> (Time, JobId) {
        (self.until, self.job)
    }

    pub fn job(&self) -> JobId {
        self.job
    }
}

impl Occupancy {
    /// It comes back then: before layers are made with it, or they would lack it for ever.
    pub(super) fn note(&mut self, job: JobId, set: &Arc<ResourceSet>, until: Time) {
        self.ends.insert((until, job), Arc::clone(set));
        self.note_returns(until, job, set);
        self.refresh(set);
    }

    /// What a job holds is planned to be given back at another time than `before`.
    pub fn ends_then(&mut self, job: JobId, set: &Arc<ResourceSet>, before: Time, until: Time) {
        self.forget_return(job, set, before);
        self.note(job, set, until);
    }

    /// What a job held until then is not counted on any more.
    pub(super) fn forget_return(&mut self, job: JobId, set: &ResourceSet, until: Time) {
        self.ends.remove(&(until, job));
        for (at, _) in parts(&self.inventory, set) {
            self.profiles.forget(at);
            let returns = &mut self.returns[at];
            if let Ok(place) = returns.binary_search_by_key(&(until, job), Return::key) {
                returns.remove(place);
            }
        }
        self.misses.clear();
    }

    pub(super) fn note_returns(&mut self, until: Time, job: JobId, set: &ResourceSet) {
        for (at, back) in parts(&self.inventory, set) {
            self.profiles.forget(at);
            let returns = &mut self.returns[at];
            let back = Return { until, job, back };
            match returns.binary_search_by_key(&(until, job), Return::key) {
                Ok(place) => returns[place] = back,
                Err(place) => returns.insert(place, back),
            }
        }
    }

    /// What is free of a node at a time from now on, if all end when they are to.
    pub(super) fn free_at(&self, at: usize, time: Time) -> Amounts {
        let (mut free, _) = self.given_back(at, time);
        let promises = self.promises.of(at).iter();
        for one in promises.filter(|one| one.is_active(time)) {
            free = free.without(&one.takes);
        }
        free
    }

    /// What is free of a node by a time, promises aside, and how many still hold a part of it.
    pub(super) fn given_back(&self, at: usize, time: Time) -> (Amounts, u64) {
        let mut free = self.inventory.free().room(at);
        let mut held = self.inventory.node(at).holdings();
        let returns = self.returns[at].iter();
        for one in returns.take_while(|one| self.ends_at(one.until) <= time) {
            free = free.with(&one.back);
            held = held.saturating_sub(1);
        }
        (free, held)
    }

    /// When what is to end then is counted as free.
    pub(super) fn ends_at(&self, until: Time) -> Time {
        until.max(self.now + OVERDUE)
    }
}
