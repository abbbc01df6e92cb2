//! The planner alone: what a pass costs under every kind of policy, how fast nodes are given out, what
//! a refresh of priorities and of fair shares costs, rounds, replays. CPU of this process, since there
//! is no other; each figure with how it grows.

mod growth;
mod matches;
mod numbers;
mod passes;
mod site;
mod taking;
mod turns;
mod walks;

use crate::Setup;
use crate::report::Report;

/// Every figure of the planner; `count` is how many wait.
///
/// # Errors
/// A figure of this process cannot be read.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let mut report = Report::default();
    if std::env::var("BENCH_ONLY").is_ok() {
        passes::run(setup, &mut report)?;
        return Ok(report);
    }
    matches::run(setup, &mut report)?;
    passes::run(setup, &mut report)?;
    taking::run(setup, &mut report)?;
    numbers::priorities(setup.rounds(5), &mut report)?;
    numbers::shares(setup.rounds(5), &mut report)?;
    turns::run(setup, &mut report)?;
    walks::run(setup, &mut report)?;
    let (cores, each) = (site::CORES, site::EACH);
    report.note(format!(
        "nodes of {cores} cores, filled with jobs of {each}; one who waits asks for slots, for nodes or \
         for whole nodes"
    ));
    Ok(report)
}
