//! Who starts next, and on which cores: the scheduler of an instance as a pure
//! function of what it was told.
//!
//! The sched module feeds a [`Planner`] every change ([`eddy_wire::plan::Delta`])
//! and asks it for verdicts; ingest asks [`Capacity`] whether a request can ever
//! be served. Nothing here reads a clock, draws a number, records a job or knows
//! what a job runs: the same deltas and the same `now` give the same verdicts.
//!
//! Who goes first, who may pass a job that waits and what is kept for it says a
//! policy. The files in the order in which one verdict is made:
//!
//! - `planner`: deltas in, verdicts out; who holds what, proposed or recorded.
//! - `lines`, `calendar`: one planner for each part of the nodes that is set aside or reserved.
//! - `turns`: whose turn it is, by the policy's order.
//! - `grade`: what of that order stays the same while a job waits.
//! - `table`: accounts that take turns, where the policy is such; `accounts`: what each holds and
//!   how much more may be started.
//! - `occupancy`: the nodes over time, what is held until when and what is promised.
//! - `beside`: who takes nothing, and so waits for nobody's turn.
//! - `need`: a request as amounts per slot and per node.
//! - `within`: which nodes a request may have.
//! - `placement`: which nodes serve a need, which cores of them, or why not.
//! - `inventory`: what each node has, what is free of it, which are in service.
//! - `rooms`: the index that finds the next node with room without looking at all.
//! - `by_use`: the index that finds the most or the least used one.
//! - `feasible`: whether a request fits the instance at all.
//!
//! Beside them the five parts that a policy is made of, each a folder:
//!
//! - `policy`: the data, its TOML, the presets.
//! - `usage`, `share`, `priority`: what was used, what is due, and the order that follows.
//! - `timeline`: how much is free from when to when.
//! - `walk`: who starts, who is given a reservation, who waits; over any [`walk::Room`].
//! - `rounds`: accounts that take turns, with eviction and preemption.
//! - `graph`: racks, nodes, sockets, cores and what of them matches a jobspec.
//! - `sim`: replays a trace through the same code.
//!
//! A verdict is a proposal. What a `Start` names is held until the sched module
//! says `Held` (recorded), `Freed` (not taken: the job waits on) or `Unwant` (the
//! job is gone). Recorded holdings and what is in service are all that counts, so
//! a planner made anew after a restart and fed the present state plans the same.

pub mod policy;

pub mod amounts;

pub mod usage;

pub mod share;

pub mod priority;

mod joint;
pub mod timeline;
mod together;

pub mod walk;

pub mod rounds;

pub mod graph;

pub mod sim;

mod planner;

mod cleanup;

mod occupancy;

mod turns;

mod grade;

mod table;

mod accounts;

mod beside;

mod need;

mod within;

mod placement;

mod sockets;

mod inventory;

mod lines;

mod calendar;

mod rooms;

mod by_use;

mod feasible;

pub use cleanup::cleanup;
pub use feasible::{Capacity, feasible};
pub use grade::{Grade, Grades};
pub use lines::Lines;
pub use planner::Planner;
pub use together::together;

#[cfg(test)]
mod tests;
