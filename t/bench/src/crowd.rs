//! Many who look at their jobs again and again beside one who works: how long his submissions take and
//! how soon his jobs start, against the same instance in a quiet moment. The crowd speaks the protocol
//! itself, since so many commands at once would measure how this machine starts processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use eddy_client::{Client, Options, Uri};
use eddy_wire::id::JobId;
use eddy_wire::services::job::{JobSet, List, ListRequest, Submit, SubmitRequest, URGENCY_DEFAULT};
use serde_json::Value;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::Setup;
use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::{Series, quantile};

/// Who loops.
const CROWD: usize = 500;
/// Jobs in the listing.
const LISTED: usize = 200;
/// What a person's shell takes for the next command, at the least.
const PAUSE: Duration = Duration::from_millis(5);

/// Submissions and starts, quiet and beside the crowd.
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
    let quiet = worker.jobs(count)?;
    let (ends, listings) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let (beside, rate) = thread::scope(|scope| {
        let crowd = scope.spawn(|| looping(&uri, &ends, &listings));
        // All are there and have had an answer or two.
        while listings.load(Ordering::Relaxed) < 2 * CROWD as u64 && !crowd.is_finished() {
            thread::sleep(PAUSE);
        }
        let (before, begun) = (listings.load(Ordering::Relaxed), Instant::now());
        let beside = worker.jobs(count);
        let made = listings.load(Ordering::Relaxed) - before;
        ends.store(true, Ordering::Relaxed);
        let ended = crowd.join();
        ended.map_err(|_| anyhow::anyhow!("the crowd panicked"))??;
        anyhow::Ok((beside?, made as f64 / begun.elapsed().as_secs_f64()))
    })?;
    let mut report = Report::default();
    let mut listed = Series::new("listings answered", "1/s");
    listed.figures.push(rate);
    report.add(&listed);
    add(&mut report, "quiet", &quiet, [None, None]);
    add(&mut report, "beside 500", &beside, [Some("<= 20 ms"), None]);
    let (slow, base) = (
        quantile(&beside.starts, 0.99),
        quantile(&quiet.starts, 0.99),
    );
    let mut share = Series::new("start p99, beside against quiet", "%");
    share.figures.push(slow * 100.0 / base);
    report.add_budgeted(&share, "<= 200 %");
    report.note(format!(
        "{CROWD} clients list {LISTED} jobs each, {count} jobs one after the other"
    ));
    Ok(report)
}

fn add(report: &mut Report, when: &str, seen: &Seen, budgets: [Option<&'static str>; 2]) {
    let all = [("submit", &seen.submits), ("submit to start", &seen.starts)];
    for ((what, figures), budget) in all.into_iter().zip(budgets) {
        for (share, called) in [(0.5, "p50"), (0.99, "p99")] {
            let mut series = Series::new(format!("{what} {called}, {when}"), "ms");
            series.figures.push(quantile(figures, share));
            match budget {
                Some(budget) if called == "p99" => report.add_budgeted(&series, budget),
                _ => report.add(&series),
            }
        }
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

/// The crowd, until it is told to go.
fn looping(uri: &Uri, ends: &Arc<AtomicBool>, listings: &Arc<AtomicU64>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut crowd = JoinSet::new();
        for _ in 0..CROWD {
            let client = Client::connect(uri, Options::default()).await?;
            crowd.spawn(one(client, Arc::clone(ends), Arc::clone(listings)));
        }
        while let Some(done) = crowd.join_next().await {
            done??;
        }
        Ok(())
    })
}

async fn one(
    client: Client,
    ends: Arc<AtomicBool>,
    listings: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    while !ends.load(Ordering::Relaxed) {
        let mut rows = client.stream::<List>(&ListRequest::default())?;
        while let Some(part) = rows.next().await {
            part?;
        }
        listings.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
