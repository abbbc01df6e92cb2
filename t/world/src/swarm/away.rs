//! Worlds whose root begins anew while many wait, and finds its queue instances a while later than its nodes.
//!
//! Drawn apart from all else, so that worlds are otherwise as they were.

use std::sync::Arc;

use eddy_sched::policy::read::read;
use eddy_wire::time::Span;

use crate::broken::Rule;
use crate::fault::{Fault, TreeFault};
use crate::nature::{BEGIN, Happening};
use crate::random::Random;
use crate::workload::Inside;
use crate::world::World;

/// Policies by which it is known who is first, and who may pass him.
const POLICIES: [&str; 3] = [
    "preset = \"easy\"",
    "preset = \"fcfs\"",
    "preset = \"conservative-replanned\"",
];
/// So much a client does there.
const BUSY: u32 = 30;

/// In one of five worlds with queue instances, and in all where who waits for them has no turn; not where another rule
/// is broken, whose worlds stay as they are.
pub(super) fn away(world: &mut World, seed: u64, horizon: Span) {
    let mut random = Random::new(seed ^ 0xf1d5);
    let is_so = random.chance(20);
    let is_so = match world.nature.broken {
        None => is_so,
        Some(rule) => rule == Rule::TurnsDropped,
    };
    if !is_so {
        return;
    }
    world.pause = Span(*random.pick(&[300_000, 600_000, 1_000_000]));
    for acts in world.acts.iter_mut().filter(|acts| **acts > 0) {
        *acts = BUSY;
    }
    world.habits.inside = Inside::Line;
    let text: &str = random.pick::<&str>(&POLICIES);
    world.root().settings.policy = Arc::new(read(text).expect("it is a policy"));
    for _ in 0..*random.pick(&[2, 4, 8]) {
        let what = Fault::Tree(TreeFault::Away {
            down: Span(random.between(0, 2_000_000)),
            late: Span(random.between(1_000_000, 15_000_000)),
        });
        let at = BEGIN.after(Span(random.between(3_000_000, horizon.0)));
        world.nature.queue.push(at, Happening::Strikes(what));
    }
}
