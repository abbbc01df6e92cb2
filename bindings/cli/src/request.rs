//! From the options of the submitting verbs to the request that is sent.
//!
//! The arithmetic of tasks, nodes and cores is the wire crate's
//! [`Ask`](eddy_wire::jobspec::Ask); here is only how people spell it.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use clap::{ArgAction, Args};
use eddy_brokerd::shell::process::limits::own_umask;
use eddy_brokerd::users;
use eddy_wire::constraint::Constraint;
use eddy_wire::event::{Requeue, Waitable};
use eddy_wire::fsd::{Fsd, seconds_of_micros};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{
    Ask, Count, JOBSPEC_BYTES_MAX, Jobspec, MemoryNeed, Place, Sharing, parse_bytes,
};
use eddy_wire::services::job::{SubmitRequest, URGENCY_DEFAULT, URGENCY_MAX};
use eddy_wire::shell_options;
use eddy_wire::time::{Span, Time};
use eddy_wire::warning::{self, LEFT, SIGNAL, Warning};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::environment;
use crate::number::{COUNTS, COUNTS_OR_NONE, number};
use crate::signals;
use crate::table::escaped;
use crate::text;
use crate::when;
use eligible::{Array, Eligible};

/// The options that say what a job is.
#[derive(Args, Clone, Debug, Default)]
pub struct JobOptions {
    /// Number of tasks [default: 1]
    #[arg(short = 'n', long, value_name = "N", value_parser = number(COUNTS), help_heading = "Resources")]
    pub ntasks: Option<u32>,
    /// Cores for each task [default: 1]
    #[arg(short = 'c', long, value_name = "N", value_parser = number(COUNTS), help_heading = "Resources")]
    pub cores_per_task: Option<u32>,
    /// GPUs for each task [default: 0]
    #[arg(short = 'g', long, value_name = "N", value_parser = number(COUNTS_OR_NONE), help_heading = "Resources")]
    pub gpus_per_task: Option<u32>,
    /// Each task's cores and GPUs lie in one socket, those of at most N tasks in the same; needs -n
    #[arg(
        long,
        alias = "ntasks-per-socket",
        value_name = "N",
        value_parser = number(COUNTS),
        requires = "ntasks",
        help_heading = "Resources"
    )]
    pub tasks_per_socket: Option<u32>,
    /// Nobody else is in these sockets, all of whose cores the job has; needs --tasks-per-socket
    #[arg(long, requires = "tasks_per_socket", help_heading = "Resources")]
    pub whole_sockets: bool,
    #[command(flatten)]
    pub terms: Terms,
    /// Program and its arguments; options end here
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The options that jobs of tasks and jobs that are instances both have.
#[derive(Args, Clone, Debug, Default)]
pub struct Terms {
    /// Number of nodes, or a choice of numbers (2-4, 2+, 2,4,8): as many of them as are free when the
    /// fewest can start; without -n: whole nodes
    #[arg(short = 'N', long, value_name = "N", help_heading = "Resources")]
    pub nodes: Option<Count>,
    /// Memory on each node, as in Slurm: 4G, 512M; a number without unit counts MiB
    #[arg(long, value_name = "SIZE", value_parser = memory, help_heading = "Resources")]
    pub mem: Option<u64>,
    /// Memory for each task
    #[arg(long, value_name = "SIZE", value_parser = memory, conflicts_with = "mem", help_heading = "Resources")]
    pub mem_per_task: Option<u64>,
    /// Whole nodes; needs -N
    #[arg(short = 'x', long, help_heading = "Resources")]
    pub exclusive: bool,
    /// How tasks lie on nodes, as in PBS: free, pack (all on one node), scatter or vscatter (each on a
    /// node of its own), then shared, or excl or exclhost (nobody else on its nodes), such as pack:excl
    #[arg(long, value_name = "PLACE", help_heading = "Resources")]
    pub place: Option<Place>,
    /// Only nodes that are like this: properties (fast, ^fast), host:n[1-4], rank:0-3, joined by and,
    /// or, not and brackets (RFC 35); given again, all of it holds (in Slurm it is `constraint`)
    #[arg(long, alias = "constraint", value_name = "QUERY", value_parser = constraint, action = ArgAction::Append, allow_hyphen_values = true, help_heading = "Resources")]
    pub requires: Vec<Constraint>,
    /// Time limit: minutes, a duration with unit (30s, 5m, 1.5h, 2d), M:SS, H:MM:SS, D-HH[:MM[:SS]] as
    /// in Slurm, or inf: none, also where there is a default, and refused where the longest is bounded
    #[arg(short = 't', long, value_name = "FSD", help_heading = "Resources")]
    pub time_limit: Option<String>,
    /// Send all tasks this signal (USR1 by default) so long (60s) before their time limit ends them; a
    /// program of an instance is sent it before the instance ends its jobs
    #[arg(long, value_name = "[SIG][@TIME]", value_parser = warning, help_heading = "Resources")]
    pub signal: Option<Warning>,
    /// Queue to submit to
    #[arg(short = 'q', long, value_name = "NAME", help_heading = "Queue")]
    pub queue: Option<String>,
    /// Account to charge [default: yours]
    #[arg(short = 'A', long, value_name = "NAME", help_heading = "Queue")]
    pub account: Option<String>,
    /// The same, in Flux's word
    #[arg(
        short = 'B',
        long,
        value_name = "NAME",
        conflicts_with = "account",
        help_heading = "Queue"
    )]
    pub bank: Option<String>,
    /// Quality of service [default: your account's, else the policy's]
    #[arg(long, value_name = "NAME", help_heading = "Queue")]
    pub qos: Option<String>,
    /// Class of the job [default: the policy's]
    #[arg(long, value_name = "NAME", help_heading = "Queue")]
    pub class: Option<String>,
    /// 0 to 31, hold (0), default (16) or expedite (31); above 16 only the owner and admins
    #[arg(long, value_name = "N", value_parser = urgency, help_heading = "Queue")]
    pub urgency: Option<u8>,
    #[command(flatten)]
    pub eligible: Eligible,
    /// Submit for this user, whose the job is then: for the owner and admins
    #[arg(long = "as", value_name = "USER", help_heading = "Queue")]
    pub as_user: Option<String>,
    /// Run again, as the next attempt, if its node is lost
    #[arg(long, help_heading = "Queue")]
    pub requeue: bool,
    /// waitable: keep the result until `eddy job wait` has collected it
    #[arg(long, value_name = "FLAG", value_delimiter = ',', value_parser = ["waitable"], help_heading = "Queue")]
    pub flags: Vec<String>,
    /// Name of the job [default: the command's]
    #[arg(long, value_name = "NAME", help_heading = "Tasks")]
    pub job_name: Option<String>,
    /// Working directory of the tasks [default: this one]
    #[arg(long, value_name = "DIR", help_heading = "Tasks")]
    pub cwd: Option<String>,
    /// Change the environment: NAME=VALUE, -GLOB removes, GLOB takes from yours, ^FILE has rules
    #[arg(long, value_name = "RULE", action = ArgAction::Append, allow_hyphen_values = true, help_heading = "Tasks")]
    pub env: Vec<String>,
    /// The same as --env=-GLOB
    #[arg(long, value_name = "GLOB", action = ArgAction::Append, help_heading = "Tasks")]
    pub env_remove: Vec<String>,
    /// Change the limits that tasks have of yours (see ulimit): NAME=N or inf sets, -GLOB leaves out, GLOB takes
    /// yours; in order, also behind commas [default: as, core, cpu, data, fsize, nofile, nproc, rss, stack]
    #[arg(long, value_name = "RULE", value_delimiter = ',', action = ArgAction::Append, allow_hyphen_values = true, help_heading = "Tasks")]
    pub rlimit: Vec<String>,
    /// File for standard output; {{id}}, {{name}}, {{taskid}}, {{node.name}} are replaced, as in Slurm %j, %x, %t,
    /// %N; none drops it
    #[arg(long, value_name = "FILE", help_heading = "Tasks")]
    pub output: Option<String>,
    /// File for standard error, likewise [default: with standard output]
    #[arg(long, value_name = "FILE", help_heading = "Tasks")]
    pub error: Option<String>,
    /// Begin files of output anew with each attempt of a job, or write behind what they hold [default: truncate]
    #[arg(long, value_name = "MODE", value_parser = ["append", "truncate"], help_heading = "Tasks")]
    pub open_mode: Option<String>,
    /// File for standard input; none is an empty one
    #[arg(long, value_name = "FILE", help_heading = "Tasks")]
    pub input: Option<String>,
    /// Put the task's number before each line shown; refused with --output=FILE and --error=FILE,
    /// since files get what tasks write as it is
    #[arg(short = 'l', long, help_heading = "Tasks")]
    pub label_io: bool,
    /// Set a shell option: cpu-affinity, gpu-affinity, input, output, per-resource, rlimit, signal or umask, or with
    /// dots a part of one (rlimit.core=0); VALUE is JSON or a text, 1 if not given. Others do nothing, which is said
    #[arg(short = 'o', long, value_name = "KEY[=VALUE]", action = ArgAction::Append, help_heading = "Tasks")]
    pub setopt: Vec<String>,
    /// Set an attribute, under `system.` unless it begins with `user.` or a dot; ^KEY=FILE reads JSON
    #[arg(short = 'S', long, value_name = "KEY[=VALUE]", action = ArgAction::Append, help_heading = "Tasks")]
    pub setattr: Vec<String>,
    /// Print the jobspec instead of submitting it
    #[arg(long)]
    pub dry_run: bool,
}

