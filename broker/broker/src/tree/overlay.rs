//! One rank's links and the routing of letters over them.
//!
//! Driven by the leader's driver, by an agent for each rank it hosts, and by
//! the simulated world. The driver owns pipes (a connection that carries frames
//! both ways until it breaks) and doors; this decides who is let in, what goes
//! over which pipe and what is lost.

mod door;
mod neighbour;
mod post;
mod routes;
mod upward;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bytes::Bytes;
use eddy_wire::id::{Attempt, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::link::{Heard, Hello, HelloAnswer, PROTOCOL_MAX, PROTOCOL_MIN};
use eddy_wire::services::overlay::LinkState;
use eddy_wire::time::{Span, Time};
use eddy_wire::tree::{ATTENDANT, Letter, Member};
use uuid::Uuid;

use crate::link::{LinkConfig, LinkOutput};
use door::Sent;
use neighbour::{Neighbour, Pipe, Standing};
use routes::Routes;
use upward::Upward;

/// How long a link without a pipe is kept for the same life to go on with it.
pub const GRACE: Span = Span::millis(200);
/// How long a knock may be unanswered, and a welcome without a pipe.
pub const KNOCK_PATIENCE: Span = Span::seconds(5);
/// Ranks of an instance at most.
pub const RANKS_MAX: u32 = 262_144;

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
    /// Which job of its parent the instance is, and in which attempt; none for a root.
    pub job: Option<(JobId, Attempt)>,
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

/// Which neighbour a pipe leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The rank above.
    Up,
    /// That rank below.
    Below(Rank),
}

/// The links of one rank.
pub struct Overlay {
    seat: Seat,
    /// The ranks that there are, if this one leads and was told.
    ranks: Option<Idset>,
    config: LinkConfig,
    up: Upward,
    children: BTreeMap<Rank, Neighbour>,
    routes: Routes,
    pipes: BTreeMap<PipeId, Place>,
    /// Where the leader sent each rank last.
    sent: BTreeMap<Rank, Sent>,
    /// Since when, and in which life, a rank waits for the one above it.
    waits: BTreeMap<Rank, (Uuid, Time)>,
    /// The highest turn of any link that is no more.
    turn: u64,
    /// The earliest time something was found to be due since the last `Wake`.
    soonest: Option<Time>,
    announced: Option<Time>,
}

impl Overlay {
    /// A rank without links; a follower begins to knock with its first input.
    pub fn new(seat: Seat) -> Overlay {
        Overlay::with_links(seat, LinkConfig::HOSTS)
    }

    /// The same with other times for heartbeat and silence.
    pub fn with_links(seat: Seat, config: LinkConfig) -> Overlay {
        Overlay {
            seat,
            ranks: None,
            config,
            up: Upward::new(),
            children: BTreeMap::new(),
            routes: Routes::default(),
            pipes: BTreeMap::new(),
            sent: BTreeMap::new(),
            waits: BTreeMap::new(),
            turn: 0,
            soonest: None,
            announced: None,
        }
    }

    /// Only these ranks are let in, and the agent of the leader's own node; for a
    /// leader, which knows them. Until then any is.
    pub fn set_ranks(&mut self, ranks: Idset) {
        let is_there = |rank: &Rank| *rank == ATTENDANT || ranks.contains(rank.0);
        self.sent.retain(|rank, _| is_there(rank));
        self.waits.retain(|rank, _| is_there(rank));
        self.ranks = Some(ranks);
    }

    /// Takes one input and says what is to be done.
    pub fn handle(&mut self, now: Time, input: OverlayInput, out: &mut Vec<OverlayOutput>) {
        match input {
            OverlayInput::Knock(pipe, hello) => self.knock(now, pipe, hello, out),
            OverlayInput::Answered(pipe, answer) => self.answered(now, pipe, answer, out),
            OverlayInput::Opened(pipe) => self.opened(now, pipe, out),
            OverlayInput::Frame(pipe, bytes) => self.frame(now, pipe, bytes, out),
            OverlayInput::Closed(pipe, why) => match self.pipes.remove(&pipe) {
                Some(place) => self.pipe_broke(now, place, why, out),
                None => self.answered(now, pipe, Err(why), out),
            },
            OverlayInput::Send(letter) => self.send(now, letter, out),
            OverlayInput::Tick => self.tick(now, out),
        }
        self.tell_up(now, out);
        self.climb(now, out);
        self.announce(now, out);
    }

