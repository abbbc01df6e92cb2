//! How fast jobs are accepted, durably, while none of them may start (urgency 0): what a workflow tool
//! that fills a queue waits for.

use std::cell::RefCell;

use crate::Setup;
use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::{Entry, Series, alternate};

/// One command for many jobs against one command for each, in alternating rounds.
///
/// # Errors
/// An instance does not start, or a job is refused.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let jobs = setup.count(5_000);
    let singles = jobs.div_ceil(50);
    let leader = RefCell::new(Series::new("many in one command: leader CPU", "us/job"));
    let client = RefCell::new(Series::new("many in one command: client CPU", "us/job"));
    let many = || {
        // A fresh instance, so that every round finds an empty queue.
        let instance = Instance::start(setup, &["--cores", "2"])?;
        let ids = format!("--cc=1-{jobs}");
        let ran = instance.run(&["submit", "--urgency=0", &ids, "--quiet", "true"])?;
        leader
            .borrow_mut()
            .figures
            .push(ran.instance.leader * 1e6 / jobs as f64);
        client
            .borrow_mut()
            .figures
            .push(ran.client * 1e6 / jobs as f64);
        Ok(jobs as f64 / ran.wall)
    };
    let one_by_one = || {
        let instance = Instance::start(setup, &["--cores", "2"])?;
        let mut wall = 0.0;
        for _ in 0..singles {
            wall += instance
                .run(&["submit", "--urgency=0", "--quiet", "true"])?
                .wall;
        }
        Ok(singles as f64 / wall)
    };
    let entries = vec![
        Entry::new("many in one command", "jobs/s", many),
        Entry::new("one command each", "jobs/s", one_by_one),
    ];
    let mut report = Report::default();
    for series in alternate(setup.rounds(3), entries)? {
        report.add(&series);
    }
    report.add(&leader.borrow());
    report.add(&client.borrow());
    report.note(format!(
        "{jobs} jobs in one command, {singles} commands of one job"
    ));
    Ok(report)
}