/// The file name that drops what is written.
const DROPPED: &str = "none";

/// Where tasks get standard input from when no file is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// From whoever attaches.
    Attached,
    /// There is none.
    Empty,
}

/// The urgency that a word or number names.
pub fn urgency(text: &str) -> Result<u8, String> {
    match text {
        "hold" => Ok(0),
        "default" => Ok(URGENCY_DEFAULT),
        "expedite" => Ok(URGENCY_MAX),
        _ => text
            .parse()
            .ok()
            .filter(|urgency| *urgency <= URGENCY_MAX)
            .ok_or_else(|| format!("allowed are 0 to {URGENCY_MAX}, hold, default and expedite")),
    }
}

/// The name of a set of jobs that is asked about: an empty one is what a variable leaves that is not set, and
/// must not mean all.
pub fn job_set(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("allowed is a word of 1 to 255 bytes".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// When a key was made.
pub fn made(key: Uuid) -> Option<Time> {
    let (seconds, nanos) = key.get_timestamp()?.to_unix();
    let micros = i64::try_from(seconds).ok()?.checked_mul(1_000_000)?;
    Some(Time(micros.checked_add(i64::from(nanos / 1000))?))
}

/// The key of a submission, which says when it was made.
pub fn key(text: &str) -> Result<Uuid, String> {
    let key = Uuid::try_parse(text).ok();
    let key = key.filter(|key| key.get_version_num() == 7);
    key.ok_or_else(|| "allowed is a UUID of version 7, such as `eddy job key` prints".to_owned())
}

/// What memory may be, in words.
const MEMORY: &str =
    "allowed are numbers of MiB (512), or with B, K, M, G, T, P or E (4G), over 0 and under 8E";

/// Bytes of memory; as in Slurm a number alone counts MiB.
fn memory(text: &str) -> Result<u64, String> {
    let alone = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = if alone {
        parse_bytes(&format!("{text}M"))
    } else {
        parse_bytes(text)
    };
    let bytes = bytes.ok().filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| MEMORY.to_owned())
}

/// A signal and how long before the end.
pub fn warning(text: &str) -> Result<Warning, String> {
    let (signal, time) = text.split_once('@').unwrap_or((text, ""));
    let signal = match signal {
        "" => SIGNAL,
        signal => signals::parse(signal).map_err(|error| error.to_string())?,
    };
    let left = match time.parse() {
        _ if !text.contains('@') => LEFT,
        Ok(Fsd::Finite(micros)) if micros > 0 => Span(micros),
        Ok(_) | Err(_) => return Err("behind @ allowed is a time (90, 90s, 5m)".to_owned()),
    };
    Ok(Warning { signal, left })
}

/// What nodes must be like.
pub fn constraint(text: &str) -> Result<Constraint, String> {
    let constraint = Constraint::from_query(text);
    let constraint = constraint.map_err(|error| format!("{:#}", anyhow::Error::new(error)))?;
    match constraint.allows_all() {
        true => Err("allowed is a query that names something".to_owned()),
        false => Ok(constraint),
    }
}

/// How many tasks or slots a job has and what is in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// How many; with nodes none means one on each.
    pub count: Option<u32>,
    /// Cores of each; 1 if nothing is said.
    pub cores: Option<u32>,
    /// GPUs of each; 0 if nothing is said.
    pub gpus: Option<u32>,
}

