//! One key of the text of a configuration file.
//!
//! Used by `eddy --at DIR config set`. Comments and order stay; whether the result is a configuration
//! is checked by the caller.

use std::ops::Range;

use anyhow::bail;
use eddy_brokerd::config::{self, ConfigError, tables};
use serde_json::Value;

/// The text with one key set: its line is replaced where there is one, else
/// added to its table. Comments and order stay.
pub(super) fn replaced(text: &str, key: &str, value: &str) -> anyhow::Result<String> {
    if let Some((list, rest)) = tables::list_of(key) {
        return in_entry(text, (list, rest), key, value);
    }
    let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
    if name.is_empty() {
        bail!("{key}: is not a key");
    }
    let line = format!("{name} = {}", toml_value(key, value));
    let mut lines: Vec<&str> = text.lines().collect();
    let heading = |line: &str| {
        let inner = line.trim().strip_prefix('[')?.split(']').next()?;
        Some(
            inner
                .split('.')
                .map(str::trim)
                .collect::<Vec<_>>()
                .join("."),
        )
    };
    let (mut current, mut end, mut place) = (String::new(), None, None);
    for (at, text) in lines.iter().enumerate() {
        if let Some(next) = heading(text) {
            current = next;
        }
        let dotted = text
            .split_once('=')
            .map(|(left, _)| join(&current, left.trim()));
        if dotted.as_deref() == Some(key) {
            place = Some(at);
        }
        if current == table && !text.trim().is_empty() {
            end = Some(at + 1);
        }
    }
    let heading = format!("[{table}]");
    match (place, end) {
        (Some(at), _) => {
            let (left, _) = lines[at].split_once('=').expect("found by its `=`");
            let line = format!("{} = {}", left.trim_end(), toml_value(key, value));
            lines[at] = &line;
            return Ok(lines.join("\n") + "\n");
        }
        (None, Some(at)) => lines.insert(at, &line),
        (None, None) if table.is_empty() => lines.insert(0, &line),
        (None, None) => lines.extend([heading.as_str(), &line]),
    }
    Ok(lines.join("\n") + "\n")
}

