//! Work that queue instances may begin though their root is away: worlds in which that is so for long have
//! mostly such.

use super::Habits;
use crate::call::Ask;
use crate::nature::{InstanceId, Nature};
use crate::random::Random;

/// What is submitted in instances of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Anything.
    All,
    /// Mostly what may begin there though the root is away, and nothing is counted.
    Plain,
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
