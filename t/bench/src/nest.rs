//! What an instance inside an instance costs: the time until its first job runs, and, for a workflow
//! that starts a thousand of them, the CPU of the whole machine.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use crate::Setup;
use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::{Entry, Series, alternate};

/// From the command to the first job of the innermost instance, which says when it began.
///
/// # Errors
/// An instance does not start.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let instance = Instance::start(setup, &["--cores", "4"])?;
    let fake = Instance::start(setup, &["--fake", "nodes=1000,cores=4"])?;
    let deep = |depth| first_job(&instance, depth);
    let entries = vec![
        Entry::new("command to first job, depth 1", "ms", || deep(1)),
        Entry::new("depth 2", "ms", || deep(2)),
        Entry::new("depth 3", "ms", || deep(3)),
        Entry::new("1,000 fake nodes, until it serves", "ms", || serves(&fake)),
    ];
    let mut report = Report::default();
    for series in alternate(setup.rounds(setup.count(10)), entries)? {
        match series.name.as_str() {
            "depth 3" => report.add_budgeted(&series, "<= 150 ms"),
            "depth 2" => report.add(&series),
            "1,000 fake nodes, until it serves" => report.add_budgeted(&series, "<= 100 ms"),
            _ => report.add_budgeted(&series, "<= 50 ms, goal <= 15 ms"),
        }
    }
    Ok(report)
}

fn now() -> anyhow::Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

fn first_job(instance: &Instance, depth: usize) -> anyhow::Result<f64> {
    let eddy = crate::instance::eddy()?;
    let eddy = eddy.to_str().context("the path of eddy is not UTF-8")?;
    let mut line = vec!["alloc", "-n1"];
    for _ in 1..depth {
        line.extend([eddy, "alloc", "-n1"]);
    }
    line.extend(["date", "+%s.%N"]);
    let begun = now()?;
    let text = instance.output(&line)?;
    let ran: f64 = text
        .trim()
        .parse()
        .with_context(|| format!("`{text}` is no time"))?;
    Ok((ran - begun) * 1e3)
}

fn serves(instance: &Instance) -> anyhow::Result<f64> {
    let begun = now()?;
    let id = instance.output(&["alloc", "--bg", "-N1000"])?;
    let took = (now()? - begun) * 1e3;
    instance.run(&["shutdown", id.trim()])?;
    Ok(took)
}

/// A workflow of sub-instances against the same jobs in one instance.
///
/// # Errors
/// A job fails.
pub fn workflow(setup: &Setup) -> anyhow::Result<Report> {
    let count = setup.count(1000);
    let flat = || {
        let instance = Instance::start(setup, &["--cores", "16"])?;
        let before = machine_cpu()?;
        instance.submit_many(count * 100, &["--wait", "true"])?;
        Ok((machine_cpu()? - before) * 1e6 / (count * 100) as f64)
    };
    let mut grown = Series::new("leader grown by these children", "MB");
    let nested = || {
        let instance = Instance::start(setup, &["--cores", "16"])?;
        let leader = instance.leader()?;
        // What a leader needs once for so many that nobody has asked of yet, and what its journal keeps of
        // pages up to a bound, is not what each of them leaves behind.
        spawn_children(&instance, count)?;
        let memory = crate::process::memory_of(leader)?;
        let before = machine_cpu()?;
        spawn_children(&instance, count)?;
        let used = (machine_cpu()? - before) * 1e6 / (count * 100) as f64;
        grown
            .figures
            .push(crate::process::memory_of(leader)? - memory);
        Ok(used)
    };
    let entries = vec![
        Entry::new("100,000 jobs flat, CPU per job", "us", flat),
        Entry::new("1,000 instances of 100 jobs, CPU per job", "us", nested),
    ];
    let series = alternate(setup.rounds(1), entries)?;
    let mut report = Report::default();
    for series in &series {
        report.add(series);
    }
    let share = series[1].percent_of(&series[0], "nested against flat");
    report.add_budgeted(&share, "<= 130 %");
    report.add_budgeted(&grown, "<= 1 MB per 1,000 finished children");
    report.note("CPU of the whole machine, tasks among it; nothing else may run meanwhile");
    Ok(report)
}

/// One script starts them all and waits, as a workflow tool does.
fn spawn_children(instance: &Instance, count: usize) -> anyhow::Result<()> {
    let inner = "eddy submit --quiet --wait --cc=1-100 true";
    let eddy = crate::instance::eddy()?;
    let folder = eddy.parent().context("eddy is in a directory")?;
    let path = format!(
        "{}:{}",
        folder.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let script = format!(
        "for i in $(seq {count}); do eddy batch -n1 --output=none --flags=waitable \
         --wrap '{inner}' || exit 1; done >/dev/null; eddy job wait --all"
    );
    let status = instance
        .command(&[])
        .env("PATH", path)
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .fold(
            std::process::Command::new("sh"),
            |mut shell, (name, value)| {
                shell.env(name, value);
                shell
            },
        )
        .args(["-c", &script])
        .status()?;
    anyhow::ensure!(status.success(), "the workflow ended with {status}");
    Ok(())
}

/// Seconds of CPU that this machine has used since it began, idle time left out.
fn machine_cpu() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("/proc/stat has a first line")?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq
    let busy = |at: usize| ticks.get(at).copied().unwrap_or(0.0);
    let used = busy(0) + busy(1) + busy(2) + busy(5) + busy(6);
    Ok(used / rustix::param::clock_ticks_per_second() as f64)
}
