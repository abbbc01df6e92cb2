//! What a run is charged: the weighted amounts it held, times how long.
//!
//! Made once from the rules of a policy and what is metered; asked by the ledger
//! at each start and end. It keeps nothing of any run.

use std::collections::BTreeMap;

use eddy_wire::time::{MICROS, Span};
use thiserror::Error;

use crate::policy::{Charge, ChargedTime, UsageRules};

/// Under this a capacity counts as none (Armada's scarcity).
const LEAST_CAPACITY: f64 = 1e-5;

/// Whether a resource is part of a node or of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Cores, memory, GPUs.
    Node,
    /// Licences, power.
    Site,
}

/// A resource that is metered.
#[derive(Clone, Debug, PartialEq)]
pub struct Meter {
    /// As in [`UsageRules::weights`].
    pub name: String,
    /// Part of what.
    pub bound: Bound,
    /// All there is of it, in its unit.
    pub capacity: f64,
}

/// What is known of a run when it is charged.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What it holds, in units, in the order of the meters.
    pub amounts: &'a [f64],
    /// From start to now or to the end.
    pub elapsed: Span,
    /// What it asked for; `None` is no limit.
    pub requested: Option<Span>,
    /// The queue or QoS whose factor counts.
    pub queue: &'a str,
}

/// Why rules cannot be charged by.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum TariffError {
    /// A weight that is no number, or below 0.
    #[error("usage.weights.{name}: {given} is given; allowed are finite numbers of at least 0")]
    Weight {
        /// Of which resource.
        name: String,
        /// As given.
        given: f64,
    },
    /// A factor that is no number, or below 0.
    #[error("usage.factors.{name}: {given} is given; allowed are finite numbers of at least 0")]
    Factor {
        /// Of which queue.
        name: String,
        /// As given.
        given: f64,
    },
}

/// How runs are charged.
#[derive(Clone, Debug, PartialEq)]
pub struct Tariff {
    weights: Vec<f64>,
    bounds: Vec<Bound>,
    charge: Charge,
    factors: BTreeMap<String, f64>,
    qos_factors: BTreeMap<String, f64>,
    time: ChargedTime,
    minimum: Span,
}

impl Tariff {
    /// From the rules and what is metered, whose order is that of amounts.
    ///
    /// # Errors
    /// [`TariffError`] names the first weight or factor that is not allowed.
    pub fn new(rules: &UsageRules, meters: &[Meter]) -> Result<Tariff, TariffError> {
        let allowed = |given: f64| given.is_finite() && given >= 0.0;
        if let Some((name, &given)) = rules.weights.iter().find(|(_, given)| !allowed(**given)) {
            let name = name.clone();
            return Err(TariffError::Weight { name, given });
        }
        let mut factors = rules.factors.iter().chain(&rules.qos_factors);
        if let Some((name, &given)) = factors.find(|(_, given)| !allowed(**given)) {
            let name = name.clone();
            return Err(TariffError::Factor { name, given });
        }
        let weights = match rules.charge {
            Charge::Scarcity => {
                let capacities: Vec<f64> = meters.iter().map(|meter| meter.capacity).collect();
                let base = meters.iter().position(|meter| meter.name == "cores");
                let rare = scarcity(&capacities, base.unwrap_or(0));
                rare.iter()
                    .map(|factor| factor.map_or(0.0, |f| 1.0 / f))
                    .collect()
            }
            Charge::Sum | Charge::MaxOfNode => meters
                .iter()
                .map(|meter| rules.weights.get(&meter.name).copied().unwrap_or(0.0))
                .collect(),
        };
        Ok(Tariff {
            weights,
            bounds: meters.iter().map(|meter| meter.bound).collect(),
            charge: rules.charge,
            factors: rules.factors.clone(),
            qos_factors: rules.qos_factors.clone(),
            time: rules.time,
            minimum: rules.minimum,
        })
    }

