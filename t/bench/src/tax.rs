//! What queue instances cost a schedule: a trace through a root and its instances in the world,
//! against the published algorithm over one queue. No clock but for how long that takes.

use anyhow::{Context, anyhow, bail};
use eddy_sched::sim::{Events, Foresight, Machine, Replay, Scene, Workload, named};
use eddy_sched::walk::Progress;
use eddy_wire::time::{Span, Time};
use eddy_world::tax::{Layout, Site, starts};

use crate::report::Report;
use crate::rounds::Series;
use crate::{Setup, trace};

const POLICY: &str = "easy";
const SLICE: u64 = 10_000;
/// How many instances there are, one after the other.
const INSTANCES: [u32; 3] = [2, 4, 8];

/// Starts that differ, and the mean wait as a part of that of one queue.
///
/// # Errors
/// There is no trace, or a promise is broken.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let Some((mut workload, procs)) = trace::kth()? else {
        report.note("nothing: EDDY_TRACES names no folder with predictsim-KTH-SP2.swf(.xz)");
        return Ok(report);
    };
    workload.jobs.truncate(setup.count(usize::MAX));
    let flat = flat(&workload, procs)?;
    let one = u32::try_from(procs).context("so many processors")?;
    for number in INSTANCES {
        let site = site((1, one), Layout::Elastic(number), Span::ZERO);
        let ran = ran(&workload, &site)?;
        let other = flat.iter().zip(&ran).filter(|(a, b)| a != b).count();
        let name = format!("{number} elastic instances: starts at another time");
        let budget = "0 of all: the schedule of one queue";
        report.add_budgeted(&series(name, "jobs", other as f64), budget);
    }
    let whole = mean_wait(&workload, &flat);
    for number in INSTANCES {
        let site = site((1, one), Layout::Elastic(number), Span::millis(1));
        let ratio = mean_wait(&workload, &ran(&workload, &site)?) / whole;
        let name = format!("{number} elastic instances, messages of 1 ms: mean wait");
        report.add_budgeted(&series(name, "of one queue's", ratio), "<= 1.01");
    }
    let parts = site((5, one / 5), Layout::Fixed(vec![1, 4]), Span::ZERO);
    let mut narrow = workload.clone();
    let most = u64::from(one / 5 * 4);
    narrow.jobs.retain(|job| job.procs <= most);
    let left = workload.jobs.len() - narrow.jobs.len();
    let whole = mean_wait(&narrow, &self::flat(&narrow, procs)?);
    let ratio = mean_wait(&narrow, &ran(&narrow, &parts)?) / whole;
    let name = "a fifth and four fifths of the nodes, for good: mean wait";
    report.add(&series(name.to_owned(), "of one queue's", ratio));
    report.note(format!(
        "{} jobs on {procs} processors, {POLICY}; {left} are wider than four fifths of them",
        workload.jobs.len()
    ));
    Ok(report)
}

fn series(name: String, unit: &'static str, figure: f64) -> Series {
    Series {
        name,
        unit,
        figures: vec![figure],
    }
}

fn site((nodes, cores): (u32, u32), layout: Layout, message: Span) -> Site {
    Site {
        nodes,
        cores,
        layout,
        message,
        policy: format!("preset = \"{POLICY}\""),
    }
}

fn ran(workload: &Workload, site: &Site) -> anyhow::Result<Vec<Time>> {
    starts(workload, site).map_err(|why| anyhow!(why))
}

/// The published algorithm.
fn flat(workload: &Workload, procs: u64) -> anyhow::Result<Vec<Time>> {
    let machine = Machine::count(procs);
    let scene = Scene {
        workload,
        machine: &machine,
        foresight: Foresight::Requested,
        events: Events::Batch,
    };
    let mut replay = Replay::on_count(scene, &named(POLICY)?)?;
    while replay.slice(SLICE) == Progress::More {}
    let starts: Option<Vec<Time>> = replay.course().starts.into_iter().collect();
    match starts {
        Some(starts) => Ok(starts),
        None => bail!("a job of the trace never starts"),
    }
}

fn mean_wait(workload: &Workload, starts: &[Time]) -> f64 {
    let waits = workload.jobs.iter().zip(starts);
    let sum: i64 = waits.map(|(job, start)| (*start - job.submit).0).sum();
    sum as f64 / starts.len().max(1) as f64
}
