//! Passes in which those who wait take from those who run: what it costs to name them, and how that
//! grows with both.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_sched::policy::{Limits, preset};
use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::plan::{Delta, Owner, Verdict, Want};
use eddy_wire::preempt::{Preempts, QosRule};
use eddy_wire::time::{MICROS, Span, Time};

use super::growth::exponent;
use super::site::{CORES, EACH, Site, slots};
use crate::Setup;
use crate::process::own_cpu;
use crate::report::Report;
use crate::rounds::Series;

/// How many run and how many wait.
const SIZES: [(u64, u64); 3] = [(2_500, 25_000), (5_000, 50_000), (10_000, 100_000)];
/// Of so many accounts those are who take where accounts take turns.
const ACCOUNTS: u64 = 100;

/// Who takes from whom.
struct Case {
    policy: &'static str,
    holder: fn() -> Owner,
    taker: fn(u64) -> Owner,
}

/// By QoS over a walk, and for fair share among accounts.
const CASES: [Case; 2] = [
    Case {
        policy: "easy",
        holder: || of_qos("low"),
        taker: |_| of_qos("high"),
    },
    Case {
        policy: "armada",
        holder: || of_user(0),
        taker: |job| of_user(1 + job % ACCOUNTS),
    },
];

/// The first pass, which takes for as many as may have claims; and passes after a job ended.
pub fn run(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    CASES.iter().try_for_each(|case| by(case, setup, report))
}

fn by(case: &Case, setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let part = setup.count(100_000) as f64 / 1e5;
    let (mut first, mut after) = (Vec::new(), Vec::new());
    for (running, waiting) in SIZES {
        let waiting = (waiting as f64 * part).round() as u64;
        let (named, ended) = measure(case, (running, waiting), setup.rounds(10), report)?;
        first.push((running as f64, named));
        after.push((running as f64, ended));
    }
    for (what, points) in [
        ("the pass that takes", first),
        ("pass after one job ends", after),
    ] {
        let policy = case.policy;
        let name = format!("{policy} with preemption, {what}: growth with all jobs");
        let mut growth = Series::new(name, "power");
        growth.figures.push(exponent(&points));
        report.add_budgeted(&growth, "<= 1.3");
    }
    Ok(())
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn of_qos(qos: &str) -> Owner {
    Owner {
        qos: Some(name(qos)),
        ..Owner::default()
    }
}

fn of_user(user: u64) -> Owner {
    Owner {
        user: u32::try_from(user).expect("a small number"),
        class: Some(name("preemptible")),
        ..Owner::default()
    }
}

fn measure(
    case: &Case,
    (running, waiting): (u64, u64),
    rounds: usize,
    report: &mut Report,
) -> anyhow::Result<(f64, f64)> {
    let nodes = u32::try_from(running).expect("a small number") * EACH / CORES;
    let mut policy = preset(case.policy).expect("a preset");
    policy.queue.limits = Limits::default();
    let mut site = Site::new(policy, nodes);
    let high = QosRule {
        preempts: vec![name("low")],
        ..QosRule::default()
    };
    let rules = Preempts {
        qos: BTreeMap::from([(name("high"), high)]),
        grace: Span::seconds(5),
    };
    site.planner.apply(Delta::Preempts(Arc::new(rules)));
    let want = |site: &mut Site, job: u64, owner: Owner, count: u64| {
        let mut request = slots(count);
        request.duration = Some(3600 * MICROS);
        let want = Want {
            owner,
            submitted: site.now,
            eligible: site.now,
            ..Want::of(16, request)
        };
        site.planner.apply(Delta::Want(JobId(job), want));
    };
    for job in 1..=running {
        want(&mut site, job, (case.holder)(), 1);
    }
    plan(&mut site, |_| (case.holder)());
    for job in running + 1..=running + waiting {
        let count = 1 + site.dice(8);
        want(&mut site, job, (case.taker)(job), count);
    }
    let named = |what: &str| {
        format!(
            "{} with preemption, {running} run, {waiting} wait: {what}",
            case.policy
        )
    };
    let spent = own_cpu()?;
    site.now = Time(site.now.0 + 2 * MICROS);
    let taken = plan(&mut site, case.taker);
    let mut first = Series::new(named("the pass that takes"), "ms");
    first.figures.push((own_cpu()? - spent) * 1e3);
    report.add_budgeted(&first, "<= 1 s");
    let mut count = Series::new(named("taken from in it"), "jobs");
    count.figures.push(taken.len() as f64);
    report.add(&count);
    let mut after = Series::new(named("pass after one of them ended"), "ms");
    for job in taken.into_iter().take(rounds) {
        site.now = Time(site.now.0 + MICROS);
        site.planner.apply(Delta::Freed(job));
        let spent = own_cpu()?;
        plan(&mut site, case.taker);
        after.figures.push((own_cpu()? - spent) * 1e3);
    }
    report.add_budgeted(&after, "<= 10 ms");
    Ok((first.figures[0], after.summary().median))
}

/// Plans until nothing is left to say and records it; who is to end.
fn plan(site: &mut Site, owner: impl Fn(u64) -> Owner) -> Vec<JobId> {
    let mut taken = Vec::new();
    loop {
        let outcome = site.planner.plan(site.now, 128);
        for (job, verdict) in outcome.verdicts {
            match verdict {
                Verdict::Start(set) => site.planner.apply(Delta::Held(job, owner(job.0), set)),
                Verdict::Preempt { by, .. } => {
                    let until = site.now.after(Span::seconds(5));
                    site.planner.apply(Delta::Ending(job, Some(by), until));
                    taken.push(job);
                }
                Verdict::Never(reason) => panic!("job {job} fits: {reason}"),
            }
        }
        if !outcome.unfinished {
            return taken;
        }
    }
}
