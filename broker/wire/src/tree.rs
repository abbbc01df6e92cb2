//! Letters between the ranks of an instance: an address and one word.
//!
//! Carried by links, routed by eddy-broker's `tree`. A letter is a message whose
//! topic is `tree`: its JSON body is the letter, and the one part of it that is
//! raw (a request on its way, output, input) rides in the tail
//! (doc/protocol/tree.md). Correctness never rests on a letter arriving: every
//! word is safe to repeat, and what matters is said again after each new tenure.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use uuid::Uuid;

use crate::access::Access;
use crate::error::{Code, Refusal};
use crate::id::{Attempt, Epoch, JobId, Rank};
use crate::message::{MESSAGE_BYTES_MAX, Message, MessageError, Type};
use crate::services::child::ChildOf;
use crate::shell::{FromShell, ToShell};
use crate::time::Span;

/// The agent of the leader's own node: it is in the tree as this rank, which is
/// in no inventory, and only hosts ranks of child instances there.
pub const ATTENDANT: Rank = Rank(u32::MAX - 2);

/// Whom a letter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Address {
    /// The rank at the other end of the link.
    Next,
    /// The leader.
    Leader,
    /// That rank.
    Rank(Rank),
    /// Every rank below: an event.
    Below,
}

/// The time in which the leader reached a rank without a break: the leader's
/// epoch and a number it counts up. What was said in an earlier tenure is void,
/// and in a new one all that still matters is said again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tenure {
    /// The leader's epoch.
    pub leader: Epoch,
    /// Counted from 1 within it; 0 before the first.
    pub number: u64,
}

/// One word on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Letter {
    /// Whom it is for.
    pub to: Address,
    /// The rank that wrote it.
    pub from: Rank,
    /// For letters between the leader and a rank: the tenure of that rank.
    #[serde(default)]
    pub tenure: Tenure,
    /// What it says.
    pub word: Word,
}

/// One outstanding call of a client at the rank that took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Call {
    /// The client's connection, numbered by its rank.
    pub client: u64,
    /// The client's number for the call.
    pub matchtag: u64,
}

/// A rank as others know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its life.
    pub life: Uuid,
    /// Its door.
    pub door: String,
}

/// What ranks say to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// To the next rank up: every rank reached through this link, the sender
    /// too. Replaces what was said before.
    Reach(BTreeMap<Rank, Member>),
    /// From the leader to a rank: a new tenure begins.
    Tenure {
        /// The number of the last event before it.
        events: u64,
        /// What the rank needs to know of its instance.
        instance: Box<InstanceFacts>,
    },
    /// A request, or a cancel, of a client of the sender.
    Request {
        /// Whose.
        call: Call,
        /// The message, stamped by the rank that took it: the tail.
        #[serde(skip)]
        message: Option<Box<Message>>,
    },
    /// An answer to a client of the addressee.
    Answer {
        /// Whose.
        call: Call,
        /// The message: the tail.
        #[serde(skip)]
        message: Option<Box<Message>>,
    },
    /// A client of the sender is gone, with all its calls.
    Gone {
        /// Its connection.
        client: u64,
    },
    /// A letter to that rank could not be brought there; what its sender waits for will not come.
    Unreachable {
        /// The rank.
        rank: Rank,
    },
    /// From the leader: start a shell under this epoch.
    LaunchShell {
        /// Which life.
        epoch: Epoch,
    },
    /// From the leader: does it live? If not, end what it left and say so.
    CheckShell {
        /// Which life.
        epoch: Epoch,
    },
    /// From the leader: end that shell, which does not answer, and what it left, and say so.
    EndShell {
        /// Which life.
        epoch: Epoch,
    },
    /// From the leader, for that shell.
    ToShell {
        /// Which life.
        epoch: Epoch,
        /// The word; its bytes ride in the tail.
        word: ToShell,
    },
    /// From that shell, for the leader.
    FromShell {
        /// Which life.
        epoch: Epoch,
        /// The word; its bytes ride in the tail.
        word: FromShell,
    },
    /// That shell's connection to its rank ended.
    ShellAway {
        /// Which life.
        epoch: Epoch,
    },
    /// That life of a shell is over and nothing of it runs.
    ShellDead {
        /// Which life.
        epoch: Epoch,
    },
    /// From the leader: host a rank of that instance, which is a job of this one.
    Host(Box<HostOrder>),
    /// From the leader: host it no more.
    Unhost {
        /// The instance's id.
        instance: String,
    },
    /// To the leader, in each new tenure: the ranks of its children that are
    /// hosted, by instance; at most [`HOSTED_MAX`]. It ends those it does not want.
    Hosted(Vec<(String, JobId, Attempt)>),
    /// To the leader, from the agent of its own node: nothing is hosted any more on the ground of
    /// that job, by an order, and nothing runs that was started within it.
    Unhosted(JobId, Attempt),
    /// Something all ranks hear of in one order, counted from 1.
    Event {
        /// Its number.
        number: u64,
        /// What, such as `ranks-lost`.
        topic: String,
        /// More about it.
        body: Value,
    },
    /// To the leader: events from this number on did not come.
    EventsFrom {
        /// The first one missed.
        number: u64,
    },
}

