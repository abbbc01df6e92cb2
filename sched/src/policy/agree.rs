//! What must agree between the keys of a policy, and its formulas.
//!
//! Called by `read` once every key is read; each answer is an error, with the
//! path of the key that is at fault. What is only unwise says `warn`.

use super::error::Wrong;
use super::{Decay, Evict, Policy, PriorityRules, Reservations, Share, Source, formula};
use crate::amounts::KINDS_MAX;

/// Every disagreement.
pub(super) fn errors(policy: &Policy) -> Vec<(String, Wrong)> {
    let mut errors = Vec::new();
    formulas(&policy.priority, &mut errors);
    names(policy, &mut errors);
    drf(policy, &mut errors);
    accounts(policy, &mut errors);
    errors.extend(margin(policy));
    errors
}

/// Who comes does not move what is kept: that is given up only where the order of those who wait already
/// changes. Elsewhere a margin would be for nobody.
fn margin(policy: &Policy) -> Option<(String, Wrong)> {
    let queue = &policy.queue;
    let counts = queue.displace_margin == 0.0 || formula::drifts(policy);
    if counts || queue.reservations == Reservations::Replanned {
        return None;
    }
    let wrong = Wrong::Needs {
        given: queue.displace_margin.to_string(),
        needed: "an order that changes while jobs wait (wait, eligible or fair_share in it)"
            .to_owned(),
        here: format!(
            "priority.order = {:?}, where a kept reservation gives way to nobody",
            policy.priority.order
        ),
    };
    Some(("queue.displace_margin".to_owned(), wrong))
}

fn formulas(rules: &PriorityRules, errors: &mut Vec<(String, Wrong)>) {
    for name in rules.weights.keys() {
        if !formula::is_weight(name) {
            let wrong = Wrong::Name {
                given: format!("{name:?}"),
                allowed: "letters a-z, digits and _, as a formula can write it",
            };
            errors.push((format!("priority.weights.{name}"), wrong));
        }
    }
    let names = rules.names();
    for (at, text) in rules.order.iter().enumerate() {
        let path = format!("priority.order[{at}]");
        errors.extend(formula::error(text, &names).map(|wrong| (path, wrong)));
    }
}

fn names(policy: &Policy, errors: &mut Vec<(String, Wrong)>) {
    let factors = &policy.priority.factors;
    let missing = |given: &str, known: Vec<&str>| Wrong::Needs {
        given: format!("{given:?}"),
        needed: "a table of that name".to_owned(),
        here: if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        },
    };
    // Where there are no QoS nobody can name one.
    if !factors.qos.is_empty() && !factors.qos.contains_key(&factors.default_qos) {
        errors.push((
            "priority.factors.default_qos".to_owned(),
            Wrong::Value {
                given: format!("{:?}", factors.default_qos),
                allowed: or(factors.qos.keys()),
            },
        ));
    }
    let placement = &policy.placement;
    if !placement.classes.contains_key(&placement.default_class) {
        let known = placement.classes.keys().map(String::as_str).collect();
        let wrong = missing(&placement.default_class, known);
        errors.push(("placement.default_class".to_owned(), wrong));
    }
    for class in policy.queue.limits.account_fraction.keys() {
        if !placement.classes.contains_key(class) {
            let known = placement.classes.keys().map(String::as_str).collect();
            let path = "queue.limits.account_fraction".to_owned();
            errors.push((format!("{path}.{class}"), missing(class, known)));
        }
    }
}

fn or<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    super::kind::or(&names)
}

fn drf(policy: &Policy, errors: &mut Vec<(String, Wrong)>) {
    let Share::Drf { resources, .. } = &policy.share.algorithm else {
        return;
    };
    let considered = resources.values().filter(|&&factor| factor > 0.0).count();
    if !(1..=KINDS_MAX).contains(&considered) {
        errors.push((
            "share.resources".to_owned(),
            Wrong::Value {
                given: format!("{considered} with a multiplier over 0"),
                allowed: format!("1 to {KINDS_MAX} of them"),
            },
        ));
    }
}

/// Sources and evictions that only one way of sharing can tell the order of.
fn accounts(policy: &Policy, errors: &mut Vec<(String, Wrong)>) {
    let algorithm = &policy.share.algorithm;
    let here = || {
        format!(
            "share.algorithm = {:?}",
            super::keys::SHARES.name(algorithm.kind())
        )
    };
    let needs = |given: &str, needed: &str| Wrong::Needs {
        given: format!("{given:?}"),
        needed: format!("share.algorithm = {needed:?}"),
        here: here(),
    };
    let is_drf = matches!(algorithm, Share::Drf { .. });
    match policy.queue.source {
        Source::PerAccountCost if !is_drf => {
            errors.push(("queue.source".to_owned(), needs("per_account_cost", "drf")));
        }
        Source::PerAccountSlices { .. } if !matches!(algorithm, Share::PriorityFloor { .. }) => {
            let wrong = needs("per_account_slices", "priority_floor");
            errors.push(("queue.source".to_owned(), wrong));
        }
        Source::Global
        | Source::PerAccountCost
        | Source::PerAccountSlices { .. }
        | Source::ByQueue => {}
    }
    if policy.queue.evict == Evict::FairShare && !is_drf {
        errors.push(("queue.evict".to_owned(), needs("fair_share", "drf")));
    }
    if matches!(policy.usage.decay, Decay::TowardCurrent { .. })
        && !matches!(algorithm, Share::PriorityFloor { .. })
    {
        let wrong = needs("toward_current", "priority_floor");
        errors.push(("usage.decay.form".to_owned(), wrong));
    }
}
