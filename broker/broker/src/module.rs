//! What a module is: state folded from records, and a handler.
//!
//! Everything with state is `apply(record)` plus `handle(now, input, outbox)`.
//! `apply` is the same live and in replay and does nothing but change state;
//! `handle` may propose events and effects and is never called during replay.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{DeclaredDead, Event, Kind, Record, Submit};
use eddy_wire::id::{Attempt, Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobResult;
use eddy_wire::message::{Roles, Type};
use eddy_wire::plan::{Head, Outcome, Reason, Suppose, Used};
use eddy_wire::services::child::TakenUp;
use eddy_wire::services::job::{Changed, URGENCY_DEFAULT, URGENCY_MAX};
use eddy_wire::shell::FromShell;
use eddy_wire::time::Time;
use eddy_wire::update::{Limit, Terms};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::effect::{
    Answer, Caller, ClientId, Disk, Effect, Finished, ParentWord, Reply, Volatile,
};
use crate::router::Endpoint;

/// A service of the instance.
pub trait Module {
    /// Its name, for logs and panics.
    fn name(&self) -> &'static str;

    /// The requests it answers and who may send them.
    fn endpoints(&self) -> &'static [Endpoint] {
        &[]
    }

    /// Whether this request is for this module although another answers its
    /// topic: asked of all modules in order, before the router's choice counts.
    /// Most instances relay nothing, so this must cost nothing then.
    fn claims(&self, _request: &Request) -> bool {
        false
    }

    /// Whether an event that was proposed can still happen. What was proposed before it in the same
    /// turn is folded by now; an event that rests on what is no longer so is dropped, since its
    /// module owes something else now.
    fn stands(&self, _event: &Event) -> bool {
        true
    }

    /// Puts into an event that is about to get its number what would follow from it at once
    /// ([`Kind::implied`](eddy_wire::event::Kind::implied)): what was proposed before it is folded by now.
    fn completes(&self, _event: &mut Event) {}

    /// Folds a record, or what one implies: state only. The same live and in replay.
    fn apply(&mut self, record: &Record);

    /// To which words about each record it reacts: it is given no other. There are two for every record and
    /// module, so this is most of what a module without a say would be called for.
    fn reacts(&self) -> Reacts {
        Reacts::ToBoth
    }

    /// Reacts to an input. Everything proposed must be safe to repeat after a
    /// crash between any two steps.
    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox);

    /// Adds the places of the records this module's state rests on, so that a
    /// restart needs to read only those. Any order, repetitions allowed.
    fn live(&self, _seqs: &mut Vec<Seq>) {}
}

/// To which words about a record a module reacts, of [`Input::Applied`] and [`Input::Durable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reacts {
    /// To neither: records move its state, and it speaks when it is spoken to.
    ToNeither,
    /// To what every module has folded.
    ToApplied,
    /// To what is on disk.
    ToDurable,
    /// To each.
    ToBoth,
}