    /// The links as they stand, for people.
    pub fn links(&self) -> Vec<LinkState> {
        let above = self
            .up
            .neighbour
            .as_ref()
            .map(|above| above.state(Place::Up));
        let knocking = self.up.asked().map(|peer| LinkState {
            peer,
            is_up: true,
            state: "knocking".to_owned(),
            unacknowledged: 0,
            sent: 0,
            received: 0,
        });
        let waiting = LinkState {
            peer: Rank(0),
            is_up: true,
            state: "waiting".to_owned(),
            unacknowledged: 0,
            sent: 0,
            received: 0,
        };
        let waiting = (!self.is_leader()).then_some(waiting);
        let below = self.children.values();
        let below = below.map(|child| child.state(Place::Below(child.rank)));
        above
            .or(knocking)
            .or(waiting)
            .into_iter()
            .chain(below)
            .collect()
    }

    /// The rank over which a rank below is reached directly, for people: what the
    /// leader decided, or what follows from the shape of the tree. None when the
    /// rank is not reached.
    pub fn parent_of(&self, rank: Rank) -> Option<Rank> {
        self.believed_parent(rank)
    }

    fn is_leader(&self) -> bool {
        self.seat.rank == Rank(0)
    }

    fn neighbour(&mut self, place: Place) -> Option<&mut Neighbour> {
        match place {
            Place::Up => self.up.neighbour.as_mut(),
            Place::Below(rank) => self.children.get_mut(&rank),
        }
    }

    /// Our first word, to somebody of whom we heard so much.
    fn hello(&self, heard: Option<Heard>) -> Hello {
        Hello {
            protocol: (PROTOCOL_MIN, PROTOCOL_MAX),
            instance: self.seat.instance.clone(),
            job: self.seat.job,
            rank: self.seat.rank,
            life: self.seat.life,
            door: self.seat.door.clone(),
            heard,
        }
    }

    /// Frames can be sent over a pipe that was welcomed.
    fn opened(&mut self, now: Time, pipe: PipeId, out: &mut Vec<OverlayOutput>) {
        let Some(place) = self.pipes.get(&pipe).copied() else {
            return;
        };
        let Some(neighbour) = self.neighbour(place) else {
            return;
        };
        if neighbour.pipe == Pipe::Open(pipe) {
            return;
        }
        neighbour.pipe = Pipe::Open(pipe);
        let mut done = Vec::new();
        neighbour.link.opened(now, &mut done);
        let begins = neighbour.standing == Standing::New;
        neighbour.standing = Standing::Stands;
        let member = neighbour.member.clone();
        self.digest(now, place, done, out);
        match (place, begins) {
            (Place::Below(rank), true) => self.routes.claim(rank, rank, &member, out),
            (Place::Up, true) => self.up_stands(),
            (_, false) => {}
        }
    }

    /// A frame came. A pipe that carries one is open, whether we were told or not.
    fn frame(&mut self, now: Time, pipe: PipeId, bytes: Bytes, out: &mut Vec<OverlayOutput>) {
        self.opened(now, pipe, out);
        let Some(place) = self.pipes.get(&pipe).copied() else {
            return;
        };
        if place == Place::Up {
            self.up.heard();
        }
        let mut done = Vec::new();
        if let Some(neighbour) = self.neighbour(place) {
            neighbour.link.frame(now, bytes, &mut done);
        }
        self.digest(now, place, done, out);
    }

    /// Does what a link wants done.
    fn digest(
        &mut self,
        now: Time,
        place: Place,
        done: Vec<LinkOutput>,
        out: &mut Vec<OverlayOutput>,
    ) {
        for output in done {
            let pipe = self.neighbour(place).and_then(|n| n.pipe_id());
            match (output, pipe) {
                (LinkOutput::Frame(bytes), Some(pipe)) => {
                    out.push(OverlayOutput::Frame(pipe, bytes));
                }
                // A payload before it cost the link its pipe.
                (LinkOutput::Frame(_), None) | (LinkOutput::Drop(_), None) => {}
                (LinkOutput::Deliver(payload), _) => self.received(now, place, payload, out),
                (LinkOutput::Drop(why), Some(pipe)) => {
                    self.pipes.remove(&pipe);
                    out.push(OverlayOutput::Close(pipe, why.clone()));
                    self.pipe_broke(now, place, why, out);
                }
                (LinkOutput::Wake(at), _) => self.want(at),
                // Where ends meet, this is looked at there.
                (LinkOutput::Fresh, _) => {}
            }
        }
    }

