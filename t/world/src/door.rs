//! A rank's overlay and the pipes it has: what an overlay wants done between ranks.
//!
//! Part of the driver of a leader and of the one of a hosted rank. Knocks, answers and frames go
//! through the world's queue; letters and what else is for the rank itself are handed back.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use eddy_broker::tree::overlay::{Seat, Upstream};
use eddy_broker::tree::{Overlay, OverlayInput, OverlayOutput, PipeId as LinkId};
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::link::{Hello, HelloAnswer};
use eddy_wire::time::{Span, Time};
use eddy_wire::tree::{Letter, Member};

use crate::broken::Rule;
use crate::nature::{Delay, Happening, Nature, Parcel, PostTurn};
use crate::pipe::{PipeId, Post, Side};

/// What is for the rank itself.
#[derive(Clone, Debug)]
pub enum Said {
    /// A letter.
    Letter(Letter),
    /// A rank below is reached.
    Reached(Rank, Member),
    /// A rank below is not any more.
    Lost(Rank, String),
    /// The way up stands, or not.
    Upstream(Upstream),
}

/// An overlay with its pipes.
pub struct Door {
    post: Post,
    overlay: Overlay,
    /// The overlay's names of pipes; none stands for a knock under way.
    pipes: BTreeMap<LinkId, (PipeId, Side)>,
    names: BTreeMap<(PipeId, Side), LinkId>,
    /// Pipes that frames can be sent over, and frames that came before.
    opened: BTreeSet<LinkId>,
    early: BTreeMap<LinkId, Vec<Bytes>>,
    /// How often a knock of its own got through.
    knocks: u32,
    /// The last name given to one who knocked.
    named: u64,
}

impl Door {
    /// The door of a rank without links.
    pub fn new(post: Post, seat: Seat) -> Door {
        Door {
            post,
            overlay: Overlay::new(seat),
            pipes: BTreeMap::new(),
            names: BTreeMap::new(),
            opened: BTreeSet::new(),
            early: BTreeMap::new(),
            knocks: 0,
            named: 0,
        }
    }

    /// The overlay, to ask it things.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// The leader knows its ranks.
    pub fn set_ranks(&mut self, ranks: Idset) {
        self.overlay.set_ranks(ranks);
    }

    /// All its pipes, with its end of each.
    pub fn pipes(&self) -> Vec<(PipeId, Side)> {
        self.pipes.values().copied().collect()
    }

    /// Whether this is one of its pipes.
    pub fn holds(&self, pipe: PipeId, side: Side) -> bool {
        self.names.contains_key(&(pipe, side))
    }

    /// Somebody knocks.
    pub fn knocked(
        &mut self,
        nature: &mut Nature,
        now: Time,
        pipe: PipeId,
        hello: Hello,
    ) -> Vec<Said> {
        self.named += 2;
        let name = LinkId(self.named);
        self.pipes.insert(name, (pipe, Side::Server));
        self.names.insert((pipe, Side::Server), name);
        self.take(nature, now, OverlayInput::Knock(name, hello))
    }

    /// A knock of its own got through to somebody.
    pub fn dialled(&mut self, name: LinkId, pipe: PipeId) {
        self.knocks += 1;
        self.pipes.insert(name, (pipe, Side::Peer));
        self.names.insert((pipe, Side::Peer), name);
    }

    /// Something came over a pipe.
    pub fn arrived(
        &mut self,
        nature: &mut Nature,
        now: Time,
        (pipe, side): (PipeId, Side),
        parcel: Parcel,
    ) -> Vec<Said> {
        let Some(name) = self.names.get(&(pipe, side)).copied() else {
            return Vec::new();
        };
        let input = match parcel {
            Parcel::Answer(answer) => {
                match &answer {
                    HelloAnswer::Welcome { .. } => self.opens(nature, pipe, side),
                    HelloAnswer::Elsewhere { .. } | HelloAnswer::Refused(_) => {
                        self.forget(name);
                        nature.close(pipe, side);
                    }
                }
                OverlayInput::Answered(name, Ok(answer))
            }
            Parcel::Opened => {
                self.opened.insert(name);
                let mut said = self.take(nature, now, OverlayInput::Opened(name));
                for frame in self.early.remove(&name).unwrap_or_default() {
                    said.extend(self.take(nature, now, OverlayInput::Frame(name, frame)));
                }
                return said;
            }
            // A transport reads nothing before it stands.
            Parcel::Frame(bytes) if !self.opened.contains(&name) => {
                self.early.entry(name).or_default().push(bytes);
                return Vec::new();
            }
            Parcel::Frame(bytes) => OverlayInput::Frame(name, bytes),
            Parcel::FromClient(..)
            | Parcel::ToClient(_)
            | Parcel::FromShell(_)
            | Parcel::ToShell(_) => return Vec::new(),
        };
        self.take(nature, now, input)
    }