    /// The weighted amounts as one number, before any factor: charged units per second.
    pub fn weigh(&self, amounts: &[f64]) -> f64 {
        let each = || {
            self.weights
                .iter()
                .zip(amounts)
                .map(|(weight, had)| weight * had)
        };
        match self.charge {
            Charge::Sum | Charge::Scarcity => each().sum(),
            Charge::MaxOfNode => {
                let of = |bound| {
                    let place = self.bounds.iter();
                    each()
                        .zip(place)
                        .filter(move |(_, at)| **at == bound)
                        .map(|(cost, _)| cost)
                };
                of(Bound::Node).fold(0.0, f64::max) + of(Bound::Site).sum::<f64>()
            }
        }
    }

    /// The factor of a QoS: its own, else that of its name.
    pub fn factor_of_qos(&self, qos: &str) -> f64 {
        let own = self.qos_factors.get(qos).copied();
        own.unwrap_or_else(|| self.factor(qos))
    }

    /// The factor of a queue or QoS; 1 where none is given, 0 exempts.
    pub fn factor(&self, queue: &str) -> f64 {
        self.factors.get(queue).copied().unwrap_or(1.0)
    }

    /// What a run costs in each second while it runs; 0 where the time asked for is charged.
    pub fn rate(&self, amounts: &[f64], queue: &str) -> f64 {
        match self.time {
            ChargedTime::Elapsed => self.weigh(amounts) * self.factor(queue),
            ChargedTime::Requested => 0.0,
        }
    }

    /// What is charged at once when it starts.
    pub fn at_start(&self, run: &Run<'_>) -> f64 {
        match self.time {
            ChargedTime::Elapsed => 0.0,
            ChargedTime::Requested => self.cost(run, run.requested.unwrap_or(Span::ZERO)),
        }
    }

    /// What is charged at once when it has ended: what it lacks to the least charge.
    pub fn at_end(&self, run: &Run<'_>) -> f64 {
        let paid = match (self.time, run.requested) {
            (ChargedTime::Requested, Some(asked)) => asked,
            (ChargedTime::Requested | ChargedTime::Elapsed, _) => run.elapsed,
        };
        let short = Span(self.minimum.0.saturating_sub(paid.0.max(0)).max(0));
        // Without a limit nothing was charged at the start, so all is due now.
        let unpaid = match (self.time, run.requested) {
            (ChargedTime::Requested, None) => run.elapsed,
            (ChargedTime::Requested | ChargedTime::Elapsed, _) => Span::ZERO,
        };
        self.cost(run, short) + self.cost(run, unpaid)
    }

    /// All that a run that has ended is charged, before decay.
    pub fn whole(&self, run: &Run<'_>) -> f64 {
        let while_it_ran = self.rate(run.amounts, run.queue) * seconds(run.elapsed);
        self.at_start(run) + while_it_ran + self.at_end(run)
    }

    fn cost(&self, run: &Run<'_>, time: Span) -> f64 {
        self.weigh(run.amounts) * self.factor(run.queue) * seconds(time)
    }
}

/// How much of each resource there is for one of the base: `capacity / capacity of base` (Armada's
/// decayed priority; usage is the sum of amounts over these). `None` is a resource without
/// capacity, which is left out. A base without capacity is replaced by the first resource with any.
pub fn scarcity(capacities: &[f64], base: usize) -> Vec<Option<f64>> {
    let there = |capacity: &&f64| capacity.is_finite() && **capacity >= LEAST_CAPACITY;
    let base = capacities.get(base).filter(there);
    let Some(&base) = base.or_else(|| capacities.iter().find(there)) else {
        return vec![None; capacities.len()];
    };
    let factor = |capacity: &f64| there(&capacity).then_some(capacity / base);
    capacities.iter().map(factor).collect()
}

/// Seconds of a span that is to be charged; nothing for one that is negative.
fn seconds(span: Span) -> f64 {
    span.0.max(0) as f64 / MICROS as f64
}
