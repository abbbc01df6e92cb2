//! What a job takes of limits, by what it asks for.
//!
//! Part of the limits. Never fewer cores than it will hold, nor whole nodes: who is let through may
//! not turn out to hold more. Whole nodes and sockets are taken to be as wide as the widest there are, and slots
//! that lie anywhere on whole nodes to be on those on which the fewest go. On nodes that it shares a
//! job whose slots lie anywhere counts as on the fewest: where nodes are limited it says itself how many
//! they are, but for one that came before the limit. Of memory for each node it counts as on as many as it has slots.

use std::collections::BTreeSet;

use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, SocketGroup};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::spec::Spec;

/// What a job takes of limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub nodes: u64,
    pub cores: u64,
    pub gpus: u64,
    /// Bytes.
    pub memory: u64,
    /// Its time limit in microseconds, where it has one.
    pub time: Option<u64>,
    /// Core-microseconds, where it has a time limit.
    pub work: Option<u128>,
}

/// What a node has of each kind: cores, GPUs, bytes, sockets.
type Node = [u64; 4];

/// What nodes there are, each kind once, and the most cores and GPUs of a socket, which has no memory of its own.
#[derive(Debug, Default)]
pub(super) struct Shapes(BTreeSet<Node>, Piece);

/// Cores, GPUs and memory of nodes or sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub cores: u64,
    pub gpus: u64,
    pub memory: u64,
}

impl Piece {
    pub const NOTHING: Piece = Piece {
        cores: 0,
        gpus: 0,
        memory: 0,
    };

    /// All of a set.
    pub fn of(set: &ResourceSet) -> Piece {
        let cores = set.nodes.values().map(|node| node.cores.len());
        let gpus = set.nodes.values().map(|node| node.gpus.len());
        Piece {
            cores: cores.fold(0, u64::saturating_add),
            gpus: gpus.fold(0, u64::saturating_add),
            memory: set.memory(),
        }
    }

    fn times(self, count: u64) -> Piece {
        Piece {
            cores: self.cores.saturating_mul(count),
            gpus: self.gpus.saturating_mul(count),
            memory: self.memory.saturating_mul(count),
        }
    }

    /// The more of each.
    fn most(self, other: Piece) -> Piece {
        Piece {
            cores: self.cores.max(other.cores),
            gpus: self.gpus.max(other.gpus),
            memory: self.memory.max(other.memory),
        }
    }
}

impl Shapes {
    pub fn of(set: &ResourceSet) -> Shapes {
        let shape = |node: &NodeSet| {
            let sockets = node.sockets.known().map_or(1, <[_]>::len) as u64;
            [node.cores.len(), node.gpus.len(), node.memory, sockets]
        };
        let piece = |cores: &Idset, gpus: &Idset| Piece {
            cores: cores.len(),
            gpus: gpus.len(),
            memory: 0,
        };
        let widest = |node: &NodeSet| match node.sockets.known() {
            None => piece(&node.cores, &node.gpus),
            Some(known) => {
                let each = known.iter().map(|one| piece(&one.cores, &one.gpus));
                each.fold(Piece::default(), Piece::most)
            }
        };
        let sockets = set.nodes.values().map(widest);
        let sockets = sockets.fold(Piece::default(), Piece::most);
        Shapes(set.nodes.values().map(shape).collect(), sockets)
    }

    /// The most cores, the most GPUs and the most memory of a node.
    fn widest(&self) -> Piece {
        let each = self.0.iter().map(|[cores, gpus, memory, _]| Piece {
            cores: *cores,
            gpus: *gpus,
            memory: *memory,
        });
        each.fold(Piece::default(), Piece::most)
    }

    /// The most cores that a job may be given: of a choice of nodes, with the most of them.
    pub fn most_cores(&self, request: &Request) -> u64 {
        match &request.choice {
            None => self.cost_of(request).cores,
            Some(choice) => match choice.nodes.most() {
                Some(most) => self.cost_of(&request.on_nodes(most)).cores,
                None => u64::MAX,
            },
        }
    }

    pub fn cost(&self, spec: &Spec) -> Cost {
        self.cost_of(&spec.request)
    }

