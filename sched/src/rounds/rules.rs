//! What a policy means for one state: the levels of urgency, what costs how much.
//!
//! Asked once when a round is begun. It keeps nothing and decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::state::State;
use crate::amounts::{Amounts, Kinds};
use crate::policy::{Policy, Preference, Share};
use crate::share::drf::Costs;

/// Every class priority at which anything can run, ascending; at least one.
pub(super) fn priorities(state: &State, policy: &Policy) -> Vec<i64> {
    let of_classes = policy
        .placement
        .classes
        .values()
        .map(|class| class.priority);
    let of_away = state.away.values().flatten().map(|away| away.priority);
    let of_runs = state.runs.iter().filter_map(|run| run.priority);
    let mut all: BTreeSet<i64> = of_classes.chain(of_away).chain(of_runs).collect();
    if all.is_empty() {
        all.insert(0);
    }
    all.into_iter().collect()
}

/// Costs by the resources that are counted here; by all of them where none of those is.
pub(super) fn costs(
    total: Amounts,
    kinds: &Kinds,
    mut resources: BTreeMap<String, f64>,
) -> Option<Costs> {
    resources.retain(|name, multiplier| {
        kinds.position(name).is_some() && multiplier.is_finite() && *multiplier > 0.0
    });
    if resources.is_empty() {
        resources = all_alike(kinds);
    }
    Costs::new(total, kinds, &resources).ok()
}

fn all_alike(kinds: &Kinds) -> BTreeMap<String, f64> {
    kinds
        .names()
        .iter()
        .map(|name| (name.clone(), 1.0))
        .collect()
}

/// What the policy says of dominant resource fairness; all resources alike where it says nothing.
pub(super) fn drf(state: &State, policy: &Policy) -> (BTreeMap<String, f64>, f64, Preference) {
    match &policy.share.algorithm {
        Share::Drf {
            resources,
            protected_fraction,
            prefer_large,
        } => (resources.clone(), *protected_fraction, *prefer_large),
        Share::None
        | Share::Classic { .. }
        | Share::Ticket { .. }
        | Share::FairTree
        | Share::ProjectRatio { .. }
        | Share::PbsTree { .. }
        | Share::PriorityFloor { .. } => (all_alike(&state.kinds), 1.0, Preference::Off),
    }
}
