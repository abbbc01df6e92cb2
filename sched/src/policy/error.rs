//! What can be wrong with a policy: a line, the path of a key, and what is
//! given against what is allowed.
//!
//! Made by `read` and `agree`; shown by `eddy policy check` and with the errors
//! of the configuration.

use thiserror::Error;

use super::presets::PRESETS;
use crate::priority::FormulaError;

/// What is wrong with one key of a policy.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{}{}{wrong}", place(.line), key(.path))]
pub struct PolicyError {
    /// The line it stands on, counted from 1; `None` for what stands in no text.
    pub line: Option<u32>,
    /// The path of the key, as `usage.decay.half`; empty for the text as a whole.
    pub path: String,
    /// What is wrong.
    pub wrong: Wrong,
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Wrong {
    /// The text is not TOML.
    #[error("policy is not TOML: {message}")]
    Syntax {
        /// What the reader of TOML says.
        message: String,
    },
    /// No such key.
    #[error("unknown key{}", there_is(.nearest))]
    Unknown {
        /// The key that is nearest to it.
        nearest: Option<String>,
    },
    /// A value that the key does not take.
    #[error("is {given}; allowed is {allowed}")]
    Value {
        /// What is there.
        given: String,
        /// What belongs there.
        allowed: String,
    },
    /// A key of another variant.
    #[error("belongs to {of}; the policy has {here}")]
    Foreign {
        /// What it is a part of, as `algorithm = "ticket"`.
        of: String,
        /// What the policy has instead.
        here: String,
    },
    /// A name that is none.
    #[error("the name {given} is not allowed; allowed is {allowed}")]
    Name {
        /// As given.
        given: String,
        /// What names are.
        allowed: &'static str,
    },
    /// No preset of that name.
    #[error("is {given}; there is no such preset{}", there_is_or_are(.nearest))]
    Preset {
        /// As given.
        given: String,
        /// The preset that is nearest to it.
        nearest: Option<String>,
    },
    /// A formula that is none.
    #[error(transparent)]
    Formula(FormulaError),
    /// Two keys that do not go together.
    #[error("is {given}, which needs {needed}; the policy has {here}")]
    Needs {
        /// What is there.
        given: String,
        /// What must be there with it.
        needed: String,
        /// What is there instead.
        here: String,
    },
}

fn place(line: &Option<u32>) -> String {
    line.map_or_else(String::new, |line| format!("line {line}: "))
}

fn key(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    }
}

fn there_is_or_are(nearest: &Option<String>) -> String {
    match nearest {
        Some(_) => there_is(nearest),
        None => {
            let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            format!("; there are {}", names.join(", "))
        }
    }
}

fn there_is(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |name| format!("; there is {name}"))
}

/// The name nearest to what was given, if any is near: at most one change in three characters.
pub(super) fn nearest<'a>(
    given: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let most = given.chars().take(LOOKED_AT).count() / 3 + 1;
    names
        .into_iter()
        .map(|name| (distance(given, name), name))
        .min()
        .filter(|&(distance, _)| distance <= most)
        .map(|(_, name)| name)
}

/// As much of a name as is compared: longer ones are no slip of the hand.
const LOOKED_AT: usize = 64;

/// How many characters must be put in, taken out or changed.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().take(LOOKED_AT).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.chars().take(LOOKED_AT).enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = before + usize::from(letter != *other);
            before = row[column + 1];
            row[column + 1] = changed.min(before + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}
