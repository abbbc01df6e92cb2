//! Many who look at their jobs again and again beside one who works: how long his submissions take and
//! how soon his jobs start, against the same instance in a quiet moment, and against one beside which the
//! crowd does its own part alone: it reads listings as long, and asks nobody for them. The crowd speaks
//! the protocol itself, since so many commands at once would measure how this machine starts processes.

mod clients;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use eddy_client::{Client, Options, Uri};
use eddy_wire::id::JobId;
use eddy_wire::services::job::{JobSet, List, ListRequest, Submit, SubmitRequest, URGENCY_DEFAULT};
use serde_json::Value;
use uuid::Uuid;

use self::clients::{Asks, Crowd, Reads};
use crate::Setup;
use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::{Series, quantile};

/// Jobs in the listing.
const LISTED: usize = 200;
/// What a person's shell takes for the next command, at the least.
const PAUSE: Duration = Duration::from_millis(5);

/// Submissions and starts: quiet, beside the crowd's own part, and beside the crowd.
///
/// # Errors
/// The instance does not start, or a job fails.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let instance = Instance::start(setup, &["--cores", "4"])?;
    instance.submit_many(LISTED, &["--urgency=0", "true"])?;
    let spec: Value = serde_json::from_str(&instance.output(&["submit", "--dry-run", "true"])?)?;
    let uri: Uri = instance.output(&["uri"])?.trim().parse()?;
    let count = setup.count(500);
    let worker = Worker::new(&instance, &uri, spec)?;
    worker.jobs(10)?;
    let answer = worker.listing()?;
    let mut listed = Series::new("listings answered", "1/s");
    let mut own = Series::new("listings read that nobody was asked for", "1/s");
    let phases = ["quiet", "beside what 500 read", "beside 500"];
    let [mut quiet, mut reading, mut beside] = phases.map(Figures::new);
    for _ in 0..setup.rounds(3) {
        quiet.add(&worker.jobs(count)?);
        let crowd = Crowd::begin(Reads(answer.clone()))?;
        reading.add(&worker.jobs(count)?);
        own.figures.push(crowd.end()?);
        let crowd = Crowd::begin(Asks(uri.clone()))?;
        beside.add(&worker.jobs(count)?);
        listed.figures.push(crowd.end()?);
    }
    let mut report = Report::default();
    report.add(&listed);
    report.add(&own);
    quiet.tell(&mut report, None);
    reading.tell(&mut report, None);
    beside.tell(&mut report, Some("<= 20 ms"));
    let start = |figures: &Figures| figures.starts[1].clone();
    let share = start(&beside).percent_of(&start(&quiet), "start p99, beside 500 of quiet");
    report.add_budgeted(&share, "<= 200 %");
    let share =
        start(&beside).percent_of(&start(&reading), "start p99, beside 500 of what they read");
    report.add(&share);
    report.note(format!(
        "{} clients list {LISTED} jobs each, {count} jobs one after the other in each round; they are one thread, \
         which has a core for itself to read what they are told",
        clients::CROWD
    ));
    Ok(report)
}

/// Figures of one phase, round by round: half of all are below the first, 99 of 100 below the second.
struct Figures {
    submits: [Series; 2],
    starts: [Series; 2],
}

impl Figures {
    fn new(when: &str) -> Figures {
        let both = |what: &str| {
            ["p50", "p99"].map(|called| Series::new(format!("{what} {called}, {when}"), "ms"))
        };
        Figures {
            submits: both("submit"),
            starts: both("submit to start"),
        }
    }

    fn add(&mut self, seen: &Seen) {
        let all = [
            (&mut self.submits, &seen.submits),
            (&mut self.starts, &seen.starts),
        ];
        for (series, figures) in all {
            for (series, share) in series.iter_mut().zip([0.5, 0.99]) {
                series.figures.push(quantile(figures, share));
            }
        }
    }

    fn tell(&self, report: &mut Report, budget: Option<&'static str>) {
        let [half, most] = &self.submits;
        report.add(half);
        match budget {
            Some(budget) => report.add_budgeted(most, budget),
            None => report.add(most),
        }
        self.starts.iter().for_each(|series| report.add(series));
    }
}

/// In milliseconds.
struct Seen {
    submits: Vec<f64>,
    starts: Vec<f64>,
}

/// One who submits a job, waits for its end, and submits the next.
struct Worker<'a> {
    instance: &'a Instance,
    runtime: tokio::runtime::Runtime,
    client: Client,
    spec: Value,
}

impl<'a> Worker<'a> {
    fn new(instance: &'a Instance, uri: &Uri, spec: Value) -> anyhow::Result<Worker<'a>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = runtime.block_on(Client::connect(uri, Options::default()))?;
        Ok(Worker {
            instance,
            runtime,
            client,
            spec,
        })
    }

    fn jobs(&self, count: usize) -> anyhow::Result<Seen> {
        let mut submits = Vec::new();
        let mut ids = Vec::new();
        for _ in 0..count {
            let request = SubmitRequest {
                key: Uuid::now_v7(),
                jobspec: self.spec.clone(),
                cc: None,
                urgency: URGENCY_DEFAULT,
                waitable: Default::default(),
                requeue: Default::default(),
                on_behalf: None,
            };
            let begun = Instant::now();
            let submitted = self
                .runtime
                .block_on(self.client.call::<Submit>(&request))?;
            submits.push(begun.elapsed().as_secs_f64() * 1e3);
            ids.push(submitted.first.0);
            // The next one comes to an instance that has nothing to do for him.
            thread::sleep(PAUSE);
        }
        let (first, last) = (ids[0], ids[ids.len() - 1]);
        self.instance
            .run(&["job", "wait-event", &last.to_string(), "clean"])?;
        let ranges = vec![(JobId(first), JobId(last))];
        let starts = self.runtime.block_on(self.starts(JobSet { ranges }))?;
        Ok(Seen { submits, starts })
    }

    /// What a client is told that asks as the crowd does, part by part.
    fn listing(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        self.runtime.block_on(async {
            let mut rows = self.client.stream::<List>(&ListRequest::default())?;
            let mut parts = Vec::new();
            while let Some(part) = rows.next().await {
                parts.push(serde_json::to_vec(&part?.0)?);
            }
            Ok(parts)
        })
    }

    /// Milliseconds from the submission of each job to its start.
    async fn starts(&self, jobs: JobSet) -> anyhow::Result<Vec<f64>> {
        let request = ListRequest {
            jobs,
            ..ListRequest::default()
        };
        let mut rows = self.client.stream::<List>(&request)?;
        let mut starts = Vec::new();
        while let Some(part) = rows.next().await {
            for row in part?.0 {
                let begun = row.t_run.context("a job did not run")?;
                starts.push((begun - row.t_submit).0 as f64 / 1e3);
            }
        }
        anyhow::ensure!(!starts.is_empty(), "no job is listed");
        Ok(starts)
    }
}
