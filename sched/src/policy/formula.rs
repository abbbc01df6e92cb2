//! The one place where a policy asks what its formulas say.
//!
//! Called by `agree`, `warn` and `outweigh`. It evaluates nothing itself.

use super::error::Wrong;
use super::{Policy, PriorityRules};

/// Whether a weight can be written as `w_NAME` in a formula.
pub(super) fn is_weight(name: &str) -> bool {
    let allowed =
        |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
    (1..=60).contains(&name.len()) && name.bytes().all(allowed)
}

/// What is wrong with a formula.
pub(super) fn errors(_text: &str, _rules: &PriorityRules) -> Vec<Wrong> {
    Vec::new()
}

/// Whether any formula of the order names this.
pub(super) fn names(rules: &PriorityRules, name: &str) -> bool {
    let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let named = |text: &String| text.split(|letter| !word(letter)).any(|part| part == name);
    rules.order.iter().any(named)
}

/// The highest value that the first formula can have; `None` where it has no bound.
pub(super) fn best(_policy: &Policy) -> Option<f64> {
    None
}
