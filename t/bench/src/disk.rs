//! The limit of every durable answer: appending 4 KiB to a file and waiting until it is on the disk.
//! Writes beside the state directories of the other benches, so on the same file system.

use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use crate::Setup;
use crate::report::Report;
use crate::rounds::{Series, quantile};

/// Median and 99th percentile of each round, and appends per second.
///
/// # Errors
/// The file system's.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let count = setup.count(200);
    let mut median = Series::new("fdatasync median", "ms");
    let mut p99 = Series::new("fdatasync p99", "ms");
    let mut rate = Series::new("appends", "1/s");
    for _ in 0..setup.rounds(5) {
        let took = syncs(setup, count)?;
        median.figures.push(quantile(&took, 0.5));
        p99.figures.push(quantile(&took, 0.99));
        rate.figures
            .push(count as f64 * 1e3 / took.iter().sum::<f64>());
    }
    let mut report = Report::default();
    report.add(&median);
    report.add(&p99);
    report.add(&rate);
    report.note(format!("{count} appends of 4 KiB in each round"));
    Ok(report)
}

/// Milliseconds of each of `count` appends with fdatasync to a fresh file.
///
/// # Errors
/// The file system's.
pub fn syncs(setup: &Setup, count: usize) -> anyhow::Result<Vec<f64>> {
    let folder = setup.fresh_folder()?;
    let mut file = File::create(folder.path().join("appends"))?;
    let block = [b'e'; 4096];
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let begun = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        took.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(took)
}
