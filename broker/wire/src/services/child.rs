//! Requests between an instance and the instances inside it.
//!
//! A child's leader calls these on a broker of its parent on its own node, as
//! any client does; it may speak only for the job that it is
//! (doc/protocol/nesting.md).

mod above;
mod granted;
mod passed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::job::{JobSet, SubmitRequest, Submitted};
use super::service;
use crate::event::{Adoption, Exception, IdBlock, Sent};
use crate::id::{Attempt, Epoch, JobId};
use crate::idset::Idset;
use crate::message::{Roles, Type};
use crate::payload::Keeps;
use crate::preempt::{Preemption, Shrink};
use crate::resource_set::ResourceSet;
use crate::time::{Span, Time};
pub use above::{Closed, Counted, QueueAbove};
pub use granted::Granted;
pub use passed::Passed;

/// How deep instances nest: the root is at depth 0, and no instance is deeper than this
/// (limit `nesting`).
pub const NESTING_MAX: u32 = 16;
/// How many job numbers a queue instance draws at a time.
pub const ID_BLOCK: u64 = 1024;

const USERS: Roles = Roles::OWNER.or(Roles::USER).or(Roles::ADMIN);

service!(
    /// The channel: the child says who it is and is told what it has; stays open, and brings
    /// whatever changes and the requests that are for the child.
    Adopt, "child.adopt", USERS, AdoptRequest => FromParent
);
service!(
    /// The child's answer to a request that came over its channel; the message is the tail.
    Answer, "child.answer", USERS, AnswerRequest => ()
);
service!(
    /// Draws the next block of job numbers from the parent's: for queue instances.
    Ids, "child.ids", USERS, IdsRequest => IdBlock
);
service!(
    /// What the child has come to, for listings of the parent.
    Report, "child.report", USERS, ReportRequest => ()
);
service!(
    /// That the child is there, and whether the parent is: again and again over an idle channel.
    Beat, "child.beat", USERS, ChildOf => ()
);
service!(
    /// A submission that was made in a queue instance: its jobs are the parent's.
    HandUp, "child.submit", USERS, HandUpRequest => Submitted
);
service!(
    /// A request that was made in a queue instance about jobs that its parent has and it has not. The message,
    /// stamped by the child, is the tail; it is answered as if it had come by itself.
    Refer, "child.refer", Roles::OWNER, ChildOf => ()
);
service!(
    /// All that the instance began while its parent was away is said: from now on it begins nothing by
    /// itself. Said once more when all that it took is answered for.
    Settled, "child.settled", USERS, SettledRequest => ()
);
service!(
    /// What jobs that were passed to a queue instance have come to there.
    Told, "child.told", USERS, ToldRequest => ()
);
service!(
    /// Nothing runs any more on nodes that a user's instance gives back.
    Release, "child.release", USERS, ReleaseRequest => ()
);
service!(
    /// Nodes of a queue instance were drained there. They are the parent's, who drains them; said again
    /// whenever the channel stands anew, as long as the parent has not told that they are.
    Drained, "child.drained", USERS, DrainedRequest => ()
);
service!(
    /// A request for the instance that this job here is: how a job in it ended. The message is the tail; the
    /// sender's user counts, not what is stamped in it.
    Inside, "child.inside", USERS, JobId => ()
);
service!(
    /// The instances that are jobs of this one.
    Children, "child.list", USERS, ChildrenRequest => Vec<ChildRow>
);

service!(
    /// Whose these job numbers are: sets that one request may name, in order.
    Owners, "child.owners", USERS, JobSet => Vec<JobSet>
);

/// The job of an instance that is the program it was begun for, where there is one: nobody was heard before it.
pub const PROGRAM: JobId = JobId(1);

/// Which job an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChildOf {
    /// The job in the parent.
    pub job: JobId,
    /// Which attempt of it.
    pub attempt: Attempt,
}

/// What [`Adopt`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdoptRequest {
    /// Which job it is.
    pub child: ChildOf,
    /// Its instance id. The first one told for an attempt stays the only one.
    pub instance: String,
    /// Where its clients connect.
    pub uri: String,
    /// Where its ranks knock.
    pub door: String,
    /// Its state directory, whose journal is its history when it is over.
    pub statedir: String,
    /// Its leader's epoch.
    pub leader: Epoch,
    /// How often it says [`Beat`], at least; none is never.
    pub beat: Option<Span>,
    /// What it keeps of payloads of jobs that were passed over this channel; none is nothing.
    pub keeps: Option<Keeps>,
}

