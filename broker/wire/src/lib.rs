//! The vocabulary of eddy: every value, event, message and request that
//! crosses a process or stands on disk.
//!
//! Pure: no clock, no randomness, no files, no sockets. Read in this order.

pub mod time;

pub mod id;

pub mod hash;

pub mod idset;

pub mod hostlist;

pub mod fsd;

pub mod json;

pub mod field;

pub mod resource_set;

pub mod constraint;

pub mod jobspec;

pub mod remains;
pub mod spec;

pub mod payload;

pub mod gang;
pub mod grace;
pub mod grant;

pub mod account;

pub mod queue;

pub mod reservation;

pub mod preempt;

pub mod pool;

pub mod filter;

pub mod usage;
pub mod warning;

pub mod held;

pub mod update;

pub mod eventlog;

pub mod event;

pub mod lifecycle;

pub mod ending;

pub mod suspension;

pub mod job;

pub mod plan;

pub mod error;

pub mod message;

pub mod access;

pub mod services;

pub mod input;
pub mod shell;
pub mod shell_options;
pub mod shrinking;
pub mod template;

pub mod link;

pub mod tree;

pub use time::{Span, Time};
