//! What of the RFCs is refused by name.

use thiserror::Error;

use super::{JobspecError, TASKS_MAX};
use crate::field::Path;

/// What a jobspec may say by its RFC and this scheduler does not serve.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unsupported {
    /// A type of resource.
    #[error(
        "type `{0}` is not supported here by this scheduler yet; it serves node, socket, slot, core, gpu and memory"
    )]
    Kind(String),
    /// More than one tree of resources.
    #[error("{0} resources side by side are not supported by this scheduler yet; it serves one")]
    Roots(usize),
    /// More than one task entry.
    #[error("{0} kinds of tasks are not supported by this scheduler yet; it serves one")]
    Tasks(usize),
    /// A count that is left to the scheduler.
    #[error("count `{0}` leaves a choice, which this scheduler does not support yet but for nodes")]
    Choice(String),
    /// A number of nodes that is left to the scheduler, with what needs to know it.
    #[error("count `{count}` leaves a choice; with {with} it is one number")]
    ChoiceWith {
        /// The count.
        count: String,
        /// What needs to know it.
        with: &'static str,
    },
    /// The same type twice in one vertex.
    #[error("type `{0}` is there a second time")]
    KindTwice(String),
    /// Something beside a socket in a slot.
    #[error("something beside a socket in a slot is not supported by this scheduler yet")]
    BesideSocket,
    /// Memory of sockets.
    #[error(
        "memory of a socket is not supported by this scheduler yet; allowed is that of a node or an attribute"
    )]
    MemoryOfSocket,
    /// Sockets, with what is placed otherwise.
    #[error("sockets with {0} are not supported by this scheduler yet")]
    SocketsWith(&'static str),
    /// A slot without cores on shared nodes.
    #[error("a slot without cores is supported on whole nodes only")]
    NoCores,
    /// Something inside a core, GPU or memory.
    #[error("something within a {0} is not supported by this scheduler")]
    Within(String),
    /// Resources of a slot that others may use.
    #[error("sharing what is in a slot is not supported by this scheduler")]
    SharedSlot,
    /// A slot that spans nodes.
    #[error("a slot of {0} nodes is not supported by this scheduler yet; allowed is 1")]
    WideSlot(u32),
    /// Tasks for each resource of a type that slots do not count.
    #[error("tasks per `{0}` are not supported by this scheduler yet; allowed are core and gpu")]
    PerResource(String),
    /// Memory in slots and as an attribute, or on nodes and in slots.
    #[error("memory is asked for in two ways")]
    MemoryTwice,
    /// Memory in a unit that is none, or more than fits.
    #[error("{count} of unit `{unit}` are not an amount of memory")]
    Memory {
        /// The count.
        count: u32,
        /// The unit.
        unit: String,
    },
    /// Picking resources by number.
    #[error("choosing by id is not supported by this scheduler yet")]
    Id,
    /// Beside what runs on some ranks, but on another number of nodes.
    #[error("{nodes} nodes are asked for beside what runs on {ranks} ranks; allowed are as many")]
    Beside {
        /// Nodes.
        nodes: u32,
        /// Ranks.
        ranks: u64,
    },
    /// More slots than can be counted.
    #[error(
        "{nodes} nodes of {slots} slots are more than can be served; allowed are {TASKS_MAX} slots"
    )]
    TooManySlots {
        /// Nodes.
        nodes: u32,
        /// Slots on each.
        slots: u32,
    },
}

pub(super) fn unsupported(path: Path<'_>, what: Unsupported) -> JobspecError {
    JobspecError::Unsupported {
        path: path.to_string(),
        what,
    }
}