impl JobOptions {
    /// The request for this job, with a key of its own.
    pub fn request(&self, cc: Option<Idset>, stdin: Stdin) -> anyhow::Result<SubmitRequest> {
        self.terms.request(&self.jobspec(stdin)?, cc)
    }

    /// The request for an array of this job, with a key of its own.
    pub fn array_request(&self, array: &Array) -> anyhow::Result<SubmitRequest> {
        let jobspec = array.of(self.jobspec(Stdin::Empty)?)?;
        self.terms.request(&jobspec, Some(array.ids.clone()))
    }

    /// The jobspec these options ask for.
    pub fn jobspec(&self, stdin: Stdin) -> anyhow::Result<Jobspec> {
        let slots = Slots {
            count: self.ntasks,
            cores: self.cores_per_task,
            gpus: self.gpus_per_task,
        };
        let ask = Ask {
            tasks_per_socket: self.tasks_per_socket,
            sockets: match self.whole_sockets {
                true => Sharing::Exclusive,
                false => Sharing::Shared,
            },
            ..self.terms.ask(slots, &self.command, stdin)?
        };
        let jobspec = ask.jobspec()?;
        // What no instance takes is refused here, in the words it would use.
        jobspec.request()?;
        jobspec.needs()?;
        jobspec.job_set()?;
        warning::of(&jobspec).map_err(anyhow::Error::msg)?;
        Ok(jobspec)
    }
}

