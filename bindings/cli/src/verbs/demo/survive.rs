//! `eddy demo survive`: a tree of instances works while its leaders and the agents of its nodes are
//! killed, one every three seconds.
//!
//! Jobs are counted by what they leave behind of themselves (`evidence`), who is killed is
//! `victims`' to say.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use eddy_client::{Client, ClientError, EndFeed, Options};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::services::instance::{Shutdown, ShutdownRequest};
use eddy_wire::services::job::{JobSet, Submit, SubmitRequest};
use tokio::task::JoinSet;

use super::evidence::{Accepted, Count, script};
use super::ground::{Ends, Ground, Played, none_left, serving, tell};
use super::processes;
use super::victims::Victims;
use crate::instance::StartOptions;
use crate::number::number;
use crate::request::nested::{InstanceOptions, Program};
use crate::request::{JobOptions, Stdin, Terms};
use crate::session::block_on;

/// The pause between two kills.
const EVERY: Duration = Duration::from_secs(3);
/// How long the last jobs may take once nothing is killed any more.
const PATIENCE: Duration = Duration::from_secs(90);
/// Nodes of the root, each with so many cores.
const NODES: u32 = 3;
/// See [`NODES`].
const CORES: u32 = 4;
/// Slots of the workflow's instance, and of the one in it.
const SLOTS: [u32; 2] = [4, 2];
/// How many submit to each instance at the same time.
const LANES: u32 = 2;
/// How many jobs each of them has submitted and not seen end.
const BATCH: u32 = 4;
/// The elastic queue instance and its queue.
const QUEUE: &str = "batch";
/// The user's instances, each in the one before.
const INSTANCES: [&str; 2] = ["workflow", "nested"];
/// What is in the environment of each job, and of nothing else.
const MARK: &str = "EDDY_DEMO_JOB_OF";
/// Where the jobs leave their lines, in the directory of the demo.
const RAN: &str = "ran";

/// Kill a leader or an agent every three seconds while jobs run, and count what is lost
///
/// Starts a root of three made-up hosts with an elastic queue instance, and in it a user's workflow
/// that is an instance with another one in it; feeds all four with jobs of a fraction of a second,
/// each of which writes to a file of its own when it begins and when it ends. Every three seconds one
/// of their leaders, or the agent of a host, is killed with SIGKILL, chosen by chance: the root's is
/// started again by this command, the others' by their shells and agents by the root's leader, which do
/// that three times a minute and no more, so none of those is chosen more often and the root's turn comes
/// oftener.
/// At the end jobs submitted, run, lost and doubled are counted, and processes that outlive what they
/// were of; the exit code is 1 if any of the last three is not 0. Ctrl-C ends it before, and all it
/// has started.
#[derive(clap::Args)]
pub struct Args {
    /// How long jobs are submitted and leaders and agents killed, in seconds
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = number(6..=600_u64))]
    seconds: u64,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let lasts = Duration::from_secs(args.seconds);
    block_on(async {
        let begun = Instant::now();
        let mut ends = Ends::listen()?;
        let mut ground = start()?;
        let tally = Tally::default();
        let played = tokio::select! {
            survived = survive(&mut ground, &tally, lasts) => survived.map(Played::Whole),
            code = ends.come() => Ok(Played::Ended(code)),
        };
        let (strays, struck) = match played {
            Ok(Played::Whole(survived)) => survived,
            Ok(Played::Ended(code)) => {
                let left = ground.end().await?;
                let told = tally.jobs().len();
                tell(format!(
                    "told to end: {told} jobs were submitted; {left} processes outlived the root"
                ))?;
                return Ok(code);
            }
            Err(error) => {
                let _the_first_error_counts = ground.end().await;
                return Err(error);
            }
        };
        let count = Count::of(&ground.path().join(RAN), &tally.jobs());
        let orphans = strays + ground.end().await?;
        conclude(&count?, orphans, &struck, begun.elapsed())
    })
}

fn start() -> anyhow::Result<Ground> {
    let configuration = format!(
        "[policy]\npreset = \"easy\"\n\n[[instance]]\nname = \"{QUEUE}\"\nelastic = \"all\"\n\n\
         [[queue]]\nname = \"{QUEUE}\"\ninstance = \"{QUEUE}\"\n"
    );
    let options = StartOptions {
        cores: Some(CORES),
        size: Some(NODES),
        ..StartOptions::default()
    };
    let ground = Ground::start(&configuration, options)?;
    std::fs::create_dir(ground.path().join(RAN)).context("cannot make a directory")?;
    tell(format!(
        "leader {} leads a fresh root of {NODES} hosts with {CORES} declared cores each",
        ground.leader().pid()
    ))?;
    Ok(ground)
}

