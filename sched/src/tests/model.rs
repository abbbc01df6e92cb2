//! What the tests share: inventories and requests in short form, and the same
//! policy written once more without any index.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing};
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use crate::policy::NodeRank;

/// Nodes from rank 0 with (cores, gpus, memory) each; cores and GPUs count from 0.
pub(crate) fn inventory(nodes: &[(u32, u32, u64)]) -> Arc<ResourceSet> {
    let mut set = ResourceSet::new();
    for (rank, &(cores, gpus, memory)) in (0..).zip(nodes) {
        let node = NodeSet {
            host: format!("node{rank}").into(),
            cores: Idset::first_ids(cores),
            gpus: Idset::first_ids(gpus),
            memory,
            ..NodeSet::default()
        };
        set.nodes.insert(Rank(rank), node);
    }
    Arc::new(set)
}

/// A request for so many slots of so many cores, anywhere.
pub(crate) fn slots(slots: u32, cores_per_slot: u32) -> Request {
    Request {
        takes: eddy_wire::jobspec::Takes::Resources,
        ranks: None,
        constraint: None,
        work: eddy_wire::jobspec::Work::Tasks,
        nodes: None,
        choice: None,
        slots,
        slots_per_node: slots,
        cores_per_slot,
        gpus_per_slot: 0,
        memory: MemoryNeed::None,
        sharing: Sharing::Shared,
        ntasks: slots,
        duration: None,
        sockets: None,
    }
}

/// A request for nodes with so many slots of so many cores on each.
pub(crate) fn nodes(nodes: u32, slots_per_node: u32, cores_per_slot: u32) -> Request {
    let all = nodes * slots_per_node;
    Request {
        nodes: Some(nodes),
        slots_per_node,
        ..slots(all, cores_per_slot)
    }
}

/// A small number as an urgency.
pub(crate) fn urgency(number: i64) -> u8 {
    u8::try_from(number).expect("the tests have small numbers")
}

/// The final state that a run of deltas led to.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub inventory: Arc<ResourceSet>,
    pub up: Idset,
    /// Those that are up, and those that are drained.
    pub online: Idset,
    pub wants: BTreeMap<JobId, (i64, Request)>,
    pub holds: BTreeMap<JobId, Arc<ResourceSet>>,
    /// Which nodes are taken; `None` is the lowest.
    pub rank: Option<NodeRank>,
}

/// What the policy says of the first jobs: started on this, never, and then one waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plain {
    Start(BTreeMap<Rank, NodeSet>),
    Never,
    Wait,
}

impl State {
    /// The jobs that take nothing and hold nothing, and what becomes of those that need not wait.
    fn beside(&self) -> Vec<(JobId, Plain)> {
        let mut said = Vec::new();
        for (&job, (_, request)) in &self.wants {
            let Some(ranks) = request.beside() else {
                continue;
            };
            if self.holds.contains_key(&job) || self.inventory.is_empty() {
                continue;
            }
            let nothing = |rank| {
                let node = self.inventory.nodes.get(&Rank(rank))?;
                let host = node.host.clone();
                let (cores, gpus, memory) = (Idset::new(), Idset::new(), 0);
                Some((
                    Rank(rank),
                    NodeSet {
                        host,
                        cores,
                        gpus,
                        memory,
                        ..NodeSet::default()
                    },
                ))
            };
            let nodes: Option<BTreeMap<Rank, NodeSet>> = ranks.iter().map(nothing).collect();
            match nodes {
                None => said.push((job, Plain::Never)),
                Some(nodes) if self.online.contains_all(&ranks) => {
                    said.push((job, Plain::Start(nodes)))
                }
                Some(_) => {}
            }
        }
        said
    }

    /// The jobs that take something and hold nothing, in the order of their turn.
    pub fn queue(&self) -> Vec<JobId> {
        let waits = self.wants.iter().filter(|(job, (_, request))| {
            !self.holds.contains_key(job) && request.beside().is_none()
        });
        let mut queue: Vec<_> = waits
            .map(|(&job, &(priority, _))| (Reverse(priority), job))
            .collect();
        queue.sort();
        queue.into_iter().map(|(_, job)| job).collect()
    }

