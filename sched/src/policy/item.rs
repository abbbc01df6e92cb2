//! A TOML document as a tree that remembers the line of each key.
//!
//! Made by `read` from a text of its own or from one table of the configuration;
//! knows no key. It opens no file.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::error::{PolicyError, Wrong};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Counted from 1; `None` for what was given beside the text (`-S`).
    pub line: Option<u32>,
    /// What it is.
    pub value: Given,
}

/// What was given.
#[derive(Clone, Debug)]
pub(super) enum Given {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// Any other number, also infinite or none.
    Number(f64),
    /// `true` or `false`.
    Truth(bool),
    /// A list.
    List(Vec<Item>),
    /// A table.
    Table(Entries),
    /// A date, or a number too large: as it is spelled.
    Other(String),
}

/// The keys of a table.
pub(super) type Entries = BTreeMap<String, Item>;

/// As much of a value as an error repeats, in characters.
const SPELLED_MAX: usize = 80;

impl Item {
    /// The text that it is, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Given::Text(text) => Some(text),
            Given::Whole(_)
            | Given::Number(_)
            | Given::Truth(_)
            | Given::List(_)
            | Given::Table(_)
            | Given::Other(_) => None,
        }
    }

    /// The value as an error repeats it.
    pub fn spell(&self) -> String {
        let text = match &self.value {
            Given::Text(text) => Value::String(text.clone()).to_string(),
            Given::Whole(whole) => whole.to_string(),
            Given::Number(number) => format!("{number:?}"),
            Given::Truth(truth) => truth.to_string(),
            Given::List(list) => format!("a list of {}", list.len()),
            Given::Table(_) => "a table".to_owned(),
            Given::Other(spelled) => spelled.clone(),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().take(SPELLED_MAX).collect()
    }

    /// A value that stands in no text.
    pub fn beside(value: &Value) -> Item {
        let value = match value {
            Value::String(text) => Given::Text(text.clone()),
            Value::Integer(whole) => Given::Whole(*whole),
            Value::Float(number) => Given::Number(*number),
            Value::Boolean(truth) => Given::Truth(*truth),
            Value::Datetime(date) => Given::Other(date.to_string()),
            Value::Array(list) => Given::List(list.iter().map(Item::beside).collect()),
            Value::Table(table) => Given::Table(
                table
                    .iter()
                    .map(|(name, value)| (name.clone(), Item::beside(value)))
                    .collect(),
            ),
        };
        Item { line: None, value }
    }
}

/// The document that a text is.
pub(super) fn document(text: &str) -> Result<Entries, PolicyError> {
    let starts = Starts::of(text);
    match DeTable::parse(text) {
        Ok(table) => Ok(entries(table.get_ref(), &starts)),
        Err(error) => Err(PolicyError {
            line: error.span().map(|span| starts.line(span.start)),
            path: String::new(),
            wrong: Wrong::Syntax {
                message: error.message().replace('\n', " "),
            },
        }),
    }
}

/// Where the lines of a text begin.
struct Starts(Vec<usize>);

impl Starts {
    fn of(text: &str) -> Starts {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Starts(std::iter::once(0).chain(breaks).collect())
    }

    fn line(&self, at: usize) -> u32 {
        let line = self.0.partition_point(|&start| start <= at);
        u32::try_from(line).unwrap_or(u32::MAX)
    }
}

fn entries(table: &DeTable<'_>, starts: &Starts) -> Entries {
    let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let name: &Spanned<std::borrow::Cow<'_, str>> = name;
        let line = Some(starts.line(name.span().start));
        let value = given(value.get_ref(), starts);
        (name.get_ref().to_string(), Item { line, value })
    };
    table.iter().map(entry).collect()
}

fn given(value: &DeValue<'_>, starts: &Starts) -> Given {
    match value {
        DeValue::String(text) => Given::Text(text.to_string()),
        DeValue::Integer(whole) => i64::from_str_radix(whole.as_str(), whole.radix())
            .map_or_else(|_| Given::Other(whole.to_string()), Given::Whole),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map_or_else(|_| Given::Other(number.to_string()), Given::Number),
        DeValue::Boolean(truth) => Given::Truth(*truth),
        DeValue::Datetime(date) => Given::Other(date.to_string()),
        DeValue::Array(list) => Given::List(
            list.iter()
                .map(|value| Item {
                    line: Some(starts.line(value.span().start)),
                    value: given(value.get_ref(), starts),
                })
                .collect(),
        ),
        DeValue::Table(table) => Given::Table(entries(table, starts)),
    }
}
