//! Plays a scene under a policy from its first event to its last, in the way that both ask for.

use super::planned::Planned;
use super::replay::{Course, Replay, Scene};
use super::rounds::Rounds;
use super::rules::{NotSimulated, Way, way};
use crate::policy::Policy;
use crate::walk::Progress;

/// Instants between two words of how far it is.
const SLICE: u64 = 100;

/// What a policy makes of a scene. Every now and then `shown` is told how many jobs were submitted.
///
/// # Errors
/// [`NotSimulated`] names what of the policy cannot be obeyed.
pub fn play(
    scene: Scene<'_>,
    policy: &Policy,
    mut shown: impl FnMut(usize),
) -> Result<Course, NotSimulated> {
    match (way(policy, scene), scene.machine.nodes().is_empty()) {
        (Way::Planner, _) => {
            let mut replay = Planned::new(scene, policy)?;
            while let Progress::More = replay.slice(SLICE) {
                shown(replay.submitted());
            }
            Ok(replay.course())
        }
        (Way::Rounds, _) => {
            let mut replay = Rounds::new(scene, policy)?;
            while let Progress::More = replay.slice(SLICE) {
                shown(replay.submitted());
            }
            Ok(replay.course())
        }
        (Way::Walk, true) => {
            let mut replay = Replay::on_count(scene, policy)?;
            while let Progress::More = replay.slice(SLICE) {
                shown(replay.submitted());
            }
            Ok(replay.course())
        }
        (Way::Walk, false) => {
            let mut replay = Replay::on_nodes(scene, policy)?;
            while let Progress::More = replay.slice(SLICE) {
                shown(replay.submitted());
            }
            Ok(replay.course())
        }
    }
}