    /// First come, first served, by looking at every node for every job.
    pub fn schedule(&self) -> Vec<(JobId, Plain)> {
        let mut holds = self.holds.clone();
        let mut said = self.beside();
        for job in self.queue() {
            let request = &self.wants[&job].1;
            let mut free = self.inventory.nodes.clone();
            let idle: Vec<Rank> = free
                .keys()
                .filter(|rank| {
                    let mut parts = holds.values().filter_map(|set| set.nodes.get(rank));
                    parts.all(NodeSet::is_empty)
                })
                .copied()
                .collect();
            for (rank, node) in &mut free {
                for part in holds.values().filter_map(|set| set.nodes.get(rank)) {
                    node.cores = node.cores.difference(&part.cores);
                    node.gpus = node.gpus.difference(&part.gpus);
                    node.memory = node.memory.saturating_sub(part.memory);
                }
            }
            let exclusive = request.sharing == Sharing::Exclusive;
            free.retain(|rank, _| self.up.contains(rank.0) && (!exclusive || idle.contains(rank)));
            let verdict = match self.fit(&free, request) {
                _ if self.inventory.is_empty() => Plain::Wait,
                _ if !self.has_ranks(request) => Plain::Never,
                Some(set) => Plain::Start(set),
                None if self.fit(&self.inventory.nodes, request).is_none() => Plain::Never,
                None => Plain::Wait,
            };
            if let Plain::Start(nodes) = &verdict {
                let set = ResourceSet {
                    nodes: nodes.clone(),
                    ..ResourceSet::default()
                };
                holds.insert(job, Arc::new(set));
            }
            let stop = verdict == Plain::Wait;
            said.push((job, verdict));
            if stop {
                break;
            }
        }
        said
    }

    fn has_ranks(&self, request: &Request) -> bool {
        let all = self.inventory.ranks();
        request
            .ranks
            .as_ref()
            .is_none_or(|ranks| all.contains_all(ranks))
    }

    /// Slot by slot, node by node, in the order of the placement.
    fn fit(
        &self,
        free: &BTreeMap<Rank, NodeSet>,
        request: &Request,
    ) -> Option<BTreeMap<Rank, NodeSet>> {
        let will_do = |rank: &Rank| {
            let ranks = request.ranks.as_ref();
            ranks.is_none_or(|ranks| ranks.contains(rank.0))
        };
        let mut nodes: Vec<Rank> = free.keys().copied().filter(will_do).collect();
        match self.rank {
            None | Some(NodeRank::LowId | NodeRank::FirstFit) => {}
            Some(NodeRank::HighId) => nodes.reverse(),
            Some(by @ (NodeRank::Pack | NodeRank::Spread | NodeRank::BestFit)) => {
                nodes.sort_by_key(|rank| (self.use_of(by, *rank, &free[rank]), *rank));
            }
            Some(NodeRank::Locality) => return self.near(free, &nodes, request),
        }
        let on = match (self.rank, request.nodes) {
            (Some(NodeRank::Spread), None) if request.sharing == Sharing::Shared => {
                self.dealt(free, &nodes, request)?
            }
            _ => self.filled(free, &nodes, request)?,
        };
        let part = |(rank, on)| (rank, self.part(&free[&rank], rank, request, on));
        Some(on.into_iter().map(part).collect())
    }

    /// The first of the shortest runs of ranks on which it fits.
    fn near(
        &self,
        free: &BTreeMap<Rank, NodeSet>,
        nodes: &[Rank],
        request: &Request,
    ) -> Option<BTreeMap<Rank, NodeSet>> {
        for long in 0..self.inventory.nodes.len() as u32 {
            for first in 0..self.inventory.nodes.len() as u32 {
                let run = nodes
                    .iter()
                    .copied()
                    .filter(|rank| (first..=first + long).contains(&rank.0));
                let run: Vec<Rank> = run.collect();
                if let Some(on) = self.filled(free, &run, request) {
                    let part = |(rank, on)| (rank, self.part(&free[&rank], rank, request, on));
                    return Some(on.into_iter().map(part).collect());
                }
            }
        }
        None
    }

