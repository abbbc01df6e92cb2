//! What passes between the sched module and a planner: changes in, verdicts out.
//!
//! A planner owns its state, is fed every change, and answers with verdicts; a
//! verdict is a proposal until the sched module has recorded it (RFC 27 has
//! the same seam between job manager and scheduler).

mod answer;
mod bar;
mod later;
mod owner;
mod question;
mod reason;
mod shares;
mod sight;
mod stay;
mod suppose;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::account::{Change, Name};
use crate::gang::Gang;
use crate::held;
use crate::id::{JobId, Rank};
use crate::idset::Idset;
use crate::job::Place;
use crate::jobspec::Request;
use crate::pool::{Pool, Takes};
use crate::preempt::{Cause, Preempts, Shrink};
use crate::reservation::Reservation;
use crate::resource_set::ResourceSet;
use crate::time::Time;

pub use answer::{Answer, Basis, Breakdown, Estimate, Explained, Lent, Likely, Moved, Mover, Term};
pub use bar::Bar;
pub use owner::{LineName, Owner};
pub use question::Question;
pub use reason::Reason;
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
    /// All that was used by those who hold nothing any more, in place of what is known of it: by another policy it
    /// weighs otherwise and fades otherwise. Who holds something is charged from when that began.
    Past(Arc<[Used]>),
    /// What an attempt that has given all back is charged, and to whom: in place of what was charged for it while
    /// it held something. Said before `Freed`, once; nothing where nobody is charged for it.
    Settled(JobId, Owner, Arc<[held::Stay]>),
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
