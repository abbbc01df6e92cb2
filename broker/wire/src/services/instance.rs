//! Requests about the instance itself.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::job::{EventsLine, is_declared};
use super::service;
use crate::error::Refusal;
use crate::id::{Epoch, JobId, Rank, Seq};
use crate::message::Roles;
use crate::time::Time;

const ANYONE: Roles = Roles::OWNER.or(Roles::USER).or(Roles::ADMIN);

service!(
    /// Is it there, and who answers.
    Ping, "instance.ping", ANYONE, PingRequest => Pong
);
service!(
    /// End the instance: running jobs are cancelled, waiting ones stay for the next start.
    Shutdown, "instance.shutdown", Roles::OWNER.or(Roles::ADMIN), ShutdownRequest => ()
);
service!(
    /// The configuration in force.
    Config, "instance.config", ANYONE, () => Value
);
service!(
    /// Read the configuration file again and obey what may change while the instance runs.
    Reload, "instance.reload", Roles::OWNER.or(Roles::ADMIN), ReloadRequest => Reloaded
);
service!(
    /// Set keys of the configuration over the file, until it is read again.
    SetConfig, "instance.set-config", Roles::OWNER.or(Roles::ADMIN), SetConfigRequest => Reloaded
);
service!(
    /// All durable records from a place on: a stream of batches.
    Stream, "events.stream", Roles::OWNER.or(Roles::ADMIN), StreamRequest => StreamReply
);
service!(
    /// When each batch of records became durable, for `eddy trace`.
    Commits, "instance.commits", Roles::OWNER.or(Roles::ADMIN), CommitsRequest => Vec<Commit>
);

/// What [`Ping`] asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PingRequest {
    /// Sent back as it is.
    #[serde(default)]
    pub pad: String,
}

/// Who answers a ping.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pong {
    /// The instance's id.
    pub instance: String,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The version of eddy.
    pub version: String,
    /// User id of the owner.
    pub owner: u32,
    /// The rank that answers; 0 is the leader.
    pub rank: Rank,
    /// The instance's path, as `905/3`; empty for a root.
    pub path: String,
    /// How deep it is nested; 0 for a root.
    pub depth: u32,
    /// Where the parent is reached from the node of that rank; none for a root.
    pub parent: Option<String>,
    /// The phase: `run` when it takes work.
    pub phase: String,
    /// The last durable record.
    pub durable: Seq,
    /// What the instance lacks to answer what changes something, for people: room on its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
    /// Broker time.
    pub t: Time,
    /// Sent back.
    pub pad: String,
}

/// What [`Shutdown`] asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShutdownRequest {
    /// Why, one line.
    #[serde(default)]
    pub note: String,
    /// The name of the declared instance that is meant, in which others have jobs: without it none is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
}

/// The longest reason for the end of an instance (limit `shutdown note`).
pub const NOTE_BYTES_MAX: usize = 1024;
/// The memo that says who ended an instance.
pub const SHUTDOWN: &str = "shutdown";

impl ShutdownRequest {
    /// Whether the instance is meant that was asked, which is declared under that name or under none. A declared
    /// one looks like any by its path, and ends with the jobs of others in it.
    ///
    /// # Errors
    /// It is not, with what means it.
    pub fn is_meant(&self, declared: Option<&str>) -> Result<(), Refusal> {
        match (declared, self.declared.as_deref()) {
            (Some(name), Some(named)) if name == named => Ok(()),
            (None, None) => Ok(()),
            (Some(name), _) => Err(Refusal::invalid(format!(
                "{}, and would begin anew; `eddy shutdown --instance={name}` means it",
                is_declared(name)
            ))),
            (None, Some(named)) => Err(Refusal::invalid(format!(
                "declared: `{}` given, this is not a declared instance",
                named.escape_debug()
            ))),
        }
    }

    /// What is recorded of it: who asked, and why.
    ///
    /// # Errors
    /// The reason is not one line, or too long.
    pub fn memo(&self, userid: u32) -> Result<Map<String, Value>, Refusal> {
        if self.note.len() > NOTE_BYTES_MAX || self.note.contains('\n') {
            let text = format!("note: one line of at most {NOTE_BYTES_MAX} bytes is allowed");
            return Err(Refusal::invalid(text));
        }
        let asked = json!({"userid": userid, "note": self.note});
        Ok([(SHUTDOWN.to_owned(), asked)].into_iter().collect())
    }
}

/// What [`Stream`] asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    /// The first record wanted; 0 or 1 is the beginning.
    #[serde(default)]
    pub from: Seq,
    /// Go on with what comes.
    #[serde(default)]
    pub follow: bool,
}

/// A batch of records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StreamReply {
    /// The records: the job (none for the instance's own) and the line.
    pub records: Vec<(Option<JobId>, EventsLine)>,
}

/// What [`Commits`] asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitsRequest {
    /// Places in the journal of interest.
    pub seqs: Vec<Seq>,
}

/// One commit: its records and when they were durable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// The first record in it.
    #[serde(default)]
    pub first: Seq,
    /// The last record in it.
    pub seq: Seq,
    /// When it was durable.
    pub t: Time,
}

/// What [`Reload`] asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// Only say what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// What [`SetConfig`] asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetConfigRequest {
    /// `KEY=VALUE`, each put over what is in force.
    pub set: Vec<String>,
    /// Only say what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// What came of changing the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reloaded {
    /// What is in the way, a line each: then nothing was changed.
    #[serde(default)]
    pub errors: Vec<String>,
    /// What is different now, a line each.
    #[serde(default)]
    pub changed: Vec<String>,
    /// What differs in the file and counts from the next start on, a line each.
    #[serde(default)]
    pub restart: Vec<String>,
    /// What is to be known of the file all the same, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warned: Vec<String>,
}
