//! `limits` and `user_limits` of a `[[qos]]` or a `[[queue]]`.
//!
//! Read by [`super::qos`] and [`super::queue`]; each entry that is wrong is told by its own key.

use eddy_wire::account::Limits;
use toml::{Table, Value};

use super::declared::Entry;
use super::{ConfigError, spell};

const TABLE: &str = "a table of running_jobs, submitted_jobs, nodes, cores, gpus, memory, job_nodes, job_cores, job_gpus, \
     job_memory, job_time, core_minutes, period, carry and excess";
const COUNT: &str = "a whole number from 0 to 4294967295";
const MEMORY: &str = "an amount such as \"64G\", or whole bytes";
const CARRY: &str = "a whole number from 0 to 100, beside core_minutes";
/// What may be had, and what each entry takes.
const ENTRIES: [(&str, &str); 15] = [
    ("running_jobs", COUNT),
    ("submitted_jobs", COUNT),
    ("nodes", COUNT),
    ("cores", COUNT),
    ("gpus", COUNT),
    ("memory", MEMORY),
    ("job_nodes", COUNT),
    ("job_cores", COUNT),
    ("job_gpus", COUNT),
    ("job_memory", MEMORY),
    ("job_time", "a time such as \"24h\", or \"inf\""),
    ("core_minutes", "a whole number of at least 0"),
    (
        "period",
        "\"day\", \"week\", \"month\", \"quarter\" or \"year\"",
    ),
    ("carry", CARRY),
    ("excess", "\"hold\", \"refuse\" or \"standby\""),
];

/// What a key of an entry says; nothing is limited where it is not given.
pub(super) fn limits(entry: &Entry, key: &str, errors: &mut Vec<ConfigError>) -> Limits {
    let Some(given) = entry.table.get(key) else {
        return Limits::default();
    };
    let Some(table) = given.as_table() else {
        errors.push(entry.wrong(key, given, TABLE));
        return Limits::default();
    };
    let before = errors.len();
    for (name, value) in table {
        let path = format!("{}.{key}.{name}", entry.path);
        errors.extend(wrong(path, name, value));
    }
    let read: Option<Limits> = Value::Table(table.clone()).try_into().ok();
    let limits = read.unwrap_or_default();
    let carry = table.get("carry").filter(|_| limits.check().is_err());
    if let (Some(given), true) = (carry, errors.len() == before) {
        errors.push(entry.wrong(&format!("{key}.carry"), given, CARRY));
    }
    limits
}

/// What is wrong with one entry by itself.
fn wrong(path: String, name: &str, value: &Value) -> Option<ConfigError> {
    let Some((_, allowed)) = ENTRIES.iter().find(|(known, _)| *known == name) else {
        let known = ENTRIES.map(|(known, _)| known).join(", ");
        return Some(ConfigError::UnknownHere { path, known });
    };
    let alone = Table::from_iter([(name.to_owned(), value.clone())]);
    let read: Result<Limits, _> = Value::Table(alone).try_into();
    let is_right = read.is_ok_and(|limits| limits.carry <= 100);
    (!is_right).then(|| ConfigError::Value {
        path,
        given: spell(value),
        allowed,
    })
}
