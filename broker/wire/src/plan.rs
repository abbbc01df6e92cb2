//! What passes between the sched module and a planner: changes in, verdicts out.
//!
//! A planner owns its state, is fed every change, and answers with verdicts; a
//! verdict is a proposal until the sched module has recorded it (RFC 27 has
//! the same seam between job manager and scheduler).

mod answer;
mod later;
mod owner;
mod question;
mod shares;
mod sight;
mod stay;
mod suppose;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::account::{Change, Name};
use crate::gang::Gang;
use crate::id::{JobId, Rank};
use crate::idset::Idset;
use crate::job::Place;
use crate::jobspec::Request;
use crate::pool::{Pool, Takes};
use crate::preempt::{Cause, Preempts, Shrink};
use crate::reservation::Reservation;
use crate::resource_set::ResourceSet;
use crate::time::{Span, Time};

mod bar;

pub use answer::{Answer, Basis, Breakdown, Estimate, Explained, Lent, Likely, Moved, Mover, Term};
pub use bar::Bar;
use bar::{alone, clock};
use words::{also, apart, listed, next, not_up, of_pool, properties, said, times};

pub use owner::{LineName, Owner};
pub use question::Question;
pub use shares::{ShareRow, SharesTold};
pub use stay::{Going, Lasts, Stay};
pub use suppose::{Suppose, SupposeError};

/// One change of what a planner plans over. Each is safe to repeat.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// The whole inventory.
    Inventory(Arc<ResourceSet>),
    /// These ranks can be given work.
    Up(Idset),
    /// These ranks get no new work; what runs there goes on.
    Down(Idset, Unavailable),
    /// A job waits for resources (again: for these).
    Want(JobId, Want),
    /// It waits no longer.
    Unwant(JobId),
    /// A job holds these resources, and who pays for it.
    Held(JobId, Owner, Arc<ResourceSet>),
    /// Somebody who pays for nothing holds these resources: an instance whose jobs are charged
    /// one by one.
    Ground(JobId, Arc<ResourceSet>),
    /// A job that waits in this line has only these left, until it has its cores again or is over: it
    /// is suspended.
    Rests(JobId, LineName, Arc<ResourceSet>),
    /// A job holds these resources, which are none of this line's.
    Charged(JobId, Owner, Arc<ResourceSet>),
    /// What it held is free.
    Freed(JobId),
    /// What it holds comes back by then at the latest: it is ending, perhaps for the sake of a job.
    Ending(JobId, Option<JobId>, Time),
    /// It goes on: nothing came of a verdict that was to end it, nor will before then.
    Kept(JobId, Time),
    /// It goes on, and gives these nodes, all that it is to give now; each until `Held` is said without it.
    Shrinks(JobId, Vec<Shrink>),
    /// It is not to be taken from while it holds what it holds.
    Spared(JobId),
    /// What one who holds something gives when it is taken from; all of it where nothing is said.
    Gives(JobId, Gives),
    /// Who may take from whom.
    Preempts(Arc<Preempts>),
    /// These nodes are for those who wait in this line, and for nobody else; none, and there is no
    /// such line any more.
    Line(Arc<str>, Option<Arc<ResourceSet>>),
    /// Nodes are kept from a time to a time.
    Reserved(Arc<Reservation>),
    /// The reservation of this name is no more: who waits for it waits in vain.
    Unreserved(Name),
    /// Until when there are the nodes that there are.
    Stay(Arc<Stay>),
    /// The pools there are, all of them.
    Pools(Arc<[Pool]>),
    /// A job that holds this has so much of pools, in whatever line it waited; said after `Held`.
    Uses(JobId, Takes, Arc<ResourceSet>),
    /// How jobs are ordered and placed from now on: the text of a policy that was checked before.
    Policy(Arc<str>),
    /// An account, or who is in it, is another from now on.
    Account(Box<Change>),
    /// What was used before the planner was; told once.
    Used(Arc<[Used]>),
    /// Somebody asks why jobs wait; the next outcome answers.
    Explain(Question),
    /// Somebody asks what each account is due, by this tag; the next outcome answers.
    Shares(u64),
}

/// What somebody used over a time: amounts times seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    /// Whom it is charged to.
    pub owner: Owner,
    /// From when.
    pub from: Time,
    /// To when.
    pub to: Time,
    /// Node-seconds.
    pub nodes: f64,
    /// Core-seconds.
    pub cores: f64,
    /// GPU-seconds.
    pub gpus: f64,
    /// GiB-seconds.
    pub memory: f64,
}

