//! The modules of an instance, in the order of a job's path.
//!
//! 1. [`ingest`] takes a submission, checks it, proposes `submit`;
//! 2. the journal numbers it and the gate answers once it is durable: these
//!    two surround every module, so they live in eddy-broker;
//! 3. [`manager`] gives each job what it is owed next;
//! 4. [`sched`] feeds the planner and records its verdicts as `alloc`;
//! 5. [`exec`] starts and ends tasks through the shells and records what they say;
//! 6. [`events`] streams durable records.
//!
//! Beside the path: [`accounts`] (whom use is charged to), [`queues`] (which are open),
//! [`ledger`] (who used how much), [`nest`] (jobs that are instances), [`stdio`] (input and
//! output of tasks), [`resource`] (what there is), [`list`] (what one can ask
//! about jobs), [`kvs`] (named values), [`once`] (requests that were done),
//! [`configuration`] (what of it changes while it runs: [`live`]).
//!
//! Pure: no clock, no files, no sockets, no randomness.

pub mod ingest;

pub mod manager;

pub mod sched;

pub mod lending;

mod named;
pub mod requires;

pub mod exec;

pub mod accounts;

pub mod queues;

pub mod ledger;

mod limits;

mod gangs;

pub mod nest;

pub mod passed;

pub mod events;

pub mod stdio;

pub mod resource;

pub mod list;

pub mod kvs;

pub mod once;

pub mod configuration;

pub mod keys;
pub mod live;

pub mod report;

pub mod row;

mod callers;
mod ended;
mod jobs;
mod portion;
pub mod queues_above;
mod sight;
mod silence;
mod timers;

pub mod settings;

use eddy_broker::Module;

pub use settings::Settings;

/// The modules of a leader, in the order in which they fold and react.
pub fn leader(settings: &Settings) -> Vec<Box<dyn Module + Send>> {
    vec![
        Box::new(ingest::Ingest::new(settings)),
        Box::new(manager::Manager::new(settings)),
        Box::new(sched::Sched::new(settings)),
        Box::new(exec::Exec::new(settings)),
        Box::new(accounts::Accounts::new(settings)),
        Box::new(queues::Queues::new(settings)),
        Box::new(ledger::Ledger::new(settings)),
        Box::new(once::Once::default()),
        Box::new(nest::Nest::new(settings)),
        Box::new(passed::Passed::new(settings)),
        Box::new(events::Events::default()),
        Box::new(stdio::Stdio::new(settings)),
        Box::new(resource::Resource::new(settings)),
        Box::new(list::List::new(settings)),
        Box::new(kvs::Kvs::default()),
        Box::new(report::Report::new(settings)),
        Box::new(configuration::Configuration::new(settings)),
    ]
}
