//! What each weight of a policy can outweigh, in words.
//!
//! Called by `eddy policy show`. It looks at the weights that the first formula
//! names beside their factors, each factor between 0 and 1; a formula without
//! weights is asked what it gives for each factor.

use eddy_wire::fsd::Fsd;

use super::kind::spell;
use super::{FactorRules, Policy, Share, formula};

/// Factors that are no fraction: what one unit of them is.
const COUNTED: &[(&str, &str)] = &[
    ("urgency", "step of urgency"),
    ("nice", "step of nice"),
    ("queue", "point of queue priority"),
    ("eligible", "day of eligible time"),
];

/// A factor and what it adds at most, or for each unit.
struct Term<'a> {
    name: &'a str,
    weight: f64,
}

/// One line for each weight that is in use, the heaviest first.
pub fn outweighs(policy: &Policy) -> Vec<String> {
    let rules = &policy.priority;
    let (mut full, mut counted) = (Vec::new(), Vec::new());
    for (name, &weight) in &rules.weights {
        let used = formula::names(rules, name) && formula::names(rules, &format!("w_{name}"));
        if weight == 0.0 || !used {
            continue;
        }
        let term = Term { name, weight };
        match unit(name) {
            Some(unit) => counted.push((term, unit)),
            None => full.push(term),
        }
    }
    if full.is_empty() && counted.is_empty() {
        unweighted(policy, &mut full, &mut counted);
    }
    full.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.name.cmp(b.name)));
    let wait = full.iter().find(|term| term.name == "wait");
    let wait = wait.map(|term| term.weight);
    let mut lines: Vec<String> = (0..full.len())
        .map(|at| fraction(&full, at, wait, &rules.factors))
        .collect();
    let heaviest = full.first();
    lines.extend(
        counted
            .iter()
            .map(|(term, unit)| counts(term, unit, heaviest, wait, &rules.factors)),
    );
    lines
}

/// The same of a formula that has its weights as numbers.
fn unweighted<'a>(
    policy: &Policy,
    full: &mut Vec<Term<'a>>,
    counted: &mut Vec<(Term<'a>, &'static str)>,
) {
    let most = match policy.share.algorithm {
        Share::ProjectRatio { max } => max,
        Share::None
        | Share::Classic { .. }
        | Share::Ticket { .. }
        | Share::FairTree
        | Share::PbsTree { .. }
        | Share::PriorityFloor { .. }
        | Share::Drf { .. } => 1.0,
    };
    // Where shares do not count there is nothing to hold the others against.
    let Some(weight) = formula::effect(policy, "fair_share", most) else {
        return;
    };
    full.push(Term {
        name: "fair_share",
        weight,
    });
    for (name, one) in [("queue", 1.0), ("eligible", 86_400.0)] {
        if let (Some(weight), Some(unit)) = (formula::effect(policy, name, one), unit(name)) {
            counted.push((Term { name, weight }, unit));
        }
    }
}

fn unit(name: &str) -> Option<&'static str> {
    let found = COUNTED.iter().find(|(known, _)| *known == name);
    found.map(|&(_, unit)| unit)
}

/// How long must be waited for so much.
fn waited(amount: f64, wait: f64, rules: &FactorRules) -> String {
    let micros = amount / wait * rules.max_wait.0 as f64;
    let seconds = (micros / 1e6).round().max(0.0);
    Fsd::Finite((seconds as i64).saturating_mul(1_000_000)).to_string()
}

/// A factor between 0 and 1.
fn fraction(terms: &[Term], at: usize, wait: Option<f64>, rules: &FactorRules) -> String {
    let Term { name, weight } = terms[at];
    let lighter = &terms[at + 1..];
    let sum: f64 = lighter.iter().map(|term| term.weight).sum();
    let names: Vec<&str> = lighter.iter().map(|term| term.name).collect();
    let others = match (&names[..], weight > sum) {
        ([], _) => "is the lightest".to_owned(),
        ([one], true) => format!("outweighs all of {one} ({})", spell(sum)),
        (all, true) => format!(
            "outweighs all of {} together ({})",
            all.join(", "),
            spell(sum)
        ),
        (all, false) => format!(
            "does not outweigh all of {} together ({})",
            all.join(", "),
            spell(sum)
        ),
    };
    let of_wait = match wait {
        None => String::new(),
        Some(_) if name == "wait" => format!(
            "; each day adds {:.1}, up to {}",
            weight * 86_400e6 / rules.max_wait.0 as f64,
            Fsd::Finite(rules.max_wait.0)
        ),
        Some(wait) if weight < wait => {
            format!("; it is as much as {} of wait", waited(weight, wait, rules))
        }
        Some(wait) => format!(
            "; {:.4} of it is as much as a day of wait",
            wait / weight * 86_400e6 / rules.max_wait.0 as f64
        ),
    };
    format!("a full {name} factor ({}) {others}{of_wait}", spell(weight))
}

/// A factor that counts something.
fn counts(
    term: &Term,
    unit: &str,
    heaviest: Option<&Term>,
    wait: Option<f64>,
    rules: &FactorRules,
) -> String {
    let mut line = format!("each {unit} weighs {}", spell(term.weight));
    if let Some(heaviest) = heaviest {
        line += &format!(
            ", as much as {:.4} of {}",
            term.weight / heaviest.weight,
            heaviest.name
        );
    }
    match wait {
        Some(wait) if term.weight <= wait => {
            line += &format!(" or {} of wait", waited(term.weight, wait, rules));
        }
        Some(_) => line += ", more than any wait",
        None => {}
    }
    line
}
