//! One file for each verb. Each has its arguments, which are also its help and
//! its man page, and `run`, which gives the exit code.

pub mod start;

pub mod run;
pub mod submit;
pub mod wait;

pub mod alloc;
pub mod batch;
pub mod exec;

pub mod account;
pub mod audit;
pub mod cancel;
pub mod grant;
pub mod hold;
pub mod job;
pub mod jobs;
pub mod priority;
pub mod shares;
pub mod suspend;
pub mod update;
pub mod usage;
pub mod why;

pub mod events;
pub mod kvs;
pub mod queue;
pub mod reservation;
pub mod resource;

pub mod order;
pub mod overlay;
pub mod tree;
pub mod uri;

pub mod config;
pub mod ping;
pub mod policy;

pub mod shutdown;
pub mod sim;
pub mod trace;

pub mod demo;

pub mod completion;
pub mod man;

pub mod agent;
pub mod broker;
pub mod history;
pub mod shell;

/// The exit code of a process that ran one of the hidden verbs.
fn code(status: i32) -> u8 {
    u8::try_from(status).unwrap_or(crate::output::FAILED)
}