    fn cost_of(&self, request: &Request) -> Cost {
        let slots = u64::from(request.slots);
        let (on_each_node, in_slot) = memory_of(request);
        let slot = Piece {
            cores: u64::from(request.cores_per_slot),
            gpus: u64::from(request.gpus_per_slot),
            memory: in_slot,
        };
        let mut asked = slot.times(slots);
        let nodes = request.nodes.map_or(slots, u64::from);
        asked.memory = asked
            .memory
            .saturating_add(on_each_node.saturating_mul(nodes));
        let (nodes, whole) = match (request.sharing, request.nodes) {
            (Sharing::Shared, nodes) => {
                let nodes = nodes.map_or_else(|| self.fewest_of(request), u64::from);
                (nodes, self.1.times(whole_sockets(request)))
            }
            (Sharing::Exclusive, nodes) => {
                let nodes = nodes.map_or_else(|| self.nodes_of(request), u64::from);
                (nodes, self.widest().times(nodes))
            }
        };
        // Where no node is known it is what it asks for.
        let Piece {
            cores,
            gpus,
            memory,
        } = whole.most(asked);
        let limit = request.duration.filter(|limit| *limit > 0);
        let time = limit.map(i64::unsigned_abs);
        let work = time.map(|time| u128::from(cores) * u128::from(time));
        Cost {
            nodes,
            cores,
            gpus,
            memory,
            time,
            work,
        }
    }

    /// On how few nodes slots may be.
    fn fewest_of(&self, request: &Request) -> u64 {
        let slots = u64::from(request.slots);
        slots.div_ceil(self.most_on_one(request)).max(1)
    }

    /// How many slots go on the node on which the most do.
    fn most_on_one(&self, request: &Request) -> u64 {
        let on = self.0.iter().map(|shape| slots_on(request, shape));
        on.max().unwrap_or(u64::from(request.slots)).max(1)
    }

