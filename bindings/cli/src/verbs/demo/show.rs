//! `eddy demo` itself: two accounts share a tree of instances, which loses two leaders in the
//! middle of its work, and nothing else.
//!
//! Called by `demo`. What is shown is in the files beside this one; here is when.

mod work;

mod accounts;
mod claim;
mod moves;

mod board;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use eddy_brokerd::leader::configured::CONFIG_FILE;
use eddy_client::{Client, EndFeed, Options};
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::child::{ChildRow, Children, ChildrenRequest, Stage};
use eddy_wire::services::instance::{Ping, PingRequest};
use eddy_wire::services::job::{JobSet, Release, ReleaseRequest, Scope, Submit, SubmitRequest};

use self::accounts::Race;
use self::board::Board;
use self::claim::Claim;
use self::moves::Moves;
use self::work::{CORES, GROUPS, NODES, PHYSICS, WIDTH, Work};
use crate::instance::{Leader, Life, StartOptions, temporary_statedir};
use crate::listing::{Filter, Question};
use crate::session::block_on;
use crate::verbs::tree::gather::Gatherer;

/// The pause between two looks at the progress.
const LOOK: Duration = Duration::from_millis(50);
/// How long all of it may take, and how much more for each job.
const PATIENCE: Duration = Duration::from_secs(60);
/// See [`PATIENCE`]: a third of them last a third of a second each and run two at a time.
const PATIENCE_EACH: Duration = Duration::from_millis(100);

