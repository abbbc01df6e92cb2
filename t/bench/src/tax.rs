//! What queue instances cost a schedule: a trace through a root and its instances in the world, on a machine of
//! one node against the published algorithm over one queue, on many against the same root without instances.
//! Those nodes have a processor each, as the machine of the trace had, so that what an instance holds is a choice
//! of nodes. No clock but for how long that takes.

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
        let other = others(&ran(&workload, &site)?, &flat);
        let name = format!("{number} elastic instances: starts at another time");
        let budget = "0 of all: the schedule of one queue";
        report.add_budgeted(&series(name, "jobs", other as f64), budget);
    }
    let alone = ran(&workload, &site((one, 1), Layout::Flat, Span::ZERO))?;
    let whole = mean_wait(&workload, &alone);
    let name = format!("one queue on {one} nodes: mean wait");
    let ratio = whole / mean_wait(&workload, &flat);
    report.add(&series(name, "of that by count", ratio));
    for number in INSTANCES {
        let site = |message| site((one, 1), Layout::Elastic(number), message);
        let other = others(&ran(&workload, &site(Span::ZERO))?, &alone);
        let name = format!("{number} elastic instances on {one} nodes: starts at another time");
        report.add_budgeted(&series(name, "jobs", other as f64), "0 of all");
        let ratio = mean_wait(&workload, &ran(&workload, &site(Span::millis(1)))?) / whole;
        let name = format!("{number} elastic instances, messages of 1 ms: mean wait");
        report.add_budgeted(&series(name, "of one queue's", ratio), "<= 1.01");
    }
    report.add(&divided(&workload, procs, one)?);
    let left = wider(&workload, one);
    report.note(format!(
        "{} jobs on {procs} processors, {POLICY}; {left} are wider than four fifths of them",
        workload.jobs.len()
    ));
    Ok(report)
}

/// How many start at another time.
fn others(found: &[Time], wanted: &[Time]) -> usize {
    let pairs = found.iter().zip(wanted);
    pairs.filter(|(found, wanted)| found != wanted).count()
}

/// How many jobs are wider than four fifths of the machine.
fn wider(workload: &Workload, one: u32) -> usize {
    let most = u64::from(one / 5 * 4);
    workload.jobs.iter().filter(|job| job.procs > most).count()
}

/// What the others wait where a fifth of the nodes is set apart for good.
fn divided(workload: &Workload, procs: u64, one: u32) -> anyhow::Result<Series> {
    let fixed = Layout::Fixed(vec![one / 5, one / 5 * 4]);
    let parts = site((one, 1), fixed, Span::ZERO);
    let mut narrow = workload.clone();
    let most = u64::from(one / 5 * 4);
    narrow.jobs.retain(|job| job.procs <= most);
    let whole = mean_wait(&narrow, &flat(&narrow, procs)?);
    let ratio = mean_wait(&narrow, &ran(&narrow, &parts)?) / whole;
    let name = "a fifth and four fifths of the nodes, for good: mean wait";
    Ok(series(name.to_owned(), "of one queue's", ratio))
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

#[cfg(test)]
mod tests {
    use eddy_sched::sim::SimJob;
    use eddy_world::random::Random;

    use super::*;

    /// The first of the trace that are played: more than its first month, with weeks in which more waits than runs.
    const JOBS: usize = 2_000;
    const PROCS: u64 = 100;

    /// As many jobs of like widths and lengths as the trace has, for who has none.
    fn drawn() -> Workload {
        let mut random = Random::new(JOBS as u64);
        let mut submit = 0;
        let mut job = |id| {
            submit += random.between(0, 2000);
            let limit = 60 << random.below(11);
            let run = random.between(1, limit + limit / 10);
            let widest = *random.pick(&[1, 4, 16, 16, 64, PROCS]);
            SimJob {
                id,
                submit: Time(submit * 1_000_000),
                procs: 1 + random.below(widest),
                nodes: None,
                run: Span::seconds(run),
                limit: Some(Span::seconds(limit)),
                owner: 0,
                terms: 0,
            }
        };
        Workload {
            procs: Some(PROCS),
            jobs: (1..=JOBS as u64).map(&mut job).collect(),
            ..Workload::default()
        }
    }

    /// The first jobs of the trace, or as many that are drawn: never nothing.
    fn some() -> anyhow::Result<(Workload, u64)> {
        let known = trace::kth()?;
        let (mut workload, procs) = known.unwrap_or_else(|| (drawn(), PROCS));
        workload.jobs.truncate(JOBS);
        Ok((workload, procs))
    }

    /// When each begins where the root runs all of them, on a node for each processor.
    fn alone(workload: &Workload, one: u32) -> anyhow::Result<Vec<Time>> {
        let starts = ran(workload, &site((one, 1), Layout::Flat, Span::ZERO))?;
        let waits = starts.iter().zip(&workload.jobs);
        let waits = waits.filter(|(start, job)| **start > job.submit).count();
        assert!(waits > JOBS / 10, "{waits} wait");
        Ok(starts)
    }

    #[test]
    fn on_a_hundred_nodes_instances_start_every_job_when_one_queue_would() -> anyhow::Result<()> {
        let (workload, procs) = some()?;
        let one = u32::try_from(procs)?;
        let wanted = alone(&workload, one)?;
        for number in INSTANCES {
            let site = site((one, 1), Layout::Elastic(number), Span::ZERO);
            let found = ran(&workload, &site)?;
            let other = (0..wanted.len()).filter(|at| found[*at] != wanted[*at]);
            // Who began first tells why.
            let first = other.min_by_key(|at| found[*at].min(wanted[*at]));
            let first = first.map(|at| (&workload.jobs[at], found[at], wanted[at]));
            assert!(first.is_none(), "{number} instances: {first:?}");
        }
        Ok(())
    }

    #[test]
    fn a_millisecond_of_a_message_costs_no_more_than_a_hundredth() -> anyhow::Result<()> {
        let (workload, procs) = some()?;
        let one = u32::try_from(procs)?;
        let whole = mean_wait(&workload, &alone(&workload, one)?);
        for number in INSTANCES {
            let site = site((one, 1), Layout::Elastic(number), Span::millis(1));
            let ratio = mean_wait(&workload, &ran(&workload, &site)?) / whole;
            assert!(ratio <= 1.01, "{number} instances: {ratio}");
        }
        Ok(())
    }
}