impl Terms {
    /// The request for a job of this jobspec, with a key of its own.
    pub fn request(&self, jobspec: &Jobspec, cc: Option<Idset>) -> anyhow::Result<SubmitRequest> {
        if let Some(remark) = remark(jobspec) {
            eprintln!("{remark}");
        }
        Ok(SubmitRequest {
            key: Uuid::now_v7(),
            jobspec: serde_json::to_value(jobspec).context("the jobspec is not JSON")?,
            cc,
            urgency: self.urgency.unwrap_or(URGENCY_DEFAULT),
            waitable: match self.flags.is_empty() {
                true => Waitable::No,
                false => Waitable::Yes,
            },
            requeue: match self.requeue {
                true => Requeue::OnNodeFailure,
                false => Requeue::No,
            },
            on_behalf: self.on_behalf()?,
        })
    }

    fn on_behalf(&self) -> anyhow::Result<Option<u32>> {
        let user = self.as_user.as_deref();
        user.map(|user| users::number(user).context("--as"))
            .transpose()
    }

    /// What these options and the slots ask for.
    pub fn ask(&self, slots: Slots, command: &[String], stdin: Stdin) -> anyhow::Result<Ask> {
        let (own, left_out) = environment::own();
        if !left_out.is_empty() {
            eprintln!(
                "eddy: not UTF-8 and so left out of the environment: {}",
                left_out.join(" ")
            );
        }
        let removed = self.env_remove.iter().map(|glob| format!("-{glob}"));
        // Who somebody is, is the host's to say where it is another.
        let mine = ["HOME", "SHELL", "USER", "LOGNAME", "MAIL", "XDG_*"];
        let mine = mine.iter().filter(|_| self.as_user.is_some());
        let removed = mine.map(|glob| format!("-{glob}")).chain(removed);
        let rules: Vec<String> = removed.chain(self.env.iter().cloned()).collect();
        Ok(Ask {
            command: command.to_owned(),
            ntasks: slots.count,
            nodes: self.nodes.clone(),
            cores_per_task: slots.cores.unwrap_or(1),
            gpus_per_task: slots.gpus.unwrap_or(0),
            sharing: match self.exclusive {
                true => Sharing::Exclusive,
                false => Sharing::Shared,
            },
            place: self.place.unwrap_or_default(),
            constraint: match self.requires.as_slice() {
                [] => None,
                [only] => Some(only.clone()),
                all => Some(Constraint::And(all.to_vec())),
            },
            duration: self.duration()?,
            memory: match (self.mem, self.mem_per_task) {
                (Some(bytes), _) => MemoryNeed::PerNode(bytes),
                (None, Some(bytes)) => MemoryNeed::PerTask(bytes),
                (None, None) => MemoryNeed::None,
            },
            name: self.job_name.clone(),
            cwd: Some(self.directory()?),
            environment: environment::apply(&own, &rules)?,
            queue: self.queue.clone(),
            bank: self.bank.clone(),
            account: self.account.clone(),
            qos: self.qos.clone(),
            class: self.class.clone(),
            shell_options: self.shell_options(stdin)?,
            attributes: self.attributes()?,
            ..Ask::default()
        })
    }