    /// On how many nodes so many pieces of a request may lie, as many on each or some more, the fewest first: no
    /// more numbers than there are places on a node.
    pub fn numbers_of_nodes(&self, request: &Request, pieces: u32) -> Vec<u32> {
        let in_one = (request.slots / pieces.max(1)).max(1);
        let most = self.most_on_one(request) / u64::from(in_one);
        let most = u32::try_from(most)
            .unwrap_or(u32::MAX)
            .clamp(1, pieces.max(1));
        let mut numbers: Vec<u32> = (1..=most).map(|each| pieces.div_ceil(each)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// On how many nodes slots are, of those on which any goes.
    fn nodes_of(&self, request: &Request) -> u64 {
        let slots = u64::from(request.slots);
        let on = self.0.iter().map(|shape| slots_on(request, shape));
        let fewest = on.filter(|on| *on > 0).min();
        slots.div_ceil(fewest.unwrap_or(slots).max(1)).max(1)
    }
}

/// How many sockets are nobody else's.
fn whole_sockets(request: &Request) -> u64 {
    let whole = |group: &&SocketGroup| group.sharing == Sharing::Exclusive;
    request.sockets.as_ref().filter(whole).map_or(0, |group| {
        let groups = request.slots.div_ceil(group.slots.max(1));
        u64::from(groups).saturating_mul(u64::from(group.sockets))
    })
}

/// Bytes that are asked for once on each node, and those in each slot.
fn memory_of(request: &Request) -> (u64, u64) {
    let tasks = u64::from(request.ntasks).div_ceil(u64::from(request.slots).max(1));
    match request.memory {
        MemoryNeed::None => (0, 0),
        MemoryNeed::PerNode(bytes) => (bytes, 0),
        MemoryNeed::PerCore(bytes) => (0, bytes.saturating_mul(request.cores_per_slot.into())),
        MemoryNeed::PerTask(bytes) => (0, bytes.saturating_mul(tasks)),
    }
}

/// How many slots of a request go on a node, all of them at most.
fn slots_on(request: &Request, node: &Node) -> u64 {
    let slots = u64::from(request.slots);
    let cores = u64::from(request.cores_per_slot);
    let (once, memory) = memory_of(request);
    let slot = [cores, u64::from(request.gpus_per_slot), memory];
    let Some(left) = node[2].checked_sub(once) else {
        return 0;
    };
    let there = [node[0], node[1], left];
    let times = there.iter().zip(slot);
    let times = times.filter_map(|(there, each)| there.checked_div(each));
    let in_sockets = request.sockets.as_ref().map(|group| {
        let groups = node[3] / u64::from(group.sockets.max(1));
        groups.saturating_mul(u64::from(group.slots))
    });
    times.chain(in_sockets).min().unwrap_or(slots).min(slots)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use eddy_wire::id::Rank;
    use eddy_wire::jobspec::{Choice, Takes, Tasks, Work};
    use eddy_wire::resource_set::Sockets;

    use super::*;

    fn shapes(nodes: &[(u32, u64)]) -> Shapes {
        let node = |(at, (cores, memory)): (usize, &(u32, u64))| {
            let node = NodeSet {
                host: format!("n{at}").into(),
                cores: Idset::first_ids(*cores),
                gpus: Idset::new(),
                memory: *memory,
                ..NodeSet::default()
            };
            (Rank(at as u32), node)
        };
        let nodes: BTreeMap<Rank, NodeSet> = nodes.iter().enumerate().map(node).collect();
        Shapes::of(&ResourceSet {
            nodes,
            ..ResourceSet::default()
        })
    }

    fn anywhere(slots: u32, memory: MemoryNeed) -> Request {
        Request {
            nodes: None,
            choice: None,
            slots,
            slots_per_node: slots,
            cores_per_slot: 1,
            gpus_per_slot: 0,
            memory,
            sharing: Sharing::Exclusive,
            takes: Takes::Resources,
            ranks: None,
            constraint: None,
            work: Work::Tasks,
            ntasks: slots,
            duration: None,
            sockets: None,
        }
    }

    #[test]
    fn slots_on_whole_nodes_count_all_nodes_that_they_may_be_on() {
        let alike = shapes(&[(8, 16), (8, 16), (8, 16), (8, 16)]);
        assert_eq!(alike.nodes_of(&anywhere(8, MemoryNeed::None)), 1);
        assert_eq!(alike.nodes_of(&anywhere(9, MemoryNeed::None)), 2);
        assert_eq!(alike.nodes_of(&anywhere(4, MemoryNeed::PerTask(12))), 4);
        assert_eq!(alike.nodes_of(&anywhere(4, MemoryNeed::PerCore(8))), 2);
        assert_eq!(alike.nodes_of(&anywhere(4, MemoryNeed::PerNode(16))), 1);
        assert_eq!(alike.widest().times(4).cores, 32);
    }

    #[test]
    fn a_queue_counts_whole_nodes_with_all_their_cores_and_a_choice_with_the_most() {
        let shapes = shapes(&[(8, 16), (4, 16)]);
        let whole = |choice: Option<Choice>| Request {
            nodes: Some(2),
            choice: choice.map(Arc::new),
            slots: 2,
            slots_per_node: 1,
            ..anywhere(2, MemoryNeed::None)
        };
        let choice = |nodes: &str| Choice {
            nodes: nodes.parse().expect("a count"),
            tasks: Tasks::OnEach,
        };
        assert_eq!(shapes.most_cores(&whole(None)), 16);
        assert_eq!(shapes.most_cores(&whole(Some(choice("2-5")))), 40);
        assert_eq!(shapes.most_cores(&whole(Some(choice("2+")))), u64::MAX);
        let shared = Request {
            sharing: Sharing::Shared,
            ..whole(Some(choice("2-5")))
        };
        assert_eq!(shapes.most_cores(&shared), 5);
    }

    #[test]
    fn slots_in_sockets_on_whole_nodes_count_the_nodes_that_have_so_many() {
        let socket = |cores: &str| eddy_wire::resource_set::Socket {
            cores: cores.parse().expect("cores"),
            gpus: Idset::new(),
        };
        let sockets = Sockets::new(vec![socket("0-3"), socket("4-7")]).expect("sockets");
        let node = NodeSet {
            cores: Idset::first_ids(8),
            sockets,
            ..NodeSet::default()
        };
        let shapes = Shapes::of(&ResourceSet {
            nodes: (0..2).map(|rank| (Rank(rank), node.clone())).collect(),
            ..ResourceSet::default()
        });
        let each = |slots, sockets| Request {
            sockets: Some(SocketGroup {
                sockets,
                slots: 1,
                cores: 1,
                gpus: 0,
                sharing: Sharing::Shared,
            }),
            ..anywhere(slots, MemoryNeed::None)
        };
        assert_eq!(shapes.nodes_of(&each(2, 1)), 1);
        assert_eq!(shapes.nodes_of(&each(4, 1)), 2);
        assert_eq!(shapes.nodes_of(&each(2, 2)), 2);
    }

    #[test]
    fn whole_nodes_have_all_their_gpus_and_slots_their_own() {
        let node = NodeSet {
            cores: Idset::first_ids(8),
            gpus: Idset::first_ids(4),
            ..NodeSet::default()
        };
        let shapes = Shapes::of(&ResourceSet {
            nodes: (0..3).map(|rank| (Rank(rank), node.clone())).collect(),
            ..ResourceSet::default()
        });
        let whole = anywhere(9, MemoryNeed::None);
        assert_eq!(shapes.cost_of(&whole).gpus, 8);
        let shared = Request {
            sharing: Sharing::Shared,
            gpus_per_slot: 1,
            ..whole
        };
        let cost = shapes.cost_of(&shared);
        assert_eq!((cost.cores, cost.gpus, cost.nodes), (9, 9, 3));
    }

    #[test]
    fn of_unlike_nodes_those_count_on_which_fewest_go() {
        let unlike = shapes(&[(2, 0), (8, 0), (0, 0)]);
        assert_eq!(unlike.nodes_of(&anywhere(8, MemoryNeed::None)), 4);
        assert_eq!(unlike.widest().times(4).cores, 32);
        // Where nothing is known it is on one.
        assert_eq!(
            shapes(&[]).nodes_of(&anywhere(8, MemoryNeed::PerTask(1))),
            1
        );
    }
}