/// What every rank needs to know of its instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceFacts {
    /// Output kept of one job on one rank, in bytes.
    pub spool_bytes: u64,
    /// How long tasks last that are none; `None` starts processes.
    pub mock: Option<Span>,
    /// User id of the owner.
    pub owner: u32,
    /// The path of the instance, as `905/3`; empty for a root.
    pub path: String,
    /// Who else may connect there, and as what.
    #[serde(default)]
    pub access: Access,
    /// What clients of a rank are held to; a leader of an older version says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ClientLimits>,
}

/// What clients of one rank are held to, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLimits {
    /// Connections at a time.
    pub clients: u64,
    /// Connections of one user.
    pub user_clients: u64,
    /// Unanswered requests of one user.
    pub user_outstanding: u64,
    /// Requests of one user a second.
    pub user_rate: u64,
    /// Unanswered requests of one client.
    pub outstanding: u64,
    /// Answers that wait for one client to read them, in bytes.
    pub reply_bytes: u64,
}

/// What a rank needs to host a rank of a child instance on its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostOrder {
    /// The child's id.
    pub instance: String,
    /// The job whose ground it is on.
    pub job: JobId,
    /// Which attempt.
    pub attempt: Attempt,
    /// The job that the instance is, where that is another, which has grown by this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ChildOf>,
    /// The name it was declared under: then its state directory there is kept for its next job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user it belongs to: what hosts it has that user's rights and no other's.
    #[serde(default)]
    pub user: u32,
    /// Its rank in the child.
    pub rank: Rank,
    /// The door of the child's leader, where the hosted rank knocks first.
    pub door: String,
}

/// How many ranks of children one rank hosts at most.
pub const HOSTED_MAX: usize = 4096;

/// The topic of every message that is a letter.
pub const LETTER_TOPIC: &str = "tree";
/// What a message grows by as the tail of a letter, at most.
const ENVELOPE_BYTES: usize = 1024;

/// Whether a request or an answer can be carried to another rank.
///
/// # Errors
/// The limit that it would be over as a letter.
pub fn portable(message: &Message) -> Result<(), Refusal> {
    let given = message.wire_len();
    if given + ENVELOPE_BYTES <= MESSAGE_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "message of {given} bytes is carried to another rank with {ENVELOPE_BYTES} more; the \
         limit `message` is {MESSAGE_BYTES_MAX}"
    );
    Err(Refusal::new(Code::TooLarge, text))
}

/// Why bytes are not a letter.
#[derive(Debug, Error)]
pub enum LetterError {
    /// They are no message either.
    #[error("letter is not a message: {0}")]
    Message(MessageError),
    /// A message of another kind or topic.
    #[error("message has the topic {given:?}; allowed is {LETTER_TOPIC:?}")]
    Topic {
        /// The topic.
        given: String,
    },
    /// A body that is not understood.
    #[error("letter cannot be read: {0}")]
    Body(#[from] serde_json::Error),
    /// The request or answer in its tail is none.
    #[error("letter carries a request or an answer that is no message: {0}")]
    Carried(MessageError),
    /// A tail behind a word that has none.
    #[error("letter has a tail of {0} bytes behind a word that has none")]
    Tail(usize),
}

impl Letter {
    /// The letter as a message (doc/protocol/tree.md); refused when that would be
    /// over the limit `message`, or when a request or an answer carries none.
    pub fn encode(&self) -> Result<Bytes, MessageError> {
        Message::request(LETTER_TOPIC, 0, self)
            .with_tail(self.word.tail()?)
            .encode()
    }

    /// The letter these bytes are. What it carries is not copied, except input
    /// and output of tasks.
    pub fn decode(bytes: &Bytes) -> Result<Letter, LetterError> {
        let message = Message::decode(bytes).map_err(LetterError::Message)?;
        if message.kind != Type::Request || message.topic != LETTER_TOPIC {
            return Err(LetterError::Topic {
                given: message.topic,
            });
        }
        let mut letter: Letter = serde_json::from_slice(&message.body)?;
        letter.word.take_tail(message.tail)?;
        Ok(letter)
    }
}

impl Word {
    /// The raw part of the word, which its JSON leaves out.
    fn tail(&self) -> Result<Bytes, MessageError> {
        match self {
            Word::Request { message, .. } | Word::Answer { message, .. } => match message {
                Some(message) => message.encode(),
                // The error that the other end would find in an empty tail.
                None => Err(Message::decode(&Bytes::new()).expect_err("nothing is no message")),
            },
            Word::ToShell {
                word: ToShell::Input { portion, .. },
                ..
            } => Ok(Bytes::copy_from_slice(&portion.data)),
            Word::FromShell {
                word: FromShell::Output { frames, .. },
                ..
            } => Ok(Bytes::copy_from_slice(frames)),
            _ => Ok(Bytes::new()),
        }
    }

    /// Puts the raw part back where it belongs.
    fn take_tail(&mut self, tail: Bytes) -> Result<(), LetterError> {
        match self {
            Word::Request { message, .. } | Word::Answer { message, .. } => {
                let carried = Message::decode(&tail).map_err(LetterError::Carried)?;
                *message = Some(Box::new(carried));
            }
            Word::ToShell {
                word: ToShell::Input { portion, .. },
                ..
            } => portion.data = tail.to_vec(),
            Word::FromShell {
                word: FromShell::Output { frames, .. },
                ..
            } => *frames = tail.to_vec(),
            _ if tail.is_empty() => {}
            _ => return Err(LetterError::Tail(tail.len())),
        }
        Ok(())
    }
}
