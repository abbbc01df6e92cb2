//! Connections: two ends, order kept in each direction, and an end that may close.
//!
//! What was sent before an end closed still arrives at the other, as with a Unix socket, unless
//! the pipe was cut. It delivers nothing itself: it says when something arrives, and whether there
//! is still somebody to take it.

use std::collections::BTreeMap;

use eddy_wire::id::Epoch;
use eddy_wire::time::Time;

/// Names a connection; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PipeId(pub u64);

/// Who is at the other end from the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// A client, by its number.
    Client(usize),
    /// A life of a shell.
    Shell(Epoch),
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The leader's.
    Leader,
    /// The client's or the shell's.
    Peer,
}

impl Side {
    /// The other end.
    pub fn other(self) -> Side {
        match self {
            Side::Leader => Side::Peer,
            Side::Peer => Side::Leader,
        }
    }

    fn place(self) -> usize {
        match self {
            Side::Leader => 0,
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
    peer: Peer,
    ends: [End; 2],
    /// When the last thing sent towards each end arrives.
    last: [Time; 2],
}

/// All connections that have an open end.
#[derive(Debug, Default)]
pub struct Pipes {
    pipes: BTreeMap<PipeId, Pipe>,
    count: u64,
}

impl Pipes {
    /// A new connection.
    pub fn open(&mut self, now: Time, peer: Peer) -> PipeId {
        self.count += 1;
        let id = PipeId(self.count);
        let pipe = Pipe {
            peer,
            ends: [End::Open; 2],
            last: [now; 2],
        };
        self.pipes.insert(id, pipe);
        id
    }

    /// Who is at the other end; `None` once both are closed.
    pub fn peer(&self, id: PipeId) -> Option<Peer> {
        self.pipes.get(&id).map(|pipe| pipe.peer)
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
                *last = at.max(*last);
                *last
            }
            None => at,
        }
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
