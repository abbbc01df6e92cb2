//! The connections that one rank accepted of clients and shells on its node: which are which, and
//! which lives of shells it watches.
//!
//! Part of the driver of a leader and of the one of a hosted rank. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::Epoch;

use crate::pipe::PipeId;

/// The connections of one rank.
#[derive(Debug, Default)]
pub struct Desk {
    /// Connections accepted, and which of them a shell said hello on.
    peers: BTreeMap<PipeId, Option<Epoch>>,
    shells: BTreeMap<Epoch, PipeId>,
    /// Shells whose death would be noticed.
    watched: BTreeSet<Epoch>,
    /// Shells known to be dead whose last words are still to be read.
    dead: BTreeSet<Epoch>,
}

/// Who is not connected any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// A client, or somebody who never said who it is.
    Client,
    /// A shell, whose death is known or not.
    Shell(Epoch, Known),
    /// An earlier connection of a shell that has another now.
    Nobody,
}

/// Whether a shell is known to be dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is.
    Dead,
    /// It may live.
    No,
}

impl Desk {
    /// Somebody connects.
    pub fn accept(&mut self, pipe: PipeId) {
        self.peers.insert(pipe, None);
    }

    /// All connections.
    pub fn pipes(&self) -> Vec<PipeId> {
        self.peers.keys().copied().collect()
    }

    /// The connection of that shell.
    pub fn connected(&self, epoch: Epoch) -> Option<PipeId> {
        self.shells.get(&epoch).copied()
    }

    /// The connected shell of the highest epoch.
    pub fn newest(&self) -> Option<(Epoch, PipeId)> {
        let newest = self.shells.last_key_value();
        newest.map(|(epoch, pipe)| (*epoch, *pipe))
    }

    /// The shell that said hello on that connection.
    pub fn shell_on(&self, pipe: PipeId) -> Option<Epoch> {
        *self.peers.get(&pipe)?
    }

    /// A shell said hello; the connection it had before, which was not seen to end.
    pub fn hello(&mut self, pipe: PipeId, epoch: Epoch) -> Option<PipeId> {
        self.peers.insert(pipe, Some(epoch));
        self.shells.insert(epoch, pipe)
    }

    /// A connection is over.
    pub fn ended(&mut self, pipe: PipeId) -> Left {
        match self.peers.remove(&pipe) {
            Some(Some(epoch)) if self.shells.get(&epoch) == Some(&pipe) => {
                self.shells.remove(&epoch);
                let known = match self.dead.remove(&epoch) {
                    true => Known::Dead,
                    false => Known::No,
                };
                Left::Shell(epoch, known)
            }
            Some(Some(_)) => Left::Nobody,
            Some(None) | None => Left::Client,
        }
    }

    /// That shell lives: its death will be noticed.
    pub fn watch(&mut self, epoch: Epoch) {
        self.watched.insert(epoch);
    }

    /// That shell is dead.
    pub fn unwatch(&mut self, epoch: Epoch) {
        self.watched.remove(&epoch);
    }

    /// Whether the death of that shell would be noticed.
    pub fn watches(&self, epoch: Epoch) -> bool {
        self.watched.contains(&epoch)
    }

    /// That shell is dead: to be told once its connection has been read to its end.
    pub fn died(&mut self, epoch: Epoch) {
        self.dead.insert(epoch);
    }
}
