//! The one error that crosses a process: a refusal with a closed code.
//!
//! Modules make one where they refuse; clients print its text and exit by its
//! code. It never carries a source chain: the text is one line for a person.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::field;

/// Why a request was refused, for programs. The numbers are Linux `errno`s, so
/// that scripts used to Flux (RFC 6) recognise them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The request itself is wrong; sending it again cannot help.
    Invalid,
    /// The sender's role does not allow it.
    Denied,
    /// What it names does not exist.
    NotFound,
    /// It contradicts something that exists (a key with another jobspec).
    Conflict,
    /// A named limit was hit; the text says which.
    TooLarge,
    /// No room now (disk full, queue full); later may do.
    Busy,
    /// No service matches the topic.
    NoService,
    /// The instance is starting or ending and does not take this now.
    NotReady,
    /// The other end of the call went away before it answered.
    Unreachable,
    /// A stream came to its ordinary end.
    End,
}

impl Code {
    /// The Linux error number of this code.
    pub fn errno(self) -> i32 {
        match self {
            Code::Invalid => 22,
            Code::Denied => 1,
            Code::NotFound => 2,
            Code::Conflict => 17,
            Code::TooLarge => 90,
            Code::Busy => 11,
            Code::NoService => 38,
            Code::NotReady => 115,
            Code::Unreachable => 113,
            Code::End => 61,
        }
    }
}

/// A request refused: a code for programs, one line for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{text}")]
pub struct Refusal {
    /// What kind of "no" this is.
    pub code: Code,
    /// One line: the field, what was given, what is allowed.
    pub text: String,
}

impl Refusal {
    /// A refusal with this code and text.
    pub fn new(code: Code, text: impl Into<String>) -> Refusal {
        Refusal {
            code,
            text: text.into(),
        }
    }

    /// The request itself is wrong.
    pub fn invalid(text: impl ToString) -> Refusal {
        Refusal::new(Code::Invalid, text.to_string())
    }

    /// The same by an error with its causes: whoever asks hears of no other.
    pub fn unreadable(error: &dyn std::error::Error) -> Refusal {
        Refusal::invalid(field::chain(error))
    }

    /// What was named does not exist.
    pub fn not_found(text: impl ToString) -> Refusal {
        Refusal::new(Code::NotFound, text.to_string())
    }
}
