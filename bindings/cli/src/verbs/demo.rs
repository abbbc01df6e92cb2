//! `eddy demo`: a tree of instances loses its leaders in the middle of its
//! work, and nothing else.

mod ground;
mod processes;

mod dice;

mod evidence;
mod survive;
mod victims;

mod burst;
mod tree_tax;

use std::collections::BTreeMap;
use std::fs;
use std::io::{IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use eddy_brokerd::leader::configured::CONFIG_FILE;
use eddy_client::{Client, EndFeed, Options};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::services::child::{ChildRow, Children, ChildrenRequest, Stage};
use eddy_wire::services::instance::{Ping, PingRequest};
use eddy_wire::services::job::{JobSet, Submit, SubmitRequest};
use eddy_wire::services::usage::{Identity, Report, ReportRequest};

use super::tree::draw::Style;
use super::tree::gather::{Branch, Gatherer};
use super::tree::{Width, table};
use crate::instance::{Leader, Life, StartOptions, temporary_statedir};
use crate::request::nested::{InstanceOptions, Program};
use crate::request::{JobOptions, Stdin, Terms};
use crate::session::block_on;
use crate::when;

/// How often the tree is drawn on a terminal.
const DRAWN_EVERY: Duration = Duration::from_millis(150);
/// How often a line is printed elsewhere.
const TOLD_EVERY: Duration = Duration::from_millis(1000);
/// The pause between two looks at the progress.
const LOOK: Duration = Duration::from_millis(50);
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nodes of the root, each with so many cores.
const NODES: u32 = 4;
/// See [`NODES`].
const CORES: u32 = 4;
/// The queues of the root, each with an instance of one node.
const QUEUES: [&str; 2] = ["batch", "debug"];
/// The name under which the jobs of the workflow sign.
const DEEP: &str = "deep";
/// And that of the job of nine tenths of all cores.
const WIDE: &str = "wide";
const WIDTH: u32 = NODES * CORES * 9 / 10;

/// Show a tree of instances: run jobs at every level, kill leaders, lose nothing
///
/// Starts a root of four made-up hosts with two queue instances that share them on a temporary
/// directory, submits jobs to both queues, one of nine tenths of all cores among them, and a
/// workflow three instances deep, kills the leader of a queue instance and then the root's with
/// SIGKILL while they run, and checks that every job ran exactly once and every second of a core is
/// accounted for.
/// Takes some seconds; the exit code is 1 if anything was lost.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// Number of jobs, a third of them in each queue and in the workflow
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(6..=10_000))]
    jobs: u32,
}

/// What else can be shown.
#[derive(clap::Subcommand)]
enum Other {
    Survive(survive::Args),
    TreeTax(tree_tax::Args),
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.other {
        None => show(args),
        Some(Other::Survive(args)) => survive::run(args),
        Some(Other::TreeTax(args)) => tree_tax::run(args),
    }
}

fn show(args: &Args) -> anyhow::Result<u8> {
    let begun = Instant::now();
    let directory = temporary_statedir()?;
    let statedir = directory.path().join("state");
    fs::create_dir(&statedir).context("cannot make the state directory")?;
    fs::write(statedir.join(CONFIG_FILE), configuration())
        .context("cannot write the configuration")?;
    let options = StartOptions {
        cores: Some(CORES),
        size: Some(NODES),
        ..StartOptions::default()
    };
    let leader = Leader::start(&statedir, &options, Life::OfCommand)?;
    say(&format!(
        "leader {} leads a fresh root of {NODES} hosts with {CORES} declared cores each",
        leader.pid()
    ));
    let mut demo = Demo {
        each: args.jobs / 3,
        signed: directory.path().join("signed"),
        directory: directory.path().to_owned(),
        statedir,
        options,
        leader,
    };
    let result = block_on(async {
        let summary = match tokio::time::timeout(PATIENCE, demo.show()).await {
            Ok(summary) => summary,
            Err(_) => Err(anyhow::anyhow!(
                "the jobs did not end within {} s",
                PATIENCE.as_secs()
            )),
        };
        demo.leader.shutdown("the demo is over").await?;
        summary
    });
    let summary = result?;
    say(&format!(
        "{summary}, in {:.1} s",
        begun.elapsed().as_secs_f64()
    ));
    Ok(0)
}

