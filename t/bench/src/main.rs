//! `cargo run --release -p eddy-bench -- NAME|all [--json]`: measures eddy against the limits of the
//! machine it runs on. What is compared is taken in alternating rounds of one run, because on a shared
//! machine only such ratios, and CPU per job, can be trusted.
//!
//! Called by people; never by `t/run`, since a budget is judged by reading, not by a red test.

mod crowd;
mod disk;
mod eta;
mod history;
mod idle;
mod instance;
mod latency;
mod link;
mod listing;
mod machine;
mod memory;
mod moving;
mod nest;
mod pass;
mod pending;
mod process;
mod report;
mod restart;
mod rounds;
mod rpc;
mod sched;
mod span;
mod spawn;
mod start;
mod submit;
mod tax;
mod throughput;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Parser;

use report::{Report, Table};

/// One thing that can be measured.
struct Bench {
    name: &'static str,
    about: &'static str,
    needs: Needs,
    run: fn(&Setup) -> anyhow::Result<Report>,
}

/// What must be there for a bench to run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// The machine alone.
    Machine,
    /// The `eddy` command.
    Eddy,
}

/// Every bench, in the order in which `all` takes them: the machine's limits first.
#[rustfmt::skip]
const BENCHES: &[Bench] = &[
    Bench { name: "spawn", needs: Needs::Machine, run: spawn::run,
        about: "bare posix_spawn and waitpid of /bin/true, one and two threads" },
    Bench { name: "disk", needs: Needs::Machine, run: disk::run,
        about: "fdatasync of appends of 4 KiB" },
    Bench { name: "link", needs: Needs::Machine, run: link::run,
        about: "frames between ranks: both transports against a bare socket" },
    Bench { name: "sched", needs: Needs::Machine, run: sched::run,
        about: "the planner on 10,000 nodes with 100,000 that wait; priorities; fair shares" },
    Bench { name: "tree-tax", needs: Needs::Machine, run: tax::run,
        about: "a trace through queue instances against the same in one queue" },
    Bench { name: "eta", needs: Needs::Machine, run: eta::run,
        about: "whether a trace's jobs start when they were told to" },
    Bench { name: "start", needs: Needs::Eddy, run: start::run,
        about: "`eddy start true`, the whole command" },
    Bench { name: "latency", needs: Needs::Eddy, run: latency::run,
        about: "submit to started; `eddy run true` and `eddy submit true`, whole commands" },
    Bench { name: "submit", needs: Needs::Eddy, run: submit::run,
        about: "jobs accepted per second while none may start" },
    Bench { name: "throughput", needs: Needs::Eddy, run: throughput::run,
        about: "jobs of /bin/true per second against the bare spawn loop; CPU per job" },
    Bench { name: "memory", needs: Needs::Eddy, run: memory::run,
        about: "an idle instance: memory and wake-ups" },
    Bench { name: "pending", needs: Needs::Eddy, run: pending::run,
        about: "one job through a queue of 100,000 that wait" },
    Bench { name: "restart", needs: Needs::Eddy, run: restart::run,
        about: "kill -9 of a leader with 64,000 finished and 1,000 running jobs, until it schedules again" },
    Bench { name: "history", needs: Needs::Eddy, run: history::run,
        about: "leader CPU per job with 0, 100,000 and 1,000,000 finished jobs" },
    Bench { name: "rpc", needs: Needs::Eddy, run: rpc::run,
        about: "round trips from the leader to ranks one, two and three links away" },
    Bench { name: "span", needs: Needs::Eddy, run: span::run,
        about: "jobs on another rank and over 64 ranks" },
    Bench { name: "nest", needs: Needs::Eddy, run: nest::run,
        about: "from a command to the first job of the instance it starts, one to three deep" },
    Bench { name: "workflow", needs: Needs::Eddy, run: nest::workflow,
        about: "1,000 sub-instances of 100 jobs against the same jobs flat: CPU of the machine" },
    Bench { name: "pass", needs: Needs::Eddy, run: pass::run,
        about: "jobs passed down to a queue instance: CPU of the root and below it" },
    Bench { name: "pass-wide", needs: Needs::Eddy, run: pass::wide,
        about: "100,000 jobs over 1,000 fake nodes, flat and by four queue instances: CPU for each" },
    Bench { name: "pass-start", needs: Needs::Eddy, run: pass::start,
        about: "how much later a job starts that is passed down" },
    Bench { name: "move", needs: Needs::Eddy, run: moving::run,
        about: "an idle node that goes over to the queue instance whose job needs it" },
    Bench { name: "why", needs: Needs::Eddy, run: pending::why,
        about: "why one of 10,000 that wait does" },
    Bench { name: "crowd", needs: Needs::Eddy, run: crowd::run,
        about: "submissions and starts beside 500 clients that list jobs without end" },
    Bench { name: "listing", needs: Needs::Eddy, run: listing::run,
        about: "`eddy jobs -R` over 100 instances with 100,000 jobs that wait" },
    Bench { name: "idle", needs: Needs::Eddy, run: idle::run,
        about: "a tree of 100 instances that nobody uses: memory and wake-ups" },
];

