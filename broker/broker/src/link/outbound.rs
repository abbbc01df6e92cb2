//! What one end of a link has for the other: sent and not acknowledged, and
//! waiting behind that.
//!
//! Used by [`super`] only. Its numbers never come twice in one life of a rank:
//! each turn of a link has a range of its own, so that a number also tells of
//! which turn it is.

use std::collections::VecDeque;

use bytes::Bytes;
use thiserror::Error;

use super::frame::{FRAME_HEADER_BYTES, PIECE_BYTES_MAX, Piece};

/// Frames sent and not acknowledged at most.
pub const WINDOW_FRAMES: usize = 4096;
/// Their bytes at most.
pub const WINDOW_BYTES: usize = 32 << 20;
/// Bytes that may wait behind the window. Each frame counts its header and what
/// it costs to keep, so that small ones are bounded too.
pub const BACKLOG_BYTES_MAX: usize = 64 << 20;

/// Bits for numbers within a turn. A turn with more goes on into the range of
/// the next, and the one after it takes a later range.
const TURN_BITS: u32 = 40;
/// What keeping a frame costs beside its payload.
const KEEP_BYTES: usize = FRAME_HEADER_BYTES + 64;

/// The other end does not take what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{given} bytes do not fit behind {waiting} that wait; at most {BACKLOG_BYTES_MAX} may: the other end does not keep up"
)]
pub struct LinkFull {
    /// Bytes to be sent.
    pub given: usize,
    /// Bytes that wait.
    pub waiting: usize,
}

/// A piece of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    pub piece: Piece,
    pub payload: Bytes,
}

/// Everything not known to have arrived, in order.
#[derive(Debug)]
pub(super) struct Outbound {
    /// The last number acknowledged: that of the first parcel here less one.
    acked: u64,
    parcels: VecDeque<Parcel>,
    /// How many of them went out over this pipe, and over any.
    sent_here: usize,
    sent_ever: usize,
    /// Bytes of those that went out over any pipe, and of the others with their cost.
    window_bytes: usize,
    backlog_bytes: usize,
    /// Frames sent in all, for people.
    count: u64,
}

impl Outbound {
    pub fn new(turn: u64) -> Outbound {
        Outbound {
            acked: turn << TURN_BITS,
            parcels: VecDeque::new(),
            sent_here: 0,
            sent_ever: 0,
            window_bytes: 0,
            backlog_bytes: 0,
            count: 0,
        }
    }

    /// The turn that the last number used is of.
    pub fn turn(&self) -> u64 {
        (self.acked + self.sent_ever as u64) >> TURN_BITS
    }

    /// The last number sent over this pipe, or acknowledged.
    pub fn last(&self) -> u64 {
        self.acked + self.sent_here as u64
    }

    /// Frames not acknowledged, frames sent in all.
    pub fn counts(&self) -> (u64, u64) {
        (self.sent_ever as u64, self.count)
    }

    pub fn held_bytes(&self) -> usize {
        self.window_bytes + self.backlog_bytes
    }

    /// Takes a payload in pieces, all or none.
    pub fn push(&mut self, payload: Bytes) -> Result<(), LinkFull> {
        let pieces = payload.len().div_ceil(PIECE_BYTES_MAX).max(1);
        let given = payload.len() + pieces * KEEP_BYTES;
        let waiting = self.backlog_bytes;
        if waiting + given > BACKLOG_BYTES_MAX {
            return Err(LinkFull { given, waiting });
        }
        self.backlog_bytes += given;
        let mut rest = payload;
        while rest.len() > PIECE_BYTES_MAX {
            let payload = rest.split_to(PIECE_BYTES_MAX);
            let piece = Piece::More;
            self.parcels.push_back(Parcel { piece, payload });
        }
        let piece = Piece::Last;
        self.parcels.push_back(Parcel {
            piece,
            payload: rest,
        });
        Ok(())
    }

    /// The next parcel that may go out, with its number.
    pub fn next(&mut self) -> Option<(u64, Parcel)> {
        let parcel = self.parcels.get(self.sent_here)?.clone();
        if self.sent_here == self.sent_ever {
            let bytes = parcel.payload.len();
            let fits = self.sent_ever < WINDOW_FRAMES && self.window_bytes + bytes <= WINDOW_BYTES;
            if !fits {
                return None;
            }
            self.backlog_bytes -= bytes + KEEP_BYTES;
            self.window_bytes += bytes;
            self.sent_ever += 1;
        }
        self.sent_here += 1;
        self.count += 1;
        Some((self.last(), parcel))
    }

    /// A new pipe: what was sent and not acknowledged goes out again.
    pub fn replay(&mut self) {
        self.sent_here = 0;
    }

    /// The other end has everything up to `seq`. 0 is that of an end that has
    /// nothing yet, and an old number says nothing new.
    pub fn acknowledged(&mut self, seq: u64) -> Result<(), String> {
        let last = self.last();
        if seq > last {
            return Err(format!(
                "frame {seq} is acknowledged; the last one sent is {last}"
            ));
        }
        self.forget(seq.saturating_sub(self.acked));
        Ok(())
    }

    /// Whether an end that has everything up to `seq` can go on from there;
    /// then what it has is forgotten.
    pub fn resume_after(&mut self, seq: u64) -> bool {
        let can = seq >= self.acked && seq <= self.acked + self.sent_ever as u64;
        if can {
            self.forget(seq - self.acked);
        }
        can
    }

    fn forget(&mut self, frames: u64) {
        for _ in 0..frames {
            let parcel = self.parcels.pop_front().expect("sent parcels are kept");
            self.window_bytes -= parcel.payload.len();
            self.sent_ever -= 1;
            self.sent_here = self.sent_here.saturating_sub(1);
            self.acked += 1;
        }
    }
}
