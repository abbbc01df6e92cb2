//! What is asked for, as goals over the types of one graph.
//!
//! Made of a jobspec by `compile`, obeyed by the search. It names no vertices and
//! knows nothing of what is free.

use eddy_wire::constraint::ConstraintError;
use eddy_wire::jobspec::{Count, CountRange, JobspecError, Operator};
use fixedbitset::FixedBitSet;
use thiserror::Error;

use super::containment::Kind;
use crate::policy::NodeRank;

/// What is asked for of one graph.
#[derive(Clone, Debug)]
pub struct Want {
    pub(super) goals: Vec<Goal>,
    pub(super) ties: Ties,
    /// Once on each node that has slots of it.
    pub(super) per_host: Vec<Goal>,
    /// The nodes that are allowed; `None` is all.
    pub(super) hosts: Option<FixedBitSet>,
    pub(super) place: Place,
    /// The least it needs in all, by type.
    pub(super) least: Vec<(usize, i64)>,
}

/// Where it is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of what would do is taken.
    pub rank: NodeRank,
    /// How slots lie on nodes (PBS `place=`).
    pub arrange: Arrange,
    /// Who else may be there (PBS `place=`).
    pub share: Share,
    /// All of it within one group (PBS `group=`, Armada's uniformity label).
    pub group: Option<Group>,
    /// So many of what the jobspec says, all or at least the minimum.
    pub gang: Option<Gang>,
}

/// How slots lie on nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrange {
    /// Wherever they fit.
    #[default]
    Free,
    /// All on one node.
    Pack,
    /// Each on a node of its own.
    Scatter,
    /// Each on a vertex of type `vnode` of its own; without such vertices as [`Arrange::Scatter`].
    VScatter,
}

/// Who else may use the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// As the jobspec says.
    #[default]
    Shared,
    /// Nobody may use the vertices of type `vnode` that it uses; without such vertices as
    /// [`Share::ExclHost`].
    Excl,
    /// Nobody may use the nodes that it uses.
    ExclHost,
}

/// What makes a group of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// Being in the same vertex of a type: `rack`.
    Kind(String),
    /// Having the same value of a property, itself or what contains it; nodes without it are out.
    Property(String),
}

/// How many of a request go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gang {
    /// At most, and if possible.
    pub cardinality: u32,
    /// At least; from 1 to the cardinality.
    pub minimum: u32,
}

/// Why a jobspec cannot be matched against any graph.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum WantError {
    /// Its constraints are wrong.
    #[error("attributes.system.constraints: cannot be used")]
    Constraint(#[from] ConstraintError),
    /// The jobspec itself is wrong.
    #[error(transparent)]
    Jobspec(#[from] JobspecError),
    /// A gang of nothing, or one that needs more than it has.
    #[error("gang: has minimum {minimum} of {cardinality}; allowed are 1 to the cardinality")]
    Gang {
        /// As given.
        minimum: u32,
        /// As given.
        cardinality: u32,
    },
    /// A core or GPU that others may use as well.
    #[error("{path}: `{kind}` cannot be shared; allowed for what contains others only")]
    SharedUnits {
        /// Where.
        path: String,
        /// The type.
        kind: String,
    },
    /// Something in a thing that contains nothing in this graph.
    #[error("{path}: nothing is within a `{kind}` here")]
    Within {
        /// Where.
        path: String,
        /// The type.
        kind: String,
    },
    /// Pieces of what is counted in other units.
    #[error("{path}: {count} of unit `{unit}` are not an amount")]
    Unit {
        /// Where.
        path: String,
        /// The count.
        count: u64,
        /// The unit.
        unit: String,
    },
    /// A slot in a slot.
    #[error("{path}: is a slot within a slot")]
    SlotInSlot {
        /// Where.
        path: String,
    },
    /// Picking by number.
    #[error("{path}: choosing by id is not supported; allowed are hosts and ranks as constraints")]
    Id {
        /// Where.
        path: String,
    },
    /// A pool within something of which the number is left open.
    #[error("{path}: a pool of the whole cannot be within a count that leaves a choice")]
    PoolInChoice {
        /// Where.
        path: String,
    },
    /// More than can be counted.
    #[error(
        "{path}: comes to more than can be counted; allowed are at most {}",
        i64::MAX
    )]
    TooMuch {
        /// Where.
        path: String,
    },
}

