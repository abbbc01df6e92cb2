//! Amounts of memory: `4G`, and what they are asked for.
//!
//! Units are binary whatever their spelling, as in Slurm and PBS: `4G`, `4GB`
//! and `4GiB` are 4 x 2^30 bytes.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;

use crate::field::{self, Object};

use super::JobspecError;

/// How much memory a job asks for, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryNeed {
    /// It does not say.
    #[default]
    None,
    /// On each node.
    PerNode(u64),
    /// For each core.
    PerCore(u64),
    /// For each task.
    PerTask(u64),
}

/// Why a text is not an amount of memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BytesError {
    /// No number at its start.
    #[error("`{given}` does not begin with a whole number")]
    NotANumber {
        /// As given.
        given: String,
    },
    /// Something else than a unit after the number.
    #[error("`{unit}` is not a unit; allowed are B, K, M, G, T, P and E, as K, KB or KiB")]
    Unit {
        /// What follows the number.
        unit: String,
    },
    /// More than fits.
    #[error("`{given}` is over {} bytes", i64::MAX)]
    Overflow {
        /// As given.
        given: String,
    },
}

/// The units by their letter, from 2^0 up in steps of 2^10.
const LETTERS: &str = "BKMGTPE";

/// Bytes of a text like `4G`, `4 GiB` or `4096`; a number without unit counts bytes.
pub fn parse_bytes(text: &str) -> Result<u64, BytesError> {
    let text = text.trim();
    let given = || text.chars().take(64).collect::<String>();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(BytesError::NotANumber { given: given() });
    }
    let unit = text[digits..].trim_start();
    let shift = unit_shift(unit).ok_or_else(|| BytesError::Unit {
        unit: unit.chars().take(64).collect(),
    })?;
    let number: u64 = text[..digits]
        .parse()
        .map_err(|_| BytesError::Overflow { given: given() })?;
    times_unit(number, shift).ok_or_else(|| BytesError::Overflow { given: given() })
}

/// A number of units as bytes; nothing if it does not fit.
pub(super) fn times_unit(number: u64, shift: u32) -> Option<u64> {
    number
        .checked_mul(1 << shift)
        .filter(|&bytes| bytes <= i64::MAX as u64)
}

/// The power of two that a unit stands for; no unit is 2^0.
pub(super) fn unit_shift(unit: &str) -> Option<u32> {
    let mut letters = unit.chars().map(|c| c.to_ascii_uppercase());
    let Some(letter) = letters.next() else {
        return Some(0);
    };
    let at = LETTERS.find(letter)?;
    let rest: String = letters.collect();
    let known = match (letter, rest.as_str()) {
        (_, "") => true,
        ('B', _) => false,
        (_, rest) => rest == "B" || rest == "IB",
    };
    known.then_some(at as u32 * 10)
}

/// The shortest exact text of an amount: `4G`, `1536M`, `1000`.
pub fn format_bytes(bytes: u64) -> String {
    let steps = (bytes.trailing_zeros() / 10).min(6);
    match steps {
        _ if bytes == 0 => "0".to_owned(),
        0 => bytes.to_string(),
        steps => format!(
            "{}{}",
            bytes >> (steps * 10),
            &LETTERS[steps as usize..=steps as usize]
        ),
    }
}

type OfBytes = fn(u64) -> MemoryNeed;

impl MemoryNeed {
    /// Takes the one of the three attributes that is there out of `system`.
    pub(super) fn take(system: &mut Object<'_>) -> Result<MemoryNeed, JobspecError> {
        const KINDS: [(&str, OfBytes); 3] = [
            ("memory_per_node", MemoryNeed::PerNode),
            ("memory_per_core", MemoryNeed::PerCore),
            ("memory_per_task", MemoryNeed::PerTask),
        ];
        let mut need = MemoryNeed::None;
        for (key, of_bytes) in KINDS {
            let Some(value) = system.take(key) else {
                continue;
            };
            let path = system.path.key(key);
            if need != MemoryNeed::None {
                return Err(JobspecError::MemoryTwice {
                    path: path.to_string(),
                });
            }
            let bytes = match value {
                Value::String(text) => {
                    parse_bytes(&text).map_err(|source| JobspecError::Memory {
                        path: path.to_string(),
                        source,
                    })?
                }
                Value::Number(_) => field::whole(&value, path, 1, i64::MAX as u64)?,
                other => {
                    return Err(field::wrong(path, &other, "a text like \"4G\", or bytes").into());
                }
            };
            need = of_bytes(bytes);
        }
        Ok(need)
    }
}

impl Serialize for MemoryNeed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (key, bytes) = match *self {
            MemoryNeed::None => return serializer.serialize_map(Some(0))?.end(),
            MemoryNeed::PerNode(bytes) => ("memory_per_node", bytes),
            MemoryNeed::PerCore(bytes) => ("memory_per_core", bytes),
            MemoryNeed::PerTask(bytes) => ("memory_per_task", bytes),
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(key, &format_bytes(bytes))?;
        map.end()
    }
}
