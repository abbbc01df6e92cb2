//! Usage against share over time: who was due what while somebody wanted more.
//!
//! Max-min fairness over those who want something at an instant (what waits and
//! what runs is what they want), as in progressive filling; demand caps it, so
//! nobody is due what they do not ask for. All users have the same share. Sampled
//! at instants that are evenly spread, which a long trace needs.

use eddy_wire::time::{MICROS, Time};
use serde::Serialize;

use super::machine::Machine;
use super::replay::Course;
use super::workload::Workload;

/// Instants that are looked at.
const SAMPLES: i64 = 2000;

/// What each owner used and was due.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fairness {
    /// Of what owners were due, the part that they had while it was due, 0 to 1; `None` where the
    /// trace names fewer than two.
    pub index: Option<f64>,
    /// By the place of the owner in the workload.
    pub owners: Vec<Standing>,
}

/// One owner, in processor seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Standing {
    /// Used.
    pub used: f64,
    /// Due, over time.
    pub due: f64,
    /// Due and not had, while it was due.
    pub short: f64,
}

/// What one owner wants and has at an instant, in processors.
#[derive(Clone, Copy, Debug, Default)]
struct Present {
    wants: i128,
    has: i128,
}

/// A change at a time: of what an owner wants, and has.
type Change = (Time, u32, i128, i128);

impl Fairness {
    /// Of a course that is over.
    pub fn new(workload: &Workload, machine: &Machine, course: &Course) -> Fairness {
        let mut owners = vec![Standing::default(); workload.owners.len()];
        let changes = changes(workload, course, &mut owners);
        let ends = changes.first().zip(changes.last());
        if let Some(((first, ..), (last, ..))) = ends {
            let step = (*last - *first).0 / SAMPLES;
            sample(&changes, (*first, step), machine.procs(), &mut owners);
        }
        let sum = |of: fn(&Standing) -> f64| owners.iter().map(of).sum::<f64>();
        let (due, short) = (sum(|owner| owner.due), sum(|owner| owner.short));
        Fairness {
            index: (owners.len() > 1 && due > 0.0).then(|| 1.0 - short / due),
            owners,
        }
    }
}

/// In the order of time; adds up what was used.
fn changes(workload: &Workload, course: &Course, owners: &mut [Standing]) -> Vec<Change> {
    let mut changes = Vec::with_capacity(workload.jobs.len() * 3);
    for (job, start) in workload.jobs.iter().zip(&course.starts) {
        let Some(start) = *start else { continue };
        let procs = i128::from(job.procs);
        let end = start.after(job.runs());
        changes.push((job.submit, job.owner, procs, 0));
        changes.push((start, job.owner, 0, procs));
        changes.push((end, job.owner, -procs, -procs));
        let used = job.runs().0 as f64 / MICROS as f64 * job.procs as f64;
        owners[job.owner as usize].used += used;
    }
    changes.sort_unstable();
    changes
}

fn sample(changes: &[Change], (first, step): (Time, i64), procs: u64, owners: &mut [Standing]) {
    let mut present = vec![Present::default(); owners.len()];
    let mut changes = changes.iter().peekable();
    let weight = step as f64 / MICROS as f64;
    for sample in 0..SAMPLES {
        // The middle of each step, so that the ends of the trace count like the rest.
        let at = Time(first.0 + sample * step + step / 2);
        while let Some((_, owner, wants, has)) = changes.next_if(|change| change.0 <= at) {
            let present = &mut present[*owner as usize];
            present.wants += wants;
            present.has += has;
        }
        let mut wanting: Vec<(i128, usize)> = (0..present.len())
            .filter(|&owner| present[owner].wants > 0)
            .map(|owner| (present[owner].wants, owner))
            .collect();
        for (owner, due) in filled(&mut wanting, procs as f64) {
            let owner_has = present[owner].has as f64;
            owners[owner].due += due * weight;
            owners[owner].short += (due - owner_has).max(0.0) * weight;
        }
    }
}

/// What each is due of all: the least first, who want less than an equal part of what is left.
fn filled(wanting: &mut [(i128, usize)], all: f64) -> Vec<(usize, f64)> {
    wanting.sort_unstable();
    let (mut left, count) = (all, wanting.len());
    let due = wanting.iter().enumerate().map(|(at, &(wants, owner))| {
        let due = (wants as f64).min(left / (count - at) as f64);
        left -= due;
        (owner, due)
    });
    due.collect()
}
