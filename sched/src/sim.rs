//! Replays a workload through the same walk as the live planner, and measures.
//!
//! The command line reads the file and prints the table; this decides. No clock,
//! no files: the same bytes give the same schedule.
//!
//! - `swf`, `workload`, `history`: bytes or records become jobs; `machine`: what they run on.
//! - `rules`: how a policy is replayed, and what of it cannot be.
//! - `ranking`, `books`, `limits`: whose turn is first, who has used what, what may start.
//! - `replay`, `rounds`: the loop over events, over one queue or in rounds.
//! - `measures`, `fairness`, `series`: what came of it.

mod fairness;

mod history;

mod limits;

mod measures;

mod books;

mod machine;

mod ranking;

mod replay;

mod rounds;

mod rules;

mod series;

mod swf;

mod workload;

pub use fairness::{Fairness, Standing};
pub use history::{Past, PastRun, read_rows};
pub use machine::{Machine, Seat, Shape};
pub use measures::Measures;
pub use replay::{Course, Events, Foresight, Replay, Scene, Turn};
pub use rounds::Rounds;
pub use rules::{NotSimulated, UnknownPolicy, Way, named, way};
pub use series::{Bar, Series, Window, bars, bases, last_end};
pub use swf::{SwfError, read_swf};
pub use workload::{
    Owner, Places, SHARES_MAX, Shares, SharesError, SimJob, Terms, Workload, WorkloadError,
    read_json,
};

#[cfg(test)]
mod tests;
