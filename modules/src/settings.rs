//! What the modules of a leader are told at their start.
//!
//! Made by a driver from the configuration; constant for the life of a leader.

use std::sync::Arc;

use eddy_sched::policy::Policy;
use eddy_wire::access::Access;
use eddy_wire::account::{Limits, Name};
use eddy_wire::event::Kind;
use eddy_wire::filter::Filter;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Leader;
use eddy_wire::payload::Keeps;
use eddy_wire::pool::Pool;
use eddy_wire::preempt::Mode;
use eddy_wire::queue::Rules;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{ChildOf, Granted};
use eddy_wire::time::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::keys::Keys;

/// What a child keeps of payloads: environments of tens of KiB and scripts of some KiB, of those users who have
/// jobs at a time; and some of the longest there are, each of which would be said with every job of its array
/// otherwise.
pub const KEEPS: Keeps = Keeps {
    count: 64,
    bytes: 16 << 20,
};

/// Limits and times of an instance.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The configuration as it is written, and as the start before had it, where that is known.
    pub keys: (Keys, Keys),
    /// The resources the instance owns.
    pub inventory: Arc<ResourceSet>,
    /// How jobs are ordered and placed; one that [`Policy::served`].
    pub policy: Arc<Policy>,
    /// The highest job number ever given: finished jobs are not replayed.
    pub last_job: JobId,
    /// How many jobs were over before this leader began.
    pub over: Over,
    /// From TERM to KILL.
    pub kill_grace: Span,
    /// How long a child begins work though its parent is silent.
    pub lease: Span,
    /// What a child keeps of payloads of jobs that are passed to it, as it says in its hello.
    pub keeps: Keeps,
    /// When a queue instance whose parent is silent begins jobs that it took itself; `None` is never.
    pub autonomous_after: Option<Span>,
    /// How long the leader of an instance in this one may say nothing beyond its beats until it is begun anew;
    /// `None` is for ever.
    pub hung_after: Option<Span>,
    /// Whether nodes of a user's instance go back by themselves.
    pub release_idle: Option<ReleaseIdle>,
    /// Most jobs that are not over.
    pub jobs_max: u64,
    /// And those that one user may have, who does not administer the instance.
    pub user_max: UserMax,
    /// How many attempts a job may have.
    pub attempts_max: u32,
    /// How far a sender's clock may run ahead of ours in its keys.
    pub key_skew: Span,
    /// How old a sender's key may be: as long as rows are kept.
    pub key_age_max: Span,
    /// The ranks on the leader's own node, which one shell serves; every other
    /// rank has a node, a broker and a shell of its own.
    pub local: Idset,
    /// Where the instance is in the tree of instances.
    pub place: Place,
    /// How long tasks last that are none, for the children; `None` starts processes.
    pub mock: Option<Span>,
    /// The instances that the configuration declares: jobs of this one.
    pub declared: Vec<Declared>,
    /// Named queues and where each leads.
    pub queues: Vec<Queue>,
    /// The time limit of jobs for which nobody says one; none is none.
    pub default_time: Option<Span>,
    /// Qualities of service that jobs may ask for, beside those of the policy.
    pub qos: Vec<Qos>,
    /// Classes that jobs may ask for, beside those of the policy.
    pub classes: Vec<Class>,
    /// Counts of things that are on no node.
    pub pools: Vec<Pool>,
    /// Programs that look at submissions first, in order.
    pub filters: Vec<Filter>,
    /// Program and first arguments that lead a child instance.
    pub instance_command: Vec<String>,
    /// What declared instances do where their journals are damaged.
    pub damage: Damage,
    /// User id of the owner, whose jobs the declared instances are.
    pub owner: u32,
    /// Who else may connect, and what they see of each other.
    pub access: Access,
}

/// Most jobs of one user. Who administers the instance is not held to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMax {
    /// That are not over.
    pub jobs: u64,
    /// Of one submission.
    pub copies: u64,
}

impl Default for UserMax {
    fn default() -> UserMax {
        UserMax {
            jobs: 500_000,
            copies: 20_000,
        }
    }
}

/// Jobs that are over, as the journal's rows have them; those that were purged
/// are not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Over {
    /// They ended well.
    pub completed: u64,
    /// They did not.
    pub failed: u64,
}

/// Where an instance is in the tree of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its path from the root, as `905/3`; empty for the root.
    pub path: String,
    /// How deep; 0 for the root.
    pub depth: u32,
    /// Which job of its parent it is; none for a root.
    pub child: Option<ChildOf>,
    /// Where its parent takes clients, on the leader's node.
    pub parent: Option<Arc<str>>,
    /// The name it was declared under: then its job numbers are drawn from its parent's.
    pub name: Option<String>,
    /// When its parent ends the job that it is.
    pub until: Option<Time>,
    /// Until when it has its nodes by what it was told last, in microseconds since 1970; 0 is without end.
    pub told: i64,
    /// How long before that its own jobs end.
    pub reserve: Span,
}

impl Place {
    /// When the last of its jobs end by its limit.
    pub fn end(&self) -> Option<Time> {
        self.until
            .map(|until| Time(until.0.saturating_sub(self.reserve.0)))
    }

    /// Takes what is recorded of until when it has its nodes. Where that is another time than this leader was
    /// told it was given more time since, or less: before its parent is heard nothing else says so.
    pub fn recorded(&mut self, kind: &Kind) {
        if let (Kind::ResourceDefine(set, _), Some(_)) = (kind, self.child)
            && set.expiration > 0
            && set.expiration != self.told
        {
            self.until = Some(Time(set.expiration));
        }
    }

