//! What an allocation costs, and what each account is due of everything.
//!
//! Dominant resource fairness: the cost is the largest fraction of any resource
//! (seed 001; Ghodsi et al., 2011). Used by turns and by eviction.

use std::collections::BTreeMap;

use crate::amounts::{Amounts, KINDS_MAX, Kinds};

/// Turns amounts into the largest weighted fraction of everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    total: Amounts,
    multipliers: [f64; KINDS_MAX],
}

impl Cost {
    /// The cost against this total, of these resources with these multipliers.
    pub(super) fn new(total: Amounts, kinds: &Kinds, resources: &BTreeMap<String, f64>) -> Cost {
        let mut multipliers = [0.0; KINDS_MAX];
        for (name, &multiplier) in resources {
            if let Some(at) = kinds.position(name) {
                multipliers[at] = multiplier;
            }
        }
        Cost { total, multipliers }
    }

    /// Cost of an allocation; resources of which there is nothing cost nothing.
    pub(super) fn of(&self, allocation: &Amounts) -> f64 {
        let fractions = allocation
            .iter()
            .zip(self.total.iter())
            .zip(self.multipliers)
            .filter(|((_, total), multiplier)| *total > 0 && *multiplier > 0.0)
            .map(|((amount, total), multiplier)| amount as f64 / total as f64 * multiplier);
        fractions.fold(0.0, f64::max)
    }
}

/// What an account is due of everything, as fractions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Due {
    /// Its weight over all weights.
    pub fair: f64,
    /// With its part of what others have no demand for, up to its own demand.
    pub capped: f64,
}

/// Rounds of sharing out what others leave. Each takes at least one account out that has all it
/// asks for or is the last; what is left after so many is less than matters.
const SHARINGS: usize = 10;

/// What accounts of these weights and demands (as costs) are due; the order is kept.
pub(super) fn due(accounts: &[(f64, f64)]) -> Vec<Due> {
    let weights: f64 = accounts.iter().map(|(weight, _)| weight).sum();
    let mut due: Vec<Due> = accounts
        .iter()
        .map(|(weight, _)| Due {
            fair: weight / weights,
            capped: 0.0,
        })
        .collect();
    let mut content = vec![false; accounts.len()];
    let mut left = 1.0;
    for _ in 0..SHARINGS {
        let wanting: f64 = accounts
            .iter()
            .zip(&content)
            .filter(|(_, content)| !**content)
            .map(|((weight, _), _)| weight)
            .sum();
        if left <= 0.01 || wanting <= 0.0 {
            break;
        }
        let shared = left;
        left = 0.0;
        for (at, &(weight, demand)) in accounts.iter().enumerate() {
            if content[at] {
                continue;
            }
            due[at].capped += weight / wanting * shared;
            if due[at].capped > demand {
                left += due[at].capped - demand;
                due[at].capped = demand;
                content[at] = true;
            }
        }
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_does_not_ask_for_goes_to_the_others() {
        let shares = due(&[(1.0, 0.1), (1.0, 9.0), (2.0, 9.0)]);
        assert_eq!(
            shares[0],
            Due {
                fair: 0.25,
                capped: 0.1
            }
        );
        assert!((shares[1].capped - 0.3).abs() < 1e-12);
        assert!((shares[2].capped - 0.6).abs() < 1e-12);
        assert_eq!(due(&[]), Vec::new());
    }

    #[test]
    fn cost_is_the_largest_fraction_and_nothing_of_nothing() {
        let kinds = Kinds::new(["cpu", "gpu"]).expect("two kinds");
        let mut total = Amounts::NONE;
        total[0] = 100;
        let resources = BTreeMap::from([("cpu".to_string(), 1.0), ("gpu".to_string(), 1.0)]);
        let cost = Cost::new(total, &kinds, &resources);
        let mut allocation = Amounts::NONE;
        (allocation[0], allocation[1]) = (10, 1);
        assert_eq!(cost.of(&allocation), 0.1);
    }
}
