//! The sockets of a node: which of its cores and GPUs lie in one.
//!
//! Known where an inventory says so, and carried by every set that is made of it: a grant has the
//! sockets of its nodes in full, so that who holds a part of one knows it. It chooses nothing.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::NodeSet;
use crate::idset::Idset;

/// The most sockets of a node.
pub const SOCKETS_MAX: usize = 1024;

/// What lies in one socket. Numbers are those of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Socket {
    /// Its cores, never none.
    #[serde(rename = "core")]
    pub cores: Idset,
    /// Its GPUs.
    #[serde(rename = "gpu", skip_serializing_if = "Idset::is_empty")]
    pub gpus: Idset,
}

/// The sockets of a node, in order; none where nothing is known of them. Copies share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sockets(Option<Arc<[Socket]>>);

/// Why some sockets are not those of one node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SocketsError {
    /// None, or more than there may be.
    #[error("has {given} sockets; allowed are 1 to {SOCKETS_MAX}")]
    Number {
        /// How many.
        given: usize,
    },
    /// One is empty.
    #[error("socket {at} has no cores")]
    Empty {
        /// Its place, from 0.
        at: usize,
    },
    /// A core or a GPU lies in two.
    #[error("{kind} {id} lies in two sockets")]
    Twice {
        /// `core` or `gpu`.
        kind: &'static str,
        /// Which.
        id: u32,
    },
}

impl Sockets {
    /// These sockets.
    ///
    /// # Errors
    /// [`SocketsError`] where there are too many or none, one is empty, or two have something in common.
    pub fn new(all: Vec<Socket>) -> Result<Sockets, SocketsError> {
        if !(1..=SOCKETS_MAX).contains(&all.len()) {
            return Err(SocketsError::Number { given: all.len() });
        }
        if let Some(at) = all.iter().position(|socket| socket.cores.is_empty()) {
            return Err(SocketsError::Empty { at });
        }
        apart("core", all.iter().map(|socket| &socket.cores))?;
        apart("gpu", all.iter().map(|socket| &socket.gpus))?;
        Ok(Sockets(Some(all.into())))
    }

    /// So many sockets, among which cores and GPUs are divided evenly and in order; the first ones have
    /// one more where it does not come out even. There are as many cores at least.
    pub fn even(sockets: u32, cores: u32, gpus: u32) -> Sockets {
        let part = |all: u32, at: u32| {
            let (each, more) = (all / sockets.max(1), all % sockets.max(1));
            let first = at * each + at.min(more);
            let count = each + u32::from(at < more);
            match count {
                0 => Idset::new(),
                count => Idset::range(first, first + count - 1),
            }
        };
        let all = (0..sockets).map(|at| Socket {
            cores: part(cores, at),
            gpus: part(gpus, at),
        });
        Sockets::new(all.collect()).unwrap_or_default()
    }

    /// What is known of them.
    pub fn known(&self) -> Option<&[Socket]> {
        self.0.as_deref()
    }
}

/// As an array of them, empty where nothing is known.
impl Serialize for Sockets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.known().unwrap_or_default())
    }
}

/// Whether none of a kind lies in two of these.
fn apart<'s>(kind: &'static str, all: impl Iterator<Item = &'s Idset>) -> Result<(), SocketsError> {
    let mut seen = Idset::new();
    for set in all {
        if let Some(id) = seen.intersect(set).first() {
            return Err(SocketsError::Twice { kind, id });
        }
        seen = seen.union(set);
    }
    Ok(())
}

impl NodeSet {
    /// The sockets of this node: in full, also where the set has only a part of them. Where nothing is known it
    /// is one, with all that the set has.
    pub fn sockets(&self) -> Cow<'_, [Socket]> {
        match self.sockets.known() {
            Some(known) => Cow::Borrowed(known),
            None => Cow::Owned(vec![Socket {
                cores: self.cores.clone(),
                gpus: self.gpus.clone(),
            }]),
        }
    }

    /// What of a socket this set has.
    pub fn of_socket(&self, socket: &Socket) -> Socket {
        Socket {
            cores: self.cores.intersect(&socket.cores),
            gpus: self.gpus.intersect(&socket.gpus),
        }
    }
}
