//! The machine of a replay: a count of processors, or nodes with cores.
//!
//! On nodes a processor of the trace is a core, and a job is spread evenly over
//! as few nodes as have room for it when the machine is empty. It holds nothing
//! and knows no time.

use std::sync::Arc;

use eddy_wire::resource_set::ResourceSet;

use super::workload::SimJob;
use crate::amounts::{Amounts, UNIT};
use crate::policy::NodeRank;
use crate::walk::{Count, Hold, Nodes, NodesNeed, NodesSpot};

/// What jobs run on.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    procs: u64,
    nodes: Vec<Seat>,
    /// All that nodes have; nothing where processors are counted.
    set: Option<Arc<ResourceSet>>,
    /// Cores of each node, the most first: how many nodes have at least so many.
    sizes: Vec<u64>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its rank.
    pub rank: u32,
    /// Its name.
    pub host: String,
    /// How many.
    pub cores: u64,
}

/// How a job lies on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many nodes.
    pub nodes: u64,
    /// Cores of each.
    pub each: u64,
}

impl Machine {
    /// Processors that are all alike.
    pub fn count(procs: u64) -> Machine {
        Machine {
            procs,
            nodes: Vec::new(),
            set: None,
            sizes: Vec::new(),
        }
    }

    /// The nodes of a resource set that have cores.
    pub fn of(set: &ResourceSet) -> Machine {
        let nodes = set.nodes.iter().map(|(rank, node)| Seat {
            rank: rank.0,
            host: node.host.to_string(),
            cores: node.cores.len(),
        });
        let nodes: Vec<Seat> = nodes.filter(|node| node.cores > 0).collect();
        let mut sizes: Vec<u64> = nodes.iter().map(|node| node.cores).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        Machine {
            procs: sizes.iter().sum(),
            nodes,
            set: Some(Arc::new(set.clone())),
            sizes,
        }
    }

    /// All processors or cores.
    pub fn procs(&self) -> u64 {
        self.procs
    }

    /// The nodes; none where processors are counted.
    pub fn nodes(&self) -> &[Seat] {
        &self.nodes
    }

    /// All that its nodes have; `None` where processors are counted.
    pub fn set(&self) -> Option<&Arc<ResourceSet>> {
        self.set.as_ref()
    }

    /// The place of a rank in [`Machine::nodes`].
    pub fn seat(&self, rank: u32) -> Option<u32> {
        let at = self.nodes.binary_search_by_key(&rank, |node| node.rank);
        at.ok().and_then(|at| u32::try_from(at).ok())
    }

    /// How a job lies on it; `None` where it never fits. Each processor of a count is a node of its
    /// own. Where a job says over how many nodes it is to be spread and that cannot be, it is spread
    /// as one that says nothing.
    pub fn shape(&self, job: &SimJob) -> Option<Shape> {
        let procs = job.procs;
        if self.nodes.is_empty() {
            let shape = Shape {
                nodes: procs,
                each: 1,
            };
            return (procs <= self.procs).then_some(shape);
        }
        let first = procs.div_ceil(*self.sizes.first()?);
        // With more nodes than so many a core of each is asked for, and no node is refused.
        let last = procs.min(self.sizes.len() as u64);
        let over = |nodes: u64| {
            let each = procs.div_ceil(nodes);
            let least = self.sizes.get(nodes as usize - 1)?;
            (*least >= each).then_some(Shape { nodes, each })
        };
        let asked = job.nodes.filter(|nodes| (1..=last).contains(nodes));
        asked
            .and_then(over)
            .or_else(|| (first..=last).find_map(over))
    }

    /// Its processors as a room.
    pub fn room(&self) -> Count {
        Count::new(self.procs)
    }

    /// Its nodes as a room that gives them out by this rank.
    pub fn nodes_room(&self, rank: NodeRank) -> Nodes {
        let capacities: Vec<Amounts> = self.nodes.iter().map(|node| cores(node.cores)).collect();
        Nodes::new(&capacities, &[]).ranked(rank)
    }

    /// What a job asks of [`Machine::nodes_room`].
    pub fn need(&self, job: &SimJob) -> NodesNeed {
        let never = Shape {
            nodes: self.nodes.len() as u64 + 1,
            each: 1,
        };
        let shape = self.shape(job).unwrap_or(never);
        NodesNeed {
            nodes: usize::try_from(shape.nodes).unwrap_or(usize::MAX),
            each: cores(shape.each),
            hold: Hold::Shared,
            pools: Vec::new(),
        }
    }
}

/// Places in [`Machine::nodes`] of where a job went, and how many cores it has there.
pub fn places(spot: &NodesSpot) -> Vec<(u32, u64)> {
    let parts = spot.nodes.iter();
    parts.map(|(at, has)| (*at as u32, count(has))).collect()
}

/// Of amounts that are cores only, how many.
fn count(amounts: &Amounts) -> u64 {
    u64::try_from(amounts[0] / UNIT).unwrap_or(0)
}

/// Cores as the only kind of amount.
pub(super) fn cores(count: u64) -> Amounts {
    let mut amounts = Amounts::NONE;
    amounts[0] = i64::try_from(count).map_or(i64::MAX, |count| count.saturating_mul(UNIT));
    amounts
}