    fn use_of(&self, by: NodeRank, rank: Rank, free: &NodeSet) -> [i128; 3] {
        let all = &self.inventory.nodes[&rank];
        let left = |free: u64| i128::from(free);
        let memory = match all.memory {
            0 => left(u64::MAX),
            _ => left(free.memory),
        };
        let free = [left(free.cores.len()), left(free.gpus.len()), memory];
        let all_memory = match all.memory {
            0 => left(u64::MAX),
            bytes => left(bytes),
        };
        let all = [left(all.cores.len()), left(all.gpus.len()), all_memory];
        std::array::from_fn(|at| match by {
            NodeRank::Pack => free[at] - all[at],
            NodeRank::Spread => all[at] - free[at],
            _ => free[at],
        })
    }

    fn has_room(&self, node: &NodeSet, rank: Rank, request: &Request, on: u32) -> bool {
        let unknown = self.inventory.nodes[&rank].memory == 0;
        node.cores.len() >= u64::from(on * request.cores_per_slot)
            && node.gpus.len() >= u64::from(on * request.gpus_per_slot)
            && (unknown || node.memory >= memory(request, on))
    }

    /// As many slots on each node as go there.
    fn filled(
        &self,
        free: &BTreeMap<Rank, NodeSet>,
        nodes: &[Rank],
        request: &Request,
    ) -> Option<Vec<(Rank, u32)>> {
        let mut filled = Vec::new();
        let (mut slots_left, mut nodes_left) = (request.slots, request.nodes);
        for rank in nodes {
            if slots_left == 0 || nodes_left == Some(0) {
                break;
            }
            let wanted = request.nodes.map_or(slots_left, |_| request.slots_per_node);
            let mut counts = (1..=wanted).rev();
            let on = counts.find(|on| self.has_room(&free[rank], *rank, request, *on));
            let Some(on) = on.filter(|&on| request.nodes.is_none() || on == wanted) else {
                continue;
            };
            slots_left -= on.min(slots_left);
            nodes_left = nodes_left.map(|left| left - 1);
            filled.push((*rank, on));
        }
        (slots_left == 0).then_some(filled)
    }

    /// One slot on each node that has room for one more, again and again.
    fn dealt(
        &self,
        free: &BTreeMap<Rank, NodeSet>,
        nodes: &[Rank],
        request: &Request,
    ) -> Option<Vec<(Rank, u32)>> {
        let mut dealt: Vec<(Rank, u32)> = nodes.iter().map(|rank| (*rank, 0)).collect();
        let mut left = request.slots;
        while left > 0 {
            let before = left;
            for (rank, on) in &mut dealt {
                if left > 0 && self.has_room(&free[rank], *rank, request, *on + 1) {
                    (*on, left) = (*on + 1, left - 1);
                }
            }
            if left == before {
                return None;
            }
        }
        dealt.retain(|(_, on)| *on > 0);
        Some(dealt)
    }

    fn part(&self, free: &NodeSet, rank: Rank, request: &Request, on: u32) -> NodeSet {
        let unknown = self.inventory.nodes[&rank].memory == 0;
        match request.sharing {
            Sharing::Exclusive => self.inventory.nodes[&rank].clone(),
            Sharing::Shared => NodeSet {
                host: free.host.clone(),
                cores: free.cores.lowest(u64::from(on * request.cores_per_slot)),
                gpus: free.gpus.lowest(u64::from(on * request.gpus_per_slot)),
                memory: if unknown { 0 } else { memory(request, on) },
                ..NodeSet::default()
            },
        }
    }
}

/// The bytes that so many slots on one node need.
pub(crate) fn memory(request: &Request, slots: u32) -> u64 {
    match request.memory {
        MemoryNeed::None => 0,
        MemoryNeed::PerNode(bytes) => bytes,
        MemoryNeed::PerCore(bytes) => bytes * u64::from(slots * request.cores_per_slot),
        MemoryNeed::PerTask(bytes) => {
            (bytes * u64::from(request.ntasks)).div_ceil(u64::from(request.slots))
                * u64::from(slots)
        }
    }
}
