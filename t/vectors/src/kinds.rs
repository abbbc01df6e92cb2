//! What is computed for each kind of case, by subject.
//!
//! A kind takes the input of a case and gives all it can compute of it, as an
//! object with the names that cases expect. A shape it does not know is an error
//! that names the field.

mod backfill;
mod pbs;
mod priority;
mod rounds;
mod share;
mod slices;
mod usage;

use anyhow::Result;
use serde_json::Value;

/// Computes the answers of one kind.
pub type Compute = fn(&Value) -> Result<Value>;

/// What computes this kind.
pub fn of(kind: &str) -> Option<Compute> {
    [
        share::of,
        usage::of,
        priority::of,
        pbs::of,
        backfill::of,
        rounds::of,
        slices::of,
    ]
    .iter()
    .find_map(|subject| subject(kind))
}
