//! Tests of the planner as a whole: scripts with what they print, and properties.

mod asked;
mod late;
mod unasked;

pub(crate) mod model;

mod script;

mod suppose;
mod takers;

mod closing;

mod cases;

mod ranks;
mod reserved;

mod properties;

mod promises;

mod order;

mod gifts;

mod preempt;
mod proposals;

mod evict;

mod presets;

mod accounts;

mod moved;
mod overdue;
mod table;
mod twice;

mod limits;

mod gangs;

mod back;

mod settled;
mod sockets;

mod stays;

mod wider;
