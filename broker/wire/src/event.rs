//! Events: something that happened, in the form of RFC 18 and 21.
//!
//! Modules propose events, the journal numbers them (then they are records),
//! and all state is the fold of records. The enum is closed: a new event is a
//! new variant, and every match over it stops compiling until it is decided.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::account::Changed;
use crate::grant::Grant;
use crate::hash::Hash;
use crate::id::{Attempt, Epoch, JobId, Seq};
use crate::idset::Idset;
use crate::job::Place;
use crate::jobspec::Work;
use crate::json::to_string as json;
use crate::preempt::{Preemption, Shrink};
use crate::queue::Turned;
use crate::reservation::Kept;
use crate::resource_set::ResourceSet;
use crate::spec::Spec;
use crate::time::Time;
use crate::usage::{Day, Tally};

mod basis;

mod submit;

mod pass;

mod context;

pub use basis::{Added, Basis};
use context::*;
pub use pass::{Pass, PassedTo, Taken, Together};
pub use submit::{Entry, Requeue, Sent, Submit, Waitable};

/// Something that happened, at a time, to a job or (no job) to the instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, in broker time.
    pub t: Time,
    /// To which job; `None` is the instance itself.
    pub job: Option<JobId>,
    /// What.
    pub kind: Kind,
}

/// An event with its place in the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its place: dense, from 1.
    pub seq: Seq,
    /// The event.
    pub event: Event,
}

impl Record {
    /// What it stands for beside its event, as a record of the same place: whoever folds records folds that after it.
    pub fn implied(&self) -> Option<Record> {
        self.event.kind.implied().map(|kind| Record {
            seq: self.seq,
            event: Event {
                t: self.event.t,
                job: self.event.job,
                kind,
            },
        })
    }
}

/// An exception (RFC 21): severity 0 ends the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exception {
    /// `cancel`, `timeout`, `exec`, `node-failure`, `requeue`, `hung`, or a user's word.
    #[serde(rename = "type")]
    pub kind: String,
    /// 0 (fatal) to 7.
    pub severity: u8,
    /// One line for people.
    #[serde(default)]
    pub note: String,
    /// Who raised it, when a user did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub userid: Option<u32>,
    /// When what is left is killed, if not by the kill grace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// Whose word it is that a node is dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredDead {
    /// User id of who declared it.
    pub userid: u32,
    /// Why, one line; may be empty.
    pub reason: String,
}

/// Who the instance is that a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// Its id.
    pub instance: String,
    /// Where its clients connect.
    pub uri: String,
    /// Its state directory: its history when it is over.
    pub statedir: String,
}

/// Job numbers set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdBlock {
    /// The how-manieth block of that instance, from 1.
    pub number: u64,
    /// The first job number.
    pub first: JobId,
    /// How many.
    pub count: u64,
}

