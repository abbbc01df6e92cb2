//! A finished graph of containment: vertices in preorder, types as numbers.
//!
//! Made once by `draft`, read by the search. A petgraph holds what contains what;
//! since its vertices are added in preorder, all that is in a vertex is the range
//! of numbers behind it. Alike things without content of their own (the cores of
//! a socket) are one vertex, a run, that keeps their numbers: ten thousand nodes
//! of two sockets are some ten thousands of vertices and not a million. What is
//! free is not known here (that is a stock).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use eddy_wire::idset::Idset;
use petgraph::graph::{DiGraph, NodeIndex};

use super::draft::{Draft, GraphError, State};
use super::maker::{Maker, classes, lowest_ranks};

/// No vertex, no host.
pub(super) const NONE: u32 = u32::MAX;

/// A type of things, as its number in one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub(super) u8);

/// How the things of a type are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// One by one: they contain others, or are nodes.
    Place,
    /// In runs of alike ones.
    Units,
    /// As amounts.
    Amount,
}

/// A vertex: a place, a run of alike things, or an amount.
#[derive(Clone, Debug, PartialEq)]
pub struct Vertex {
    /// Its type.
    pub kind: Kind,
    /// Its number; of a run the lowest.
    pub id: u32,
    /// What it stands for.
    pub body: Body,
    /// Its name where that is not type and number.
    pub name: Option<Arc<str>>,
    /// The rank of a node.
    pub rank: Option<u32>,
    /// Properties by key.
    pub properties: Option<Arc<BTreeMap<String, String>>>,
    /// Its state when it was read.
    pub state: State,
}

/// What a vertex stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// One thing that may contain others.
    Place,
    /// Alike things by number; position `n` in a run is the `n`-th number.
    Units(Idset),
    /// So much.
    Amount(i64),
}

/// Resources by what contains them.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Vertex `n` is the `n`-th in preorder.
    pub(super) tree: DiGraph<Vertex, ()>,
    pub(super) kinds: Vec<(String, Class)>,
    /// What is derived from the tree, so that a search only counts upward.
    pub(super) parent: Vec<u32>,
    /// One behind the last vertex within.
    pub(super) end: Vec<u32>,
    /// Where the bits of a vertex begin; a place has one.
    pub(super) first_bit: Vec<u32>,
    pub(super) bits: usize,
    /// The nodes in preorder.
    pub(super) hosts: Vec<u32>,
    /// By vertex: the place in `hosts` of the node that it is or is in.
    pub(super) host_of: Vec<u32>,
    /// The vertices of each type.
    pub(super) of_kind: Vec<Vec<u32>>,
    /// By type: which types lie anywhere within it.
    under: Vec<u64>,
    /// By vertex and type: how much there is in all.
    totals: Vec<i64>,
    /// By vertex that contains nodes: what directly in it contains nodes as well.
    parts: BTreeMap<u32, Vec<u32>>,
    /// Types that lie only outside of nodes: pools.
    pools: u64,
    /// Cores, else nodes: by which nodes are told more used from less.
    pub(super) main: Option<Kind>,
}

impl Graph {
    pub(super) fn from_draft(draft: &Draft, root: NodeIndex) -> Result<Graph, GraphError> {
        let kinds = classes(draft)?;
        let mut maker = Maker {
            draft,
            number: kinds.keys().cloned().zip(0u8..).collect(),
            lowest: lowest_ranks(draft, root),
            graph: Graph::bare(kinds.into_iter().collect()),
        };
        maker.place(root, &draft.tree[root], NONE)?;
        let mut graph = maker.graph;
        graph.number_hosts()?;
        graph.number_units();
        graph.derive();
        graph.main = graph.kind("core").or_else(|| graph.kind("node"));
        Ok(graph)
    }

    fn bare(kinds: Vec<(String, Class)>) -> Graph {
        Graph {
            tree: DiGraph::new(),
            of_kind: vec![Vec::new(); kinds.len()],
            under: vec![0; kinds.len()],
            kinds,
            parent: Vec::new(),
            end: Vec::new(),
            first_bit: Vec::new(),
            bits: 0,
            hosts: Vec::new(),
            host_of: Vec::new(),
            totals: Vec::new(),
            parts: BTreeMap::new(),
            pools: 0,
            main: None,
        }
    }

    /// How many vertices; a run is one.
    pub fn len(&self) -> usize {
        self.tree.node_count()
    }

    /// Whether it has no vertex: never, once made.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The containment itself; index `n` is vertex `n`.
    pub fn tree(&self) -> &DiGraph<Vertex, ()> {
        &self.tree
    }

    /// A vertex by its number.
    ///
    /// # Panics
    /// If there is none: numbers come from this graph.
    pub fn vertex(&self, at: u32) -> &Vertex {
        &self.tree[NodeIndex::new(at as usize)]
    }

