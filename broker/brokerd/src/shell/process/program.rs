//! What the tasks of a jobspec run: parsed once for all jobs that share its
//! text, then filled in for each task.
//!
//! Used by the shell's loop before each spawn. Pure but for looking up its own
//! resource limits; it opens and starts nothing. The names it sets are listed
//! in doc/protocol/environment.md.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::CString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eddy_wire::fsd::{Fsd, micros_of_seconds, parse_fsd};
use eddy_wire::hash::Hash;
use eddy_wire::jobspec::Jobspec;
use eddy_wire::shell::Start;
use eddy_wire::shell_options::{self, CPU_AFFINITY, GPU_AFFINITY};
pub use eddy_wire::shell_options::{Affinity, OutputMode};
use eddy_wire::template::{self, Names};
use eddy_wire::time::Span;
use serde_json::Value;

use super::limits;
use crate::shell::procfs::{MARKER_VARIABLE, Marker};
use crate::shell::spawn::Rlimit;
use crate::shell::stdio::NONE;

/// How many parsed jobspecs, and environments, are kept.
const KEPT_MAX: usize = 256;
/// The type of a stream that is one of the shell's own.
const INHERIT: &str = "inherit";
/// The longest name of a declared instance: what a directory's name may have.
const NAME_BYTES_MAX: usize = 255;
/// What stands for the copy's number in arguments, environment and file names.
const CC: &str = "{cc}";

/// Where standard input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nowhere.
    Null,
    /// From clients, through the broker: `input.stdin.type` is `service`.
    Service,
    /// From a file: `input.stdin.path`.
    File(String),
    /// What this shell was given to hand on: `input.stdin.type` is `inherit`.
    Inherit,
}

/// Where an output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// To the spool.
    Spool,
    /// To a file of this name, after tags: `output.stdout.path`.
    File(String),
    /// Where this shell was given to let it go: `output.stdout.type` is `inherit`.
    Inherit,
}

/// A task that is none: it lasts a while and ends as told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mock {
    /// How long it lasts.
    pub duration: Span,
    /// Its wait status.
    pub status: i32,
}

/// A jobspec as far as the shell needs it.
#[derive(Debug)]
pub struct Program {
    /// Program and arguments as given.
    command: Vec<String>,
    /// The same for exec, when no task differs from another.
    plain: Option<Vec<CString>>,
    /// The job's name.
    pub name: String,
    /// Working directory.
    pub cwd: PathBuf,
    /// Standard input.
    pub stdin: Stdin,
    /// Standard output.
    pub stdout: Sink,
    /// Standard error.
    pub stderr: Sink,
    /// Whether output files begin anew.
    pub output_mode: OutputMode,
    /// The name of the declared instance that it leads.
    pub instance: Option<String>,
    /// Binding to cores.
    pub affinity: Affinity,
    /// Binding to GPUs.
    pub gpu_affinity: Affinity,
    /// Limits to set.
    pub rlimits: Vec<Rlimit>,
    /// The umask, if one is said.
    pub umask: Option<u32>,
    /// Set when no process is to be started.
    pub mock: Option<Mock>,
}

/// An environment, ready for exec.
#[derive(Debug)]
pub struct Environment {
    plain: Vec<CString>,
    /// Variables with `{cc}` in them.
    copies: Vec<(String, String)>,
}

/// Why tasks cannot be started, in one line for the user.
pub type Why = String;

