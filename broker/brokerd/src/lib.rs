//! The drivers that touch the world: the leader's loop, sockets, the journal on
//! disk, the shell process, the clock.
//!
//! Four commands run what is here: `eddy broker` ([`leader::run_broker`]),
//! `eddy agent` ([`agent::run_agent`]), `eddy shell`
//! ([`shell::process::run_shell`]) and `eddy history`
//! ([`history::run_history`]). None decides anything:
//! deciding is done by the pure crates, which these feed and obey.

pub mod clock;

pub mod logging;
mod passwd;
/// Texts of files.
pub mod text;

pub mod config;

pub mod users;

pub mod inventory;

pub mod rundir;

pub mod frame;

pub mod socket;

pub mod speech;

pub mod clients;

pub mod link;

pub mod journal;

pub mod life;

mod own;

pub mod leader;

pub mod agent;

pub mod history;

pub mod shell;
