//! Whether what people are told of starts is true: a trace through a root in the world that is asked
//! as each job comes. No clock but for how long that takes.

use anyhow::{Context, anyhow};
use eddy_sched::sim::Workload;
use eddy_wire::time::Span;
use eddy_world::trial::eta::{Asking, Asks, Promises, Truth, play};

use crate::report::Report;
use crate::rounds::Series;
use crate::{Setup, trace};

/// One of so many advised is changed so: enough of the trace are advised that a thousand follow.
const FOLLOWED_IN: usize = 4;
/// So many of those that were misled are named.
const SHOWN_MAX: usize = 5;

/// How often what was told held.
///
/// # Errors
/// There is no trace, or a promise is broken.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let Some((mut workload, procs)) = trace::kth()? else {
        report.note("nothing: EDDY_TRACES names no folder with predictsim-KTH-SP2.swf(.xz)");
        return Ok(report);
    };
    workload.jobs.truncate(setup.count(usize::MAX));
    let cores = u32::try_from(procs).context("so many processors")?;
    for (policy, promises) in [("easy", Promises::First), ("conservative", Promises::All)] {
        let asking = Asking {
            nodes: 1,
            cores,
            message: Span::ZERO,
            queues: Vec::new(),
            policy: format!("preset = \"{policy}\""),
            promises,
            one_in: 1,
            asks: Asks::Cores,
            followed_in: 0,
            running: None,
            lends: None,
        };
        told(&mut report, policy, &played(&workload, &asking)?);
    }
    let asking = Asking {
        nodes: 1,
        cores,
        message: Span::ZERO,
        queues: vec!["a", "b"],
        policy: "preset = \"easy\"".to_owned(),
        promises: Promises::First,
        one_in: 1,
        asks: Asks::Cores,
        followed_in: FOLLOWED_IN,
        running: None,
        lends: None,
    };
    let truth = played(&workload, &asking)?;
    told(&mut report, "easy, two queue instances", &truth);
    let name = "easy, two queue instances: changed as advised".to_owned();
    report.add(&series(name, "jobs", truth.followed as f64));
    let name = "easy, two queue instances: of these not started at once".to_owned();
    report.add_budgeted(&series(name, "jobs", truth.misled.len() as f64), "0");
    for (place, advice) in truth.misled.iter().take(SHOWN_MAX) {
        report.note(format!("line {place} of the trace was advised {advice:?}"));
    }
    report.note(format!(
        "{} jobs on {procs} processors",
        workload.jobs.len()
    ));
    Ok(report)
}

fn told(report: &mut Report, what: &str, truth: &Truth) {
    let row = |name: &str| format!("{what}: {name}");
    report.add(&series(row("asked about"), "jobs", truth.asked as f64));
    report.add(&series(
        row("promised a start"),
        "jobs",
        truth.promised as f64,
    ));
    let late = series(
        row("started later than that"),
        "jobs",
        truth.late.len() as f64,
    );
    report.add_budgeted(&late, "0");
    let held = series(row("started when likely"), "%", 100.0 * truth.coverage());
    report.add_budgeted(&held, "75 to 85 %");
    let width = series(row("width of that"), "of the wait told", truth.width);
    report.add(&width);
}

fn series(name: String, unit: &'static str, figure: f64) -> Series {
    Series {
        name,
        unit,
        figures: vec![figure],
    }
}

fn played(workload: &Workload, asking: &Asking) -> anyhow::Result<Truth> {
    play(workload, asking).map_err(|why| anyhow!(why))
}
