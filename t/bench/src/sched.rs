//! The planner alone: what a pass costs under several policies, how fast free
//! nodes are given out, what a refresh of priorities and of fair shares costs. CPU
//! of this process, since there is no other.

use std::sync::Arc;

use anyhow::Context as _;
use eddy_sched::Planner;
use eddy_sched::policy::{Limits, NodeRank, Policy, Shape, preset};
use eddy_sched::priority::{Column, Formula, Names, Order, Program};
use eddy_sched::share::{Account, Members, Shares, Tree, Usage, classic, fair_tree};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, Takes, Work};
use eddy_wire::plan::{Delta, Owner, Verdict, Want};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::time::{MICROS, Time};

use crate::Setup;
use crate::process::{memory_of, own_cpu};
use crate::report::Report;
use crate::rounds::Series;

/// Cores of each node.
const CORES: u32 = 32;
/// Cores of the jobs that fill them.
const EACH: u32 = 4;
const USERS: u64 = 1000;
/// Verdicts of one slice, as in an instance.
const STEPS: u32 = 128;
const BEGIN: Time = Time(1_000_000 * MICROS);

/// Passes of the planner, then priorities and shares.
///
/// # Errors
/// A figure of this process cannot be read.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let waiting = setup.count(100_000) as u64;
    let mut report = Report::default();
    for (policy, nodes) in [
        ("fcfs", 10_000),
        ("easy", 10_000),
        ("hybrid", 1000),
        ("flux", 1000),
        ("armada", 1000),
        ("armada-legacy", 1000),
    ] {
        let obeyed = preset(policy).expect("a preset of that name");
        passes(
            (policy, obeyed),
            nodes,
            waiting,
            setup.rounds(5),
            &mut report,
        )?;
    }
    for (name, rank) in [
        ("high_id", NodeRank::HighId),
        ("pack", NodeRank::Pack),
        ("spread", NodeRank::Spread),
        ("best_fit", NodeRank::BestFit),
        ("locality", NodeRank::Locality),
    ] {
        let mut obeyed = preset("easy").expect("a preset of that name");
        obeyed.placement.rank = rank;
        let named = format!("easy by {name}");
        passes(
            (&named, obeyed),
            10_000,
            waiting,
            setup.rounds(5),
            &mut report,
        )?;
    }
    priorities(setup.rounds(5), &mut report)?;
    shares(setup.rounds(5), &mut report)?;
    report.note(format!(
        "{waiting} wait; nodes of {CORES} cores, filled with jobs of {EACH}; budgets: 10 ms after one \
         job ends, 100,000 starts a second, 100 ms for a refresh, 50 ms for shares"
    ));
    Ok(report)
}

fn passes(
    (policy, mut obeyed): (&str, Policy),
    nodes: u32,
    waiting: u64,
    rounds: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let before = memory_of(std::process::id())?;
    // What is measured are passes, not how few may be started in a second.
    obeyed.queue.limits = Limits::default();
    let mut site = Site::new(obeyed, nodes);
    let running = u64::from(nodes * CORES / EACH);
    let named = |what: &str| format!("{policy}, {nodes} nodes: {what}");
    for job in 1..=running {
        site.want(job, slots(1));
    }
    let spent = own_cpu()?;
    let started = site.plan();
    let mut starts = Series::new(named("starts"), "jobs/s");
    starts.figures.push(started as f64 / (own_cpu()? - spent));
    report.add_budgeted(
        &starts,
        ">= 100,000 (fcfs, easy), >= 20,000 by other placements",
    );
    for job in running + 1..=running + waiting {
        let request = match site.dice(10) {
            0..6 => slots(1 + site.dice(8)),
            6..9 => whole(1 + site.dice(64), Sharing::Shared),
            _ => whole(1 + site.dice(u64::from(nodes) / 10), Sharing::Exclusive),
        };
        site.want(job, request);
    }
    let spent = own_cpu()?;
    site.plan();
    let mut first = Series::new(named("first pass"), "ms");
    first.figures.push((own_cpu()? - spent) * 1e3);
    report.add_budgeted(&first, "<= 1 s");
    let mut after = Series::new(named("pass after one job ends"), "ms");
    for job in 1..=rounds as u64 {
        site.now = Time(site.now.0 + MICROS);
        site.planner.apply(Delta::Freed(JobId(job * 7)));
        let spent = own_cpu()?;
        site.plan();
        after.figures.push((own_cpu()? - spent) * 1e3);
    }
    report.add_budgeted(&after, "<= 10 ms");
    let mut memory = Series::new(named("memory, all told"), "MB");
    memory.figures.push(memory_of(std::process::id())? - before);
    report.add(&memory);
    Ok(())
}

/// A planner and what is to be known to feed it.
struct Site {
    planner: Planner,
    now: Time,
    seed: u64,
}

impl Site {
    fn new(policy: Policy, nodes: u32) -> Site {
        let node = |rank: u32| {
            let node = NodeSet {
                host: format!("n{rank}").into(),
                cores: Idset::first_ids(CORES),
                gpus: Idset::new(),
                memory: 0,
            };
            (Rank(rank), node)
        };
        let set = ResourceSet {
            nodes: (0..nodes).map(node).collect(),
            ..ResourceSet::default()
        };
        let mut planner = Planner::with(policy);
        planner.apply(Delta::Inventory(Arc::new(set)));
        planner.apply(Delta::Up(Idset::first_ids(nodes)));
        Site {
            planner,
            now: BEGIN,
            seed: 88_172_645_463_325_252,
        }
    }