    /// What `-S` sets, then what has options of its own.
    fn attributes(&self) -> anyhow::Result<Vec<(String, Value)>> {
        let set = self.setattr.iter().map(|set| attribute(set));
        let mut attributes = set.collect::<anyhow::Result<Vec<_>>>()?;
        attributes.extend(self.eligible.attributes(when::now())?);
        // A duration of 0 is none of its own, in whose place a default is put.
        if self.limit()? == Some(Fsd::Infinite) {
            attributes.push(("unlimited".to_owned(), true.into()));
        }
        Ok(attributes)
    }

    fn duration(&self) -> anyhow::Result<i64> {
        match self.limit()? {
            Some(Fsd::Finite(micros)) => Ok(micros),
            Some(Fsd::Infinite) | None => Ok(0),
        }
    }

    /// The time limit that is given, if one is.
    ///
    /// # Errors
    /// It is none.
    pub fn limit(&self) -> anyhow::Result<Option<Fsd>> {
        let Some(text) = &self.time_limit else {
            return Ok(None);
        };
        match when::limit(text) {
            Some(limit) => Ok(Some(limit)),
            None => bail!(
                "--time-limit: `{text}` given; allowed are {}, and inf",
                when::LIMITS
            ),
        }
    }

    fn directory(&self) -> anyhow::Result<String> {
        let here = || std::env::current_dir().context("cannot find the working directory");
        let path = match &self.cwd {
            Some(given) => here()?.join(given),
            None => here()?,
        };
        let text = path.into_os_string().into_string();
        text.map_err(|path| anyhow::anyhow!("--cwd: {path:?} is not UTF-8"))
    }