    /// Takes what its parent says now of where it is and how long.
    pub fn told(&mut self, now: Time, granted: &Granted) {
        self.path.clone_from(&granted.path);
        self.depth = granted.depth;
        self.until = granted.remaining.map(|left| now.after(left));
        self.told = granted.grant.set.expiration;
        self.reserve = granted.reserve;
    }
}

/// An instance that is to be there as long as its parent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// The nodes that it has.
    pub extent: Extent,
    /// Where its leader is. That of one that holds nothing is its parent's neighbour whatever this says.
    pub leader: Leader,
    /// The configuration it is started with, as `key=value`.
    pub set: Vec<String>,
}

/// What a leader does whose journal is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damage {
    /// It does not begin.
    #[default]
    Refuse,
    /// It keeps what is whole and begins with that.
    Cut,
}

/// The nodes of a declared instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many whole nodes, which are its own; only these ranks, where some are named.
    Fixed {
        /// How many.
        nodes: u32,
        /// Which; any when `None`.
        ranks: Option<Idset>,
    },
    /// None of its own: each job of its queues is given what it asks for, as jobs of the parent
    /// itself are.
    Elastic(Elastic),
}

/// What jobs of an instance that holds nothing may be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elastic {
    /// These ranks; all there are when `None`.
    pub ranks: Option<Idset>,
    /// Those of them that are its home.
    pub home: Idset,
    /// The longest limit of others' jobs on its home; any, and none at all, when `None`.
    pub lend_max: Option<Span>,
}

/// A name that people submit to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// The name.
    pub name: String,
    /// The declared instance that serves it; `None` is this one.
    pub instance: Option<String>,
    /// Whether jobs that name no queue are of this one.
    pub default: bool,
    /// What holds for its jobs.
    pub rules: Rules,
}

/// A quality of service that jobs may ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Qos {
    /// Its name.
    pub name: Name,
    /// The factor `qos`, 0 to 1.
    pub priority: f64,
    /// How much of what its jobs use is charged; 0 is nothing.
    pub usage_factor: f64,
    /// Whose jobs its jobs may take from.
    pub preempts: Vec<Name>,
    /// How long its jobs run before they may be taken from.
    pub exempt: Span,
    /// From TERM to KILL of its jobs when they are taken from; none is the instance's.
    pub grace: Option<Span>,
    /// What becomes of its jobs when they are taken from.
    pub mode: Mode,
    /// Whether instances of it that can do without some of their nodes give those instead.
    pub shrink: bool,
    /// Limits of accounts and users that do not count for its jobs.
    pub limits_waived: bool,
    /// What all its jobs together may have.
    pub limits: Limits,
    /// What each user may have in it.
    pub user_limits: Limits,
    /// The time limit of its jobs that have none.
    pub default_time: Option<Span>,
}

impl Qos {
    /// One that limits nothing and is no better than others.
    pub fn named(name: Name) -> Qos {
        Qos {
            name,
            priority: 0.5,
            usage_factor: 1.0,
            preempts: Vec::new(),
            exempt: Span::ZERO,
            grace: None,
            mode: Mode::default(),
            shrink: false,
            limits_waived: false,
            limits: Limits::default(),
            user_limits: Limits::default(),
            default_time: None,
        }
    }
}

/// A class of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// Its name.
    pub name: Name,
    /// Higher may take from lower.
    pub priority: i64,
}

/// When nodes of a user's instance go back by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseIdle {
    /// When nothing has run there for so long, and nothing waits.
    pub after: Span,
    /// So many stay at least, the leader's among them.
    pub keep: u32,
}

impl Settings {
    /// The declared instances that hold nothing themselves, and the ranks that their jobs may be
    /// given; all where none are named.
    pub fn elastic(&self) -> impl Iterator<Item = (String, Option<Idset>)> + '_ {
        let elastic = |declared: &Declared| match &declared.extent {
            Extent::Elastic(elastic) => Some((declared.name.clone(), elastic.ranks.clone())),
            Extent::Fixed { .. } => None,
        };
        self.declared.iter().filter_map(elastic)
    }

    /// The defaults of design and `doc/protocol/limits.md` for this inventory.
    pub fn for_inventory(inventory: Arc<ResourceSet>) -> Settings {
        Settings {
            policy: Arc::default(),
            keys: <(Keys, Keys)>::default(),
            local: inventory.ranks(),
            place: Place::default(),
            mock: None,
            declared: Vec::new(),
            queues: Vec::new(),
            default_time: None,
            qos: Vec::new(),
            classes: Vec::new(),
            pools: Vec::new(),
            filters: Vec::new(),
            instance_command: Vec::new(),
            damage: Damage::Refuse,
            owner: 0,
            access: Access::default(),
            inventory,
            last_job: JobId(0),
            over: Over::default(),
            kill_grace: Span::seconds(5),
            lease: Span::seconds(3600),
            keeps: KEEPS,
            autonomous_after: Some(Span::seconds(30)),
            hung_after: Some(Span::seconds(60)),
            release_idle: None,
            jobs_max: 1_000_000,
            user_max: UserMax::default(),
            attempts_max: 16,
            key_skew: Span::seconds(600),
            key_age_max: Span::seconds(30 * 86_400),
        }
    }
}
