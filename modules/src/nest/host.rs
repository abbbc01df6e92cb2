//! Which ranks of this instance host ranks of its children.
//!
//! The first node of a child's grant is its leader's. On every other one the
//! agent is ordered to host a rank of it, once the child has said where its
//! ranks knock; again whenever that rank is reached anew, since orders of an
//! earlier tenure are void.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::{Effect, Outbox};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::tree::HostOrder;

use super::Nest;
use super::child::Child;

/// How many orders to host no more wait for a rank that is not reached. Beyond
/// them the rank finds out by itself that nobody answers its knocks.
const UNHOSTS_MAX: usize = 1024;

/// The orders that were given.
#[derive(Debug)]
pub(super) struct Hosts {
    /// Ranks on the leader's own node.
    local: Idset,
    /// Ordered in the present tenure of each rank.
    ordered: BTreeMap<JobId, BTreeSet<Rank>>,
    /// What ranks that are not reached are to host no more.
    owed: BTreeMap<Rank, BTreeSet<String>>,
}

impl Hosts {
    pub(super) fn new(local: Idset) -> Hosts {
        Hosts {
            local,
            ordered: BTreeMap::new(),
            owed: BTreeMap::new(),
        }
    }

    /// The ranks of a child besides its leader's, with their numbers in the
    /// child. Where the leader's node is several ranks (none of which has an
    /// agent of its own) the leader serves them itself.
    fn ranks(&self, child: &Child) -> Vec<(Rank, Rank)> {
        let Some((grant, leader)) = child.job.grant().zip(child.leader_rank()) else {
            return Vec::new();
        };
        let shares = |rank: &Rank| self.local.contains(leader.0) && self.local.contains(rank.0);
        let ranks = grant.set.nodes.keys().enumerate().skip(1);
        let ranks = ranks.filter(|(_, rank)| !shares(rank));
        ranks.map(|(at, rank)| (*rank, Rank(at as u32))).collect()
    }

    /// The ranks of a child that its leader serves itself, in this instance's numbers.
    pub(super) fn leaders(&self, child: &Child) -> Idset {
        let Some((grant, leader)) = child.job.grant().zip(child.leader_rank()) else {
            return Idset::new();
        };
        match self.local.contains(leader.0) {
            true => grant.set.ranks().intersect(&self.local),
            false => Idset::one(leader.0),
        }
    }

    /// All orders of that child are to be given anew.
    pub(super) fn forget(&mut self, job: JobId) {
        self.ordered.remove(&job);
    }

    fn lost(&mut self, reached: &Idset) {
        for ordered in self.ordered.values_mut() {
            ordered.retain(|rank| reached.contains(rank.0));
        }
    }

    fn owe(&mut self, rank: Rank, instance: String) {
        let owed = self.owed.entry(rank).or_default();
        if owed.len() < UNHOSTS_MAX {
            owed.insert(instance);
        }
    }
}

impl Nest {
    /// Other ranks are reached than before.
    pub(super) fn ranks(&mut self, ranks: &Idset, out: &mut Outbox) {
        self.hosts.lost(ranks);
        self.reached = ranks.clone();
        let back = self.hosts.owed.keys().copied();
        let back: Vec<Rank> = back.filter(|rank| ranks.contains(rank.0)).collect();
        for rank in back {
            for instance in self.hosts.owed.remove(&rank).unwrap_or_default() {
                out.effect(Effect::Unhost(rank, instance));
            }
        }
        let jobs: Vec<JobId> = self.children.keys().copied().collect();
        for job in jobs {
            self.host(job, out);
        }
    }

    /// Orders the ranks of a child that are reached and were not ordered yet.
    pub(super) fn host(&mut self, job: JobId, out: &mut Outbox) {
        let Some(child) = self.children.get(&job) else {
            return;
        };
        let (Some(adoption), Some(door)) = (child.adoption(), &child.told.door) else {
            return;
        };
        if child.job.end.is_some() {
            // Its ground may be cleared already: nothing is to begin there again.
            return;
        }
        let released = &child.job.released;
        for (rank, place) in self.hosts.ranks(child) {
            let wanted = self.reached.contains(rank.0) && !released.contains(rank.0);
            if wanted && self.hosts.ordered.entry(job).or_default().insert(rank) {
                let order = HostOrder {
                    instance: adoption.instance.clone(),
                    job,
                    attempt: child.job.attempt,
                    rank: place,
                    door: door.clone(),
                };
                out.effect(Effect::Host(rank, Box::new(order)));
            }
        }
    }

    /// Nothing of a child runs on these ranks any more: also those that an
    /// earlier leader ordered.
    pub(super) fn unhost(&mut self, job: JobId, ranks: &Idset, out: &mut Outbox) {
        let Some(child) = self.children.get(&job) else {
            return;
        };
        let Some(instance) = child.adoption().map(|adoption| adoption.instance.clone()) else {
            return;
        };
        for (rank, _) in self.hosts.ranks(child) {
            if !ranks.contains(rank.0) {
                continue;
            }
            if let Some(ordered) = self.hosts.ordered.get_mut(&job) {
                ordered.remove(&rank);
            }
            if self.reached.contains(rank.0) {
                out.effect(Effect::Unhost(rank, instance.clone()));
            } else {
                self.hosts.owe(rank, instance.clone());
            }
        }
    }
}
