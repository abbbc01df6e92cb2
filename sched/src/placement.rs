//! Which nodes serve a request, which cores of them, or why it is not to be.
//!
//! Asked by the planner for the head of its queue, and by [`crate::Capacity`].
//! Nodes of low rank go first, but where `ranked` has the order of a policy; then
//! cores and GPUs of low number. It changes nothing: what it returns is taken by
//! the planner.

mod ranked;

use std::collections::BTreeMap;

use eddy_wire::Time;
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Sharing};
use eddy_wire::plan::Reason;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use crate::inventory::{Inventory, Node};
use crate::need::{Need, Spread};
use crate::rooms::{Rooms, Totals};
use crate::within::Within;

pub(crate) use ranked::{Order, choose_ranked};

/// Why a request is not placed now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unplaced {
    /// Nor will it be on this inventory.
    Never(Reason),
    /// It fits later.
    Wait(Reason),
}

/// Places a request on what is free of nodes in service, as a grant from `now` on.
pub(crate) fn place(
    inventory: &Inventory,
    request: &Request,
    now: Time,
) -> Result<ResourceSet, Unplaced> {
    if inventory.is_empty() {
        // Nothing is known yet, or nothing is left for a while: no reason to refuse for good.
        let what = "the instance to have nodes".to_owned();
        return Err(Unplaced::Wait(Reason::Dependency { what }));
    }
    if let Some(ranks) = request.named_ranks() {
        inventory.all().has_ranks(ranks).map_err(Unplaced::Never)?;
    }
    let need = Need::of(request);
    let within = inventory.all().within(request);
    let rooms = match need.sharing {
        Sharing::Shared => inventory.free(),
        Sharing::Exclusive => inventory.idle(),
    };
    match choose(rooms, &within, &need) {
        Ok(chosen) => Ok(grant(
            inventory,
            &need,
            &chosen,
            times(inventory, request, now),
        )),
        Err(short) => Err(explain(inventory, request, &within, &need, short)),
    }
}

/// What is to be done with a job that takes nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Beside {
    Start(ResourceSet),
    /// Not on this inventory.
    Never(Reason),
    /// Not before this rank can be asked.
    WaitFor(u32),
}

/// Places a request that takes nothing: its nodes, and nothing of them.
pub(crate) fn place_beside(inventory: &Inventory, request: &Request, now: Time) -> Beside {
    let ranks = request.beside().unwrap_or_default();
    if let Err(reason) = inventory.all().has_ranks(&ranks) {
        return Beside::Never(reason);
    }
    if let Some(rank) = ranks.difference(inventory.online()).first() {
        return Beside::WaitFor(rank);
    }
    let nodes = ranks.iter().filter_map(|rank| {
        let node = inventory.node_of(Rank(rank))?;
        let nothing = NodeSet {
            host: node.total.host.clone(),
            cores: Idset::new(),
            gpus: Idset::new(),
            memory: 0,
            ..NodeSet::default()
        };
        Some((Rank(rank), nothing))
    });
    let times = times(inventory, request, now);
    Beside::Start(set_of(inventory, nodes.collect(), request.slots, times))
}

/// Why there is no room now: the widest reason that holds.
fn explain(
    inventory: &Inventory,
    request: &Request,
    within: &Within,
    need: &Need,
    now: Short,
) -> Unplaced {
    if let Err(short) = choose(inventory.all().rooms(), within, need) {
        return Unplaced::Never(short.never(request));
    }
    if let Err(short) = choose(inventory.common(), within, need) {
        return Unplaced::Never(never_beside(inventory, request, short));
    }
    Unplaced::Wait(match choose(inventory.serving(), within, need) {
        Err(short) => not_in_service(inventory, request, short),
        Ok(_) => {
            let (what, asked, free) = now.numbers(request);
            Reason::NoRoom { what, asked, free }
        }
    })
}

/// What is short of the nodes that no instance of a fixed size holds.
pub(crate) fn never_beside(inventory: &Inventory, request: &Request, short: Short) -> Reason {
    let (what, asked, most) = short.numbers(request);
    Reason::NeverBeside {
        what,
        asked,
        most,
        apart: inventory.apart().clone(),
    }
}

