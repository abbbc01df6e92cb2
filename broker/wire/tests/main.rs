//! What crosses the wire, from outside the crate. One program, so that it is linked once.

mod holds;
mod letters;
mod life;
mod lines;
mod messages;
mod remains;
mod values;
mod values_amounts;
mod values_choice;
mod values_constraints;
mod values_jobspec;
mod values_place;
mod values_properties;
mod values_ranks;
mod values_resources;
mod values_sockets;