    /// How many nodes.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// The vertex of a node, by its place in the order of nodes.
    pub fn host(&self, host: usize) -> u32 {
        self.hosts[host]
    }

    /// The type of a name.
    pub fn kind(&self, name: &str) -> Option<Kind> {
        let at = self
            .kinds
            .binary_search_by(|(known, _)| known.as_str().cmp(name));
        at.ok().map(|at| Kind(at as u8))
    }

    /// The name of a type.
    pub fn kind_name(&self, kind: Kind) -> &str {
        &self.kinds[kind.at()].0
    }

    /// How things of a type are kept.
    pub fn class(&self, kind: Kind) -> Class {
        self.kinds[kind.at()].1
    }

    /// How many types.
    pub fn kind_count(&self) -> usize {
        self.kinds.len()
    }

    /// How much of a type there is in a vertex, itself included, whoever holds it.
    pub fn total(&self, at: u32, kind: Kind) -> i64 {
        self.totals[at as usize * self.kinds.len() + kind.at()]
    }

    pub(super) fn totals_of(&self, at: u32) -> &[i64] {
        let kinds = self.kinds.len();
        &self.totals[at as usize * kinds..][..kinds]
    }

    /// The types that lie anywhere within a type, as bits.
    pub(super) fn under(&self, kind: Kind) -> u64 {
        self.under[kind.at()]
    }

    /// Whether a type lies only outside of nodes.
    pub(super) fn is_pool(&self, kind: Kind) -> bool {
        self.pools & kind.bit() != 0
    }

    /// Whether a type contains nodes.
    pub(super) fn contains_hosts(&self, kind: Kind) -> bool {
        self.kind("node")
            .is_some_and(|node| self.under(kind) & node.bit() != 0)
    }

    /// The vertices of a type within another, itself included.
    pub(super) fn within(&self, scope: u32, kind: Kind) -> &[u32] {
        let all = &self.of_kind[kind.at()];
        let from = all.partition_point(|&at| at < scope);
        let to = all.partition_point(|&at| at < self.end[scope as usize]);
        &all[from..to]
    }

    /// The nodes within a vertex, itself included, as a range of [`Graph::host`].
    pub(super) fn hosts_within(&self, scope: u32) -> (usize, usize) {
        let from = self.hosts.partition_point(|&at| at < scope);
        let to = self
            .hosts
            .partition_point(|&at| at < self.end[scope as usize]);
        (from, to)
    }

