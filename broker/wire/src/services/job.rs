//! Requests about jobs: submit, watch, change, end, list.

mod lines;
mod row;
mod set;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::service;
use crate::event::{Requeue, Waitable};
use crate::id::{Attempt, JobId};
use crate::idset::Idset;
use crate::input::{Position, Taken};
use crate::lifecycle::{JobResult, JobState};
use crate::message::Roles;
use crate::time::{Span, Time};
use crate::update::Terms;
pub use lines::{EventsLine, Told};
pub use row::{Detail, Ended, JobRow};
pub use set::JobSet;

const USERS: Roles = Roles::OWNER.or(Roles::USER).or(Roles::ADMIN);

service!(
    /// Submit one jobspec, or copies of it.
    Submit, "job.submit", USERS, SubmitRequest => Submitted
);
service!(
    /// Wait for the end of jobs: a stream of [`JobEnd`]s, one batch a part.
    Wait, "job.wait", USERS, WaitRequest => Vec<JobEnd>
);
service!(
    /// Collect the result of a waitable job, once.
    Collect, "job.collect", USERS, CollectRequest => JobEnd
);
service!(
    /// The event log of one job: a stream of batches of lines.
    Events, "job.events", USERS, EventsRequest => EventsReply
);
service!(
    /// The output of one job: a stream; frames of its spool in the tail.
    Output, "job.output", USERS, OutputRequest => OutputReply
);
service!(
    /// Standard input for a running job; the bytes are the tail. Who does not say where they stand is told nothing.
    Input, "job.input", USERS, InputRequest => Option<InputReply>
);
service!(
    /// Raise an exception; severity 0 ends the job. `cancel` is one of type `cancel`.
    Raise, "job.raise", USERS, RaiseRequest => Changed
);
service!(
    /// What [`Raise`] would do that asks the same, which is not done.
    WouldRaise, "job.would-raise", USERS, RaiseRequest => Would
);
service!(
    /// Send a signal to the tasks of a running job.
    Kill, "job.kill", USERS, KillRequest => Changed
);
service!(
    /// Change the urgency: 0 holds, 31 expedites.
    Urgency, "job.urgency", USERS, UrgencyRequest => Changed
);
service!(
    /// Let held jobs go, with the urgency they had before.
    Release, "job.release", USERS, ReleaseRequest => Changed
);
service!(
    /// Stop the tasks of running jobs and give their cores back.
    Suspend, "job.suspend", USERS, SuspendRequest => Changed
);
service!(
    /// Let suspended jobs go on as soon as there are cores for them.
    Resume, "job.resume", USERS, SuspendRequest => Changed
);
service!(
    /// Change the time limit of jobs that wait or run.
    Update, "job.update", USERS, UpdateRequest => Changed
);
service!(
    /// The order among a user's own jobs that wait.
    Order, "job.order", USERS, OrderRequest => Changed
);
service!(
    /// End this attempt and wait again as the next.
    RequeueJob, "job.requeue", USERS, RequeueRequest => Changed
);
service!(
    /// Rows of jobs: a stream of batches.
    List, "job.list", USERS, ListRequest => Vec<JobRow>
);
service!(
    /// A stored document of a job: `jobspec`, `R`, `eventlog`.
    Info, "job.info", USERS, InfoRequest => InfoReply
);

/// Which jobs to wait for, and how soon each end is to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRequest {
    /// The jobs.
    #[serde(flatten)]
    pub jobs: JobSet,
    /// How long an end may be kept to be told together with others, up to
    /// [`GATHER_MAX`]; none is kept by default. The last is told at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gather: Span,
}

/// The longest an end may be kept.
pub const GATHER_MAX: Span = Span::seconds(1);

fn is_zero(span: &Span) -> bool {
    *span == Span::ZERO
}

impl From<JobSet> for WaitRequest {
    fn from(jobs: JobSet) -> WaitRequest {
        WaitRequest {
            jobs,
            gather: Span::ZERO,
        }
    }
}

/// Most ranges one request may name.
pub const JOB_RANGES_MAX: usize = 65_536;

/// What [`Submit`] asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// Made by the sender, UUIDv7: the same key is the same submission.
    pub key: Uuid,
    /// RFC 14/25 jobspec.
    pub jobspec: Value,
    /// One copy per id, `{cc}` replaced; none means one job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc: Option<Idset>,
    /// 0 to 31, 16 by default.
    #[serde(default = "default_urgency")]
    pub urgency: u8,
    /// Kept until collected.
    #[serde(default)]
    pub waitable: Waitable,
    /// Run again after a lost node.
    #[serde(default)]
    pub requeue: Requeue,
    /// The user whose jobs they are to be, if not the sender's: for the owner and admins.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub on_behalf: Option<u32>,
}

/// The urgency of a job whose submitter says nothing (RFC 30).
pub const URGENCY_DEFAULT: u8 = 16;
/// The largest urgency: expedite.
pub const URGENCY_MAX: u8 = 31;

