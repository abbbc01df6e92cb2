//! Replays a workload through the same walk as the live planner, and measures.
//!
//! The command line reads the file and prints the table; this decides. No clock,
//! no files: the same bytes give the same schedule.
//!
//! - `swf`, `json`, `history`: bytes or records become a `workload`; `machine`: what it runs on.
//! - `play`: from the first event to the last; `rules`: in which way, and what of a policy cannot be
//!   replayed.
//! - `ranking`, `books`, `limits`: whose turn is first, who has used what, what may start.
//! - `replay`, `rounds`: the loop over events, over one queue or in rounds. `planned`: the same through
//!   the planner of an instance, for jobs that ask more of nodes than to be so many.
//! - `parties`: who owners are to that planner.
//! - `measures`, `fairness`, `series`: what came of it.

mod fairness;

mod history;

mod json;

mod limits;

mod measures;

mod books;

mod machine;

mod parties;

mod planned;

mod play;

mod ranking;

mod replay;

mod rounds;

mod rules;

mod series;

mod swf;

mod workload;

pub use fairness::{Fairness, Standing};
pub use history::{Past, PastRun, read_rows};
pub use json::read_json;
pub use machine::{Machine, Seat, Shape};
pub use measures::Measures;
pub use planned::Planned;
pub use play::play;
pub use replay::{Course, Events, Foresight, Replay, Scene, Turn};
pub use rounds::Rounds;
pub use rules::{NotSimulated, UnknownPolicy, Way, named, way};
pub use series::{Bar, Series, Window, bars, bases, last_end};
pub use swf::{SwfError, read_swf};
pub use workload::{
    Owner, Places, SHARES_MAX, Shares, SharesError, SimJob, Terms, Workload, WorkloadError,
};

#[cfg(test)]
mod tests;