    /// `--output` and its like, then `-o` in order, which so has the last word.
    fn shell_options(&self, stdin: Stdin) -> anyhow::Result<Vec<(String, Value)>> {
        let mut options = self.inherited()?;
        let mode = self.open_mode.as_deref();
        options.extend(mode.map(|mode| ("output.mode".to_owned(), mode.into())));
        let mut file = |option: &str, what: &str, path: &str| -> anyhow::Result<()> {
            let path = patterns::tags(option, path)?;
            options.push((format!("{what}.type"), "file".into()));
            options.push((format!("{what}.path"), path.into()));
            Ok(())
        };
        let streams = [
            ("--output", "output.stdout", &self.output),
            ("--error", "output.stderr", &self.error),
        ];
        for (option, what, path) in streams {
            if let Some(path) = path {
                file(option, what, path)?;
            }
        }
        for (option, path) in [("--output", &self.output), ("--error", &self.error)] {
            if let (true, Some(path)) = (self.label_io, path)
                && path != DROPPED
            {
                bail!(
                    "--label-io: with {option}={path}, but lines of a file are not labelled; allowed is {option}={DROPPED} or no {option}"
                );
            }
        }
        match (&self.input, stdin) {
            (Some(path), _) => file("--input", "input.stdin", path)?,
            (None, Stdin::Attached) => {
                options.push(("input.stdin.type".to_owned(), "service".into()));
            }
            (None, Stdin::Empty) => {}
        }
        if let Some(warning) = self.signal {
            let left = seconds_of_micros(warning.left.0);
            options.push(("signal.signum".to_owned(), warning.signal.into()));
            options.push(("signal.timeleft".to_owned(), left.into()));
        }
        options.extend(self.setopt.iter().map(|set| key_value(set)));
        if let Some(line) = self.unknown_options() {
            eprintln!("{line}");
        }
        Ok(options)
    }

    /// What tasks have of this process: its umask and its soft limits. Another user's tasks have nothing of it.
    fn inherited(&self) -> anyhow::Result<Vec<(String, Value)>> {
        let (own, umask) = match self.as_user {
            Some(_) => (BTreeMap::new(), None),
            None => (limits::usual(), Some(own_umask())),
        };
        let limits = limits::apply(own, &self.rlimit)?;
        let umask = umask.map(|umask| (shell_options::UMASK, format!("{umask:04o}").into()));
        let limits = (!limits.is_empty()).then(|| (shell_options::RLIMIT, json!(limits)));
        let both = umask.into_iter().chain(limits);
        Ok(both.map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// Says which of `-o` do nothing. They are not refused: scripts for Flux set what its shells alone have.
    fn unknown_options(&self) -> Option<String> {
        let keys = self.setopt.iter().map(|set| key_value(set).0);
        let unknown = keys.filter(|key| !shell_options::is_obeyed(key));
        let unknown: Vec<String> = unknown.map(|key| format!("`{}`", escaped(&key))).collect();
        let known = shell_options::OPTIONS.join(", ");
        (!unknown.is_empty()).then(|| {
            format!(
                "eddy: -o: {} given, which does nothing here; known are {known}",
                unknown.join(", ")
            )
        })
    }
}

/// Says which attributes of the system do nothing. They are not refused: RFC 25 leaves them open, Flux takes them, and
/// a site's own tools may read them.
pub fn remark(jobspec: &Jobspec) -> Option<String> {
    let unread = jobspec.unread().map(|key| format!("`{}`", escaped(key)));
    let unread: Vec<String> = unread.collect();
    (!unread.is_empty()).then(|| {
        format!(
            "eddy: attributes.system: {} given, which does nothing here",
            unread.join(", ")
        )
    })
}

/// `KEY=VALUE` with JSON or a text; `KEY` alone is 1.
fn key_value(text: &str) -> (String, Value) {
    match text.split_once('=') {
        Some((key, value)) => (key.to_owned(), json_or_text(value)),
        None => (text.to_owned(), 1.into()),
    }
}

/// JSON if it is, else a text.
pub fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn attribute(text: &str) -> anyhow::Result<(String, Value)> {
    let Some(rest) = text.strip_prefix('^') else {
        return Ok(key_value(text));
    };
    let (key, file) = rest
        .split_once('=')
        .with_context(|| format!("-S {text}: has no `=`; allowed is ^KEY=FILE"))?;
    let content = text::read(file, JOBSPEC_BYTES_MAX).with_context(|| format!("-S {text}"))?;
    let value = serde_json::from_str(&content).with_context(|| format!("-S {text}"))?;
    Ok((key.to_owned(), value))
}

pub mod directives;
pub mod eligible;
mod limits;
pub mod nested;
mod patterns;
mod pools;

#[cfg(test)]
mod tests;
