//! The walk over the queue: who starts now, who is given a reservation, who
//! waits, for any kind of room.
//!
//! Called by the planner of an instance (nodes and cores) and by the simulator
//! (a count of processors); both are a [`Room`]. Stop, skip and reserve to any
//! depth are one function and numbers. It knows no clock, no accounts and no
//! formula: the order is given.
//!
//! - `room`: what is asked of resources; `count` and `nodes` are two such.
//! - `line`: who waits, in order; `extent` and `ceiling` let it pass over many at once.
//! - `rules`: what of a policy a walk obeys.
//! - `agenda`: who waits and what is reserved for whom; `pass` is one walk over it, `stage` where it is,
//!   and `anew` when all is planned again.

mod agenda;

mod anew;

mod ceiling;

mod count;

mod extent;

mod line;

mod nodes;

mod pass;

mod room;

mod rules;

mod stage;

pub use agenda::{Agenda, Booking, Job, LAST, LATE_MAX};
pub use ceiling::Ceiling;
pub use count::Count;
pub use line::{Entry, Line};
pub use nodes::{Hold, Nodes, NodesNeed, NodesSpot, Service};
pub use pass::{Progress, Verdict};
pub use room::{Blocked, Room};
pub use rules::Rules;

#[cfg(test)]
mod tests;
