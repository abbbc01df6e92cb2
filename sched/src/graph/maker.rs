//! A draft's things as vertices, in preorder: alike ones in one place become a run.
//!
//! Used once by `containment`. It derives nothing from what it adds.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::idset::Idset;
use petgraph::graph::NodeIndex;

use super::containment::{Body, Class, Graph, Kind, NONE, Vertex};
use super::draft::{Draft, GraphError, KINDS_MAX, Size, Thing, VERTICES_MAX};

/// The types by name, and how each is kept.
pub(super) fn classes(draft: &Draft) -> Result<BTreeMap<String, Class>, GraphError> {
    let mut kinds: BTreeMap<String, Class> = BTreeMap::new();
    for at in draft.tree.node_indices() {
        let thing = &draft.tree[at];
        let always = matches!(thing.kind.as_str(), "cluster" | "rack" | "node");
        let class = match (&thing.size, draft.children(at).next()) {
            (_, Some(_)) => Class::Place,
            (_, None) if always => Class::Place,
            (Size::Amount(_), None) => Class::Amount,
            (Size::Pieces, None) if thing.kind == "memory" => Class::Amount,
            (Size::Pieces, None) => Class::Units,
        };
        let known = kinds.entry(thing.kind.clone()).or_insert(class);
        // A place anywhere makes all of its type places; else an amount makes all amounts.
        *known = match (*known, class) {
            (Class::Place, _) | (_, Class::Place) => Class::Place,
            (Class::Amount, _) | (_, Class::Amount) => Class::Amount,
            (Class::Units, Class::Units) => Class::Units,
        };
    }
    match kinds.len() {
        0..=KINDS_MAX => Ok(kinds),
        given => Err(GraphError::TooManyKinds { given }),
    }
}

/// By thing the lowest rank in it: places are kept in the order of their ranks.
pub(super) fn lowest_ranks(draft: &Draft, root: NodeIndex) -> Vec<u32> {
    let mut lowest = vec![NONE; draft.tree.node_count()];
    let mut order = vec![root];
    let mut at = 0;
    while at < order.len() {
        order.extend(draft.children(order[at]));
        at += 1;
    }
    for &at in order.iter().rev() {
        let own = draft.tree[at].rank.unwrap_or(NONE);
        let inner = draft.children(at).map(|child| lowest[child.index()]).min();
        lowest[at.index()] = own.min(inner.unwrap_or(NONE));
    }
    lowest
}

/// Adds a draft's things in preorder.
pub(super) struct Maker<'d> {
    pub draft: &'d Draft,
    pub number: BTreeMap<String, u8>,
    pub lowest: Vec<u32>,
    pub graph: Graph,
}

impl Maker<'_> {
    /// Adds a thing and all in it. Depth is bounded only by the draft, so no recursion.
    pub fn place(&mut self, root: NodeIndex, thing: &Thing, parent: u32) -> Result<(), GraphError> {
        let mut open: Vec<(Step, u32)> = Vec::new();
        let first = self.put(thing, parent)?;
        open.push((Step::Close, first));
        self.open(root, first, &mut open);
        while let Some((step, at)) = open.pop() {
            match step {
                Step::Close => self.graph.end[at as usize] = self.graph.tree.node_count() as u32,
                Step::Put(index, thing) => {
                    let own = self.put(&thing, at)?;
                    open.push((Step::Close, own));
                    self.open(index, own, &mut open);
                }
            }
        }
        Ok(())
    }

    /// Pushes what is in a thing so that it is popped in order.
    fn open(&self, of: NodeIndex, own: u32, open: &mut Vec<(Step, u32)>) {
        let mut inner: Vec<NodeIndex> = self.draft.children(of).collect();
        let tree = &self.draft.tree;
        let key = |at: &NodeIndex| {
            let thing = &tree[*at];
            (
                thing.kind.clone(),
                self.lowest[at.index()],
                thing.ids.first(),
                thing.name.clone(),
            )
        };
        inner.sort_by_cached_key(key);
        let mut things: Vec<(NodeIndex, Thing)> = Vec::new();
        for at in inner {
            let thing = &tree[at];
            let class = self.graph.kinds[usize::from(self.number[&thing.kind])].1;
            match (class, things.last_mut()) {
                (Class::Units, Some((_, run))) if alike(run, thing) => {
                    run.ids = run.ids.union(&thing.ids);
                }
                (Class::Place, _) if thing.ids.len() > 1 => {
                    let split = thing.ids.iter().map(|id| {
                        (
                            at,
                            Thing {
                                ids: Idset::one(id),
                                ..thing.clone()
                            },
                        )
                    });
                    things.extend(split);
                }
                (Class::Place | Class::Units | Class::Amount, _) => {
                    things.push((at, thing.clone()))
                }
            }
        }
        let steps = things.into_iter().rev();
        open.extend(steps.map(|(at, thing)| (Step::Put(at, thing), own)));
    }

    fn put(&mut self, thing: &Thing, parent: u32) -> Result<u32, GraphError> {
        let graph = &mut self.graph;
        let at = graph.tree.node_count() as u32;
        if at as usize >= VERTICES_MAX {
            return Err(GraphError::TooManyVertices {
                given: at as usize + 1,
            });
        }
        let kind = Kind(self.number[&thing.kind]);
        let body = match (graph.class(kind), thing.size) {
            (Class::Place, _) => Body::Place,
            (Class::Units, _) => Body::Units(thing.ids.clone()),
            (Class::Amount, Size::Amount(amount)) => Body::Amount(amount as i64),
            (Class::Amount, Size::Pieces) => Body::Amount(thing.ids.len() as i64),
        };
        let index = graph.tree.add_node(Vertex {
            kind,
            id: thing.ids.first().unwrap_or(0),
            body,
            name: thing.name.clone(),
            rank: thing.rank,
            properties: (!thing.properties.is_empty()).then(|| Arc::new(thing.properties.clone())),
            state: thing.state,
        });
        let mut host = NONE;
        if parent != NONE {
            graph
                .tree
                .add_edge(NodeIndex::new(parent as usize), index, ());
            host = graph.host_of[parent as usize];
        }
        if thing.kind == "node" {
            if host != NONE {
                return Err(GraphError::NodeInNode(thing.label()));
            }
            host = graph.hosts.len() as u32;
            graph.hosts.push(at);
        }
        graph.host_of.push(host);
        graph.parent.push(parent);
        graph.end.push(at + 1);
        graph.of_kind[kind.at()].push(at);
        Ok(at)
    }
}

enum Step {
    Put(NodeIndex, Thing),
    Close,
}

/// Whether a thing belongs to a run.
fn alike(run: &Thing, thing: &Thing) -> bool {
    let named = run.name.is_some() || thing.name.is_some();
    !named
        && run.kind == thing.kind
        && run.state == thing.state
        && run.properties == thing.properties
        && run.ids.is_disjoint(&thing.ids)
}
