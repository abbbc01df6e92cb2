//! An idle node that goes over from one queue instance to another: how long until the job that needs it has
//! begun there, and what the root records for it.
//!
//! Two elastic instances share one node, all of which each job takes. Nothing of a node is anybody's between
//! two jobs, so a move is what a pass is: the one gave its cores back, the other is granted them.

use std::cell::Cell;
use std::fs;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::instance::Instance;
use crate::latency::between;
use crate::report::Report;
use crate::rounds::{Entry, Series, alternate, quantile};
use crate::rpc::ping;
use crate::{Setup, disk};

const QUEUES: [&str; 2] = ["left", "right"];
/// Round trips of one figure.
const PINGS: &str = "20";
/// Cores of the node.
const CORES: &str = "2";

/// Starts after a move and without one, in alternating rounds, and the records of both.
///
/// # Errors
/// The instance does not start, or a job fails.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let folder = setup.fresh_folder()?;
    let config = folder.path().join("site.toml");
    let declared = QUEUES.map(|name| {
        format!(
            "[[instance]]\nname = \"{name}\"\nelastic = \"all\"\n\
             [[queue]]\nname = \"{name}\"\ninstance = \"{name}\"\n"
        )
    });
    fs::write(&config, declared.concat())?;
    let config = config.to_str().context("the path is not UTF-8")?;
    let root = Instance::start(setup, &["--cores", CORES, "--config", config])?;
    for queue in QUEUES {
        root.run(&["run", "-n", CORES, "-q", queue, "true"])?;
    }
    let shared = Shared {
        root,
        last: Cell::new(1),
        moved: Cell::new(0),
        stayed: Cell::new(0),
    };
    let series = alternate(setup.rounds(setup.count(200)), entries(setup, &shared))?;
    let mut report = Report::default();
    series.iter().for_each(|series| report.add(series));
    let moved = &series[0];
    for (share, name) in [(0.5, "after a move, median"), (0.99, "after a move, p99")] {
        let mut series = Series::new(name, "ms");
        series.figures.push(quantile(&moved.figures, share));
        report.add_budgeted(&series, "<= 50 ms");
    }
    let sync = series[2].summary().median;
    let mut syncs = Series::new("after a move, by one fdatasync", "times");
    syncs.figures = moved.figures.iter().map(|took| took / sync).collect();
    report.add(&syncs);
    shared.count(&mut report)?;
    Ok(report)
}

fn entries<'s>(setup: &'s Setup, shared: &'s Shared) -> Vec<Entry<'s>> {
    vec![
        Entry::new(
            "submit to start, the other instance had the node",
            "ms",
            || {
                let other = 1 - shared.last.get();
                shared.last.set(other);
                shared.start(&shared.moved)
            },
        ),
        Entry::new("submit to start, it had the node itself", "ms", || {
            shared.start(&shared.stayed)
        }),
        Entry::new("one fdatasync", "ms", || {
            Ok(quantile(&disk::syncs(setup, 1)?, 0.5))
        }),
        Entry::new("one round trip to the root", "us", || {
            ping(&shared.root, "0", PINGS)
        }),
    ]
}

/// A root whose node two instances share.
struct Shared {
    root: Instance,
    /// Which of them had it last.
    last: Cell<usize>,
    /// The last job that began after a move, and the last without one.
    moved: Cell<u64>,
    stayed: Cell<u64>,
}

impl Shared {
    /// From the submission of a job to whose turn it is to its start, by its events at the root.
    fn start(&self, job: &Cell<u64>) -> anyhow::Result<f64> {
        let queue = QUEUES[self.last.get()];
        let id = self
            .root
            .output(&["submit", "--wait", "-n", CORES, "-q", queue, "true"])?;
        let log = self
            .root
            .output(&["job", "eventlog", "--json", id.trim()])?;
        let shown = ["jobs", "-a", "--no-header", "-o", "{id.dec}", id.trim()];
        let number = self.root.output(&shown)?;
        job.set(number.trim().parse().context("a number")?);
        Ok(between(&log, "submit", "start")? * 1e3)
    }

    /// What the root's journal has of the last move, beside what it has of a job that needed none.
    fn count(&self, report: &mut Report) -> anyhow::Result<()> {
        let (moved, stayed) = (self.moved.get(), self.stayed.get());
        let of = |job: u64| self.journal(&format!("SELECT count(*) FROM event WHERE job = {job}"));
        let mut records = Series::new("records of a job after a move, beyond one without", "");
        records.figures.push(of(moved)? - of(stayed)?);
        report.add_budgeted(&records, "0");
        // Everything from when the one before had its cores until they are this one's.
        let hands = self.journal(&format!(
            "SELECT count(*) FROM event WHERE name IN ('release', 'free', 'alloc', 'grant-changed') \
             AND seq > (SELECT max(seq) FROM event WHERE name = 'alloc' AND seq < \
             (SELECT min(seq) FROM event WHERE name = 'alloc' AND job = {moved})) \
             AND seq <= (SELECT min(seq) FROM event WHERE name = 'alloc' AND job = {moved})"
        ))?;
        ensure!(hands > 0.0, "the journal has no grant of job {moved}");
        let mut records = Series::new("records by which the node goes over", "");
        records.figures.push(hands);
        report.add_budgeted(&records, "2: given back by one, granted to the other");
        Ok(())
    }

    fn journal(&self, question: &str) -> anyhow::Result<f64> {
        let journal = self.root.state().join("journal.db");
        let ran = Command::new("sqlite3")
            .arg("-readonly")
            .arg(&journal)
            .arg(question)
            .output();
        let ran = ran.context("sqlite3")?;
        let said = String::from_utf8_lossy(&ran.stdout);
        ensure!(
            ran.status.success(),
            "sqlite3: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
        said.trim().parse().context("a count")
    }
}
