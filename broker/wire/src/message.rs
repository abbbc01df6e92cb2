//! The message of the client socket and of the shell's: one binary header, a
//! topic, a JSON body and an optional raw tail (doc/protocol/messages.md).
//!
//! Called by every transport on both ends. It frames nothing: the transport
//! delimits messages; this turns one delimited run of bytes into a message and
//! back, and refuses what is not one.

use bytes::{BufMut, Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::{Code, Refusal};
use crate::id::Rank;
use crate::json;

/// Largest message in bytes, header included.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Longest topic in bytes.
pub const TOPIC_BYTES_MAX: usize = 255;
/// The version of the header this build speaks.
pub const MESSAGE_VERSION: u8 = 1;

const MAGIC: u8 = 0xED;
const HEADER_BYTES: usize = 34;
/// The target numbers that name no rank (RFC 3 has the same two).
const TARGET_SERVICE: u32 = u32::MAX;
const TARGET_UPSTREAM: u32 = u32::MAX - 1;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// Asks a service; answered by `Reply`s of the same match number.
    Request = 1,
    /// The last answer to a request.
    Reply = 2,
    /// An answer that more will follow.
    Part = 3,
    /// The last answer: a [`Refusal`] as its body.
    Refused = 4,
    /// The sender of a request takes it back; there is no answer.
    Cancel = 5,
}

impl Type {
    fn from_wire(byte: u8) -> Option<Type> {
        [
            Type::Request,
            Type::Reply,
            Type::Part,
            Type::Refused,
            Type::Cancel,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// What the sender may do: a set of bits (RFC 12 in spirit). The receiving
/// broker stamps it from the kernel's word; what a client wrote is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Roles(pub u32);

impl Roles {
    /// Nobody: refused everywhere.
    pub const NONE: Roles = Roles(0);
    /// The user the instance runs as.
    pub const OWNER: Roles = Roles(1);
    /// Any admitted user.
    pub const USER: Roles = Roles(2);
    /// Configured administrators.
    pub const ADMIN: Roles = Roles(8);

    /// Both sets together.
    pub const fn or(self, other: Roles) -> Roles {
        Roles(self.0 | other.0)
    }

    /// Whether it is the sender's to act on everybody's jobs.
    pub const fn may_administer(self) -> bool {
        self.any_of(Roles::OWNER.or(Roles::ADMIN))
    }

    /// Whether any role of `mask` is held.
    pub const fn any_of(self, mask: Roles) -> bool {
        self.0 & mask.0 != 0
    }
}

/// Who of an instance is to answer a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Whoever has the service: the rank that took the request, else the leader.
    #[default]
    Service,
    /// The rank above the one that took the request.
    Upstream,
    /// This rank.
    Rank(Rank),
}

impl Target {
    fn to_wire(self) -> u32 {
        match self {
            Target::Service => TARGET_SERVICE,
            Target::Upstream => TARGET_UPSTREAM,
            Target::Rank(Rank(rank)) => rank,
        }
    }

    fn from_wire(number: u32) -> Target {
        match number {
            TARGET_SERVICE => Target::Service,
            TARGET_UPSTREAM => Target::Upstream,
            rank => Target::Rank(Rank(rank)),
        }
    }
}

/// One message. `body` is JSON text (or empty), `tail` is raw bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is for.
    pub kind: Type,
    /// `service.verb`; empty in answers.
    pub topic: String,
    /// The sender's user id as the kernel told the receiving broker.
    pub uid: u32,
    /// The sender's roles, stamped likewise.
    pub roles: Roles,
    /// Chosen by the requester, repeated in each answer.
    pub matchtag: u64,
    /// Who is to answer a request.
    pub target: Target,
    /// JSON text.
    pub body: Bytes,
    /// Raw bytes (output, files): never base64.
    pub tail: Bytes,
}

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Fewer bytes than the header or its lengths say.
    #[error("message of {given} bytes is shorter than the {needed} its header needs")]
    Short {
        /// Bytes given.
        given: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// Bytes are left over after the tail.
    #[error("message has {0} bytes after its tail")]
    Trailing(usize),
    /// The first byte is not eddy's.
    #[error("message starts with 0x{0:02x}, not 0xed: not an eddy message")]
    Magic(u8),
    /// Another version of the header.
    #[error("message version {given} is not spoken here; spoken: {MESSAGE_VERSION}")]
    Version {
        /// The version the sender used.
        given: u8,
    },
    /// An unknown type.
    #[error("message type {0} is unknown; known are 1 to 5")]
    Type(u8),
    /// Over the limit `message`.
    #[error("message of {0} bytes is over the limit `message` of {MESSAGE_BYTES_MAX}")]
    TooLarge(usize),
    /// The topic is too long or not UTF-8.
    #[error("message topic is not UTF-8 of at most {TOPIC_BYTES_MAX} bytes")]
    Topic,
}

impl Message {
    /// A request for `topic`.
    pub fn request(topic: &str, matchtag: u64, body: &impl Serialize) -> Message {
        Message {
            topic: topic.to_owned(),
            ..Message::answer(Type::Request, matchtag, body)
        }
    }

