//! What a job costs that is passed down: CPU of the root, of the queue instance and of its shell, against
//! an instance that runs the same jobs itself.

use std::cell::RefCell;
use std::fs;

use anyhow::Context as _;

use crate::instance::Instance;
use crate::latency::between;
use crate::report::Report;
use crate::rounds::{Entry, Series, alternate, quantile};
use crate::{Setup, disk, process};

/// All there is belongs to one queue instance.
const DECLARED: &str = "[[instance]]\nname = \"work\"\nnodes = 1\n\
                        [[queue]]\nname = \"work\"\ninstance = \"work\"\n";

/// CPU for each job, real tasks and pretended ones.
///
/// # Errors
/// An instance does not start, or a job fails.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let jobs = setup.count(10_000);
    let folder = setup.fresh_folder()?;
    let config = folder.path().join("site.toml");
    fs::write(&config, DECLARED)?;
    let config = config.to_str().context("the path is not UTF-8")?;
    let flat = Instance::start(setup, &["--cores", "16"])?;
    let real = Tree::start(setup, &["--cores", "16", "--config", config])?;
    let flat_fake = Instance::start(setup, &["--fake", "nodes=1,cores=16"])?;
    let fake = Tree::start(setup, &["--fake", "nodes=1,cores=16", "--config", config])?;
    let own = |instance: &Instance| {
        let line = format!("--cc=1-{jobs}");
        let ran = instance.run(&["submit", &line, "--quiet", "--wait", "true"])?;
        let used = ran.instance.leader + ran.instance.shell;
        Ok(used * 1e6 / jobs as f64)
    };
    let entries = vec![
        Entry::new("not passed: leader and shell", "us/job", || own(&flat)),
        Entry::new("passed: root", "us/job", || real.round(jobs)),
        Entry::new("not passed, fake: leader and shell", "us/job", || {
            own(&flat_fake)
        }),
        Entry::new("passed, fake: root", "us/job", || fake.round(jobs)),
    ];
    let series = alternate(setup.rounds(3), entries)?;
    let mut report = Report::default();
    series.iter().for_each(|series| report.add(series));
    report.add(&real.below("passed: the instance and its shell"));
    report.add(&fake.below("passed, fake: the instance and its shell"));
    let share = series[1].percent_of(&series[0], "root of a job not passed");
    report.add_budgeted(&share, "<= 50 %; goal <= 50 us");
    report.note(format!("{jobs} jobs of true in each round"));
    Ok(report)
}

/// How much later a job starts that is passed down, on an idle tree, by the events at the root.
///
/// # Errors
/// An instance does not start, or a job fails.
pub fn start(setup: &Setup) -> anyhow::Result<Report> {
    let folder = setup.fresh_folder()?;
    let config = folder.path().join("site.toml");
    fs::write(&config, DECLARED)?;
    let config = config.to_str().context("the path is not UTF-8")?;
    let flat = Instance::start(setup, &["--cores", "2"])?;
    flat.run(&["run", "true"])?;
    let tree = Tree::start(setup, &["--cores", "2", "--config", config])?;
    let start = |instance: &Instance, queue: &[&str]| {
        let line = [&["submit", "--wait"], queue, &["true"]].concat();
        let id = instance.output(&line)?;
        let log = instance.output(&["job", "eventlog", "--json", id.trim()])?;
        Ok(between(&log, "submit", "start")? * 1e3)
    };
    let entries = vec![
        Entry::new("submit to start, not passed", "ms", || start(&flat, &[])),
        Entry::new("submit to start, passed", "ms", || {
            start(&tree.root, &["-q", "work"])
        }),
        Entry::new("one fdatasync", "ms", || {
            Ok(quantile(&disk::syncs(setup, 1)?, 0.5))
        }),
    ];
    let series = alternate(setup.rounds(setup.count(100)), entries)?;
    let mut report = Report::default();
    series.iter().for_each(|series| report.add(series));
    let sync = series[2].summary().median;
    let figures = series[1].figures.iter().zip(&series[0].figures);
    let beyond = Series {
        name: "what the pass adds, beyond one fdatasync".to_owned(),
        unit: "ms",
        figures: figures.map(|(passed, own)| passed - own - sync).collect(),
    };
    report.add_budgeted(&beyond, "<= 2 ms");
    Ok(report)
}

/// A root with its queue instance.
struct Tree {
    root: Instance,
    below: RefCell<Vec<f64>>,
}

impl Tree {
    fn start(setup: &Setup, options: &[&str]) -> anyhow::Result<Tree> {
        let root = Instance::start(setup, options)?;
        // Whoever is measured is there.
        root.run(&["run", "-q", "work", "true"])?;
        Ok(Tree {
            root,
            below: RefCell::default(),
        })
    }

    /// CPU of the root for each job; that of what is below it is kept.
    fn round(&self, jobs: usize) -> anyhow::Result<f64> {
        let line = format!("--cc=1-{jobs}");
        let before = self.cpu()?;
        self.root
            .run(&["submit", "-q", "work", &line, "--quiet", "--wait", "true"])?;
        let after = self.cpu()?;
        let each = |seconds: f64| seconds * 1e6 / jobs as f64;
        self.below.borrow_mut().push(each(after.1 - before.1));
        Ok(each(after.0 - before.0))
    }

    /// Seconds of the root, and of all below it.
    fn cpu(&self) -> anyhow::Result<(f64, f64)> {
        let leader = self.root.leader()?;
        let below = self.root.parts().into_iter().filter(|pid| *pid != leader);
        let below = below.map(process::cpu_of).sum::<anyhow::Result<f64>>()?;
        Ok((process::cpu_of(leader)?, below))
    }

    fn below(&self, name: &str) -> Series {
        Series {
            name: name.to_owned(),
            unit: "us/job",
            figures: self.below.take(),
        }
    }
}
