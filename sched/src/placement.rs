//! Which nodes serve a request, which cores of them, or why it is not to be.
//!
//! Asked by the planner for the head of its queue, and by [`crate::Capacity`].
//! Nodes of low rank go first, then cores and GPUs of low number. It changes
//! nothing: what it returns is taken by the planner.

use eddy_wire::Time;
use eddy_wire::jobspec::{Request, Sharing};
use eddy_wire::plan::Reason;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use crate::inventory::{Inventory, Node};
use crate::need::{Need, Spread};
use crate::rooms::Rooms;

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
    let need = Need::of(request);
    let rooms = match need.sharing {
        Sharing::Shared => inventory.free(),
        Sharing::Exclusive => inventory.idle(),
    };
    match choose(rooms, &need) {
        Ok(chosen) => Ok(grant(
            inventory,
            &need,
            &chosen,
            times(inventory, request, now),
        )),
        Err(short) => Err(explain(inventory, &need, short)),
    }
}

/// Why there is no room now: the widest reason that holds.
fn explain(inventory: &Inventory, need: &Need, now: Short) -> Unplaced {
    if let Err(short) = choose(inventory.all(), need) {
        return Unplaced::Never(short.never());
    }
    Unplaced::Wait(match choose(inventory.serving(), need) {
        Err(short) => {
            let (what, asked, up) = short.numbers();
            Reason::NotInService {
                what,
                asked,
                up,
                away: inventory.away(),
            }
        }
        Ok(_) => {
            let (what, asked, free) = now.numbers();
            Reason::NoRoom { what, asked, free }
        }
    })
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
    pub fn never(self) -> Reason {
        match self {
            Short::OnOneNode { what, asked, most } => Reason::NeverOnOneNode {
                what: what.to_owned(),
                asked,
                most,
            },
            Short::InAll { what, asked, most } => Reason::NeverInAll { what, asked, most },
        }
    }

    /// What is short, how much is asked for, how much there is.
    fn numbers(self) -> (String, u64, u64) {
        match self {
            Short::OnOneNode { what, asked, most } => (format!("{what} on one node"), asked, most),
            Short::InAll { what, asked, most } => (what, asked, most),
        }
    }
}

/// The nodes of lowest rank that serve the need together.
pub(crate) fn choose(rooms: &Rooms, need: &Need) -> Result<Vec<Chosen>, Short> {
    short_in_sum(rooms, need)?;
    let least = need.least();
    let mut chosen = Vec::new();
    let (mut left, mut from) = (need.count(), 0);
    while left > 0 {
        let Some(at) = rooms.next(from, &least) else {
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
fn short_in_sum(rooms: &Rooms, need: &Need) -> Result<(), Short> {
    let totals = rooms.totals();
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

/// The resources of the chosen nodes.
fn grant(inventory: &Inventory, need: &Need, chosen: &[Chosen], times: Times) -> ResourceSet {
    let whole = inventory.set();
    let part = |&Chosen { at, slots }: &Chosen| {
        let node = inventory.node(at);
        (node.rank, part_of(node, need, slots))
    };
    let mut set = ResourceSet {
        nodes: chosen.iter().map(part).collect(),
        starttime: times.start,
        expiration: times.end,
        nslots: u32::try_from(need.slots()).ok(),
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

fn part_of(node: &Node, need: &Need, slots: u64) -> NodeSet {
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
            }
        }
    }
}