    /// A pipe is gone.
    pub fn ended(&mut self, nature: &mut Nature, now: Time, pipe: PipeId, side: Side) -> Vec<Said> {
        let Some(name) = self.names.get(&(pipe, side)).copied() else {
            return Vec::new();
        };
        self.forget(name);
        let why = "the connection ended".to_owned();
        self.take(nature, now, OverlayInput::Closed(name, why))
    }

    /// The transport makes its connection: this end can send in a moment.
    fn opens(&self, nature: &mut Nature, pipe: PipeId, side: Side) {
        let at = nature.now.after(nature.delay(Delay::Net));
        let at = nature.pipes.arrival(pipe, side, at);
        nature
            .queue
            .push(at, Happening::Arrives(pipe, side, Parcel::Opened));
    }

    fn forget(&mut self, name: LinkId) {
        if let Some(found) = self.pipes.remove(&name) {
            self.names.remove(&found);
        }
        self.opened.remove(&name);
        self.early.remove(&name);
    }

    /// One turn of the overlay.
    pub fn take(&mut self, nature: &mut Nature, now: Time, input: OverlayInput) -> Vec<Said> {
        let mut outputs = Vec::new();
        self.overlay.handle(now, input, &mut outputs);
        let mut said = Vec::new();
        for output in outputs {
            match output {
                OverlayOutput::Answer(name, answer) => self.answer(nature, name, answer),
                OverlayOutput::Dial(..) if nature.breaks(Rule::KnocksOnce) && self.knocks > 2 => {}
                OverlayOutput::Dial(name, door, hello) => {
                    let knock = Happening::Knocks(self.post, name, door, hello);
                    nature.later(Delay::Net, knock);
                }
                OverlayOutput::Frame(name, bytes) => {
                    if let Some((pipe, side)) = self.pipes.get(&name).copied() {
                        nature.send(pipe, side.other(), Parcel::Frame(bytes));
                    }
                }
                OverlayOutput::Close(name, _) => {
                    if let Some((pipe, side)) = self.pipes.get(&name).copied() {
                        self.forget(name);
                        nature.close(pipe, side);
                    }
                }
                OverlayOutput::Deliver(_)
                    if nature.breaks(Rule::LetterLost) && nature.random.chance(5) => {}
                OverlayOutput::Deliver(letter) => said.push(Said::Letter(letter)),
                OverlayOutput::Reached(rank, member) => said.push(Said::Reached(rank, member)),
                OverlayOutput::Lost(rank, why) => said.push(Said::Lost(rank, why)),
                OverlayOutput::Upstream(upstream) => said.push(Said::Upstream(upstream)),
                OverlayOutput::Wake(at) => {
                    let due = nature.now.after((at - now).max(Span::ZERO));
                    let tick = Happening::Post(self.post, PostTurn::Ticks(at));
                    nature.queue.push(due, tick);
                }
            }
        }
        said
    }

    fn answer(&mut self, nature: &mut Nature, name: LinkId, answer: HelloAnswer) {
        let Some((pipe, side)) = self.pipes.get(&name).copied() else {
            return;
        };
        let welcome = matches!(answer, HelloAnswer::Welcome { .. });
        nature.send(pipe, side.other(), Parcel::Answer(answer));
        if welcome {
            self.opens(nature, pipe, side);
        } else {
            self.forget(name);
            nature.close(pipe, side);
        }
    }
}
