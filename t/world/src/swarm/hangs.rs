//! Worlds in which leaders of instances hang: they are stopped and do not go on.
//!
//! Drawn apart from all else, so that worlds are otherwise as they were.

use eddy_wire::time::Span;

use crate::broken::Rule;
use crate::fault::{Fault, TreeFault};
use crate::nature::{BEGIN, Happening};
use crate::random::Random;
use crate::world::World;

/// In most worlds of machines leaders that hang are begun anew, and in half of those some do.
pub(super) fn hangs(world: &mut World, seed: u64, horizon: Span) {
    let is_other = world.nature.broken.is_some() && !world.nature.breaks(Rule::RestartUnheard);
    let mut random = Random::new(seed ^ 0x4a_6e65);
    if is_other || random.chance(20) {
        return;
    }
    let hung_after = Some(Span::seconds(*random.pick(&[2, 5, 15])));
    world.habits.hung_after = hung_after;
    world.root().settings.hung_after = hung_after;
    for _ in 0..*random.pick(&[0, 0, 1, 2, 6]) {
        let at = BEGIN.after(Span(random.between(1_000_000, horizon.0)));
        let what = Fault::Tree(TreeFault::Hang);
        world.nature.queue.push(at, Happening::Strikes(what));
    }
}
