//! Which ranks of this instance host ranks of its children.
//!
//! The first node of a child's grant is its leader's. On every other one the
//! agent is ordered to host a rank of it, once the child has said where its
//! ranks knock; again whenever that rank is reached anew, since orders of an
//! earlier tenure are void. Then each rank says what it hosts, and is ordered to
//! end what is not wanted: so no order to host no more need be kept.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::{Effect, Outbox};
use eddy_wire::id::{Attempt, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::services::child::ChildOf;
use eddy_wire::tree::{ATTENDANT, HostOrder};

use super::Nest;
use super::child::Child;

/// The orders that were given.
#[derive(Debug)]
pub(super) struct Hosts {
    /// Ranks on the leader's own node.
    local: Idset,
    /// Ordered in the present tenure of each rank.
    ordered: BTreeMap<JobId, BTreeSet<Rank>>,
}

impl Hosts {
    pub(super) fn new(local: Idset) -> Hosts {
        Hosts {
            local,
            ordered: BTreeMap::new(),
        }
    }

    /// The ranks of a child besides its leader's, with their numbers in the
    /// child. Where the leader's node is several ranks (none of which has an
    /// agent of its own) the leader serves them itself.
    fn ranks(&self, child: &Child) -> Vec<(Rank, Rank)> {
        let Some(leader) = child.leader_rank() else {
            return Vec::new();
        };
        let shares = |rank: Rank| self.local.contains(leader.0) && self.local.contains(rank.0);
        let ranks = child.numbers().into_iter();
        ranks
            .filter(|(rank, _)| *rank != leader && !shares(*rank))
            .collect()
    }

    /// The ranks of a child that its leader serves itself, in this instance's numbers.
    pub(super) fn leaders(&self, child: &Child) -> Idset {
        let Some(leader) = child.leader_rank() else {
            return Idset::new();
        };
        match self.local.contains(leader.0) {
            true => {
                let all = child.numbers().into_keys().map(|rank| rank.0);
                all.collect::<Idset>().intersect(&self.local)
            }
            false => Idset::one(leader.0),
        }
    }

    /// Those of them that it has by its own job: they go back with that.
    pub(super) fn kept(&self, child: &Child) -> Idset {
        let own = |rank: &Rank| child.holder(*rank).job == child.id();
        let leaders = self.leaders(child);
        let kept = leaders.iter().filter(|rank| own(&Rank(*rank)));
        kept.collect()
    }

    /// All orders of that child are to be given anew.
    pub(super) fn forget(&mut self, job: JobId) {
        self.ordered.remove(&job);
    }

    fn is_ordered(&self, job: JobId, rank: Rank) -> bool {
        let ordered = self.ordered.get(&job);
        ordered.is_some_and(|ranks| ranks.contains(&rank))
    }

    fn lost(&mut self, reached: &Idset) {
        for ordered in self.ordered.values_mut() {
            ordered.retain(|rank| reached.contains(rank.0));
        }
    }
}

impl Nest {
    /// Other ranks are reached than before.
    pub(super) fn ranks(&mut self, ranks: &Idset, out: &mut Outbox) {
        self.hosts.lost(ranks);
        self.reached = ranks.clone();
        let jobs: Vec<JobId> = self.children.keys().copied().collect();
        for job in jobs {
            self.host(job, out);
        }
    }

    /// What a rank hosts, by its own word. What no child that runs there is, in
    /// this attempt, ends, unless an order of this tenure has taken its place.
    pub(super) fn hosted(
        &mut self,
        rank: Rank,
        hosted: &[(String, JobId, Attempt)],
        out: &mut Outbox,
    ) {
        for (instance, job, attempt) in hosted {
            if !self.is_wanted(rank, instance, (*job, *attempt)) {
                out.effect(Effect::Unhost(rank, instance.clone()));
            }
        }
    }

    /// Whether a rank of that instance, hosted there for that run of a job, is to
    /// be left alone.
    fn is_wanted(&self, at: Rank, instance: &str, hosted: (JobId, Attempt)) -> bool {
        let is_there =
            |rank: Rank| rank == at || (at == ATTENDANT && self.hosts.local.contains(rank.0));
        let wants = |(job, child): (&JobId, &Child)| {
            let is_it = child.adoption().is_some_and(|a| a.instance == instance);
            let released = &child.job.released;
            let is_ordered = |rank| self.hosts.is_ordered(*job, rank);
            let mut ranks = self.hosts.ranks(child).into_iter();
            let is_wanted = |rank: Rank| {
                let holder = child.holder(rank);
                let is_same = hosted == (holder.job, holder.attempt);
                is_there(rank) && !released.contains(rank.0) && (is_same || is_ordered(rank))
            };
            is_it && ranks.any(|(rank, _)| is_wanted(rank))
        };
        self.children.iter().any(wants)
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
            let holder = child.holder(rank);
            if wanted && self.hosts.ordered.entry(job).or_default().insert(rank) {
                let own = ChildOf {
                    job,
                    attempt: child.job.attempt,
                };
                let order = HostOrder {
                    instance: adoption.instance.clone(),
                    job: holder.job,
                    attempt: holder.attempt,
                    child: (holder != own).then_some(own),
                    name: child.declared.clone(),
                    user: child.job.submit.user,
                    rank: place,
                    door: door.clone(),
                };
                out.effect(Effect::Host(rank, Box::new(order)));
            }
        }
    }

    /// What a child has changed: ranks that left it host it no more, and those that came do.
    pub(super) fn host_changed(&mut self, job: JobId, out: &mut Outbox) {
        let ordered = self.hosts.ordered.get_mut(&job);
        if let (Some(child), Some(ordered)) = (self.children.get(&job), ordered) {
            let here = child.numbers();
            let left: Vec<Rank> = ordered
                .extract_if(.., |rank| !here.contains_key(rank))
                .collect();
            let instance = child.adoption().map(|adoption| adoption.instance.clone());
            for rank in left
                .into_iter()
                .filter(|rank| self.reached.contains(rank.0))
            {
                let instance = instance.clone().unwrap_or_default();
                out.effect(Effect::Unhost(rank, instance));
            }
        }
        self.host(job, out);
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
            }
        }
    }
}
