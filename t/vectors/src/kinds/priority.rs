//! Kinds about formulas, factors and orders.

use super::Compute;

/// What computes this kind, if it is one of these.
pub fn of(_kind: &str) -> Option<Compute> {
    None
}