/// The same of an entry of a list, which goes by its name, as everywhere.
fn in_entry(
    text: &str,
    (list, rest): (&str, &str),
    key: &str,
    value: &str,
) -> anyhow::Result<String> {
    let mut lines: Vec<&str> = text.lines().collect();
    let entries = entries(&lines, list);
    // A name may have a dot in it.
    let named = entries.iter().filter_map(|entry| {
        let own = rest.strip_prefix(entry.name.as_str())?.strip_prefix('.')?;
        Some((entry, own))
    });
    let Some((entry, own)) = named.max_by_key(|(entry, _)| entry.name.len()) else {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        bail!(ConfigError::NoEntry {
            path: key.to_owned(),
            list: list.to_owned(),
            known: match names.is_empty() {
                true => "none".to_owned(),
                false => names.join(", "),
            },
        });
    };
    let left = |at: &usize| lines[*at].split_once('=').map(|(left, _)| left.trim());
    if let Some((table, _)) = own.split_once('.')
        && entry.lines.clone().any(|at| left(&at) == Some(table))
    {
        let whole = key.strip_suffix(own).unwrap_or_default();
        bail!("{key}: {table} is one value in the file; allowed is all of {whole}{table}");
    }
    let line = format!("{own} = {}", toml_value(key, value));
    match entry.lines.clone().find(|at| left(at) == Some(own)) {
        Some(at) => lines[at] = &line,
        None => {
            let is_last = |at: &usize| !lines[*at].trim().is_empty();
            let last = entry.lines.clone().rfind(is_last);
            lines.insert(last.map_or(entry.lines.start, |at| at + 1), &line);
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// An entry of a list that has a heading of its own.
struct Entry {
    name: String,
    /// Those below its heading, up to the next one.
    lines: Range<usize>,
}

fn entries(lines: &[&str], list: &str) -> Vec<Entry> {
    let heading = format!("[[{list}]]");
    let is_heading = |line: &str| line.trim_start().starts_with('[');
    let starts = (0..lines.len()).filter(|at| lines[*at].trim().starts_with(&heading));
    let entry = |at: usize| {
        let first = at + 1;
        let next = (first..lines.len()).find(|at| is_heading(lines[*at]));
        let own = first..next.unwrap_or(lines.len());
        let name = |line: &&str| {
            let (key, _) = line
                .split_once('=')
                .filter(|(key, _)| key.trim() == "name")?;
            let line: toml::Table = line.parse().ok()?;
            Some(line.get(key.trim())?.as_str()?.to_owned())
        };
        let name = lines[own.clone()].iter().find_map(name)?;
        Some(Entry { name, lines: own })
    };
    starts.filter_map(entry).collect()
}

fn join(table: &str, name: &str) -> String {
    if table.is_empty() {
        name.to_owned()
    } else {
        format!("{table}.{name}")
    }
}

/// TOML if the configuration takes it so, else a quoted text.
fn toml_value(key: &str, value: &str) -> String {
    let bare = format!("{key} = {value}\n");
    let is_toml = match config::check(&bare) {
        Ok(_) => true,
        Err(errors) => !errors
            .iter()
            .any(|error| matches!(error, ConfigError::Syntax(_))),
    };
    match is_toml && !value.contains('\n') {
        true => value.to_owned(),
        // JSON's quoted strings are TOML's.
        false => Value::from(value).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, key: &str, value: &str) -> String {
        replaced(text, key, value).expect("a key")
    }

    #[test]
    fn a_key_is_replaced_where_it_stands_and_all_else_stays() {
        let text = "# ours\n[journal]\nsync = \"full\"  # safe\n[limits]\nclients = 7\n";
        assert_eq!(
            set(text, "limits.clients", "8"),
            "# ours\n[journal]\nsync = \"full\"  # safe\n[limits]\nclients = 8\n"
        );
        assert_eq!(
            set("journal.sync = \"full\"\n", "journal.sync", "normal"),
            "journal.sync = \"normal\"\n"
        );
    }

    #[test]
    fn a_new_key_goes_to_its_table_or_a_new_one() {
        assert_eq!(
            set(
                "[limits]\nclients = 7\n\n[rank]\nlog = \"info\"\n",
                "limits.outstanding",
                "9"
            ),
            "[limits]\nclients = 7\noutstanding = 9\n\n[rank]\nlog = \"info\"\n"
        );
        assert_eq!(
            set("", "exec.kill_grace", "2s"),
            "[exec]\nkill_grace = \"2s\"\n"
        );
    }

    #[test]
    fn a_key_of_an_entry_goes_below_the_heading_that_has_its_name() {
        let text = "[[queue]]\nname = \"a\"\nmax_time = \"2h\"\n\n[[queue]]\nname = \"qa\" # ours\n\n[rank]\nlog = \"info\"\n";
        assert_eq!(
            set(text, "queue.qa.max_time", "1h"),
            text.replace("# ours\n", "# ours\nmax_time = \"1h\"\n")
        );
        assert_eq!(
            set(text, "queue.a.max_time", "1h"),
            text.replace("\"2h\"", "\"1h\"")
        );
        let refused = |text: &str, key: &str| {
            let error = replaced(text, key, "1").expect_err("it is refused");
            error.to_string()
        };
        assert_eq!(
            refused(text, "queue.b.max_nodes"),
            "queue.b.max_nodes: there is no such [[queue]]; there are a, qa"
        );
        let limits = "[[qos]]\nname = \"x\"\nlimits = { cores = 4 }\n";
        assert_eq!(
            refused(limits, "qos.x.limits.nodes"),
            "qos.x.limits.nodes: limits is one value in the file; allowed is all of qos.x.limits"
        );
    }
}
