//! A round over accounts that take turns: all that runs is put back and placed again.

use eddy_sched::amounts::{Amounts, Kinds, UNIT};
use eddy_sched::policy::preset;
use eddy_sched::rounds::{Account, Job, Node, Run, State, schedule};
use eddy_wire::id::JobId;
use eddy_wire::time::{Span, Time};

use super::growth::exponent;
use crate::Setup;
use crate::process::own_cpu;
use crate::report::Report;
use crate::rounds::Series;

/// 1,000 accounts, 10,000 running jobs and as many that wait; a tenth of it for the growth.
pub fn run(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    for policy in ["armada", "armada-legacy"] {
        let mut points = Vec::new();
        for (accounts, runs) in [(100, 1000), (1000, 10_000)] {
            let name = format!("{policy}: round of {accounts} accounts, {runs} run, {runs} wait");
            let mut series = Series::new(name, "ms");
            let state = state(accounts, runs)?;
            let policy = preset(policy).expect("a preset of that name");
            for _ in 0..setup.rounds(3) {
                let spent = own_cpu()?;
                std::hint::black_box(schedule(&state, &policy));
                series.figures.push((own_cpu()? - spent) * 1e3);
            }
            points.push((runs as f64, series.summary().median));
            report.add_budgeted(&series, "<= 1 s");
        }
        let mut growth = Series::new(format!("{policy}: growth with jobs and accounts"), "power");
        growth.figures.push(exponent(&points));
        report.add_budgeted(&growth, "<= 1.2");
    }
    Ok(())
}

/// Nodes that are full of jobs of a few accounts, while all others wait.
fn state(accounts: u64, runs: u64) -> anyhow::Result<State> {
    let amounts = |cores: i64| {
        let mut amounts = Amounts::NONE;
        (amounts[0], amounts[1]) = (cores * UNIT, cores * UNIT);
        amounts
    };
    let job = |id: u64, account: u64| Job {
        id: JobId(id),
        account: format!("a{account}"),
        submit: Time(i64::try_from(id).expect("a small number")),
        request: amounts(4),
        grace: Span::seconds(10),
        ..Job::default()
    };
    let node = |rank: u64| Node {
        rank: u32::try_from(rank).expect("a small number"),
        capacity: amounts(32),
        ..Node::default()
    };
    let run = |at: u64| Run {
        start: Time(0),
        job: job(1 + at, at % (accounts / 10)),
        node: u32::try_from(at / 8).expect("a small number"),
        priority: None,
    };
    Ok(State {
        now: Time(1),
        kinds: Kinds::new(["cpu", "memory"])?,
        nodes: (0..runs.div_ceil(8)).map(node).collect(),
        jobs: (0..runs)
            .map(|at| job(1 + runs + at, at % accounts))
            .collect(),
        runs: (0..runs).map(run).collect(),
        accounts: (0..accounts)
            .map(|at| Account::new(format!("a{at}")))
            .collect(),
        ..State::default()
    })
}
