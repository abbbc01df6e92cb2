//! One line of an eventlog (RFC 18): a JSON object with a time, a name and,
//! perhaps, a context.
//!
//! What `job eventlog` prints and exports carry. Knows no event: names and
//! contexts are `event.rs`'s.

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::fsd::{NUMBER_MAX, SECOND, micros_of_seconds};

/// The longest line, in bytes (the limit of a message).
pub const EVENT_LINE_MAX: usize = 16 << 20;

/// One event as a line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventLine {
    /// Seconds since 1970, above 0, to the microsecond.
    pub timestamp: f64,
    /// What happened; never empty.
    pub name: String,
    /// What belongs to it.
    #[serde(default)]
    pub context: Option<Map<String, Value>>,
}

/// Why a line is not an event.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum EventLineError {
    /// Longer than [`EVENT_LINE_MAX`].
    #[error("event line has {given} bytes; allowed are at most {EVENT_LINE_MAX}")]
    TooLong {
        /// Its length.
        given: usize,
    },
    /// More than one line.
    #[error("event line has a line break at position {at}; an event is one line")]
    LineBreak {
        /// Where, in bytes from 0.
        at: usize,
    },
    /// Not JSON, or not the keys of an event.
    #[error("event line, column {column}: {what}")]
    Syntax {
        /// Column, from 1.
        column: usize,
        /// What the reader of JSON says.
        what: String,
    },
    /// A time that is not after 1970.
    #[error("event `timestamp` is {given}; allowed are seconds above 0, at most {}", NUMBER_MAX / SECOND)]
    Timestamp {
        /// As given.
        given: f64,
    },
    /// An event without a name.
    #[error("event `name` is empty")]
    NoName,
}

impl EventLine {
    /// An event at `micros` microseconds since 1970.
    pub fn at(micros: i64, name: String, context: Option<Map<String, Value>>) -> EventLine {
        EventLine {
            timestamp: micros as f64 / SECOND as f64,
            name,
            context,
        }
    }

    /// Its time in microseconds since 1970; 0 if `timestamp` is none that can be read.
    pub fn micros(&self) -> i64 {
        micros_of_seconds(self.timestamp).unwrap_or(0)
    }

    /// Reads one line; a line break at its end may be there or not.
    pub fn parse(line: &str) -> Result<EventLine, EventLineError> {
        if line.len() > EVENT_LINE_MAX {
            return Err(EventLineError::TooLong { given: line.len() });
        }
        let line = line.strip_suffix('\n').unwrap_or(line);
        if let Some(at) = line.find('\n') {
            return Err(EventLineError::LineBreak { at });
        }
        let mut event: EventLine =
            serde_json::from_str(line).map_err(|error| EventLineError::Syntax {
                column: error.column(),
                what: error.to_string(),
            })?;
        match micros_of_seconds(event.timestamp) {
            Ok(micros) if micros > 0 => event.timestamp = micros as f64 / SECOND as f64,
            _ => {
                return Err(EventLineError::Timestamp {
                    given: event.timestamp,
                });
            }
        }
        if event.name.is_empty() {
            return Err(EventLineError::NoName);
        }
        Ok(event)
    }

    /// The line, with its line break. The time is written with six decimals, so that the
    /// same event is always the same bytes.
    pub fn encode(&self) -> String {
        let micros = self.micros();
        let name = Value::from(self.name.as_str());
        let (whole, part) = (micros / SECOND, micros % SECOND);
        let context = match &self.context {
            None => String::new(),
            Some(context) => {
                let text = serde_json::to_string(context).expect("a JSON object is JSON");
                format!(",\"context\":{text}")
            }
        };
        format!("{{\"timestamp\":{whole}.{part:06},\"name\":{name}{context}}}\n")
    }
}
