//! How long a whole instance takes: `eddy start true` starts one, runs a command in it and ends it.
//! Workflow tools do this once a step.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::instance::eddy;
use crate::report::Report;
use crate::rounds::{Entry, alternate};
use crate::{Setup, spawn};

/// The whole command, in the machine's own cores and with 1,000 pretended nodes, beside a bare spawn.
///
/// # Errors
/// It does not end with 0.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let entries = vec![
        Entry::new("eddy start true", "ms", || start(setup, &[])),
        Entry::new("eddy start --fake nodes=1000,cores=16 true", "ms", || {
            start(setup, &["--fake", "nodes=1000,cores=16"])
        }),
        Entry::new("one bare spawn", "ms", || Ok(1e3 / spawn::rate(1, 1)?)),
    ];
    let mut report = Report::default();
    for series in alternate(setup.rounds(setup.count(20)), entries)? {
        report.add(&series);
    }
    let entries = vec![
        Entry::new("4 ranks, start and end", "ms", || ranks(setup, "4")),
        Entry::new("16 ranks", "ms", || ranks(setup, "16")),
        Entry::new("64 ranks", "ms", || ranks(setup, "64")),
        Entry::new("256 ranks", "ms", || ranks(setup, "256")),
    ];
    for series in alternate(setup.rounds(3), entries)? {
        match series.name.as_str() {
            "64 ranks" => report.add_budgeted(&series, "<= 2000 ms"),
            _ => report.add(&series),
        }
    }
    report.note("state directory on the file system above; ends when the instance is gone");
    Ok(report)
}

/// Every rank has an agent and a shell of its own, as if it were a host.
fn ranks(setup: &Setup, size: &str) -> anyhow::Result<f64> {
    start(setup, &["--size", size, "--cores", "1"])
}

fn start(setup: &Setup, options: &[&str]) -> anyhow::Result<f64> {
    let folder = setup.fresh_folder()?;
    let mut command = Command::new(eddy()?);
    command
        .args(["start", "--statedir"])
        .arg(folder.path().join("state"))
        .args(options)
        .arg("true");
    command
        .env_remove("EDDY_URI")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let begun = Instant::now();
    let status = command.status().context("eddy start")?;
    ensure!(status.success(), "eddy start true: {status}");
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}
