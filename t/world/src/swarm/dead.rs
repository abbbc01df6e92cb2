//! Worlds in which nodes are said to be dead: such as hang, and such as were switched off.
//!
//! Drawn apart from all else, so that worlds are otherwise as they were.

use eddy_wire::time::Span;

use crate::broken::Rule;
use crate::fault::{Fault, Gone, SiteFault};
use crate::nature::{BEGIN, Happening};
use crate::random::Random;
use crate::world::World;

/// In a third of all worlds of machines, and not where another rule is broken.
pub(super) fn dead(world: &mut World, seed: u64, horizon: Span) {
    let is_other = world.nature.broken.is_some() && !world.nature.breaks(Rule::DeadSpared);
    let mut random = Random::new(seed ^ 0xdead);
    if is_other || random.chance(67) {
        return;
    }
    for _ in 0..*random.pick(&[1, 1, 2, 4]) {
        let off = Span(random.between(0, 20_000_000));
        let gone = match random.chance(50) {
            true => Gone::Hangs,
            false => Gone::Off(off),
        };
        let at = BEGIN.after(Span(random.between(1_000_000, horizon.0)));
        let what = Fault::Site(SiteFault::Dead(random.bits(), gone));
        world.nature.queue.push(at, Happening::Strikes(what));
    }
}
