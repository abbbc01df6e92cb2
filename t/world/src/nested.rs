//! What an instance is to its parent: the job that it is, the process that leads it, and the
//! channel over which the two speak.
//!
//! Mimics the child's end in brokerd. What is done with it is in `world/nest.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Caller, ParentWord};
use eddy_wire::id::{Epoch, JobId, Rank};
use eddy_wire::message::Message;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::ChildOf;
use eddy_wire::shell::Part;
use eddy_wire::time::Span;
use uuid::Uuid;

use crate::nature::{InstanceId, Life, Nature, Pace};
use crate::pipe::PipeId;
use crate::task::Behaviour;

/// How often a child says that it is there.
const BEAT: Span = Span::seconds(2);

/// Parts of instances that something runs within, the outermost first.
pub type Within = Vec<(InstanceId, Part)>;

/// What an instance is to its parent.
#[derive(Clone, Debug)]
pub struct Nested {
    /// Its parent.
    pub parent: InstanceId,
    /// The job and attempt that it is there.
    pub child: ChildOf,
    /// The parent's rank that its leader is on.
    pub rank: Rank,
    /// What its leader runs within.
    pub within: Within,
    /// Its leader's process, while one lives.
    pub process: Option<Process>,
    /// Its channel.
    pub channel: Channel,
    /// The life of its leader that has led last.
    pub led: Option<Life>,
    /// What it had when its first leader asked: all its leaders begin with that.
    pub kept: Option<Arc<ResourceSet>>,
    /// What its first job does; none when it waits for others' jobs.
    pub program: Option<Behaviour>,
    /// The key under which its leader submits that job.
    pub key: Uuid,
}

/// The process of a leader, a task of a shell of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Which life of the leader.
    pub life: Life,
    /// The shell that parents it.
    pub shell: Epoch,
    /// The part it is of.
    pub part: Part,
    /// Its number there.
    pub task: u32,
}

/// One connection to the parent after the other.
#[derive(Clone, Debug, Default)]
pub struct Channel {
    /// The connection.
    pub pipe: Option<PipeId>,
    /// The match number given last.
    pub tag: u64,
    /// What was asked over it and not answered to the end.
    pub asked: BTreeMap<u64, Asked>,
    /// Requests that came over it and are not answered to the end.
    pub relayed: BTreeSet<u64>,
    /// Those of them that came before the leader began.
    pub early: BTreeMap<u64, Message>,
    /// What else the parent said before the leader began.
    pub words: Vec<ParentWord>,
}

/// What a child asks its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To be adopted: goes on as long as the connection.
    Adopt,
    /// A block of job numbers.
    Ids,
    /// To take a submission, by its tag here.
    Submit(u64),
    /// To take one that this instance took, by the number of its first job.
    TakenUp(JobId),
    /// What this client asked here.
    Referred(Caller),
    /// To know what it has come to, or to pass an answer on.
    Told,
}

impl Nature {
    /// How often a child says that it is there; never in a script, where nothing happens by itself.
    pub fn beat(&self) -> Option<Span> {
        matches!(self.pace, Pace::Random(_)).then_some(BEAT)
    }
}

impl Nested {
    /// Whether the process of that life lives.
    pub fn lives(&self, life: Life) -> bool {
        self.process.is_some_and(|process| process.life == life)
    }

    /// Whether it runs within that part.
    pub fn is_within(&self, instance: InstanceId, part: Part) -> bool {
        self.within.contains(&(instance, part))
    }
}
