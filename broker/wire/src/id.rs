//! Numbers that name things: jobs, attempts, ranks, records, epochs.
//!
//! Every crate uses them; each is a number on the wire. The spellings of a job
//! id that people type (RFC 19) are parsed and printed here and nowhere else.
//! Holds no generator: who draws numbers is decided by the instance.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The alphabet of F58 (RFC 19): base58 without `0`, `I`, `O` and `l`.
const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// The longest text looked at as a job id, in bytes; no spelling of a `u64` needs more, save
/// for leading zeros.
pub const JOB_ID_TEXT_MAX: usize = 64;

/// A job's number in its instance: positive in practice, growing, never reused.
///
/// JSON carries the number. Text may be decimal, F58 (`ƒ2JL` or `f2JL`), `0x` and hexadecimal
/// digits, or dothex (`0000.0000.0000.1111`), as RFC 19 orders them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct JobId(pub u64);

/// Why a text is not a job id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JobIdError {
    /// Nothing but white space.
    #[error("job id is empty; allowed are decimal, F58 (f2JL), 0x hexadecimal and dothex")]
    Empty,
    /// Longer than [`JOB_ID_TEXT_MAX`].
    #[error("job id has {given} bytes; allowed are at most {JOB_ID_TEXT_MAX}")]
    TooLong {
        /// Length of the text.
        given: usize,
    },
    /// A character that the spelling does not know.
    #[error("job id `{given}` is not {spelling}: unexpected `{unexpected}`")]
    Digit {
        /// The text as given.
        given: String,
        /// The spelling its first characters announced.
        spelling: Spelling,
        /// The first character that does not belong.
        unexpected: char,
    },
    /// The prefix is there and no digits follow.
    #[error("job id `{given}` is not {spelling}: no digits")]
    NoDigits {
        /// The text as given.
        given: String,
        /// The spelling its first characters announced.
        spelling: Spelling,
    },
    /// Dothex has not four groups of one to four digits.
    #[error("job id `{given}` is not dothex: allowed are 4 groups of 1 to 4 digits")]
    Groups {
        /// The text as given.
        given: String,
    },
    /// More than 64 bits.
    #[error("job id `{given}` is over {}", u64::MAX)]
    Overflow {
        /// The text as given.
        given: String,
    },
}

/// The spellings of a job id that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// Four groups of hexadecimal digits with dots between.
    Dothex,
    /// Base 58 after `ƒ` or `f`.
    F58,
    /// Hexadecimal after `0x`.
    Hex,
    /// Decimal.
    Decimal,
}

impl fmt::Display for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spelling::Dothex => "dothex",
            Spelling::F58 => "F58",
            Spelling::Hex => "hexadecimal",
            Spelling::Decimal => "decimal",
        })
    }
}

impl JobId {
    /// F58 with the prefix `ƒ` (U+0192), as Flux prints it.
    pub fn f58(self) -> String {
        let mut text = String::from("ƒ");
        self.push_f58(&mut text);
        text
    }

    /// F58 with the prefix `f`, for terminals and file names without UTF-8.
    pub fn f58_ascii(self) -> String {
        let mut text = String::from("f");
        self.push_f58(&mut text);
        text
    }

    /// Four groups of four hexadecimal digits, as RFC 16 names a job's directory.
    pub fn dothex(self) -> String {
        let n = self.0;
        let group = |shift: u32| (n >> shift) & 0xffff;
        format!(
            "{:04x}.{:04x}.{:04x}.{:04x}",
            group(48),
            group(32),
            group(16),
            group(0)
        )
    }

    fn push_f58(self, text: &mut String) {
        let mut digits = [0u8; 11];
        let mut used = 0;
        let mut rest = self.0;
        loop {
            digits[used] = ALPHABET[(rest % 58) as usize];
            used += 1;
            rest /= 58;
            if rest == 0 {
                break;
            }
        }
        text.extend(digits[..used].iter().rev().map(|&digit| digit as char));
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for JobId {
    type Err = JobIdError;

    /// Decodes in the order of RFC 19: dothex, F58, hexadecimal, decimal. White space around
    /// the id is dropped. Words and emoji are not understood.
    fn from_str(text: &str) -> Result<JobId, JobIdError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(JobIdError::Empty);
        }
        if text.len() > JOB_ID_TEXT_MAX {
            return Err(JobIdError::TooLong { given: text.len() });
        }
        let number = if text.contains('.') {
            parse_dothex(text)?
        } else if let Some(digits) = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f')) {
            parse_digits(text, digits, Spelling::F58, 58, f58_digit)?
        } else if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            parse_digits(text, digits, Spelling::Hex, 16, hex_digit)?
        } else {
            parse_digits(text, text, Spelling::Decimal, 10, |c| {
                c.to_digit(10).map(u64::from)
            })?
        };
        Ok(JobId(number))
    }
}

fn f58_digit(c: char) -> Option<u64> {
    ALPHABET
        .iter()
        .position(|&letter| letter as char == c)
        .map(|at| at as u64)
}

fn hex_digit(c: char) -> Option<u64> {
    c.to_digit(16).map(u64::from)
}

fn parse_digits(
    given: &str,
    digits: &str,
    spelling: Spelling,
    base: u64,
    value: fn(char) -> Option<u64>,
) -> Result<u64, JobIdError> {
    if digits.is_empty() {
        return Err(JobIdError::NoDigits {
            given: given.to_owned(),
            spelling,
        });
    }
    let mut number: u64 = 0;
    for c in digits.chars() {
        let Some(digit) = value(c) else {
            return Err(JobIdError::Digit {
                given: given.to_owned(),
                spelling,
                unexpected: c,
            });
        };
        number = number
            .checked_mul(base)
            .and_then(|shifted| shifted.checked_add(digit))
            .ok_or_else(|| JobIdError::Overflow {
                given: given.to_owned(),
            })?;
    }
    Ok(number)
}

fn parse_dothex(given: &str) -> Result<u64, JobIdError> {
    let wrong_groups = || JobIdError::Groups {
        given: given.to_owned(),
    };
    let mut number: u64 = 0;
    let mut groups = 0;
    for group in given.split('.') {
        groups += 1;
        if groups > 4 || group.is_empty() || group.len() > 4 {
            return Err(wrong_groups());
        }
        number = number << 16 | parse_digits(given, group, Spelling::Dothex, 16, hex_digit)?;
    }
    if groups == 4 {
        Ok(number)
    } else {
        Err(wrong_groups())
    }
}

/// A number in a struct of its own: on the wire it is the number.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize,
            Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number after this one; a number that runs out is a bug and panics.
            #[must_use]
            pub fn next(self) -> $name {
                $name(self.0.checked_add(1).expect(concat!(stringify!($name), " has a next number")))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<$name, Self::Err> {
                text.trim().parse().map($name)
            }
        }
    };
}

number! {
    /// One run of a job, counted from 1. Grant, start, exit and usage carry (job, attempt).
    Attempt, u32
}
number! {
    /// An instance's presence on one node. Never reused in an instance.
    Rank, u32
}
number! {
    /// A record's place in the journal: dense, from 1; 0 is before the first record.
    Seq, u64
}
number! {
    /// One life of something that may be restarted, counted up so that the old is told from
    /// the new.
    Epoch, u64
}