/// What a bench is told.
pub struct Setup {
    /// Rounds of each compared thing, if the command line says.
    rounds: Option<usize>,
    /// The bench's own main number (jobs, spawns, appends), if the command line says.
    count: Option<usize>,
    /// Directory for files of the benches, on the file system that is measured.
    folder: PathBuf,
}

impl Setup {
    /// Rounds of each compared thing; `normal` unless told otherwise.
    #[must_use]
    pub fn rounds(&self, normal: usize) -> usize {
        self.rounds.unwrap_or(normal).max(1)
    }

    /// The bench's own main number; `normal` unless told otherwise.
    #[must_use]
    pub fn count(&self, normal: usize) -> usize {
        self.count.unwrap_or(normal).max(1)
    }

    /// A fresh directory, removed when dropped.
    ///
    /// # Errors
    /// The file system's, with the path.
    pub fn fresh_folder(&self) -> anyhow::Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(&self.folder)
            .with_context(|| format!("a directory below {}", self.folder.display()))
    }
}

/// Measures eddy against the limits of this machine.
#[derive(Parser)]
#[command(name = "eddy-bench", after_help = listing())]
struct Options {
    /// What to measure, or `all`
    #[arg(required = true)]
    names: Vec<String>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Rounds of each compared thing, instead of the bench's own number
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// The main number of the bench (jobs, spawns, appends), instead of its own
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Where instances keep their state [default: beside the program]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

fn listing() -> String {
    let lines = BENCHES
        .iter()
        .map(|bench| format!("  {:<11} {}\n", bench.name, bench.about));
    format!("Benches:\n{}", lines.collect::<String>())
}

fn main() -> ExitCode {
    match measure(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eddy-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: Options) -> anyhow::Result<()> {
    let chosen = chosen(&options.names)?;
    let folder = match options.folder {
        Some(folder) => folder,
        None => beside_program()?,
    };
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let setup = Setup {
        rounds: options.rounds,
        count: options.count,
        folder,
    };
    let machine = machine::describe(&setup.folder)?;
    let mut table = match options.json {
        true => Table::json(machine),
        false => Table::text(&machine),
    };
    let every = options.names.iter().any(|name| name == "all");
    for bench in chosen {
        match (bench.needs, instance::eddy()) {
            (Needs::Eddy, Err(error)) if every => table.skip(bench.name, &format!("{error:#}")),
            (Needs::Eddy, Err(error)) => return Err(error.context(bench.name)),
            _ => table.add(bench.name, (bench.run)(&setup).context(bench.name)?),
        }
    }
    table.finish()
}

fn beside_program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("the path of this program")?;
    Ok(program
        .parent()
        .context("the directory of this program")?
        .join("bench"))
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Bench>> {
    let mut chosen = Vec::new();
    for name in names {
        let before = chosen.len();
        chosen.extend(
            BENCHES
                .iter()
                .filter(|bench| name == "all" || bench.name == name),
        );
        if chosen.len() == before {
            bail!("no bench `{name}`\n{}", listing().trim_end());
        }
    }
    Ok(chosen)
}
