//! Modules put together as in an instance. One program, so that it is linked once.

mod cut;
mod dead;
mod instance;
mod inventory;
mod late;
mod limit;
mod limits;
mod nest;
mod nest_asks;
mod nest_history;
mod nest_pulse;
mod nest_relay;
mod nest_stand;
mod pace;
mod pass;
mod pass_together;
mod payload;
mod ranks;
mod returned;
mod suppose;
mod taken;
mod taken_child;
mod taken_guard;
mod users;
mod wait;
mod waits;
