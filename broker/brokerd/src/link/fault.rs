//! Why a pipe ended. Made wherever one breaks; what reaches the overlay is the
//! text, for the log and for people who ask about links.

use std::io;
use std::time::Duration;

use eddy_wire::link::HELLO_BYTES_MAX;
use thiserror::Error;

use super::FRAME_BYTES_MAX;

/// Why a pipe ended.
#[derive(Debug, Error)]
pub(super) enum Fault {
    #[error("the other end is gone")]
    HungUp,
    #[error("the other end spoke on a connection where nothing is said any more")]
    OutOfTurn,
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    #[error("door {door}: cannot be reached: {source}")]
    Unreached {
        door: String,
        #[source]
        source: io::Error,
    },
    #[error("door {door}: belongs to user {uid}; allowed are {owner} and 0")]
    Foreign { door: String, uid: u32, owner: u32 },
    #[error("{what}: nothing came within {limit:?}")]
    Late { what: &'static str, limit: Duration },
    #[error("first word of {given} bytes; allowed are at most {HELLO_BYTES_MAX}")]
    WordTooLong { given: usize },
    #[error("first word: {0}")]
    Word(#[from] serde_json::Error),
    #[error("frame of {given} bytes; allowed are at most {FRAME_BYTES_MAX}")]
    FrameTooLong { given: usize },
    #[error("message of {given} parts; a frame is 1")]
    Parts { given: usize },
    #[error("a frame was put before the pipe was open")]
    NotOpen,
    #[error("the other end does not read: {waiting} bytes wait; allowed are at most {allowed}")]
    Unread { waiting: usize, allowed: usize },
    #[error("the other end does not read: the queue of frames is full")]
    QueueFull,
    #[error("endpoint {given}: allowed is ipc:// and an absolute path")]
    Endpoint { given: String },
    #[error("a second peer came to an endpoint of one")]
    SecondPeer,
    #[error("transport: {0}")]
    Zeromq(#[from] zeromq::ZmqError),
}
