//! The walk over the queue: who starts now, who is given a reservation, who
//! waits, for any kind of room.
//!
//! Called by the planner of an instance (nodes and cores) and by the simulator
//! (a count of processors); both are a [`Room`]. Stop, skip and reserve to any
//! depth are one function and numbers. It knows no clock, no accounts and no
//! formula: the order is given.

mod room;

pub use room::{Blocked, Room};