impl Program {
    /// Reads the text of a jobspec. `home` is the working directory of those
    /// that name none.
    pub fn parse(text: &str, home: &Path) -> Result<Program, Why> {
        let jobspec = Jobspec::from_json(text.as_bytes()).map_err(|error| error.to_string())?;
        let task = jobspec.tasks.first().ok_or("the jobspec has no task")?;
        let command = task.command.clone();
        let differs = command
            .iter()
            .any(|word| word.contains("{{") || word.contains(CC));
        let plain = (!differs).then(|| command.iter().map(|word| c_string(word)).collect());
        let path = |key: &str| {
            let value = jobspec.shell_option(key).and_then(Value::as_str);
            value.map(str::to_owned)
        };
        let stdout = sink_of(&jobspec, "stdout").unwrap_or(Sink::Spool);
        // As in Flux: what goes to a file takes its errors along.
        let stderr = sink_of(&jobspec, "stderr").unwrap_or_else(|| stdout.clone());
        Ok(Program {
            plain: plain.transpose_all()?,
            name: jobspec.name().to_owned(),
            cwd: jobspec
                .attributes
                .system
                .cwd
                .clone()
                .map_or_else(|| home.to_owned(), PathBuf::from),
            stdin: stdin_of(&jobspec, path("input.stdin.path")),
            stdout,
            stderr,
            output_mode: shell_options::output_mode(&jobspec).map_err(|error| error.to_string())?,
            instance: instance_of(&jobspec)?,
            affinity: affinity_of(&jobspec, CPU_AFFINITY)?,
            gpu_affinity: affinity_of(&jobspec, GPU_AFFINITY)?,
            rlimits: limits::of_options(&jobspec)?,
            umask: shell_options::umask(&jobspec).map_err(|error| error.to_string())?,
            mock: mock_of(&jobspec)?,
            command,
        })
    }

    /// Whether an output of it is one that this shell was given to hand on.
    pub fn inherits(&self) -> bool {
        self.stdout == Sink::Inherit || self.stderr == Sink::Inherit
    }

    /// Program and arguments of one task. A word whose tags are not all known
    /// is left as it is: braces mean much to other programs.
    pub fn argv(&self, start: &Start, task: u32) -> Result<Vec<CString>, Why> {
        if let Some(plain) = &self.plain {
            return Ok(plain.clone());
        }
        let f58 = start.part.job.f58();
        let names = self.names(start, task, &f58);
        let words = self.command.iter().map(|word| {
            let word = with_copy(word, start.cc);
            let filled = template::expand(&word, &names).unwrap_or(word);
            c_string(&filled)
        });
        words.collect()
    }

    /// The name of a file from its template.
    pub fn file_name(&self, template: &str, start: &Start, task: u32) -> Result<String, Why> {
        if template == NONE {
            return Ok(template.to_owned());
        }
        let f58 = start.part.job.f58();
        let names = self.names(start, task, &f58);
        template::expand(&with_copy(template, start.cc), &names).map_err(|error| error.to_string())
    }

    fn names<'a>(&'a self, start: &'a Start, task: u32, f58: &'a str) -> Names<'a> {
        Names {
            job: start.part.job.0,
            job_f58: f58,
            attempt: start.part.attempt.0,
            name: &self.name,
            task,
            host: &start.host,
            node: start.node_index,
        }
    }
}

/// A list of results as the result of a list.
trait TransposeAll {
    fn transpose_all(self) -> Result<Option<Vec<CString>>, Why>;
}

impl TransposeAll for Option<Vec<Result<CString, Why>>> {
    fn transpose_all(self) -> Result<Option<Vec<CString>>, Why> {
        self.map(|words| words.into_iter().collect()).transpose()
    }
}

fn c_string(text: &str) -> Result<CString, Why> {
    CString::new(text).map_err(|_| "a word of the command holds a NUL character".to_owned())
}

fn with_copy(text: &str, cc: Option<u32>) -> String {
    match cc {
        Some(cc) if text.contains(CC) => text.replace(CC, &cc.to_string()),
        _ => text.to_owned(),
    }
}

fn stdin_of(jobspec: &Jobspec, path: Option<String>) -> Stdin {
    match (
        jobspec
            .shell_option("input.stdin.type")
            .and_then(Value::as_str),
        path,
    ) {
        (Some("service"), _) => Stdin::Service,
        (Some(INHERIT), _) => Stdin::Inherit,
        (_, Some(path)) => Stdin::File(path),
        (_, None) => Stdin::Null,
    }
}

