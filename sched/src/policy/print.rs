//! A policy as TOML in full: what each key means, what it takes, and where it
//! differs from its preset. Reads back to the same policy.
//!
//! Called by `eddy policy show`, and where keys are put over a policy. It judges nothing.

use std::collections::BTreeMap;

use toml::Value;

use super::kind::Kind;
use super::visit::Visit;
use super::{Policy, keys, presets};

/// The whole of a policy as TOML with comments.
pub fn print(policy: &Policy) -> String {
    let head = format!(
        "# The preset it starts from; what differs from it is marked.\npreset = {}\n",
        Value::String(policy.preset.clone())
    );
    head + &printed(policy).text
}

/// The preset and what differs from it, each with its path and its value as TOML writes it.
pub fn overrides(policy: &Policy) -> Vec<(String, String)> {
    let Printer { values, preset, .. } = printed(policy);
    let name = Value::String(policy.preset.clone()).to_string();
    let differing = values
        .into_iter()
        .filter(|(path, value)| preset.get(path) != Some(value));
    std::iter::once(("preset".to_owned(), name))
        .chain(differing)
        .collect()
}

fn printed(policy: &Policy) -> Printer {
    let mut preset = Printer::default();
    if let Some(mut start) = presets::preset(&policy.preset) {
        keys::walk(&mut preset, &mut start);
    }
    let mut printer = Printer {
        preset: preset.values,
        name: policy.preset.clone(),
        ..Printer::default()
    };
    keys::walk(&mut printer, &mut policy.clone());
    printer
}

#[derive(Default)]
struct Printer {
    text: String,
    /// The table that is being printed.
    path: String,
    /// What was printed, by path.
    values: BTreeMap<String, String>,
    /// The same of the preset.
    preset: BTreeMap<String, String>,
    /// The name of the preset.
    name: String,
}

/// A comment is broken before it is longer than this.
const WIDTH: usize = 96;

impl Printer {
    fn comment(&mut self, text: &str) {
        let mut line = String::from("#");
        for word in text.split_whitespace() {
            if line.len() + 1 + word.len() > WIDTH && line.len() > 1 {
                self.text.push_str(&line);
                self.text.push('\n');
                line = String::from("#");
            }
            line.push(' ');
            line.push_str(word);
        }
        if line.len() > 1 {
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    fn value(&mut self, name: &str, value: String) {
        let path = format!("{}.{name}", self.path);
        let mark = match self.preset.get(&path) {
            Some(before) if *before == value => String::new(),
            Some(before) => {
                let before = before.split_whitespace().collect::<Vec<_>>().join(" ");
                format!("  # overridden; {} has {before}", self.name)
            }
            None => format!("  # added to {}", self.name),
        };
        self.text.push_str(&format!("{name} = {value}{mark}\n"));
        self.values.insert(path, value);
    }
}

/// A key as TOML writes it: bare where that is allowed.
fn key(name: &str) -> String {
    let bare = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-' || letter == b'_';
    if !name.is_empty() && name.bytes().all(bare) {
        return name.to_owned();
    }
    // Names have no control characters, so these two are all that must be escaped.
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Visit for Printer {
    fn table(&mut self, name: &str, meaning: &str, body: impl FnOnce(&mut Printer)) {
        let outer = self.path.clone();
        self.path = if outer.is_empty() {
            key(name)
        } else {
            format!("{outer}.{}", key(name))
        };
        self.text.push('\n');
        self.comment(meaning);
        self.text.push_str(&format!("[{}]\n", self.path));
        body(self);
        self.path = outer;
    }

    fn key<K: Kind>(&mut self, name: &str, meaning: &str, kind: &K, value: &mut K::Value) {
        self.comment(&format!("{meaning}: {}", kind.allowed()));
        self.value(name, kind.print(value));
    }

    fn entries<K: Kind>(&mut self, kind: &K, map: &mut BTreeMap<String, K::Value>) {
        self.comment(&format!("Each {}.", kind.allowed()));
        for (name, value) in map {
            self.value(&key(name), kind.print(value));
        }
    }

    fn names(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn foreign(&mut self, _others: &[(&str, &str)], _here: &str) {}
}
