//! What one queue makes of jobs: the published algorithm over a count of cores, with each job holding its cores for as
//! long as it did.
//!
//! Reckoned for `tree-tax`, so that what else the machine does moves both sides of what is compared.

use anyhow::{Context, anyhow};
use eddy_sched::policy::preset;
use eddy_sched::sim::{Events, Foresight, Machine, Replay, Scene, SimJob, Workload};
use eddy_sched::walk::Progress;
use eddy_wire::time::{Span, Time};

/// How many instants are played at a time.
const SLICE: u64 = 10_000;

/// A job that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    pub submitted: Time,
    /// When it had its cores.
    pub granted: Time,
    /// When it had them no more.
    pub over: Time,
    pub cores: u32,
    pub limit: Span,
}

/// The mean wait for cores, in seconds.
pub fn mean_wait(ran: &[Ran]) -> f64 {
    mean(ran.iter().map(|job| job.granted - job.submitted))
}

/// What it would be through one queue under `easy`, on a machine of so many cores.
///
/// # Errors
/// A job does not fit there.
pub fn mean_wait_in_one(ran: &[Ran], cores: u32) -> anyhow::Result<f64> {
    let policy = preset("easy").context("there is no policy `easy`")?;
    let job = |(id, job): (u64, &Ran)| SimJob {
        id,
        submit: job.submitted,
        procs: u64::from(job.cores),
        nodes: None,
        run: job.over - job.granted,
        limit: Some(job.limit.max(job.over - job.granted)),
        owner: 0,
        terms: 0,
    };
    let workload = Workload {
        procs: Some(u64::from(cores)),
        jobs: (1..).zip(ran).map(job).collect(),
        ..Workload::default()
    };
    let machine = Machine::count(u64::from(cores));
    let scene = Scene {
        workload: &workload,
        machine: &machine,
        foresight: Foresight::Requested,
        events: Events::Each,
    };
    let mut replay = Replay::on_count(scene, &policy).map_err(|why| anyhow!("{why}"))?;
    while let Progress::More = replay.slice(SLICE) {}
    let starts = replay.course().starts.into_iter();
    let starts: Option<Vec<Time>> = starts.collect();
    let starts = starts.context("a job is wider than the machine")?;
    let waits = starts.iter().zip(ran);
    Ok(mean(waits.map(|(start, job)| *start - job.submitted)))
}

fn mean(waits: impl ExactSizeIterator<Item = Span>) -> f64 {
    let number = waits.len().max(1) as f64;
    let sum: f64 = waits.map(|wait| wait.0 as f64 / 1e6).sum();
    sum / number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(submitted: i64, granted: i64, over: i64, cores: u32) -> Ran {
        let at = |seconds| Time(0).after(Span::seconds(seconds));
        Ran {
            submitted: at(submitted),
            granted: at(granted),
            over: at(over),
            cores,
            limit: Span::seconds(60),
        }
    }

    #[test]
    fn what_waits_for_another_half_would_not_in_one_queue() {
        // Two halves of two cores: the second job waited for the first, as the other half was idle.
        let halves = [ran(0, 0, 10, 2), ran(0, 10, 20, 2)];
        assert_eq!(mean_wait(&halves), 5.0);
        assert_eq!(mean_wait_in_one(&halves, 4).unwrap(), 0.0);
        // Where all cores are held both wait the same.
        let whole = [ran(0, 0, 10, 4), ran(0, 10, 30, 4), ran(0, 30, 40, 1)];
        assert_eq!(mean_wait_in_one(&whole, 4).unwrap(), mean_wait(&whole));
    }

    #[test]
    fn jobs_that_hold_their_cores_longer_make_others_wait_in_one_queue_too() {
        let slow = [ran(0, 0, 15, 4), ran(0, 15, 30, 4)];
        assert_eq!(mean_wait_in_one(&slow, 4).unwrap(), mean_wait(&slow));
    }
}
