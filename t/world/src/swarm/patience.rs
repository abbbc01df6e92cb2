//! Worlds in which whoever waits for a moment has a start reserved, whatever the order.

use std::sync::Arc;

use eddy_sched::policy::read::read;
use eddy_wire::time::Span;

use crate::broken::Rule;
use crate::random::Random;
use crate::world::World;

const POLICIES: [&str; 5] = [
    "preset = \"armada-legacy\"\nqueue.reserve_after = \"1s\"",
    "preset = \"armada\"\nqueue.evict = \"nothing\"\nqueue.reserve_after = \"1s\"\nplacement.ladder = [\"free\"]",
    "preset = \"fcfs\"\nqueue.walk = \"skip\"\nqueue.reserve_after = \"500ms\"",
    "preset = \"easy\"\nqueue.reserve_after = \"1s\"",
    "preset = \"flux\"\nqueue.reserve_after = \"2s\"",
];

/// So much a client does there.
const BUSY: u32 = 40;

/// In one of eight worlds it is so, and in all where that is not heard: drawn apart from all else, and not
/// where another rule is broken, whose worlds stay as they are.
pub(super) fn patience(world: &mut World, seed: u64) {
    let mut random = Random::new(seed ^ 0x9a71);
    let is_so = random.chance(12);
    let is_so = match world.nature.broken {
        None => is_so,
        Some(rule) => rule == Rule::OverdueUnheard,
    };
    if !is_so {
        return;
    }
    // Others come all the time.
    world.pause = Span(*random.pick(&[100_000, 300_000, 600_000]));
    for acts in world.acts.iter_mut().filter(|acts| **acts > 0) {
        *acts = BUSY;
    }
    let text: &str = random.pick::<&str>(&POLICIES);
    // Many name no limit: behind them no time is known. Whoever has begun keeps the end that was assumed when
    // another policy is set, which a planner made anew does not know: only where nothing else is looked for.
    let limit = match world.nature.broken {
        Some(_) => "queue.default_limit = \"20s\"",
        None => "",
    };
    let policy = read(&format!("{limit}\n{text}")).expect("it is a policy");
    world.root().settings.policy = Arc::new(policy);
}
