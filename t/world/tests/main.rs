//! Whole instances and trees in the simulated world. One program, so that it is linked once.

mod broken;
mod cases;
mod cheat;
mod crowd;
mod eta;
mod fair;
mod found;
mod seeds;
mod swarm;
mod tax;
mod workflow;
