//! Frames on a stream: a length of four bytes, big endian, then a message.
//!
//! Both ends of every Unix socket use it. It reads no socket itself: the owner
//! of the socket appends what came and takes whole messages out. Memory grows
//! with the bytes that came, never with a length that was only claimed.

use bytes::{Buf, BufMut, BytesMut};
use eddy_wire::message::{MESSAGE_BYTES_MAX, Message, MessageError};
use thiserror::Error;

/// Bytes of the length before each message.
const LENGTH_BYTES: usize = 4;

/// What a read is given room for at least.
pub const READ_BYTES: usize = 16 << 10;

/// Why a stream is not one of frames; the connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A length over the limit of a message.
    #[error("frame of {given} bytes is over the limit `message` of {MESSAGE_BYTES_MAX}")]
    TooLong {
        /// The length claimed.
        given: usize,
    },
    /// A whole frame that is not a message.
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// Bytes that came and are not taken yet.
#[derive(Debug, Default)]
pub struct Inbound {
    /// Where reads append.
    pub buffer: BytesMut,
}

impl Inbound {
    /// Room for the next read.
    pub fn room(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES / 4 {
            self.buffer.reserve(READ_BYTES);
        }
        &mut self.buffer
    }

    /// The length that the frame at the front claims, once it is there.
    pub fn claimed(&self) -> Result<Option<usize>, FrameError> {
        let Some(head) = self.buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let given = u32::from_be_bytes(*head) as usize;
        if given > MESSAGE_BYTES_MAX {
            return Err(FrameError::TooLong { given });
        }
        Ok(Some(given))
    }

    /// The next whole message, if there is one.
    pub fn message(&mut self) -> Result<Option<Message>, FrameError> {
        let Some(length) = self.claimed()? else {
            return Ok(None);
        };
        if self.buffer.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_BYTES);
        let frame = self.buffer.split_to(length).freeze();
        Ok(Some(Message::decode(&frame)?))
    }
}

/// Puts a message behind what is already to be sent.
pub fn put(out: &mut BytesMut, message: &Message) -> Result<(), MessageError> {
    let (before, length) = (out.len(), message.wire_len());
    out.reserve(LENGTH_BYTES + length);
    out.put_u32(length as u32);
    let put = message.encode_behind(out);
    if put.is_err() {
        out.truncate(before);
    }
    put
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(topic: &str) -> BytesMut {
        let mut out = BytesMut::new();
        put(&mut out, &Message::request(topic, 7, &())).expect("a small message");
        out
    }

    #[test]
    fn messages_come_out_as_they_went_in_however_they_were_cut() {
        let mut stream = framed("job.list");
        stream.extend_from_slice(&framed("kvs.get"));
        for cut in 0..stream.len() {
            let mut inbound = Inbound::default();
            let mut topics = Vec::new();
            for piece in [&stream[..cut], &stream[cut..]] {
                inbound.room().extend_from_slice(piece);
                while let Some(message) = inbound.message().expect("frames") {
                    topics.push(message.topic);
                }
            }
            assert_eq!(topics, ["job.list", "kvs.get"], "cut at {cut}");
        }
    }

    #[test]
    fn of_a_message_that_is_refused_nothing_is_put() {
        let mut out = framed("kvs.get");
        let before = out.clone();
        let tail = vec![0; MESSAGE_BYTES_MAX].into();
        let large = Message::request("kvs.set", 8, &()).with_tail(tail);
        put(&mut out, &large).expect_err("over the limit");
        put(&mut out, &Message::request(&"t".repeat(256), 8, &())).expect_err("too long a topic");
        assert_eq!(out, before);
    }

    #[test]
    fn a_claimed_length_is_refused_before_any_memory_is_taken() {
        let mut inbound = Inbound::default();
        inbound.room().extend_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
        assert_eq!(
            inbound.message(),
            Err(FrameError::TooLong { given: 0x7fff_ffff })
        );
        let mut inbound = Inbound::default();
        inbound.room().extend_from_slice(&[0, 0xff, 0xff, 0xff, 1]);
        assert_eq!(inbound.message(), Ok(None));
        assert!(inbound.buffer.capacity() <= 2 * READ_BYTES);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let mut inbound = Inbound::default();
        inbound.room().extend_from_slice(b"\0\0\0\x04GET ");
        assert!(matches!(inbound.message(), Err(FrameError::Message(_))));
    }
}