/// What a job waits for, and what its turn depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Want {
    /// 0 to 31; 16 is ordinary, 31 goes before every value of a policy.
    pub urgency: u8,
    /// What it asks for.
    pub request: Request,
    /// Who it is for.
    pub owner: Owner,
    /// When it was submitted.
    pub submitted: Time,
    /// Since when it could have started, had there been room.
    pub eligible: Time,
    /// Where its user put it among his own jobs.
    pub place: Place,
    /// What it takes of pools.
    pub pools: Takes,
    /// The reservation in which alone it is to run.
    pub reservation: Option<Name>,
    /// The gang of its user with which it starts; its size is how many are to be there.
    pub gang: Option<Arc<Gang>>,
    /// Of one that is suspended: so many cores of each of these nodes, in place of what its request says
    /// of nodes and slots.
    pub back: Option<Arc<BTreeMap<Rank, u32>>>,
    /// How often it ended for the sake of another.
    pub preemptions: u32,
    /// What it does where what it is given goes before its limit is over.
    pub lasts: Lasts,
}

impl Want {
    /// Of nobody in particular, submitted at the beginning of time.
    pub fn of(urgency: u8, request: Request) -> Want {
        Want {
            urgency,
            request,
            owner: Owner::default(),
            submitted: Time(0),
            eligible: Time(0),
            place: Place::FIRST,
            pools: Takes::default(),
            reservation: None,
            gang: None,
            back: None,
            preemptions: 0,
            lasts: Lasts::Limit,
        }
    }
}

/// The first who waits in a line apart, and why it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Which line.
    pub line: Arc<str>,
    /// The job.
    pub job: JobId,
    /// Why it waits.
    pub reason: Reason,
}

/// What a job gives to one who takes from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gives {
    /// All that it holds: it ends.
    #[default]
    All,
    /// Its cores: it is suspended.
    Cores,
    /// Any of its nodes but these, one by one; all of it where they would not do.
    Nodes {
        /// The ranks that it cannot be without.
        but: Idset,
    },
}

/// Why a rank gets no new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unavailable {
    /// Its shell is not connected.
    Offline,
    /// An administrator took it out of service; its shell is connected, so
    /// what takes nothing still starts there.
    Drained,
}

/// What a planner found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Verdicts in the order in which they are to be recorded.
    pub verdicts: Vec<(JobId, Verdict)>,
    /// Jobs whose verdicts stand or fall together: those of gangs.
    pub together: Vec<Vec<JobId>>,
    /// Why the first job that waits does so; those behind it wait for it.
    pub head: Option<(JobId, Reason)>,
    /// The same of each line apart in which somebody waits.
    pub apart: Vec<Head>,
    /// Whether the pass stopped at its bound of steps and wants to go on.
    pub unfinished: bool,
    /// When to ask again though nothing happens: a limit may let more start then.
    pub again: Option<Time>,
    /// Answers to what was asked.
    pub answers: Vec<Answer>,
    /// What each account is due, if that was asked.
    pub shares: Option<SharesTold>,
}

/// What is to become of one waiting job.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It can start now on these resources.
    Start(Arc<ResourceSet>),
    /// It can never start on this inventory.
    Never(Reason),
    /// It runs, and is taken from so that another can start.
    Preempt {
        /// The nodes that it gives and goes on without; `None` where it is taken from as a whole.
        ranks: Option<Idset>,
        /// The job that waits.
        by: JobId,
        /// For what.
        cause: Cause,
        /// By which rule, one line.
        why: String,
    },
}

