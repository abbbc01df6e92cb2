//! The order of jobs: part (c) of a policy.
//!
//! Formulas over named factors, parsed and checked when a policy is loaded; a
//! value at run time that is no number marks the job and counts as 0.
//!
//! - `formula`: the language, its errors with their columns.
//! - `program`: a formula over columns of a million jobs at once.
//! - `order`: lists of values become one total order, mended rather than made anew.
//! - `factors`: wait, size, QoS and the like as numbers from 0 to 1.
//! - `flux`: the priority field of Flux and the sum of flux-accounting.
//! - `breakdown`: a value taken apart for explanation.

pub mod factors;
pub mod flux;

mod breakdown;
mod formula;
mod order;
mod program;

pub use breakdown::{Term, breakdown};
pub use formula::{Formula, FormulaError, Names};
pub use order::{Order, held_back};
pub(crate) use order::{ascending, descending};
pub use program::{Column, Marks, Program};

#[cfg(test)]
mod tests;
