//! What goes on nodes otherwise than as so many slots: a gang, what comes back to a suspended job, or slots
//! that lie in sockets.
//!
//! Asked by the occupancy, in the place of `placement`. It knows no times.

use std::collections::BTreeMap;

use eddy_wire::id::Rank;
use eddy_wire::jobspec::SocketGroup;

use crate::inventory::Inventory;
use crate::placement::{Chosen, Short};
use crate::rooms::Rooms;
use crate::together::{Placed, Together};

/// One of the three.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Joint<'a> {
    /// All members at once.
    Gang(&'a Together),
    /// So many cores of each of these nodes.
    Back(&'a BTreeMap<Rank, u32>),
    /// Groups of slots, each in sockets of one node.
    Sockets(&'a SocketGroup),
}

/// As many slots of one core on each node as it lacks there.
pub(crate) fn back(
    cores: &BTreeMap<Rank, u32>,
    rooms: &Rooms,
    inventory: &Inventory,
) -> Result<Placed, Short> {
    let (mut chosen, mut asked, mut most) = (Vec::new(), 0, 0);
    for (rank, cores) in cores {
        let cores = u64::from(*cores);
        asked += cores;
        let at = inventory.place_of(*rank).filter(|at| rooms.has(*at));
        if let Some(at) = at {
            let there = rooms.room(at).cores.min(cores);
            most += there;
            if there == cores {
                chosen.push(Chosen { at, slots: cores });
            }
        }
    }
    match chosen.len() == cores.len() {
        true => Ok(Placed::from(chosen)),
        false => Err(Short::InAll {
            what: "cores".to_owned(),
            asked,
            most,
        }),
    }
}
