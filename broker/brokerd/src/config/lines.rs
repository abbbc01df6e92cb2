//! On which line of a text each error is.
//!
//! Called by who shows errors to people. What is of a policy knows its line already; of anything
//! else its key is looked up, and where it is not there what it belongs to.

use std::borrow::Cow;
use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigError;

/// The errors of a text, each with its line where it has one, in the order of the lines.
pub fn told(text: &str, errors: &[ConfigError]) -> Vec<String> {
    let lines = lines(text);
    let line = |error: &ConfigError| match error {
        ConfigError::Policy(error) => error.line.map(|line| line as usize),
        ConfigError::Override { .. } | ConfigError::Syntax { .. } => None,
        error => found(&lines, error.path()),
    };
    let mut told: Vec<(Option<usize>, String)> = errors
        .iter()
        .map(|error| (line(error), error.to_string()))
        .collect();
    told.sort_by_key(|(line, _)| line.unwrap_or(usize::MAX));
    let spelled = |(line, text): (Option<usize>, String)| match line {
        // A policy's errors begin with it.
        Some(line) if !text.starts_with("line ") => format!("line {line}: {text}"),
        Some(_) | None => text,
    };
    told.into_iter().map(spelled).collect()
}

/// The line of a key, else of what it is in.
fn found(lines: &BTreeMap<String, usize>, path: &str) -> Option<usize> {
    let mut path = path;
    loop {
        if let Some(line) = lines.get(path) {
            return Some(*line);
        }
        let end = path.rfind(['.', '['])?;
        path = &path[..end];
    }
}

/// The line of each key: `queue[1].max_time`.
fn lines(text: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    let breaks = text.match_indices('\n').map(|(at, _)| at);
    let breaks: Vec<usize> = breaks.collect();
    let line_of = |at: usize| breaks.partition_point(|end| *end < at) + 1;
    if let Ok(table) = DeTable::parse(text) {
        walk(table.get_ref(), "", &line_of, &mut lines);
    }
    lines
}

fn walk(
    table: &DeTable<'_>,
    prefix: &str,
    line_of: &impl Fn(usize) -> usize,
    lines: &mut BTreeMap<String, usize>,
) {
    for (name, value) in table {
        let name: &Spanned<Cow<'_, str>> = name;
        let path = match prefix {
            "" => name.get_ref().to_string(),
            prefix => format!("{prefix}.{}", name.get_ref()),
        };
        lines.insert(path.clone(), line_of(name.span().start));
        match value.get_ref() {
            DeValue::Table(inner) => walk(inner, &path, line_of, lines),
            DeValue::Array(list) => {
                for (at, item) in list.iter().enumerate() {
                    let path = format!("{path}[{at}]");
                    lines.insert(path.clone(), line_of(item.span().start));
                    if let DeValue::Table(inner) = item.get_ref() {
                        walk(inner, &path, line_of, lines);
                    }
                }
            }
            _ => {}
        }
    }
}