/// What a module is given.
#[derive(Debug)]
pub enum Input<'a> {
    /// A request for one of its endpoints.
    Request(&'a Request),
    /// A caller took a streaming request back.
    Cancel(Caller),
    /// A client's connection ended: all its calls with it.
    Gone(ClientId),
    /// A shell said something.
    Shell(Epoch, &'a FromShell),
    /// A shell's connection ended; it may come back.
    ShellAway(Epoch),
    /// That life of a shell is over for certain and nothing it started runs.
    ShellDead(Epoch),
    /// The ranks that are reached now, the leader's own among them.
    Ranks(&'a Idset),
    /// Ranks of children that a rank hosts, as it says in each new tenure:
    /// instance, job and attempt.
    Hosted(Rank, &'a [(String, JobId, Attempt)]),
    /// The parent said something, or cannot be heard.
    Parent(&'a ParentWord),
    /// A planner's answer.
    Planned(&'a Outcome),
    /// The answer to one of this module's queries, by its own tag.
    Answer(u64, &'a Answer),
    /// Every module has folded this record; it is not durable yet.
    Applied(&'a Record),
    /// This record is durable.
    Durable(&'a Record),
    /// Something another module knows and does not record.
    Notice(&'a Notice),
    /// Room on the disk changed.
    Disk(&'a Disk),
    /// Another configuration is to be in force: who asks, and the memo it would be.
    Configure(Caller, &'a Map<String, Value>),
    /// A mark is about to be made: record what is to be kept in place of records that are over.
    Marking,
    /// Replay is over: do what is owed. The memo is of the configuration of this start, where it rests on what
    /// was replayed.
    Resume(Option<&'a Map<String, Value>>),
    /// A wake-up asked for is due (or another's: check).
    Tick,
    /// The instance is to end: end what runs, start nothing.
    Stop,
}

/// What modules of one rank tell each other without recording it.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The ranks whose shells are connected.
    Online(Idset),
    /// Why the first who wait do so, and what that is to those behind them.
    Head(Heads, Line),
    /// A job waits though what its queue requires leaves nothing that it fits on, or does so no more.
    Unmet(JobId, Option<Reason>),
    /// Why nothing begins here at all, or that work begins again.
    Halted(Option<Reason>),
    /// What was used before this leader began.
    Used(Arc<[Used]>),
    /// What was used is to be reckoned anew, by another policy: whoever has the books says what that is.
    Reckon,
    /// All that was used and is over, in place of what was told of it.
    Past(Arc<[Used]>),
    /// Whoever asks declares that nothing of the shells of these ranks is left, which nobody hears of.
    Dead(Caller, Idset, DeclaredDead),
    /// The declared instances that can be told something now.
    Serving(BTreeSet<String>),
    /// A signal for the tasks of a job that was passed to one of them, or for the program of an instance.
    Signal(JobId, i32),
    /// An instance that a job is has nothing any more on these ranks, and gives them back.
    GivenBack(JobId, Idset),
    /// Nodes of this queue instance were drained in it: once all of this turn are, its parent is told.
    Drained,
    /// A request that is another module's, made for who asked.
    HandedUp(Box<Request>),
    /// The same, of what a queue instance took itself while this one was away.
    TakenUp(Box<Request>, Box<TakenUp>, TakenBy),
    /// Jobs are to have other time limits, queues or accounts, if they may.
    Limits(Box<NewLimits>),
    /// What became of that for a part of the many jobs of the change that began by this record.
    Limited(Seq, Box<Changed>),
    /// Somebody asks what would be in the way of these jobs, were they to ask for something else.
    Supposed(Caller, Box<Suppose>, Vec<SupposedJob>),
    /// A request for the tasks of a job, and the instance that it was passed to.
    Elsewhere(Box<Request>, String),
    /// Somebody waits for the end of a job in an instance.
    AskInside(Inner),
    /// What became of it, as its user was told.
    Inside(Inner, Inside),
}

/// What somebody who may ask for it wants to be other of jobs: time limits, and the terms of those that wait.
/// Whether they may have that is to be seen, and who asks is to be answered.
#[derive(Clone, Debug, PartialEq)]
pub struct NewLimits {
    /// Who is told what became of it.
    pub told: LimitsTold,
    /// As whom.
    pub sender: Sender,
    /// The key by which it was reckoned from what the jobs had.
    pub key: Option<Uuid>,
    /// Whether who owns nodes that they run on is asked.
    pub lent: Lent,
    /// The jobs of which it is refused already, and why.
    pub refused: Vec<(JobId, String)>,
    /// The others.
    pub asked: Vec<NewLimit>,
}

/// Who is told what became of new limits of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitsTold {
    /// Who asked.
    Caller(Caller),
    /// The change of many jobs that began by this record, of which they are a part: [`Notice::Limited`].
    Change(Seq),
}

/// For how long jobs may be on nodes that another queue lends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lent {
    /// For as long as it does.
    AsSaid,
    /// For longer, since somebody says so who may.
    Longer,
}

/// A job that waits, of which somebody supposes something else.
#[derive(Clone, Debug, PartialEq)]
pub struct SupposedJob {
    /// The job.
    pub job: JobId,
    /// As it is.
    pub submit: Arc<Submit>,
    /// Why who asks may not have it as urgent as that, as he would be told if he asked for it.
    pub denied: Option<String>,
}

/// What is to be other of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct NewLimit {
    /// The job.
    pub job: JobId,
    /// As it is.
    pub submit: Arc<Submit>,
    /// The time limit, if that is.
    pub limit: Option<Limit>,
    /// Whether that is more than it has.
    pub change: LimitChange,
    /// What else, of one that waits.
    pub set: Terms,
    /// How far the job is.
    pub stage: LimitedJob,
}

/// Whether a new time limit is a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitChange {
    /// It is. Without a limit before, no limit is longer.
    Longer,
    /// It is not.
    Shorter,
}

/// How far a job is whose time limit is to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitedJob {
    /// It waits.
    Waits,
    /// It holds something.
    Runs {
        /// On these ranks.
        ranks: Idset,
        /// When it would end.
        until: Time,
    },
}

/// Who took a submission while its parent was away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBy {
    /// The queue instance.
    pub instance: Arc<str>,
    /// First and last numbers that others have drawn which may not have handed up yet what they took.
    pub awaited: Vec<(JobId, JobId)>,
    /// Why its jobs cannot be this instance's to begin, where that is found before they are looked at.
    pub refused: Option<Refusal>,
}

/// A job in an instance, and who asks for it: each user is told of what he may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inner {
    /// The instance: a job here.
    pub instance: JobId,
    /// The job there.
    pub job: JobId,
    /// User id of who waits for it.
    pub user: u32,
}

/// What ended a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// Its tasks.
    Itself,
    /// An exception.
    Exception,
}

/// How a job in an instance ended, as far as it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// So, and by what.
    Ended(JobResult, EndedBy),
    /// The instance knows of none.
    Unknown,
    /// The instance is over, and neither was anything heard before nor does what it left tell.
    Over,
}

/// Who is first of those who wait, and why it does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heads {
    /// Of those who wait for no instance in particular.
    pub main: Option<(JobId, Reason)>,
    /// Of those who wait for what an instance holds.
    pub apart: Vec<Head>,
}

/// What becomes of those behind a job that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Line {
    /// They wait for it.
    #[default]
    Stands,
    /// They may pass it.
    Passes,
}

