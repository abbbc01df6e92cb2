//! Real instances for tests: each in a place of its own, with real processes,
//! driven by the `eddy` command as a person would.
//!
//! Used by the tests beside it and by `chaos`. It waits for ends of processes,
//! for lines in FIFOs and for events of jobs, never for time to pass, and ends
//! only processes that carry its own mark.

pub mod program;

pub mod process;

pub mod running;

pub mod fifo;

pub mod place;

pub mod instance;

pub mod socket;

pub mod users;

pub mod contest;
