//! A configuration as tables: keys put over it, what of it may change while an instance runs, and
//! what differs between two.
//!
//! Entries of lists go by their names: `queue.debug.max_time`. It knows which keys may change
//! ([`LIVE`]), not what they mean; the tables it makes are read by [`super::load`] as any file.

use eddy_modules::keys::Keys;
use toml::{Table, Value};

use super::{ConfigError, typed};

/// Lists of tables with names.
pub(super) const LISTS: [&str; 6] = ["ingest.filter", "instance", "queue", "qos", "class", "pool"];
/// What may change while an instance runs, with all below it.
const LIVE: [&str; 19] = [
    "access",
    "policy",
    "queue",
    "qos",
    "class",
    "pool",
    "ingest.filter",
    "defaults.time",
    "history.keep_age",
    "history.keep_jobs",
    "limits.clients",
    "limits.user_clients",
    "limits.user_outstanding",
    "limits.user_rate",
    "limits.outstanding",
    "limits.reply_bytes",
    "limits.waiting_jobs",
    "limits.user_jobs",
    "limits.user_copies",
];
/// What may change of an `[[instance]]` whose ranks do not.
const LENT: [&str; 2] = ["home", "lend_max"];
const FILTERS: &str = "ingest.filter";
const INSTANCES: &str = "instance";

/// `KEY=VALUE`; nothing behind `=` takes the key out.
fn pair(given: &str) -> Option<(String, Option<Value>)> {
    let (path, text) = given.split_once('=')?;
    let text = text.trim();
    let value = (!text.is_empty()).then(|| typed(text));
    Some((path.trim().to_owned(), value))
}

/// The list that a path is in, and the rest of it: the name of an entry, and its key.
pub fn list_of(path: &str) -> Option<(&'static str, &str)> {
    LISTS.iter().find_map(|list| {
        let rest = path.strip_prefix(list)?.strip_prefix('.')?;
        Some((*list, rest))
    })
}

/// The path of a key with the name of an entry of a list in place of its number, where it has one.
pub(super) fn by_name(table: &Table, path: &str) -> String {
    let named = |list: &'static str| {
        let (number, rest) = path
            .strip_prefix(list)?
            .strip_prefix('[')?
            .split_once(']')?;
        let mut entries = Some(table);
        let (place, last) = list.rsplit_once('.').unwrap_or(("", list));
        if !place.is_empty() {
            entries = table.get(place)?.as_table();
        }
        let entries = entries?.get(last)?.as_array()?;
        let name = name(entries.get(number.parse::<usize>().ok()?)?)?;
        Some(format!("{list}.{name}{rest}"))
    };
    let found = LISTS.into_iter().find_map(named);
    found.unwrap_or_else(|| path.to_owned())
}

/// A text with keys put over it.
///
/// # Errors
/// All: it is no TOML, a key has no value, or is of an entry that is not there.
pub fn over(text: &str, overrides: &[String]) -> Result<Table, Vec<ConfigError>> {
    let mut table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| vec![ConfigError::Syntax(error.message().to_owned())])?;
    over_table(&mut table, overrides)?;
    Ok(table)
}

/// Puts keys over a table.
///
/// # Errors
/// All: a key has no value, or is of an entry that is not there.
pub fn over_table<'g>(
    table: &mut Table,
    overrides: impl IntoIterator<Item = &'g String>,
) -> Result<(), Vec<ConfigError>> {
    let mut errors = Vec::new();
    for given in overrides {
        match pair(given) {
            Some((path, value)) => errors.extend(put(table, &path, value).err()),
            None => errors.push(ConfigError::Override {
                given: given.clone(),
            }),
        }
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(errors),
    }
}

