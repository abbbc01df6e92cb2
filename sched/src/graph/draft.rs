//! Containment while it is read: things in any order, and what contains what.
//!
//! Filled by the readers of R, JGF, hosts and the generator syntax; finished once
//! into a [`Graph`]. It looks nothing up and matches nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::idset::Idset;
use petgraph::Direction::{Incoming, Outgoing};
use petgraph::graph::{DiGraph, NodeIndex};
use thiserror::Error;

use super::containment::Graph;

/// The most vertices of a graph; a run of alike things is one.
pub const VERTICES_MAX: usize = 4_000_000;

/// The most types of things in a graph.
pub const KINDS_MAX: usize = 64;

/// Whether a vertex gives what it has; what contains it can only take away from that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// In service.
    #[default]
    Up,
    /// It does not answer.
    Down,
    /// A person took it out; who holds it keeps it.
    Drained,
}

/// How a thing is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// By its numbers.
    Pieces,
    /// As an amount that can be split at will: bytes of memory, licences.
    Amount(u64),
}

/// A thing, or a run of alike things in the same place.
#[derive(Clone, Debug, PartialEq)]
pub struct Thing {
    /// Its type: `node`, `core`…
    pub kind: String,
    /// Its number, or the numbers of all that it stands for; never empty.
    pub ids: Idset,
    /// How it is counted.
    pub size: Size,
    /// Its name, where that is not type and number; a node's is its host name.
    pub name: Option<Arc<str>>,
    /// The rank of a node.
    pub rank: Option<u32>,
    /// Properties by key; a bare one has the empty value.
    pub properties: BTreeMap<String, String>,
    /// Whether it is in service.
    pub state: State,
}

/// Why things are not a graph of containment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GraphError {
    /// Nothing is in it.
    #[error("graph has no vertex; allowed is at least one")]
    Empty,
    /// More than [`VERTICES_MAX`].
    #[error("graph has {given} vertices; allowed are at most {VERTICES_MAX}")]
    TooManyVertices {
        /// How many, runs counted as one.
        given: usize,
    },
    /// More than [`KINDS_MAX`].
    #[error("graph has {given} types; allowed are at most {KINDS_MAX}")]
    TooManyKinds {
        /// How many.
        given: usize,
    },
    /// Two things that nothing contains.
    #[error("graph has the roots `{first}` and `{second}`; allowed is one")]
    Roots {
        /// Name of one.
        first: String,
        /// Name of the other.
        second: String,
    },
    /// A thing in two places.
    #[error("`{0}` is contained twice; allowed is once")]
    Parents(String),
    /// Things that contain each other.
    #[error("{0} vertices contain each other in a circle")]
    Circle(usize),
    /// A thing that stands for none.
    #[error("a `{0}` has no number; allowed is at least one")]
    NoId(String),
    /// More of an amount than can be counted.
    #[error("`{kind}` comes to {given} in all; allowed are 0 to {}", i64::MAX)]
    Size {
        /// The type.
        kind: String,
        /// The sum at which it was too much.
        given: u64,
    },
    /// A node within a node.
    #[error("node `{0}` is within another node")]
    NodeInNode(String),
    /// Some nodes have a rank, this one has none.
    #[error("node `{0}` has no rank, while others have one")]
    NoRank(String),
    /// Two nodes have the same rank.
    #[error("rank {0} is given to two nodes")]
    RankTwice(u32),
}

/// Things and what contains what.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Edges lead from what contains to what is contained.
    pub(super) tree: DiGraph<Thing, ()>,
}

impl Thing {
    /// One thing of a type, in service and without properties.
    pub fn one(kind: &str, id: u32) -> Thing {
        Thing::run(kind, Idset::one(id))
    }

    /// Alike things of a type by their numbers.
    pub fn run(kind: &str, ids: Idset) -> Thing {
        Thing {
            kind: kind.to_owned(),
            ids,
            size: Size::Pieces,
            name: None,
            rank: None,
            properties: BTreeMap::new(),
            state: State::Up,
        }
    }

    /// An amount of a type.
    pub fn amount(kind: &str, id: u32, amount: u64) -> Thing {
        Thing {
            size: Size::Amount(amount),
            ..Thing::one(kind, id)
        }
    }

    /// A node with its host name and rank.
    pub fn node(id: u32, host: &str, rank: u32) -> Thing {
        Thing {
            name: Some(Arc::from(host)),
            rank: Some(rank),
            ..Thing::one("node", id)
        }
    }

    /// The name, or type and first number.
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => name.to_string(),
            None => format!("{}{}", self.kind, self.ids.first().unwrap_or(0)),
        }
    }
}

impl Draft {
    /// Nothing yet.
    pub fn new() -> Draft {
        Draft::default()
    }

    /// Puts a thing in that nothing contains so far.
    pub fn add(&mut self, thing: Thing) -> NodeIndex {
        self.tree.add_node(thing)
    }

    /// Puts a thing into another.
    pub fn within(&mut self, parent: NodeIndex, thing: Thing) -> NodeIndex {
        let child = self.tree.add_node(thing);
        self.tree.add_edge(parent, child, ());
        child
    }

    /// Says that one contains the other.
    pub fn link(&mut self, parent: NodeIndex, child: NodeIndex) {
        self.tree.add_edge(parent, child, ());
    }

    /// The graph that this is.
    ///
    /// # Errors
    /// [`GraphError`] where it is no tree, or too large, or ranks do not agree.
    pub fn finish(self) -> Result<Graph, GraphError> {
        let root = self.root()?;
        self.check_things()?;
        Graph::from_draft(&self, root)
    }

    /// What is in a thing, in no order.
    pub(super) fn children(&self, of: NodeIndex) -> impl Iterator<Item = NodeIndex> + '_ {
        self.tree.neighbors_directed(of, Outgoing)
    }

    /// The one thing that nothing contains, if the whole is a tree below it.
    fn root(&self) -> Result<NodeIndex, GraphError> {
        let given = self.tree.node_count();
        if given > VERTICES_MAX {
            return Err(GraphError::TooManyVertices { given });
        }
        let mut root = None;
        for at in self.tree.node_indices() {
            match (self.tree.neighbors_directed(at, Incoming).count(), root) {
                (0, None) => root = Some(at),
                (0, Some(first)) => {
                    let (first, second) = (self.tree[first].label(), self.tree[at].label());
                    return Err(GraphError::Roots { first, second });
                }
                (1, _) => {}
                (_, _) => return Err(GraphError::Parents(self.tree[at].label())),
            }
        }
        let Some(root) = root else {
            return Err(match given {
                0 => GraphError::Empty,
                _ => GraphError::Circle(given),
            });
        };
        // One parent each: what is not reached from the root is in a circle of its own.
        let mut reached = 0;
        let mut open = vec![root];
        while let Some(at) = open.pop() {
            reached += 1;
            open.extend(self.children(at));
        }
        match given - reached {
            0 => Ok(root),
            left => Err(GraphError::Circle(left)),
        }
    }

    /// Each stands for something, and the amounts of a type together can be counted.
    fn check_things(&self) -> Result<(), GraphError> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for thing in self.tree.node_weights() {
            if thing.ids.is_empty() {
                return Err(GraphError::NoId(thing.kind.clone()));
            }
            let size = match thing.size {
                Size::Amount(amount) => amount,
                Size::Pieces => thing.ids.len(),
            };
            let sum = sums.entry(&thing.kind).or_default();
            *sum = sum.saturating_add(size);
            if *sum > i64::MAX as u64 {
                let kind = thing.kind.clone();
                return Err(GraphError::Size { kind, given: *sum });
            }
        }
        Ok(())
    }
}
