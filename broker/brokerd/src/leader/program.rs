//! The program that a child was started for: its first job, submitted and waited
//! for by the leader itself, whose end is the instance's.
//!
//! Used by the child's part of the leader. It makes requests and reads answers,
//! sends nothing, and needs no memory of an earlier life: whether the job was
//! submitted the journal says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use eddy_broker::Reply;
use eddy_wire::error::Refusal;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Ask, Environment, Takes};
use eddy_wire::lifecycle::JobResult;
use eddy_wire::message::{Message, Type};
use eddy_wire::services::Service;
use eddy_wire::services::child::PROGRAM;
use eddy_wire::services::job::{
    JobEnd, JobSet, Submit, SubmitRequest, Submitted, Wait, WaitRequest,
};
use eddy_wire::shell_options;
use eddy_wire::time::Time;
use eddy_wire::warning;
use serde_json::{Value, json};
use uuid::Uuid;

/// What begins the names of variables that say whose task this process is.
const OUTER: [&str; 4] = ["EDDY_URI", "EDDY_JOB_", "EDDY_TASK", "FLUX_"];
/// The code when it cannot be started, or its end is not known.
const CODE_FAILED: i32 = 1;

/// The program and how far it is.
#[derive(Debug)]
pub struct Program {
    command: Vec<String>,
    signal: Option<Value>,
    /// Its soft limits, by name, where they are not this process's.
    limits: BTreeMap<&'static str, u64>,
    key: Uuid,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is none, or nothing was asked yet.
    Idle,
    Submitting,
    Waiting,
    /// With this code, and this result if the journal says one.
    Over(i32, Option<JobResult>),
}

impl Program {
    /// This command, of an instance that was begun at this time; none if empty.
    /// `signal` is the option that says by what it is warned of its end.
    pub fn new(
        command: Vec<String>,
        signal: Option<Value>,
        instance: &str,
        begun: Time,
    ) -> Program {
        Program {
            command,
            signal,
            limits: BTreeMap::new(),
            key: key_of(instance, begun),
            stage: Stage::Idle,
        }
    }

    /// The same with these soft limits.
    pub fn limited(self, limits: BTreeMap<&'static str, u64>) -> Program {
        Program { limits, ..self }
    }

    /// Its exit code, once it is over.
    pub fn code(&self) -> Option<i32> {
        match self.stage {
            Stage::Over(code, _) => Some(code),
            Stage::Idle | Stage::Submitting | Stage::Waiting => None,
        }
    }

    /// How it ended, once it is over and that is known.
    pub fn result(&self) -> Option<JobResult> {
        match self.stage {
            Stage::Over(_, result) => result,
            Stage::Idle | Stage::Submitting | Stage::Waiting => None,
        }
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.code().is_some()
    }

    /// The first request. `last` is the highest job number ever given: if there
    /// is one the program was submitted, since nobody was heard before it.
    pub fn begin(&mut self, last: JobId) -> Option<Message> {
        if self.command.is_empty() {
            return None;
        }
        if last >= PROGRAM {
            return Some(self.wait(PROGRAM));
        }
        match self.submission() {
            Ok(request) => {
                self.stage = Stage::Submitting;
                Some(Message::request(Submit::TOPIC, 1, &request))
            }
            Err(why) => {
                // Its leader refused what this makes of a command: that is told
                // by a request that cannot be served.
                tracing::error!("the program cannot be submitted: {why}");
                eprintln!("eddy broker: {why}");
                Some(self.wait(PROGRAM))
            }
        }
    }

    fn wait(&mut self, job: JobId) -> Message {
        self.stage = Stage::Waiting;
        Message::request(Wait::TOPIC, 2, &WaitRequest::from(JobSet::one(job)))
    }

    /// Takes an answer; the next request. The program may be over then.
    pub fn answered(&mut self, reply: &Reply) -> Option<Message> {
        match (self.stage, reply.kind) {
            (Stage::Submitting, Type::Reply) => {
                match serde_json::from_slice::<Submitted>(&reply.body) {
                    Ok(submitted) => return Some(self.wait(submitted.first)),
                    Err(error) => self.failed(&error.to_string()),
                }
            }
            (Stage::Waiting, Type::Part | Type::Reply) => {
                let ends: Vec<JobEnd> = serde_json::from_slice(&reply.body).unwrap_or_default();
                if let Some(end) = ends.first() {
                    tracing::info!(?end, "the program of this instance is over");
                    say_why(end);
                    self.stage = Stage::Over(end.returncode, Some(end.result));
                }
            }
            (Stage::Submitting | Stage::Waiting, _) => {
                let refusal: Result<Refusal, _> = serde_json::from_slice(&reply.body);
                let why = refusal.map_or_else(|_| String::new(), |refusal| refusal.text);
                self.failed(&why);
            }
            (Stage::Idle | Stage::Over(..), _) => {}
        }
        None
    }

    fn failed(&mut self, why: &str) {
        tracing::error!("the program of this instance: {why}");
        eprintln!("eddy broker: {}: {why}", self.command[0]);
        self.stage = Stage::Over(CODE_FAILED, None);
    }

    fn submission(&self) -> Result<SubmitRequest, String> {
        let inherit = || json!("inherit");
        let name = PathBuf::from(&self.command[0]);
        let signal = self.signal.clone();
        let signal = signal.map(|signal| (warning::OPTION.to_owned(), signal));
        let limit = |(name, soft): (&&str, &u64)| {
            let soft = i64::try_from(*soft).unwrap_or(-1);
            (format!("{}.{name}", shell_options::RLIMIT), json!(soft))
        };
        let ask = Ask {
            command: self.command.clone(),
            ranks: Some(Idset::one(0)),
            takes: Takes::Nothing,
            name: name.file_name().map(|name| name.to_string_lossy().into()),
            cwd: std::env::current_dir()
                .ok()
                .and_then(|cwd| cwd.to_str().map(str::to_owned)),
            environment: environment(),
            shell_options: [
                ("input.stdin.type".to_owned(), inherit()),
                ("output.stdout.type".to_owned(), inherit()),
                ("output.stderr.type".to_owned(), inherit()),
                // It starts others: none of them is to be bound as it is.
                (shell_options::CPU_AFFINITY.to_owned(), json!("off")),
            ]
            .into_iter()
            .chain(signal)
            .chain(self.limits.iter().map(limit))
            .collect(),
            ..Ask::default()
        };
        let jobspec = ask.jobspec().map_err(|error| error.to_string())?;
        let jobspec = serde_json::to_value(&jobspec).map_err(|error| error.to_string())?;
        serde_json::from_value(json!({ "key": self.key, "jobspec": jobspec }))
            .map_err(|error| error.to_string())
    }
}

/// Says on the job's standard error what kept the program from starting, as it
/// wrote nothing itself. What else ended it is its parent's to tell.
fn say_why(end: &JobEnd) {
    if let Some(why) = end
        .exception
        .as_deref()
        .and_then(|why| why.strip_prefix("exec: "))
    {
        eprintln!("eddy: {why}");
    }
}

/// This process's own, without what says whose task it is.
fn environment() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !OUTER.iter().any(|outer| name.starts_with(outer)))
        .map(|(name, value)| (name, Some(value)))
        .collect()
}

/// The key under which the program is submitted, always the same: its time is
/// that of the grant, the rest the instance's own.
fn key_of(instance: &str, begun: Time) -> Uuid {
    let mut rest = [0; 10];
    let id = Uuid::parse_str(instance).unwrap_or_default();
    rest.copy_from_slice(&id.as_bytes()[..10]);
    let millis = u64::try_from(begun.0 / 1000).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &rest).into_uuid()
}
