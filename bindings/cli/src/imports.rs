//! Configurations of other schedulers, as one of an instance.
//!
//! Used by `eddy config import`. Reads texts, asks nothing, writes nothing. What has no counterpart
//! is named by its line: nothing is dropped in silence.

mod qmgr;
mod slurm;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use eddy_wire::account::Limits;
use eddy_wire::resource_set::ResourceSet;

/// What a text has.
#[derive(Debug, Default)]
pub struct Found {
    /// Keys with one value, by table: `exec` has `kill_grace = "30s"`.
    pub keys: BTreeMap<&'static str, Vec<String>>,
    pub instances: Vec<Instance>,
    pub queues: Vec<Queue>,
    /// Names of QoS that queues name.
    pub qos: BTreeSet<String>,
    /// Pools and how much there is of each.
    pub pools: Vec<(String, u64)>,
    /// The nodes, where the text has them.
    pub nodes: Option<ResourceSet>,
    /// What was not taken over, or otherwise than it stands there: line and why.
    pub notes: Vec<(usize, String)>,
}

/// An `[[instance]]`.
#[derive(Debug)]
pub struct Instance {
    pub name: String,
    /// As an idset.
    pub ranks: String,
}

/// A `[[queue]]`.
#[derive(Debug, Default)]
pub struct Queue {
    pub name: String,
    /// None is root.
    pub instance: Option<String>,
    /// Its other keys, as lines of TOML.
    pub keys: BTreeMap<&'static str, String>,
    pub limits: Limits,
    pub user_limits: Limits,
}

/// Which scheduler a text is of: `qmgr -c 'p s'` says what it does, line by line.
pub fn read(text: &str) -> Found {
    let is_qmgr = |line: &str| {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next(), words.next());
        matches!(first, Some("create" | "set" | "unset"))
            && matches!(
                second,
                Some("queue" | "server" | "node" | "resource" | "sched" | "hook")
            )
    };
    match text.lines().any(is_qmgr) {
        true => qmgr::read(text),
        false => slurm::read(text),
    }
}

impl Found {
    fn note(&mut self, line: usize, why: impl Into<String>) {
        self.notes.push((line, why.into()));
    }

    /// The same of what may stand for many lines: it is said once.
    fn once(&mut self, line: usize, why: String) {
        let note = (line, why);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn key(&mut self, table: &'static str, line: String) {
        let lines = self.keys.entry(table).or_default();
        lines.push(line);
    }

    /// As a configuration, with what was not taken over as comments.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (line, why) in &self.notes {
            let _ = writeln!(text, "# line {line}: {why}");
        }
        for (table, lines) in &self.keys {
            let _ = write!(text, "\n[{table}]\n{}\n", lines.join("\n"));
        }
        for name in &self.qos {
            let _ = write!(text, "\n[[qos]]\nname = {}\n", quoted(name));
        }
        for (name, count) in &self.pools {
            let _ = write!(
                text,
                "\n[[pool]]\nname = {}\ncount = {count}\n",
                quoted(name)
            );
        }
        for instance in &self.instances {
            let (name, ranks) = (quoted(&instance.name), quoted(&instance.ranks));
            let _ = write!(text, "\n[[instance]]\nname = {name}\nranks = {ranks}\n");
        }
        for queue in &self.queues {
            text.push_str(&queue.to_toml());
        }
        text.trim_start_matches('\n').to_owned()
    }
}

impl Queue {
    fn to_toml(&self) -> String {
        let instance = self.instance.as_deref().unwrap_or("root");
        let mut text = format!(
            "\n[[queue]]\nname = {}\ninstance = {}\n",
            quoted(&self.name),
            quoted(instance)
        );
        for (key, value) in &self.keys {
            let _ = writeln!(text, "{key} = {value}");
        }
        for (key, limits) in [("limits", &self.limits), ("user_limits", &self.user_limits)] {
            if !limits.is_empty() {
                let _ = writeln!(text, "{key} = {}", spelled(limits));
            }
        }
        text
    }
}

/// As an inline table.
fn spelled(limits: &Limits) -> String {
    let counts = [
        ("running_jobs", limits.running_jobs),
        ("submitted_jobs", limits.submitted_jobs),
        ("nodes", limits.nodes),
        ("cores", limits.cores),
        ("gpus", limits.gpus),
    ];
    let given = counts.iter().filter_map(|(key, value)| {
        let value = (*value)?;
        Some(format!("{key} = {value}"))
    });
    format!("{{ {} }}", given.collect::<Vec<String>>().join(", "))
}

/// As TOML writes a text: JSON's quoted texts are TOML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A list of texts.
fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.into_iter().map(quoted).collect();
    format!("[{}]", names.join(", "))
}

/// The name of a queue that one may have here: small letters, digits and `-`.
fn plain(name: &str) -> String {
    let allowed = |c: char| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9' | '-') => c,
        _ => '-',
    };
    let plain: String = name.chars().take(64).map(allowed).collect();
    match plain.as_str() {
        "" | "root" => format!("q-{plain}"),
        _ => plain,
    }
}

/// The name of an instance: as [`plain`], with a letter first, and no job id.
fn plain_instance(name: &str) -> String {
    let plain = plain(name);
    let is_letter = plain.starts_with(|c: char| c.is_ascii_lowercase());
    match is_letter && plain.parse::<eddy_wire::id::JobId>().is_err() {
        true => plain,
        false => format!("on-{plain}"),
    }
}

#[cfg(test)]
mod tests;
