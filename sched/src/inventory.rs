//! What each node has, what is free of it, and which nodes are in service.
//!
//! The planner tells it what is taken and given back; placement reads it. Core
//! and GPU numbers are kept by node, and an index for each question asked of
//! them. It does not know which job holds what.

use std::sync::Arc;

use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::plan::Unavailable;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use crate::feasible::{Capacity, room_of};
use crate::rooms::{Room, Rooms};

/// All nodes of the instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inventory {
    set: Arc<ResourceSet>,
    /// By rank, ascending; places in it are the places in all indexes.
    nodes: Vec<Node>,
    /// Ranks that can be given work, of this inventory or of one still to come.
    in_service: Idset,
    /// Ranks that can be asked: those in service, and those that get no new work.
    online: Idset,
    /// Ranks of which somebody holds what there is for as long as he is there: no node in service for
    /// others.
    apart: Idset,
    /// What the nodes have.
    all: Capacity,
    /// The same without those that are apart, where there are such.
    common: Option<Rooms>,
    /// What the nodes in service have, taken or not.
    serving: Rooms,
    /// What is free on nodes in service.
    free: Rooms,
    /// What nodes in service have of which nothing is taken.
    idle: Rooms,
    kept: Kept,
}

/// How the nodes with room are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kept {
    /// By rank.
    #[default]
    ByRank,
    /// By use as well.
    ByUse,
}

/// How something was held that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WasHeld {
    Once,
    /// On some node, records that contradict each other had more than there is.
    Twice,
}

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub rank: Rank,
    /// What it has.
    pub total: NodeSet,
    /// Cores and GPUs in no holding, and the memory that is left.
    pub free: NodeSet,
    /// How many holdings have a part of it, and what those parts add up to. Records that
    /// contradict each other may take more memory than there is, so its sum is a wide one.
    holdings: u64,
    taken_cores: u64,
    taken_gpus: u64,
    taken_memory: u128,
}

impl Node {
    fn new(rank: Rank, total: &NodeSet) -> Node {
        let (total, free) = (total.clone(), total.clone());
        let (taken_cores, taken_gpus, taken_memory) = (0, 0, 0);
        Node {
            rank,
            total,
            free,
            holdings: 0,
            taken_cores,
            taken_gpus,
            taken_memory,
        }
    }

    /// How many holdings have a part of it.
    pub fn holdings(&self) -> u64 {
        self.holdings
    }

    fn take(&mut self, set: &NodeSet) {
        self.holdings += 1;
        self.taken_cores += common(&set.cores, &self.total.cores);
        self.taken_gpus += common(&set.gpus, &self.total.gpus);
        self.taken_memory += u128::from(set.memory);
        self.free.cores = self.free.cores.difference(&set.cores);
        self.free.gpus = self.free.gpus.difference(&set.gpus);
        self.free.memory = self.memory_left();
    }

    fn give(&mut self, set: &NodeSet) {
        self.holdings -= 1;
        self.taken_cores -= common(&set.cores, &self.total.cores);
        self.taken_gpus -= common(&set.gpus, &self.total.gpus);
        self.taken_memory -= u128::from(set.memory);
        self.free.cores = back(&self.free.cores, &set.cores, &self.total.cores);
        self.free.gpus = back(&self.free.gpus, &set.gpus, &self.total.gpus);
        self.free.memory = self.memory_left();
    }

    fn memory_left(&self) -> u64 {
        let taken = u64::try_from(self.taken_memory).unwrap_or(u64::MAX);
        self.total.memory.saturating_sub(taken)
    }

    /// Whether what is free and what is taken make up the node. It is not so while something is in two
    /// holdings, nor when that was given back of one.
    fn adds_up(&self) -> bool {
        self.taken_cores + self.free.cores.len() == self.total.cores.len()
            && self.taken_gpus + self.free.gpus.len() == self.total.gpus.len()
            && (self.total.memory == 0 || self.taken_memory <= u128::from(self.total.memory))
    }