fn say(text: &str) {
    println!("eddy demo: {text}");
}

/// Two queues, each served by an instance of its own; no node is either's.
fn configuration() -> String {
    let queue = |name: &&str| {
        format!(
            "[[instance]]\nname = \"{name}\"\nelastic = \"all\"\n\n[[queue]]\nname = \"{name}\"\ninstance = \"{name}\"\n\n"
        )
    };
    QUEUES.iter().map(queue).collect()
}

/// The root and what it is shown with.
struct Demo {
    /// Jobs in each queue and in the workflow.
    each: u32,
    /// The file that every job signs.
    signed: std::path::PathBuf,
    directory: std::path::PathBuf,
    statedir: std::path::PathBuf,
    options: StartOptions,
    leader: Leader,
}

impl Demo {
    async fn show(&mut self) -> anyhow::Result<String> {
        let client = Client::connect(&self.leader.uri, Options::default()).await?;
        self.serving(&client).await?;
        let jobs = self.submit(&client).await?;
        let all = self.all();
        let gatherer = Gatherer::new(client.clone(), None);
        let mut board = Board::new();
        let mut lost = 0;
        loop {
            board.draw(&gatherer, self.lines()).await?;
            let signed = self.lines();
            if signed >= all {
                break;
            }
            // The leader of a queue instance after a third, the root's after two.
            match lost {
                0 if signed >= all / 3 => {
                    board.leave();
                    self.kill_child(&client, QUEUES[0], signed).await?;
                    lost = 1;
                }
                1 if signed >= all * 2 / 3 => {
                    board.leave();
                    self.kill_root(signed)?;
                    lost = 2;
                }
                _ => tokio::time::sleep(LOOK).await,
            }
        }
        board.leave();
        ensure!(lost == 2, "the jobs ended before both leaders were killed");
        self.check(&client, jobs).await
    }

    /// How many jobs are to sign.
    fn all(&self) -> usize {
        self.each as usize * 3 + 1
    }

    /// How many jobs have signed.
    fn lines(&self) -> usize {
        let text = fs::read_to_string(&self.signed).unwrap_or_default();
        text.lines().count()
    }

    /// Waits until both queue instances take work.
    async fn serving(&self, client: &Client) -> anyhow::Result<()> {
        for queue in QUEUES {
            while child(client, queue).await?.is_none() {
                tokio::time::sleep(LOOK).await;
            }
        }
        say("queue instances batch and debug serve; each of their jobs is given cores of any node");
        Ok(())
    }

    /// Submits to each queue, and the workflow; the jobs as the root knows them.
    async fn submit(&self, client: &Client) -> anyhow::Result<Vec<JobSet>> {
        let mut jobs = Vec::new();
        for queue in QUEUES {
            let request = self.request(queue)?;
            let submitted = client.call::<Submit>(&request).await?;
            let last = JobId(submitted.first.0 + u64::from(submitted.count) - 1);
            jobs.push(JobSet {
                ranges: vec![(submitted.first, last)],
            });
        }
        for request in [self.wide()?, self.workflow()?] {
            let submitted = client.call::<Submit>(&request).await?;
            jobs.push(JobSet::one(submitted.first));
        }
        let (each, cores) = (self.each, NODES * CORES);
        say(&format!(
            "{each} jobs submitted to each queue, one of {WIDTH} of all {cores} cores, and a workflow \
             that runs {each} more, three instances deep"
        ));
        Ok(jobs)
    }

    fn terms(&self) -> anyhow::Result<Terms> {
        let cwd = self.directory.to_str();
        let cwd = cwd.context("the temporary directory is not UTF-8")?;
        Ok(Terms {
            job_name: Some("demo".to_owned()),
            cwd: Some(cwd.to_owned()),
            ..Terms::default()
        })
    }

