//! Costs by the dominant resource (Armada's queues).
//!
//! The cost of an account is the largest part that it holds of any resource;
//! over its weight it says who is served next. Used by rounds and by the book. It
//! places nothing.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::amounts::{Amounts, KINDS_MAX, Kinds};

/// Why resources cannot be weighed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DrfError {
    /// None is considered, so nobody would have a cost.
    #[error("share.resources: none is given; allowed is at least one with a multiplier above 0")]
    None,
    /// A resource that is not counted.
    #[error("share.resources.{name}: it is given; allowed are {known}")]
    Unknown {
        /// As given.
        name: String,
        /// With commas between.
        known: String,
    },
    /// A multiplier below 0, or no number.
    #[error("share.resources.{name}: {given} is given; allowed are finite numbers of at least 0")]
    Multiplier {
        /// Of which resource.
        name: String,
        /// As given.
        given: f64,
    },
}

/// The greatest of `held / all * multiplier` over resources `(held, all, multiplier)`; a resource
/// of which there is none counts as 0.
pub fn dominant(resources: impl IntoIterator<Item = (f64, f64, f64)>) -> f64 {
    let part = |(held, all, multiplier): (f64, f64, f64)| match all > 0.0 {
        true => held / all * multiplier,
        false => 0.0,
    };
    resources.into_iter().map(part).fold(0.0, f64::max)
}

/// Of what costs are a part, and how much each resource counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    total: Amounts,
    multipliers: [f64; KINDS_MAX],
}

impl Costs {
    /// Parts of `total`, whose positions are those of `kinds`; resources that are not named do not
    /// count, nor do those with multiplier 0.
    ///
    /// # Errors
    /// [`DrfError`] for no resource, one that is not counted, and a multiplier out of range.
    pub fn new(
        total: Amounts,
        kinds: &Kinds,
        resources: &BTreeMap<String, f64>,
    ) -> Result<Costs, DrfError> {
        let mut multipliers = [0.0; KINDS_MAX];
        for (name, &given) in resources {
            if !given.is_finite() || given < 0.0 {
                let name = name.clone();
                return Err(DrfError::Multiplier { name, given });
            }
            let Some(at) = kinds.position(name) else {
                let (name, known) = (name.clone(), kinds.names().join(", "));
                return Err(DrfError::Unknown { name, known });
            };
            multipliers[at] = given;
        }
        match multipliers.iter().any(|&multiplier| multiplier > 0.0) {
            true => Ok(Costs { total, multipliers }),
            false => Err(DrfError::None),
        }
    }

    /// What holding so much costs, 0 to 1 where multipliers are 1.
    pub fn cost(&self, held: &Amounts) -> f64 {
        let each = held.iter().zip(self.total.iter()).zip(self.multipliers);
        dominant(each.map(|((held, all), multiplier)| (held as f64, all as f64, multiplier)))
    }

    /// Whether there is nothing of anything.
    pub fn is_empty(&self) -> bool {
        self.total.is_none()
    }
}

/// What accounts hold, each with its weight, numbered in the order of their names.
#[derive(Clone, Debug, PartialEq)]
pub struct Accounts {
    costs: Costs,
    weights: Vec<f64>,
    held: Vec<Amounts>,
}

impl Accounts {
    /// Accounts of these weights (1 over the priority factor), holding nothing yet.
    pub fn new(costs: Costs, weights: Vec<f64>) -> Accounts {
        let held = vec![Amounts::NONE; weights.len()];
        Accounts {
            costs,
            weights,
            held,
        }
    }

    /// Cost over weight of the account with an ask added; infinite for one without weight or that
    /// is not known.
    pub fn cost_with(&self, account: usize, ask: &Amounts) -> f64 {
        match (self.held.get(account), self.weights.get(account)) {
            (Some(&held), Some(&weight)) if weight > 0.0 => {
                self.costs.cost(&(held + *ask)) / weight
            }
            _ => f64::INFINITY,
        }
    }

    /// Cost over weight of what it holds.
    pub fn cost(&self, account: usize) -> f64 {
        self.cost_with(account, &Amounts::NONE)
    }

    /// It holds so much more.
    pub fn charge(&mut self, account: usize, amounts: &Amounts) {
        if let Some(held) = self.held.get_mut(account) {
            *held += *amounts;
        }
    }

    /// It holds so much less.
    pub fn uncharge(&mut self, account: usize, amounts: &Amounts) {
        if let Some(held) = self.held.get_mut(account) {
            *held -= *amounts;
        }
    }

    /// What it holds.
    pub fn held(&self, account: usize) -> Amounts {
        self.held.get(account).copied().unwrap_or(Amounts::NONE)
    }

    /// Which of these accounts, each with its first ask, would cost least with it; the first of
    /// equals.
    pub fn next(&self, asks: impl IntoIterator<Item = (usize, Amounts)>) -> Option<usize> {
        let key = |(account, ask): (usize, Amounts)| (self.cost_with(account, &ask), account);
        let least = asks.into_iter().map(key);
        let least = least.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        least.map(|(_, account)| account)
    }
}
