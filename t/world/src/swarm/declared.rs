//! Instances that the root declares: one for each of its queues, of fixed sizes or elastic.

use eddy_modules::settings::{Declared, Elastic, Extent, Queue};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Leader;
use eddy_wire::time::Span;

use super::Outage;
use crate::broken::Rule;
use crate::instance::Instance;
use crate::nature::ROOT;
use crate::oracle::queues::Home;
use crate::random::Random;
use crate::world::World;

/// Their queues; how many of them there are is drawn.
pub(super) const QUEUES: &[&str] = &["q", "r", "s"];

/// The node that may be home to the second, as the first's is to the first.
const SECOND_HOME: u32 = 2;

/// In most worlds the first has others beside it: elastic ones, which have the same nodes in turn, or some of
/// a fixed size. Drawn apart from all else, and not where a rule is broken, whose worlds stay as they are.
pub(super) fn more(world: &mut World, seed: u64) {
    world.habits.queues = &QUEUES[..1];
    if world.nature.broken.is_some() {
        return;
    }
    let mut random = Random::new(seed ^ 0xdec1);
    let count = *random.pick(&[0, 1, 1, 2]);
    let last = world.root().inventory.nodes.len() as u32 - 1;
    let aside = |of: &Declared| match &of.extent {
        Extent::Fixed { nodes, .. } => *nodes,
        Extent::Elastic(_) => 0,
    };
    // The root keeps its own node.
    let mut spare = last
        - world
            .root()
            .settings
            .declared
            .iter()
            .map(aside)
            .sum::<u32>();
    let mut homes = SECOND_HOME..=last.min(SECOND_HOME);
    for name in &QUEUES[1..=count] {
        let extent = match random.below(3) {
            0 if spare > 0 => {
                let nodes = random.between(1, i64::from(spare.min(2))) as u32;
                spare -= nodes;
                Extent::Fixed { nodes, ranks: None }
            }
            1 if let Some(home) = homes.next() => {
                let (home, lend_max) = (Idset::one(home), Span::seconds(random.below(20) as i64));
                world.nature.oracle(ROOT).set_home(Home {
                    queue: (*name).to_owned(),
                    ranks: home.clone(),
                    lend_max,
                });
                Extent::Elastic(Elastic {
                    ranks: Some(Idset::range(1, last)),
                    home,
                    lend_max: Some(lend_max),
                })
            }
            _ => Extent::Elastic(Elastic::default()),
        };
        declare(world.root(), name, extent);
    }
    // On nodes that are aside nobody is at home.
    let fixed = world.root().settings.declared.iter();
    let fixed = fixed.filter(|of| aside(of) > 0);
    let fixed = fixed.map(|of| of.name.clone()).collect();
    world.nature.oracle(ROOT).set_aside(fixed);
    world.habits.queues = &QUEUES[..=count];
    seat(world, seed);
}

/// Where the leaders of those are that hold nodes of their own: beside the root's or on the first of those. Drawn
/// apart from all else.
fn seat(world: &mut World, seed: u64) {
    let mut random = Random::new(seed ^ 0x1ead);
    for declared in &mut world.root().settings.declared {
        declared.leader = *random.pick(&[Leader::Node, Leader::Parent]);
    }
}

/// The nodes of the queue's instance.
pub(super) fn extent(
    world: &mut World,
    random: &mut Random,
    queue: &str,
    outage: Outage,
) -> Extent {
    let last = world.root().inventory.nodes.len() as u32 - 1;
    let kind = random.below(3);
    match kind * u64::from(!outage.wants_nodes()) {
        // The root keeps its own node; where that is its last but one the instance has one.
        0 => Extent::Fixed {
            nodes: random.between(1, i64::from(last)) as u32,
            ranks: None,
        },
        1 => Extent::Elastic(Elastic::default()),
        _ => {
            let (home, lend_max) = (Idset::one(1), Span::seconds(random.below(20) as i64));
            world.nature.oracle(ROOT).set_home(Home {
                queue: queue.to_owned(),
                ranks: home.clone(),
                lend_max,
            });
            Extent::Elastic(Elastic {
                ranks: Some(Idset::range(1, last)),
                home,
                lend_max: Some(lend_max).filter(|_| !world.nature.breaks(Rule::LentForEver)),
            })
        }
    }
}

/// A declared instance, and the queue of its name.
pub fn declare(root: &mut Instance, name: &str, extent: Extent) {
    root.settings.queues.push(Queue {
        name: name.to_owned(),
        instance: Some(name.to_owned()),
        ..Queue::default()
    });
    root.settings.declared.push(Declared {
        name: name.to_owned(),
        extent,
        leader: Leader::Node,
        set: Vec::new(),
    });
}