/// What is said of one output; `None` when nothing is.
fn sink_of(jobspec: &Jobspec, output: &str) -> Option<Sink> {
    let said = |key: &str| {
        let value = jobspec.shell_option(&format!("output.{output}.{key}"));
        value.and_then(Value::as_str)
    };
    match (said("type"), said("path")) {
        (Some(INHERIT), _) => Some(Sink::Inherit),
        (_, path) => path.map(|path| Sink::File(path.to_owned())),
    }
}

/// The name of a declared instance, which names a directory.
fn instance_of(jobspec: &Jobspec) -> Result<Option<String>, Why> {
    let instance = jobspec.attributes.system.other.get("instance");
    let Some(name) = instance
        .and_then(|instance| instance.get("name"))
        .and_then(Value::as_str)
    else {
        return Ok(None);
    };
    // Those that begin with a digit are of instances without a name.
    let is_first = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if !is_first || name.contains('/') || name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "attributes.system.instance.name: is `{}`; allowed are at most {NAME_BYTES_MAX} bytes \
             without `/` that begin with a letter",
            name.chars().take(64).collect::<String>()
        ));
    }
    Ok(Some(name.to_owned()))
}

fn affinity_of(jobspec: &Jobspec, option: &'static str) -> Result<Affinity, Why> {
    shell_options::affinity(jobspec, option).map_err(|error| error.to_string())
}

fn mock_of(jobspec: &Jobspec) -> Result<Option<Mock>, Why> {
    let exec = jobspec.attributes.system.other.get("exec");
    let Some(test) = exec
        .and_then(|exec| exec.get("test"))
        .and_then(Value::as_object)
    else {
        return Ok(None);
    };
    let micros = match test.get("run_duration") {
        None => Some(0),
        Some(Value::String(text)) => match parse_fsd(text) {
            Ok(Fsd::Finite(micros)) => Some(micros),
            _ => None,
        },
        Some(value) => value
            .as_f64()
            .and_then(|seconds| micros_of_seconds(seconds).ok()),
    };
    let status = test.get("wait_status").and_then(Value::as_i64).unwrap_or(0);
    match (micros, i32::try_from(status)) {
        (Some(micros), Ok(status)) => Ok(Some(Mock {
            duration: Span(micros),
            status,
        })),
        _ => Err("attributes.system.exec.test: needs a run_duration and a wait_status".to_owned()),
    }
}

impl Environment {
    /// Reads the text of an environment. Variables that the shell sets itself
    /// are left out: those of an outer instance would name the wrong job.
    pub fn parse(text: &str) -> Result<Environment, Why> {
        let given: BTreeMap<String, Option<String>> =
            serde_json::from_str(text).map_err(|error| format!("environment: {error}"))?;
        let mut environment = Environment {
            plain: Vec::new(),
            copies: Vec::new(),
        };
        for (name, value) in given {
            let Some(value) = value else { continue };
            if OWN.contains(&name.as_str()) || name.is_empty() || name.contains('=') {
                continue;
            }
            if value.contains(CC) {
                environment.copies.push((name, value));
            } else {
                environment.plain.push(variable(&name, &value)?);
            }
        }
        Ok(environment)
    }

