//! Names of accounts, QoS and classes.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use super::{NAME_BYTES_MAX, ROOT};

/// 1 to 64 of `A-Z a-z 0-9 - _ .`, first a letter, a digit or `_`; not `root`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// What is no name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{}` is no name; allowed are 1 to {NAME_BYTES_MAX} characters A-Z, a-z, 0-9, -, _ and . that begin with a letter, a digit or _, other than root",
    given.escape_debug()
)]
pub struct NameError {
    /// As given, its first characters.
    pub given: String,
}

impl Name {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As text that is shared.
    pub fn text(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

// Names are ordered as their texts are.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        let first = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
        let is_name = text.len() <= NAME_BYTES_MAX
            && text.bytes().next().is_some_and(first)
            && text.bytes().all(allowed)
            && text != ROOT;
        match is_name {
            true => Ok(Name(text.into())),
            false => Err(NameError {
                given: text.chars().take(NAME_BYTES_MAX + 1).collect(),
            }),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