    /// A pipe is gone. A link that stands is kept for a moment.
    fn pipe_broke(&mut self, now: Time, place: Place, why: String, out: &mut Vec<OverlayOutput>) {
        let until = now + GRACE;
        let Some(neighbour) = self.neighbour(place) else {
            return;
        };
        neighbour.link.closed();
        neighbour.pipe = Pipe::Broken(until, why.clone());
        if !neighbour.stands() {
            return self.forsake(now, place, &why, out);
        }
        self.want(until);
        if place == Place::Up {
            self.pipe_up_broke(now, &why, out);
        }
    }

    /// A link is no more, with all that is behind it and under way on it.
    fn forsake(&mut self, now: Time, place: Place, why: &str, out: &mut Vec<OverlayOutput>) {
        match place {
            Place::Up => self.link_up_gone(now, why, out),
            Place::Below(rank) => {
                if let Some(mut child) = self.children.remove(&rank) {
                    self.retire(&mut child, why, out);
                    self.routes.drop_link(rank, why, out);
                }
            }
        }
    }

    /// Closes the pipe of a neighbour and remembers which numbers its link used.
    fn retire(&mut self, neighbour: &mut Neighbour, why: &str, out: &mut Vec<OverlayOutput>) {
        if let Some(pipe) = neighbour.pipe_id() {
            self.pipes.remove(&pipe);
            out.push(OverlayOutput::Close(pipe, why.to_owned()));
        }
        neighbour.link.closed();
        self.turn = self.turn.max(neighbour.link.turn());
    }

    fn tick(&mut self, now: Time, out: &mut Vec<OverlayOutput>) {
        let below: Vec<Rank> = self.children.keys().copied().collect();
        let places = below.into_iter().map(Place::Below);
        for place in std::iter::once(Place::Up).chain(places) {
            self.tick_neighbour(now, place, out);
        }
        self.climb_tick(now, out);
        let dues = self.children.values().filter_map(Neighbour::due);
        let up = self.up.due(self.children.len());
        self.soonest = match self.is_leader() {
            true => dues.min(),
            false => dues.chain(up).min(),
        };
        if self.announced.is_some_and(|at| at <= now) {
            self.announced = None;
        }
    }

    fn tick_neighbour(&mut self, now: Time, place: Place, out: &mut Vec<OverlayOutput>) {
        let Some(neighbour) = self.neighbour(place) else {
            return;
        };
        if neighbour.due().is_none_or(|due| due > now) {
            return;
        }
        match neighbour.pipe.clone() {
            Pipe::Welcomed(pipe, _) => {
                let why = format!("it did not open within {KNOCK_PATIENCE} s");
                self.pipes.remove(&pipe);
                out.push(OverlayOutput::Close(pipe, why.clone()));
                self.pipe_broke(now, place, why, out);
            }
            Pipe::Broken(_, why) => self.forsake(now, place, &why, out),
            Pipe::Open(_) => {
                let mut done = Vec::new();
                neighbour.link.tick(now, &mut done);
                self.digest(now, place, done, out);
            }
        }
    }

    /// Something will be due at that time.
    fn want(&mut self, at: Time) {
        self.soonest = Some(self.soonest.map_or(at, |soonest| soonest.min(at)));
    }

    /// Asks for a tick, unless one was asked for that comes no later.
    fn announce(&mut self, now: Time, out: &mut Vec<OverlayOutput>) {
        let standing = self.announced.filter(|at| *at > now);
        if let Some(at) = self.soonest.take()
            && standing.is_none_or(|standing| at < standing)
        {
            self.announced = Some(at);
            out.push(OverlayOutput::Wake(at));
        }
    }
}
