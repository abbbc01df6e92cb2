//! Walks over a count of processors, as the simulator takes them: 100,000 wait, one pass from scratch
//! and one after a job ends early, in slices; and whole replays.

use eddy_sched::sim::{Events, Foresight, Machine, Replay, Scene, SimJob, Workload, named};
use eddy_sched::walk::{Agenda, Count, Job, Progress, Room as _, Rules};
use eddy_wire::time::{MICROS, Span, Time};

use super::growth::exponent;
use crate::Setup;
use crate::process::own_cpu;
use crate::report::Report;
use crate::rounds::Series;

/// Processors of the machine of the published rows.
const PROCS: u64 = 80_640;
/// Looks of a slice.
const STEPS: u64 = 4096;
const POLICIES: [(&str, &str); 6] = [
    ("fcfs", "<= 0.05 s"),
    ("easy", "<= 0.05 s"),
    ("hybrid-8", "<= 0.05 s"),
    ("hybrid-64", "<= 0.05 s"),
    ("cons", "<= 5 s"),
    ("cons-compress", "<= 5 s"),
];
const REPLAYED: [&str; 8] = [
    "fcfs",
    "easy",
    "easy-sjbf",
    "easy-sjf",
    "easy-saf",
    "hybrid-8",
    "cons",
    "cons-compress",
];

/// Passes of 10,000 and 100,000 jobs, a replay of 300,000, and KTH where `EDDY_TRACES` has it.
pub fn run(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let waiting = setup.count(100_000) as u64;
    for (policy, budget) in POLICIES {
        let few = passes(policy, waiting / 10)?;
        let many = passes(policy, waiting)?;
        for (at, what) in ["from scratch", "after an early end"].iter().enumerate() {
            let name = format!("{policy}, {waiting} wait on {PROCS} processors, {what}");
            let budget = if at == 0 { "<= 5 s" } else { budget };
            let figure = |name: String, unit, figure: f64| Series {
                name,
                unit,
                figures: vec![figure],
            };
            report.add_budgeted(&figure(name.clone(), "s", many.cost[at]), budget);
            let slice = format!("{name}: longest slice of {STEPS} looks");
            report.add(&figure(slice, "ms", many.longest[at] * 1e3));
            let points = [(&few, waiting / 10), (&many, waiting)];
            let points = points.map(|(spent, jobs)| (jobs as f64, spent.cost[at]));
            let grows = figure(format!("{name}: growth"), "power", exponent(&points));
            report.add_budgeted(&grows, "<= 1.2");
        }
    }
    replays(setup, report)
}

/// Seconds from scratch and after an early end, of all and of the longest slice.
struct Spent {
    cost: [f64; 2],
    longest: [f64; 2],
}

fn passes(policy: &str, waiting: u64) -> anyhow::Result<Spent> {
    let policy = named(policy)?;
    let mut room = Count::new(PROCS);
    let mut agenda = Agenda::new(Rules::from(&policy.queue));
    let mut dice = Dice(88_172_645_463_325_252);
    // All is held, by jobs of 64 processors that end one after the other.
    for at in 0..PROCS / 64 {
        room.take(&64, Time(0), Span::seconds(600 + 60 * at as i64));
    }
    for job in 0..waiting {
        let need = dice.procs();
        let limit = Span::seconds(60 + dice.below(86_400) as i64);
        let since = Time(0);
        agenda.enter(job, Job { need, since }, Some(limit), &room);
    }
    let mut spent = Spent {
        cost: [0.0; 2],
        longest: [0.0; 2],
    };
    for (at, now) in [Time(0), Time(MICROS)].into_iter().enumerate() {
        if at == 1 {
            room.give(&64, now, Span(600 * MICROS - now.0));
            agenda.freed();
        }
        let mut out = Vec::new();
        loop {
            let begun = own_cpu()?;
            let progress = agenda.pass(&mut room, now, STEPS, &mut out);
            let took = own_cpu()? - begun;
            spent.cost[at] += took;
            spent.longest[at] = spent.longest[at].max(took);
            if progress == Progress::Done {
                break;
            }
        }
    }
    Ok(spent)
}

fn replays(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let jobs = setup.count(100_000) * 3;
    let workload = drawn(jobs as u64);
    let name = format!("replay of {jobs} jobs on {PROCS} processors, easy");
    let cost = replay(&workload, PROCS, "easy")?;
    let series = |name: String, cost| Series {
        name,
        unit: "s",
        figures: vec![cost],
    };
    report.add_budgeted(&series(name, cost), "<= 10 s");
    let Some((trace, procs)) = crate::trace::kth()? else {
        report.note("no rows of KTH: EDDY_TRACES names no folder with predictsim-KTH-SP2.swf(.xz)");
        return Ok(());
    };
    for policy in REPLAYED {
        let cost = replay(&trace, procs, policy)?;
        let name = format!("KTH, {policy}: replay");
        report.add_budgeted(&series(name, cost), "<= 0.5 s (easy)");
    }
    Ok(())
}

fn replay(workload: &Workload, procs: u64, policy: &str) -> anyhow::Result<f64> {
    let machine = Machine::count(procs);
    let scene = Scene {
        workload,
        machine: &machine,
        foresight: Foresight::Requested,
        events: Events::Batch,
    };
    let spent = own_cpu()?;
    let mut replay = Replay::on_count(scene, &named(policy)?)?;
    while replay.slice(STEPS) == Progress::More {}
    std::hint::black_box(replay.course());
    Ok(own_cpu()? - spent)
}

/// Jobs that keep a machine busy: widths and lengths over some orders, half ask for too long.
fn drawn(jobs: u64) -> Workload {
    let mut dice = Dice(88_172_645_463_325_252);
    let mut submit = 0;
    let job = |id: u64| {
        submit += dice.below(300) as i64 * MICROS;
        let limit = Span::seconds(60 << dice.below(11));
        let run = match dice.below(2) {
            0 => limit,
            _ => Span(limit.0 * (1 + dice.below(99) as i64) / 100),
        };
        SimJob {
            id,
            submit: Time(submit),
            procs: dice.procs(),
            run,
            limit: Some(limit),
            owner: 0,
            nodes: None,
            terms: 0,
        }
    };
    Workload {
        jobs: (1..=jobs).map(job).collect(),
        ..Workload::default()
    }
}

/// Xorshift (Marsaglia 2003).
struct Dice(u64);

impl Dice {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    /// Most are narrow, some wide.
    fn procs(&mut self) -> u64 {
        let octave = self.below(14);
        (1 << octave) + self.below(1 << octave)
    }
}