    /// A number below that, of a fixed row (xorshift, Marsaglia 2003).
    fn dice(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    fn want(&mut self, job: u64, request: Request) {
        let seconds = 600 + i64::try_from(self.dice(86_400)).expect("a small number");
        let duration = Some(seconds * MICROS);
        let request = Request {
            duration,
            ..request
        };
        let want = Want {
            owner: owner(job),
            submitted: self.now,
            eligible: self.now,
            ..Want::of(16, request)
        };
        self.planner.apply(Delta::Want(JobId(job), want));
    }

    /// Plans until nothing is left to say and records it; how many start.
    fn plan(&mut self) -> usize {
        let mut started = 0;
        loop {
            let outcome = self.planner.plan(self.now, STEPS);
            for (job, verdict) in outcome.verdicts {
                if let Verdict::Start(set) = verdict {
                    self.planner.apply(Delta::Held(job, owner(job.0), set));
                    started += 1;
                }
            }
            if !outcome.unfinished {
                return started;
            }
        }
    }
}

fn owner(job: u64) -> Owner {
    Owner {
        user: u32::try_from(job % USERS).expect("a small number"),
        ..Owner::default()
    }
}

fn slots(count: u64) -> Request {
    let slots = u32::try_from(count).expect("a small number");
    Request {
        takes: Takes::Resources,
        ranks: None,
        work: Work::Tasks,
        nodes: None,
        slots,
        slots_per_node: slots,
        cores_per_slot: EACH,
        gpus_per_slot: 0,
        memory: MemoryNeed::None,
        sharing: Sharing::Shared,
        ntasks: slots,
        duration: None,
    }
}

fn whole(count: u64, sharing: Sharing) -> Request {
    Request {
        nodes: Some(u32::try_from(count).expect("a small number")),
        slots_per_node: 1,
        cores_per_slot: CORES,
        sharing,
        ..slots(count)
    }
}

/// A refresh of the priorities of 1,000,000 jobs of 10,000 associations: values, then their order.
fn priorities(rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    const JOBS: usize = 1_000_000;
    const ASSOCIATIONS: usize = 10_000;
    let names = Names::new(["wait", "fair_share", "size"]);
    let formula = Formula::parse("10000 * wait + 100000 * fair_share + 1000 * size", &names);
    let program = Program::new(&formula.context("the formula")?);
    let ids: Vec<u64> = (0..JOBS as u64).collect();
    let at: Vec<f64> = ids.iter().map(|id| (id % 86_400) as f64).collect();
    let size: Vec<f64> = ids.iter().map(|id| (id % 97) as f64 / 97.0).collect();
    let of: Vec<u32> = (0..JOBS as u32)
        .map(|id| id % ASSOCIATIONS as u32)
        .collect();
    let table: Vec<f64> = (0..ASSOCIATIONS)
        .map(|at| at as f64 / ASSOCIATIONS as f64)
        .collect();
    let (mut order, mut values) = (Order::new(), Vec::new());
    let mut series = Series::new("refresh of 1,000,000 priorities", "ms");
    for round in 0..=rounds {
        let now = 100_000.0 + round as f64;
        let whole = 604_800.0;
        let columns = [
            Column::Since {
                at: &at,
                now,
                whole,
            },
            Column::Of {
                table: &table,
                of: &of,
            },
            Column::Each(&size),
        ];
        let spent = own_cpu()?;
        program.run(&columns, JOBS, &mut values);
        order.refresh(&[&values], &ids);
        // The first has no order to mend.
        if round > 0 {
            series.figures.push((own_cpu()? - spent) * 1e3);
        }
    }
    report.add_budgeted(&series, "<= 100 ms");
    Ok(())
}

/// Shares of 100,000 users in 1,000 accounts.
fn shares(rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let user = |at: i64| Account {
        name: format!("u{at}"),
        shares: Shares::Of(1 + at % 7),
        members: Members::User,
    };
    let account = |at: i64| Account {
        name: format!("a{at}"),
        shares: Shares::Of(1 + at % 13),
        members: Members::Under((0..100).map(user).collect()),
    };
    let accounts: Vec<Account> = (0..1000).map(account).collect();
    let tree = Tree::new(&accounts).context("the tree")?;
    let usage = Usage::new(
        &tree,
        |id| f64::from(id.0.wrapping_mul(2_654_435_761) >> 8),
        None,
    );
    let mut ranked = Series::new("fair tree of 100,000 users", "ms");
    let mut shaped = Series::new("classic shares of 100,000 users", "ms");
    for _ in 0..rounds {
        let spent = own_cpu()?;
        std::hint::black_box(fair_tree::ranks(&tree, &usage));
        ranked.figures.push((own_cpu()? - spent) * 1e3);
        let spent = own_cpu()?;
        std::hint::black_box(classic::factors(&tree, &usage, Shape::Exp2, 1.0));
        shaped.figures.push((own_cpu()? - spent) * 1e3);
    }
    report.add_budgeted(&ranked, "<= 50 ms");
    report.add_budgeted(&shaped, "<= 50 ms");
    Ok(())
}
