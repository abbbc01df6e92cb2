//! Connections: two ends, order kept in each direction, and an end that may close.
//!
//! What was sent before an end closed still arrives at the other, as with a Unix socket, unless
//! the pipe was cut. A pipe can stall: what is sent arrives once it goes on. It delivers nothing
//! itself: it says when something arrives, and whether there is still somebody to take it.

use std::collections::BTreeMap;

use eddy_wire::id::Epoch;
use eddy_wire::time::Time;

use crate::nature::{InstanceId, Life};

/// Names a connection; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PipeId(pub u64);

/// A rank of an instance as others find it: where connections are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Post {
    /// A life of a leader.
    Leader(InstanceId, Life),
    /// A rank hosted by the agent of a machine; the number is that of the hosting.
    Hosted(usize, Life, InstanceId),
}

impl Post {
    /// The instance it is a rank of.
    pub fn instance(self) -> InstanceId {
        match self {
            Post::Leader(instance, _) | Post::Hosted(_, _, instance) => instance,
        }
    }
}

/// Who is at the other end from the rank that accepted a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// A client, by its number.
    Client(usize),
    /// A life of a shell.
    Shell(InstanceId, Epoch),
    /// The leader of a child instance: its channel.
    Channel(InstanceId, Life),
    /// Another rank of the same instance.
    Rank(Post),
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Of the rank that accepted it.
    Server,
    /// Of who made it.
    Peer,
}

impl Side {
    /// The other end.
    pub fn other(self) -> Side {
        match self {
            Side::Server => Side::Peer,
            Side::Peer => Side::Server,
        }
    }

    fn place(self) -> usize {
        match self {
            Side::Server => 0,
            Side::Peer => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Closed,
}

#[derive(Clone, Debug)]
struct Pipe {
    server: Post,
    peer: Peer,
    ends: [End; 2],
    /// When the last thing sent towards each end arrives.
    last: [Time; 2],
    /// Nothing arrives before.
    stalled: Time,
}

/// All connections that have an open end.
#[derive(Debug, Default)]
pub struct Pipes {
    pipes: BTreeMap<PipeId, Pipe>,
    count: u64,
}

impl Pipes {
    /// A new connection, which `server` accepted.
    pub fn open(&mut self, now: Time, server: Post, peer: Peer) -> PipeId {
        self.count += 1;
        let id = PipeId(self.count);
        let pipe = Pipe {
            server,
            peer,
            ends: [End::Open; 2],
            last: [now; 2],
            stalled: now,
        };
        self.pipes.insert(id, pipe);
        id
    }

    /// Who made it; `None` once both ends are closed.
    pub fn peer(&self, id: PipeId) -> Option<Peer> {
        self.pipes.get(&id).map(|pipe| pipe.peer)
    }

    /// Who accepted it; `None` once both ends are closed.
    pub fn server(&self, id: PipeId) -> Option<Post> {
        self.pipes.get(&id).map(|pipe| pipe.server)
    }

    /// The connections between ranks: both ends open.
    pub fn links(&self) -> impl Iterator<Item = (PipeId, Post, Post)> + '_ {
        self.pipes.iter().filter_map(|(id, pipe)| match pipe.peer {
            Peer::Rank(peer) if pipe.ends == [End::Open; 2] => Some((*id, pipe.server, peer)),
            _ => None,
        })
    }

    /// The connections of that peer.
    pub fn of(&self, peer: Peer) -> Vec<PipeId> {
        let mine = self.pipes.iter().filter(|(_, pipe)| pipe.peer == peer);
        mine.map(|(id, _)| *id).collect()
    }

    /// Whether that end is open.
    pub fn is_open(&self, id: PipeId, side: Side) -> bool {
        self.pipes
            .get(&id)
            .is_some_and(|pipe| pipe.ends[side.place()] == End::Open)
    }

    /// When something sent towards `to` arrives that would take until `at`: never before what was
    /// sent earlier.
    pub fn arrival(&mut self, id: PipeId, to: Side, at: Time) -> Time {
        match self.pipes.get_mut(&id) {
            Some(pipe) => {
                let last = &mut pipe.last[to.place()];
                *last = at.max(*last).max(pipe.stalled);
                *last
            }
            None => at,
        }
    }

    /// Nothing arrives over it before `until`.
    pub fn stall(&mut self, id: PipeId, until: Time) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.stalled = pipe.stalled.max(until);
        }
    }

    /// When a pipe that stalls goes on; `None` when it does not stall.
    pub fn stalled(&self, id: PipeId, now: Time) -> Option<Time> {
        let pipe = self.pipes.get(&id)?;
        (pipe.stalled > now).then_some(pipe.stalled)
    }

    /// Closes one end; what is under way to it is lost.
    pub fn close(&mut self, id: PipeId, side: Side) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.ends[side.place()] = End::Closed;
            if pipe.ends == [End::Closed; 2] {
                self.pipes.remove(&id);
            }
        }
    }
}
