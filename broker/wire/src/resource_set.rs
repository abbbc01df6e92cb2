//! Which nodes, cores, GPUs and memory: a value, with its text form R version 1
//! (RFC 20).
//!
//! Inventories, grants and what is free are resource sets. It does not know who
//! holds what (that is a grant) and is not a request (that is a jobspec).

mod json;
mod sockets;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::field::FieldError;
use crate::fsd::FsdError;
use crate::hostlist::{Hostlist, HostlistError};
use crate::id::Rank;
use crate::idset::{Idset, IdsetError};
pub use sockets::{SOCKETS_MAX, Socket, Sockets, SocketsError};

/// The most ranks of a resource set.
pub const RANKS_MAX: u64 = 262_144;

/// The property that nodes with GPUs have, where it is said of none.
pub const GPU: &str = "gpu";

/// What a resource set has on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet {
    /// The node's name.
    pub host: Arc<str>,
    /// Logical numbers of cores.
    pub cores: Idset,
    /// Logical numbers of GPUs.
    pub gpus: Idset,
    /// Bytes; 0 is none, or not known.
    pub memory: u64,
    /// The sockets of the node in full, where they are known.
    pub sockets: Sockets,
}

/// Resources of some nodes. Cores and GPUs are named, memory is an amount.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceSet {
    /// What it has on each rank.
    pub nodes: BTreeMap<Rank, NodeSet>,
    /// The ranks that have each property.
    pub properties: BTreeMap<String, Idset>,
    /// Microseconds since 1970; 0 is unset.
    pub starttime: i64,
    /// Microseconds since 1970; 0 is unset.
    pub expiration: i64,
    /// How many slots the scheduler made of it, if it said so.
    pub nslots: Option<u32>,
    /// What else schedulers keep in it, unread; shared by all sets made from this one.
    pub scheduling: Option<Arc<Map<String, Value>>>,
}

/// Why a document is not a resource set.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ResourceSetError {
    /// A part of it is not what belongs there.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Not JSON at all.
    #[error("resource set is not JSON: line {line}, column {column}: {what}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the reader of JSON says.
        what: String,
    },
    /// A set of numbers cannot be read.
    #[error("{path}: is not an idset")]
    Idset {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: IdsetError,
    },
    /// Host names cannot be read.
    #[error("{path}: is not a hostlist")]
    Hostlist {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: HostlistError,
    },
    /// A time cannot be used.
    #[error("{path}: is not a time")]
    Time {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: FsdError,
    },
    /// It ends before it begins.
    #[error("execution.expiration: is not after execution.starttime")]
    Backwards,
    /// More than [`RANKS_MAX`] ranks.
    #[error("execution.R_lite: has {given} ranks; allowed are at most {RANKS_MAX}")]
    TooManyRanks {
        /// How many.
        given: u64,
    },
    /// A rank is described twice.
    #[error("{path}: has rank {rank} a second time")]
    Twice {
        /// Where the second is.
        path: String,
        /// The rank.
        rank: u32,
    },
    /// Its sockets are none.
    #[error("{path}: {source}")]
    Sockets {
        /// Where.
        path: String,
        /// Why.
        source: SocketsError,
    },
    /// Names and ranks differ in number.
    #[error("execution.nodelist: has {hosts} hosts for {ranks} ranks")]
    Nodelist {
        /// How many names.
        hosts: u64,
        /// How many ranks.
        ranks: u64,
    },
    /// Something is said of ranks that are not in the set.
    #[error("{path}: names ranks {ranks}, which are not in execution.R_lite")]
    Foreign {
        /// Where.
        path: String,
        /// Those ranks.
        ranks: Idset,
    },
}

impl NodeSet {
    /// Whether it has nothing.
    pub fn is_empty(&self) -> bool {
        self.cores.is_empty() && self.gpus.is_empty() && self.memory == 0
    }

    /// Whether it has all of `other`, which is of the same node.
    pub fn contains(&self, other: &NodeSet) -> bool {
        self.memory >= other.memory
            && self.cores.contains_all(&other.cores)
            && self.gpus.contains_all(&other.gpus)
    }

    /// Whether a core or GPU is in both.
    pub fn intersects(&self, other: &NodeSet) -> bool {
        !self.cores.is_disjoint(&other.cores) || !self.gpus.is_disjoint(&other.gpus)
    }

    fn add(&mut self, other: &NodeSet) {
        self.cores = self.cores.union(&other.cores);
        self.gpus = self.gpus.union(&other.gpus);
        self.memory = self.memory.saturating_add(other.memory);
    }

    fn subtract(&mut self, other: &NodeSet) {
        self.cores = self.cores.difference(&other.cores);
        self.gpus = self.gpus.difference(&other.gpus);
        self.memory = self.memory.saturating_sub(other.memory);
    }
}