    /// An answer of type `kind` to the request `matchtag`.
    pub fn answer(kind: Type, matchtag: u64, body: &impl Serialize) -> Message {
        let body = json::to_vec(body);
        Message {
            kind,
            topic: String::new(),
            uid: u32::MAX,
            roles: Roles::NONE,
            matchtag,
            target: Target::Service,
            body: body.into(),
            tail: Bytes::new(),
        }
    }

    /// The same request for another to answer.
    pub fn to(mut self, target: Target) -> Message {
        self.target = target;
        self
    }

    /// The same message with `tail` behind its body.
    pub fn with_tail(mut self, tail: Bytes) -> Message {
        self.tail = tail;
        self
    }

    /// The body as `T`; a refusal naming the topic and the field otherwise.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body)
            .map_err(|e| Refusal::new(Code::Invalid, format!("{}: {e}", self.topic)))
    }

    /// Bytes of this message on the wire.
    pub fn wire_len(&self) -> usize {
        HEADER_BYTES + self.topic.len() + self.body.len() + self.tail.len()
    }

    /// The message as bytes; refused when over a limit.
    pub fn encode(&self) -> Result<Bytes, MessageError> {
        let mut out = BytesMut::new();
        self.encode_behind(&mut out)?;
        Ok(out.freeze())
    }

    /// Puts the message's bytes behind what is there, where none of it is refused.
    pub fn encode_behind(&self, out: &mut BytesMut) -> Result<(), MessageError> {
        let total = self.wire_len();
        if total > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLarge(total));
        }
        if self.topic.len() > TOPIC_BYTES_MAX {
            return Err(MessageError::Topic);
        }
        out.reserve(total);
        out.put_slice(&self.header());
        out.put_slice(self.topic.as_bytes());
        out.put_slice(&self.body);
        out.put_slice(&self.tail);
        Ok(())
    }

    /// In one piece: what is written to a buffer bit by bit costs a call for each.
    fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&[MAGIC, MESSAGE_VERSION, self.kind as u8, 0]);
        header[4..8].copy_from_slice(&self.uid.to_be_bytes());
        header[8..12].copy_from_slice(&self.roles.0.to_be_bytes());
        header[12..20].copy_from_slice(&self.matchtag.to_be_bytes());
        header[20..24].copy_from_slice(&self.target.to_wire().to_be_bytes());
        header[24..26].copy_from_slice(&(self.topic.len() as u16).to_be_bytes());
        header[26..30].copy_from_slice(&(self.body.len() as u32).to_be_bytes());
        header[30..].copy_from_slice(&(self.tail.len() as u32).to_be_bytes());
        header
    }

    /// The message these bytes are, without copying body and tail.
    pub fn decode(bytes: &Bytes) -> Result<Message, MessageError> {
        let given = bytes.len();
        if given > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLarge(given));
        }
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(MessageError::Short {
            given,
            needed: HEADER_BYTES,
        })?;
        if header[0] != MAGIC {
            return Err(MessageError::Magic(header[0]));
        }
        if header[1] != MESSAGE_VERSION {
            return Err(MessageError::Version { given: header[1] });
        }
        let kind = Type::from_wire(header[2]).ok_or(MessageError::Type(header[2]))?;
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| header[at + i]));
        let topic_len = usize::from(u16::from_be_bytes([header[24], header[25]]));
        let (body_len, tail_len) = (word(26) as usize, word(30) as usize);
        let needed = HEADER_BYTES + topic_len + body_len + tail_len;
        if given < needed {
            return Err(MessageError::Short { given, needed });
        }
        if given > needed {
            return Err(MessageError::Trailing(given - needed));
        }
        let body_at = HEADER_BYTES + topic_len;
        let topic = std::str::from_utf8(&bytes[HEADER_BYTES..body_at])
            .ok()
            .filter(|t| t.len() <= TOPIC_BYTES_MAX)
            .ok_or(MessageError::Topic)?;
        Ok(Message {
            kind,
            topic: topic.to_owned(),
            uid: word(4),
            roles: Roles(word(8)),
            matchtag: u64::from(word(12)) << 32 | u64::from(word(16)),
            target: Target::from_wire(word(20)),
            body: bytes.slice(body_at..body_at + body_len),
            tail: bytes.slice(body_at + body_len..),
        })
    }
}
