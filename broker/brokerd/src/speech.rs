//! What a broker and a shell say to each other, as messages on their socket
//! (doc/protocol/shell.md).
//!
//! Used by both ends. Bytes of input and output ride in the tail of a message,
//! all else is its JSON body. It holds no connection.

use bytes::{Bytes, BytesMut};
use eddy_wire::message::{Message, MessageError, Type};
use eddy_wire::shell::{FromShell, ToShell};
use thiserror::Error;

use crate::frame;

/// The topic of every message between a broker and a shell.
pub const TOPIC: &str = "shell";

/// Why a message is not one between a broker and a shell.
#[derive(Debug, Error)]
pub enum SpeechError {
    /// Another topic.
    #[error("message has the topic {given:?}; allowed is {TOPIC:?}")]
    Topic {
        /// The topic.
        given: String,
    },
    /// A body that is not understood.
    #[error("message of the shell's protocol cannot be read: {0}")]
    Body(#[from] serde_json::Error),
}

/// Puts a broker's word behind what is already to be sent.
pub fn put_to_shell(out: &mut BytesMut, mut word: ToShell) -> Result<(), MessageError> {
    let tail = match &mut word {
        ToShell::Input { portion, .. } => std::mem::take(&mut portion.data),
        _ => Vec::new(),
    };
    let message = Message::request(TOPIC, 0, &word).with_tail(tail.into());
    frame::put(out, &message)
}

/// Puts a shell's word behind what is already to be sent.
pub fn put_from_shell(out: &mut BytesMut, mut word: FromShell) -> Result<(), MessageError> {
    let tail = match &mut word {
        FromShell::Output { frames, .. } => std::mem::take(frames),
        _ => Vec::new(),
    };
    let message = Message::request(TOPIC, 0, &word).with_tail(tail.into());
    frame::put(out, &message)
}

/// The broker's word that a message is.
pub fn read_to_shell(message: &Message) -> Result<ToShell, SpeechError> {
    let mut word = serde_json::from_slice(body(message)?)?;
    if let ToShell::Input { portion, .. } = &mut word {
        portion.data = message.tail.to_vec();
    }
    Ok(word)
}

/// The shell's word that a message is.
pub fn read_from_shell(message: &Message) -> Result<FromShell, SpeechError> {
    let mut word = serde_json::from_slice(body(message)?)?;
    if let FromShell::Output { frames, .. } = &mut word {
        *frames = message.tail.to_vec();
    }
    Ok(word)
}

fn body(message: &Message) -> Result<&Bytes, SpeechError> {
    if message.kind != Type::Request || message.topic != TOPIC {
        return Err(SpeechError::Topic {
            given: message.topic.clone(),
        });
    }
    Ok(&message.body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::id::{Attempt, JobId, Rank};
    use eddy_wire::idset::Idset;
    use eddy_wire::input::{Portion, Position};
    use eddy_wire::shell::Part;

    #[test]
    fn bytes_ride_in_the_tail() {
        let part = Part {
            job: JobId(1),
            attempt: Attempt(1),
            rank: Rank(0),
        };
        let data = vec![0, 255, 7];
        let input = ToShell::Input {
            part,
            portion: Portion {
                number: 7,
                tasks: Idset::new(),
                at: Some(Position {
                    source: uuid::Uuid::from_u128(1),
                    offset: 9,
                }),
                eof: true,
                data,
            },
        };
        let output = FromShell::Output {
            read: 3,
            next: 9,
            frames: vec![1, 2],
            end: false,
        };
        let mut out = BytesMut::new();
        put_to_shell(&mut out, input.clone()).expect("a small message");
        put_from_shell(&mut out, output.clone()).expect("a small message");
        let mut inbound = frame::Inbound { buffer: out };
        let mut next = || inbound.message().expect("frames").expect("whole");
        assert_eq!(read_to_shell(&next()).expect("understood"), input);
        assert_eq!(read_from_shell(&next()).expect("understood"), output);
    }

    #[test]
    fn another_topic_is_refused() {
        let message = Message::request("job.list", 1, &());
        assert!(matches!(
            read_to_shell(&message),
            Err(SpeechError::Topic { .. })
        ));
    }
}
