//! `eddy sim`: replays a trace, or the history of an instance, under policies and
//! prints what each would do.
//!
//! It reads and writes figures; only `--history` asks an instance. The library
//! decides; this shows how far it is and lays out the table. `input` and `recorded`
//! read, `report` and `chart` make the page.

mod input;

mod recorded;

mod report;

mod chart;

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};

use anyhow::{Context, bail};
use clap::ValueEnum;
use eddy_sched::policy::Policy;
use eddy_sched::sim::{Course, Events, Foresight, Machine, Measures, Scene, Workload, play};
use eddy_wire::time::{MICROS, Time};
use indicatif::{ProgressBar, ProgressStyle};
use input::Given;

use crate::number::number;
use crate::output;
use crate::session::Global;
use crate::table::{Align, Table};

/// Replay a trace of jobs, or the history of an instance, under policies and print what each would do
///
/// A trace is in the Standard Workload Format (the Parallel Workloads Archive has many) or a JSON
/// workload, {"procs": N, "jobs": [{"id", "submit", "run", "procs", "nodes", "jobspec", "limit", "user",
/// "group", "queue", "qos", "class", "urgency"}], "shares": {ACCOUNT: N}}; either may be packed with gzip
/// or xz. A job has "procs" (and "nodes"), or a "jobspec" (RFC 25), whose properties, sockets, GPUs, memory
/// and whole nodes are obeyed on the nodes of --resources.
/// A policy is a preset of `eddy policy list`, hybrid-K, a row of published tables (cons,
/// cons-compress) or a file. The code is that of an instance; it needs none.
///
/// A history is a state directory, whose instance may run meanwhile and is not disturbed; what
/// `eddy jobs -a -A -c 0 --json` printed; or with --history, what the instance that --at means lists. Its
/// first line, `recorded`, is what happened. The machine is that of the instance. A job comes when it
/// could first have started, holds its cores from their grant until they are free, and is charged to
/// its account, bank or project. What its jobspec asks of nodes is obeyed; with --procs, only how many
/// cores it had. Jobs that were not started or took no cores are left out.
///
/// Processors are counted, or with --resources are cores of nodes: a job is spread evenly over the
/// nodes that it asks for, or over as few as have room for it on the empty machine. Policies whose
/// accounts take turns (armada, armada-legacy) need --resources. Formulas are made anew at the first
/// event after each priority.refresh. Users and groups of the trace are accounts, with the shares that
/// the workload or --shares gives them, otherwise one each.
///
/// Times are in seconds. A bounded slowdown (BSLD) counts a run of less than 10 s as 10 s. FAIR is
/// usage against share over time: of the processors that users were due while they wanted them, by
/// max-min fairness (progressive filling, as in Bertsekas and Gallager, Data Networks) by their shares,
/// the part that they had, looked at at 2000 instants; 1 is best, - is a trace of one user.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The trace, or a state directory; - is standard input
    #[arg(value_name = "TRACE|DIR", required_unless_present = "history")]
    trace: Option<String>,
    /// The history of the instance that --at means, in place of a trace
    #[arg(long, conflicts_with = "trace")]
    history: bool,
    /// Processors of the machine, where the trace does not say or says otherwise
    #[arg(long, value_name = "N", value_parser = number(1..=(1_u64 << 40) - 1))]
    procs: Option<u64>,
    /// The nodes of the machine: a resource set R, version 1 (RFC 20)
    #[arg(long, value_name = "FILE", conflicts_with = "procs")]
    resources: Option<String>,
    /// Shares: a JSON object of GROUP, GROUP/USER, or USER of one without a group, and 1 or more
    #[arg(long, value_name = "FILE")]
    shares: Option<String>,
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
  eddy sim workload.json --policy hybrid-8 --clairvoyant --json
  eddy sim /var/lib/eddy --policy fcfs --policy easy
  eddy sim --history --policy conservative --report week.html";

#[derive(Clone, Copy, ValueEnum)]
enum Order {
    /// Ends, then submissions, then one pass
    Batch,
    /// A pass after each submission and each end; submissions first
    PerEvent,
}

/// A schedule that is shown.
struct Played {
    name: String,
    origin: Origin,
    course: Course,
    figures: Measures,
}

