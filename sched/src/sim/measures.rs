//! The figures of a replay.
//!
//! Waits and spans in seconds. Percentiles are by nearest rank: a value that
//! occurred. Sums go over jobs by id, so that the last digit does not depend on
//! the order of the file.

use eddy_wire::time::{MICROS, Span, Time};
use serde::Serialize;

use super::fairness::Fairness;
use super::machine::Machine;
use super::replay::Course;
use super::workload::{SimJob, Workload};

/// What a schedule is judged by.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// Processors of the machine.
    pub procs: u64,
    /// Jobs that ran.
    pub jobs: u64,
    /// Jobs left out: unknown to the trace, or wider than the machine.
    pub dropped: u64,
    /// The most processors that were in use.
    pub peak_procs: u64,
    /// Mean wait.
    pub mean_wait: f64,
    /// Median wait.
    pub median_wait: f64,
    /// 95 of 100 waited no longer.
    pub p95_wait: f64,
    /// The longest wait.
    pub max_wait: f64,
    /// Mean of max(1, (wait + run) / max(run, 10 s)): the bounded slowdown of Feitelson.
    pub mean_bsld: f64,
    /// Its median.
    pub median_bsld: f64,
    /// Its 95th percentile.
    pub p95_bsld: f64,
    /// From the first submission to the last end.
    pub makespan: f64,
    /// Processor time used, of processors times makespan.
    pub utilisation: f64,
    /// Of what users were due by equal shares while they wanted it, the part that they had
    /// ([`Fairness`]); `None` where the trace names no two users.
    pub fairness: Option<f64>,
    /// The longest wait of the tenth of the jobs that need most processors.
    pub widest_tenth_max_wait: f64,
    /// Jobs that started while one with an earlier turn went on waiting.
    pub backfilled: u64,
    /// The most that waited.
    pub max_queue: u64,
    /// Passes of the scheduler.
    pub passes: u64,
    /// Jobs that were taken from their nodes and began anew.
    pub preempted: u64,
}

/// The run that a slowdown is at least counted with: the tau of bounded slowdown.
const TAU: Span = Span::seconds(10);

/// A job that ran.
struct Ran<'w> {
    job: &'w SimJob,
    start: Time,
    /// Its processors.
    procs: u64,
}

impl Measures {
    /// The figures of a course that is over.
    pub fn new(workload: &Workload, machine: &Machine, course: &Course) -> Measures {
        let procs = machine.procs();
        let started = workload.jobs.iter().zip(&course.starts).enumerate();
        let ran = started.filter_map(|(place, (job, start))| {
            let (start, procs) = ((*start)?, course.procs(place, job));
            Some(Ran { job, start, procs })
        });
        let mut ran: Vec<Ran<'_>> = ran.collect();
        ran.sort_by_key(|ran| ran.job.id);
        let waits: Vec<f64> = ran.iter().map(|ran| seconds(ran.wait())).collect();
        let slow: Vec<f64> = ran.iter().map(Ran::slowdown).collect();
        let makespan = makespan(&ran);
        let used: f64 = ran.iter().map(Ran::used).sum();
        let all = seconds(makespan) * procs as f64;
        let (sorted_waits, sorted_slow) = (sorted(&waits), sorted(&slow));
        Measures {
            procs,
            jobs: ran.len() as u64,
            dropped: workload.dropped + (workload.jobs.len() - ran.len()) as u64,
            peak_procs: peak(&ran),
            mean_wait: mean(&waits),
            median_wait: percentile(&sorted_waits, 50),
            p95_wait: percentile(&sorted_waits, 95),
            max_wait: percentile(&sorted_waits, 100),
            mean_bsld: mean(&slow),
            median_bsld: percentile(&sorted_slow, 50),
            p95_bsld: percentile(&sorted_slow, 95),
            makespan: seconds(makespan),
            utilisation: if all > 0.0 { used / all } else { 0.0 },
            fairness: Fairness::new(workload, machine, course).index,
            widest_tenth_max_wait: widest(&mut ran),
            backfilled: course.backfilled,
            max_queue: course.max_queue,
            passes: course.passes,
            preempted: course.preempted,
        }
    }
}

impl Ran<'_> {
    fn wait(&self) -> Span {
        self.start - self.job.submit
    }

    fn end(&self) -> Time {
        self.start.after(self.job.runs())
    }

    fn slowdown(&self) -> f64 {
        let run = self.job.runs();
        let slow = (seconds(self.wait()) + seconds(run)) / seconds(run.max(TAU));
        slow.max(1.0)
    }

    /// Processor seconds.
    fn used(&self) -> f64 {
        seconds(self.job.runs()) * self.procs as f64
    }
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / MICROS as f64
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

fn mean(values: &[f64]) -> f64 {
    match values.len() {
        0 => 0.0,
        len => values.iter().sum::<f64>() / len as f64,
    }
}

/// The least value that so many of a hundred do not exceed.
fn percentile(sorted: &[f64], of_hundred: usize) -> f64 {
    let rank = (sorted.len() * of_hundred).div_ceil(100);
    let value = sorted.get(rank.saturating_sub(1));
    value.copied().unwrap_or(0.0)
}

fn makespan(ran: &[Ran<'_>]) -> Span {
    let first = ran.iter().map(|ran| ran.job.submit).min();
    let last = ran.iter().map(Ran::end).max();
    first
        .zip(last)
        .map_or(Span::ZERO, |(first, last)| last - first)
}

/// The most processors in use; what ends at an instant is not in use then.
fn peak(ran: &[Ran<'_>]) -> u64 {
    let steps = ran.iter().flat_map(|ran| {
        let procs = i128::from(ran.procs);
        [(ran.end(), -procs), (ran.start, procs)]
    });
    let mut steps: Vec<(Time, i128)> = steps.collect();
    steps.sort_unstable();
    let mut used = 0;
    let mut most = 0;
    for (_, procs) in steps {
        used += procs;
        most = most.max(used);
    }
    u64::try_from(most).unwrap_or(u64::MAX)
}

fn widest(ran: &mut [Ran<'_>]) -> f64 {
    ran.sort_by_key(|ran| (std::cmp::Reverse(ran.procs), ran.job.id));
    let tenth = &ran[..ran.len().div_ceil(10)];
    tenth.iter().map(Ran::wait).max().map_or(0.0, seconds)
}