fn default_urgency() -> u8 {
    URGENCY_DEFAULT
}

/// The numbers a submission got: contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The first.
    pub first: JobId,
    /// How many.
    pub count: u32,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobEnd {
    /// The job.
    pub id: JobId,
    /// Its result.
    pub result: JobResult,
    /// The code scripts expect.
    pub returncode: i32,
    /// The exception that ended it: `type: note`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
}

/// What [`Collect`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectRequest {
    /// This job, or whichever waitable one ends next.
    #[serde(default)]
    pub id: Option<JobId>,
}

/// What [`Events`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsRequest {
    /// The job.
    pub id: JobId,
    /// Go on until the job is over.
    #[serde(default)]
    pub follow: bool,
}

/// Lines of an event log with their places in the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventsReply {
    /// The lines, in order.
    pub lines: Vec<EventsLine>,
}

/// What [`Output`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputRequest {
    /// The job.
    pub id: JobId,
    /// Which attempt; the latest when not given.
    #[serde(default)]
    pub attempt: Option<Attempt>,
    /// Where to go on in each rank's spool, by place among the job's ranks.
    #[serde(default)]
    pub offsets: Vec<u64>,
    /// Go on until the job has ended.
    #[serde(default)]
    pub follow: bool,
}

/// One part of an output stream; the frames are the message's tail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputReply {
    /// Which attempt.
    pub attempt: Attempt,
    /// Which of the job's ranks, by place from 0.
    pub node_index: u32,
    /// Where this rank's stream goes on.
    pub next: u64,
    /// In the last answer: the hosts (RFC 29) of which nothing can be told, since they are not in the instance
    /// now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub missing: String,
}

/// What [`Input`] asks; the bytes are the tail.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputRequest {
    /// The job.
    pub id: JobId,
    /// Task ranks; empty is all.
    #[serde(default)]
    pub tasks: Idset,
    /// Whether nothing follows.
    #[serde(default)]
    pub eof: bool,
    /// Where the bytes stand in all that this sender sends. What says it may be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Position>,
}

/// What became of input, said once all shells that have such tasks have room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputReply {
    /// Up to where all bytes of the sender were taken: it goes on from there, be it behind or before what it sent.
    pub next: u64,
    /// What became of the portion: `kept`, `unread`, `elsewhere` or `over`.
    pub taken: Taken,
}

/// Which jobs a change is of that names none by number or set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// None: such a change is refused, since whoever named none may have meant to name some.
    #[default]
    Named,
    /// All of the sender of which it can be true.
    All,
    /// The same of that user; of another's only owner and admins may ask.
    User(u32),
    /// All of everybody on whose jobs the sender may act.
    Everybody,
}

impl Scope {
    fn is_named(&self) -> bool {
        *self == Scope::Named
    }
}

/// What [`Raise`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaiseRequest {
    /// The jobs.
    pub jobs: JobSet,
    /// Only jobs in these states; all active states when empty.
    #[serde(default)]
    pub states: Vec<JobState>,
    /// Instead of `jobs`: those of this set of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_set: Option<String>,
    /// Instead of both: whether all are meant.
    #[serde(default, skip_serializing_if = "Scope::is_named")]
    pub scope: Scope,
    /// Of one job that is a declared instance: its name, without which its end is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
    /// `cancel`, or a word of the user's.
    #[serde(rename = "type")]
    pub kind: String,
    /// 0 (fatal) to 7.
    #[serde(default)]
    pub severity: u8,
    /// One line.
    #[serde(default)]
    pub note: String,
}

/// What [`Kill`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillRequest {
    /// The jobs.
    pub jobs: JobSet,
    /// Signal number, 1 to 64.
    pub signal: i32,
}

/// The key of a memo of a job that says which signal (`signum`) somebody else than its user (`userid`) sent its tasks.
pub const SIGNALLED: &str = "signal";

/// What [`Update`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateRequest {
    /// The jobs.
    #[serde(default)]
    pub jobs: JobSet,
    /// Instead of them: those of this set of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_set: Option<String>,
    /// Their time limit from now on, counted from their start; 0 is none, for those that wait. Whoever wants
    /// more or less than there is says how much that is: so the request may be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// With a limit of 0: none at all, as `-t inf` of a submission; else they have the one of those who ask for none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlimited: bool,
    /// Only of those that have a certain limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reckoned: Option<Reckoned>,
    /// What else is to be other of those that wait.
    #[serde(default, skip_serializing_if = "Terms::is_empty")]
    pub set: Terms,
    /// Also where one that runs would be on another queue's nodes for longer than they are lent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// From which limit another was reckoned. A job that has not that one is refused with [`LIMIT_MOVED`], so
/// that whoever adds to it reckons again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reckoned {
    /// That limit.
    pub from: Span,
    /// Made by the sender, for each reckoning: the same again is the same change.
    pub key: Uuid,
}

/// Why a job is refused another limit that has not the one it was to have.
pub const LIMIT_MOVED: &str = "its time limit is another by now";

