//! Kinds about walks: backfill plans and their limits.

use super::Compute;

/// What computes this kind, if it is one of these.
pub fn of(_kind: &str) -> Option<Compute> {
    None
}
