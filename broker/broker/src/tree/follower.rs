//! Another rank's end: the clients and the shell on its node, and the hosting
//! of ranks of child instances there.
//!
//! Driven by an agent (brokerd) and by the simulated world. It keeps nothing
//! that must survive: with each new tenure it closes the connections of its
//! clients and its shells, who then say again what matters.

use eddy_wire::id::Epoch;
use eddy_wire::message::Message;
use eddy_wire::services::overlay::LinkState;
use eddy_wire::shell::{FromShell, ToShell};
use eddy_wire::time::Time;
use eddy_wire::tree::{HostOrder, InstanceFacts, Letter};

use super::overlay::{Seat, Upstream};
use crate::effect::{ClientId, Reply};

/// What a driver brings.
#[derive(Clone, Debug)]
pub enum FollowerInput {
    /// A request or cancel of a client of this node; uid and roles stamped.
    Message(ClientId, Message),
    /// A client's connection ended.
    Gone(ClientId),
    /// A shell of this node said something; its hello is the first.
    Shell(Epoch, FromShell),
    /// A shell's connection ended.
    ShellAway(Epoch),
    /// That life of a shell is over and nothing it started runs.
    ShellDead(Epoch),
    /// A letter for this rank.
    Letter(Letter),
    /// The way up stands, or not.
    Upstream(Upstream),
    /// The overlay's links, answered when `overlay.links` is asked.
    Links(Vec<LinkState>),
    /// Time passed.
    Tick,
}

/// What a driver is to do.
#[derive(Clone, Debug)]
pub enum FollowerOutput {
    /// Answer a client of this node.
    Reply(Reply),
    /// Close a client's connection: it comes again and asks again.
    CloseClient(ClientId),
    /// Tell the shell of this node.
    Shell(Epoch, ToShell),
    /// Close a shell's connection: it comes again and says hello.
    CloseShell(Epoch),
    /// Start a shell under this epoch for this rank, unless it is there.
    LaunchShell(Epoch),
    /// Find out whether that shell lives; if not, end what it left and say `ShellDead`.
    CheckShell(Epoch),
    /// What the leader said of the instance: needed before a shell is started.
    Facts(Box<InstanceFacts>),
    /// Host a rank of a child instance; safe to repeat.
    Host(Box<HostOrder>),
    /// Host it no more.
    Unhost(String),
    /// A letter to send.
    Send(Letter),
    /// Bring a `Tick` at this time.
    Wake(Time),
}

/// One rank that follows.
pub struct Follower {
    seat: Seat,
}

impl Follower {
    /// A rank that has heard of no leader yet.
    pub fn new(seat: Seat) -> Follower {
        Follower { seat }
    }

    /// Takes one input and says what is to be done.
    pub fn handle(&mut self, _now: Time, _input: FollowerInput, _out: &mut Vec<FollowerOutput>) {
        let _ = &self.seat;
    }
}
