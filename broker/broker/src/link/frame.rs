//! The frame of a link: a fixed binary header and a piece of a payload
//! (doc/protocol/link.md).
//!
//! Used by [`super`] only. It delimits nothing, the pipe does, and knows
//! nothing of what came before: whether a frame may come now is the link's.

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

/// Bytes before the payload.
pub const FRAME_HEADER_BYTES: usize = 18;
/// Longest piece of a payload in one frame.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

const MORE: u8 = 1;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A piece of a payload.
    Data = 1,
    /// Only its acknowledgement counts.
    Ack = 2,
    /// Nothing but a sign of life.
    Heartbeat = 3,
    /// First on a link that begins: the number before the first piece.
    Begin = 4,
}

/// Whether the payload goes on in the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Last,
    More,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub kind: Kind,
    pub piece: Piece,
    /// Of `Data` its own number, else that of the last one sent.
    pub seq: u64,
    /// The last one taken from the other end; 0 before its `Begin`.
    pub ack: u64,
    pub payload: Bytes,
}

/// Why bytes are not a frame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum FrameError {
    #[error("frame of {0} bytes is shorter than its header of {FRAME_HEADER_BYTES}")]
    Short(usize),
    #[error("frame carries {0} bytes; at most {PIECE_BYTES_MAX} are allowed")]
    Large(usize),
    #[error("frame kind {0} is unknown; known are 1 to 4")]
    Kind(u8),
    #[error("frame flags 0x{0:02x} are unknown; known is 0x01, and only in data")]
    Flags(u8),
    #[error("frame that is no data carries {0} bytes")]
    Payload(usize),
}

impl Frame {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(FRAME_HEADER_BYTES + self.payload.len());
        out.put_u8(self.kind as u8);
        out.put_u8(match self.piece {
            Piece::Last => 0,
            Piece::More => MORE,
        });
        out.put_u64(self.seq);
        out.put_u64(self.ack);
        out.put_slice(&self.payload);
        out.freeze()
    }

    pub fn decode(bytes: &Bytes) -> Result<Frame, FrameError> {
        let header: &[u8; FRAME_HEADER_BYTES] =
            bytes.first_chunk().ok_or(FrameError::Short(bytes.len()))?;
        let payload = bytes.slice(FRAME_HEADER_BYTES..);
        if payload.len() > PIECE_BYTES_MAX {
            return Err(FrameError::Large(payload.len()));
        }
        let kind = [Kind::Data, Kind::Ack, Kind::Heartbeat, Kind::Begin]
            .into_iter()
            .find(|kind| *kind as u8 == header[0])
            .ok_or(FrameError::Kind(header[0]))?;
        let piece = match (header[1], kind) {
            (0, _) => Piece::Last,
            (MORE, Kind::Data) => Piece::More,
            (flags, _) => return Err(FrameError::Flags(flags)),
        };
        if kind != Kind::Data && !payload.is_empty() {
            return Err(FrameError::Payload(payload.len()));
        }
        let number = |at: usize| {
            u64::from_be_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|place| header[at + place]))
        };
        Ok(Frame {
            kind,
            piece,
            seq: number(2),
            ack: number(10),
            payload,
        })
    }
}
