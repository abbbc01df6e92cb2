//! Worlds in which nodes come and go for good, and jobs that wait get another queue, account or QoS.
//!
//! Drawn apart from all else, so that worlds are otherwise as they were.

use eddy_wire::time::Span;

use crate::fault::{Fault, Holders, SiteFault};
use crate::nature::{BEGIN, Happening};
use crate::random::Random;
use crate::world::World;

/// How often it is asked whether a node can go.
const TRIES: [u32; 3] = [1, 3, 8];

/// In two thirds of all worlds of machines, and not where a rule is broken.
pub(super) fn site(world: &mut World, seed: u64, horizon: Span) {
    let mut random = Random::new(seed ^ 0x51_7e);
    if world.nature.broken.is_some() || random.chance(33) {
        return;
    }
    let mut strikes = Vec::new();
    let mut ranks = world.nodes.count;
    for _ in 0..*random.pick(&[0, 0, 1, 2]) {
        let count = random.between(1, 2) as u32;
        ranks += count;
        strikes.push(SiteFault::Add(count));
    }
    for _ in 0..*random.pick(&[0, 1, 1, 2, 3]) {
        strikes.push(SiteFault::Terms(random.bits()));
    }
    let mut all: Vec<(Span, SiteFault)> = Vec::new();
    for what in strikes {
        all.push((Span(random.between(1_000_000, horizon.0)), what));
    }
    for _ in 0..*random.pick(&[0, 0, 1, 2]) {
        // The root keeps its leader's node.
        let rank = random.between(1, i64::from(ranks) - 1) as u32;
        let at = Span(random.between(1_000_000, horizon.0));
        let holders = *random.pick(&[Holders::Stay, Holders::Cancelled]);
        all.push((at, SiteFault::Drain(rank, holders)));
        let gone = Span(at.0 + random.between(1, 5_000_000));
        all.push((gone, SiteFault::Remove(rank, *random.pick(&TRIES))));
    }
    for (at, what) in all {
        let strikes = Happening::Strikes(Fault::Site(what));
        world.nature.queue.push(BEGIN.after(at), strikes);
    }
}
