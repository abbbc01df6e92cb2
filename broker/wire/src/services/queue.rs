//! Requests about queues.

use serde::{Deserialize, Serialize};

use super::service;
use crate::message::Roles;
use crate::queue::{Gate, Rules, Turn};
use crate::time::Time;

service!(
    /// Let queues take submissions and start jobs, or not.
    TurnQueue, "queue.turn", Roles::OWNER.or(Roles::ADMIN), TurnRequest => TurnReply
);
service!(
    /// The queues there are.
    List, "queue.list", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), () => Vec<QueueRow>
);

/// What [`TurnQueue`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnRequest {
    /// Which; none is all of them.
    #[serde(default)]
    pub queues: Vec<String>,
    /// What becomes of them.
    pub turn: Turn,
    /// Why, one line.
    #[serde(default)]
    pub reason: String,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnReply {
    /// How many queues are otherwise now than they were.
    pub changed: u64,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueRow {
    /// Its name; `root` is those jobs that name none.
    pub name: String,
    /// The instance that serves it; none is this one.
    pub instance: Option<String>,
    /// Why that is down, and the queue with it; none where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<String>,
    /// Whether that is up and not reached now: it is given nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreached: bool,
    /// Whether jobs that name no queue are of this one.
    pub default: bool,
    /// Whether it is configured no more, and listed for the jobs that it has yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// Whether it takes submissions and starts jobs.
    pub gate: Gate,
    /// Jobs in it that wait. Those in the instance that serves it are counted there.
    pub pending: u64,
    /// And that hold something.
    pub running: u64,
    /// Those of them of which nothing was heard since they were given what they hold, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unheard: Option<Unheard>,
    /// What holds for its jobs.
    pub rules: Rules,
}

/// Jobs that hold something, and of which it was not told yet that their tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unheard {
    /// How many.
    pub jobs: u64,
    /// Since when the first of them holds it.
    pub since: Time,
}
