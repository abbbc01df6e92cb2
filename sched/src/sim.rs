//! Replays a workload through the same walk as the live planner, and measures.
//!
//! The command line reads the file and prints the table; this decides. `swf` and
//! `workload` make jobs of bytes, `rules` names the published combinations of
//! policy data, `replay` is the loop over events, `measures` the numbers. No
//! clock, no files: the same bytes give the same schedule.

mod measures;

mod replay;

mod rules;

mod swf;

mod workload;

pub use measures::Measures;
pub use replay::{Course, Events, Foresight, Replay, Turn};
pub use rules::{JobOrder, SimRules, UnknownPolicy};
pub use swf::{SwfError, read_swf};
pub use workload::{SimJob, Workload, WorkloadError, read_json};

#[cfg(test)]
mod tests;
