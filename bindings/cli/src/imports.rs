//! Configurations of other schedulers, as one of an instance.
//!
//! Used by `eddy config import`. Reads texts, asks for users and groups alone, writes nothing. What has no
//! counterpart is named by its line: nothing is dropped in silence, and no queue becomes open to more than before.

mod access;
mod included;
mod qmgr;
mod slurm;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use eddy_wire::account::Limits;
use eddy_wire::resource_set::ResourceSet;

use access::Access;
pub use included::Whole;

/// What the host knows of the names in a text.
pub trait Host {
    /// A user as a queue names him: by a name in quotes, or by number; none if there is none.
    fn user(&self, name: &str) -> Option<String>;
    /// The users of a group by name; none where there is no such group.
    fn members(&self, group: &str) -> Option<BTreeSet<String>>;
}

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
    /// How many queues are closed, since it cannot be said here who may use them.
    pub closed: usize,
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
    /// Where it begins.
    line: usize,
    access: Access,
    /// Why it is closed.
    closed: Vec<String>,
    /// None is root.
    pub instance: Option<String>,
    /// Its other keys, as lines of TOML.
    pub keys: BTreeMap<&'static str, String>,
    pub limits: Limits,
    pub user_limits: Limits,
}

/// Which scheduler a text is of: `qmgr -c 'p s'` says what it does, line by line.
pub fn read(text: &str, host: &dyn Host) -> Found {
    let is_qmgr = |line: &str| {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next(), words.next());
        matches!(first, Some("create" | "set" | "unset"))
            && matches!(
                second,
                Some("queue" | "server" | "node" | "resource" | "sched" | "hook")
            )
    };
    let mut found = match text.lines().any(is_qmgr) {
        true => qmgr::read(text, host),
        false => slurm::read(text, host),
    };
    found.settle(host);
    found
}

impl Found {
    /// Whether nothing was taken over, as of a text that is of no scheduler.
    pub fn is_nothing(&self) -> bool {
        let Found {
            keys,
            instances,
            queues,
            qos,
            pools,
            nodes,
            notes: _,
            closed: _,
        } = self;
        let is_empty = [instances.is_empty(), queues.is_empty(), pools.is_empty()];
        is_empty == [true; 3] && keys.is_empty() && qos.is_empty() && nodes.is_none()
    }

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

    /// Of what is said twice the last counts.
    fn key(&mut self, table: &'static str, line: String) {
        let lines = self.keys.entry(table).or_default();
        let is_other = |other: &String| other.split(" = ").next() != line.split(" = ").next();
        lines.retain(is_other);
        lines.push(line);
    }

    /// A queue of this name, numbered where another is called so.
    fn queue(&mut self, line: usize, what: &str, given: &str, taken: &BTreeSet<String>) -> Queue {
        let wanted = plain(given);
        let name = apart(&wanted, |name| taken.contains(name));
        if name != wanted {
            let why = format!(
                "{what}{given}: the queue is called {name}, since there is another {wanted}"
            );
            self.note(line, why);
        } else if name != given {
            self.note(line, format!("{what}{given}: the queue is called {name}"));
        }
        Queue {
            name,
            line,
            ..Queue::default()
        }
    }

    /// Says who may use each queue, and which one is the default.
    fn settle(&mut self, host: &dyn Host) {
        let mut notes = Vec::new();
        for queue in &mut self.queues {
            let name = &queue.name;
            let settled = std::mem::take(&mut queue.access).settle(queue.line, host);
            for user in settled.unknown {
                let why =
                    format!("queue {name}: user {user} is left out: this host does not know him");
                notes.push((queue.line, why));
            }
            self.closed += usize::from(!settled.closed.is_empty());
            for (line, why) in settled.closed {
                notes.push((
                    line,
                    format!("queue {name}: is closed to all but root: {why}"),
                ));
                queue.closed.push(why);
            }
            queue.keys.extend(settled.keys);
        }
        let mut defaults = self
            .queues
            .iter_mut()
            .filter(|queue| queue.keys.contains_key("default"));
        let last = defaults.next_back().map(|queue| queue.name.clone());
        for queue in defaults {
            queue.keys.remove("default");
            let last = last.as_deref().unwrap_or_default();
            let why = format!(
                "queue {}: is not the default, {last} further down is",
                queue.name
            );
            notes.push((queue.line, why));
        }
        self.notes.extend(notes);
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
        for why in &self.closed {
            let why: String = why
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let _ = writeln!(text, "# closed: {why}");
        }
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

/// As an inline table: its numbers and texts are spelled as JSON's.
fn spelled(limits: &Limits) -> String {
    let fields = serde_json::to_value(limits).unwrap_or_default();
    let fields = fields.as_object().into_iter().flatten();
    let given: Vec<String> = fields
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    format!("{{ {} }}", given.join(", "))
}

/// The longest name of a queue or an instance.
const NAME_MAX: usize = 64;

/// A name that is not taken: this one, or the first of it with a number that is not.
fn apart(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(wanted) {
        return wanted.to_owned();
    }
    let numbered = |number: u64| {
        let end = format!("-{number}");
        let start: String = wanted.chars().take(NAME_MAX - end.len()).collect();
        start + &end
    };
    let mut names = (2..).map(numbered);
    names
        .find(|name| !is_taken(name))
        .expect("fewer are taken than there are numbers")
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
    let plain: String = name.chars().take(NAME_MAX).map(allowed).collect();
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
