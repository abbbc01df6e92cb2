//! `eddy sim`: replays a trace under policies and prints what each would do.
//!
//! Needs no instance: it reads files and writes figures. The library decides; this
//! shows how far it is and lays out the table. `input` reads, `report` and `chart`
//! make the page.

mod input;

mod report;

mod chart;

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};

use anyhow::{Context, bail};
use clap::ValueEnum;
use eddy_sched::policy::{NodeRank, Policy};
use eddy_sched::sim::{
    Course, Events, Foresight, Machine, Measures, Replay, Rounds, Scene, Way, Workload, way,
};
use eddy_sched::walk::Progress;
use eddy_wire::time::{MICROS, Time};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;
use crate::table::{Align, Table};

/// Replay a trace of jobs under policies and print what each would do
///
/// A trace is in the Standard Workload Format (the Parallel Workloads Archive has many) or a JSON
/// workload, {"procs": N, "jobs": [{"id", "submit", "run", "procs", "limit", "user", "group"}]};
/// either may be packed with gzip or xz. A policy is a preset of `eddy policy list`, hybrid-K, a row
/// of published tables (cons, cons-compress) or a file. The code is that of an instance; it needs
/// none.
///
/// Processors are counted, or with --resources are cores of nodes: a job is spread evenly over as
/// few nodes as have room for it on the empty machine. Policies whose accounts take turns (armada,
/// armada-legacy) need --resources. Formulas are made anew at the first event after each
/// priority.refresh. Users and groups of the trace are accounts, all with one share.
///
/// Times are in seconds. A bounded slowdown (BSLD) counts a run of less than 10 s as 10 s. FAIR is
/// usage against share over time: of the processors that users were due while they wanted them, by
/// max-min fairness (progressive filling, as in Bertsekas and Gallager, Data Networks) with equal
/// shares, the part that they had, looked at at 2000 instants; 1 is best, - is a trace of one user.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The trace; - is standard input
    #[arg(value_name = "TRACE")]
    trace: String,
    /// Processors of the machine, where the trace does not say or says otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    procs: Option<u64>,
    /// The nodes of the machine: a resource set R, version 1 (RFC 20)
    #[arg(long, value_name = "FILE", conflicts_with = "procs")]
    resources: Option<String>,
    /// A policy; may be given several times
    #[arg(long, value_name = "NAME|FILE", required = true)]
    policy: Vec<String>,
    /// Plan with the times that jobs will run instead of those that they ask for
    #[arg(long)]
    clairvoyant: bool,
    /// One pass for all that happens at an instant, or one for each event
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Order::Batch)]
    order: Order,
    /// Write a line `id start` for each job, in the order of ids; with one policy only
    #[arg(long, value_name = "FILE")]
    starts: Option<String>,
    /// Print a JSON object of figures by policy
    #[arg(long)]
    json: bool,
    /// Write a page with charts, which needs nothing else to be looked at
    #[arg(long, value_name = "FILE")]
    report: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  eddy sim KTH-SP2.swf.xz --policy easy --policy cons-compress --report kth.html
  eddy sim trace.swf --procs 154 --policy easy --starts starts.txt
  eddy sim trace.swf --resources R.json --policy armada --policy ours.toml
  eddy sim workload.json --policy hybrid-8 --clairvoyant --json";

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    /// Ends, then submissions, then one pass
    Batch,
    /// A pass after each submission and each end; submissions first
    PerEvent,
}

/// Instants between two looks at the progress bar.
const SLICE: u64 = 100;

/// A policy that was replayed.
struct Played {
    name: String,
    course: Course,
    figures: Measures,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    if args.starts.is_some() && args.policy.len() > 1 {
        bail!(
            "--starts: {} policies are given; allowed is one",
            args.policy.len()
        );
    }
    let policies = args.policy.iter().map(|given| input::policy(given));
    let policies: Vec<Policy> = policies.collect::<anyhow::Result<_>>()?;
    let machine = args.resources.as_ref();
    let machine = machine.map(|file| input::machine(file).with_context(|| file.clone()));
    let machine = machine.transpose()?;
    let workload = input::workload(&args.trace).with_context(|| args.trace.clone())?;
    let machine = match (machine, args.procs.or(workload.procs)) {
        (Some(machine), _) => machine,
        (None, Some(procs)) => Machine::count(procs),
        (None, None) => bail!(
            "{}: the trace does not say how many processors there are; give --procs",
            args.trace
        ),
    };
    let scene = Scene {
        workload: &workload,
        machine: &machine,
        foresight: match args.clairvoyant {
            true => Foresight::Clairvoyant,
            false => Foresight::Requested,
        },
        events: match args.order {
            Order::Batch => Events::Batch,
            Order::PerEvent => Events::Each,
        },
    };
    let named = args.policy.iter().zip(&policies);
    let played = named.map(|(name, policy)| {
        let course = replay(scene, name, policy).with_context(|| format!("--policy {name}"))?;
        Ok(Played {
            name: name.clone(),
            figures: Measures::new(&workload, &machine, &course),
            course,
        })
    });
    let played: Vec<Played> = played.collect::<anyhow::Result<_>>()?;
    if let (Some(file), Some(played)) = (&args.starts, played.first()) {
        write_starts(file, &workload, &played.course).with_context(|| file.clone())?;
    }
    if let Some(file) = &args.report {
        let page = report::page(&args.trace, scene, &played);
        std::fs::write(file, page).with_context(|| file.clone())?;
    }
    match args.json {
        true => output::json(&by_name(&played))?,
        false => table(&played).write(&mut output::stdout())?,
    }
    Ok(0)
}

