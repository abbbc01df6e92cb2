//! A graph with what is free of it now: matches requests, and says why not.
//!
//! Used by whoever places jobspecs without planning ahead; `plan` does that over
//! time. It keeps beside the stock two in which nothing is held, so that a refusal
//! can say whether waiting helps.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use thiserror::Error;

use super::containment::{Graph, Kind};
use super::draft::State;
use super::found::Match;
use super::search::Search;
use super::stock::Stock;
use super::want::{Group, Want};

/// Whether waiting helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// When something is given back.
    Later,
    /// When vertices that are out come back into service.
    InService,
    /// Never in this graph.
    Never,
}

/// Why nothing serves a request: the type that is short, how many were asked for, and how many
/// there are where they were sought.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{asked} of type `{kind}` are asked for, {there} are there")]
pub struct Refusal {
    /// Whether waiting helps.
    pub when: When,
    /// The type that is short; where enough of each is there but scattered, the first that was
    /// sought, with as many as would do.
    pub kind: String,
    /// How many are asked for.
    pub asked: u64,
    /// How many there are: now for [`When::Later`], in service or at all else.
    pub there: u64,
}

/// A graph and what is free of it.
#[derive(Clone, Debug)]
pub struct Matcher {
    graph: Arc<Graph>,
    pub(super) stock: Stock,
    /// Nothing held, in the states that were told.
    served: Stock,
    /// Nothing held, all up.
    all: Stock,
}

