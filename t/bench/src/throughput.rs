//! Whole jobs per second, submit to end, and what each costs. The measure of the product: against the
//! bare spawn loop of the same rounds, with 2 and 16 declared slots, and with tasks that are only
//! pretended, which leaves eddy's own share.

use std::cell::RefCell;

use crate::instance::{Instance, Ran};
use crate::report::Report;
use crate::rounds::{Entry, Series, alternate};
use crate::{Setup, disk, rounds, spawn};

/// Rates of spawn loop and instances in alternating rounds, their ratio, CPU per job by part.
///
/// # Errors
/// An instance does not start, or a job fails.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let jobs = setup.count(2_000);
    let two = Load::new("2 slots", Instance::start(setup, &["--cores", "2"])?, jobs);
    let sixteen = Load::new(
        "16 slots",
        Instance::start(setup, &["--cores", "16"])?,
        jobs,
    );
    let fake = Load::new(
        "fake",
        Instance::start(setup, &["--fake", "nodes=1,cores=16"])?,
        jobs,
    );
    let entries = vec![
        Entry::new("bare spawn, 2 threads", "spawns/s", || spawn::rate(2, jobs)),
        Entry::new("2 slots", "jobs/s", || two.round()),
        Entry::new("16 slots", "jobs/s", || sixteen.round()),
        Entry::new("fake, 16 slots", "jobs/s", || fake.round()),
        Entry::new("fdatasync median", "ms", || {
            Ok(rounds::quantile(&disk::syncs(setup, 50)?, 0.5))
        }),
    ];
    let series = alternate(setup.rounds(5), entries)?;
    let [bare, with_two, with_sixteen, ..] = series.as_slice() else {
        anyhow::bail!("five series were asked for, {} came", series.len());
    };
    let mut report = Report::default();
    series.iter().for_each(|series| report.add(series));
    report.add(&with_two.percent_of(bare, "2 slots of bare spawn"));
    report.add_budgeted(
        &with_sixteen.percent_of(bare, "16 slots of bare spawn"),
        ">= 50 %, goal >= 80 %",
    );
    for load in [two, sixteen, fake] {
        load.report(&mut report);
    }
    report.note(format!(
        "{jobs} jobs of true in each round: eddy submit --cc=1-{jobs} --quiet --wait true"
    ));
    Ok(report)
}

/// One instance under the same load in every round.
struct Load {
    instance: Instance,
    jobs: usize,
    total: RefCell<Series>,
    leader: RefCell<Series>,
    shell: RefCell<Series>,
    client: RefCell<Series>,
}

impl Load {
    fn new(name: &str, instance: Instance, jobs: usize) -> Self {
        let series =
            |part: &str| RefCell::new(Series::new(format!("{name}: CPU, {part}"), "us/job"));
        Self {
            instance,
            jobs,
            total: series("all of eddy"),
            leader: series("leader"),
            shell: series("shell"),
            client: series("client"),
        }
    }

    fn round(&self) -> anyhow::Result<f64> {
        let ids = format!("--cc=1-{}", self.jobs);
        let ran = self
            .instance
            .run(&["submit", &ids, "--quiet", "--wait", "true"])?;
        self.keep(&ran);
        Ok(self.jobs as f64 / ran.wall)
    }

    fn keep(&self, ran: &Ran) {
        let each = |seconds: f64| seconds * 1e6 / self.jobs as f64;
        let (leader, shell, client) = (ran.instance.leader, ran.instance.shell, ran.client);
        self.total
            .borrow_mut()
            .figures
            .push(each(leader + shell + client));
        self.leader.borrow_mut().figures.push(each(leader));
        self.shell.borrow_mut().figures.push(each(shell));
        self.client.borrow_mut().figures.push(each(client));
    }

    fn report(self, report: &mut Report) {
        report.add_budgeted(&self.total.borrow(), "<= 250 us, goal <= 100 us");
        for part in [&self.leader, &self.shell, &self.client] {
            report.add(&part.borrow());
        }
    }
}
