//! `[[ingest.filter]]`: programs of the administrator that look at submissions before they are jobs.
//!
//! Read by [`super::load`]. Whether a program is there is found out when it is started.

use eddy_wire::account::Name;
use eddy_wire::filter::{FILTERS_MAX, Filter, OnFailure, TIMEOUT_DEFAULT, TIMEOUT_MAX};
use eddy_wire::fsd::seconds_of_micros;
use serde_json::{Value as Json, json};
use toml::{Table, Value};

use super::declared::{Entry, entries, unique};
use super::keys::span;
use super::qos::value;
use super::{Config, ConfigError};

const TABLE: &str = "ingest";
const LIST: &str = "filter";
const NAME: &str = "a name of 1 to 64 characters A-Z, a-z, 0-9, -, _ and ., other than root";
const COMMAND: &str = "a list of texts: the program and its arguments";
const TIMEOUT: &str = "a duration of more than 0 and at most 60 s, such as \"5s\"";
const ON_FAILURE: &str = "\"accept\" or \"refuse\"";
const MANY: &str = "at most 16 of them";
const KEYS: &[&str] = &["name", "command", "timeout", "on_failure"];

/// Takes `ingest.filter` out of the document's tables.
pub(super) fn take(config: &mut Config, table: &mut Table, errors: &mut Vec<ConfigError>) {
    let Some(Value::Table(ingest)) = table.get_mut(TABLE) else {
        return;
    };
    let mut found = entries(ingest, LIST, errors);
    for entry in &mut found {
        entry.path = format!("{TABLE}.{}", entry.path);
    }
    if ingest.is_empty() {
        table.remove(TABLE);
    }
    unique(LIST, &found, errors);
    let filters = found.iter().filter_map(|entry| filter(entry, errors));
    config.instance.filters = filters.collect();
    if let Some(beyond) = found.get(FILTERS_MAX) {
        let given = Value::from(found.len() as i64);
        errors.push(beyond.wrong("name", &given, MANY));
    }
}

fn filter(entry: &Entry, errors: &mut Vec<ConfigError>) -> Option<Filter> {
    entry.unknown(KEYS, errors);
    for (key, allowed) in [("name", NAME), ("command", COMMAND)] {
        if !entry.table.contains_key(key) {
            errors.push(entry.missing(key, allowed));
        }
    }
    let named = |value: &Value| Some(Some(value.as_str()?.parse::<Name>().ok()?));
    let name = value(entry, "name", NAME, None, named, errors);
    let command = value(entry, "command", COMMAND, None, command, errors);
    let time = |value: &Value| span(value).filter(|span| span.0 > 0 && *span <= TIMEOUT_MAX);
    let on_failure = |value: &Value| match value.as_str()? {
        "accept" => Some(OnFailure::Accept),
        "refuse" => Some(OnFailure::Refuse),
        _ => None,
    };
    let refuse = OnFailure::default();
    let timeout = value(entry, "timeout", TIMEOUT, TIMEOUT_DEFAULT, time, errors);
    let on_failure = value(entry, "on_failure", ON_FAILURE, refuse, on_failure, errors);
    Some(Filter {
        name: name?,
        command: command?,
        timeout,
        on_failure,
    })
}

fn command(value: &Value) -> Option<Option<Vec<String>>> {
    let words = value.as_array().filter(|words| !words.is_empty())?;
    let word = |word: &Value| {
        let word = word.as_str().filter(|word| !word.contains('\0'))?;
        Some(word.to_owned())
    };
    let words: Vec<String> = words.iter().map(word).collect::<Option<_>>()?;
    (!words[0].is_empty()).then_some(Some(words))
}

/// As it stands in the configuration.
pub(super) fn to_json(filters: &[Filter]) -> Json {
    let one = |filter: &Filter| {
        json!({
            "name": filter.name,
            "command": filter.command,
            "timeout": seconds_of_micros(filter.timeout.0),
            "on_failure": filter.on_failure,
        })
    };
    filters.iter().map(one).collect()
}