    /// The whole environment of one task.
    pub fn of_task(&self, place: &Place<'_>) -> Result<Vec<CString>, Why> {
        let start = place.start;
        let mut all = Vec::with_capacity(self.plain.len() + self.copies.len() + OWN.len());
        all.extend(self.plain.iter().cloned());
        for (name, value) in &self.copies {
            all.push(variable(name, &with_copy(value, start.cc))?);
        }
        let mut add = |name: &str, value: &dyn Display| -> Result<(), Why> {
            all.push(variable(name, &value.to_string())?);
            Ok(())
        };
        let f58 = start.part.job.f58();
        add("EDDY_URI", &place.uri)?;
        add("EDDY_JOB_ID", &start.part.job)?;
        add("FLUX_JOB_ID", &f58)?;
        add("EDDY_JOB_ATTEMPT", &start.part.attempt)?;
        for (names, value) in [
            (["EDDY_JOB_SIZE", "FLUX_JOB_SIZE"], start.job_ntasks),
            (["EDDY_JOB_NNODES", "FLUX_JOB_NNODES"], start.job_nnodes),
            (["EDDY_TASK_RANK", "FLUX_TASK_RANK"], place.task),
            (
                ["EDDY_TASK_LOCAL_ID", "FLUX_TASK_LOCAL_ID"],
                place.task - start.first_task,
            ),
        ] {
            add(names[0], &value)?;
            add(names[1], &value)?;
        }
        if let Some(cc) = start.cc {
            add("EDDY_JOB_CC", &cc)?;
            add("FLUX_JOB_CC", &cc)?;
        }
        if let Some(first) = start.array {
            add("EDDY_ARRAY_JOB_ID", &first)?;
            add("SLURM_ARRAY_JOB_ID", &first)?;
        }
        if let Some(statedir) = place.statedir {
            add("EDDY_JOB_STATEDIR", &statedir.display())?;
        }
        if !place.gpus.is_empty() {
            let ids: Vec<String> = place.gpus.iter().map(ToString::to_string).collect();
            add("CUDA_VISIBLE_DEVICES", &ids.join(","))?;
        }
        let outer = place
            .outer
            .map_or_else(String::new, |outer| format!("{outer}:"));
        add(MARKER_VARIABLE, &format!("{outer}{}", place.marker))?;
        Ok(all)
    }
}

/// Which task, where: what its environment is filled in with.
pub struct Place<'a> {
    /// The part's start.
    pub start: &'a Start,
    /// The task's rank.
    pub task: u32,
    /// Where its instance is reached.
    pub uri: &'a str,
    /// Its marker.
    pub marker: &'a Marker,
    /// The marker of the job that this instance itself is.
    pub outer: Option<&'a str>,
    /// Its GPUs.
    pub gpus: &'a [u32],
    /// Its state directory, if it leads an instance.
    pub statedir: Option<&'a Path>,
}

/// The names that the shell sets.
const OWN: [&str; 19] = [
    "EDDY_URI",
    "EDDY_JOB_ID",
    "EDDY_JOB_ATTEMPT",
    "EDDY_JOB_SIZE",
    "EDDY_JOB_NNODES",
    "EDDY_TASK_RANK",
    "EDDY_TASK_LOCAL_ID",
    "EDDY_JOB_CC",
    "EDDY_ARRAY_JOB_ID",
    "SLURM_ARRAY_JOB_ID",
    "EDDY_JOB_STATEDIR",
    MARKER_VARIABLE,
    "FLUX_JOB_ID",
    "FLUX_JOB_SIZE",
    "FLUX_JOB_NNODES",
    "FLUX_TASK_RANK",
    "FLUX_TASK_LOCAL_ID",
    "FLUX_JOB_CC",
    "CUDA_VISIBLE_DEVICES",
];

fn variable(name: &str, value: &str) -> Result<CString, Why> {
    CString::new(format!("{name}={value}"))
        .map_err(|_| format!("environment variable {name} holds a NUL character"))
}

/// Things made from texts that jobs share, the last [`KEPT_MAX`] of them.
#[derive(Debug)]
pub struct Kept<T> {
    made: HashMap<Hash, Result<Arc<T>, Why>>,
    order: VecDeque<Hash>,
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept {
            made: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<T> Kept<T> {
    /// What `hash` names, made by `make` if it is not there.
    pub fn get(
        &mut self,
        hash: Hash,
        make: impl FnOnce() -> Result<T, Why>,
    ) -> Result<Arc<T>, Why> {
        if let Some(kept) = self.made.get(&hash) {
            return kept.clone();
        }
        if self.order.len() >= KEPT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.made.remove(&oldest);
        }
        let made = make().map(Arc::new);
        self.order.push_back(hash);
        self.made.insert(hash, made.clone());
        made
    }
}

#[cfg(test)]
mod tests;