    /// The vertices directly in another.
    pub(super) fn children(&self, of: u32) -> impl Iterator<Item = u32> + '_ {
        let end = self.end[of as usize];
        let first = Some(of + 1).filter(|&at| at < end);
        std::iter::successors(first, move |&at| {
            Some(self.end[at as usize]).filter(|&next| next < end)
        })
    }

    /// What directly in a vertex contains nodes: racks of a cluster.
    pub(super) fn parts(&self, of: u32) -> &[u32] {
        self.parts.get(&of).map_or(&[], Vec::as_slice)
    }

    /// The name of a vertex: its own, or type and number.
    pub fn name(&self, at: u32) -> String {
        let vertex = self.vertex(at);
        match &vertex.name {
            Some(name) => name.to_string(),
            None => format!("{}{}", self.kind_name(vertex.kind), vertex.id),
        }
    }

    /// The path of a vertex from the root (`/cluster0/rack1/node3`); of a run its first thing's.
    pub fn path(&self, at: u32) -> String {
        let mut line = vec![at];
        while let Some(&up) = self.parent.get(line[line.len() - 1] as usize)
            && up != NONE
        {
            line.push(up);
        }
        line.iter().rev().fold(String::new(), |mut path, &at| {
            write!(path, "/{}", self.name(at)).expect("a string takes all");
            path
        })
    }

    /// The vertex of a path, or the run that has it, with the position there.
    pub fn find(&self, path: &str) -> Option<(u32, Option<u32>)> {
        let mut names = path.strip_prefix('/')?.split('/');
        let mut at = 0;
        if names.next()? != self.name(0) {
            return None;
        }
        while let Some(name) = names.next() {
            let hit = |child: &u32| self.name(*child) == name;
            match self.children(at).find(hit) {
                Some(child) => at = child,
                None => {
                    let in_run = |child| self.position(child, name).map(|pos| (child, Some(pos)));
                    let run = self.children(at).find_map(in_run)?;
                    return names.next().is_none().then_some(run);
                }
            }
        }
        let position = match &self.vertex(at).body {
            Body::Units(_) => Some(0),
            Body::Place | Body::Amount(_) => None,
        };
        Some((at, position))
    }

    /// Where in a run the thing of this name is.
    fn position(&self, run: u32, name: &str) -> Option<u32> {
        let vertex = self.vertex(run);
        let Body::Units(ids) = &vertex.body else {
            return None;
        };
        let id: u32 = name
            .strip_prefix(self.kind_name(vertex.kind))?
            .parse()
            .ok()?;
        let before = ids.iter().position(|known| known == id)?;
        Some(before as u32)
    }

    /// Whether any node has a property.
    pub(super) fn hosts_have_properties(&self) -> bool {
        self.hosts
            .iter()
            .any(|&at| self.vertex(at).properties.is_some())
    }

    /// The host name of a node.
    pub(super) fn host_name(&self, at: u32) -> Arc<str> {
        match &self.vertex(at).name {
            Some(name) => name.clone(),
            None => Arc::from(self.name(at)),
        }
    }

    /// Ranks in the order of nodes where none was given; else each its own.
    fn number_hosts(&mut self) -> Result<(), GraphError> {
        let hosts = self.hosts.clone();
        let given = hosts.iter().filter(|&&at| self.vertex(at).rank.is_some());
        let given = given.count();
        let mut seen = BTreeSet::new();
        for (rank, &at) in (0u32..).zip(&hosts) {
            let vertex = &mut self.tree[NodeIndex::new(at as usize)];
            match (vertex.rank, given) {
                (None, 0) => vertex.rank = Some(rank),
                (None, _) => return Err(GraphError::NoRank(self.name(at))),
                (Some(rank), _) if !seen.insert(rank) => return Err(GraphError::RankTwice(rank)),
                (Some(_), _) => {}
            }
        }
        Ok(())
    }

    /// In R the things of a node have one numbering: where readers gave a number twice in a node,
    /// its things of that type are numbered by their order.
    fn number_units(&mut self) {
        for host in 0..self.hosts.len() {
            let scope = self.hosts[host];
            for kind in 0..self.kinds.len() {
                let kind = Kind(kind as u8);
                if self.class(kind) != Class::Units {
                    continue;
                }
                let runs = self.within(scope, kind).to_vec();
                let mut seen = Idset::new();
                let twice = runs.iter().any(|&run| {
                    let Body::Units(ids) = &self.vertex(run).body else {
                        return false;
                    };
                    let twice = !seen.is_disjoint(ids);
                    seen = seen.union(ids);
                    twice
                });
                if twice {
                    self.renumber(&runs);
                }
            }
        }
    }

    fn renumber(&mut self, runs: &[u32]) {
        let mut next = 0;
        for &run in runs {
            let vertex = &mut self.tree[NodeIndex::new(run as usize)];
            if let Body::Units(ids) = &mut vertex.body {
                let count = ids.len() as u32;
                *ids = Idset::range(next, next + count - 1);
                vertex.id = next;
                next += count;
            }
        }
    }

    /// Bits, hosts within, totals and which type lies under which.
    fn derive(&mut self) {
        let kinds = self.kinds.len();
        self.totals = vec![0; self.len() * kinds];
        let mut bits = 0;
        let mut in_nodes = 0u64;
        let mut seen = 0u64;
        for at in 0..self.len() as u32 {
            let vertex = self.vertex(at);
            let (kind, size) = (vertex.kind, vertex.size());
            let wide = match &vertex.body {
                Body::Place => 1,
                Body::Units(ids) => ids.len() as u32,
                Body::Amount(_) => 0,
            };
            self.first_bit.push(bits);
            bits += wide;
            self.totals[at as usize * kinds + kind.at()] += size;
            seen |= kind.bit();
            if self.host_of[at as usize] != NONE {
                in_nodes |= kind.bit();
            }
        }
        self.bits = bits as usize;
        self.pools = seen & !in_nodes;
        let mut below = vec![0u64; self.len()];
        for at in (1..self.len()).rev() {
            let up = self.parent[at] as usize;
            let kind = self.vertex(at as u32).kind;
            self.under[kind.at()] |= below[at];
            below[up] |= below[at] | kind.bit();
            for kind in 0..kinds {
                let more = self.totals[at * kinds + kind];
                let sum = &mut self.totals[up * kinds + kind];
                *sum = sum.saturating_add(more);
            }
        }
        let kind = self.vertex(0).kind;
        self.under[kind.at()] |= below[0];
        for at in 1..self.len() as u32 {
            let (from, to) = self.hosts_within(at);
            if from < to && self.host_of[at as usize] == NONE {
                self.parts
                    .entry(self.parent[at as usize])
                    .or_default()
                    .push(at);
            }
        }
    }
}

impl Kind {
    pub(super) fn at(self) -> usize {
        usize::from(self.0)
    }

    pub(super) fn bit(self) -> u64 {
        1 << self.0
    }
}

impl Vertex {
    /// How much of its type it is itself.
    pub fn size(&self) -> i64 {
        match &self.body {
            Body::Place => 1,
            Body::Units(ids) => ids.len() as i64,
            Body::Amount(amount) => *amount,
        }
    }
}
