//! Whether a request can ever be served by an inventory.
//!
//! Ingest refuses at submit what cannot; the planner gives `Never` when the
//! inventory became too small. What is free or in service now is not looked at.

use eddy_wire::jobspec::Request;
use eddy_wire::plan::Reason;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use crate::need::Need;
use crate::placement::choose;
use crate::rooms::{Room, Rooms};

/// What an inventory has, indexed for many questions.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    rooms: Rooms,
}

impl Capacity {
    /// Of this inventory. A node whose memory is 0 is one whose memory is not known: any
    /// request for memory fits it.
    pub fn of(inventory: &ResourceSet) -> Capacity {
        Capacity {
            rooms: Rooms::new(inventory.nodes.values().map(|node| Some(room_of(node)))),
        }
    }

    /// Whether the request fits when everything is free.
    ///
    /// # Errors
    /// [`Reason::NeverOnOneNode`] and [`Reason::NeverInAll`], with the numbers.
    pub fn feasible(&self, request: &Request) -> Result<(), Reason> {
        choose(&self.rooms, &Need::of(request))
            .map(drop)
            .map_err(|short| short.never())
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
