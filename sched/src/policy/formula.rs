//! The one place where a policy asks what its formulas say, and the one list of
//! the names that they may use.
//!
//! Called by `agree`, `warn` and `outweigh`, and by whoever makes the columns.

use super::error::Wrong;
use super::{Policy, PriorityRules, Share};
use crate::priority::{Formula, Names};

/// The names that every formula may use beside its weights, in the order of the columns.
///
/// From 0 to 1: `wait fair_share qos size user association site tres` (but `fair_share` up to
/// `max` under `project_ratio`). Counted: `queue` (its priority), `bank` (its priority), `nice`,
/// `urgency` (0 to 31), `class` (its priority), `nodes`, `cores`, `gpus`, `memory` (GiB) and
/// `walltime`, `eligible`, `submit` (seconds).
pub const FACTORS: &[&str] = &[
    "wait",
    "fair_share",
    "qos",
    "size",
    "user",
    "association",
    "site",
    "tres",
    "queue",
    "bank",
    "nice",
    "urgency",
    "class",
    "nodes",
    "cores",
    "gpus",
    "memory",
    "walltime",
    "eligible",
    "submit",
];

/// How many of them, from the first, are between 0 and 1.
const FRACTIONS: usize = 8;

impl PriorityRules {
    /// What its formulas may name: [`FACTORS`] as columns, and its weights as `w_NAME`.
    pub fn names(&self) -> Names {
        let names = Names::new(FACTORS.iter().copied());
        self.weights.iter().fold(names, |names, (name, &weight)| {
            names.constant(&format!("w_{name}"), weight)
        })
    }

    /// Whether any formula of the order names this factor.
    pub fn counts(&self, factor: &str) -> bool {
        names(self, factor)
    }
}

/// Whether a weight can be written as `w_NAME` in a formula.
pub(super) fn is_weight(name: &str) -> bool {
    let allowed =
        |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
    (1..=60).contains(&name.len()) && name.bytes().all(allowed)
}

/// What is wrong with a formula.
pub(super) fn error(text: &str, names: &Names) -> Option<Wrong> {
    Formula::parse(text, names).err().map(Wrong::Formula)
}

/// Whether any formula of the order names this.
pub(super) fn names(rules: &PriorityRules, name: &str) -> bool {
    let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let named = |text: &String| text.split(|letter| !word(letter)).any(|part| part == name);
    rules.order.iter().any(named)
}

/// Whether the order of those who wait changes while they do: as time passes, or by what is used.
pub(super) fn drifts(policy: &Policy) -> bool {
    let by_use = policy.share.algorithm != Share::None && names(&policy.priority, "fair_share");
    by_use
        || ["wait", "eligible"]
            .iter()
            .any(|name| names(&policy.priority, name))
}

/// The highest value of the first formula with each factor at its least or its highest; `None`
/// where it names something without a bound.
pub(super) fn best(policy: &Policy) -> Option<f64> {
    let formula = first(policy)?;
    let uses = formula.uses();
    let ends: Vec<(usize, [f64; 2])> = uses
        .into_iter()
        .map(|at| Some((at, ends(policy, at)?)))
        .collect::<Option<_>>()?;
    let mut values = [0.0; FACTORS.len()];
    // At most 12 factors have bounds: 4096 corners.
    (0..1usize << ends.len())
        .filter_map(|corner| {
            for (bit, (at, ends)) in ends.iter().enumerate() {
                values[*at] = ends[corner >> bit & 1];
            }
            formula.value(&values)
        })
        .max_by(f64::total_cmp)
}

/// What the first formula gives more where this factor is `most` and all others are 0.
pub(super) fn effect(policy: &Policy, name: &str, most: f64) -> Option<f64> {
    let formula = first(policy)?;
    let at = FACTORS.iter().position(|known| *known == name)?;
    formula.uses().contains(&at).then_some(())?;
    let mut values = [0.0; FACTORS.len()];
    let without = formula.value(&values)?;
    values[at] = most;
    Some(formula.value(&values)? - without)
}

fn first(policy: &Policy) -> Option<Formula> {
    let text = policy.priority.order.first()?;
    Formula::parse(text, &policy.priority.names()).ok()
}

/// The least and the highest of a factor, where it has both.
fn ends(policy: &Policy, at: usize) -> Option<[f64; 2]> {
    match (FACTORS[at], &policy.share.algorithm) {
        ("fair_share", Share::ProjectRatio { max }) => Some([0.0, *max]),
        ("urgency", _) => Some([0.0, 31.0]),
        ("queue", _) => {
            let queues = policy.priority.factors.queues.values().copied();
            // A queue of which nothing is said has 0.
            let least = queues.clone().fold(0.0, f64::min);
            Some([least, queues.fold(0.0, f64::max)])
        }
        ("class", _) => {
            let classes = policy.placement.classes.values();
            let priorities = || classes.clone().map(|class| class.priority);
            Some([priorities().min()? as f64, priorities().max()? as f64])
        }
        _ if at < FRACTIONS => Some([0.0, 1.0]),
        _ => None,
    }
}