/// What is short of the nodes in service, and which others there are.
pub(crate) fn not_in_service(inventory: &Inventory, request: &Request, short: Short) -> Reason {
    let (what, asked, up) = short.numbers(request);
    let of_those = |ranks: Idset| match &request.ranks {
        Some(asked) => ranks.intersect(asked),
        None => ranks,
    };
    let away = of_those(inventory.away());
    Reason::NotInService {
        what,
        asked,
        up,
        apart: of_those(inventory.apart().difference(&away)),
        away,
    }
}

/// Slots on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The node's place in the inventory.
    pub at: usize,
    /// How many slots of the request it gets.
    pub slots: u64,
}

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// No node has as much of this.
    OnOneNode {
        what: &'static str,
        asked: u64,
        most: u64,
    },
    /// All nodes together have not as much, or too few nodes have it together.
    InAll { what: String, asked: u64, most: u64 },
}

impl Short {
    /// As a reason, where the rooms are those of the whole inventory.
    pub fn never(self, request: &Request) -> Reason {
        if let (Some(constraint), Some(ranks)) = (&request.constraint, &request.ranks)
            && ranks.is_empty()
        {
            return Reason::NoSuchNodes {
                constraint: constraint.to_string(),
                known: None,
            };
        }
        match self {
            Short::OnOneNode { what, asked, most } => Reason::NeverOnOneNode {
                what: of_ranks(what.to_owned(), request),
                asked,
                most,
            },
            Short::InAll { what, asked, most } => Reason::NeverInAll {
                what: of_ranks(what, request),
                asked,
                most,
            },
        }
    }

    /// What is short, how much is asked for, how much there is.
    pub fn numbers(self, request: &Request) -> (String, u64, u64) {
        let (what, asked, most) = match self {
            Short::OnOneNode { what, asked, most } => (format!("{what} on one node"), asked, most),
            Short::InAll { what, asked, most } => (what, asked, most),
        };
        (of_ranks(what, request), asked, most)
    }
}

/// What is counted, with the ranks on which it is, if only some will do, and why only those.
fn of_ranks(what: String, request: &Request) -> String {
    match (&request.ranks, &request.constraint) {
        (Some(ranks), None) if ranks.is_empty() => format!("{what} of ranks that would do"),
        (Some(ranks), None) => format!("{what} of ranks {ranks}"),
        (Some(ranks), Some(constraint)) => format!("{what} of ranks {ranks} ({constraint})"),
        (None, _) => what,
    }
}

/// The nodes of lowest rank that serve the need together.
pub(crate) fn choose(rooms: &Rooms, within: &Within, need: &Need) -> Result<Vec<Chosen>, Short> {
    short_in_sum(&within.totals(rooms), need)?;
    let least = need.least();
    let mut chosen = Vec::new();
    let (mut left, mut from) = (need.count(), 0);
    while left > 0 {
        let Some(at) = within.next(rooms, from, &least) else {
            let asked = need.count();
            return Err(Short::InAll {
                what: need.to_string(),
                asked,
                most: asked - left,
            });
        };
        let slots = need.slots_on(&rooms.room(at), left);
        left -= match need.spread {
            Spread::Nodes { .. } => 1,
            Spread::Slots(_) => slots,
        };
        chosen.push(Chosen { at, slots });
        from = at + 1;
    }
    Ok(chosen)
}

