//! What a jobspec asks of the sockets of nodes.
//!
//! Read from the tree by `request`; asked by the scheduler, and by whoever must know how many slots a
//! grant has on a node. It decides nothing.

use super::request::{Slot, counted, fixed, slot_contents};
use super::unsupported::unsupported;
use super::{JobspecError, Sharing, Unsupported, Vertex};
use crate::field::Path;
use crate::resource_set::{NodeSet, Socket};

/// Sockets of one node that belong together, and what is asked of each: those of each node where a
/// request says how many nodes, else those of one slot, or one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketGroup {
    /// How many sockets; 1 at least.
    pub sockets: u32,
    /// How many slots lie in them all together, as many in each, or one in several; 1 at least.
    pub slots: u32,
    /// Cores in each socket; 1 at least. Of a socket that is nobody else's it may be more.
    pub cores: u32,
    /// GPUs in each socket; likewise.
    pub gpus: u32,
    /// Whether others may have the rest of these sockets.
    pub sharing: Sharing,
}

impl SocketGroup {
    /// Whether a socket will do, of which so much is there.
    pub fn serves(&self, socket: &Socket, there: &Socket) -> bool {
        let enough =
            there.cores.len() >= u64::from(self.cores) && there.gpus.len() >= u64::from(self.gpus);
        match self.sharing {
            Sharing::Shared => enough,
            Sharing::Exclusive => {
                enough
                    && there.cores.len() == socket.cores.len()
                    && there.gpus.len() == socket.gpus.len()
            }
        }
    }

    /// How many slots lie on a node, all of whose sockets that will do were given for them.
    pub fn slots_on(&self, node: &NodeSet) -> u32 {
        let sockets = node.sockets();
        let will_do = |socket: &&Socket| self.serves(socket, &node.of_socket(socket));
        let count = sockets.iter().filter(will_do).count() as u32;
        (count / self.sockets.max(1)).saturating_mul(self.slots)
    }
}

/// Slots and the sockets that they lie in.
pub(super) struct InSockets {
    /// How often the group.
    pub groups: u32,
    pub group: SocketGroup,
    /// What one slot has.
    pub slot: Slot,
}

/// `socket>slot>core`: as many slots in each socket.
pub(super) fn slots_in_socket(socket: &Vertex, path: Path<'_>) -> Result<InSockets, JobspecError> {
    let sockets = fixed(socket, path)?;
    let with = path.key("with");
    let slot_path = with.index(0);
    let slot = match socket.with.as_slice() {
        [slot] if slot.kind == "slot" => slot,
        [other] => {
            return Err(unsupported(
                slot_path,
                Unsupported::Kind(other.kind.clone()),
            ));
        }
        several => return Err(unsupported(with, Unsupported::Roots(several.len()))),
    };
    let slots = fixed(slot, slot_path)?;
    let contents = slot_contents(slot, slot_path)?;
    if contents.cores == 0 {
        return Err(unsupported(slot_path, Unsupported::NoCores));
    }
    let group = SocketGroup {
        sockets: 1,
        slots,
        cores: slots.saturating_mul(contents.cores),
        gpus: slots.saturating_mul(contents.gpus),
        sharing: socket.exclusive.unwrap_or_default(),
    };
    Ok(InSockets {
        groups: sockets,
        group,
        slot: contents,
    })
}

/// `slot>socket>core`: whole sockets in each slot. `None` where a slot has no socket in it.
pub(super) fn sockets_in_slot(
    slot: &Vertex,
    path: Path<'_>,
) -> Result<Option<InSockets>, JobspecError> {
    let with = path.key("with");
    let Some(at) = slot.with.iter().position(|one| one.kind == "socket") else {
        return Ok(None);
    };
    let socket = &slot.with[at];
    if slot.with.len() > 1 {
        return Err(unsupported(with, Unsupported::BesideSocket));
    }
    let path_in = with.index(at);
    counted(slot, path)?;
    let each = fixed(socket, path_in)?;
    let contents = slot_contents(socket, path_in)?;
    let group = SocketGroup {
        sockets: each,
        slots: 1,
        cores: contents.cores.max(1),
        gpus: contents.gpus,
        sharing: Sharing::Exclusive,
    };
    if contents.memory > 0 {
        return Err(unsupported(path_in, Unsupported::MemoryOfSocket));
    }
    let slot_of_all = Slot {
        cores: contents.cores.saturating_mul(each),
        gpus: contents.gpus.saturating_mul(each),
        memory: 0,
    };
    Ok(Some(InSockets {
        groups: fixed(slot, path)?,
        group,
        slot: slot_of_all,
    }))
}

impl InSockets {
    /// The same, where all of it lies on one node.
    pub fn on_one_node(self) -> InSockets {
        let SocketGroup {
            sockets,
            slots,
            cores,
            gpus,
            sharing,
        } = self.group;
        InSockets {
            groups: 1,
            group: SocketGroup {
                sockets: sockets.saturating_mul(self.groups),
                slots: slots.saturating_mul(self.groups),
                cores,
                gpus,
                sharing,
            },
            slot: self.slot,
        }
    }

    /// How many slots in all.
    pub fn slots(&self) -> u32 {
        self.groups.saturating_mul(self.group.slots)
    }
}
