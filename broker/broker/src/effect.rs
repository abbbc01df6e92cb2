//! What leaves a broker: effects held until durable, and the closed set of
//! those that need not wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use eddy_wire::error::Refusal;
use eddy_wire::event::{Exception, IdBlock, Requeue, Waitable};
use eddy_wire::filter::{Asked, Filter, Ruling};
use eddy_wire::hash::Hash;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::json;
use eddy_wire::message::{Roles, Type};
use eddy_wire::plan::Delta;
use eddy_wire::preempt::{Preemption, Shrink};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{DrainedNodes, Granted, Passed, Summary, TakenUp, ToldOf};
use eddy_wire::services::job::{
    EventsLine, JobEnd, JobRow, JobSet, ListRequest, Over, SubmitRequest, Submitted,
};
use eddy_wire::shell::ToShell;
use eddy_wire::time::{Span, Time};
use eddy_wire::tree::HostOrder;
use serde::Serialize;
use uuid::Uuid;

/// A client's connection to this rank; given by the driver, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl ClientId {
    /// From here up a driver numbers who has no connection: the parent, whose clients' requests came over
    /// its channel, and the leader itself.
    pub const OWN_FROM: u64 = 1 << 63;

    /// Whether it is one of those.
    pub fn is_own(self) -> bool {
        self.0 >= ClientId::OWN_FROM
    }

    /// Whether it has a connection, and a number above this one.
    pub fn is_above(self, number: u64) -> bool {
        self.0 > number && !self.is_own()
    }
}

/// One outstanding call: which connection, which match number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    /// The connection.
    pub client: ClientId,
    /// The caller's own number for the call.
    pub matchtag: u64,
}

/// An answer on its way to a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// To whom.
    pub to: Caller,
    /// Last, one of several, or a refusal.
    pub kind: Type,
    /// JSON text.
    pub body: Bytes,
    /// Raw bytes.
    pub tail: Bytes,
}

impl Reply {
    /// An answer without a tail.
    pub fn new(to: Caller, kind: Type, body: &impl Serialize) -> Reply {
        let body = json::to_vec(body);
        Reply {
            to,
            kind,
            body: body.into(),
            tail: Bytes::new(),
        }
    }

    /// Whether nothing follows it.
    pub fn is_last(&self) -> bool {
        self.kind != Type::Part
    }
}

/// Something a driver is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Answer a client.
    Reply(Reply),
    /// Tell the shell of this epoch. Lost when it is not connected: what
    /// matters is told again after its next hello.
    Shell(Epoch, ToShell),
    /// Start a shell for these ranks under this epoch.
    LaunchShell(Idset, Epoch),
    /// Find out whether that shell of these ranks still lives; if it does not, end what it
    /// left behind and report `ShellDead`. If it does, it will say hello.
    CheckShell(Idset, Epoch),
    /// End that shell of the rank of another node, whether or not it does anything any more, and what it left
    /// behind; report `ShellDead`. Safe to repeat.
    EndShell(Rank, Epoch),
    /// Have a rank of this instance host a rank of a child on its node; safe to repeat.
    Host(Rank, Box<HostOrder>),
    /// Have it host that instance no more.
    Unhost(Rank, String),
    /// Tell the parent; lost while the channel is down.
    Parent(ToParent),
    /// Ask the journal; the tag comes back with the answer.
    Query(QueryTag, Query),
    /// Ask a filter of submissions; the tag comes back with [`Answer::Ruled`], in time.
    Filter(QueryTag, Arc<Filter>, Box<Asked>),
    /// Feed the planner; it answers with `Planned`.
    Plan(Vec<Delta>),
    /// Bring a `Tick` at this time; earlier wishes stand too.
    Wake(Time),
    /// This process is to end.
    Exit(Exit),
}