/// Says what was counted; the exit code.
fn conclude(count: &Count, orphans: usize, struck: &str, took: Duration) -> anyhow::Result<u8> {
    tell(format!(
        "{} jobs submitted, {} ran, {} lost, {} doubled, {orphans} orphaned processes; \
         {struck}; in {:.1} s",
        count.submitted,
        count.ran,
        count.lost.len(),
        count.doubled.len(),
        took.as_secs_f64()
    ))?;
    if let Some(broken) = count.broken() {
        anyhow::bail!("a promise is broken: {broken}");
    }
    ensure!(
        orphans == 0,
        "a promise is broken: {orphans} processes outlived what they were of"
    );
    Ok(0)
}

/// Jobs that were accepted, and how they ended.
#[derive(Clone, Default)]
struct Tally(Arc<Mutex<Vec<Accepted>>>);

impl Tally {
    fn jobs(&self) -> Vec<Accepted> {
        self.0.lock().expect("nobody panics").clone()
    }

    fn ended(&self) -> usize {
        let jobs = self.jobs();
        jobs.iter().filter(|job| job.returncode.is_some()).count()
    }

    /// Takes up jobs of a lane; where they are.
    fn accept(&self, lane: &str, first: u32, count: u32) -> usize {
        let mut jobs = self.0.lock().expect("nobody panics");
        let at = jobs.len();
        jobs.extend((first..first + count).map(|number| Accepted {
            file: format!("{lane}.{number}"),
            returncode: None,
        }));
        at
    }

    fn end(&self, at: usize, returncode: i32) {
        let mut jobs = self.0.lock().expect("nobody panics");
        if let Some(job) = jobs.get_mut(at) {
            job.returncode = Some(returncode);
        }
    }
}

/// A user's instance.
struct Sub {
    client: Client,
    /// The instance around it, and its job there.
    parent: Client,
    job: JobId,
}

/// Works and kills for so long, then ends the user's instances: tasks that outlived their jobs, and
/// who was killed how often.
async fn survive(
    ground: &mut Ground,
    tally: &Tally,
    lasts: Duration,
) -> anyhow::Result<(usize, String)> {
    let root = Client::connect(&ground.leader().uri, Options::default()).await?;
    let queue = uri_of(&root, QUEUE).await?;
    let mut subs: Vec<Sub> = Vec::new();
    for (name, slots) in INSTANCES.into_iter().zip(SLOTS) {
        let parent = subs.last().map_or(&root, |sub| &sub.client).clone();
        subs.push(instance(ground, parent, name, slots).await?);
    }
    tell(format!(
        "elastic queue instance {QUEUE} serves, and a workflow of {} cores with an instance of {} in it",
        SLOTS[0], SLOTS[1]
    ))?;
    let mut victims = Victims::new(
        root.clone(),
        [(QUEUE, queue)].into_iter().chain(
            INSTANCES
                .into_iter()
                .zip(subs.iter().map(|sub| sub.client.clone())),
        ),
        (1..NODES).map(|rank| (rank, ground.node(rank))),
    );
    let until = Instant::now() + lasts;
    let targets = [("root", &root, None), (QUEUE, &root, Some(QUEUE))];
    let nested = INSTANCES.into_iter().zip(&subs);
    let targets = targets
        .into_iter()
        .chain(nested.map(|(name, sub)| (name, &sub.client, None)));
    let mut feeders = JoinSet::new();
    for (name, client, queue) in targets {
        for lane in 1..=LANES {
            let lane = Lane::new(ground.path(), format!("{name}-{lane}"), queue)?;
            feeders.spawn(lane.feed(client.clone(), tally.clone(), until));
        }
    }
    let mut next = Instant::now() + EVERY;
    while next < until {
        tokio::time::sleep_until(next.into()).await;
        let (told, ended) = (tally.jobs().len(), tally.ended());
        let line = victims.strike(ground).await?;
        tell(format!("{told} jobs submitted, {ended} ended: {line}"))?;
        next += EVERY;
    }
    let rest = async {
        while let Some(fed) = feeders.join_next().await {
            fed.context("a feeder panicked")??;
        }
        for sub in subs.iter().rev() {
            sub.end().await?;
        }
        Ok(())
    };
    let left = until.saturating_duration_since(Instant::now()) + PATIENCE;
    match tokio::time::timeout(left, rest).await {
        Ok(ended) => ended,
        Err(_) => Err(anyhow::anyhow!(
            "{} of {} jobs have ended {} s after the last was submitted",
            tally.ended(),
            tally.jobs().len(),
            PATIENCE.as_secs()
        )),
    }?;
    let strays = none_left(|| processes::carrying(MARK, ground.path())).await;
    Ok((strays, victims.struck()))
}

