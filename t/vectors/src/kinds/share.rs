//! Kinds about fair shares: classic, ticket, fair tree, DRF costs.

use super::Compute;

/// What computes this kind, if it is one of these.
pub fn of(_kind: &str) -> Option<Compute> {
    None
}
