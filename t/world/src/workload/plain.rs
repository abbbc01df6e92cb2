//! Work of one kind: what queue instances may begin though their root is away, in worlds in which that is so
//! for long; instances that have much and jobs that stand above them, where there is too little for all.

use super::Habits;
use crate::call::{Ask, Nests};
use crate::instance::Nodes;
use crate::nature::{InstanceId, Nature};
use crate::random::Random;

/// What is submitted in the root and its instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Anything.
    All,
    /// Mostly what may begin there though the root is away, and nothing is counted.
    Plain,
    /// In the root mostly what waits in one line, for it or for instances that have its nodes in turn.
    Line,
}

/// Whether mostly plain work is submitted there.
pub(super) fn is_plain(nature: &Nature, instance: InstanceId, habits: Habits) -> bool {
    habits.inside == Inside::Plain && nature.tree.depth(instance) == 1
}

/// Only a core or two, for a while.
pub(super) fn plain(random: &mut Random, ask: &mut Ask) {
    *ask = Ask {
        name: ask.name.clone(),
        command: ask.command.clone(),
        ntasks: random.between(1, 2) as u32,
        limit: *random.pick(&[0.0, 60.0]),
        ..Ask::default()
    };
}

/// Some cores or whole nodes for a while, half of it for the instances.
pub(super) fn line(random: &mut Random, ask: &mut Ask, nodes: Nodes, queues: &[&str]) {
    *ask = Ask {
        name: ask.name.clone(),
        command: ask.command.clone(),
        ntasks: random.between(1, i64::from(nodes.count)) as u32,
        cores: *random.pick(&[1, nodes.cores]),
        limit: *random.pick(&[5.0, 20.0, 60.0]),
        ..Ask::default()
    };
    if !queues.is_empty() && random.chance(50) {
        ask.queue = Some((*random.pick(queues)).to_owned());
    }
}

/// An instance has most nodes and stands below others, which want one or two of those.
pub(super) fn crowd(random: &mut Random, ask: &mut Ask, nodes: Nodes) {
    if ask.nests == Nests::No && random.chance(30) {
        ask.nests = Nests::Instance;
    }
    let low = match ask.nests {
        Nests::Instance => {
            let count = random.between(2, i64::from(nodes.count.max(2))) as u32;
            *ask = Ask {
                name: ask.name.clone(),
                command: ask.command.clone(),
                queue: ask.queue.clone(),
                nests: Nests::Instance,
                nodes: Some(count),
                ntasks: count,
                cores: nodes.cores,
                limit: *random.pick(&[0.0, 60.0]),
                ..Ask::default()
            };
            ["low", "low", "mid"]
        }
        Nests::No => {
            *ask = Ask {
                name: ask.name.clone(),
                command: ask.command.clone(),
                queue: ask.queue.clone(),
                class: ask.class.clone(),
                ntasks: random.between(1, 2) as u32,
                cores: nodes.cores,
                limit: *random.pick(&[0.0, 30.0]),
                ..Ask::default()
            };
            ["high", "high", "low"]
        }
        _ => return,
    };
    ask.qos = Some((*random.pick(&low)).to_owned());
}
