//! A policy: how an instance orders and places jobs, as data in five parts that
//! can each be replaced.
//!
//! Read from TOML by `policy/read` (a preset and what is overridden), printed by
//! `policy/print`, judged by `policy/warn`; the presets are TOML in
//! `policy/presets/`. Obeyed by the planner, by rounds and by the simulator, none
//! of which knows a preset by name. It holds no state and decides nothing.

pub mod read;

pub mod print;

pub mod warn;

pub mod outweigh;

mod presets;

mod error;

mod keys;

mod visit;

mod kind;

mod item;

mod agree;

mod formula;

use std::collections::BTreeMap;

use eddy_wire::time::Span;
use thiserror::Error;

pub use error::{PolicyError, Wrong};
pub use formula::FACTORS;
pub use kind::NUMBER_MAX;
pub use presets::{PRESETS, Preset, preset};

/// How an instance orders and places jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The preset it starts from.
    pub preset: String,
    /// (a) What use costs, and how it is forgotten.
    pub usage: UsageRules,
    /// (b) What each account is due.
    pub share: ShareRules,
    /// (c) The order of jobs.
    pub priority: PriorityRules,
    /// (d) Who is looked at next, and what becomes of a job that does not fit.
    pub queue: QueueRules,
    /// (e) Where a job goes.
    pub placement: PlacementRules,
}

/// First come, first served.
impl Default for Policy {
    fn default() -> Policy {
        presets::bare()
    }
}

impl Policy {
    /// Whether the planner of a running instance obeys it; the simulator serves all. What runs is
    /// taken back for the fair share of others only where accounts take turns.
    ///
    /// # Errors
    /// [`NotServed`] names the first part that it does not.
    pub fn served(&self) -> Result<(), NotServed> {
        let takes_turns = match self.queue.source {
            Source::Global | Source::ByQueue => false,
            Source::PerAccountCost | Source::PerAccountSlices { .. } => true,
        };
        let part = if self.queue.evict != Evict::Nothing && !takes_turns {
            "queue.evict"
        } else if self.placement.ladder.contains(&Rung::Evicted) && !takes_turns {
            "placement.ladder"
        } else if self.usage.time != ChargedTime::Elapsed {
            "usage.time"
        } else if self.usage.minimum > Span::ZERO {
            "usage.minimum"
        } else if self.priority.order.len() > ORDER_MAX {
            "priority.order"
        } else {
            return Ok(());
        };
        Err(NotServed {
            preset: self.preset.clone(),
            part,
        })
    }
}

/// How many formulas decide the turn of a job in a running instance.
pub const ORDER_MAX: usize = 4;

/// A policy that the planner of a running instance does not obey yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("is \"{preset}\", whose {part} running instances do not serve yet; `eddy sim` serves it")]
pub struct NotServed {
    /// The preset it starts from.
    pub preset: String,
    /// The path of what is not served.
    pub part: &'static str,
}

/// What is charged for a run, and how it fades.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageRules {
    /// How amounts become one number.
    pub charge: Charge,
    /// Weight of each resource by name, per unit (core, GPU, GiB) and second; absent is 0.
    pub weights: BTreeMap<String, f64>,
    /// Factor of each queue or QoS by name; 0 exempts, absent is 1.
    pub factors: BTreeMap<String, f64>,
    /// Factor of each QoS by name, before what `factors` has for it: a queue may have the same name.
    pub qos_factors: BTreeMap<String, f64>,
    /// The time charged.
    pub time: ChargedTime,
    /// The least that is charged for a run, in seconds of it (Armada's short-job penalty); 0 is none.
    pub minimum: Span,
    /// How it is forgotten.
    pub decay: Decay,
}

/// How the weighted amounts of a run become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Their sum.
    Sum,
    /// The largest of those bound to nodes, and the sum of the others (Slurm `MAX_TRES`).
    MaxOfNode,
    /// Each weighted by how scarce it is: capacity of cores over capacity of it (seed 000).
    Scarcity,
}

/// Which time of a run is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargedTime {
    /// From its start to its end.
    Elapsed,
    /// What it asked for.
    Requested,
}

/// How usage is forgotten.
#[derive(Clone, Debug, PartialEq)]
pub enum Decay {
    /// It stays.
    None,
    /// Halves in each `half`, continuously.
    Exponential {
        /// Longer than 0.
        half: Span,
    },
    /// Moves toward what is used now, half the way in each `half` (seed 000, HTCondor).
    TowardCurrent {
        /// 0 has no memory.
        half: Span,
    },
    /// Multiplied by `factor` at each multiple of `interval` since 1970, never below `floor` (PBS).
    Step {
        /// Longer than 0.
        interval: Span,
        /// 0 to 1.
        factor: f64,
        /// In charged units.
        floor: f64,
    },
    /// Kept apart by period, the older the less (flux-accounting).
    Bins {
        /// How many periods are kept.
        count: u32,
        /// Length of each.
        period: Span,
        /// Weight of a bin against the next newer one, 0 to 1.
        factor: f64,
    },
    /// Forgotten altogether at each of these (Slurm `PriorityUsageResetPeriod`).
    Reset(Calendar),
}

