//! The jobs of `tree-tax`: the same each time, in bursts from two groups in turns.
//!
//! Decides; starts and asks nothing.

use std::time::Duration;

use super::dice::Dice;

/// Nodes of the machine, each with so many cores.
pub const NODES: u32 = 4;
/// See [`NODES`].
pub const CORES: u32 = 4;
/// Who submits, each to a queue of its own where there are two.
pub const GROUPS: [&str; 2] = ["left", "right"];
/// The widest job: what one half has.
pub const WIDTH_MAX: u32 = NODES * CORES / 2;

const SEED: u64 = 1975;
/// Bursts, and jobs in each.
const BURSTS: u32 = 4;
const BURST: u32 = 38;
/// From one burst to the next, less than all cores need for it.
const PERIOD: Duration = Duration::from_millis(800);
/// Between two jobs of a burst.
const GAP: Duration = Duration::from_millis(4);
/// Widths, narrow ones most often.
const WIDTHS: [u32; 10] = [1, 1, 1, 1, 2, 2, 2, 4, 4, WIDTH_MAX];
/// How long tasks last: from, and as much more at most.
const LASTS: [u64; 2] = [50, 190];

/// A job as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When, from the beginning.
    pub at: Duration,
    /// Cores.
    pub width: u32,
    /// How long its tasks last.
    pub lasts: Duration,
    /// Its time limit: people ask for more than they need.
    pub limit: Duration,
    /// Whose it is, in [`GROUPS`].
    pub group: usize,
}

impl Asked {
    /// Its core-seconds.
    pub fn work(&self) -> f64 {
        f64::from(self.width) * self.lasts.as_secs_f64()
    }
}

/// All of them, by their times.
pub fn jobs() -> Vec<Asked> {
    let mut dice = Dice::of(SEED);
    let mut jobs = Vec::new();
    for burst in 0..BURSTS {
        for place in 0..BURST {
            let lasts = Duration::from_millis(LASTS[0] + dice.below(LASTS[1]));
            let times = dice.pick(&[2, 3, 5, 10]);
            jobs.push(Asked {
                at: PERIOD * burst + GAP * place,
                width: dice.pick(&WIDTHS),
                lasts,
                // A busy machine must not end a job by its limit.
                limit: Duration::from_secs(2) + lasts * times,
                group: (burst % 2) as usize,
            });
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jobs_are_always_the_same_and_each_half_could_run_its_own() {
        let all = jobs();
        assert_eq!(all, jobs());
        assert_eq!(all.len(), 152);
        assert!(all.iter().all(|job| (1..=WIDTH_MAX).contains(&job.width)));
        let work = |group| {
            let its = all.iter().filter(|job| job.group == group);
            its.map(Asked::work).sum::<f64>()
        };
        let (left, right) = (work(0), work(1));
        assert!((left / right - 1.0).abs() < 0.25, "{left} and {right}");
    }
}