/// Puts a value where a path leads, or takes it out.
///
/// # Errors
/// The path is of an entry of a list that is not there, or goes through what is no table.
pub fn put(table: &mut Table, path: &str, value: Option<Value>) -> Result<(), ConfigError> {
    let Some((list, rest)) = list_of(path) else {
        return put_in(table, path, path, value);
    };
    let entries = array_mut(table, list)
        .map(Vec::as_mut_slice)
        .unwrap_or_default();
    let names: Vec<String> = entries.iter().filter_map(name).collect();
    // A name may have a dot in it.
    let is_it = |name: &&String| {
        rest.strip_prefix(name.as_str())
            .is_some_and(|rest| rest.starts_with('.'))
    };
    let Some(found) = names.iter().filter(is_it).max_by_key(|name| name.len()) else {
        return Err(ConfigError::NoEntry {
            path: path.to_owned(),
            list: list.to_owned(),
            known: match names.is_empty() {
                true => "none".to_owned(),
                false => names.join(", "),
            },
        });
    };
    let mut entries = entries.iter_mut();
    let entry = entries.find(|entry| name(entry).as_ref() == Some(found));
    match entry.and_then(Value::as_table_mut) {
        Some(entry) => put_in(entry, path, &rest[found.len() + 1..], value),
        None => Ok(()),
    }
}

fn put_in(
    table: &mut Table,
    path: &str,
    rest: &str,
    value: Option<Value>,
) -> Result<(), ConfigError> {
    let Some((first, rest)) = rest.split_once('.') else {
        match value {
            Some(value) => drop(table.insert(rest.to_owned(), value)),
            None => drop(table.remove(rest)),
        }
        return Ok(());
    };
    let inner = table
        .entry(first.to_owned())
        .or_insert_with(|| Value::Table(Table::new()));
    match inner {
        Value::Table(inner) => put_in(inner, path, rest, value),
        _ => Err(ConfigError::Unknown {
            path: path.to_owned(),
        }),
    }
}

fn name(entry: &Value) -> Option<String> {
    Some(entry.as_table()?.get("name")?.as_str()?.to_owned())
}

fn at<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    match rest {
        None => table.get(first),
        Some(rest) => at(table.get(first)?.as_table()?, rest),
    }
}

fn array_mut<'t>(table: &'t mut Table, path: &str) -> Option<&'t mut Vec<Value>> {
    match path.split_once('.') {
        None => table.get_mut(path)?.as_array_mut(),
        Some((first, rest)) => array_mut(table.get_mut(first)?.as_table_mut()?, rest),
    }
}

