//! The doing leaves of the shell: the small process that parents the tasks of
//! one broker on one node and outlives that broker.
//!
//! Called by the shell's loop, which asks the pure bookkeeping what is owed and
//! calls these to do it. Nothing here decides: no leaf holds a job's state,
//! speaks to a broker or chooses when something ends.

pub mod procfs;

pub mod affinity;
pub mod stdio;

pub mod rights;

pub mod overdue;

pub mod cgroup;
pub mod pool;
pub mod spawn;

pub mod frame;
pub mod spool;

pub mod leftover;
pub mod reap;
pub mod sweep;

pub mod process;

mod child;
mod clone;
