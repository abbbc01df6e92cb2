//! What a round decides, and why; and what the state is once that is done.
//!
//! Made by a round, carried out by whoever asked. [`State::apply`] does it on
//! paper: the simulator, the vectors and the laws use it between rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use eddy_wire::id::JobId;
use eddy_wire::time::{Span, Time};

use super::state::{Buckets, Job, Run, State};
use crate::amounts::Amounts;

/// What a round decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// One for each job and run of a known account, by job id.
    pub decisions: BTreeMap<JobId, Decision>,
    /// What each account has after it, by name.
    pub ledger: BTreeMap<String, Amounts>,
    /// Where the next draws begin.
    pub seed: u64,
    /// What is left of the rates.
    pub buckets: Buckets,
}

/// What becomes of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It starts.
    Start {
        /// Rank of the node.
        node: u32,
        /// The class priority at which it runs.
        priority: i64,
        /// How room was made.
        method: Method,
    },
    /// It runs on.
    Keep,
    /// It must give up its node.
    Preempt {
        /// The job that takes its place; `None` where its node has become too small.
        by: Option<JobId>,
        /// For what.
        kind: Preemption,
        /// The time it has to end.
        grace: Span,
    },
    /// The rest of a gang that starts with fewer than all.
    Fail,
    /// It waits on.
    Wait(Reason),
}

/// How room was made for a job that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// It was free.
    Free,
    /// Jobs that had been put back for fair share gave way.
    FairShare,
    /// Jobs of a lower class gave way.
    Urgency,
}

/// For what a job is preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Its account had more than its share.
    FairShare,
    /// The other is of a higher class, or its own class was oversubscribed by one.
    Urgency,
    /// Its node no longer has the room.
    Capacity,
}

/// Why a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its account is not known.
    Account,
    /// Its account is closed.
    AccountClosed,
    /// Its class is not in the policy.
    Class,
    /// No node that takes jobs has the labels and taints it asks for.
    NoSuchNode,
    /// It is larger than every such node.
    Never {
        /// Position of a resource that is too small on all of them.
        kind: usize,
        /// Thousandths asked.
        asked: i64,
        /// Thousandths of the largest.
        most: i64,
    },
    /// Nothing it might have is free or may be taken.
    NoRoom,
    /// Fewer of the gang fit than must.
    GangNoRoom {
        /// Placed on trial.
        fitted: u32,
        /// Must be.
        minimum: u32,
    },
    /// Not all of the gang are here.
    GangIncomplete {
        /// Here.
        have: u32,
        /// Of so many.
        cardinality: u32,
    },
    /// Gangs cannot be kept together by this label, or no node has it.
    NotTogether,
    /// More was started in this round than the fraction for one.
    RoundFull,
    /// The rate of all is used up.
    Rate,
    /// The rate of all has too few tokens for the gang.
    RateGang,
    /// The gang is larger than the burst of all ever is.
    Burst,
    /// The rate of the account is used up.
    AccountRate,
    /// The rate of the account has too few tokens for the gang.
    AccountRateGang,
    /// The gang is larger than the burst of an account ever is.
    AccountBurst,
    /// The account would have more than its fraction.
    AccountFull,
    /// So many of the account had been looked at.
    Lookback,
    /// Another of the account, ahead of it, does not fit.
    Behind(JobId),
    /// The round had stopped starting jobs.
    Stopped,
    /// Its account had.
    AccountStopped,
    /// It had a place, which this more urgent job took.
    Overtaken(JobId),
}

