//! Passes of the planner of an instance: from scratch, and after one job ends.

use eddy_sched::policy::{Limits, NodeRank, preset};
use eddy_wire::id::JobId;
use eddy_wire::plan::Delta;
use eddy_wire::time::{MICROS, Span};

use super::growth::exponent;
use super::site::{CORES, EACH, Site, slots};
use crate::Setup;
use crate::process::{own_cpu, own_memory};
use crate::report::Report;
use crate::rounds::Series;

/// What is planned, and what it may cost.
struct Case {
    policy: &'static str,
    /// Where not that of the policy.
    rank: Option<NodeRank>,
    nodes: u32,
    waiting: u64,
    /// Of a pass after one job ends.
    budget: &'static str,
    /// Of one in which priorities are made anew, where what is used changes them.
    refresh: Option<&'static str>,
}

/// Every policy on the machine it is budgeted on.
const CASES: &[Case] = &[
    case("fcfs", 10_000, 1000, "<= 10 ms"),
    case("fcfs", 10_000, 100_000, "<= 10 ms"),
    case("easy", 10_000, 1000, "<= 10 ms"),
    case("easy", 10_000, 100_000, "<= 10 ms, goal 1 ms"),
    case("easy", 10_000, 1_000_000, "<= 50 ms"),
    case("hybrid", 1000, 100_000, "<= 10 ms"),
    case("hybrid", 10_000, 100_000, "<= 10 ms"),
    case("conservative", 1000, 1000, "-"),
    case("conservative", 10_000, 1000, "-"),
    by_use("flux", 100_000, "<= 10 ms"),
    by_use("flux", 1_000_000, "<= 50 ms"),
    by_use("slurm-fair-tree", 100_000, "<= 10 ms"),
    case("armada", 1000, 100_000, "<= 10 ms"),
    case("armada-legacy", 1000, 100_000, "<= 10 ms"),
    easy_by(NodeRank::HighId),
    easy_by(NodeRank::Pack),
    easy_by(NodeRank::Spread),
    easy_by(NodeRank::BestFit),
    easy_by(NodeRank::Locality),
];

const fn case(policy: &'static str, nodes: u32, waiting: u64, budget: &'static str) -> Case {
    Case {
        policy,
        rank: None,
        nodes,
        waiting,
        budget,
        refresh: None,
    }
}

const fn by_use(policy: &'static str, waiting: u64, budget: &'static str) -> Case {
    Case {
        refresh: Some("<= 100 ms"),
        ..case(policy, 1000, waiting, budget)
    }
}

const fn easy_by(rank: NodeRank) -> Case {
    Case {
        rank: Some(rank),
        ..case("easy", 10_000, 100_000, "<= 10 ms")
    }
}

/// Every case, the number of those who wait in proportion to `count` of 100,000.
pub fn run(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let part = setup.count(100_000) as f64 / 1e5;
    let (mut first, mut after) = (Vec::new(), Vec::new());
    for case in CASES {
        let waiting = (case.waiting as f64 * part).round() as u64;
        let (scratch, ended) = measure(case, waiting, setup.rounds(10), report)?;
        if case.policy == "easy" && case.rank.is_none() {
            first.push((waiting as f64, scratch));
            after.push((waiting as f64, ended));
        }
    }
    for (what, points) in [("first pass", first), ("pass after one job ends", after)] {
        let mut growth = Series::new(format!("easy, {what}: growth with those who wait"), "power");
        growth.figures.push(exponent(&points));
        report.add_budgeted(&growth, "<= 1.1");
    }
    Ok(())
}

fn measure(
    case: &Case,
    waiting: u64,
    rounds: usize,
    report: &mut Report,
) -> anyhow::Result<(f64, f64)> {
    let nodes = case.nodes;
    let by = case
        .rank
        .map_or_else(String::new, |rank| format!(" by {rank:?}"));
    let policy = format!("{}{by}", case.policy);
    let named = |what: &str| format!("{policy}, {nodes} nodes, {waiting} wait: {what}");
    let mut obeyed = preset(case.policy).expect("a preset of that name");
    if let Some(rank) = case.rank {
        obeyed.placement.rank = rank;
    }
    // What is measured are passes, not how few may be started in a second.
    obeyed.queue.limits = Limits::default();
    let every = obeyed.queue.replan_every;
    let before = own_memory();
    let mut site = Site::new(obeyed, nodes);
    let running = u64::from(nodes * CORES / EACH);
    for job in 1..=running {
        site.want(job, slots(1));
    }
    let spent = own_cpu()?;
    let started = site.plan();
    let mut starts = Series::new(named("starts"), "jobs/s");
    starts.figures.push(started as f64 / (own_cpu()? - spent));
    report.add_budgeted(&starts, ">= 100,000 (fcfs, easy), >= 20,000 by others");
    let mut memory = Series::new(named("memory of a node with its jobs"), "B");
    memory
        .figures
        .push((own_memory() - before) * 1e6 / f64::from(nodes));
    report.add(&memory);
    let before = own_memory();
    site.crowd(running + 1..=running + waiting);
    let mut memory = Series::new(named("memory of one who waits"), "B");
    memory
        .figures
        .push((own_memory() - before) * 1e6 / waiting as f64);
    // Where all is planned anew only so often, it is now.
    site.now = site.now.after(every.unwrap_or(Span::ZERO));
    let spent = own_cpu()?;
    site.plan();
    let mut first = Series::new(named("first pass"), "ms");
    first.figures.push((own_cpu()? - spent) * 1e3);
    report.add_budgeted(&first, "<= 1 s");
    let mut after = Series::new(named("pass after one job ends"), "ms");
    let mut refreshed = Series::new(named("the same, priorities made anew"), "ms");
    after_ends(&mut site, rounds, (&mut after, &mut refreshed))?;
    report.add_budgeted(&after, case.budget);
    if let Some(budget) = case.refresh {
        report.add_budgeted(&refreshed, budget);
    }
    if let Some(every) = every {
        let mut anew = Series::new(named("the same, all planned anew"), "ms");
        for job in (1..=running).rev().take(rounds) {
            anew.figures.push(after_end(&mut site, every, job)?);
        }
        report.add_budgeted(&anew, "<= 1 % of a core");
    }
    report.add(&memory);
    Ok((first.figures[0], after.summary().median))
}

/// One job ends after the other. Priorities are made anew each second, which is told apart from what
/// follows each end.
fn after_ends(
    site: &mut Site,
    rounds: usize,
    (after, refreshed): (&mut Series, &mut Series),
) -> anyhow::Result<()> {
    for round in 1..=rounds as u64 {
        for (series, later, job) in [
            (&mut *refreshed, MICROS, 2 * round),
            (&mut *after, MICROS / 1000, 2 * round + 1),
        ] {
            series.figures.push(after_end(site, Span(later), job * 7)?);
        }
    }
    Ok(())
}

/// What a pass takes, in milliseconds, after a job ended that much later.
fn after_end(site: &mut Site, later: Span, job: u64) -> anyhow::Result<f64> {
    site.now = site.now.after(later);
    site.planner.apply(Delta::Freed(JobId(job)));
    let spent = own_cpu()?;
    site.plan();
    Ok((own_cpu()? - spent) * 1e3)
}