/// When usage is forgotten altogether: at midnight UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calendar {
    /// Of each day.
    Daily,
    /// Of each Sunday.
    Weekly,
    /// Of the first of each month.
    Monthly,
    /// Of the first of January, April, July and October.
    Quarterly,
    /// Of the first of January.
    Yearly,
}

/// What each account is due.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareRules {
    /// How shares and usage become a factor or an order.
    pub algorithm: Share,
    /// Whether what a pass plans counts as used in the same pass.
    pub within_pass: WithinPass,
}

/// Whether starts planned in a pass weigh on the next pick of that pass (tree rule 28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithinPass {
    /// Each planned start is charged before the next pick.
    Projected,
    /// The order is that of the beginning of the pass.
    Static,
}

/// How shares and usage become a factor.
#[derive(Clone, Debug, PartialEq)]
pub enum Share {
    /// Everybody alike.
    None,
    /// `2^(-U/S)` and its shapes, with usage blended down the tree (seed 002, Slurm classic).
    Classic {
        /// The curve.
        shape: Shape,
        /// Slurm `FairShareDampeningFactor`; 1 is none.
        damping: f64,
        /// How usage goes down the tree.
        blend: Blend,
    },
    /// Tickets split down the tree among the active (seed 003).
    Ticket {
        /// What the least usage counts as.
        floor: TicketFloor,
        /// At the root; only proportions matter.
        tickets: f64,
    },
    /// Ranked by share over usage, level by level (Slurm Fair Tree, flux-accounting).
    FairTree,
    /// `max * (1 - usage / total)` of each project (seed 004).
    ProjectRatio {
        /// What a project without usage has.
        max: f64,
    },
    /// PBS fair-share tree: `2^(-u'/perc)`.
    PbsTree {
        /// What every entity has used at least; 1 in PBS.
        minimum_usage: f64,
    },
    /// Inverse of usage times factor, with a floor (seed 000).
    PriorityFloor {
        /// The least usage counted; 0.5.
        floor: f64,
    },
    /// Dominant resource fairness (seed 001).
    Drf {
        /// Resources considered, each with its multiplier; 0 ignores it.
        resources: BTreeMap<String, f64>,
        /// An account at or below this fraction of its fair share is not evicted from.
        protected_fraction: f64,
        /// Larger jobs first where accounts are level (Armada `enablePreferLargeJobOrdering`).
        prefer_large: Preference,
    },
}

/// Whether an order has a preference that it need not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// It has.
    On,
    /// It has not.
    Off,
}

/// The curve from usage over share to a factor; each is 0.5 where they are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `2^(-U/S)`.
    Exp2,
    /// `(S - U + 1) / 2`.
    Linear,
    /// `S / (S + U)`.
    Ratio,
}

/// How the usage of an account goes down to those in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blend {
    /// Each moves toward the account by its part of the shares there (Slurm classic). Siblings of unlike
    /// shares are not level where each has had its own, and the idle keep what is theirs from others.
    Part,
    /// Each stands where the account does; who had more than his part among those beside him who have
    /// work waiting stands behind, by half of that.
    Active,
}

/// What the least usage of a ticket holder counts as: 1 % of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketFloor {
    /// Its share of the whole (the document).
    Overall,
    /// Its share among its siblings (the code that was).
    Siblings,
}

/// The order of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityRules {
    /// Formulas, highest value first; the next decides where one is level. Then the earlier job.
    pub order: Vec<String>,
    /// Weights by name; a formula writes the weight `qos` as `w_qos`, beside the factor `qos`.
    pub weights: BTreeMap<String, f64>,
    /// Jobs whose first value is at or below this are not run.
    pub threshold: Option<f64>,
    /// How the factors are made.
    pub factors: FactorRules,
    /// How often the values of waiting jobs are made anew.
    pub refresh: Span,
}

/// How the factors that formulas name are made.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorRules {
    /// The wait that counts as 1.
    pub max_wait: Span,
    /// From when a wait is counted.
    pub wait_from: WaitFrom,
    /// Which sizes are preferred.
    pub size: SizeFavour,
    /// Value of each QoS by name, 0 to 1.
    pub qos: BTreeMap<String, f64>,
    /// The QoS of jobs that name none.
    pub default_qos: String,
    /// Priority of each queue by name, the factor `queue`; absent is 0. To [`NUMBER_MAX`] on both sides of 0.
    pub queues: BTreeMap<String, f64>,
}

/// From when a wait is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFrom {
    /// The submission.
    Submit,
    /// When it began to wait for resources.
    Eligible,
}

/// Which sizes are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeFavour {
    /// Nodes over all nodes.
    Large,
    /// 1 less that.
    Small,
}