/// Where a schedule is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// It happened: who passed whom, and how often was planned, is not known.
    Recorded,
    Replayed,
}

/// The line of what happened.
const RECORDED: &str = "recorded";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
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
    let (name, mut given) = match &args.trace {
        Some(trace) => (
            trace.as_str(),
            input::given(trace).with_context(|| trace.clone())?,
        ),
        None => (
            "history",
            Given::recorded(recorded::of_instance(global)?).context("--history")?,
        ),
    };
    if let Some(file) = &args.shares {
        let shares = input::shares(file).with_context(|| file.clone())?;
        given.workload.share(shares).with_context(|| file.clone())?;
    }
    if args.procs.is_some() && given.past.is_some() {
        // So many processors in place of the nodes that there were: only they can be asked for.
        given.workload.requests.clear();
    }
    let machine = match (machine, args.procs, given.machine, given.workload.procs) {
        (Some(machine), _, _, _) => machine,
        (None, Some(procs), _, _) => Machine::count(procs),
        (None, None, Some(machine), _) => machine,
        (None, None, None, Some(procs)) => Machine::count(procs),
        (None, None, None, None) => {
            bail!("{name}: does not say how many processors there are; give --procs")
        }
    };
    let scene = Scene {
        workload: &given.workload,
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
    let mut played = Vec::new();
    if let Some(past) = &given.past {
        let course = past.course(&machine);
        played.push(Played::new(scene, RECORDED, Origin::Recorded, course));
    }
    for (name, policy) in args.policy.iter().zip(&policies) {
        let course = replay(scene, name, policy).with_context(|| format!("--policy {name}"))?;
        played.push(Played::new(scene, name, Origin::Replayed, course));
    }
    show(args, name, scene, &played)
}

/// Writes what is asked for.
fn show(args: &Args, name: &str, scene: Scene<'_>, played: &[Played]) -> anyhow::Result<u8> {
    if let (Some(file), Some(played)) = (&args.starts, played.last()) {
        write_starts(file, scene.workload, &played.course).with_context(|| file.clone())?;
    }
    if let Some(file) = &args.report {
        let page = report::page(name, args, scene, played);
        std::fs::write(file, page).with_context(|| file.clone())?;
    }
    match args.json {
        true => output::json(&by_name(played))?,
        false => table(played).write(&mut output::stdout())?,
    }
    Ok(0)
}

impl Played {
    fn new(scene: Scene<'_>, name: &str, origin: Origin, course: Course) -> Played {
        Played {
            name: name.to_owned(),
            origin,
            figures: Measures::new(scene.workload, scene.machine, &course),
            course,
        }
    }
}

/// In the order in which they were given.
fn by_name(played: &[Played]) -> serde_json::Map<String, serde_json::Value> {
    let figures = played.iter().map(|played| {
        let mut figures = serde_json::to_value(&played.figures).unwrap_or_default();
        match played.origin {
            Origin::Recorded => {
                for unknown in ["backfilled", "passes", "preempted"] {
                    figures[unknown] = serde_json::Value::Null;
                }
            }
            Origin::Replayed => {}
        }
        (played.name.clone(), figures)
    });
    figures.collect()
}

fn replay(scene: Scene<'_>, name: &str, policy: &Policy) -> anyhow::Result<Course> {
    let bar = bar(name, scene.workload.jobs.len());
    let course = play(scene, policy, |done| bar.set_position(done as u64))?;
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
fn cells(played: &Played) -> [String; 14] {
    let of = &played.figures;
    let known = |figure: u64| match played.origin {
        Origin::Recorded => "-".to_owned(),
        Origin::Replayed => figure.to_string(),
    };
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
        known(of.backfilled),
        of.max_queue.to_string(),
        known(of.passes),
        of.jobs.to_string(),
        of.dropped.to_string(),
    ]
}

fn table(played: &[Played]) -> Table {
    let numbers = COLUMNS.map(|column| (column, Align::Right));
    let mut table = Table::new([("POLICY", Align::Left)].into_iter().chain(numbers));
    for one in played {
        let row = [one.name.clone()].into_iter().chain(cells(one));
        table.push(row.collect());
    }
    table
}
