//! How long people wait after a leader was killed: an instance with many finished and many running jobs
//! is ended by SIGKILL, started again on its state directory, and has to run a job. Tasks are pretended.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Setup;
use crate::instance::{Instance, wait_until};
use crate::report::Report;
use crate::rounds::Series;

/// Jobs that run while the leader dies.
const RUNNING: usize = 1_000;
const ALL_START_WITHIN: Duration = Duration::from_secs(60);

/// Time until the leader is ready and until it has run a job, and one job without a restart.
///
/// # Errors
/// The instance does not start again, or has lost a job.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let finished = setup.count(64_000);
    let mut instance = Instance::start(setup, &["--fake", "nodes=1,cores=1024"])?;
    instance.submit_many(finished, &["--wait", "true"])?;
    instance.submit_many(RUNNING, &["-S", "exec.test.run_duration=86400s", "true"])?;
    wait_until("all jobs to run", ALL_START_WITHIN, || {
        Ok(running(&instance)? == RUNNING)
    })?;

    let mut calm = Series::new("eddy run true, without a restart", "ms");
    let mut ready = Series::new("eddy start: ready again", "ms");
    let mut scheduling = Series::new("the same, and a job has run", "ms");
    for _ in 0..setup.rounds(5) {
        calm.figures
            .push(instance.run(&["run", "true"])?.wall * 1e3);
        instance.kill_leader()?;
        let begun = Instant::now();
        instance.start_again()?;
        ready.figures.push(begun.elapsed().as_secs_f64() * 1e3);
        instance.run(&["run", "true"])?;
        scheduling.figures.push(begun.elapsed().as_secs_f64() * 1e3);
        let still = running(&instance)?;
        anyhow::ensure!(
            still == RUNNING,
            "{still} of {RUNNING} jobs run after the restart"
        );
    }
    let mut report = Report::default();
    report.add(&calm);
    report.add(&ready);
    report.add_budgeted(&scheduling, "<= 2 s, goal <= 0.5 s");
    report.note(format!("{finished} finished and {RUNNING} running jobs"));
    Ok(report)
}

fn running(instance: &Instance) -> anyhow::Result<usize> {
    let listing: Vec<Value> = serde_json::from_str(&instance.output(&["jobs", "--json"])?)?;
    Ok(listing
        .iter()
        .filter(|job| {
            job["state"]
                .as_str()
                .is_some_and(|state| state.eq_ignore_ascii_case("run"))
        })
        .count())
}
