//! Filters of submissions: programs of the administrator that accept, change or refuse what is
//! submitted before it is a job.
//!
//! Ingest asks and obeys ([`Asked`], [`Ruling`]); the driver carries lines between it and the
//! processes. What a filter changed is recorded with the job ([`Filtered`]). Starts nothing itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::account::Name;
use crate::time::Span;

/// The most filters of an instance.
pub const FILTERS_MAX: usize = 16;
/// How long a filter may take for a submission where nothing is said.
pub const TIMEOUT_DEFAULT: Span = Span::seconds(5);
/// The longest that may be said.
pub const TIMEOUT_MAX: Span = Span::seconds(60);
/// The longest answer, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The longest reason of a refusal, in bytes.
pub const REASON_BYTES_MAX: usize = 1024;
/// What a filter may change of a submission.
pub const FIELDS: &[&str] = &[
    "account",
    "class",
    "name",
    "qos",
    "queue",
    "time_limit",
    "urgency",
];
/// The version of the lines.
const VERSION: u32 = 1;

/// One filter of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// What messages and records call it.
    pub name: Name,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How long it may take for one submission, its wait for the process included.
    pub timeout: Span,
    /// What becomes of a submission that it does not rule.
    pub on_failure: OnFailure,
}

/// What becomes of a submission whose filter is too late, ends, or answers what is no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// It is as if the filter were not there; that is recorded with the job.
    Accept,
    /// It is refused for now.
    #[default]
    Refuse,
}

/// A submission as a filter is told of it: one line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// Of the lines.
    pub version: u32,
    /// Whose jobs they are to be.
    pub user: u32,
    /// His name, where the host knows it.
    pub user_name: Option<String>,
    /// Who asked, where that is another.
    pub asked_by: Option<u32>,
    /// How many jobs.
    pub count: u32,
    /// `tasks`, or `instance` for `eddy batch` and `eddy alloc`.
    pub kind: &'static str,
    /// What may be changed, as it is asked for; null where nothing is.
    #[serde(flatten)]
    pub fields: BTreeMap<&'static str, Value>,
    /// The same with the defaults that the job would have, if it would be taken as it is.
    pub effective: Option<BTreeMap<&'static str, Value>>,
    /// Whole nodes or nodes asked for; null where it says cores only.
    pub nodes: Option<u64>,
    /// Cores in all, at least.
    pub cores: u64,
    /// GPUs in all, at least.
    pub gpus: u64,
    /// All that was asked for (RFC 14), without its environment.
    pub jobspec: Value,
}

impl Asked {
    /// The version that lines have.
    pub const VERSION: u32 = VERSION;
}

/// What came of asking a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// As it is.
    Accept,
    /// With these fields in place of those; null takes one out.
    Modify(Map<String, Value>),
    /// Not at all: why, in one line.
    Refuse(String),
    /// It said nothing that counts: why, in one line.
    Failed(String),
}

/// The answer of a filter, as it is sent.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
enum Answer {
    Accept {},
    Modify { set: Map<String, Value> },
    Refuse { reason: String },
}

impl Ruling {
    /// Reads a line of a filter: `{"action":"accept"}`, `{"action":"modify","set":{"queue":"long"}}`
    /// or `{"action":"refuse","reason":"why"}`.
    pub fn read(line: &[u8]) -> Ruling {
        let failed = |why: String| Ruling::Failed(format!("its answer is none: {why}"));
        match serde_json::from_slice(line) {
            Err(error) => failed(error.to_string()),
            Ok(Answer::Accept {}) => Ruling::Accept,
            Ok(Answer::Refuse { reason }) => match is_line(&reason) {
                true => Ruling::Refuse(reason),
                false => failed(format!(
                    "reason: one line of 1 to {REASON_BYTES_MAX} bytes is allowed"
                )),
            },
            Ok(Answer::Modify { set: fields }) => {
                let unknown = fields.keys().find(|key| !FIELDS.contains(&key.as_str()));
                match unknown {
                    None => Ruling::Modify(fields),
                    Some(key) => failed(format!(
                        "set: `{}` given, allowed are {}",
                        key.escape_debug(),
                        FIELDS.join(", ")
                    )),
                }
            }
        }
    }
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= REASON_BYTES_MAX && !text.contains(char::is_control)
}

/// What a filter did to a submission, kept with each of its jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filtered {
    /// Which one.
    pub filter: Name,
    /// What it changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changed: BTreeMap<String, Changed>,
    /// Why it ruled nothing, where that is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// One field that a filter changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// What was there.
    pub from: Value,
    /// What is there.
    pub to: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, ruling: &Ruling) {
        assert_eq!(&Ruling::read(line.as_bytes()), ruling, "{line}");
    }

    #[test]
    fn a_line_is_one_of_three_rulings_or_says_nothing() {
        check("{\"action\":\"accept\"}", &Ruling::Accept);
        check(
            "{\"action\":\"refuse\",\"reason\":\"no licence\"}",
            &Ruling::Refuse("no licence".to_owned()),
        );
        let fields = Map::from_iter([("queue".to_owned(), "long".into())]);
        check(
            "{\"action\":\"modify\",\"set\":{\"queue\":\"long\"}}",
            &Ruling::Modify(fields),
        );
        let failed = |why: &str| Ruling::Failed(format!("its answer is none: {why}"));
        check(
            "{\"action\":\"modify\",\"set\":{\"command\":\"rm\"}}",
            &failed(
                "set: `command` given, allowed are account, class, name, qos, queue, time_limit, urgency",
            ),
        );
        check(
            "{\"action\":\"refuse\",\"reason\":\"two\\nlines\"}",
            &failed("reason: one line of 1 to 1024 bytes is allowed"),
        );
        for line in [
            "",
            "yes",
            "[]",
            "{}",
            "{\"action\":\"delay\"}",
            "{\"action\":\"refuse\"}",
            "{\"action\":\"accept\",\"set\":{\"queue\":\"long\"}}",
        ] {
            let Ruling::Failed(_) = Ruling::read(line.as_bytes()) else {
                panic!("{line} is no answer");
            };
        }
    }
}