/// In the order in which they were given.
fn by_name(played: &[Played]) -> serde_json::Map<String, serde_json::Value> {
    let figures = played.iter().map(|played| {
        let figures = serde_json::to_value(&played.figures);
        (played.name.clone(), figures.unwrap_or_default())
    });
    figures.collect()
}

fn replay(scene: Scene<'_>, name: &str, policy: &Policy) -> anyhow::Result<Course> {
    let bar = bar(name, scene.workload.jobs.len());
    let shown = |done: usize| bar.set_position(done as u64);
    let course = match (way(policy)?, scene.machine.nodes().is_empty()) {
        (Way::Rounds, _) => {
            let mut replay = Rounds::new(scene, policy)?;
            while let Progress::More = replay.slice(SLICE) {
                shown(replay.submitted());
            }
            replay.course()
        }
        (Way::Walk, true) => {
            let mut replay = Replay::on_count(scene, policy)?;
            while let Progress::More = replay.slice(SLICE) {
                shown(replay.submitted());
            }
            replay.course()
        }
        (Way::Walk, false) => {
            let mut replay = Replay::on_nodes(scene, policy)?;
            if policy.placement.rank != NodeRank::LowId {
                eprintln!("eddy sim: --policy {name}: placement.rank is replayed as \"low_id\"");
            }
            while let Progress::More = replay.slice(SLICE) {
                shown(replay.submitted());
            }
            replay.course()
        }
    };
    bar.finish_and_clear();
    Ok(course)
}

/// A bar that shows itself where a person waits; it draws at most a few times a second.
fn bar(name: &str, jobs: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} jobs, {eta} to go");
    let bar = ProgressBar::new(jobs as u64).with_message(name.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn write_starts(file: &str, workload: &Workload, course: &Course) -> anyhow::Result<()> {
    let started = workload.jobs.iter().zip(&course.starts);
    let mut starts: Vec<(u64, Time)> = started
        .filter_map(|(job, start)| start.map(|start| (job.id, start)))
        .collect();
    starts.sort_unstable();
    let mut out = BufWriter::new(File::create(file)?);
    for (id, start) in starts {
        match start.0 % MICROS {
            0 => writeln!(out, "{id} {}", start.0 / MICROS)?,
            _ => writeln!(out, "{id} {start}")?,
        }
    }
    Ok(out.flush()?)
}

/// The columns of figures; the first is the name of the policy.
const COLUMNS: [&str; 14] = [
    "MEAN WAIT",
    "MEDIAN",
    "P95",
    "MAX",
    "WIDEST 10%",
    "MEAN BSLD",
    "MAKESPAN",
    "UTIL",
    "FAIR",
    "BACKFILLED",
    "MAX QUEUE",
    "PASSES",
    "JOBS",
    "DROPPED",
];

/// What of figures stands in each column.
fn cells(of: &Measures) -> [String; 14] {
    [
        format!("{:.1}", of.mean_wait),
        format!("{:.0}", of.median_wait),
        format!("{:.0}", of.p95_wait),
        format!("{:.0}", of.max_wait),
        format!("{:.0}", of.widest_tenth_max_wait),
        format!("{:.2}", of.mean_bsld),
        format!("{:.0}", of.makespan),
        format!("{:.4}", of.utilisation),
        of.fairness
            .map_or("-".to_owned(), |fair| format!("{fair:.4}")),
        of.backfilled.to_string(),
        of.max_queue.to_string(),
        of.passes.to_string(),
        of.jobs.to_string(),
        of.dropped.to_string(),
    ]
}

fn table(played: &[Played]) -> Table {
    let numbers = COLUMNS.map(|column| (column, Align::Right));
    let mut table = Table::new([("POLICY", Align::Left)].into_iter().chain(numbers));
    for Played { name, figures, .. } in played {
        let row = [name.clone()].into_iter().chain(cells(figures));
        table.push(row.collect());
    }
    table
}
