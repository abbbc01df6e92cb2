//! Processes of a running tree by what they are: leaders, agents, shells, of
//! the root, of queue instances and of instances in them.
//!
//! `fault` chooses among them, `oracle` knows by them what is left running. It
//! takes only what carries the mark of the round's place.

use std::fs;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::process::Process;

/// What a process of the tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The root's leader.
    Root,
    /// The leader of a declared instance.
    Queue,
    /// The leader of another instance that is a job.
    Child,
    /// An agent.
    Agent,
    /// A shell of a rank of the root.
    Shell,
    /// A shell of an instance that is a job.
    ChildShell,
}

/// One process of the tree.
#[derive(Clone, Debug)]
pub struct Victim {
    /// What it is.
    pub part: Part,
    /// The process.
    pub process: Process,
    /// Its state directory.
    pub state: String,
}

/// Every leader, agent and shell that runs now.
#[must_use]
pub fn all(instance: &Instance) -> Vec<Victim> {
    let mut found = instance.place.processes();
    found.retain(|one| {
        ["broker", "agent", "shell"]
            .iter()
            .any(|verb| one.is_eddy(verb))
    });
    // A child that has not come to its own program yet looks like its parent.
    let twins: Vec<(i32, Vec<String>)> = found
        .iter()
        .map(|one| (one.pid, one.arguments.clone()))
        .collect();
    found.retain(|one| {
        let twin = |(pid, arguments): &(i32, Vec<String>)| {
            *pid == one.parent && *arguments == one.arguments
        };
        !twins.iter().any(twin)
    });
    found
        .into_iter()
        .filter_map(|process| victim(instance, process))
        .collect()
}

fn victim(instance: &Instance, process: Process) -> Option<Victim> {
    let root = instance.state().display().to_string();
    let given = argument(&process, "--statedir");
    let (part, state) = if process.is_eddy("agent") {
        (Part::Agent, given?)
    } else if process.is_eddy("shell") {
        let state = given?;
        match is_of_a_job(&state) {
            true => (Part::ChildShell, state),
            false => (Part::Shell, state),
        }
    } else if process.arguments.iter().any(|word| word == "--child") {
        let state = variable(process.pid, "EDDY_JOB_STATEDIR")?;
        match is_named(&state, &root) {
            true => (Part::Queue, state),
            false => (Part::Child, state),
        }
    } else {
        (Part::Root, root)
    };
    Some(Victim {
        part,
        process,
        state,
    })
}

/// Whether a state directory is that of an instance that is a job.
fn is_of_a_job(state: &str) -> bool {
    state.contains("/children/")
}

/// Whether it is that of a declared instance: directly below, and named by a word.
fn is_named(state: &str, _root: &str) -> bool {
    let Some((before, name)) = state.rsplit_once("/children/") else {
        return false;
    };
    !before.contains("/children/") && !name.contains('.')
}

/// The word after `name` on its command line, or after `name=`.
fn argument(process: &Process, name: &str) -> Option<String> {
    let words = &process.arguments;
    let at = words.iter().position(|word| word.starts_with(name))?;
    match words[at].strip_prefix(name)?.strip_prefix('=') {
        Some(value) => Some(value.to_owned()),
        None => words.get(at + 1).cloned(),
    }
}

/// A variable of the environment that a process was started with.
#[must_use]
pub fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment
        .split(|byte| *byte == 0)
        .map(String::from_utf8_lossy)
        .find_map(|entry| Some(entry.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// Everything that was started within this attempt of a job: its marker is among theirs.
#[must_use]
pub fn within(instance: &Instance, part: &str) -> Vec<Process> {
    let carries = |one: &Process| {
        let markers = variable(one.pid, "EDDY_TASK").unwrap_or_default();
        markers.split(':').any(|marker| marker.starts_with(part))
    };
    let mut found = instance.place.processes();
    found.retain(carries);
    found
}
