//! The SHA-256 of some bytes, as a name for them.
//!
//! The journal names shared blobs by it (environments, templates) and ingest
//! compares two jobspecs of one key by it. It is not a signature: it proves
//! nothing about who wrote the bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// SHA-256 of bytes; text and JSON are 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

/// The digits of its text.
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Why a text is not a hash.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HashError {
    /// Not 64 bytes of text.
    #[error("hash has {given} characters; allowed are exactly 64")]
    Length {
        /// Length of the text, in bytes.
        given: usize,
    },
    /// Not a hexadecimal digit.
    #[error("hash has `{unexpected}` at position {at}; allowed are 0-9 and a-f")]
    Digit {
        /// The character.
        unexpected: char,
        /// Its place, from 0, in bytes.
        at: usize,
    },
}

impl Hash {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }

    fn digits(&self) -> [u8; 64] {
        let mut all = [0u8; 64];
        for (digits, byte) in all.chunks_exact_mut(2).zip(self.0) {
            digits[0] = DIGITS[usize::from(byte >> 4)];
            digits[1] = DIGITS[usize::from(byte & 15)];
        }
        all
    }
}

fn text(digits: &[u8; 64]) -> &str {
    std::str::from_utf8(digits).expect("hexadecimal digits are ASCII")
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(text(&self.digits()))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl FromStr for Hash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Hash, HashError> {
        if text.len() != 64 {
            return Err(HashError::Length { given: text.len() });
        }
        let mut bytes = [0u8; 32];
        for (at, c) in text.char_indices() {
            let digit = match c {
                '0'..='9' => c as u8 - b'0',
                'a'..='f' => c as u8 - b'a' + 10,
                unexpected => return Err(HashError::Digit { unexpected, at }),
            };
            bytes[at / 2] = bytes[at / 2] << 4 | digit;
        }
        Ok(Hash(bytes))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // At once, and past the formatter: each submission is recorded with two of them and passed with two.
        serializer.serialize_str(text(&self.digits()))
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