/// What happened. Names on disk are those of [`Kind::name`].
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    // -- a job's life, in order (RFC 21) --
    /// Accepted and given a number.
    Submit(Arc<Submit>),
    /// Checked against the instance.
    Validate,
    /// The jobspec was changed before start: dotted keys and new values.
    JobspecUpdate(Map<String, Value>),
    /// Something to wait for before being eligible.
    DependencyAdd(String),
    /// That is met.
    DependencyRemove(String),
    /// Nothing more to wait for.
    Depend,
    /// The place in the queue: larger is earlier.
    Priority(i64),
    /// A person changed the urgency: 0 holds, 31 expedites.
    Urgency(u8, u32),
    /// A person gave it a place among jobs of its user.
    Order(Place, u32),
    /// Resources were granted.
    Alloc(Arc<Grant>),
    /// Work before the start began; the start waits for it.
    PrologStart(String),
    /// That work ended with this wait status.
    PrologFinish(String, i32),
    /// The shells of all ranks started their tasks.
    Start,
    /// All tasks ended; the largest wait status.
    Finish(i32),
    /// Work after the end began; `free` waits for it.
    EpilogStart(String),
    /// That work ended with this wait status.
    EpilogFinish(String, i32),
    /// Nothing of the job runs on these ranks any more.
    Release(Idset, Final),
    /// The resources are free again.
    Free,
    /// The job's end is complete.
    Clean,
    /// Something went wrong, or somebody wants it ended.
    Exception(Box<Exception>),
    /// A note of the job or its user, kept with it.
    Memo(Map<String, Value>),
    /// The result was collected by `job wait`.
    Waited,
    // -- a job's further lives --
    /// The attempt ended without ending the job; it waits again as this attempt.
    Requeue(Attempt),
    /// Its tasks are to be stopped, then its cores given back: who asked for it, if a user did.
    Suspend(Option<u32>),
    /// It is to go on as soon as there are cores for it: who asked for that, if a user did.
    Resume(Option<u32>),
    /// It must end by the given time, for another's sake.
    Preempted(Box<Preemption>),
    /// It goes on with fewer nodes, for another's sake.
    Shrink(Box<Shrink>),
    /// Handed to a child instance for start: in records of before; the grant says it now.
    Passed(PassedTo),
    /// The child gave it back.
    Recalled(String),
    /// The grant of a running job changed.
    GrantChanged(Arc<Grant>),
    /// The instance that this job is said who it is.
    Adopt(Box<Adoption>),
    /// A block of job numbers, drawn by the instance that a job is; of no job, by this one from its parent.
    IdBlock(IdBlock),
    // -- the instance's own --
    /// A leader began to serve: its epoch, from 1.
    LeaderStart(Epoch),
    /// A leader ended in order.
    LeaderStop,
    /// The inventory, and what it rests on.
    ResourceDefine(Arc<ResourceSet>, Basis),
    /// A shell began to serve these ranks under this epoch.
    ShellStart(Idset, Epoch),
    /// That life of the shell is over and nothing it started still runs: as was seen, or as somebody says.
    ShellLost(Epoch, Option<Box<DeclaredDead>>),
    /// An administrator takes ranks out of service: reason, user.
    Drain(Idset, String, u32),
    /// And puts them back; the user is not in records of before.
    Undrain(Idset, Option<u32>),
    /// Ranks go back to the parent when nothing runs there any more.
    GiveBack(Idset),
    /// A named value was set: by whom, which is not in records of before.
    Put(String, Value, Option<u32>),
    /// A named value was removed, by whom.
    Delete(String, Option<u32>),
    /// An account, or who is in it, was changed.
    Account(Box<Changed>),
    /// A queue was turned on or off.
    Queue(Box<Turned>),
    /// Nodes were kept for a time, or are no more.
    Reservation(Box<Kept>),
    /// All that was used until now: kept with a mark instead of the records of jobs that are over.
    Usage(Box<Tally>),
    /// What was charged in a day that is over, said before the summary that leaves it out.
    UsageDay(Arc<Day>),
}

/// Whether a release was the job's last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Final {
    /// More ranks still run.
    No,
    /// It was the last; that its resources are free is a record of its own.
    Yes,
    /// It was the last, and its resources are free by it. With the largest wait status of its tasks it stands
    /// for their end, too.
    Free(Option<i32>),
    /// The same, and with that the job is over ([`Record::implied`]).
    Over(Option<i32>),
}

impl Final {
    /// What the last release of a job says that does this. With an instance that is over others end that hold
    /// something of it, so that it is free is a record of its own.
    pub fn of(work: &Work) -> Final {
        match work {
            Work::Tasks => Final::Free(None),
            Work::Instance { .. } | Work::Ground { .. } => Final::Yes,
        }
    }
}

/// Why a row of a journal is not an event of this version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EventError {
    /// No event has this name.
    #[error("event `{0}` is unknown to this version")]
    Name(String),
    /// The version of the record is newer than this build.
    #[error("event `{name}` has version {version}; this build reads up to {EVENT_VERSION}")]
    Version {
        /// The event's name.
        name: String,
        /// The version given.
        version: u16,
    },
    /// Its context does not have the expected shape.
    #[error("event `{name}`: {why}")]
    Context {
        /// The event's name.
        name: String,
        /// What is wrong, with the field.
        why: String,
    },
    /// The jobspec it names by hash is not there.
    #[error("event `submit` names jobspec {0}, which is not stored")]
    Spec(Hash),
}

