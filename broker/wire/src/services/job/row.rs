//! A job as listings show it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::{Attempt, JobId};
use crate::lifecycle::{JobResult, JobState};
use crate::preempt::{Preempted, Shrink};
use crate::suspension::Standing;
use crate::time::Time;

/// One job in a listing (fields documented in eddy-jobs(1)).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its number.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// User id of its submitter; the command shows the name beside it.
    pub userid: u32,
    /// Where it is in its life.
    pub state: JobState,
    /// How it ended.
    pub result: Option<JobResult>,
    /// The code scripts expect, once ended.
    pub returncode: Option<i32>,
    /// Largest wait status of its tasks.
    pub status: Option<i32>,
    /// Which run, from 1.
    pub attempt: Attempt,
    /// Its queue; empty is the instance's only one.
    pub queue: String,
    /// The account it is charged to; empty where there are no accounts.
    #[serde(default)]
    pub account: String,
    /// Its QoS; empty is the policy's default.
    #[serde(default)]
    pub qos: String,
    /// Its class; empty is the policy's default.
    #[serde(default)]
    pub class: String,
    /// The set of jobs it belongs to; empty is none.
    #[serde(default)]
    pub job_set: String,
    /// 0 to 31.
    pub urgency: u8,
    /// Place in the queue.
    pub priority: Option<i64>,
    /// Why it waits, or the exception that ended it.
    pub reason: String,
    /// Nodes held, or asked for.
    pub nnodes: u32,
    /// Cores held, or asked for.
    pub ncores: u32,
    /// GPUs held, or asked for.
    pub ngpus: u32,
    /// Tasks.
    pub ntasks: u32,
    /// Hosts held, RFC 29; empty before.
    pub nodelist: String,
    /// Time limit in seconds; none when it has none.
    pub duration: Option<f64>,
    /// When it was submitted.
    pub t_submit: Time,
    /// When its (latest) resources were granted.
    pub t_alloc: Option<Time>,
    /// When its tasks had started.
    pub t_run: Option<Time>,
    /// When its tasks had ended.
    pub t_finish: Option<Time>,
    /// When it was over.
    pub t_inactive: Option<Time>,
    /// Whether it has its cores, where it runs.
    #[serde(default)]
    pub standing: Standing,
    /// For how long it had none, in seconds, until it last got them back.
    #[serde(default)]
    pub suspended: f64,
    /// Since when it has none.
    #[serde(default)]
    pub t_suspend: Option<Time>,
    /// Where its instance was over before it: the last moment of which that one recorded anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_unended: Option<Time>,
    /// How many of its attempts were ended for the sake of another job.
    #[serde(default)]
    pub preemptions: u32,
    /// For which, and why, the last time.
    #[serde(default)]
    pub preempted: Option<Preempted>,
    /// Nodes that it is to give for the sake of others while it goes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gives: Vec<Shrink>,
    /// Whether it is an instance; rows that earlier releases wrote of ended jobs do not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_instance: bool,
    /// The exception that ended it, or is to. This and what follows is told where [`Detail::All`] is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<Ended>,
    /// What it still waits for, as its event log describes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// The key of its submission, which its copies have, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Uuid>,
    /// The working directory of its tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

impl JobRow {
    /// Without what tables have no use for.
    #[must_use]
    pub fn usual(self) -> JobRow {
        JobRow {
            exception: None,
            dependencies: Vec::new(),
            key: None,
            cwd: None,
            ..self
        }
    }
}

/// By which exception a job ended (RFC 21).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// `cancel`, `timeout`, `exec`, ..., or a user's word.
    #[serde(rename = "type")]
    pub kind: String,
    /// 0 (fatal) to 7.
    pub severity: u8,
    /// One line for people.
    #[serde(default)]
    pub note: String,
}

/// How much a row tells of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// What tables show. A row of a job that is over is told as it was written, with all.
    #[default]
    Usual,
    /// All of it: listings are long, and few ask for that.
    All,
}

impl Detail {
    pub(super) fn is_usual(&self) -> bool {
        *self == Detail::Usual
    }
}
