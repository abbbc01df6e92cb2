//! The order of jobs: part (c) of a policy.
//!
//! Formulas over named factors, parsed and checked when a policy is loaded; a
//! value at run time that is no number marks the job and counts as 0.