/// Plays it with so many jobs; gives the exit code.
///
/// # Errors
/// Something was lost, or is not as it was promised.
pub fn run(jobs: u32) -> anyhow::Result<u8> {
    let begun = Instant::now();
    let patience = PATIENCE + PATIENCE_EACH * jobs;
    let directory = temporary_statedir()?;
    let statedir = directory.path().join("state");
    fs::create_dir(&statedir).context("cannot make the state directory")?;
    fs::write(statedir.join(CONFIG_FILE), work::configuration())
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
        work: Work::new(jobs / 3, directory.path(), patience)?,
        signed: directory.path().join("signed"),
        statedir,
        options,
        leader,
    };
    let result = block_on(async {
        let summary = match tokio::time::timeout(patience, demo.show()).await {
            Ok(summary) => summary,
            Err(_) => Err(anyhow::anyhow!(
                "the jobs did not end within {} s",
                patience.as_secs()
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

/// The root and what it is shown with.
struct Demo {
    work: Work,
    /// The file that every job signs.
    signed: PathBuf,
    statedir: PathBuf,
    options: StartOptions,
    leader: Leader,
}

/// What is looked for while they run.
struct Watch {
    claim: Claim,
    moves: Moves,
    race: Race,
}

impl Watch {
    /// What is new, a line each.
    async fn look(&mut self, client: &Client) -> anyhow::Result<Vec<String>> {
        let told = [
            self.claim.look(client).await?,
            self.moves.look().await?,
            self.race.look(client).await?,
        ];
        Ok(told.into_iter().flatten().collect())
    }
}

impl Demo {
    async fn show(&mut self) -> anyhow::Result<String> {
        let client = Client::connect(&self.leader.uri, Options::default()).await?;
        let instances = self.serving(&client).await?;
        accounts::open(&client).await?;
        let (jobs, claim) = self.submit(&client).await?;
        let mut watch = Watch {
            claim,
            moves: Moves::between(instances),
            race: Race::Ahead,
        };
        self.play(&client, &mut watch).await?;
        self.ended(&client, jobs).await?;
        // What has come since the last look, too.
        watch.look(&client).await?.iter().for_each(|line| say(line));
        say(&watch.moves.counted());
        for line in accounts::settle(&client).await? {
            say(&line);
        }
        self.counted()
    }

    /// Looks on until all have signed, and kills two leaders meanwhile.
    async fn play(&mut self, client: &Client, watch: &mut Watch) -> anyhow::Result<()> {
        let all = self.all();
        let gatherer = Gatherer::new(client.clone(), None);
        let mut board = Board::new();
        let mut lost = 0;
        loop {
            for line in watch.look(client).await? {
                board.leave();
                say(&line);
            }
            board.draw(&gatherer, self.lines()).await?;
            let signed = self.lines();
            if signed >= all {
                break;
            }
            // The leader of a queue instance after a third, the root's after two. Not before the
            // wide job has begun: a leader that is new makes its promises anew.
            match lost {
                0 if signed >= all / 3 && watch.claim.is_settled() => {
                    board.leave();
                    self.kill_child(client, PHYSICS.queue, signed).await?;
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
        Ok(())
    }

    /// How many jobs are to sign.
    fn all(&self) -> usize {
        self.work.each as usize * 3 + 1
    }

    /// How many jobs have signed.
    fn lines(&self) -> usize {
        let text = fs::read_to_string(&self.signed).unwrap_or_default();
        text.lines().count()
    }

    /// Waits until both queue instances take work, and connects to them.
    async fn serving(&self, client: &Client) -> anyhow::Result<Vec<(&'static str, Client)>> {
        let mut instances = Vec::new();
        for group in GROUPS {
            let row = loop {
                match child(client, group.queue).await? {
                    Some(row) => break row,
                    None => tokio::time::sleep(LOOK).await,
                }
            };
            let uri = row.uri.unwrap_or_default().parse()?;
            let instance = Client::connect(&uri, Options::default()).await?;
            instances.push((group.queue, instance));
        }
        say("queue instances batch and debug serve; each of their jobs is given cores of any node");
        Ok(instances)
    }

    /// Submits for each account, then the wide job and the workflow: the jobs as the root knows
    /// them, and what the wide one is promised.
    async fn submit(&self, client: &Client) -> anyhow::Result<(Vec<JobSet>, Claim)> {
        let mut jobs = Vec::new();
        for group in GROUPS {
            let (_, set) = submit(client, self.work.narrow(group)?).await?;
            jobs.push(set);
        }
        let each = self.work.each;
        let told = GROUPS.map(|group| {
            let shares = match group.shares {
                1 => "1 share".to_owned(),
                more => format!("{more} shares"),
            };
            format!("{} ({shares}) to {}", group.account, group.queue)
        });
        say(&format!(
            "{each} jobs submitted by {} and {each} by {}, on hold until all are there",
            told[0], told[1]
        ));
        let release = ReleaseRequest {
            jobs: JobSet::default(),
            job_set: None,
            scope: Scope::Everybody,
        };
        client.call::<Release>(&release).await?;
        self.busy(client).await?;
        let (wide, set) = submit(client, self.work.wide()?).await?;
        jobs.push(set);
        let mut claim = Claim::of(wide);
        // At once: on a busy machine it may have begun when this command comes to look again.
        let told = claim.look(client).await?;
        let (_, set) = submit(client, self.work.workflow()?).await?;
        jobs.push(set);
        say(&format!(
            "before them go a job of {WIDTH} of all {} cores, and a workflow that runs {each} more, three \
             instances deep",
            NODES * CORES
        ));
        told.iter().for_each(|line| say(line));
        Ok((jobs, claim))
    }

    /// Waits until the jobs have as many cores as they can use, or the first is over.
    async fn busy(&self, client: &Client) -> anyhow::Result<()> {
        let most = (self.work.each * 2).min(NODES * CORES);
        let question = Question {
            filter: Filter {
                states: vec![JobState::Run],
                results: Vec::new(),
            },
            name: Some(work::NAME.to_owned()),
            limit: most,
            ..Question::default()
        };
        while question.rows(client).await?.len() < most as usize && self.lines() == 0 {
            tokio::time::sleep(LOOK / 5).await;
        }
        Ok(())
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

    /// Waits until every job is over, and each ended well.
    async fn ended(&self, client: &Client, jobs: Vec<JobSet>) -> anyhow::Result<()> {
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
        Ok(())
    }

    /// Every job ran in its first attempt, and signed once.
    fn counted(&self) -> anyhow::Result<String> {
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
        Ok(format!(
            "{all} jobs accepted, {all} ran, each exactly once, none lost"
        ))
    }
}

/// The first of the jobs of a request, and all of them.
async fn submit(client: &Client, request: SubmitRequest) -> anyhow::Result<(JobId, JobSet)> {
    let submitted = client.call::<Submit>(&request).await?;
    let first = submitted.first;
    let last = JobId(first.0 + u64::from(submitted.count) - 1);
    let ranges = vec![(first, last)];
    Ok((first, JobSet { ranges }))
}

/// The row of the instance of that name once it serves.
async fn child(client: &Client, name: &str) -> anyhow::Result<Option<ChildRow>> {
    let rows = client.call::<Children>(&ChildrenRequest::default()).await?;
    let serves = |row: &ChildRow| row.name == name && row.stage == Stage::Serving;
    Ok(rows.into_iter().find(serves))
}
