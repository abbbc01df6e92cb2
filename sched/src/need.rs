//! A request as amounts: what a slot takes, what a node must have to be of use.
//!
//! Made from a [`Request`] by placement and feasibility, for one look. It chooses
//! nothing.

use std::fmt;

use eddy_wire::jobspec::{MemoryNeed, Request, Sharing};

use crate::rooms::Room;

/// What one request needs. Two that are alike in it no placement can tell apart, but for the
/// ranks that they name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    pub spread: Spread,
    pub sharing: Sharing,
    /// What each slot takes of its node.
    slot: Room,
    /// Bytes that each node gives whatever the number of slots on it.
    node_memory: u64,
}

/// How slots lie on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spread {
    /// So many nodes, each with so many slots.
    Nodes { nodes: u64, slots: u64 },
    /// So many slots, wherever there is room.
    Slots(u64),
}

impl Need {
    pub fn of(request: &Request) -> Need {
        let slots = u64::from(request.slots.max(1));
        let spread = match request.nodes {
            Some(nodes) => Spread::Nodes {
                nodes: u64::from(nodes.max(1)),
                slots: u64::from(request.slots_per_node.max(1)),
            },
            None => Spread::Slots(slots),
        };
        let cores = u64::from(request.cores_per_slot);
        let (memory, node_memory) = match request.memory {
            MemoryNeed::None => (0, 0),
            MemoryNeed::PerNode(bytes) => (0, bytes),
            MemoryNeed::PerCore(bytes) => (bytes.saturating_mul(cores), 0),
            // Which slot a task will be in is not known here: each slot has room for the most.
            MemoryNeed::PerTask(bytes) => (
                bytes.saturating_mul(u64::from(request.ntasks.max(1)).div_ceil(slots)),
                0,
            ),
        };
        let slot = Room {
            cores,
            gpus: u64::from(request.gpus_per_slot),
            memory,
        };
        Need {
            spread,
            sharing: request.sharing,
            slot,
            node_memory,
        }
    }

    /// What so many slots take of one node.
    pub fn room(&self, slots: u64) -> Room {
        Room {
            cores: self.slot.cores.saturating_mul(slots),
            gpus: self.slot.gpus.saturating_mul(slots),
            memory: self
                .slot
                .memory
                .saturating_mul(slots)
                .saturating_add(self.node_memory),
        }
    }

    /// What a node must have to be of any use.
    pub fn least(&self) -> Room {
        match self.spread {
            Spread::Nodes { slots, .. } => self.room(slots),
            Spread::Slots(_) => self.room(1),
        }
    }

    /// Whether it asks for no less: where there is no room for the other, there is none for this.
    pub fn asks_no_less(&self, than: &Need) -> bool {
        let (count, each) = match (self.spread, than.spread) {
            (Spread::Nodes { nodes, .. }, Spread::Nodes { nodes: other, .. }) => {
                (nodes >= other, self.least().holds(&than.least()))
            }
            // What a node gives whatever is on it, and what a slot takes, are not the same.
            (Spread::Slots(slots), Spread::Slots(other)) => (
                slots >= other,
                self.slot.holds(&than.slot) && self.node_memory >= than.node_memory,
            ),
            (Spread::Slots(_), Spread::Nodes { .. }) | (Spread::Nodes { .. }, Spread::Slots(_)) => {
                (false, false)
            }
        };
        self.sharing == than.sharing && count && each
    }

    /// How many times the least is asked for.
    pub fn count(&self) -> u64 {
        match self.spread {
            Spread::Nodes { nodes, .. } => nodes,
            Spread::Slots(slots) => slots,
        }
    }

    /// How many slots of `left` that are still to be placed go on a node with this room, which
    /// has the least.
    pub fn slots_on(&self, room: &Room, left: u64) -> u64 {
        match self.spread {
            Spread::Nodes { slots, .. } => slots,
            Spread::Slots(_) => {
                let times = |there: u64, each: u64| there.checked_div(each).unwrap_or(left);
                left.min(times(room.cores, self.slot.cores))
                    .min(times(room.gpus, self.slot.gpus))
                    .min(times(
                        room.memory.saturating_sub(self.node_memory),
                        self.slot.memory,
                    ))
            }
        }
    }

    /// How many slots in all.
    pub fn slots(&self) -> u64 {
        match self.spread {
            Spread::Nodes { nodes, slots } => nodes.saturating_mul(slots),
            Spread::Slots(slots) => slots,
        }
    }
}

/// What is counted, in words: `slots of 4 cores`, `whole nodes with 8 cores and 1 gpus`.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = self.least();
        let (noun, mut link) = match (self.sharing, self.spread) {
            (Sharing::Shared, Spread::Nodes { .. }) => ("nodes", " with "),
            (Sharing::Exclusive, Spread::Nodes { .. }) => ("whole nodes", " with "),
            (Sharing::Shared, Spread::Slots(_)) => ("slots", " of "),
            (Sharing::Exclusive, Spread::Slots(_)) => ("slots on whole nodes", " of "),
        };
        f.write_str(noun)?;
        let parts = [
            (least.cores, "cores"),
            (least.gpus, "gpus"),
            (least.memory, "bytes of memory"),
        ];
        for (amount, what) in parts.into_iter().filter(|&(amount, _)| amount > 0) {
            write!(f, "{link}{amount} {what}")?;
            link = " and ";
        }
        Ok(())
    }
}