/// What is short by the sums alone: that needs no search, and is said in the plainest words.
fn short_in_sum(totals: &Totals, need: &Need) -> Result<(), Short> {
    let (least, count) = (need.least(), need.count());
    if let Spread::Nodes { nodes: asked, .. } = need.spread
        && asked > totals.nodes
    {
        let what = match need.sharing {
            Sharing::Shared => "nodes",
            Sharing::Exclusive => "whole nodes",
        };
        return Err(Short::InAll {
            what: what.to_owned(),
            asked,
            most: totals.nodes,
        });
    }
    let sums = [
        ("cores", least.cores, totals.most.cores, totals.cores),
        ("gpus", least.gpus, totals.most.gpus, totals.gpus),
    ];
    for (what, each, most, sum) in sums {
        // Where there is none at all, that is what to say, not how many a node would need.
        if each > most && most > 0 {
            return Err(Short::OnOneNode {
                what,
                asked: each,
                most,
            });
        }
        let asked = each.saturating_mul(count);
        if asked > sum {
            return Err(Short::InAll {
                what: what.to_owned(),
                asked,
                most: sum,
            });
        }
    }
    if least.memory > totals.most.memory {
        let (asked, most) = (least.memory, totals.most.memory);
        return Err(Short::OnOneNode {
            what: "bytes of memory",
            asked,
            most,
        });
    }
    Ok(())
}

/// From when to when a grant is, in microseconds since 1970; 0 is no end.
struct Times {
    start: i64,
    end: i64,
}

/// A grant ends by the job's own limit, and never after the inventory it is part of.
fn times(inventory: &Inventory, request: &Request, now: Time) -> Times {
    let start = now.0.max(0);
    let limit = request.duration.filter(|&limit| limit > 0);
    let ends = [
        limit.map(|limit| start.saturating_add(limit)),
        Some(inventory.set().expiration).filter(|&end| end > 0),
    ];
    // A grant that ends as it begins could not be written down (RFC 20).
    let end = ends
        .into_iter()
        .flatten()
        .min()
        .map_or(0, |end| end.max(start.saturating_add(1)));
    Times { start, end }
}

/// What a request is granted on nodes that were chosen for it, from `now` on.
pub(crate) fn granted(
    inventory: &Inventory,
    request: &Request,
    need: &Need,
    chosen: &[Chosen],
    now: Time,
) -> ResourceSet {
    grant(inventory, need, chosen, times(inventory, request, now))
}

/// The same with these parts of nodes.
pub(crate) fn granted_parts(
    inventory: &Inventory,
    request: &Request,
    nodes: BTreeMap<Rank, NodeSet>,
    now: Time,
) -> ResourceSet {
    set_of(
        inventory,
        nodes,
        request.slots.max(1),
        times(inventory, request, now),
    )
}

/// The resources of the chosen nodes.
fn grant(inventory: &Inventory, need: &Need, chosen: &[Chosen], times: Times) -> ResourceSet {
    let part = |&Chosen { at, slots }: &Chosen| {
        let node = inventory.node(at);
        (node.rank, part_of(node, need, slots))
    };
    let nodes = chosen.iter().map(part).collect();
    let slots = u32::try_from(need.slots()).unwrap_or(u32::MAX);
    set_of(inventory, nodes, slots, times)
}

/// The nodes of a grant, with what the inventory says of them.
fn set_of(
    inventory: &Inventory,
    nodes: BTreeMap<Rank, NodeSet>,
    slots: u32,
    times: Times,
) -> ResourceSet {
    let whole = inventory.set();
    let mut set = ResourceSet {
        nodes,
        starttime: times.start,
        expiration: times.end,
        nslots: Some(slots),
        scheduling: whole.scheduling.clone(),
        ..ResourceSet::default()
    };
    if !whole.properties.is_empty() {
        let ranks = set.ranks();
        let having = whole
            .properties
            .iter()
            .map(|(name, all)| (name, all.intersect(&ranks)));
        set.properties = having
            .filter(|(_, ranks)| !ranks.is_empty())
            .map(|(name, ranks)| (name.clone(), ranks))
            .collect();
    }
    set
}

pub(crate) fn part_of(node: &Node, need: &Need, slots: u64) -> NodeSet {
    match need.sharing {
        Sharing::Exclusive => node.total.clone(),
        Sharing::Shared => {
            let room = need.room(slots);
            NodeSet {
                host: node.total.host.clone(),
                cores: node.free.cores.lowest(room.cores),
                gpus: node.free.gpus.lowest(room.gpus),
                // Of memory that nobody knows nothing can be given.
                memory: room.memory.min(node.total.memory),
                sockets: node.total.sockets.clone(),
            }
        }
    }
}
