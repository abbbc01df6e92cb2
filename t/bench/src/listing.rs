//! One table over a tree: `eddy jobs -R` where each of a hundred instances has a thousand jobs that wait.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::Setup;
use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::{Entry, alternate};

/// Users' instances in the root, each on a core of its own.
const INSTANCES: usize = 100;

/// The whole command: what a person is shown without options, all rows, all rows with all fields.
///
/// # Errors
/// An instance does not start, or a listing misses a job.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let each = setup.count(100_000).div_ceil(INSTANCES);
    let cores = INSTANCES.to_string();
    let root = Instance::start(setup, &["--cores", &cores])?;
    for _ in 0..INSTANCES {
        let id = root.output(&["alloc", "--bg", "-n1"])?;
        let uri = root.output(&["uri", id.trim()])?;
        let line = format!("--cc=1-{each}");
        // Held: they wait and nothing else happens.
        let mut submit = root.command(&["submit", &line, "--quiet", "--urgency=0", "true"]);
        let status = submit.env("EDDY_URI", uri.trim()).status()?;
        ensure!(status.success(), "eddy submit: {status}");
    }
    let all = INSTANCES * (each + 1);
    let rows = root.output(&["jobs", "-R", "-c0", "--no-header"])?;
    let listed = rows.lines().count();
    ensure!(listed == all, "{all} jobs are there, {listed} are listed");
    let entries = vec![
        Entry::new("eddy jobs -R", "ms", || timed(&root, &["jobs", "-R"])),
        Entry::new("eddy jobs -R -c0", "ms", || {
            timed(&root, &["jobs", "-R", "-c0"])
        }),
        Entry::new("eddy jobs -R -c0 --json", "ms", || {
            timed(&root, &["jobs", "-R", "-c0", "--json"])
        }),
    ];
    let mut report = Report::default();
    for series in alternate(setup.rounds(5), entries)? {
        report.add_budgeted(&series, "<= 500 ms");
    }
    report.note(format!("{INSTANCES} instances, {all} rows of active jobs"));
    Ok(report)
}

/// Milliseconds of a command whose output goes to a file that keeps nothing.
fn timed(root: &Instance, arguments: &[&str]) -> anyhow::Result<f64> {
    let mut command: Command = root.command(arguments);
    let begun = Instant::now();
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().context("eddy jobs")?;
    ensure!(status.success(), "eddy {}: {status}", arguments.join(" "));
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}