/// What a parent tells a child over the channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromParent {
    /// First, and after each change: what the child has and where it is.
    Granted(Box<Granted>),
    /// A request for the child; the message, stamped by the parent, is the tail.
    Request {
        /// Names it in the answers.
        call: u64,
    },
    /// Nobody waits for that answer any more.
    Cancel {
        /// Which.
        call: u64,
    },
    /// A job for the child; the tail is its jobspec and its environment. Said again whenever the
    /// channel stands anew, until the parent has recorded the job's end.
    Pass(Box<Passed>),
    /// A job that was passed is to end for the sake of another; how, says the [`FromParent::End`] that
    /// follows.
    Preempted {
        /// Which job.
        job: JobId,
        /// And which attempt.
        attempt: Attempt,
        /// What is left until the last of its tasks is killed.
        left: Span,
        /// As the parent recorded it.
        preemption: Box<Preemption>,
    },
    /// An instance that was passed is to go on with fewer nodes, in the child's ranks. Said again whenever the
    /// channel stands anew, as long as it has one of them.
    Shrink {
        /// Which job.
        job: JobId,
        /// And which attempt.
        attempt: Attempt,
        /// What is left until whatever is left there is killed.
        left: Span,
        /// As the parent recorded it.
        shrink: Box<Shrink>,
    },
    /// A job that was passed is to end, or never to begin.
    End {
        /// Which job.
        job: JobId,
        /// And which attempt.
        attempt: Attempt,
        /// Why, as the parent recorded it.
        exception: Exception,
    },
    /// A signal for the tasks of a job that was passed.
    Signal {
        /// Which job.
        job: JobId,
        /// And which attempt.
        attempt: Attempt,
        /// Its number.
        signal: i32,
    },
    /// A signal for the program that the child was begun for, its job [`PROGRAM`].
    Program {
        /// Its number.
        signal: i32,
    },
    /// The tasks of a job that was passed are to be stopped, and its cores to be given back. Answered by
    /// [`PassState::Stopped`].
    Pause {
        /// Which job.
        job: JobId,
        /// And which attempt.
        attempt: Attempt,
        /// Which time it is that the parent stops it, counted from 1.
        stop: u32,
        /// Who wants it so; nobody where another job needs its cores.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        userid: Option<u32>,
    },
    /// The tasks of a job that was passed are to run, after they were to be stopped.
    Proceed {
        /// Which job.
        job: JobId,
        /// And which attempt.
        attempt: Attempt,
        /// On which cores, in the child's ranks; nothing else is in it.
        cores: Arc<ResourceSet>,
    },
    /// Another time limit of a job that was passed. Said again whenever the channel stands anew.
    Limit {
        /// Which job.
        job: JobId,
        /// And which attempt.
        attempt: Attempt,
        /// How long its tasks may run, counted from their start.
        limit: Span,
    },
    /// The end of a job that was passed is recorded by the parent: it need not be told again.
    Forget {
        /// Which job.
        job: JobId,
        /// And which attempt.
        attempt: Attempt,
    },
}

/// A pass that comes with so many bytes of what its job carries is answered as soon as it is recorded, so that the
/// next may be said: with less it is answered by what the job comes to.
pub const PASS_LARGE: u64 = 64 << 10;

/// What [`HandUp`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandUpRequest {
    /// Which job the instance is.
    pub child: ChildOf,
    /// Who submitted, as the instance was told by the kernel.
    pub user: u32,
    /// What that user is there.
    pub roles: Roles,
    /// What was submitted. Without a queue it is for the first that leads to the instance.
    pub submission: SubmitRequest,
    /// What became of it, if the instance took it itself while its parent was away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Box<TakenUp>>,
}

/// A submission that a queue instance took while its parent was away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakenUp {
    /// The number of its first job, of a block that the instance drew.
    pub first: JobId,
    /// When it was submitted.
    pub submitted: Time,
    /// Who asked, where that was another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<u32>,
    /// What was sent, where defaults were put in since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
    /// Those of its jobs that were begun without the parent.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub begun: BTreeSet<JobId>,
    /// The urgency of each of its jobs, where that was changed since.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub urgencies: BTreeMap<JobId, u8>,
}

/// A job that was begun without the parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begun {
    /// When it was given resources.
    pub t: Time,
    /// Which, in the child's ranks.
    #[serde(rename = "R")]
    pub set: Arc<ResourceSet>,
}

/// What [`Settled`] asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettledRequest {
    /// Which job the instance is.
    pub child: ChildOf,
    /// How many jobs that it took, and of which nothing has begun, are not answered for yet.
    #[serde(default)]
    pub open: u64,
}

/// What [`Release`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// Which job the instance is.
    pub child: ChildOf,
    /// The nodes, as it counts them. Those that are not its own any more are passed over.
    pub ranks: Idset,
}

/// What [`Drained`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainedRequest {
    /// Which job the instance is.
    pub child: ChildOf,
    /// The nodes. Those that are not its own any more are passed over.
    pub nodes: Vec<DrainedNodes>,
}

/// Nodes that were drained in a queue instance for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainedNodes {
    /// Which, as it counts them.
    pub ranks: Idset,
    /// Why, one line.
    pub reason: String,
    /// By whom.
    pub userid: u32,
}

/// What [`Told`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToldRequest {
    /// Which job the instance is.
    pub child: ChildOf,
    /// Jobs that were passed to it.
    pub jobs: Vec<ToldOf>,
}

/// What a job that was passed has come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToldOf {
    /// Which job.
    pub job: JobId,
    /// And which attempt.
    pub attempt: Attempt,
    /// How it is.
    pub state: PassState,
    /// When its tasks began, as the child recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Time>,
    /// When it gave back what it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// What it was given, where it was begun without the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Box<Begun>>,
    /// Who it is, where it is an instance that has said hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Box<Adoption>>,
}

