//! A link between two ranks: order, and each payload once, over pipes that
//! break (doc/protocol/link.md).
//!
//! Used by [`crate::tree::overlay`], one for each neighbour. A link outlives its
//! pipes: the driver makes a new one, the two ends tell each other how far they
//! had come ([`Link::heard`]) and go on there, or begin anew when either end is
//! another life or has forgotten. It promises nothing beyond one life of both
//! ends, dials nothing, and never waits: a peer that does not acknowledge fills
//! a bounded window and backlog, and then [`Link::send`] says so.

mod frame;
mod outbound;

#[cfg(test)]
mod tests;

use bytes::{Bytes, BytesMut};
use eddy_wire::link::Heard;
use eddy_wire::message::MESSAGE_BYTES_MAX;
use eddy_wire::time::{Span, Time};
use uuid::Uuid;

pub use frame::{FRAME_HEADER_BYTES, PIECE_BYTES_MAX};
use frame::{Frame, Kind, Piece};
pub use outbound::{BACKLOG_BYTES_MAX, LinkFull, WINDOW_BYTES, WINDOW_FRAMES};
use outbound::{Outbound, Parcel};

/// How long an acknowledgement waits for data to ride on.
pub const ACK_DELAY: Span = Span::millis(20);
/// Frames taken before an acknowledgement goes by itself.
pub const ACK_FRAMES: u64 = 64;
/// Bytes taken before it does: a quarter of the window, so that large payloads flow.
pub const ACK_BYTES: usize = WINDOW_BYTES / 4;

/// How often a silent link is heard of, and how long silence is borne.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// After so long without a frame to the other end, a heartbeat.
    pub heartbeat: Span,
    /// After so long without a frame of the other end, the pipe is given up.
    pub silence: Span,
}

impl LinkConfig {
    /// Between hosts.
    pub const HOSTS: LinkConfig = LinkConfig {
        heartbeat: Span::seconds(5),
        silence: Span::seconds(20),
    };
    /// On one host, where the end of a socket tells of a death: only a stopped
    /// process is found by silence.
    pub const LOCAL: LinkConfig = LinkConfig {
        heartbeat: Span::seconds(10),
        silence: Span::seconds(30),
    };
}

/// What a link wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkOutput {
    /// Send this over the pipe.
    Frame(Bytes),
    /// A payload of the other end, in order and once.
    Deliver(Bytes),
    /// The link begins anew: what was not acknowledged is dropped, at both ends.
    Fresh,
    /// Close the pipe; why. The link itself may go on over another one.
    Drop(String),
    /// Call [`Link::tick`] at this time, or at once when it is past. Each
    /// replaces later ones; ticks that come too early or too often do nothing.
    Wake(Time),
}

/// The pipe as the link knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pipe {
    /// There is none.
    Closed,
    /// The ends have met and agreed to go on; frames may not be sent yet.
    Resuming,
    /// The ends have met and agreed to begin anew.
    Beginning,
    /// Frames go both ways.
    Open,
}

/// One end of a link.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    pipe: Pipe,
    /// The life at the other end; none before the first meeting.
    peer: Option<Uuid>,
    outbound: Outbound,
    /// The last number taken from the other end; none before its `Begin`.
    taken: Option<u64>,
    /// The pieces of a payload that is not whole.
    partial: BytesMut,
    /// Taken since the last acknowledgement: frames and bytes.
    untold: (u64, usize),
    ack_due: Option<Time>,
    last_sent: Time,
    last_heard: Time,
    announced: Option<Time>,
    received: u64,
}

impl Link {
    /// A link that has met nobody. `turn` tells it from every other link that
    /// this life of this rank had to the same peer: a number larger than
    /// [`Link::turn`] of those.
    pub fn new(config: LinkConfig, turn: u64) -> Link {
        Link {
            config,
            pipe: Pipe::Closed,
            peer: None,
            outbound: Outbound::new(turn),
            taken: None,
            partial: BytesMut::new(),
            untold: (0, 0),
            ack_due: None,
            last_sent: Time(0),
            last_heard: Time(0),
            announced: None,
            received: 0,
        }
    }

    /// The turn it is in now; beginning anew takes the next one.
    pub fn turn(&self) -> u64 {
        self.outbound.turn()
    }

    /// How far the other end was heard, for our next hello to it. None when
    /// nothing was, which makes the link begin anew.
    pub fn heard(&self) -> Option<Heard> {
        Some(Heard {
            life: self.peer?,
            seq: self.taken?,
        })
    }

