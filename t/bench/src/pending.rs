//! Whether a long queue makes the next job slow: one urgent job through an instance where many wait,
//! against one through an instance where none does. Tasks are pretended.

use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::{Entry, Series, alternate};
use crate::{Setup, process};

/// Urgent jobs of one measured round: enough that the ticks in which the kernel counts CPU do not show.
const ROUND: usize = 100;
const FAKE: [&str; 2] = ["--fake", "nodes=1,cores=16"];

/// Latency and leader CPU of an urgent job, with `count` waiting and with none.
///
/// # Errors
/// An instance does not start, or a job fails.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let waiting = setup.count(100_000);
    let (empty, full) = (
        Instance::start(setup, &FAKE)?,
        Instance::start(setup, &FAKE)?,
    );
    // One core stays free, and all that wait want every core: the head blocks, an urgent job fits.
    for instance in [&empty, &full] {
        let day = "exec.test.run_duration=86400s";
        instance.run(&["submit", "--quiet", "-n", "15", "-S", day, "true"])?;
    }
    let fill = std::time::Instant::now();
    full.submit_many(waiting, &["-n", "16", "true"])?;
    let mut filling = Series::new("accepted while the queue fills", "jobs/s");
    filling
        .figures
        .push(waiting as f64 / fill.elapsed().as_secs_f64());
    let mut memory = Series::new("leader memory with the queue full", "MB");
    memory.figures.push(process::memory_of(full.leader()?)?);

    let entries = vec![
        Entry::new("none waits: leader CPU", "us/job", || Ok(urgent(&empty)?.1)),
        Entry::new("many wait: leader CPU", "us/job", || Ok(urgent(&full)?.1)),
        Entry::new("none waits: eddy run --urgency=31", "ms", || {
            Ok(urgent(&empty)?.0)
        }),
        Entry::new("many wait: eddy run --urgency=31", "ms", || {
            Ok(urgent(&full)?.0)
        }),
    ];
    let mut report = Report::default();
    for series in alternate(setup.rounds(5), entries)? {
        report.add(&series);
    }
    report.add(&filling);
    report.add(&memory);
    report.note(format!(
        "{waiting} wait; {ROUND} urgent jobs in each round; a pass is budgeted at 10 ms"
    ));
    Ok(report)
}

/// Milliseconds of the command and microseconds of leader CPU, for each of a round's urgent jobs.
fn urgent(instance: &Instance) -> anyhow::Result<(f64, f64)> {
    let (mut wall, mut cpu) = (0.0, 0.0);
    for _ in 0..ROUND {
        let ran = instance.run(&["run", "--urgency=31", "true"])?;
        wall += ran.wall;
        cpu += ran.instance.leader;
    }
    Ok((wall * 1e3 / ROUND as f64, cpu * 1e6 / ROUND as f64))
}

/// `eddy why`, also of what would be, of the last of `count` that wait, whole command.
///
/// # Errors
/// The instance does not start, or a job fails.
pub fn why(setup: &Setup) -> anyhow::Result<Report> {
    let waiting = setup.count(10_000);
    let instance = Instance::start(setup, &FAKE)?;
    let day = "exec.test.run_duration=86400s";
    instance.run(&["submit", "--quiet", "-n", "15", "-S", day, "true"])?;
    instance.submit_many(waiting, &["-n", "16", "-t", "1h", "true"])?;
    let last = instance.output(&["submit", "-n", "16", "-t", "1h", "true"])?;
    let last = last.trim();
    let ask = |options: &[&str]| {
        let line = [&["why", last], options].concat();
        Ok(instance.run(&line)?.wall * 1e3)
    };
    let entries = vec![
        Entry::new("eddy why", "ms", || ask(&[])),
        Entry::new("eddy why --if", "ms", || ask(&["--if", "slots=1,time=1m"])),
        Entry::new("eddy why --if-policy", "ms", || {
            ask(&["--if-policy", "fcfs"])
        }),
    ];
    let mut report = Report::default();
    for series in alternate(setup.rounds(30), entries)? {
        report.add_budgeted(&series, "<= 50 ms");
    }
    report.note(format!("{waiting} wait before it"));
    Ok(report)
}
