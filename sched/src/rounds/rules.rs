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
pub(crate) fn costs(
    total: Amounts,
    kinds: &Kinds,
    mut resources: BTreeMap<String, f64>,
) -> Option<Costs> {
    resources.retain(|name, multiplier| {
        kinds.position(name).is_some() && multiplier.is_finite() && *multiplier > 0.0
    });
    if resources.is_empty() {
        resources = all_alike(kinds.names());
    }
    Costs::new(total, kinds, &resources).ok()
}

/// Each of these resources, all with the same weight.
pub(crate) fn all_alike<S: AsRef<str>>(names: &[S]) -> BTreeMap<String, f64> {
    let alike = |name: &S| (name.as_ref().to_owned(), 1.0);
    names.iter().map(alike).collect()
}

/// What the policy says of dominant resource fairness; `all` resources where it says nothing.
pub(crate) fn drf(
    policy: &Policy,
    all: BTreeMap<String, f64>,
) -> (BTreeMap<String, f64>, f64, Preference) {
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
        | Share::PriorityFloor { .. } => (all, 1.0, Preference::Off),
    }
}
