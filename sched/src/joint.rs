//! What goes on nodes otherwise than as so many slots: a gang, or what comes back to a suspended job.
//!
//! Asked by the occupancy, in the place of `placement`. It knows no times.

use std::collections::BTreeMap;

use eddy_wire::id::Rank;

use crate::inventory::Inventory;
use crate::placement::{Chosen, Short};
use crate::policy::NodeRank;
use crate::rooms::Rooms;
use crate::together::{Field, Placed, Together};

/// One of the two.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Joint<'a> {
    /// All members at once.
    Gang(&'a Together),
    /// So many cores of each of these nodes.
    Back(&'a BTreeMap<Rank, u32>),
}

impl Joint<'_> {
    /// Where all of it goes at once.
    pub fn place(
        self,
        field: Field<'_>,
        rank: NodeRank,
        inventory: &Inventory,
    ) -> Result<Placed, Short> {
        match self {
            Joint::Gang(gang) => gang.place(field, rank, inventory),
            Joint::Back(cores) => back(cores, field.shared, inventory),
        }
    }
}

/// As many slots of one core on each node as it lacks there.
fn back(
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