/// Why a job does not start: data that prints as one readable line. Jobs are
/// spelled as in listings, in the spelling that every terminal shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Reason {
    /// More of one resource on one node than any node has.
    #[error("asks for {asked} {what} on one node; the largest has {most}")]
    NeverOnOneNode {
        /// `cores`, `gpus` or `bytes of memory`.
        what: String,
        /// Asked for per node.
        asked: u64,
        /// The most any node of the instance has.
        most: u64,
    },
    /// More of one resource than the whole instance has.
    #[error("asks for {asked} {what}; the instance has {most}")]
    NeverInAll {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// In the instance.
        most: u64,
    },
    /// Only on ranks that are not all there.
    #[error("asks for ranks {ranks}, which the instance does not have")]
    NoSuchRanks {
        /// Those that are not there.
        ranks: Idset,
    },
    /// Not on what instances of a fixed size leave to others, and those have it as long as they are there.
    #[error(
        "asks for {asked} {what}; there are {most} beside those of instances of a fixed size (ranks {apart}), so \
         that it never starts as things are"
    )]
    NeverBeside {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// So many others have none of.
        most: u64,
        /// The ranks of those instances.
        apart: Idset,
    },
    /// More of a pool than there is in all, or of one that is not there any more.
    #[error("asks for {asked} of pool `{pool}`; {}, so that it never starts as things are", of_pool(*count))]
    NeverPool {
        /// The pool.
        pool: Name,
        /// Asked for.
        asked: u64,
        /// There are so many in all; nothing is no such pool.
        count: u64,
    },
    /// What an instance is to grow by, which is to lie where that has nothing yet.
    #[error("waits for nodes on which {} has nothing yet: {}", listed(&[*of], 0), apart(*left))]
    GrownThere {
        /// The instance.
        of: JobId,
        /// On so many it has nothing.
        left: u64,
    },
    /// Only on nodes that are like this, and none is.
    #[error("asks for nodes with {constraint}; no node is so{}", properties(known))]
    NoSuchNodes {
        /// What it asks of nodes, as a query.
        constraint: String,
        /// The properties that nodes have, where that is known.
        known: Option<Vec<String>>,
    },
    /// It would fit, but not where its queue lets it.
    #[error("does not fit queue `{queue}`, which requires {requires}: {why}")]
    NotInQueue {
        /// Its queue.
        queue: String,
        /// What that requires of nodes, as a query.
        requires: String,
        /// Why it does not fit there.
        why: String,
    },
    /// Not on what instances lend of their homes for as long as it may take.
    #[error(
        "does not fit beside the home of instance `{instance}` (ranks {ranks}), of which others have nothing for \
         longer than {} s: {why}",
        crate::fsd::seconds_of_micros(most.0)
    )]
    NotLent {
        /// The first of those instances.
        instance: String,
        /// The longest limit of others' jobs there (`lend_max`).
        most: Span,
        /// Where that is.
        ranks: Idset,
        /// Why it does not fit on the rest.
        why: String,
    },
    /// Its queue would not take it, as it is supposed.
    #[error("would be refused by queue `{queue}`: {why}")]
    Refused {
        /// Its queue.
        queue: String,
        /// By which field, with what is allowed.
        why: String,
    },
    /// The instance would not take it, as it is supposed.
    #[error("would be refused: {why}")]
    RefusedHere {
        /// By which field, with what is allowed.
        why: String,
    },
    /// It takes nothing, and its ranks are not all to be asked.
    #[error("waits for ranks {ranks}, which are down")]
    RanksDown {
        /// Those whose shells are not connected.
        ranks: Idset,
    },
    /// It fits the instance, but not what is free now.
    #[error("waits for {asked} {what}; {free} are free now")]
    NoRoom {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// Free and usable now.
        free: u64,
    },
    /// It would fit if nodes that are out of service came back.
    #[error(
        "waits for {asked} {what}; only {up} are in service{}",
        not_up(away, apart)
    )]
    NotInService {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// In service, free or not.
        up: u64,
        /// The ranks out of service.
        away: Idset,
        /// Of the others those that instances of a fixed size hold for their own jobs.
        #[serde(default)]
        apart: Idset,
    },
    /// First come, first served: an earlier job is first.
    #[error("waits behind job {}, which {why}", head.f58_ascii())]
    Behind {
        /// The first job of the queue.
        head: JobId,
        /// Why that one waits.
        why: String,
    },
    /// The same where that is not told: the first is a job that its user may not know of.
    #[error("waits behind a job that is before it")]
    BehindAnother,
    /// It was given back by the queue instance that it was passed to, and is left alone for a while.
    #[error(
        "came back from queue instance {instance} {} and rests before it is passed there again",
        times(*recalls)
    )]
    CameBack {
        /// The queue instance.
        instance: String,
        /// How often it came back.
        recalls: u32,
    },
    /// Others may pass who is first: what it waits for only the planner knows.
    #[error("waits for its turn or for room (`eddy why {}` tells)", job.f58_ascii())]
    Turn {
        /// The job.
        job: JobId,
    },
    /// It would fit now, and end too late for a job that has been promised what it needs.
    #[error("would delay job {}, which starts by {} s from now at the latest", job.f58_ascii(), within.0 / crate::time::MICROS)]
    WouldDelay {
        /// The job that was promised.
        job: JobId,
        /// How long until that is to start.
        within: Span,
    },
    /// The same where that is not told: it is a job that its user may not know of.
    #[error("would delay a job that is before it, which starts by {} s from now at the latest", within.0 / crate::time::MICROS)]
    WouldDelayAnother {
        /// How long until that is to start.
        within: Span,
    },
    /// There are nodes for it, but less of a pool than it takes.
    #[error("waits for {asked} of pool `{pool}`; {free} of {count} are free now")]
    Pool {
        /// The pool.
        pool: Name,
        /// Asked for.
        asked: u64,
        /// Free now.
        free: u64,
        /// There are so many in all.
        count: u64,
    },
    /// Not all of its gang are there, or not all of them are eligible.
    #[error("waits for its gang `{gang}`: {ready} of its {size} members are ready to start")]
    GangIncomplete {
        /// The gang.
        gang: Name,
        /// So many members wait for resources.
        ready: u32,
        /// So many are to.
        size: u32,
    },
    /// Its gang began with fewer than all, and it was not among them.
    #[error("was left out when its gang `{gang}` began with {began} of {size} members")]
    LeftOut {
        /// The gang.
        gang: Name,
        /// With so many it began.
        began: u32,
        /// It has so many.
        size: u32,
    },
    /// A reservation is in its way, or is what it waits for.
    #[error("{}", bar.words(name, within.0 / crate::time::MICROS))]
    Reservation {
        /// Its name.
        name: Name,
        /// How.
        bar: Bar,
        /// How long until that changes.
        within: Span,
    },
    /// Where it would be are nodes that its instance has not for so long.
    #[error("would not have ended when ranks {ranks} go, at {}", clock(*at))]
    Goes {
        /// Which, as the instance counts them.
        ranks: Idset,
        /// When the first of them is to be left.
        at: Time,
    },
    /// The instance itself ends before it would.
    #[error("would not have ended when the instance ends its last jobs, at {}", clock(*at))]
    Outlasts {
        /// When that is.
        at: Time,
    },
    /// The reservation it was to run in is over, or was never there.
    #[error("waits for reservation `{name}`, which is no more")]
    NoReservation {
        /// Its name.
        name: Name,
    },
    /// It cannot run in the reservation that it names.
    #[error("does not fit reservation `{name}`: {why}")]
    NotInReservation {
        /// Its name.
        name: Name,
        /// Why not.
        why: String,
    },
    /// Its value is too low to be run at all.
    #[error("has the value {value}; jobs at or below {threshold} are not run")]
    BelowThreshold {
        /// By the first formula of the policy, as it is shown.
        value: String,
        /// The policy's, likewise.
        threshold: String,
    },
    /// There is room, but no more may be started, or not of its account.
    #[error("waits for {limit}: {why}{}", next(*within))]
    Limit {
        /// The key of the policy.
        limit: String,
        /// What of it is used up.
        why: String,
        /// How long until another may, where time alone tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<Span>,
    },
    /// What it needs is kept for it from a time on.
    #[error("waits for {asked} {what}; it has them reserved in {} s at the latest", within.0 / crate::time::MICROS)]
    Reserved {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// How long until it starts.
        within: Span,
    },
    /// Others are making room for it.
    #[error("waits for {}, making room for it within {} s", listed(jobs, *others), within.0 / crate::time::MICROS)]
    Preempting {
        /// Those that are still to end.
        jobs: Vec<JobId>,
        /// So many more whose numbers are not told.
        #[serde(default, skip_serializing_if = "sight::is_none")]
        others: u64,
        /// Until the last of their tasks is killed.
        within: Span,
    },
    /// Those whom it may take from are not to be taken from yet.
    #[error("waits until {} may be taken from, in {} s", listed(jobs, *others), within.0 / crate::time::MICROS)]
    Exempt {
        /// Those who are exempt yet, of those who would give way to it.
        jobs: Vec<JobId>,
        /// So many more whose numbers are not told.
        #[serde(default, skip_serializing_if = "sight::is_none")]
        others: u64,
        /// Until the last of them is exempt no more.
        within: Span,
    },
    /// Its urgency is 0.
    #[error("is held: its urgency is 0 (`eddy release {}` lets it go){}", job.f58_ascii(), also(besides))]
    Held {
        /// The job.
        job: JobId,
        /// What it waits for besides, in words; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        besides: String,
    },
    /// Nothing of its queue starts.
    #[error("waits for queue `{queue}`, which is stopped{}", said(why))]
    QueueStopped {
        /// The queue.
        queue: String,
        /// What the administrator said; may be empty.
        why: String,
    },
    /// The parent was not heard for so long that nothing begins any more.
    #[error("waits for the parent instance, which has been silent for more than {} s", crate::fsd::seconds_of_micros(lease.0))]
    ParentSilent {
        /// How long work began all the same.
        lease: Span,
    },
    /// The jobs of the instance are ended by its time limit; what began now would be ended at once.
    #[error(
        "waits in an instance that is about to reach its time limit, in which nothing begins any more"
    )]
    InstanceEnds,
    /// The parent is not heard: it has not ordered this job, which begins without it after a time.
    #[error("waits for the parent instance, not heard since {}{}", clock(*since), alone(*until))]
    ParentAway {
        /// Since when.
        since: Time,
        /// When it begins without it at the earliest; `None` is never.
        until: Option<Time>,
    },
    /// The parent orders it.
    #[error("waits for its turn in the parent instance")]
    ParentOrders,
    /// It waits for something else to happen first.
    #[error("waits for {what}")]
    Dependency {
        /// What, in words.
        what: String,
    },
    /// The scheduler has not looked at it yet.
    #[error("is about to be considered")]
    New,
}
