//! What was used: amounts of resources times time, in whole numbers.
//!
//! The ledger counts in these, its summary record keeps them, listings show them. Nothing is
//! rounded: sums of parts are the whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::account::Name;
use crate::ending::Ends;
use crate::resource_set::NodeSet;
use crate::time::{Span, Time};

/// Amounts, or amounts times microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Amounts {
    /// Nodes of which something was held.
    #[serde(skip_serializing_if = "is_none")]
    pub nodes: u128,
    /// Cores.
    #[serde(skip_serializing_if = "is_none")]
    pub cores: u128,
    /// GPUs.
    #[serde(skip_serializing_if = "is_none")]
    pub gpus: u128,
    /// MiB of memory, each begun one whole.
    #[serde(skip_serializing_if = "is_none")]
    pub memory: u128,
}

fn is_none(amount: &u128) -> bool {
    *amount == 0
}

impl Amounts {
    /// What is on a node; what has nothing of it is no node.
    pub fn of(node: &NodeSet) -> Amounts {
        Amounts {
            nodes: u128::from(!node.is_empty()),
            cores: u128::from(node.cores.len()),
            gpus: u128::from(node.gpus.len()),
            memory: u128::from(node.memory.div_ceil(1 << 20)),
        }
    }

    /// Whether there is none of anything.
    pub fn is_nothing(&self) -> bool {
        *self == Amounts::default()
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Amounts) -> Amounts {
        self.with(other, u128::saturating_add)
    }

    /// Without the other, at least nothing.
    #[must_use]
    pub fn less(self, other: Amounts) -> Amounts {
        self.with(other, u128::saturating_sub)
    }

    /// For so long; nothing for a time that is negative.
    #[must_use]
    pub fn over(self, time: Span) -> Amounts {
        let time = u128::try_from(time.0).unwrap_or(0);
        self.with(Amounts::default(), |own, _| own.saturating_mul(time))
    }

    fn with(self, other: Amounts, sum: impl Fn(u128, u128) -> u128) -> Amounts {
        Amounts {
            nodes: sum(self.nodes, other.nodes),
            cores: sum(self.cores, other.cores),
            gpus: sum(self.gpus, other.gpus),
            memory: sum(self.memory, other.memory),
        }
    }
}

/// Whose use it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Payer {
    /// The account; none where the job had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
    /// User id.
    pub user: u32,
    /// The QoS; none is the policy's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<Name>,
    /// The queue; none is the instance's only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

/// What a payer used in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Its beginning, microseconds since 1970.
    pub from: i64,
    /// How long it is, in microseconds; what was used may fill only a part of it.
    pub width: i64,
    /// What was used.
    pub used: Amounts,
}

/// What a payer used, by time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Who.
    pub payer: Payer,
    /// Ascending; of one beginning the wider first.
    pub stretches: Vec<Stretch>,
}

/// Where all the capacity went: each core-microsecond is in exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Held by jobs.
    pub jobs: Amounts,
    /// Held by users' own instances.
    pub instances: Amounts,
    /// Held by declared instances, by name.
    #[serde(default)]
    pub declared: BTreeMap<String, Amounts>,
    /// Kept by an advance reservation, and unused.
    #[serde(default)]
    pub reserved: Amounts,
    /// Under maintenance, and held by nobody.
    #[serde(default)]
    pub maintenance: Amounts,
    /// In service and held by nobody.
    pub idle: Amounts,
    /// Taken out of service.
    pub drained: Amounts,
    /// Not to be asked.
    pub down: Amounts,
}

impl Spent {
    /// All of it.
    pub fn sum(&self) -> Amounts {
        let declared = self.declared.values().copied();
        [
            self.jobs,
            self.instances,
            self.reserved,
            self.maintenance,
            self.idle,
            self.drained,
            self.down,
        ]
        .into_iter()
        .chain(declared)
        .fold(Amounts::default(), Amounts::plus)
    }
}

/// What was charged in a day that is over, or in days of a month that are long over: kept once, beside the
/// summaries. Counts from the next summary on, in place of what was said of the same stretch before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Day {
    /// Its beginning, microseconds since 1970.
    pub from: i64,
    /// How long it is, in microseconds.
    pub width: i64,
    /// It has all of the narrower ones that begin in it before then.
    pub until: i64,
    /// What was charged to whom.
    pub accounts: Vec<Share>,
}

/// What a payer was charged in a stretch that is another's to name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Who.
    pub payer: Payer,
    /// What was used.
    pub used: Amounts,
}

/// All that was used until a record: what is kept of jobs whose records need not be read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// When counting began.
    pub since: Time,
    /// What was charged and is in no [`Day`]. As of version 3 all that was charged.
    pub accounts: Vec<Account>,
    /// What was held and not charged, since its node failed.
    pub uncharged: Amounts,
    /// Where the capacity went.
    pub spent: Spent,
    /// The capacity until then.
    pub capacity: Amounts,
    /// What is beyond it of what was held by a clock that was set back, until it is said when that was given back.
    #[serde(default, skip_serializing_if = "Amounts::is_nothing")]
    pub owed: Amounts,
    /// How jobs ended that were over by then, also those that are forgotten since. None where that was not counted
    /// from the beginning: by versions that did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Ends>,
}