    /// Each copy signs the file of all with its queue and number, in one write.
    fn request(&self, queue: &str) -> anyhow::Result<SubmitRequest> {
        let options = JobOptions {
            terms: Terms {
                queue: Some(queue.to_owned()),
                ..self.terms()?
            },
            command: vec!["/bin/sh".to_owned(), "-c".to_owned(), task(queue)],
            ..JobOptions::default()
        };
        options.request(Some(Idset::range(1, self.each)), Stdin::Empty)
    }

    /// Nine tenths of all cores at once; its first task signs.
    fn wide(&self) -> anyhow::Result<SubmitRequest> {
        let signs = format!("test $EDDY_TASK_RANK -ne 0 || echo {WIDE} 1 >> signed; sleep 0.3");
        let options = JobOptions {
            ntasks: Some(WIDTH),
            terms: Terms {
                queue: Some(QUEUES[0].to_owned()),
                ..self.terms()?
            },
            command: vec!["/bin/sh".to_owned(), "-c".to_owned(), signs],
            ..JobOptions::default()
        };
        options.request(None, Stdin::Empty)
    }

    /// An instance in an instance in an instance, which runs the jobs.
    fn workflow(&self) -> anyhow::Result<SubmitRequest> {
        let eddy = std::env::current_exe().context("cannot find the program of this command")?;
        let eddy = eddy.to_str().context("the program's path is not UTF-8")?;
        let each = format!("--cc=1-{}", self.each);
        let task = task(DEEP);
        let words = [
            eddy,
            "alloc",
            "-n3",
            eddy,
            "alloc",
            "-n2",
            eddy,
            "submit",
            "--quiet",
            "--wait",
            each.as_str(),
            "/bin/sh",
            "-c",
            task.as_str(),
        ];
        let options = InstanceOptions {
            nslots: Some(CORES),
            terms: Terms {
                job_name: Some("workflow".to_owned()),
                ..self.terms()?
            },
            ..InstanceOptions::default()
        };
        let program = Program::Command(words.map(str::to_owned).to_vec());
        options.request(&program, Stdin::Empty)
    }

    async fn kill_child(&self, client: &Client, name: &str, signed: usize) -> anyhow::Result<()> {
        let row = child(client, name).await?;
        let row = row.with_context(|| format!("instance {name} does not serve"))?;
        let uri: eddy_client::Uri = row.uri.unwrap_or_default().parse()?;
        let socket = UnixStream::connect(uri.path()).context("cannot reach the instance")?;
        let pid = rustix::net::sockopt::socket_peercred(&socket)?.pid;
        say(&format!(
            "{signed} jobs have ended: killing leader {} of queue instance {name} with SIGKILL",
            pid.as_raw_nonzero()
        ));
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
        let again = Instant::now();
        let client = Client::connect(&uri, Options::default()).await?;
        let pong = client.call::<Ping>(&PingRequest::default()).await?;
        let millis = again.elapsed().as_secs_f64() * 1e3;
        say(&format!(
            "its shell started it again: epoch {} answered after {millis:.0} ms",
            pong.epoch
        ));
        Ok(())
    }

    fn kill_root(&mut self, signed: usize) -> anyhow::Result<()> {
        say(&format!(
            "{signed} jobs have ended: killing leader {} of the root with SIGKILL",
            self.leader.pid()
        ));
        self.leader.kill()?;
        let again = Instant::now();
        self.leader = Leader::start(&self.statedir, &self.options, Life::OfCommand)?;
        let millis = again.elapsed().as_secs_f64() * 1e3;
        say(&format!(
            "leader {} took over in {millis:.0} ms; jobs and instances had gone on",
            self.leader.pid()
        ));
        Ok(())
    }