/// Effects that need not wait for the disk, because they tell of nothing that
/// is not durable and start nothing. Closed on purpose: a new one is a
/// decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Volatile {
    /// A read-only answer, a part of a stream of durable facts, or a refusal.
    Reply(Reply),
    /// Welcome, input, reads of output: nothing that starts or ends a task.
    Shell(Epoch, ToShell),
    /// Look whether the shell of these ranks lives.
    CheckShell(Idset, Epoch),
    /// Tell the parent what may be told at any time.
    Parent(ToParent),
    /// Ask the journal.
    Query(u64, Query),
    /// Ask a filter: what is not taken yet is nothing that could be lost.
    Filter(u64, Arc<Filter>, Box<Asked>),
    /// Feed the planner: a verdict does nothing until it is recorded.
    Plan(Vec<Delta>),
    /// Wake up later.
    Wake(Time),
}

impl Volatile {
    /// As an effect of the module at `module` in the path's order.
    pub(crate) fn into_effect(self, module: usize) -> Effect {
        match self {
            Volatile::Reply(reply) => Effect::Reply(reply),
            Volatile::Shell(epoch, message) => Effect::Shell(epoch, message),
            Volatile::CheckShell(ranks, epoch) => Effect::CheckShell(ranks, epoch),
            Volatile::Parent(word) => Effect::Parent(word),
            Volatile::Query(tag, query) => Effect::Query(QueryTag { module, tag }, query),
            Volatile::Filter(tag, filter, asked) => {
                Effect::Filter(QueryTag { module, tag }, filter, asked)
            }
            Volatile::Plan(deltas) => Effect::Plan(deltas),
            Volatile::Wake(at) => Effect::Wake(at),
        }
    }
}

/// What a child tells its parent over the channel.
#[derive(Clone, Debug, PartialEq)]
pub enum ToParent {
    /// Give the block of job numbers of this number.
    Ids(u64),
    /// What this instance has come to.
    Report(Summary),
    /// What a job that was passed to it has come to.
    Told(Box<ToldOf>),
    /// Nothing runs any more on these nodes of its, which go back.
    Release(Idset),
    /// These nodes of a queue instance were drained in it, and the parent has not drained them.
    Drained(Vec<DrainedNodes>),
    /// Answer this request of a client of this instance; the message, encoded.
    Refer(Caller, Bytes),
    /// That client waits for no answer any more.
    TakeBack(Caller),
    /// Take this submission; the tag comes back with the answer.
    Submit(u64, Box<HandedUp>),
    /// Take this submission, which this instance took while nobody heard; the number of its first job
    /// comes back with the answer.
    TakenUp(Box<HandedUp>, Box<TakenUp>),
    /// All of those that have begun were said: nothing begins here any more that was not passed down; and
    /// so many jobs are not answered for yet.
    Settled(u64),
}

/// A submission that was made in a queue instance.
#[derive(Clone, Debug, PartialEq)]
pub struct HandedUp {
    /// Who submitted.
    pub user: u32,
    /// What that user is there.
    pub roles: Roles,
    /// What was submitted.
    pub submission: SubmitRequest,
}

/// What a parent tells a child over the channel.
#[derive(Clone, Debug, PartialEq)]
pub enum ParentWord {
    /// What the child has: first, and after each change.
    Granted(Box<Granted>),
    /// A block of job numbers.
    Ids(IdBlock),
    /// Why there is none: the parent refused it.
    NoIds(Refusal),
    /// A job for this instance, its jobspec and its environment.
    Pass(Box<Passed>, Bytes),
    /// A job that was passed is to end for the sake of another, in so long at the latest.
    Preempted(JobId, Attempt, Span, Box<Preemption>),
    /// An instance that was passed is to give nodes for the sake of another job, in so long at the latest.
    Shrink(JobId, Attempt, Span, Box<Shrink>),
    /// A job that was passed is to end.
    End(JobId, Attempt, Box<Exception>),
    /// A signal for the tasks of a job that was passed.
    Signal(JobId, Attempt, i32),
    /// A signal for the program that this instance was begun for.
    Program(i32),
    /// The tasks of a job that was passed are to be stopped: for which time, and who wants it.
    Pause(JobId, Attempt, u32, Option<u32>),
    /// They are to go on, on these cores.
    Proceed(JobId, Attempt, Arc<ResourceSet>),
    /// How long the tasks of a job that was passed may run from now on, counted from their start.
    Limit(JobId, Attempt, Span),
    /// The parent has recorded the end of a job that was passed.
    Forget(JobId, Attempt),
    /// What became of a submission that was handed up, by its tag.
    Submitted(u64, Result<Submitted, Refusal>),
    /// What became of a submission that was taken without the parent, by the number of its first job.
    TakenUp(JobId, Result<Submitted, Refusal>),
    /// An answer to what was referred to it.
    Answered(Reply),
    /// The channel is down.
    Away,
}