/// What [`Urgency`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrgencyRequest {
    /// The jobs.
    pub jobs: JobSet,
    /// Instead of `jobs`: those of this set of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_set: Option<String>,
    /// Instead of both: whether all are meant.
    #[serde(default, skip_serializing_if = "Scope::is_named")]
    pub scope: Scope,
    /// 0 to 31.
    pub urgency: u8,
}

/// What [`Suspend`] and [`Resume`] ask.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuspendRequest {
    /// The jobs.
    pub jobs: JobSet,
    /// Instead of `jobs`: those of this set of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_set: Option<String>,
    /// Instead of both: whether all are meant.
    #[serde(default, skip_serializing_if = "Scope::is_named")]
    pub scope: Scope,
}

/// How often something may be said of an attempt of a job that changes nothing of it, or can be taken back: by
/// exceptions that end no job, places in an order, urgencies, and that it is to stop for a while. Each is a record that
/// the job keeps as long as it is there.
pub const REMARKS_MAX: u32 = 1000;

/// The most jobs that are put in order at a time.
pub const ORDERED_MAX: u32 = 1000;

/// What [`Order`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderRequest {
    /// The jobs, the first to start first: all of one user, waiting.
    pub jobs: Vec<JobId>,
    /// What places they get.
    #[serde(default)]
    pub places: Places,
}

/// What places jobs get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Places {
    /// Those in which they are named.
    #[default]
    AsNamed,
    /// That of a job that was never named.
    Forgotten,
}

/// What [`Release`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The jobs.
    pub jobs: JobSet,
    /// Instead of `jobs`: those of this set of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_set: Option<String>,
    /// Instead of both: whether all are meant.
    #[serde(default, skip_serializing_if = "Scope::is_named")]
    pub scope: Scope,
}

/// What [`RequeueJob`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequeueRequest {
    /// The jobs, running.
    pub jobs: JobSet,
    /// Which attempt is to end; the one that runs when not given. With it a repeated request ends no later attempt.
    #[serde(default)]
    pub attempt: Option<Attempt>,
    /// Of one job that is a declared instance: its name, without which its end is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
    /// One line.
    #[serde(default)]
    pub note: String,
}

/// What a job is that the configuration declares, said where its number does not mean it.
#[must_use]
pub fn is_declared(name: &str) -> String {
    format!("it is the declared instance {name}, in which others have jobs")
}

/// How many refusals one answer names.
pub const REFUSED_MAX: usize = 1000;

/// What became of a change to many jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// How many were changed.
    pub count: u64,
    /// Those that were not, with the reason; at most [`REFUSED_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<(JobId, String)>,
    /// Those that a group never means, with the names of the declared instances that they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spared: Vec<(JobId, String)>,
}

/// What a change of many jobs would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Would {
    /// The jobs that would be changed.
    pub jobs: JobSet,
    /// How many others it would leave as they are, since they are other users'; those that are refused by their
    /// number are not counted.
    pub others: u64,
    /// What it would say of the rest.
    pub changed: Changed,
}

/// What [`List`] asks; all given conditions hold together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// Only these jobs; all when empty.
    #[serde(default)]
    pub jobs: JobSet,
    /// Only in these states; all active when empty.
    #[serde(default)]
    pub states: Vec<JobState>,
    /// Only with these results.
    #[serde(default)]
    pub results: Vec<JobResult>,
    /// Only of this user.
    #[serde(default)]
    pub user: Option<u32>,
    /// Only with this name.
    #[serde(default)]
    pub name: Option<String>,
    /// Only in this queue.
    #[serde(default)]
    pub queue: Option<String>,
    /// Only in one of these; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Asked of a queue instance: only what is in it, and not what waits for it in its parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub here: bool,
    /// Only charged to this account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Only of this set of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_set: Option<String>,
    /// Only over since then.
    #[serde(default)]
    pub since: Option<Time>,
    /// Of those that are over, only the ones behind this one in the listing: the latest to end come first, of
    /// those that ended together the highest numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Over>,
    /// At most so many rows; 0 is no limit.
    #[serde(default)]
    pub limit: u32,
    /// How much each tells.
    #[serde(default, skip_serializing_if = "Detail::is_usual")]
    pub detail: Detail,
}

/// A job that is over, by when that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Over {
    /// When it was over.
    pub t: Time,
    /// The job.
    pub id: JobId,
}

/// What [`Info`] asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InfoRequest {
    /// The job.
    pub id: JobId,
    /// Which document.
    pub key: InfoKey,
}

/// Documents kept with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InfoKey {
    /// What was asked for.
    Jobspec,
    /// What was given (RFC 20).
    #[serde(rename = "R")]
    Resources,
    /// What happened.
    Eventlog,
}

/// The document, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InfoReply {
    /// The document.
    pub document: Value,
}

/// Dotted keys and values, as updates carry them.
pub type Updates = Map<String, Value>;