/// Finds a jobspec by the hashes of its text and of its environment.
pub type SpecLookup<'a> = &'a mut dyn FnMut(&Hash, &Hash) -> Option<Arc<Spec>>;

/// The version of records this build writes.
pub const EVENT_VERSION: u16 = 4;

impl Kind {
    /// The event's name (RFC 21 where it has one).
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Submit(_) => "submit",
            Kind::Validate => "validate",
            Kind::JobspecUpdate(_) => "jobspec-update",
            Kind::DependencyAdd(_) => "dependency-add",
            Kind::DependencyRemove(_) => "dependency-remove",
            Kind::Depend => "depend",
            Kind::Priority(_) => "priority",
            Kind::Urgency(..) => "urgency",
            Kind::Order(..) => "order",
            Kind::Alloc(_) => "alloc",
            Kind::PrologStart(_) => "prolog-start",
            Kind::PrologFinish(..) => "prolog-finish",
            Kind::Start => "start",
            Kind::Finish(_) => "finish",
            Kind::EpilogStart(_) => "epilog-start",
            Kind::EpilogFinish(..) => "epilog-finish",
            Kind::Release(..) => "release",
            Kind::Free => "free",
            Kind::Clean => "clean",
            Kind::Exception(_) => "exception",
            Kind::Memo(_) => "memo",
            Kind::Waited => "waited",
            Kind::Requeue(_) => "requeue",
            Kind::Suspend(_) => "suspend",
            Kind::Resume(_) => "resume",
            Kind::Preempted(_) => "preempted",
            Kind::Shrink(_) => "shrink",
            Kind::Passed(_) => "passed",
            Kind::Recalled(_) => "recalled",
            Kind::GrantChanged(_) => "grant-changed",
            Kind::Adopt(_) => "adopt",
            Kind::IdBlock(_) => "id-block",
            Kind::LeaderStart(_) => "leader-start",
            Kind::LeaderStop => "leader-stop",
            Kind::ResourceDefine(..) => "resource-define",
            Kind::ShellStart(..) => "shell-start",
            Kind::ShellLost(..) => "shell-lost",
            Kind::Drain(..) => "drain",
            Kind::GiveBack(_) => "give-back",
            Kind::Undrain(..) => "undrain",
            Kind::Put(..) => "put",
            Kind::Delete(..) => "delete",
            Kind::Account(_) => "account",
            Kind::Queue(_) => "queue",
            Kind::Reservation(_) => "reservation",
            Kind::Usage(_) => "usage",
            Kind::UsageDay(_) => "usage-day",
        }
    }

    /// Where a job is passed to by this.
    pub fn passed_to(&self) -> Option<&PassedTo> {
        match self {
            Kind::Passed(to) => Some(to),
            Kind::Alloc(grant) => grant.passed.as_deref(),
            _ => None,
        }
    }

    /// What follows from this and is no record of its own: two records less for each job.
    pub fn implied(&self) -> Option<Kind> {
        match self {
            Kind::Submit(submit) => submit.entry.place().map(Kind::Priority),
            Kind::Release(_, Final::Over(_)) => Some(Kind::Clean),
            _ => None,
        }
    }

    /// Whether the job holds nothing any more by this.
    pub fn frees(&self) -> bool {
        matches!(
            self,
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_))
        )
    }

    /// Whether it is of what many used, which outlives the records of their jobs.
    pub fn sums_up(&self) -> bool {
        matches!(self, Kind::Usage(_) | Kind::UsageDay(_))
    }

    /// The largest wait status of tasks that are all over by this.
    pub fn finish(&self) -> Option<i32> {
        match self {
            Kind::Finish(status) => Some(*status),
            Kind::Release(_, Final::Free(status) | Final::Over(status)) => *status,
            _ => None,
        }
    }

    /// The context as JSON text; empty when the event has none.
    pub fn context(&self) -> String {
        match self {
            Kind::Validate
            | Kind::Depend
            | Kind::Start
            | Kind::Free
            | Kind::Clean
            | Kind::Waited
            | Kind::Suspend(None)
            | Kind::Resume(None)
            | Kind::LeaderStop => String::new(),
            Kind::Suspend(Some(userid)) | Kind::Resume(Some(userid)) => {
                format!("{{\"userid\":{userid}}}")
            }
            Kind::Submit(submit) => json(&SubmitContext::of(submit)),
            Kind::JobspecUpdate(map) | Kind::Memo(map) => json(map),
            Kind::DependencyAdd(description)
            | Kind::DependencyRemove(description)
            | Kind::PrologStart(description)
            | Kind::EpilogStart(description) => json(&Described {
                description: description.clone(),
            }),
            Kind::PrologFinish(description, status) | Kind::EpilogFinish(description, status) => {
                json(&DescribedStatus {
                    description: description.clone(),
                    status: *status,
                })
            }
            Kind::Priority(priority) => format!("{{\"priority\":{priority}}}"),
            Kind::Urgency(urgency, userid) => {
                format!("{{\"urgency\":{urgency},\"userid\":{userid}}}")
            }
            Kind::Order(Place { at, of }, userid) => {
                format!("{{\"at\":{at},\"of\":{of},\"userid\":{userid}}}")
            }
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => json(grant),
            Kind::Finish(status) => format!("{{\"status\":{status}}}"),
            Kind::Release(ranks, last) => json(&ReleaseContext {
                ranks: ranks.clone(),
                last: *last != Final::No,
                free: matches!(last, Final::Free(_) | Final::Over(_)),
                over: matches!(last, Final::Over(_)),
                status: self.finish(),
            }),
            Kind::Exception(exception) => json(exception),
            Kind::Adopt(adoption) => json(adoption),
            Kind::IdBlock(block) => json(block),
            Kind::Requeue(attempt) => format!("{{\"attempt\":{}}}", attempt.0),
            Kind::Preempted(preemption) => json(preemption),
            Kind::Shrink(shrink) => json(shrink),
            Kind::Passed(to) => json(to),
            Kind::Recalled(instance) => json(&Instance::of(instance)),
            Kind::LeaderStart(epoch) => json(&Epoched { epoch: *epoch }),
            Kind::ShellLost(epoch, by) => json(&LostContext::of(*epoch, by.as_deref())),
            Kind::ResourceDefine(set, basis) => json(&Defined::of(set, basis)),
            Kind::ShellStart(ranks, epoch) => json(&ShellContext::of(ranks, *epoch)),
            Kind::Drain(ranks, reason, userid) => json(&DrainContext::of(ranks, reason, *userid)),
            Kind::Undrain(ranks, userid) => json(&Ranks::of(ranks, *userid)),
            Kind::GiveBack(ranks) => json(&Ranks::of(ranks, None)),
            Kind::Put(key, value, userid) => json(&Pair::of(key, value, *userid)),
            Kind::Delete(key, userid) => json(&Key::of(key, *userid)),
            Kind::Account(changed) => json(changed),
            Kind::Queue(turned) => json(turned),
            Kind::Reservation(kept) => json(kept),
            Kind::Usage(tally) => json(tally),
            Kind::UsageDay(day) => json(day),
        }
    }

    /// The event that `name` and `context` are. `specs` finds the jobspec a
    /// `submit` names by hash (the journal keeps each jobspec once).
    pub fn decode(
        name: &str,
        version: u16,
        context: &str,
        specs: SpecLookup<'_>,
    ) -> Result<Kind, EventError> {
        if version > EVENT_VERSION {
            return Err(EventError::Version {
                name: name.to_owned(),
                version,
            });
        }
        let from = Context {
            name,
            text: context,
        };
        Ok(match name {
            "submit" => Kind::Submit(Arc::new(from.parse::<SubmitContext>()?.resolve(specs)?)),
            "validate" => Kind::Validate,
            "jobspec-update" => Kind::JobspecUpdate(from.parse()?),
            "dependency-add" => Kind::DependencyAdd(from.parse::<Described>()?.description),
            "dependency-remove" => Kind::DependencyRemove(from.parse::<Described>()?.description),
            "depend" => Kind::Depend,
            "priority" => Kind::Priority(from.parse::<PriorityContext>()?.priority),
            "urgency" => {
                let UrgencyContext { urgency, userid } = from.parse()?;
                Kind::Urgency(urgency, userid)
            }
            "order" => {
                let OrderContext { at, of, userid } = from.parse()?;
                Kind::Order(Place { at, of }, userid)
            }
            "alloc" => Kind::Alloc(Arc::new(from.parse()?)),
            "prolog-start" => Kind::PrologStart(from.parse::<Described>()?.description),
            "prolog-finish" => {
                let DescribedStatus {
                    description,
                    status,
                } = from.parse()?;
                Kind::PrologFinish(description, status)
            }
            "start" => Kind::Start,
            "finish" => Kind::Finish(from.parse::<Status>()?.status),
            "epilog-start" => Kind::EpilogStart(from.parse::<Described>()?.description),
            "epilog-finish" => {
                let DescribedStatus {
                    description,
                    status,
                } = from.parse()?;
                Kind::EpilogFinish(description, status)
            }
            "release" => from.parse::<ReleaseContext>()?.kind(),
            "free" => Kind::Free,
            "clean" => Kind::Clean,
            "exception" => Kind::Exception(from.parse()?),
            "memo" => Kind::Memo(from.parse()?),
            "waited" => Kind::Waited,
            _ => return from.decode_rest(),
        })
    }
}