    /// Every job ended well in its first attempt, and signed once.
    async fn check(&self, client: &Client, jobs: Vec<JobSet>) -> anyhow::Result<String> {
        for set in jobs {
            let mut ends = EndFeed::of(client, set)?;
            while let Some(batch) = ends.next().await? {
                for end in batch {
                    ensure!(
                        end.returncode == 0,
                        "job {} ended with {}: {}",
                        end.id,
                        end.returncode,
                        end.exception.as_deref().unwrap_or("no exception")
                    );
                }
            }
        }
        let text = fs::read_to_string(&self.signed).context("no job has signed")?;
        let mut signed: BTreeMap<&str, u32> = BTreeMap::new();
        for line in text.lines() {
            *signed.entry(line.trim()).or_default() += 1;
        }
        let all = self.all();
        let twice = signed.values().filter(|times| **times > 1).count();
        if signed.len() != all || twice > 0 {
            bail!(
                "{} of {all} jobs ran, {twice} of them more than once",
                signed.len()
            );
        }
        self.account(client).await?;
        Ok(format!(
            "{all} jobs accepted, {all} ran, each exactly once, none lost"
        ))
    }

    /// What all cores were for, from the beginning to now.
    async fn account(&self, client: &Client) -> anyhow::Result<()> {
        let report = client.call::<Report>(&ReportRequest::default()).await?;
        let Identity {
            capacity, spent, ..
        } = report.identity;
        ensure!(
            spent.sum() == capacity,
            "of {capacity:?} the parts are {spent:?}"
        );
        let seconds = |amount: u128| amount as f64 / 1e6;
        say(&format!(
            "{:.1} core-seconds: {:.1} of jobs, {:.1} of the workflow's instance, {:.1} idle or down; \
             not one is missing or there twice",
            seconds(capacity.cores),
            seconds(spent.jobs.cores),
            seconds(spent.instances.cores),
            seconds(capacity.cores - spent.jobs.cores - spent.instances.cores)
        ));
        Ok(())
    }
}

/// A task of a fifth to a whole second that signs with this name and its number.
fn task(name: &str) -> String {
    format!("sleep 0.$(( {{cc}} % 4 + 2 )); echo {name} {{cc}} >> signed")
}

/// The row of the instance of that name once it serves.
async fn child(client: &Client, name: &str) -> anyhow::Result<Option<ChildRow>> {
    let rows = client.call::<Children>(&ChildrenRequest::default()).await?;
    let serves = |row: &ChildRow| row.name == name && row.stage == Stage::Serving;
    Ok(rows.into_iter().find(serves))
}

/// The tree, drawn over itself on a terminal.
struct Board {
    terminal: bool,
    /// Lines to go up before the next drawing.
    drawn: usize,
    told: Option<Instant>,
}

impl Board {
    fn new() -> Board {
        Board {
            terminal: std::io::stdout().is_terminal(),
            drawn: 0,
            told: None,
        }
    }

    fn pause(&self) -> Duration {
        if self.terminal {
            DRAWN_EVERY
        } else {
            TOLD_EVERY
        }
    }

    /// What follows is printed below.
    fn leave(&mut self) {
        self.drawn = 0;
    }

    async fn draw(&mut self, gatherer: &Arc<Gatherer>, signed: usize) -> anyhow::Result<()> {
        if self.told.is_some_and(|told| told.elapsed() < self.pause()) {
            return Ok(());
        }
        self.told = Some(Instant::now());
        let tree = gatherer.look().await;
        if !self.terminal {
            say(&format!(
                "{signed} jobs have ended; {} instances in {} levels",
                count(&tree),
                depth(&tree)
            ));
            return Ok(());
        }
        let mut text = Vec::new();
        table(&tree, Style::of_locale(), when::now(), Width::Short).write(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let mut out = crate::output::stdout();
        if self.drawn > 0 {
            write!(out, "\x1b[{}A\x1b[J", self.drawn)?;
        }
        write!(out, "{text}")?;
        self.drawn = text.lines().count();
        Ok(out.flush()?)
    }
}

fn count(tree: &Branch) -> usize {
    1 + tree.children.iter().map(count).sum::<usize>()
}

fn depth(tree: &Branch) -> usize {
    1 + tree.children.iter().map(depth).max().unwrap_or(0)
}