    fn free_room(&self) -> Room {
        let memory = match self.total.memory {
            0 => Room::NO_LIMIT,
            _ => self.free.memory,
        };
        Room {
            cores: self.free.cores.len(),
            gpus: self.free.gpus.len(),
            memory,
        }
    }

    fn idle_room(&self) -> Option<Room> {
        (self.holdings == 0).then(|| room_of(&self.total))
    }
}

/// What a holding has on its nodes. A job that takes nothing names nodes and has nothing there.
fn parts(set: &ResourceSet) -> impl Iterator<Item = (&Rank, &NodeSet)> {
    set.nodes.iter().filter(|(_, part)| !part.is_empty())
}

/// How many ids are in both.
fn common(some: &Idset, all: &Idset) -> u64 {
    if all.contains_all(some) {
        some.len()
    } else {
        some.intersect(all).len()
    }
}

/// What is free with what comes back, as far as the node has it.
fn back(free: &Idset, given: &Idset, total: &Idset) -> Idset {
    if total.contains_all(given) {
        free.union(given)
    } else {
        free.union(&given.intersect(total))
    }
}

impl Inventory {
    /// Takes another inventory in place of this one. Holdings stay, as far as they are on nodes
    /// of the new one.
    pub fn replace<'h>(
        &mut self,
        set: Arc<ResourceSet>,
        holdings: impl Iterator<Item = &'h ResourceSet>,
    ) {
        self.nodes = set
            .nodes
            .iter()
            .map(|(&rank, node)| Node::new(rank, node))
            .collect();
        self.all = Capacity::of(&set);
        self.set = set;
        for holding in holdings {
            for (&rank, part) in parts(holding) {
                if let Some(at) = self.place_of(rank) {
                    self.nodes[at].take(part);
                }
            }
        }
        let up = |node: &Node| self.serves(node.rank);
        let rooms = |of: &dyn Fn(&Node) -> Option<Room>| {
            Rooms::new(
                self.nodes
                    .iter()
                    .map(|node| if up(node) { of(node) } else { None }),
            )
        };
        let serving = rooms(&|node| Some(room_of(&node.total)));
        let free = rooms(&|node| Some(node.free_room()));
        let idle = rooms(&Node::idle_room);
        (self.serving, self.free, self.idle) = (serving, free, idle);
        self.part();
        self.sort();
    }

    /// Keeps the nodes with room so from now on.
    pub fn keep(&mut self, kept: Kept) {
        if self.kept != kept {
            self.kept = kept;
            self.sort();
        }
    }

    fn sort(&mut self) {
        let totals = self.all.rooms();
        for rooms in [&mut self.free, &mut self.idle] {
            match self.kept {
                Kept::ByUse => rooms.sort(totals),
                Kept::ByRank => rooms.unsort(),
            }
        }
    }

    /// These ranks can be given work.
    pub fn bring(&mut self, ranks: &Idset) {
        self.online = self.online.union(ranks);
        self.in_service = self.in_service.union(ranks);
        self.refresh_ranks(ranks);
    }

    /// These ranks get no new work, for this reason.
    pub fn withdraw(&mut self, ranks: &Idset, why: Unavailable) {
        self.online = match why {
            Unavailable::Drained => self.online.union(ranks),
            Unavailable::Offline => self.online.difference(ranks),
        };
        self.in_service = self.in_service.difference(ranks);
        self.refresh_ranks(ranks);
    }

    /// These ranks, and no others, are somebody's for as long as he is there.
    pub fn set_apart(&mut self, ranks: Idset) {
        let changed = self.apart.union(&ranks);
        self.apart = ranks;
        self.refresh_ranks(&changed);
        self.part();
    }

    /// Finds again what is nobody's.
    fn part(&mut self) {
        self.common = (!self.apart.is_empty()).then(|| {
            let nodes = self.nodes.iter();
            Rooms::new(nodes.map(|node| {
                let is_apart = self.apart.contains(node.rank.0);
                (!is_apart).then(|| room_of(&node.total))
            }))
        });
    }

    /// The same ranks are in service as in another one.
    pub fn serve_as(&mut self, other: &Inventory) {
        self.online.clone_from(&other.online);
        self.in_service.clone_from(&other.in_service);
        self.refresh_ranks(&other.online);
    }

    /// What is in `set` is held from now on.
    pub fn take(&mut self, set: &ResourceSet) {
        for (&rank, part) in parts(set) {
            if let Some(at) = self.place_of(rank) {
                self.nodes[at].take(part);
                self.refresh(at);
            }
        }
    }

    /// What was taken with `set` is free again, as far as it is in none of the holdings that
    /// are `left`. Says how it was held.
    pub fn give<'h>(
        &mut self,
        set: &ResourceSet,
        left: impl Iterator<Item = &'h ResourceSet> + Clone,
    ) -> WasHeld {
        let mut was = WasHeld::Once;
        for (&rank, part) in parts(set) {
            let Some(at) = self.place_of(rank) else {
                continue;
            };
            if !self.nodes[at].adds_up() {
                was = WasHeld::Twice;
            }
            self.nodes[at].give(part);
            // Only records that contradict each other lead here; then all holdings of the node
            // are counted again, so that nothing is ever free that somebody holds.
            if !self.nodes[at].adds_up() {
                let mut node = Node::new(rank, &self.nodes[at].total);
                left.clone()
                    .filter_map(|set| set.nodes.get(&rank))
                    .filter(|part| !part.is_empty())
                    .for_each(|set| node.take(set));
                self.nodes[at] = node;
            }
            self.refresh(at);
        }
        was
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is any node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The inventory as it was given.
    pub fn set(&self) -> &ResourceSet {
        &self.set
    }

    pub fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    /// What all nodes have.
    pub fn all(&self) -> &Capacity {
        &self.all
    }

    /// What the nodes have that are nobody's, in service or not.
    pub fn common(&self) -> &Rooms {
        self.common.as_ref().unwrap_or(self.all.rooms())
    }

    /// The node of that rank.
    pub fn node_of(&self, rank: Rank) -> Option<&Node> {
        self.place_of(rank).map(|at| &self.nodes[at])
    }

    /// The ranks that can be asked.
    pub fn online(&self) -> &Idset {
        &self.online
    }

    /// What the nodes in service have, taken or not.
    pub fn serving(&self) -> &Rooms {
        &self.serving
    }

    /// What is free on the nodes in service.
    pub fn free(&self) -> &Rooms {
        &self.free
    }

    /// What the nodes in service have of which nothing is taken.
    pub fn idle(&self) -> &Rooms {
        &self.idle
    }

    /// The ranks out of service.
    pub fn away(&self) -> Idset {
        self.all.ranks().difference(&self.in_service)
    }

    /// The ranks that are somebody's for as long as he is there.
    pub fn apart(&self) -> &Idset {
        &self.apart
    }

    fn serves(&self, rank: Rank) -> bool {
        self.in_service.contains(rank.0) && !self.apart.contains(rank.0)
    }

    /// What the node at this place has.
    pub fn capacity(&self, at: usize) -> Room {
        self.all.rooms().room(at)
    }

    /// Whether the node at this place is in service.
    pub fn is_serving(&self, at: usize) -> bool {
        self.serving.has(at)
    }

    /// The place of that rank.
    pub fn place_of(&self, rank: Rank) -> Option<usize> {
        self.nodes
            .binary_search_by_key(&rank, |node| node.rank)
            .ok()
    }

    fn refresh_ranks(&mut self, ranks: &Idset) {
        for &(first, last) in ranks.ranges() {
            let from = self.nodes.partition_point(|node| node.rank.0 < first);
            let to = self.nodes.partition_point(|node| node.rank.0 <= last);
            for at in from..to {
                let node = &self.nodes[at];
                let up = self.serves(node.rank);
                self.serving.set(at, up.then(|| room_of(&node.total)));
                self.refresh(at);
            }
        }
    }

    fn refresh(&mut self, at: usize) {
        let node = &self.nodes[at];
        let up = self.serves(node.rank);
        self.free.set(at, up.then(|| node.free_room()));
        self.idle.set(at, if up { node.idle_room() } else { None });
    }
}
