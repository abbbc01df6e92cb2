//! `[[pool]]`: counts of things that are on no node.
//!
//! Read by [`super::load`].

use eddy_wire::pool::{POOLS_MAX, Pool};
use toml::{Table, Value};

use super::declared::{entries, unique};
use super::{Config, ConfigError};

const NAME: &str = "a name of 1 to 64 characters A-Z, a-z, 0-9, -, _ and ., other than root";
const COUNT: &str = "a whole number of at least 0";
const MANY: &str = "at most 256 of them";
const KEYS: &[&str] = &["name", "count"];

/// Takes `pool` out of the document's tables.
pub(super) fn take(config: &mut Config, table: &mut Table, errors: &mut Vec<ConfigError>) {
    let found = entries(table, "pool", errors);
    unique("pool", &found, errors);
    for one in &found {
        one.unknown(KEYS, errors);
        let mut read = |key: &str, allowed| match one.table.get(key) {
            Some(given) => Some(given.clone()),
            None => {
                errors.push(one.missing(key, allowed));
                None
            }
        };
        let (name, count) = (read("name", NAME), read("count", COUNT));
        let parsed = name.as_ref().and_then(Value::as_str);
        let parsed = parsed.and_then(|name| name.parse().ok());
        if let (Some(given), None) = (&name, &parsed) {
            errors.push(one.wrong("name", given, NAME));
        }
        let many = count.as_ref().and_then(Value::as_integer);
        let many = many.and_then(|count| u64::try_from(count).ok());
        if let (Some(given), None) = (&count, many) {
            errors.push(one.wrong("count", given, COUNT));
        }
        if let (Some(name), Some(count)) = (parsed, many) {
            config.instance.pools.push(Pool { name, count });
        }
    }
    if let Some(beyond) = found.get(POOLS_MAX) {
        let given = Value::from(found.len() as i64);
        errors.push(beyond.wrong("name", &given, MANY));
    }
}