/// So many of something.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub what: What,
    pub counts: Counts,
    pub inner: Vec<Goal>,
    /// Whether those within can be sought one after the other.
    pub ties: Ties,
    /// What one of it needs at least, by type, whatever it is in.
    pub need: Vec<(usize, i64)>,
    /// The types of which it may take something, as bits.
    pub reach: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A vertex, and what is sought in it.
    Place(Kind, Hold),
    /// Of runs or amounts, anywhere in the scope.
    Some(Kind),
    /// All within, in one node.
    Slot,
    /// All within, anywhere in the scope.
    Bundle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Through,
    Whole,
}

/// Whether goals beside each other can take from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ties {
    /// Each finds what it wants whatever the others take.
    Apart,
    /// What one takes another may need.
    Tangled,
}

/// The numbers that will do.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub count: Count,
    /// How much one of the count is.
    pub unit: u64,
}

impl Default for Place {
    fn default() -> Place {
        Place {
            rank: NodeRank::LowId,
            arrange: Arrange::Free,
            share: Share::Shared,
            group: None,
            gang: None,
        }
    }
}

impl Goal {
    pub fn kind(&self) -> Option<Kind> {
        match self.what {
            What::Place(kind, _) | What::Some(kind) => Some(kind),
            What::Slot | What::Bundle => None,
        }
    }

    /// What the least number of it needs.
    pub fn least(&self) -> Vec<(usize, i64)> {
        let times = i64::try_from(self.counts.least()).unwrap_or(i64::MAX);
        let need = self.need.iter();
        need.map(|&(kind, amount)| (kind, amount.saturating_mul(times)))
            .collect()
    }
}

impl Counts {
    pub fn exactly(count: u32) -> Counts {
        Counts {
            count: Count::Exactly(count),
            unit: 1,
        }
    }

    pub fn least(&self) -> u64 {
        let least = match &self.count {
            Count::Exactly(count) => *count,
            Count::OneOf(set) => set.first().unwrap_or(1),
            Count::Range(range) => range.min,
        };
        u64::from(least).saturating_mul(self.unit)
    }

    /// The most that will do; without a limit as many as can be counted.
    pub fn most(&self) -> u64 {
        self.best(u64::MAX).unwrap_or_else(|| self.least())
    }

    /// The largest that will do and is not over what is there.
    pub fn best(&self, there: u64) -> Option<u64> {
        let there = there / self.unit;
        let best = match &self.count {
            Count::Exactly(count) => Some(u64::from(*count)).filter(|&count| count <= there),
            Count::OneOf(set) => {
                let last = set.iter().take_while(|&id| u64::from(id) <= there).last();
                last.map(u64::from)
            }
            Count::Range(range) => best_of_range(range, there),
        };
        best.and_then(|best| best.checked_mul(self.unit))
    }

    pub fn has_choice(&self) -> bool {
        self.count.fixed().is_none()
    }
}

fn best_of_range(range: &CountRange, there: u64) -> Option<u64> {
    let (min, operand) = (u64::from(range.min), u64::from(range.operand.max(1)));
    let most = there.min(range.max.map_or(u64::from(u32::MAX), u64::from));
    if min > most {
        return None;
    }
    let grow = |at: u64| match range.operator {
        Operator::Add => at.checked_add(operand),
        Operator::Multiply => at.checked_mul(operand),
        Operator::Power => at.checked_pow(range.operand),
    };
    if range.operator == Operator::Add {
        return Some(min + (most - min) / operand * operand);
    }
    // Multiplied or raised it grows past 2^32 in 32 steps at most.
    let numbers = std::iter::successors(Some(min), |&at| grow(at).filter(|&next| next > at));
    numbers.take(64).take_while(|&at| at <= most).last()
}