impl Reason {
    /// Whether the round looked at the job before it gave this reason.
    pub fn tried(self) -> bool {
        match self {
            Reason::Account
            | Reason::GangIncomplete { .. }
            | Reason::RoundFull
            | Reason::Lookback
            | Reason::Behind(_)
            | Reason::Stopped
            | Reason::AccountStopped => false,
            Reason::AccountClosed
            | Reason::Class
            | Reason::NoSuchNode
            | Reason::Never { .. }
            | Reason::NoRoom
            | Reason::GangNoRoom { .. }
            | Reason::NotTogether
            | Reason::Rate
            | Reason::RateGang
            | Reason::Burst
            | Reason::AccountRate
            | Reason::AccountRateGang
            | Reason::AccountBurst
            | Reason::AccountFull
            | Reason::Overtaken(_) => true,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Account => f.write_str("its account is not known"),
            Reason::AccountClosed => f.write_str("its account is closed"),
            Reason::Class => f.write_str("its class is not in the policy"),
            Reason::NoSuchNode => f.write_str("no node has the labels and taints it asks for"),
            Reason::Never { asked, most, .. } => {
                let (asked, most) = (*asked as f64 / 1e3, *most as f64 / 1e3);
                write!(
                    f,
                    "asks for {asked} on one node; the largest node has {most}"
                )
            }
            Reason::NoRoom => f.write_str("no node has room"),
            Reason::GangNoRoom { fitted, minimum } => {
                write!(f, "{fitted} of the gang have room; {minimum} must start")
            }
            Reason::GangIncomplete { have, cardinality } => {
                write!(f, "{have} of the gang's {cardinality} are here")
            }
            Reason::NotTogether => f.write_str("no nodes are kept together by the gang's label"),
            Reason::RoundFull => f.write_str("enough was started in this round"),
            Reason::Rate => f.write_str("the rate of starts is used up"),
            Reason::RateGang => f.write_str("the rate of starts is too low for the gang now"),
            Reason::Burst => f.write_str("the gang is larger than the burst of starts"),
            Reason::AccountRate => f.write_str("its account's rate of starts is used up"),
            Reason::AccountRateGang => {
                f.write_str("its account's rate of starts is too low for the gang now")
            }
            Reason::AccountBurst => f.write_str("the gang is larger than its account's burst"),
            Reason::AccountFull => f.write_str("its account would have more than its fraction"),
            Reason::Lookback => f.write_str("too many of its account are ahead of it"),
            Reason::Behind(job) => write!(f, "job {job} of its account is ahead and has no room"),
            Reason::Stopped => f.write_str("the round had stopped starting jobs"),
            Reason::AccountStopped => f.write_str("its account had stopped starting jobs"),
            Reason::Overtaken(job) => write!(f, "the more urgent job {job} took its place"),
        }
    }
}

impl Outcome {
    /// Whether anything is to be done.
    pub fn changes(&self) -> bool {
        self.decisions.values().any(|decision| match decision {
            Decision::Start { .. } | Decision::Preempt { .. } | Decision::Fail => true,
            Decision::Keep | Decision::Wait(_) => false,
        })
    }

    /// How many start, and how many are preempted.
    pub fn counts(&self) -> (usize, usize) {
        let starts = |decision: &&Decision| matches!(decision, Decision::Start { .. });
        let preempts = |decision: &&Decision| matches!(decision, Decision::Preempt { .. });
        (
            self.decisions.values().filter(starts).count(),
            self.decisions.values().filter(preempts).count(),
        )
    }
}

/// What left the state when an outcome was applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Left {
    /// Preempted, as they were submitted.
    pub preempted: Vec<Job>,
    /// Failed with their gang.
    pub failed: Vec<Job>,
}

impl State {
    /// The state once the outcome is carried out: jobs that start run since `now`, those
    /// preempted or failed are handed over, and seed and buckets go on.
    pub fn apply(&mut self, outcome: &Outcome, now: Time) -> Left {
        let mut left = Left::default();
        let mut gone = BTreeSet::new();
        for job in std::mem::take(&mut self.jobs) {
            match outcome.decisions.get(&job.id) {
                Some(&Decision::Start { node, priority, .. }) => self.runs.push(Run {
                    job,
                    node,
                    start: now,
                    priority: Some(priority),
                }),
                Some(Decision::Fail) => left.failed.push(job),
                Some(Decision::Keep | Decision::Preempt { .. } | Decision::Wait(_)) | None => {
                    self.jobs.push(job);
                }
            }
        }
        for run in &self.runs {
            if let Some(Decision::Preempt { .. }) = outcome.decisions.get(&run.job.id) {
                gone.insert(run.job.id);
                left.preempted.push(run.job.clone());
            }
        }
        self.runs.retain(|run| !gone.contains(&run.job.id));
        self.seed = outcome.seed;
        self.buckets = outcome.buckets.clone();
        left
    }
}