    /// Whether a pipe carries frames.
    pub fn is_open(&self) -> bool {
        self.pipe == Pipe::Open
    }

    /// Frames sent and not acknowledged, frames sent in all, frames received.
    pub fn counts(&self) -> (u64, u64, u64) {
        let (unacknowledged, sent) = self.outbound.counts();
        (unacknowledged, sent, self.received)
    }

    /// Bytes held for the other end.
    pub fn held_bytes(&self) -> usize {
        self.outbound.held_bytes()
    }

    /// The ends have said hello on a new pipe: decides whether the link goes on
    /// or begins anew (`Fresh`). Who answers a knock calls this before it makes
    /// its own hello, so that both decide alike: each goes on only if the other
    /// says that it does.
    pub fn meet(&mut self, peer_life: Uuid, heard_of_me: Option<Heard>, out: &mut Vec<LinkOutput>) {
        let known = self.peer == Some(peer_life) && self.taken.is_some();
        let resumed =
            known && heard_of_me.is_some_and(|heard| self.outbound.resume_after(heard.seq));
        if resumed {
            self.pipe = Pipe::Resuming;
            return;
        }
        self.outbound = Outbound::new(self.outbound.turn() + 1);
        self.peer = Some(peer_life);
        self.taken = None;
        self.partial = BytesMut::new();
        self.untold = (0, 0);
        self.ack_due = None;
        self.pipe = Pipe::Beginning;
        out.push(LinkOutput::Fresh);
    }

    /// Frames can be sent over the pipe on which the ends met.
    pub fn opened(&mut self, now: Time, out: &mut Vec<LinkOutput>) {
        let begins = match self.pipe {
            Pipe::Beginning => true,
            Pipe::Resuming => false,
            Pipe::Closed | Pipe::Open => return,
        };
        self.pipe = Pipe::Open;
        self.last_heard = now;
        self.announced = None;
        if begins {
            self.put(now, Kind::Begin, out);
        }
        self.outbound.replay();
        self.pump(now, out);
        if !begins {
            // Says how far both are, so that a gap shows at once.
            self.put(now, Kind::Ack, out);
        }
        self.announce(now, out);
    }

    /// [`Link::meet`] and [`Link::opened`] at once, for a pipe that needs no
    /// answer in between.
    pub fn open(
        &mut self,
        now: Time,
        peer_life: Uuid,
        heard_of_me: Option<Heard>,
        out: &mut Vec<LinkOutput>,
    ) {
        self.meet(peer_life, heard_of_me, out);
        self.opened(now, out);
    }

    /// The pipe is gone. Payloads are still taken and wait for the next one.
    pub fn closed(&mut self) {
        self.pipe = Pipe::Closed;
        self.ack_due = None;
        self.announced = None;
    }

    /// Sends a payload of at most [`MESSAGE_BYTES_MAX`]. Refused whole when
    /// backlog is full, which is a reason to give the link up.
    pub fn send(
        &mut self,
        now: Time,
        payload: Bytes,
        out: &mut Vec<LinkOutput>,
    ) -> Result<(), LinkFull> {
        assert!(
            payload.len() <= MESSAGE_BYTES_MAX,
            "a payload of {} bytes; a message has at most {MESSAGE_BYTES_MAX}",
            payload.len()
        );
        self.outbound.push(payload)?;
        if self.pipe == Pipe::Open {
            self.pump(now, out);
            self.announce(now, out);
        }
        Ok(())
    }

    /// A frame came over the pipe.
    pub fn frame(&mut self, now: Time, bytes: Bytes, out: &mut Vec<LinkOutput>) {
        if self.pipe != Pipe::Open {
            return;
        }
        self.last_heard = now;
        self.received += 1;
        let taken = Frame::decode(&bytes)
            .map_err(|error| error.to_string())
            .and_then(|frame| self.take(now, frame, out));
        match taken {
            Ok(()) => {
                self.pump(now, out);
                if self.untold.0 >= ACK_FRAMES || self.untold.1 >= ACK_BYTES {
                    self.put(now, Kind::Ack, out);
                }
                self.announce(now, out);
            }
            Err(why) => self.give_up(why, out),
        }
    }

    /// Time passed.
    pub fn tick(&mut self, now: Time, out: &mut Vec<LinkOutput>) {
        if self.pipe != Pipe::Open {
            return;
        }
        if now >= self.last_heard + self.config.silence {
            let silence = self.config.silence;
            let why = format!(
                "nothing heard for {} s; the limit is {silence}",
                now - self.last_heard
            );
            return self.give_up(why, out);
        }
        if self.ack_due.is_some_and(|due| due <= now) {
            self.put(now, Kind::Ack, out);
        }
        if now >= self.last_sent + self.config.heartbeat {
            self.put(now, Kind::Heartbeat, out);
        }
        self.announce(now, out);
    }