impl ResourceSet {
    /// The set of nothing.
    pub fn new() -> ResourceSet {
        ResourceSet::default()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The same set without the nodes of which there is nothing in it.
    pub fn of_something(self: &Arc<ResourceSet>) -> Arc<ResourceSet> {
        if !self.nodes.values().any(NodeSet::is_empty) {
            return Arc::clone(self);
        }
        let there = self.nodes.iter().filter(|(_, node)| !node.is_empty());
        let there = there.map(|(rank, _)| rank.0).collect();
        Arc::new(self.restrict(&there))
    }

    /// How many nodes.
    pub fn nnodes(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// How many cores on all nodes.
    pub fn ncores(&self) -> u64 {
        self.nodes.values().map(|node| node.cores.len()).sum()
    }

    /// How many GPUs on all nodes.
    pub fn ngpus(&self) -> u64 {
        self.nodes.values().map(|node| node.gpus.len()).sum()
    }

    /// Bytes of memory on all nodes.
    pub fn memory(&self) -> u64 {
        self.nodes
            .values()
            .fold(0, |sum, node| sum.saturating_add(node.memory))
    }

    /// The ranks it has something on.
    pub fn ranks(&self) -> Idset {
        self.nodes.keys().map(|rank| rank.0).collect()
    }

    /// The ranks of the nodes that have this property: that are said to have it or, where it is a key,
    /// any value of it (`rack` of `rack=r1`); that have it as their name; of [`GPU`], where no node
    /// is said to have that, those with GPUs.
    pub fn ranks_with(&self, property: &str) -> Idset {
        let is_it = |name: &str| {
            let rest = name.strip_prefix(property);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        let having = self.properties.iter().filter(|(name, _)| is_it(name));
        let having = having.fold(Idset::new(), |all, (_, ranks)| all.union(ranks));
        let by_gpus = property == GPU && having.is_empty();
        let is_so = |node: &NodeSet| by_gpus && !node.gpus.is_empty() || *node.host == *property;
        let so = self.nodes.iter().filter(|(_, node)| is_so(node));
        having.union(&so.map(|(rank, _)| rank.0).collect())
    }

    /// The names of its nodes by rank, in short form (RFC 29).
    pub fn nodelist(&self) -> String {
        match self.only_host() {
            Some(host) => host.to_owned(),
            None => self.hostlist().to_string(),
        }
    }

    /// The name of its node where it has one: that is its list in the short form.
    fn only_host(&self) -> Option<&str> {
        let (_, node) = self.nodes.first_key_value()?;
        (self.nodes.len() == 1).then_some(&*node.host)
    }

    fn hostlist(&self) -> Hostlist {
        let mut list = Hostlist::new();
        for node in self.nodes.values() {
            list.push(&node.host)
                .expect("hosts of a resource set are names, and few enough");
        }
        list
    }

    /// What is in this set or in `other`. Cores and GPUs are united, memory is added; times,
    /// slots and unread content stay this set's.
    #[must_use]
    pub fn union(&self, other: &ResourceSet) -> ResourceSet {
        let mut set = self.clone();
        set.add(other);
        set
    }

    /// Puts `other` in, as [`ResourceSet::union`] says.
    pub fn add(&mut self, other: &ResourceSet) {
        for (rank, theirs) in &other.nodes {
            match self.nodes.get_mut(rank) {
                Some(mine) => mine.add(theirs),
                None => drop(self.nodes.insert(*rank, theirs.clone())),
            }
        }
        for (property, ranks) in &other.properties {
            match self.properties.get_mut(property) {
                Some(mine) => *mine = mine.union(ranks),
                None => drop(self.properties.insert(property.clone(), ranks.clone())),
            }
        }
    }

    /// What is in this set and not in `other`. A node of which nothing is left is dropped.
    #[must_use]
    pub fn difference(&self, other: &ResourceSet) -> ResourceSet {
        let mut set = self.clone();
        set.subtract(other);
        set
    }

    /// Takes `other` out, as [`ResourceSet::difference`] says.
    pub fn subtract(&mut self, other: &ResourceSet) {
        let before = self.nodes.len();
        for (rank, theirs) in &other.nodes {
            if let Some(mine) = self.nodes.get_mut(rank) {
                mine.subtract(theirs);
                if mine.is_empty() {
                    self.nodes.remove(rank);
                }
            }
        }
        if self.nodes.len() < before {
            self.trim_properties();
        }
    }

    /// Whether all of `other` is in this set: its cores and GPUs by number, its memory as an
    /// amount on each node.
    pub fn contains(&self, other: &ResourceSet) -> bool {
        let has = |(rank, theirs)| {
            self.nodes
                .get(rank)
                .is_some_and(|mine| mine.contains(theirs))
        };
        other.nodes.iter().all(has)
    }

    /// Whether a core or GPU is in both. Memory has no identity and does not count.
    pub fn intersects(&self, other: &ResourceSet) -> bool {
        let (few, many) = if self.nodes.len() <= other.nodes.len() {
            (self, other)
        } else {
            (other, self)
        };
        few.nodes.iter().any(|(rank, node)| {
            many.nodes
                .get(rank)
                .is_some_and(|theirs| node.intersects(theirs))
        })
    }

    /// Whether no core or GPU is in both.
    pub fn is_disjoint(&self, other: &ResourceSet) -> bool {
        !self.intersects(other)
    }

    /// What is on the given ranks.
    #[must_use]
    pub fn restrict(&self, ranks: &Idset) -> ResourceSet {
        let mut set = self.clone();
        set.nodes.retain(|rank, _| ranks.contains(rank.0));
        set.trim_properties();
        set
    }

    /// Takes this node out, whatever of it the set has.
    pub fn remove(&mut self, rank: Rank) {
        if self.nodes.remove(&rank).is_some() {
            self.trim_properties();
        }
    }

    /// Takes out the properties of ranks that are not in the set: they are not the set's, and no
    /// reader takes them. For whoever changes its nodes himself.
    pub fn trim_properties(&mut self) {
        if self.properties.is_empty() {
            return;
        }
        let ranks = self.ranks();
        self.properties.retain(|_, having| {
            *having = having.intersect(&ranks);
            !having.is_empty()
        });
    }
}