async fn uri_of(parent: &Client, name: &str) -> anyhow::Result<Client> {
    let row = serving(parent, name).await?;
    let uri: eddy_client::Uri = row.uri.unwrap_or_default().parse()?;
    Ok(Client::connect(&uri, Options::default()).await?)
}

/// What `eddy alloc --bg` submits, once it serves.
async fn instance(ground: &Ground, parent: Client, name: &str, slots: u32) -> anyhow::Result<Sub> {
    let options = InstanceOptions {
        nslots: Some(slots),
        terms: Terms {
            job_name: Some(name.to_owned()),
            cwd: Some(ground.cwd()?),
            ..Terms::default()
        },
        ..InstanceOptions::default()
    };
    let request = options.request(&Program::None, Stdin::Empty)?;
    let submitted = parent.call::<Submit>(&request).await?;
    let client = uri_of(&parent, name).await?;
    let job = submitted.first;
    Ok(Sub {
        client,
        parent,
        job,
    })
}

impl Sub {
    /// Ends it in order; that its leader was killed must not show.
    async fn end(&self) -> anyhow::Result<()> {
        let mut over = EndFeed::of(&self.parent, JobSet::one(self.job))?;
        let request = ShutdownRequest {
            note: "the workflow is done".to_owned(),
            declared: None,
        };
        let asked = self
            .client
            .call_once::<Shutdown>(&request, bytes::Bytes::new());
        match asked.await {
            // A leader that is gone before its answer was read did what was asked.
            Ok(_) | Err(ClientError::Lost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(batch) = over.next().await? {
            for end in batch {
                ensure!(
                    end.returncode == 0,
                    "instance {} ended with {}: {}",
                    end.id,
                    end.returncode,
                    end.exception.as_deref().unwrap_or("no exception")
                );
            }
        }
        Ok(())
    }
}

/// Jobs to one instance, a few at a time.
struct Lane {
    name: String,
    options: JobOptions,
}

impl Lane {
    fn new(directory: &Path, name: String, queue: Option<&str>) -> anyhow::Result<Lane> {
        let path = directory.to_str();
        let path = path.context("the temporary directory is not UTF-8")?;
        let script = script(RAN, &name);
        let options = JobOptions {
            terms: Terms {
                job_name: Some("survive".to_owned()),
                cwd: Some(path.to_owned()),
                env: vec![format!("{MARK}={path}")],
                output: Some("none".to_owned()),
                queue: queue.map(str::to_owned),
                ..Terms::default()
            },
            command: vec!["/bin/sh".to_owned(), "-c".to_owned(), script],
            ..JobOptions::default()
        };
        Ok(Lane { name, options })
    }

    fn request(&self, first: u32) -> anyhow::Result<SubmitRequest> {
        let numbers = Idset::range(first, first + BATCH - 1);
        self.options.request(Some(numbers), Stdin::Empty)
    }

    /// Submits the next when the last have ended. A leader that is killed meanwhile is waited for.
    async fn feed(self, client: Client, tally: Tally, until: Instant) -> anyhow::Result<()> {
        let mut first = 1;
        while Instant::now() < until {
            let request = self.request(first)?;
            let submitted = client.call::<Submit>(&request).await;
            let submitted = submitted.with_context(|| self.name.clone())?;
            let at = tally.accept(&self.name, first, submitted.count);
            first += BATCH;
            let last = JobId(submitted.first.0 + u64::from(submitted.count) - 1);
            let ranges = vec![(submitted.first, last)];
            let mut ends = EndFeed::of(&client, JobSet { ranges })?;
            while let Some(batch) = ends.next().await.with_context(|| self.name.clone())? {
                for end in batch {
                    let place = usize::try_from(end.id.0 - submitted.first.0)?;
                    tally.end(at + place, end.returncode);
                }
            }
        }
        Ok(())
    }
}