impl Matcher {
    /// All of a graph free, in the states that were read.
    pub fn new(graph: Arc<Graph>) -> Matcher {
        let stock = Stock::new(&graph);
        Matcher {
            served: stock.clone(),
            all: Stock::all_up(&graph),
            stock,
            graph,
        }
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// What is free.
    pub fn stock(&self) -> &Stock {
        &self.stock
    }

    /// Says whether a vertex is in service.
    pub fn set_state(&mut self, vertex: u32, state: State) {
        self.stock.set_state(&self.graph, vertex, state);
        self.served.set_state(&self.graph, vertex, state);
    }

    /// Finds what serves a request and holds it.
    ///
    /// # Errors
    /// [`Refusal`] with what is short.
    pub fn allocate(&mut self, want: &Want) -> Result<Match, Refusal> {
        match find(&self.graph, &mut self.stock, want) {
            Some(found) => Ok(found),
            None => Err(self.refusal(want)),
        }
    }

    /// Whether a request could be served if nothing were held.
    ///
    /// # Errors
    /// [`Refusal`], never of [`When::Later`].
    pub fn feasible(&mut self, want: &Want) -> Result<(), Refusal> {
        for (stock, when) in [
            (&mut self.all, When::Never),
            (&mut self.served, When::InService),
        ] {
            match find(&self.graph, stock, want) {
                Some(found) => give(&self.graph, stock, &found),
                None => return Err(short(&self.graph, stock, want, when)),
            }
        }
        Ok(())
    }

    /// Gives back what [`Matcher::allocate`] held.
    pub fn free(&mut self, found: &Match) {
        give(&self.graph, &mut self.stock, found);
    }

    /// Why nothing serves a request that [`find`] did not serve.
    pub(super) fn refusal(&mut self, want: &Want) -> Refusal {
        match self.feasible(want) {
            Err(refusal) => refusal,
            Ok(()) => short(&self.graph, &mut self.stock, want, When::Later),
        }
    }
}

pub(super) fn give(graph: &Graph, stock: &mut Stock, found: &Match) {
    for pick in found.picks.iter().rev() {
        stock.give(graph, pick);
    }
}

/// Finds what serves a want and takes it from a stock.
pub(super) fn find(graph: &Graph, stock: &mut Stock, want: &Want) -> Option<Match> {
    match &want.place.group {
        None => Search::run(graph, stock, want, want.hosts.as_ref()),
        Some(group) => find_in_groups(graph, stock, want, group),
    }
}

/// In the group that serves most; of those the smallest, and then the first by value.
fn find_in_groups(graph: &Graph, stock: &mut Stock, want: &Want, group: &Group) -> Option<Match> {
    let main = graph.main;
    let mut groups: Vec<(i64, FixedBitSet)> = groups(graph, group)
        .into_values()
        .map(|mut hosts| {
            if let Some(allowed) = &want.hosts {
                hosts.intersect_with(allowed);
            }
            let total = |host: usize| main.map_or(0, |main| graph.total(graph.host(host), main));
            (hosts.ones().map(total).sum(), hosts)
        })
        .collect();
    groups.sort_by_key(|(total, _)| *total);
    // A gang is whole at its cardinality; then no other group can serve more.
    let most = want.goals.first().map_or(1, |goal| goal.counts.most());
    let mut best: Option<(Reverse<u64>, usize)> = None;
    for (at, (_, hosts)) in groups.iter().enumerate() {
        let Some(found) = Search::run(graph, stock, want, Some(hosts)) else {
            continue;
        };
        if found.count >= most {
            return Some(found);
        }
        give(graph, stock, &found);
        let this = (Reverse(found.count), at);
        best = Some(best.map_or(this, |best| best.min(this)));
    }
    let (_, at) = best?;
    Search::run(graph, stock, want, Some(&groups[at].1))
}

/// The nodes of each group by its value, or the number of its vertex.
fn groups(graph: &Graph, group: &Group) -> BTreeMap<(u32, String), FixedBitSet> {
    let mut groups: BTreeMap<(u32, String), FixedBitSet> = BTreeMap::new();
    for host in 0..graph.host_count() {
        let mut at = graph.host(host);
        let value = loop {
            let vertex = graph.vertex(at);
            let value = match group {
                Group::Kind(kind) => {
                    (graph.kind_name(vertex.kind) == kind).then(|| (at, String::new()))
                }
                Group::Property(key) => {
                    let value = vertex.properties.as_ref().and_then(|all| all.get(key));
                    value.map(|value| (0, value.clone()))
                }
            };
            match value {
                Some(value) => break Some(value),
                None if at == 0 => break None,
                None => at = graph.parent[at as usize],
            }
        };
        if let Some(value) = value {
            let bare = || FixedBitSet::with_capacity(graph.host_count());
            groups.entry(value).or_insert_with(bare).insert(host);
        }
    }
    groups
}

/// The type that is short in a stock that does not serve a want.
fn short(graph: &Graph, stock: &mut Stock, want: &Want, when: When) -> Refusal {
    let nodes = want.hosts.as_ref();
    let there = |kind: Kind, stock: &Stock| match nodes {
        Some(hosts) if !graph.is_pool(kind) => hosts
            .ones()
            .map(|host| stock.free(graph.host(host), kind))
            .sum(),
        Some(_) | None => stock.free(0, kind),
    };
    let refusal = |kind: Kind, asked: i64, there: i64| Refusal {
        when,
        kind: graph.kind_name(kind).to_owned(),
        asked: u64::try_from(asked).unwrap_or(0),
        there: u64::try_from(there).unwrap_or(0),
    };
    for &(kind, asked) in &want.least {
        let kind = Kind(kind as u8);
        let there = there(kind, stock);
        // Within some nodes what contains nodes cannot be counted.
        let counted = nodes.is_none() || !graph.contains_hosts(kind);
        if counted && there < asked {
            return refusal(kind, asked, there);
        }
    }
    let served = Search::most(graph, stock, want, nodes);
    let goal = want.goals.iter().find(|goal| goal.kind().is_some());
    match (goal.and_then(|goal| goal.kind()), want.goals.first()) {
        (Some(kind), Some(goal)) if want.goals[0].kind() == Some(kind) => Refusal {
            when,
            kind: graph.kind_name(kind).to_owned(),
            asked: goal.counts.least(),
            there: served,
        },
        (_, goal) => Refusal {
            when,
            kind: "slot".to_owned(),
            asked: goal.map_or(0, |goal| goal.counts.least()),
            there: served,
        },
    }
}