/// Who is looked at next, and what becomes of a job that does not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueRules {
    /// Whose job is next.
    pub source: Source,
    /// What happens at a job that does not fit.
    pub walk: Walk,
    /// The order of those that fill gaps, where it is not the order of jobs.
    pub fill_order: FillOrder,
    /// Whether reservations stay.
    pub reservations: Reservations,
    /// How often all is planned anew where reservations are replanned; `None` is in each pass.
    pub replan_every: Option<Span>,
    /// Jobs that are tried in a pass, per account where the source is per account; `None` is all.
    pub lookback: Option<u32>,
    /// After this wait a job is given a reservation whatever the order; `None` is never.
    pub reserve_after: Option<Span>,
    /// By how much of its priority a later job must be better to move a kept reservation; 0.1 is 10 %.
    pub displace_margin: f64,
    /// The limit assumed of jobs that give none; `None` plans them as without end.
    pub default_limit: Option<Span>,
    /// How far ahead is planned; `None` is without end.
    pub window: Option<Span>,
    /// What running jobs may be put back at the beginning of a pass.
    pub evict: Evict,
    /// How much may be started.
    pub limits: Limits,
}

/// Whose job is looked at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The first in the order of all jobs.
    Global,
    /// That of the account whose cost, with its next job, would be least (seed 001).
    PerAccountCost,
    /// Slices by share first, then a seeded draw (seed 000).
    PerAccountSlices {
        /// What the slices are cut from.
        basis: SliceBasis,
        /// How the rest is given.
        remainder: Remainder,
    },
    /// The first of the queue with the highest priority.
    ByQueue,
}

/// What slices are cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceBasis {
    /// What is free.
    Offered,
    /// Everything, less what the account has.
    TotalMinusUsed,
}

/// How what is left after the slices is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remainder {
    /// By a draw with the seed of the state.
    Random,
    /// To the largest remainder first.
    Largest,
}

/// What happens at a job that does not fit now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Nobody passes it: first come, first served.
    Stop,
    /// It is passed, and nothing is kept for it.
    Skip,
    /// The first `depth` such jobs have what they need reserved; others pass where they delay none
    /// of these. 1 is EASY, [`Walk::ALL`] conservative.
    Reserve {
        /// How many, at least 1.
        depth: u32,
    },
}

impl Walk {
    /// A depth that every job is within.
    pub const ALL: u32 = u32::MAX;
}

/// The order of those that fill gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillOrder {
    /// That of the jobs.
    Queue,
    /// Least time asked for first, then the earlier (`easy-sjbf`).
    Shortest,
}

/// Whether a reservation that was told stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservations {
    /// It is only moved earlier.
    Kept,
    /// Each pass plans anew.
    Replanned,
}

/// What running jobs may be put back at the beginning of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// None.
    Nothing,
    /// Those of accounts over their protected fraction, in classes that allow it.
    FairShare,
}

/// How much may be started; `None` is any amount.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Jobs started in a second, by all.
    pub rate: Option<Rate>,
    /// By each account.
    pub account_rate: Option<Rate>,
    /// Jobs preempted in a second for fair share.
    pub preempt_rate: Option<Rate>,
    /// Fraction of the whole started in one pass, by resource; looked at before each start.
    pub pass_fraction: BTreeMap<String, f64>,
    /// Fraction of the whole that an account may hold, by class and resource; with the start added.
    pub account_fraction: BTreeMap<String, BTreeMap<String, f64>>,
}

/// A bucket of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Tokens that come in a second; more than 0.
    pub per_second: f64,
    /// The most the bucket holds; at least 1.
    pub burst: u32,
}

/// Where a job goes.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementRules {
    /// Which of the nodes that would do is taken.
    pub rank: NodeRank,
    /// Classes of jobs by name.
    pub classes: BTreeMap<String, Class>,
    /// The class of jobs that name none.
    pub default_class: String,
    /// What may be taken from others for a job that does not fit, in order.
    pub ladder: Vec<Rung>,
}

/// Which of the nodes that would do is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRank {
    /// The lowest rank.
    LowId,
    /// The highest.
    HighId,
    /// The first found; any will do.
    FirstFit,
    /// The most used first, by rank.
    Pack,
    /// The least used first.
    Spread,
    /// The one on which least would be left.
    BestFit,
    /// Nodes near each other in the graph.
    Locality,
}

impl NodeRank {
    /// All of them.
    pub const ALL: [NodeRank; 7] = [
        NodeRank::LowId,
        NodeRank::HighId,
        NodeRank::FirstFit,
        NodeRank::Pack,
        NodeRank::Spread,
        NodeRank::BestFit,
        NodeRank::Locality,
    ];
}

/// A class of jobs (seed 001).
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Higher may take from lower.
    pub priority: i64,
    /// May be evicted for the fair share of others.
    pub fair_share_preemptible: Preference,
    /// May be taken from by a higher class.
    pub urgency_preemptible: Preference,
}

/// What may be taken from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// Nothing: what is free.
    Free,
    /// What jobs evicted in this pass had, the last of their order first.
    Evicted,
    /// What jobs of lower classes have, the lowest first.
    Urgency,
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod guide_tests;