/// A context still to be parsed, with the name its errors carry.
struct Context<'a> {
    name: &'a str,
    text: &'a str,
}

impl Context<'_> {
    fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, EventError> {
        serde_json::from_str(self.text).map_err(|e| EventError::Context {
            name: self.name.to_owned(),
            why: e.to_string(),
        })
    }

    /// The user who asked for it, if one did.
    fn asker(&self) -> Result<Option<u32>, EventError> {
        match self.text.is_empty() {
            true => Ok(None),
            false => Ok(Some(self.parse::<Asker>()?.userid)),
        }
    }

    /// A job's further lives and the instance's own events.
    fn decode_rest(&self) -> Result<Kind, EventError> {
        Ok(match self.name {
            "requeue" => Kind::Requeue(self.parse::<AttemptContext>()?.attempt),
            "suspend" => Kind::Suspend(self.asker()?),
            "resume" => Kind::Resume(self.asker()?),
            "preempted" => Kind::Preempted(self.parse()?),
            "shrink" => Kind::Shrink(self.parse()?),
            "passed" => Kind::Passed(self.parse()?),
            "recalled" => Kind::Recalled(self.parse::<Instance>()?.instance),
            "grant-changed" => Kind::GrantChanged(Arc::new(self.parse()?)),
            "adopt" => Kind::Adopt(self.parse()?),
            "id-block" => Kind::IdBlock(self.parse()?),
            "leader-start" => Kind::LeaderStart(self.parse::<Epoched>()?.epoch),
            "leader-stop" => Kind::LeaderStop,
            "resource-define" => {
                let Defined { set, basis } = self.parse()?;
                Kind::ResourceDefine(set, basis)
            }
            "shell-start" => {
                let ShellContext { ranks, epoch } = self.parse()?;
                Kind::ShellStart(ranks, epoch)
            }
            "shell-lost" => self.parse::<LostContext>()?.into_kind(),
            "drain" => {
                let DrainContext {
                    ranks,
                    reason,
                    userid,
                } = self.parse()?;
                Kind::Drain(ranks, reason, userid)
            }
            "undrain" => self.parse::<Ranks>()?.undrain(),
            "give-back" => Kind::GiveBack(self.parse::<Ranks>()?.ranks),
            "put" => {
                let Pair { key, value, userid } = self.parse()?;
                Kind::Put(key, value, userid)
            }
            "delete" => {
                let Key { key, userid } = self.parse()?;
                Kind::Delete(key, userid)
            }
            "account" => Kind::Account(self.parse()?),
            "queue" => Kind::Queue(self.parse()?),
            "reservation" => Kind::Reservation(self.parse()?),
            "usage" => Kind::Usage(self.parse()?),
            "usage-day" => Kind::UsageDay(Arc::new(self.parse()?)),
            unknown => return Err(EventError::Name(unknown.to_owned())),
        })
    }
}
