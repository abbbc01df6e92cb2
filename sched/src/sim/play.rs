//! Plays a scene under a policy from its first event to its last, in the way that both ask for.

use eddy_wire::time::MICROS;

use super::planned::Planned;
use super::replay::{Course, Replay, Scene};
use super::rounds::Rounds;
use super::rules::{LONGEST_PLAN, NotSimulated, Way, way};
use super::workload::{SimJob, Workload};
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
    if !is_countable(scene.workload) {
        return Err(NotSimulated::TooLong);
    }
    let shown = &mut shown;
    Ok(
        match (way(policy, scene), scene.machine.nodes().is_empty()) {
            (Way::Planner, _) => {
                let mut replay = Planned::new(scene, policy)?;
                to_the_end(|| (replay.slice(SLICE), replay.submitted()), shown);
                replay.course()
            }
            (Way::Rounds, _) => {
                let mut replay = Rounds::new(scene, policy)?;
                to_the_end(|| (replay.slice(SLICE), replay.submitted()), shown);
                replay.course()
            }
            (Way::Walk, true) => {
                let mut replay = Replay::on_count(scene, policy)?;
                to_the_end(|| (replay.slice(SLICE), replay.submitted()), shown);
                replay.course()
            }
            (Way::Walk, false) => {
                let mut replay = Replay::on_nodes(scene, policy)?;
                to_the_end(|| (replay.slice(SLICE), replay.submitted()), shown);
                replay.course()
            }
        },
    )
}

fn to_the_end(mut slice: impl FnMut() -> (Progress, usize), shown: &mut impl FnMut(usize)) {
    while let (Progress::More, submitted) = slice() {
        shown(submitted);
    }
}

/// Whether the last job would end in time if one ran after the other, each for all that it asks for.
fn is_countable(workload: &Workload) -> bool {
    let length = |job: &SimJob| i128::from(job.limit.map_or(job.run, |limit| limit.max(job.run)).0);
    let all: i128 = workload.jobs.iter().map(length).sum();
    let last = workload.jobs.iter().map(|job| job.submit.0).max();
    let year = 31_557_600 * i128::from(MICROS);
    all + i128::from(last.unwrap_or(0)) <= i128::from(LONGEST_PLAN) * year
}
