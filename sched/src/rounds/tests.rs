//! Rounds on small states: cases computed by hand, and laws over random workloads.

mod cases;
mod laws;
mod make;
mod more;
mod presets;
