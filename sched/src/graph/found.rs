//! What a search found: the vertices picked, and what R can say of them.
//!
//! Made by the search, held by whoever holds a grant, given back to a stock or a
//! plan. It does not know for whom.

use std::collections::BTreeMap;

use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use super::containment::{Body, Graph, NONE};

/// A vertex and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Its number in the graph.
    pub vertex: u32,
    /// How much of it.
    pub share: Share,
}

/// How much of a vertex was picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// Nothing of itself: what is asked for lies in it, others may use the rest.
    Through,
    /// All of it and all within.
    Whole,
    /// These positions of a run.
    Units(Idset),
    /// So much.
    Amount(i64),
}

/// What serves a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Each vertex with what is taken of it.
    pub picks: Vec<Pick>,
    /// How many of the first thing asked for were found, where the count left a choice; of a gang
    /// its members.
    pub count: u64,
}

impl Match {
    /// The places of nodes it has anything on, ascending, in the order of [`Graph::host`].
    pub fn hosts(&self, graph: &Graph) -> Vec<usize> {
        let mut hosts = Vec::new();
        for pick in &self.picks {
            match graph.host_of[pick.vertex as usize] {
                NONE => {
                    let (from, to) = graph.hosts_within(pick.vertex);
                    if pick.share == Share::Whole {
                        hosts.extend(from..to);
                    }
                }
                host => hosts.push(host as usize),
            }
        }
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// What R can say of it: cores, GPUs and memory of nodes. Pools and other types are only in
    /// the picks.
    pub fn resource_set(&self, graph: &Graph) -> ResourceSet {
        let mut set = ResourceSet::new();
        for pick in &self.picks {
            match &pick.share {
                Share::Through => {
                    node_of(&mut set, graph, pick.vertex);
                }
                Share::Whole => {
                    for at in pick.vertex..graph.end[pick.vertex as usize] {
                        add(&mut set, graph, at, &whole(graph, at));
                    }
                }
                Share::Units(_) | Share::Amount(_) => {
                    add(&mut set, graph, pick.vertex, &pick.share);
                }
            }
        }
        add_properties(&mut set, graph);
        set
    }

    /// One line for each pick: path and what of it, for people.
    pub fn lines(&self, graph: &Graph) -> Vec<String> {
        let line = |pick: &Pick| {
            let path = graph.path(pick.vertex);
            match (&pick.share, &graph.vertex(pick.vertex).body) {
                (Share::Through, _) => format!("{path} shared"),
                (Share::Whole, _) => format!("{path} whole"),
                (Share::Units(positions), Body::Units(ids)) => {
                    let kind = graph.kind_name(graph.vertex(pick.vertex).kind);
                    let up = graph.path(graph.parent[pick.vertex as usize]);
                    format!("{up}/{kind}[{}]", named(ids, positions))
                }
                (Share::Units(positions), Body::Place | Body::Amount(_)) => {
                    format!("{path}[{positions}]")
                }
                (Share::Amount(amount), _) => format!("{path}={amount}"),
            }
        };
        self.picks.iter().map(line).collect()
    }
}

/// A vertex in full, as if it had been picked alone.
pub(super) fn whole(graph: &Graph, at: u32) -> Share {
    match &graph.vertex(at).body {
        Body::Place => Share::Whole,
        Body::Units(ids) => Share::Units(Idset::first_ids(ids.len() as u32)),
        Body::Amount(amount) => Share::Amount(*amount),
    }
}

/// The numbers of some positions of a run.
fn named(ids: &Idset, positions: &Idset) -> Idset {
    match ids.ranges() {
        // Nearly all runs have no gap.
        &[(first, _)] => {
            let mut named = Idset::new();
            for &(from, to) in positions.ranges() {
                named.insert_range(first + from, first + to);
            }
            named
        }
        _ => ids
            .iter()
            .zip(0u32..)
            .filter(|(_, at)| positions.contains(*at))
            .map(|(id, _)| id)
            .collect(),
    }
}

fn node_of<'s>(set: &'s mut ResourceSet, graph: &Graph, at: u32) -> Option<&'s mut NodeSet> {
    let host = graph.host_of[at as usize];
    if host == NONE {
        return None;
    }
    let node = graph.host(host as usize);
    let rank = graph.vertex(node).rank.unwrap_or(host);
    let entry = set.nodes.entry(Rank(rank));
    Some(entry.or_insert_with(|| NodeSet {
        host: graph.host_name(node),
        cores: Idset::new(),
        gpus: Idset::new(),
        memory: 0,
        ..NodeSet::default()
    }))
}

fn add(set: &mut ResourceSet, graph: &Graph, at: u32, share: &Share) {
    let Some(node) = node_of(set, graph, at) else {
        return;
    };
    let vertex = graph.vertex(at);
    let ids = match (share, &vertex.body) {
        (Share::Units(positions), Body::Units(ids)) => named(ids, positions),
        (Share::Whole, Body::Place) => Idset::one(vertex.id),
        (Share::Amount(_) | Share::Through | Share::Whole | Share::Units(_), _) => Idset::new(),
    };
    match (graph.kind_name(vertex.kind), share) {
        ("core", _) => node.cores = node.cores.union(&ids),
        ("gpu", _) => node.gpus = node.gpus.union(&ids),
        ("memory", Share::Amount(bytes)) => {
            node.memory = node.memory.saturating_add(*bytes as u64);
        }
        (_, _) => {}
    }
}

/// Properties of the nodes of a set, as R has them: the bare ones.
fn add_properties(set: &mut ResourceSet, graph: &Graph) {
    let by_rank: BTreeMap<u32, u32> = match graph.hosts_have_properties() {
        true => graph
            .hosts
            .iter()
            .map(|&at| (graph.vertex(at).rank.unwrap_or(0), at))
            .collect(),
        false => return,
    };
    for rank in set.ranks().iter() {
        let Some(properties) = by_rank
            .get(&rank)
            .and_then(|&at| graph.vertex(at).properties.as_ref())
        else {
            continue;
        };
        for (key, value) in properties.iter() {
            if value.is_empty() && !key.starts_with('+') {
                set.properties.entry(key.clone()).or_default().insert(rank);
            }
        }
    }
}
