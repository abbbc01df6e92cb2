//! A submission as it is recorded, and what it asks for beside its jobspec.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Exception, Pass, Taken};
use crate::account::Party;
use crate::filter::Filtered;
use crate::hash::Hash;
use crate::id::JobId;
use crate::lifecycle::JobState;
use crate::services::job::URGENCY_DEFAULT;
use crate::spec::Spec;

/// A submission as recorded: who asks for what, under which key.
#[derive(Clone, Debug, PartialEq)]
pub struct Submit {
    /// User id of the submitter, from the kernel.
    pub user: u32,
    /// 0 (hold) to 31 (expedite), 16 by default (RFC 30).
    pub urgency: u8,
    /// Kept until somebody has waited for it (`job wait`).
    pub waitable: Waitable,
    /// Start again after a lost node (`--requeue`).
    pub requeue: Requeue,
    /// The sender's key of the whole submission.
    pub key: Uuid,
    /// Which of the jobs of that submission this is, from 0.
    pub index: u32,
    /// How many jobs that submission has.
    pub count: u32,
    /// The value of `{cc}` in this copy, for `--cc`.
    pub cc: Option<u32>,
    /// Who asked, where that was another: the owner or an admin, for the user.
    pub asked_by: Option<u32>,
    /// Whom it is charged to, and as what.
    pub party: Party,
    /// What is asked for; shared by all copies.
    pub spec: Arc<Spec>,
    /// What was sent, where that is not what is asked for: defaults were put in.
    pub sent: Option<Arc<Sent>>,
    /// What filters did to it, where they did something.
    pub filtered: Option<Arc<Vec<Filtered>>>,
    /// What its parent said when it passed the job down; none for a job of the instance's own.
    pub pass: Option<Arc<Pass>>,
    /// The queue instance that took it while this one was away, and may have begun its first attempt.
    pub taken_in: Option<Arc<str>>,
    /// Where it enters its life.
    pub entry: Entry,
}

/// In which state the submission of a job leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Entry {
    /// `validate` and `depend` are to be recorded, and between them what it waits for.
    #[default]
    New,
    /// It was checked and waits for nothing: the record stands for `validate` and `depend`, too.
    Priority,
    /// The same, and no limit counts for it, so that it has this place in the queue ([`Record::implied`]).
    ///
    /// [`Record::implied`]: super::Record::implied
    Queued(i64),
}

impl Entry {
    /// Of a job that asks for this. What one waited for that was passed down is met: its parent has seen to that.
    pub fn of(spec: &Spec, pass: Option<&Pass>) -> Entry {
        match spec.needs.is_empty() || pass.is_some() {
            true => Entry::Priority,
            false => Entry::New,
        }
    }

    /// The state, before what the record implies.
    pub fn state(self) -> JobState {
        match self {
            Entry::New => JobState::New,
            Entry::Priority | Entry::Queued(_) => JobState::Priority,
        }
    }

    /// The place in the queue that it is given.
    pub fn place(self) -> Option<i64> {
        match self {
            Entry::New | Entry::Priority => None,
            Entry::Queued(place) => Some(place),
        }
    }
}

/// A jobspec and an environment as they were sent: what a repeated submission is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Hash of the jobspec.
    pub jobspec: Hash,
    /// Hash of the environment.
    pub environment: Hash,
}

impl Submit {
    /// One job of this user's own that asks for nothing but this.
    pub fn plain(user: u32, spec: Arc<Spec>) -> Submit {
        Submit {
            user,
            urgency: URGENCY_DEFAULT,
            waitable: Waitable::No,
            requeue: Requeue::No,
            key: Uuid::nil(),
            index: 0,
            count: 1,
            cc: None,
            asked_by: None,
            party: Party::default(),
            spec,
            sent: None,
            filtered: None,
            pass: None,
            taken_in: None,
            entry: Entry::New,
        }
    }

    /// Whether an attempt of it that this ends is followed by another one.
    pub fn runs_again_after(&self, fatal: &Exception) -> bool {
        self.requeue.follows(&fatal.kind)
    }

    /// Whether the instance took it for its parent, which it did not hear.
    pub fn is_taken_here(&self) -> bool {
        let pass = self.pass.as_ref();
        pass.is_some_and(|pass| pass.taken == Taken::Here)
    }

    /// The first job of the array that this is the submission of `job` in, if it is of one.
    pub fn array(&self, job: JobId) -> Option<JobId> {
        let is_array = self
            .spec
            .jobspec
            .attributes
            .system
            .other
            .contains_key("array");
        is_array.then(|| JobId(job.0.saturating_sub(u64::from(self.index))))
    }

    /// What was sent.
    pub fn sent(&self) -> Sent {
        let as_is = Sent {
            jobspec: self.spec.hash,
            environment: self.spec.environment_hash,
        };
        self.sent.as_deref().copied().unwrap_or(as_is)
    }
}

/// Whether somebody is to collect the job's result with `job wait`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waitable {
    /// Nobody waits: the job leaves memory when it is clean.
    #[default]
    No,
    /// Kept until waited for, once.
    Yes,
}

/// What becomes of a job whose node was lost under it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requeue {
    /// It fails with `node-failure`.
    #[default]
    No,
    /// It waits again, as its next attempt.
    OnNodeFailure,
}

impl Requeue {
    /// Whether another attempt follows one that is ended by an exception of this kind.
    pub fn follows(self, fatal: &str) -> bool {
        match fatal {
            "requeue" => true,
            "node-failure" => self == Requeue::OnNodeFailure,
            _ => false,
        }
    }
}