/// Whose query it is: the module's place and its own tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueryTag {
    /// The module's place in the path.
    pub module: usize,
    /// The module's tag.
    pub tag: u64,
}

/// Why the process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// In order, recorded.
    Stopped,
}

/// A question to the journal about what has left memory. Read-only.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// The submission that user made under that key.
    Key(u32, Uuid),
    /// Rows of finished jobs, newest first, a portion at a time.
    Rows(Box<ListRequest>),
    /// The row and the records' places of one finished job.
    Finished(JobId),
    /// These records as event log lines.
    Records(Vec<Seq>),
    /// At most `1` records from place `0` on, all jobs; none behind that with which they have [`RANGE_BYTES`].
    Range(Seq, u32),
    /// A stored text by hash.
    Blob(Hash),
    /// How jobs ended in an instance that is over, by what that left.
    Within(Box<Left>),
}

/// So many bytes of contexts or more are all that is read of a range at a time: it fits into one message.
pub const RANGE_BYTES: usize = 4 << 20;

/// What an instance left that is over, and which of its jobs are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its state directory, by its own word.
    pub statedir: String,
    /// Whose it was: nothing is read there with more rights.
    pub user: u32,
    /// The jobs.
    pub jobs: JobSet,
}

/// The journal's answer, or a filter's.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// First number, count and jobspec of that submission.
    Key(Option<KeyFound>),
    /// Nothing is known of that key, but it was made before some submission
    /// that was purged: whether it was used cannot be told any more.
    KeyForgotten,
    /// Rows, and behind which one to go on: the journal looks through so many at a time, whatever is asked for.
    Rows(Vec<JobRow>, Option<Over>),
    /// A finished job.
    Finished(Option<Box<(JobRow, Vec<Seq>)>>),
    /// Lines, with the jobs they belong to.
    Records(Vec<(Option<JobId>, EventsLine)>),
    /// The text.
    Blob(Option<Bytes>),
    /// Those of the jobs that the instance knew, and their ends where those are recorded.
    Within(BTreeMap<JobId, Option<JobEnd>>),
    /// What a filter says of a submission, or why it says nothing.
    Ruled(Ruling),
    /// The journal could not be read, or not what was left.
    Failed(String),
}

/// A submission found by its key, as the first of its jobs that is kept has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFound {
    /// Its first job.
    pub first: JobId,
    /// How many.
    pub count: u32,
    /// What it asked for.
    pub jobspec: Hash,
    /// The value of `{cc}` in that job, for copies.
    pub cc: Option<u32>,
    /// Whether its jobs are kept until somebody has waited for them.
    pub waitable: Waitable,
    /// Whether they start again after a lost node.
    pub requeue: Requeue,
}

/// What the driver writes of a job that is over, in the transaction of its `clean` or in a later one,
/// but before it answers any question about rows: a cache, rebuilt from the records at will.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The row that listings show.
    pub row: JobRow,
    /// The places of its records.
    pub seqs: Vec<Seq>,
}

/// Room on the disk that the journal is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disk {
    /// Commits go through.
    Room,
    /// They do not; the text gives path and figures.
    Full(String),
}
