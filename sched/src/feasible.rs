//! Whether a request can ever be served by an inventory.
//!
//! Ingest refuses at submit what cannot; the planner gives `Never` when the
//! inventory became too small. What is free or in service now is not looked at.

use std::sync::Arc;

use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Takes};
use eddy_wire::plan::Reason;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use crate::need::Need;
use crate::placement::{Chosen, Short, choose};
use crate::rooms::{Room, Rooms};
use crate::sockets;
use crate::within::Within;

/// What an inventory has, indexed for many questions.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    rooms: Rooms,
    ranks: Idset,
    /// The rank of each place in the rooms.
    by_place: Vec<u32>,
    /// What each has, where the sockets of any are known.
    nodes: Arc<[NodeSet]>,
}

impl Capacity {
    /// Of this inventory. A node whose memory is 0 is one whose memory is not known: any
    /// request for memory fits it.
    pub fn of(inventory: &ResourceSet) -> Capacity {
        let mut nodes = inventory.nodes.values();
        let is_known = nodes.any(|node| node.sockets.known().is_some());
        let nodes = inventory.nodes.values().filter(|_| is_known);
        Capacity {
            nodes: nodes.cloned().collect(),
            rooms: Rooms::new(inventory.nodes.values().map(|node| Some(room_of(node)))),
            ranks: inventory.ranks(),
            by_place: inventory.nodes.keys().map(|rank| rank.0).collect(),
        }
    }

    /// Whether the request fits when everything is free.
    ///
    /// # Errors
    /// [`Reason::NoSuchRanks`], [`Reason::NeverOnOneNode`] and [`Reason::NeverInAll`], with the
    /// numbers.
    pub fn feasible(&self, request: &Request) -> Result<(), Reason> {
        let asked = request.beside().or_else(|| request.named_ranks().cloned());
        if let Some(asked) = &asked {
            self.has_ranks(asked)?;
        }
        if request.takes == Takes::Nothing {
            return Ok(());
        }
        let (need, within) = (Need::of(request), self.within(request));
        let found = match need.sockets {
            None => choose(&self.rooms, &within, &need),
            Some(_) => self.in_sockets(&within, &need),
        };
        found.map(drop).map_err(|short| short.never(request))
    }

    /// The nodes that serve a need in sockets when everything is free.
    fn in_sockets(&self, within: &Within, need: &Need) -> Result<Vec<Chosen>, Short> {
        let Some(group) = &need.sockets else {
            return choose(&self.rooms, within, need);
        };
        // A node of which no sockets are known is one: any numbers will do.
        let one = |at: usize| {
            let room = self.rooms.room(at);
            NodeSet {
                cores: Idset::first_ids(u32::try_from(room.cores).unwrap_or(u32::MAX)),
                gpus: Idset::first_ids(u32::try_from(room.gpus).unwrap_or(u32::MAX)),
                ..NodeSet::default()
            }
        };
        let node = |at: usize| self.nodes.get(at).cloned().unwrap_or_else(|| one(at));
        let on = |at: usize, room: &Room| {
            let node = node(at);
            sockets::groups(group, &node, &node, room)
        };
        let count = self.by_place.len();
        let rooms = sockets::rooms_for(&self.rooms, within, need, (count, on));
        choose(&rooms, within, need).map_err(|_| {
            let all: Vec<NodeSet> = (0..count).filter(|at| within.has(*at)).map(node).collect();
            let nodes = all.iter().map(|node| (node, node.clone()));
            sockets::short(need, group, &rooms, nodes)
        })
    }

    /// Whether there are all these ranks.
    pub(crate) fn has_ranks(&self, asked: &Idset) -> Result<(), Reason> {
        if self.ranks.contains_all(asked) {
            return Ok(());
        }
        Err(Reason::NoSuchRanks {
            ranks: asked.difference(&self.ranks),
        })
    }

    /// The places that the request may have, in indexes of the same nodes.
    pub(crate) fn within(&self, request: &Request) -> Within {
        Within::of(request.ranks.as_ref(), &self.by_place)
    }

    /// The places of these ranks, in indexes of the same nodes.
    pub(crate) fn within_ranks(&self, ranks: &Idset) -> Within {
        Within::of(Some(ranks), &self.by_place)
    }

    /// Its ranks.
    pub fn ranks(&self) -> &Idset {
        &self.ranks
    }

    pub(crate) fn rooms(&self) -> &Rooms {
        &self.rooms
    }
}

/// [`Capacity::feasible`] for one question; who asks often keeps a [`Capacity`].
///
/// # Errors
/// As there.
pub fn feasible(inventory: &ResourceSet, request: &Request) -> Result<(), Reason> {
    Capacity::of(inventory).feasible(request)
}

/// The room on a node of which nothing is taken.
pub(crate) fn room_of(node: &NodeSet) -> Room {
    let memory = match node.memory {
        0 => Room::NO_LIMIT,
        bytes => bytes,
    };
    Room {
        cores: node.cores.len(),
        gpus: node.gpus.len(),
        memory,
    }
}
