//! One rank's links and the routing of letters over them.
//!
//! Driven by the leader's driver, by an agent for each rank it hosts, and by
//! the simulated world. The driver owns pipes (a connection that carries frames
//! both ways until it breaks) and doors; this decides who is let in, what goes
//! over which pipe and what is lost.

use bytes::Bytes;
use eddy_wire::id::Rank;
use eddy_wire::link::{Hello, HelloAnswer};
use eddy_wire::services::overlay::LinkState;
use eddy_wire::time::Time;
use eddy_wire::tree::{Letter, Member};
use uuid::Uuid;

/// A connection to another rank, named by the driver; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipeId(pub u64);

/// What a driver brings.
#[derive(Clone, Debug, PartialEq)]
pub enum OverlayInput {
    /// Somebody knocked at our door with this hello; answered by `Answer`.
    Knock(PipeId, Hello),
    /// What a knock of ours came to (`Dial`): the answer, or why there is none.
    Answered(PipeId, Result<HelloAnswer, String>),
    /// After a welcome, ours or theirs: frames can be sent now.
    Opened(PipeId),
    /// A frame came.
    Frame(PipeId, Bytes),
    /// The pipe is gone, with what was not delivered.
    Closed(PipeId, String),
    /// A letter of this rank's own.
    Send(Letter),
    /// Time passed.
    Tick,
}

/// What a driver is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum OverlayOutput {
    /// Answer that knock; after a welcome make the pipe and say `Opened`.
    Answer(PipeId, HelloAnswer),
    /// Knock at this door with this hello, under this name (ours to give: odd
    /// numbers; the driver names what knocks at us with even ones).
    Dial(PipeId, String, Box<Hello>),
    /// Send this frame.
    Frame(PipeId, Bytes),
    /// Close that pipe; why, for the log.
    Close(PipeId, String),
    /// A letter for this rank.
    Deliver(Letter),
    /// A rank below is reached now, or under another life than before.
    Reached(Rank, Member),
    /// A rank below is not reached any more.
    Lost(Rank, String),
    /// The way up stands, or stands no more (followers only).
    Upstream(Upstream),
    /// Bring a `Tick` at this time.
    Wake(Time),
}

/// Whether a follower has a way to its leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// It has a link to this rank.
    Linked(Rank),
    /// It has none; the text says since what and what was answered last.
    Alone(String),
}

/// What an overlay is told at its beginning.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The instance's id.
    pub instance: String,
    /// This rank.
    pub rank: Rank,
    /// This life of it.
    pub life: Uuid,
    /// Its own door.
    pub door: String,
    /// The leader's door; empty for the leader.
    pub leader: String,
    /// How many ranks hang directly under one.
    pub fanout: u32,
}

/// The links of one rank.
pub struct Overlay {
    seat: Seat,
}

impl Overlay {
    /// A rank without links; a follower begins to knock with its first input.
    pub fn new(seat: Seat) -> Overlay {
        Overlay { seat }
    }

    /// Takes one input and says what is to be done.
    pub fn handle(&mut self, _now: Time, _input: OverlayInput, _out: &mut Vec<OverlayOutput>) {
        let _ = &self.seat;
    }

    /// The links as they stand, for people.
    pub fn links(&self) -> Vec<LinkState> {
        Vec::new()
    }

    /// The rank over which a rank below is reached directly, for people.
    pub fn parent_of(&self, _rank: Rank) -> Option<Rank> {
        None
    }
}