/// So many words back one is looked for that a later one says, too.
const SAID_LATELY: usize = 64;

impl ToldOf {
    /// It is there, and no more is known of it.
    pub fn accepted(job: JobId, attempt: Attempt) -> ToldOf {
        ToldOf {
            job,
            attempt,
            state: PassState::Accepted,
            began: None,
            ended: None,
            begun: None,
            adopted: None,
        }
    }

    /// Goes with what is to be said, in the place of what it says, too.
    pub fn join(self, words: &mut Vec<ToldOf>) {
        let first = words.len().saturating_sub(SAID_LATELY);
        let mut lately = words[first..].iter_mut();
        match lately.rfind(|before| self.says_all_of(before)) {
            Some(before) => *before = self,
            None => words.push(self),
        }
    }

    /// Whether it says all that this did which was said before it: that a job is over which began says when it
    /// began, too.
    fn says_all_of(&self, before: &ToldOf) -> bool {
        let is_same = (self.job, self.attempt) == (before.job, before.attempt);
        let says = match (&before.state, &self.state) {
            (PassState::Accepted, _) => true,
            (PassState::Running, PassState::Over { began, .. }) => *began,
            (
                PassState::Running
                | PassState::Stopped { .. }
                | PassState::Returned { .. }
                | PassState::Over { .. },
                _,
            ) => false,
        };
        is_same && says
    }
}

/// How a job that was passed is, as the child has recorded it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassState {
    /// The child has it, and it has not begun.
    Accepted,
    /// Its tasks run.
    Running,
    /// Its tasks are stopped, as the parent wanted, and it has no cores there.
    Stopped {
        /// The number of the [`FromParent::Pause`] that this answers.
        stop: u32,
    },
    /// It is an instance that goes on without these nodes, in the child's ranks: what it was given there
    /// it has no more, and nothing of it runs there.
    Returned {
        /// All that it has returned so far.
        ranks: Idset,
    },
    /// It is over there, and nothing of it runs.
    Over {
        /// Whether its tasks ever ran.
        began: bool,
        /// The worst wait status of its tasks, if there were any.
        status: Option<i32>,
        /// Why it ended, if not by itself.
        exception: Option<Exception>,
    },
}

/// What [`Answer`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    /// Which job it is.
    pub child: ChildOf,
    /// Which call.
    pub call: u64,
    /// Last, one of several, or a refusal.
    pub kind: AnswerKind,
}

/// [`Type`] of an answer, in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerKind {
    /// The last answer.
    Reply,
    /// More follows.
    Part,
    /// A refusal, which is the last.
    Refused,
}

impl AnswerKind {
    /// As the type of a message.
    pub fn message_type(self) -> Type {
        match self {
            AnswerKind::Reply => Type::Reply,
            AnswerKind::Part => Type::Part,
            AnswerKind::Refused => Type::Refused,
        }
    }
}

/// What [`Ids`] asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdsRequest {
    /// Which job it is.
    pub child: ChildOf,
    /// The how-manieth block of this job it is, from 1: asked again, the same block is given.
    pub number: u64,
}

/// What [`Report`] asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportRequest {
    /// Which job it is.
    pub child: ChildOf,
    /// Its figures.
    pub summary: Summary,
}

/// An instance in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Jobs that wait.
    pub pending: u64,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that are over and ended well.
    pub completed: u64,
    /// Jobs that are over and did not.
    pub failed: u64,
    /// Cores in grants now; never more than it has.
    pub cores_used: u64,
    /// Instances inside it, at any depth.
    pub instances: u64,
}

/// What [`Children`] asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildrenRequest {
    /// Only this one, also when it is over.
    #[serde(default)]
    pub job: Option<JobId>,
    /// Go on: the list again whenever it changes.
    #[serde(default)]
    pub follow: bool,
    /// Only those of this name. A declared one that is down is refused with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One instance in an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildRow {
    /// The job that it is.
    pub job: JobId,
    /// The name it was declared under, or that its job has.
    pub name: String,
    /// Its id, once it has said hello.
    pub instance: Option<String>,
    /// Where its clients connect.
    pub uri: Option<String>,
    /// Its state directory.
    pub statedir: Option<String>,
    /// Where it is in its life.
    pub stage: Stage,
    /// Nodes of its grant, and of those by which it has grown.
    pub nnodes: u32,
    /// Cores of these; of an elastic instance, of what its jobs may be given.
    pub ncores: u32,
    /// Queues that lead to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Whether it is declared, and nobody's job.
    #[serde(default)]
    pub declared: bool,
    /// When it ends by its limit.
    pub until: Option<Time>,
    /// What it said last of itself.
    pub summary: Summary,
}

/// Where a child instance is in its life, as its parent sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Its job waits.
    Waiting,
    /// Its job runs and its leader has not said hello yet.
    Starting,
    /// Its channel stands.
    Serving,
    /// It had said hello and its channel is down; its work goes on.
    Away,
    /// It is ending.
    Ending,
    /// It is over.
    Over,
}
