//! A request as amounts: what a slot takes, what a node must have to be of use.
//!
//! Made from a [`Request`] by placement and feasibility, for one look. It chooses
//! nothing.

use std::fmt;

use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, SocketGroup};

use crate::rooms::Room;

/// What one request needs. Two that are alike in it no placement can tell apart, but for the
/// ranks that they name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    pub spread: Spread,
    pub sharing: Sharing,
    /// In which sockets slots lie: then what is said of slots here is said of such groups.
    pub sockets: Option<SocketGroup>,
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
        let need = Need {
            spread,
            sharing: request.sharing,
            sockets: None,
            slot,
            node_memory,
        };
        match request.sockets {
            None => need,
            Some(group) => need.in_groups(group),
        }
    }

    /// The same in groups of slots that lie in sockets.
    fn in_groups(self, group: SocketGroup) -> Need {
        let each = u64::from(group.slots.max(1));
        let spread = match self.spread {
            Spread::Nodes { nodes, slots } => Spread::Nodes {
                nodes,
                slots: slots.div_ceil(each),
            },
            Spread::Slots(slots) => Spread::Slots(slots.div_ceil(each)),
        };
        let sockets = u64::from(group.sockets.max(1));
        let slot = Room {
            cores: u64::from(group.cores).saturating_mul(sockets),
            gpus: u64::from(group.gpus).saturating_mul(sockets),
            memory: self.slot.memory.saturating_mul(each),
        };
        Need {
            spread,
            sockets: Some(group),
            slot,
            ..self
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
        if self.sockets.is_some() || than.sockets.is_some() {
            return self == than;
        }
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

    /// How many slots in all, or groups of them.
    pub fn slots(&self) -> u64 {
        match self.spread {
            Spread::Nodes { nodes, slots } => nodes.saturating_mul(slots),
            Spread::Slots(slots) => slots,
        }
    }

    /// How many sockets in all are nobody else's, of nodes that are shared.
    pub fn whole_sockets(&self) -> u64 {
        match (self.sockets, self.sharing) {
            (Some(group), Sharing::Shared) if group.sharing == Sharing::Exclusive => {
                self.slots().saturating_mul(u64::from(group.sockets))
            }
            (Some(_) | None, _) => 0,
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
        let (cores, gpus) = match self.sockets {
            None => {
                f.write_str(noun)?;
                (least.cores, least.gpus)
            }
            Some(group) => {
                link = self.fmt_sockets(group, f)?;
                (u64::from(group.cores), u64::from(group.gpus))
            }
        };
        let parts = [
            (cores, "cores"),
            (gpus, "gpus"),
            (least.memory, "bytes of memory"),
        ];
        for (amount, what) in parts.into_iter().filter(|&(amount, _)| amount > 0) {
            write!(f, "{link}{amount} {what}")?;
            link = " and ";
        }
        Ok(())
    }
}

impl Need {
    /// `whole sockets`, `nodes with 2 sockets`; what follows is said of each socket.
    fn fmt_sockets(
        &self,
        group: SocketGroup,
        f: &mut fmt::Formatter<'_>,
    ) -> Result<&'static str, fmt::Error> {
        let whole = match group.sharing {
            Sharing::Shared => "",
            Sharing::Exclusive => "whole ",
        };
        let nodes = match self.sharing {
            Sharing::Shared => "nodes",
            Sharing::Exclusive => "whole nodes",
        };
        match (self.spread, group.sockets, self.sharing) {
            (Spread::Slots(_), 1, Sharing::Shared) => write!(f, "{whole}sockets")?,
            (Spread::Slots(_), 1, Sharing::Exclusive) => {
                write!(f, "{whole}sockets on whole nodes")?;
            }
            (Spread::Slots(_), sockets, _) => {
                write!(f, "times {sockets} {whole}sockets of one node")?
            }
            (Spread::Nodes { .. }, sockets, _) => {
                write!(f, "{nodes} with {sockets} {whole}sockets")?;
                return Ok(" of ");
            }
        }
        Ok(" with ")
    }
}
