//! `eddy demo`: an instance loses its leader in the middle of its work, and
//! nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use eddy_client::{Client, ClientError, EndFeed, Options};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::{JobEnd, JobRow, JobSet, Submit, SubmitRequest, Submitted};

use crate::instance::{Leader, Life, StartOptions, temporary_statedir};
use crate::listing::{Filter, Question};
use crate::request::{JobOptions, Stdin, Terms};
use crate::session::block_on;
use crate::verbs::jobs::stats;

/// How often the table is drawn on a terminal.
const DRAWN_EVERY: Duration = Duration::from_millis(150);
/// How often a line is printed elsewhere.
const TOLD_EVERY: Duration = Duration::from_millis(1000);
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Rows of the table.
const ROWS: usize = 12;

/// Show an instance: run jobs, kill its leader in the middle, lose nothing
///
/// Starts an instance on a temporary directory, submits some dozens of short jobs, kills the
/// leader with SIGKILL while they run, starts it again, and checks that every job ran exactly
/// once. Takes a few seconds; the exit code is 1 if anything was lost.
#[derive(clap::Args)]
pub struct Args {
    /// Number of jobs
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(4..=10_000))]
    jobs: u32,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let begun = Instant::now();
    let directory = temporary_statedir()?;
    let options = StartOptions {
        cores: Some(8),
        ..StartOptions::default()
    };
    let statedir = directory.path().join("state");
    let mut leader = Leader::start(&statedir, &options, Life::OfCommand)?;
    say(&format!(
        "leader {} leads a fresh instance of 8 declared cores",
        leader.pid()
    ));
    let result = block_on(async {
        let shown = show(
            args.jobs,
            directory.path(),
            &statedir,
            &options,
            &mut leader,
        );
        let summary = match tokio::time::timeout(PATIENCE, shown).await {
            Ok(summary) => summary,
            Err(_) => Err(anyhow::anyhow!(
                "the jobs did not end within {} s",
                PATIENCE.as_secs()
            )),
        };
        leader.shutdown("the demo is over").await?;
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

async fn show(
    count: u32,
    directory: &Path,
    statedir: &Path,
    options: &StartOptions,
    leader: &mut Leader,
) -> anyhow::Result<String> {
    let client = Client::connect(&leader.uri, Options::default()).await?;
    let submitted = client.call::<Submit>(&request(count, directory)?).await?;
    let last = JobId(submitted.first.0 + u64::from(submitted.count) - 1);
    let jobs = JobSet {
        ranges: vec![(submitted.first, last)],
    };
    say(&format!(
        "{count} jobs submitted in one message, each sleeps a little and signs a file"
    ));
    let mut ends = EndFeed::of(&client, jobs.clone())?;
    let mut ended: Vec<JobEnd> = Vec::new();
    let mut board = Board::new();
    let third = (count / 3) as usize;
    let mut killed = 0;
    while ended.len() < count as usize {
        board.draw(&client, &jobs).await?;
        let batch = tokio::time::timeout(board.pause(), ends.next());
        match batch.await {
            Ok(batch) => ended.extend(batch?.context("the instance stopped telling of ends")?),
            Err(_) => continue,
        }
        if killed == 0 && ended.len() >= third {
            killed = ended.len();
            board.leave();
            say(&format!(
                "{killed} jobs have ended: killing leader {} with SIGKILL",
                leader.pid()
            ));
            leader.kill()?;
            let again = Instant::now();
            *leader = Leader::start(statedir, options, Life::OfCommand)?;
            let millis = again.elapsed().as_secs_f64() * 1e3;
            say(&format!(
                "leader {} took over in {millis:.0} ms; the jobs had gone on",
                leader.pid()
            ));
        }
    }
    board.draw(&client, &jobs).await?;
    board.leave();
    check(&client, submitted, &ended, directory).await
}

/// Each copy signs a file of all with its number, in one write.
fn request(count: u32, directory: &Path) -> anyhow::Result<SubmitRequest> {
    let cwd = directory
        .to_str()
        .context("the temporary directory is not UTF-8")?;
    let script = "sleep 0.$(( {cc} % 5 + 1 )); echo {cc} >> signed";
    let options = JobOptions {
        terms: Terms {
            job_name: Some("demo".to_owned()),
            cwd: Some(cwd.to_owned()),
            ..Terms::default()
        },
        command: vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()],
        ..JobOptions::default()
    };
    options.request(Some(Idset::range(1, count)), Stdin::Empty)
}

/// Every job is there once, ended well once, and signed once.
async fn check(
    client: &Client,
    submitted: Submitted,
    ended: &[JobEnd],
    directory: &Path,
) -> anyhow::Result<String> {
    let count = submitted.count as usize;
    for end in ended {
        ensure!(
            end.returncode == 0,
            "job {} ended with {}: {}",
            end.id,
            end.returncode,
            end.exception.as_deref().unwrap_or("no exception")
        );
    }
    let rows = Question {
        filter: Filter::all(),
        ..Question::default()
    }
    .rows(client)
    .await?;
    ensure!(
        rows.len() == count,
        "{} jobs are listed; {count} were submitted",
        rows.len()
    );
    let again = rows.iter().filter(|row| row.attempt.0 != 1).count();
    ensure!(again == 0, "{again} jobs needed another attempt");
    let text = fs::read_to_string(directory.join("signed")).context("no job has signed")?;
    let mut signed: BTreeMap<u32, u32> = BTreeMap::new();
    for line in text.lines() {
        *signed
            .entry(line.trim().parse().context("a job signed with no number")?)
            .or_default() += 1;
    }
    let twice = signed.values().filter(|times| **times > 1).count();
    if signed.len() != count || twice > 0 {
        bail!(
            "{} of {count} jobs ran, {twice} of them more than once",
            signed.len()
        );
    }
    Ok(format!(
        "{count} jobs accepted, {count} ran, each exactly once, none lost"
    ))
}

/// The table, drawn over itself on a terminal.
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

    async fn draw(&mut self, client: &Client, jobs: &JobSet) -> anyhow::Result<()> {
        if self.told.is_some_and(|told| told.elapsed() < self.pause()) {
            return Ok(());
        }
        self.told = Some(Instant::now());
        let rows = match rows(client, jobs).await {
            Ok(rows) => rows,
            // The leader is away: the last picture stays.
            Err(error) if error.downcast_ref::<ClientError>().is_some() => return Ok(()),
            Err(error) => return Err(error),
        };
        match self.terminal {
            true => self.table(&rows),
            false => {
                say(&stats(&rows));
                Ok(())
            }
        }
    }

    fn table(&mut self, rows: &[JobRow]) -> anyhow::Result<()> {
        let mut out = crate::output::stdout();
        let mut lines = vec![stats(rows)];
        let active = rows.iter().filter(|row| row.state != JobState::Inactive);
        for row in active.take(ROWS) {
            let state = row.state.name();
            let why = if row.nodelist.is_empty() {
                &row.reason
            } else {
                &row.nodelist
            };
            lines.push(format!(
                "  {:>6}  {state:<8}  {why:.60}",
                crate::ids::show(row.id)
            ));
        }
        lines.resize(ROWS + 1, String::new());
        if self.drawn > 0 {
            write!(out, "\x1b[{}A", self.drawn)?;
        }
        for line in &lines {
            writeln!(out, "\x1b[2K{line}")?;
        }
        self.drawn = lines.len();
        Ok(out.flush()?)
    }
}

async fn rows(client: &Client, jobs: &JobSet) -> anyhow::Result<Vec<JobRow>> {
    let question = Question {
        filter: Filter::all(),
        jobs: jobs.clone(),
        ..Question::default()
    };
    let mut rows = question.rows(client).await?;
    // Running ones first: that is where something happens.
    rows.sort_by_key(|row| (row.state != JobState::Run, row.id));
    Ok(rows)
}