    /// When the next [`Link::tick`] is due; none without a pipe.
    pub fn due(&self) -> Option<Time> {
        if self.pipe != Pipe::Open {
            return None;
        }
        let beat = self.last_sent + self.config.heartbeat;
        let silent = self.last_heard + self.config.silence;
        Some(self.ack_due.unwrap_or(beat).min(beat).min(silent))
    }

    /// What a good frame says. The error is why the pipe is worth nothing.
    fn take(&mut self, now: Time, frame: Frame, out: &mut Vec<LinkOutput>) -> Result<(), String> {
        let taken = match (frame.kind, self.taken) {
            (Kind::Begin, None) => frame.seq,
            (Kind::Begin, Some(_)) => return Err("the other end began twice".to_owned()),
            (_, None) => return Err("the other end did not begin".to_owned()),
            (Kind::Data, Some(taken)) if frame.seq <= taken => return Ok(()),
            (Kind::Data, Some(taken)) if frame.seq == taken.saturating_add(1) => frame.seq,
            (Kind::Ack | Kind::Heartbeat, Some(taken)) if frame.seq == taken => taken,
            (_, Some(taken)) => {
                return Err(format!(
                    "frame {} came after {taken}: frames are missing",
                    frame.seq
                ));
            }
        };
        self.outbound.acknowledged(frame.ack)?;
        self.taken = Some(taken);
        match frame.kind {
            Kind::Data => self.piece(now, frame, out),
            Kind::Ack | Kind::Heartbeat | Kind::Begin => Ok(()),
        }
    }

    /// Puts the pieces of a payload together.
    fn piece(&mut self, now: Time, frame: Frame, out: &mut Vec<LinkOutput>) -> Result<(), String> {
        self.untold.0 += 1;
        self.untold.1 += frame.payload.len();
        self.ack_due.get_or_insert(now + ACK_DELAY);
        let whole = self.partial.len() + frame.payload.len();
        if whole > MESSAGE_BYTES_MAX {
            self.partial = BytesMut::new();
            return Err(format!(
                "a payload of more than the limit `message` of {MESSAGE_BYTES_MAX} bytes"
            ));
        }
        match frame.piece {
            Piece::More => self.partial.extend_from_slice(&frame.payload),
            Piece::Last if self.partial.is_empty() => out.push(LinkOutput::Deliver(frame.payload)),
            Piece::Last => {
                self.partial.extend_from_slice(&frame.payload);
                let payload = std::mem::take(&mut self.partial);
                out.push(LinkOutput::Deliver(payload.freeze()));
            }
        }
        Ok(())
    }

    /// Sends what the window has room for.
    fn pump(&mut self, now: Time, out: &mut Vec<LinkOutput>) {
        while let Some((seq, Parcel { piece, payload })) = self.outbound.next() {
            let frame = Frame {
                kind: Kind::Data,
                piece,
                seq,
                ack: self.taken.unwrap_or(0),
                payload,
            };
            self.emit(now, &frame, out);
        }
    }

    /// Sends a frame without a payload.
    fn put(&mut self, now: Time, kind: Kind, out: &mut Vec<LinkOutput>) {
        let frame = Frame {
            kind,
            piece: Piece::Last,
            seq: self.outbound.last(),
            ack: self.taken.unwrap_or(0),
            payload: Bytes::new(),
        };
        self.emit(now, &frame, out);
    }

    fn emit(&mut self, now: Time, frame: &Frame, out: &mut Vec<LinkOutput>) {
        // Every frame acknowledges, so what was owed is paid.
        self.untold = (0, 0);
        self.ack_due = None;
        self.last_sent = now;
        out.push(LinkOutput::Frame(frame.encode()));
    }

    fn give_up(&mut self, why: String, out: &mut Vec<LinkOutput>) {
        self.closed();
        out.push(LinkOutput::Drop(why));
    }

    /// Asks for the next tick, unless one was asked for that comes no later.
    fn announce(&mut self, now: Time, out: &mut Vec<LinkOutput>) {
        let standing = self.announced.filter(|at| *at > now);
        match (self.due(), standing) {
            (Some(due), Some(at)) if at <= due => {}
            (Some(due), _) => {
                self.announced = Some(due);
                out.push(LinkOutput::Wake(due));
            }
            (None, _) => {}
        }
    }
}
