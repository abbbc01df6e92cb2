//! Whether an old instance is as fast as a new one: leader CPU per job after many jobs have finished,
//! against an instance with an empty history in the same rounds. Tasks are pretended.

use std::cell::RefCell;

use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::{Entry, Series, alternate};
use crate::{Setup, process};

/// Jobs of one measured round.
const ROUND: usize = 5_000;
const FAKE: [&str; 2] = ["--fake", "nodes=1,cores=16"];

/// The ratio at no, a tenth and all of `count` finished jobs, with the leader's memory at each.
///
/// # Errors
/// An instance does not start, or a job fails.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let most = setup.count(1_000_000);
    let old = Instance::start(setup, &FAKE)?;
    let mut report = Report::default();
    let mut finished = 0;
    for level in [0, most / 10, most] {
        old.submit_many(level.saturating_sub(finished), &["--wait", "true"])?;
        finished = finished.max(level) + compare(setup, &old, level, &mut report)?;
        let mut memory = Series::new(format!("{level} finished: leader memory"), "MB");
        memory.figures.push(process::memory_of(old.leader()?)?);
        report.add(&memory);
    }
    report.note(format!(
        "{ROUND} pretended jobs in each round; the empty one is new at each level"
    ));
    Ok(report)
}

/// Takes old and new in turn; gives the number of jobs that the old one has finished meanwhile.
fn compare(
    setup: &Setup,
    old: &Instance,
    level: usize,
    report: &mut Report,
) -> anyhow::Result<usize> {
    let new = Instance::start(setup, &FAKE)?;
    let rates = RefCell::new(Series::new(format!("{level} finished: rate"), "jobs/s"));
    let rounds = setup.rounds(5);
    let entries = vec![
        Entry::new("empty", "us/job", || Ok(round(&new)?.0)),
        Entry::new("old", "us/job", || {
            let (cpu, rate) = round(old)?;
            rates.borrow_mut().figures.push(rate);
            Ok(cpu)
        }),
    ];
    let series = alternate(rounds, entries)?;
    let [empty, filled] = series.as_slice() else {
        anyhow::bail!("two series were asked for, {} came", series.len());
    };
    let ratio = filled.percent_of(
        empty,
        &format!("{level} finished: leader CPU of an empty one's"),
    );
    let named = Series {
        name: format!("{level} finished: leader CPU"),
        ..filled.clone()
    };
    report.add(&named);
    report.add_budgeted(&ratio, "<= 110 %, goal 100 %");
    report.add(&rates.borrow());
    Ok(rounds * ROUND)
}

/// Microseconds of leader CPU per job, and jobs per second.
fn round(instance: &Instance) -> anyhow::Result<(f64, f64)> {
    let ids = format!("--cc=1-{ROUND}");
    let ran = instance.run(&["submit", "--quiet", "--wait", &ids, "true"])?;
    Ok((
        ran.instance.leader * 1e6 / ROUND as f64,
        ROUND as f64 / ran.wall,
    ))
}