/// Whether a key may change while an instance runs.
pub fn is_live(path: &str) -> bool {
    let within = |live: &str| {
        let rest = path.strip_prefix(live);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let lent = || {
        let key = list_of(path).filter(|(list, _)| *list == INSTANCES);
        key.is_some_and(|(_, rest)| LENT.iter().any(|key| rest.ends_with(&format!(".{key}"))))
    };
    LIVE.iter().any(|live| within(live)) || lent()
}

/// What is in force, with what may change as another has it.
pub fn merged(in_force: &Table, other: &Table) -> Table {
    let mut merged = in_force.clone();
    for path in LIVE {
        // The path goes through tables only: both were read.
        let _ = put_in(&mut merged, path, path, at(other, path).cloned());
    }
    let others = at(other, INSTANCES).and_then(Value::as_array);
    let others: Vec<&Table> = others
        .into_iter()
        .flatten()
        .filter_map(Value::as_table)
        .collect();
    let own = array_mut(&mut merged, INSTANCES);
    for entry in own.into_iter().flatten().filter_map(Value::as_table_mut) {
        let same = |other: &&&Table| {
            ["name", "elastic"]
                .iter()
                .all(|key| other.get(*key) == entry.get(*key))
        };
        if let Some(other) = others.iter().find(same) {
            for key in LENT {
                match other.get(key) {
                    Some(value) => drop(entry.insert(key.to_owned(), value.clone())),
                    None => drop(entry.remove(key)),
                }
            }
        }
    }
    merged
}

/// What is different in `to`, a line each, by path.
pub fn differences(from: &Table, to: &Table) -> Vec<String> {
    keys(from).differences(&keys(to))
}

/// A table by paths.
pub fn keys(table: &Table) -> Keys {
    let mut keys = Keys::default();
    add(&mut keys, "", table);
    keys
}

fn add(keys: &mut Keys, prefix: &str, table: &Table) {
    for (key, value) in table {
        let path = match prefix {
            "" => key.clone(),
            prefix => format!("{prefix}.{key}"),
        };
        match value {
            Value::Table(inner) => add(keys, &path, inner),
            Value::Array(list) if LISTS.contains(&path.as_str()) => add_list(keys, &path, list),
            value => drop(keys.values.insert(path, value.to_string())),
        }
    }
}

fn add_list(keys: &mut Keys, path: &str, list: &[Value]) {
    let mut names = Vec::new();
    for entry in list {
        let (Some(name), Some(inner)) = (name(entry), entry.as_table()) else {
            continue;
        };
        let path = format!("{path}.{name}");
        add(keys, &path, inner);
        keys.entries.insert(path);
        names.push(name);
    }
    if path == FILTERS {
        keys.ordered = Some((path.to_owned(), names));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().expect("TOML")
    }

    fn check(from: &str, to: &str, lines: &[&str]) {
        assert_eq!(differences(&table(from), &table(to)), lines);
    }

    #[test]
    fn differences_go_by_names_and_tell_what_was_and_is() {
        check("", "", &[]);
        check("[tree]\nfanout = 3\n", "tree.fanout = 3\n", &[]);
        check(
            "[[queue]]\nname = \"a\"\n[[queue]]\nname = \"b\"\nmax_nodes = 2\n",
            "[[queue]]\nname = \"b\"\nmax_time = \"1h\"\n[[queue]]\nname = \"c\"\nmax_nodes = 1\n",
            &[
                "queue.a: removed",
                "queue.c: added",
                "queue.b.max_nodes: 2 -> unset",
                "queue.b.max_time: unset -> \"1h\"",
            ],
        );
        check(
            "[[ingest.filter]]\nname = \"a\"\n[[ingest.filter]]\nname = \"b\"\n",
            "[[ingest.filter]]\nname = \"b\"\n[[ingest.filter]]\nname = \"a\"\n",
            &["ingest.filter: a, b -> b, a"],
        );
    }

    #[test]
    fn a_key_of_an_entry_is_put_in_by_its_name() {
        let text = "[[qos]]\nname = \"a\"\n[[qos]]\nname = \"a.b\"\nlimits = { cores = 4 }\n";
        let set = [
            "qos.a.b.limits.cores=2".to_owned(),
            "qos.a.priority=1.0".to_owned(),
        ];
        let set = over(text, &set).expect("both are there");
        let lines = differences(&table(text), &set);
        assert_eq!(
            lines,
            [
                "qos.a.b.limits.cores: 4 -> 2",
                "qos.a.priority: unset -> 1.0"
            ]
        );
        let none = over(
            text,
            &["qos.c.priority=1".to_owned(), "pool.x.count=1".to_owned()],
        );
        let none: Vec<String> = none
            .err()
            .into_iter()
            .flatten()
            .map(|e| e.to_string())
            .collect();
        assert_eq!(
            none,
            [
                "qos.c.priority: there is no such [[qos]]; there are a, a.b",
                "pool.x.count: there is no such [[pool]]; there are none",
            ]
        );
        let unset = over(text, &["qos.a.b.limits.cores=".to_owned()]).expect("there");
        assert_eq!(
            differences(&table(text), &unset),
            ["qos.a.b.limits.cores: 4 -> unset"]
        );
    }

    #[test]
    fn what_counts_from_a_start_on_stays_as_it_is() {
        let was = "[tree]\nfanout = 3\n[limits]\nuser_rate = 5\nspool_bytes = \"1M\"\n[[instance]]\nname = \"a\"\nelastic = \"all\"\nhome = \"0\"\n";
        let is = "[tree]\nfanout = 4\n[limits]\nuser_rate = 6\n[[instance]]\nname = \"a\"\nelastic = \"all\"\nlend_max = \"1h\"\nhome = \"1\"\n[[instance]]\nname = \"b\"\nnodes = 1\n[[pool]]\nname = \"x\"\ncount = 1\n";
        let (was, is) = (table(was), table(is));
        let merged = merged(&was, &is);
        assert_eq!(
            differences(&was, &merged),
            [
                "pool.x: added",
                "instance.a.home: \"0\" -> \"1\"",
                "instance.a.lend_max: unset -> \"1h\"",
                "limits.user_rate: 5 -> 6",
            ]
        );
        assert_eq!(
            differences(&merged, &is),
            [
                "instance.b: added",
                "limits.spool_bytes: \"1M\" -> unset",
                "tree.fanout: 3 -> 4",
            ]
        );
        assert!(is_live("queue.debug.max_time") && is_live("instance.a.home"));
        assert!(!is_live("queues") && !is_live("instance.a.nodes") && !is_live("rank.log"));
    }
}
