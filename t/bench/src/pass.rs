//! What a job costs that is passed down: CPU of the root, of the queue instance and of its shell, against
//! an instance that runs the same jobs itself.

use std::cell::RefCell;
use std::fs;

use anyhow::{Context as _, ensure};

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
    let real = Tree::start(setup, &["--cores", "16", "--config", config], &["work"])?;
    let flat_fake = Instance::start(setup, &["--fake", "nodes=1,cores=16"])?;
    let pretended = ["--fake", "nodes=1,cores=16", "--config", config];
    let fake = Tree::start(setup, &pretended, &["work"])?;
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
    let below = real.below("passed: the instance and its shell");
    report.add(&below);
    report.add(&fake.below("passed, fake: the instance and its shell"));
    // Both are what an instance spends on a job: one that has it from a client, and one that has it from the root.
    let share = series[1].percent_of(&series[0], "root of a job not passed");
    report.add_budgeted(&share, "<= 50 %; goal <= 50 us");
    let share = series[1].percent_of(&below, "root of what the instance below spends");
    report.add_budgeted(&share, "<= 50 %");
    report.note(format!("{jobs} jobs of true in each round"));
    Ok(report)
}

/// Four queue instances share 1,000 nodes, of which each holds a quarter.
const QUARTERS: [&str; 4] = ["a", "b", "c", "d"];

/// CPU for each job where thousands run at a time: 1,000 nodes, flat and by four queue instances.
///
/// # Errors
/// An instance does not start, or a job fails.
pub fn wide(setup: &Setup) -> anyhow::Result<Report> {
    const NODES: &str = "nodes=1000,cores=4";
    let jobs = setup.count(100_000);
    let folder = setup.fresh_folder()?;
    let config = folder.path().join("site.toml");
    fs::write(&config, quarters(250))?;
    let config = config.to_str().context("the path is not UTF-8")?;
    let flat = Instance::start(setup, &["--fake", NODES])?;
    flat.run(&["run", "true"])?;
    let tree = Tree::start(setup, &["--fake", NODES, "--config", config], &QUARTERS)?;
    let own = || {
        let line = format!("--cc=1-{jobs}");
        let ran = flat.run(&["submit", &line, "--quiet", "--wait", "true"])?;
        Ok((ran.instance.leader + ran.instance.shell) * 1e6 / jobs as f64)
    };
    let entries = vec![
        Entry::new("not passed: leader and shell", "us/job", own),
        Entry::new("passed: root", "us/job", || tree.round(jobs)),
    ];
    let series = alternate(setup.rounds(3), entries)?;
    let mut report = Report::default();
    series.iter().for_each(|series| report.add(series));
    report.add(&tree.below("passed: the four instances and their shells"));
    let share = series[1].percent_of(&series[0], "root of a job not passed");
    report.add(&share);
    report.note(format!(
        "{jobs} jobs in each round, 4,000 at a time; their tasks are pretended, and cost nobody anything"
    ));
    Ok(report)
}

fn quarters(nodes: u32) -> String {
    let quarter = |(at, name): (u32, &&str)| {
        let (first, last) = (at * nodes, (at + 1) * nodes - 1);
        format!(
            "[[instance]]\nname = \"{name}\"\nranks = \"{first}-{last}\"\n\
             [[queue]]\nname = \"{name}\"\ninstance = \"{name}\"\n"
        )
    };
    (0..).zip(&QUARTERS).map(quarter).collect()
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
    let tree = Tree::start(setup, &["--cores", "2", "--config", config], &["work"])?;
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

/// A root with its queue instances.
struct Tree {
    root: Instance,
    queues: &'static [&'static str],
    below: RefCell<Vec<f64>>,
}

impl Tree {
    fn start(
        setup: &Setup,
        options: &[&str],
        queues: &'static [&'static str],
    ) -> anyhow::Result<Tree> {
        let root = Instance::start(setup, options)?;
        // Whoever is measured is there.
        for queue in queues {
            root.run(&["run", "-q", queue, "true"])?;
        }
        Ok(Tree {
            root,
            queues,
            below: RefCell::default(),
        })
    }

    /// CPU of the root for each job; that of what is below it is kept.
    fn round(&self, jobs: usize) -> anyhow::Result<f64> {
        let line = format!("--cc=1-{}", jobs / self.queues.len());
        let before = self.cpu()?;
        // All queues at once.
        let submit = |queue: &&str| {
            let arguments = ["submit", "-q", queue, &line, "--quiet", "--wait", "true"];
            self.root.command(&arguments).spawn().context("eddy")
        };
        let clients: Vec<_> = self.queues.iter().map(submit).collect();
        for client in clients {
            let status = client?.wait()?;
            ensure!(status.success(), "eddy submit: {status}");
        }
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