/// A request that passed the router: topic known, role allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Who asked and under which match number.
    pub caller: Caller,
    /// `service.verb`.
    pub topic: String,
    /// The sender's user id, from the kernel.
    pub uid: u32,
    /// The sender's roles, stamped by the broker.
    pub roles: Roles,
    /// JSON text.
    pub body: Bytes,
    /// Raw bytes.
    pub tail: Bytes,
}

/// Whose a request is, by the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The user id.
    pub uid: u32,
    /// The roles, as stamped.
    pub roles: Roles,
}

impl Sender {
    /// Whether it may act on, and read, what is of this user.
    pub fn may_act_for(self, user: u32) -> bool {
        self.uid == user || self.roles.may_administer()
    }

    /// The most urgent that it may have a job (RFC 30): what is above the default is the owner's and admins', or
    /// whoever asked for it would be before everybody's share.
    pub fn urgency_max(self) -> u8 {
        match self.roles.may_administer() {
            true => URGENCY_MAX,
            false => URGENCY_DEFAULT,
        }
    }

    /// That it may not, said of a job.
    pub fn refused(self, job: JobId, user: u32) -> Refusal {
        let text = format!(
            "job {} is of user {user}; user {} may not ask for this",
            job.f58_ascii(),
            self.uid
        );
        Refusal::new(Code::Denied, text)
    }
}

impl Request {
    /// Whose it is.
    pub fn sender(&self) -> Sender {
        Sender {
            uid: self.uid,
            roles: self.roles,
        }
    }

    /// The body as `T`, or a refusal naming topic and field.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body)
            .map_err(|e| Refusal::invalid(format!("{}: {e}", self.topic)))
    }
}

/// What a module gives: events to record, effects, answers.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) append: Vec<Event>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) volatile: Vec<Volatile>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) finished: Vec<Finished>,
}

impl Outbox {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        let Outbox {
            append,
            effects,
            volatile,
            notices,
            finished,
        } = self;
        append.is_empty()
            && effects.is_empty()
            && volatile.is_empty()
            && notices.is_empty()
            && finished.is_empty()
    }

    /// Proposes an event of `job` at `now`. It is folded by every module right
    /// after this handler returns.
    pub fn append(&mut self, now: Time, job: JobId, kind: Kind) {
        self.append.push(Event {
            t: now,
            job: Some(job),
            kind,
        });
    }

    /// Proposes an event of the instance itself.
    pub fn append_own(&mut self, now: Time, kind: Kind) {
        self.append.push(Event {
            t: now,
            job: None,
            kind,
        });
    }

    /// Something to do once everything recorded so far is durable.
    pub fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Something that may leave at once: it tells of nothing undurable.
    pub fn volatile(&mut self, volatile: Volatile) {
        self.volatile.push(volatile);
    }

    /// The final answer to a call, held until what it tells of is durable.
    pub fn reply(&mut self, to: Caller, body: &impl Serialize) {
        self.effect(Effect::Reply(Reply::new(to, Type::Reply, body)));
    }

    /// The final answer to a read-only call: at once.
    pub fn answer(&mut self, to: Caller, body: &impl Serialize) {
        self.volatile(Volatile::Reply(Reply::new(to, Type::Reply, body)));
    }

    /// One part of a stream of durable facts: at once.
    pub fn part(&mut self, to: Caller, body: &impl Serialize, tail: Bytes) {
        self.volatile(Volatile::Reply(Reply {
            tail,
            ..Reply::new(to, Type::Part, body)
        }));
    }

    /// A refusal: at once, since it changed nothing.
    pub fn refuse(&mut self, to: Caller, refusal: &Refusal) {
        self.volatile(Volatile::Reply(Reply::new(to, Type::Refused, refusal)));
    }

    /// Tells the other modules of this rank.
    pub fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// The derived row of a job that is over.
    pub fn finished(&mut self, finished: Finished) {
        self.finished.push(finished);
    }
}
