//! The simulated world of one instance: the product's own modules, gate and shell bookkeeping,
//! driven over simulated clocks, disks, connections and processes, and judged after each step.
//!
//! Called by the swarm (`main.rs`), by the scripts in t/cases and by tests. One seed is one run:
//! the same choices, the same records. Read in this order: [`world`] (what happens), [`instance`]
//! and [`leader`] (the driver that mimics brokerd), [`shell`], [`client`], [`oracle`] (what must be
//! true), [`swarm`] (random runs), [`broken`] (rules broken on purpose), [`script`] (cases).
//!
//! Here is no clock, file, socket or thread.

pub mod world;

pub mod ends;
pub mod nature;

pub mod queue;

pub mod random;

pub mod clock;

pub mod pipe;

pub mod desk;

pub mod door;

pub mod instance;

pub mod nested;

pub mod agent;

pub mod leader;

pub mod log;

pub mod journal;

pub mod shell;

pub mod task;

pub mod client;

pub mod call;

pub mod workload;

pub mod fault;

pub mod filter;
pub mod heads;

pub mod oracle;

pub mod quiet;

pub mod replay;

pub mod broken;

pub mod swarm;

pub mod transcript;

pub mod script;

pub mod tax;

pub mod trial;
