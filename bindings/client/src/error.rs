//! What can go wrong between a client and its instance, each in one line.
//!
//! Made by the driver and by [`Client`](crate::Client). Clones freely, because
//! one lost connection fails every call that waits on it.

use std::path::PathBuf;

use eddy_wire::error::{Code, Refusal};
use eddy_wire::message::MessageError;
use thiserror::Error;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ClientError {
    /// Nobody took the connection for as long as the client was to wait.
    #[error("{}: {why} ({})", .path.display(), tried(*tries, *waited))]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the system said last.
        why: String,
        /// How often it was tried.
        tries: u32,
        /// For how long, in seconds.
        waited: f64,
    },
    /// Somebody took the connection and says nothing.
    #[error("{}: no answer for {waited:.1} s; a request may or may not have been taken", .path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// For how long, in seconds.
        waited: f64,
    },
    /// The leader is there and lacks something itself, so that nothing is answered that is to be recorded first.
    #[error("{}: no answer for {waited:.1} s: {why}; a request may or may not have been taken", .path.display())]
    Lacking {
        /// The socket.
        path: PathBuf,
        /// For how long, in seconds.
        waited: f64,
        /// What it lacks.
        why: String,
    },
    /// What is at the other end does not speak eddy.
    #[error("{}: is not an eddy instance: {why}", .path.display())]
    Foreign {
        /// The socket.
        path: PathBuf,
        /// What gave it away.
        why: String,
    },
    /// The connection was lost under a call that cannot simply be repeated.
    #[error("{}: the connection was lost before the answer", .path.display())]
    Lost {
        /// The socket.
        path: PathBuf,
    },
    /// The instance said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The answer cannot be read: another version, or a bug.
    #[error("{topic}: cannot read the answer: {why}")]
    Answer {
        /// The service.
        topic: &'static str,
        /// Why not.
        why: String,
    },
    /// The request is larger than a message may be.
    #[error("{topic}: cannot be sent")]
    Request {
        /// The service.
        topic: &'static str,
        /// Which limit.
        source: MessageError,
    },
}

impl ClientError {
    /// The code of a refusal; none for what went wrong on the way.
    pub fn code(&self) -> Option<Code> {
        match self {
            ClientError::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }
}

/// How long somebody was waited for.
fn tried(tries: u32, waited: f64) -> String {
    match tries {
        0 | 1 => "tried once".to_owned(),
        tries => format!("tried {tries} times in {waited:.1} s"),
    }
}
