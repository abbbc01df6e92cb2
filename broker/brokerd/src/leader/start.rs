//! The start of a leader, step by step, and its end.
//!
//! Called once. Each step is undone by the end of the process; nothing is
//! written before the lock of the state directory is held.

mod files;
mod fits;
mod held;
mod kept;
mod set;
mod signals;

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eddy_broker::Broker;
use eddy_broker::broker::Identity;
use eddy_modules::Settings;
use eddy_modules::settings::{Damage, Over};
use eddy_wire::access::Access;
use eddy_wire::error::Refusal;
use eddy_wire::id::{Attempt, JobId, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobResult;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};
use eddy_wire::tree::InstanceFacts;
use serde_json::{Map, Value};
use thiserror::Error;
use tokio::sync::mpsc;

use super::access::{AccessError, admitted};
use super::answers::result_name;
use super::child::Told;
use super::configured::Configured;
use super::filters::Filters;
use super::granted::{Nested, Possession};
use super::lack::Patience;
use super::left::Lefts;
use super::nodes::{Keeper, Nodes, NodesGround};
use super::planner::Planning;
use super::reload::{Basis, Configuring};
use super::replay::{ReplayError, replay};
use super::rows::{self, RowsError};
use super::settings::{admits, settings};
use super::shells::{Ground, Shells};
use super::store::{Known, Store};
use super::texts::{Aim, Specs};
use super::tree::{Tree, TreeParts};
use super::turn::{Leader, Parts};
use super::{BrokerArgs, Inner, Ready};
use crate::clients::{ARRIVALS_MAX, Admission, listen};
use crate::clock::Clock;
use crate::config::declared::FitError;
use crate::config::{self, Config};
use crate::inventory::{InventoryError, Source};
use crate::journal::{
    CommitError, Journal, OpenError, Options, ReadError, Readers, Recover, Recovered, Sync, Writer,
};
use crate::link::DOOR_SOCKET;
use crate::rundir::{self, Claim, RundirError};
use crate::shell::process::inherited::duplicates;
use crate::shell::process::limits::{raise_open_files, spare_this_process};
use crate::shell::spawn::Rlimit;
use files::{FilesError, enough_files};
use fits::fits;
use held::{HeldError, keeps_held};
use kept::{
    CopyError, InsideError, identity, in_force, keep, keep_said, keys, outermost, own_place,
    possession, there,
};
use signals::watch_signals;

/// How long a lock that is held is tried for.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// How often.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Threads that answer questions to the journal.
const READERS: usize = 2;

/// Why a leader does not begin.
#[derive(Debug, Error)]
pub enum StartError {
    /// The state directory or its journal.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The journal was opened and cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The journal was opened and cannot be written.
    #[error("the instance's id cannot be stored")]
    Identity(#[from] CommitError),
    /// The records cannot be folded.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Rows of jobs that were over cannot be written.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// There is no inventory.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
    /// The state directory is another's.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The state directory is of an instance inside another.
    #[error(transparent)]
    Inside(#[from] InsideError),
    /// There is no run directory.
    #[error(transparent)]
    Rundir(#[from] RundirError),
    /// The parent does not take this instance for its child.
    #[error("the parent refuses this instance: {0}")]
    Parent(Refusal),
    /// Nodes that jobs hold would be gone.
    #[error(transparent)]
    Held(Box<HeldError>),
    /// Declared instances cannot be.
    #[error("{}", lines(.0))]
    Fit(Vec<FitError>),
    /// Users whom it is to admit.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// It may not have as many descriptors as it needs.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The system refused something.
    #[error("cannot {attempt}")]
    Io {
        /// What.
        attempt: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Makes an [`io::Error`] one of the start.
fn io(attempt: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::Io { attempt, source }
}

/// All of them in one line.
fn lines(errors: &[FitError]) -> String {
    let lines: Vec<String> = errors.iter().map(FitError::to_string).collect();
    lines.join("; ")
}

/// A start that failed, with the descriptor of whoever waits, if it was not
/// told anything yet.
pub type Failure = Box<(Option<Ready>, StartError)>;

/// Begins, leads and ends.
pub fn lead(
    args: &BrokerArgs,
    child: Option<Told>,
    configured: &Configured,
    ready: Ready,
    patience: &mut Patience,
) -> Result<i32, Failure> {
    let source = args.source();
    loop {
        match prepare(args, child.clone(), configured, &source) {
            Ok((prepared, claim)) => return prepared.run(claim, ready),
            Err(error) if patience.bears(&error) => {}
            Err(error) => return Err(Box::new((Some(ready), error))),
        }
    }
}

/// The state directory that is meant, as it is given.
pub fn statedir(args: &BrokerArgs, child: Option<&Told>) -> PathBuf {
    let told = child.map(|child| child.statedir.clone());
    told.or_else(|| args.statedir.clone())
        .unwrap_or_else(|| PathBuf::from("."))
}

/// All that is ready before the loop begins.
struct Prepared {
    statedir: PathBuf,
    rundir: PathBuf,
    instance: String,
    owner: u32,
    access: Access,
    config: Config,
    configuring: Basis,
    broker: Broker,
    known: Known,
    journal: Journal,
    recovered: Recovered,
    /// As recorded, or as told at the first start.
    inventory: Arc<ResourceSet>,
    /// Ranks that the leader's own shell serves.
    local: Idset,
    mock: Option<Span>,
    clock: Clock,
    path: String,
    /// What it has of its parent, if it is a child.
    nested: Option<Nested>,
    /// What whoever starts it is to know.
    notes: Vec<String>,
    /// The configuration, where other keys stand over the file than recorded.
    memo: Option<Map<String, Value>>,
}

fn prepare(
    args: &BrokerArgs,
    child: Option<Told>,
    configured: &Configured,
    source: &Source,
) -> Result<(Prepared, Claim), StartError> {
    let mut config = configured.config.clone();
    let statedir = std::path::absolute(statedir(args, child.as_ref()))
        .map_err(io("find the state directory"))?;
    let (mut journal, recovered) = opened(&statedir, args, &config, child.as_ref())?;
    let instance = identity(&mut journal)?;
    let (rundir, claim) = reached(&statedir, &config, child.as_ref(), &instance)?;
    let clock = Clock::start(Time(recovered.last_t));
    let nested = child.map(|child| {
        let hello = child.hello(&instance, &rundir);
        Nested::find(child, hello, &args.command, &mut journal, clock.clone())
    });
    let nested = nested.transpose()?;
    let possession = possessed(nested.as_ref(), &journal, source, args)?;
    // Made-up nodes cannot run anything.
    let mock = config.instance.run_duration.or(possession.mock);
    let there = there(&journal, &mut config, &possession.inventory)?;
    let mut settings = settings(&config, Arc::clone(&possession.inventory), nested.as_ref());
    (settings.local, settings.mock, settings.damage) = (possession.local, mock, args.damage());
    settings.last_job = JobId(recovered.last_job);
    let admits = admits(settings.owner, nested.as_ref());
    settings.access = admitted(&config.instance.access, &admits)?;
    settings.over = over(&mut journal, nested.as_ref())?;
    settings.keys = keys(&journal, configured, &args.set)?;
    let identity = named(&instance, &settings, nested.as_ref());
    let mut broker = Broker::new(identity, eddy_modules::leader(&settings));
    let known = replayed(&journal, args.damage(), &mut broker, &recovered)?;
    let lost = known.lost.told(args.damage());
    let place = (&there, statedir.as_path());
    let mut basis = Basis::of(configured, place, &args.set, admits, &settings);
    let said = (configured, nested.as_ref());
    let (set, access) = in_force(&mut config, &mut basis, said, &known);
    let inventory = known.inventory.clone().unwrap_or(possession.inventory);
    enough_files(inventory.ranks().difference(&settings.local).len())?;
    let misfits = fits(configured, &inventory, &known.removed)?;
    if nested.is_none() {
        keeps_held(&known, &settings.inventory)?;
        keep(configured, &statedir, (&mut journal, &settings.keys))?;
    }
    keep_said(&mut journal, &possession.kept)?;
    // Last: a start that fails leaves none.
    let claim = claim.map_or_else(|| Claim::new(&statedir, &rundir), Ok)?;
    let prepared = Prepared {
        statedir,
        rundir,
        instance,
        owner: settings.owner,
        access: access.unwrap_or(settings.access),
        config,
        configuring: basis,
        broker,
        inventory,
        local: settings.local,
        known,
        journal,
        recovered,
        mock,
        clock,
        path: settings.place.path,
        nested,
        notes: [lost, misfits, configured.remarks.clone(), set.notes].concat(),
        memo: set.memo,
    };
    Ok((prepared, claim))
}

/// What it has.
fn possessed(
    nested: Option<&Nested>,
    journal: &Journal,
    source: &Source,
    args: &BrokerArgs,
) -> Result<Possession, StartError> {
    match nested {
        Some(nested) => Ok(nested.possession()),
        None => possession(journal, source, args.size),
    }
}

/// Where it is to be reached. Of a child that is there from now on: its parent says it to everybody
/// before this leader serves, and there must be something to wait at.
fn reached(
    statedir: &Path,
    config: &Config,
    child: Option<&Told>,
    instance: &str,
) -> Result<(PathBuf, Option<Claim>), StartError> {
    let given = config.rank.rundir.as_deref();
    let parent = child.map(|child| child.uri.as_str());
    let rundir = rundir::find(statedir, given, parent, instance)?;
    let claim = parent.map(|_| Claim::new(statedir, &rundir)).transpose()?;
    Ok((rundir, claim))
}

/// What the broker says of itself.
fn named(instance: &str, settings: &Settings, nested: Option<&Nested>) -> Identity {
    Identity {
        instance: instance.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        owner: settings.owner,
        path: settings.place.path.clone(),
        depth: settings.place.depth,
        parent: nested.map(|nested| nested.address.uri.clone()),
        declared: settings.place.name.clone(),
    }
}

/// How many jobs are over, which a child reports.
fn over(journal: &mut Journal, nested: Option<&Nested>) -> Result<Over, StartError> {
    if nested.is_none() {
        return Ok(Over::default());
    }
    let (completed, all) = journal.finished_with(result_name(JobResult::Completed))?;
    let failed = all.saturating_sub(completed);
    Ok(Over { completed, failed })
}

/// What the journal left, once the broker has folded it.
fn replayed(
    journal: &Journal,
    damage: Damage,
    broker: &mut Broker,
    recovered: &Recovered,
) -> Result<Known, StartError> {
    let mut known = replay(journal, Specs::of(journal, Aim::Lead(damage)), broker)?;
    let last = recovered.last_seq;
    tracing::info!(records = known.replayed, last, "the journal was replayed");
    known.last_job = known.last_job.max(JobId(recovered.last_job));
    Ok(known)
}

/// The journal, with what is to be said of it.
fn opened(
    statedir: &Path,
    args: &BrokerArgs,
    config: &Config,
    child: Option<&Told>,
) -> Result<(Journal, Recovered), StartError> {
    // Before anything is written.
    enough_files(0)?;
    let ballast_bytes = match child {
        // One on a disk does for all: its parent's. It is made by the thousand.
        Some(child) if child.declared().is_none() => 0,
        Some(_) | None => Options::default().ballast_bytes,
    };
    let sync = match config.instance.sync {
        config::Sync::Full => Sync::Full,
        config::Sync::Normal => Sync::Normal,
    };
    if child.is_none() {
        outermost(statedir)?;
    }
    let recover = match args.damage() {
        Damage::Cut => Recover::Cut,
        Damage::Refuse => Recover::Refuse,
    };
    let options = Options {
        sync,
        recover,
        ballast_bytes,
        ..Options::default()
    };
    let (mut journal, recovered) = open(statedir, &options)?;
    if child.is_none() {
        own_place(&mut journal, statedir, args)?;
    }
    let made = rows::complete(&mut journal, Aim::Lead(args.damage()))?;
    if made > 0 {
        tracing::info!(made, "rows of jobs that were over are written");
    }
    for note in &recovered.notes {
        tracing::warn!("journal: {note}");
    }
    if let Some(cut) = &recovered.cut {
        tracing::warn!("{cut}");
        if child.is_some() {
            // Whoever asked for it hears of no other: standard error is the job's.
            eprintln!("eddy broker: {cut}");
        }
    }
    Ok((journal, recovered))
}

/// Opens the journal. A leader that was just killed holds its lock until the
/// system has taken it apart, so a lock that is held is tried for a moment.
fn open(statedir: &Path, options: &Options) -> Result<(Journal, Recovered), OpenError> {
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match Journal::open(statedir, options) {
            Err(OpenError::Locked { .. }) if Instant::now() < until => {
                std::thread::sleep(LOCK_PAUSE);
            }
            answer => return answer,
        }
    }
}

impl Prepared {
    fn run(self, claim: Claim, ready: Ready) -> Result<i32, Failure> {
        let span = tracing::info_span!("instance", id = %self.instance);
        let _entered = span.enter();
        let runtime = match tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
        {
            Ok(runtime) => runtime,
            Err(error) => return Err(Box::new((Some(ready), io("make a runtime")(error)))),
        };
        let uri = rundir::uri(&self.rundir);
        let ranks = self.inventory.ranks();
        let last_job = self.known.last_job;
        let mut notes = self.recovered.said();
        notes.extend(self.lacking());
        notes.extend(self.notes.iter().cloned());
        let local = tokio::task::LocalSet::new();
        let memo = self.memo.clone();
        let code = local.block_on(&runtime, async {
            let (mut leader, last) = match self.begin() {
                Ok(begun) => begun,
                Err(error) => return Err(Box::new((Some(ready), error))),
            };
            tracing::info!(uri, "work is taken");
            leader.announce_by(ready, uri, ranks, notes);
            leader.resume(last, memo.as_ref());
            leader.begin_program(last_job);
            Ok(leader.run().await)
        })?;
        drop(local);
        // A sweep that still looks has nobody to tell.
        runtime.shutdown_background();
        claim.remove();
        Ok(code)
    }

    /// Which jobs never start for want of pools, and which are in queues that are no more: this start may have another
    /// configuration than they were taken under.
    fn lacking(&self) -> Vec<String> {
        let (known, config) = (&self.known, &self.config.instance);
        let lacking = [
            known.lacking(&config.pools),
            known.queued.gone(&config.queues),
        ]
        .concat();
        lacking.iter().for_each(|line| tracing::warn!("{line}"));
        lacking
    }

    /// Starts the threads and listens; the leader and the last record.
    fn begin(self) -> Result<(Leader, Seq), StartError> {
        let (inside, inner) = mpsc::unbounded_channel();
        let (arrivals, arrived) = mpsc::channel(ARRIVALS_MAX);
        let nofile = raise_open_files(None);
        let lowered = spare_this_process();
        let tree = self.tree().map_err(io("open the door"))?;
        let nodes = self.nodes(nofile);
        let ground = self.ground(nofile)?;
        let readers = Readers::new(&self.statedir, READERS);
        let tell = inside.clone();
        let tell = move |committed| {
            // The loop is gone only when the process ends.
            let _ = tell.send(Inner::Committed(committed));
        };
        let writer = match self.config.instance.sync {
            config::Sync::Full => Writer::start(self.journal, tell),
            config::Sync::Normal => Ok(Writer::at_hand(self.journal, tell)),
        };
        let writer = writer.map_err(io("start the journal's writer"))?;
        let (config, known) = (&self.config.instance, self.known);
        let removed = known.removed.clone();
        let store = Store::new(
            writer,
            readers,
            inside.clone(),
            config,
            known,
            self.statedir.clone(),
        );
        let planner = Planning::new(inside.clone());
        let epoch = self.broker.epoch().next();
        let child = self
            .nested
            .map(|nested| nested.open(epoch, config, lowered));
        let there = Arc::clone(&self.inventory);
        let configuring = Configuring::new(self.configuring, (there, removed), inside.clone());
        let mut filters = Filters::new(inside.clone());
        filters.want(&self.config.instance.filters);
        let (lefts, told) = (Lefts::new(inside.clone()), inside.clone());
        let tell = move |epoch| {
            // The loop is gone only when the process ends.
            let _ = told.send(Inner::ShellDead(epoch));
        };
        let shells = Shells::new(ground, Rc::new(tell));
        let admission = Admission::own(self.owner, &self.statedir, &self.rundir);
        admission.learn(&self.access);
        listen(&self.rundir, &admission, &arrivals).map_err(io("listen"))?;
        watch_signals(inside).map_err(io("watch for signals"))?;
        let leader = Leader::new(Parts {
            broker: self.broker,
            clock: self.clock,
            config: self.config,
            configuring,
            admission,
            store,
            planner,
            filters,
            lefts,
            shells,
            tree,
            nodes,
            child,
            arrivals,
            arrived,
            inner,
        });
        Ok((leader, Seq(self.recovered.last_seq)))
    }

    fn tree(&self) -> io::Result<Tree> {
        Tree::open(TreeParts {
            instance: &self.instance,
            job: self.job(),
            rundir: &self.rundir,
            owner: self.owner,
            epoch: self.broker.epoch().next(),
            local: self.local.clone(),
            facts: InstanceFacts {
                spool_bytes: self.config.instance.limits.spool_bytes,
                mock: self.mock,
                owner: self.owner,
                path: self.path.clone(),
                access: self.access.clone(),
                limits: Some(self.config.instance.limits.of_clients()),
            },
            inventory: Arc::clone(&self.inventory),
            config: &self.config,
        })
    }

    /// Which job of its parent the instance is, and in which attempt.
    fn job(&self) -> Option<(JobId, Attempt)> {
        let of = self.nested.as_ref()?.kept.of;
        Some((of.job, of.attempt))
    }

    fn nodes(&self, nofile: Option<Rlimit>) -> Nodes {
        let ground = NodesGround {
            statedir: self.statedir.clone(),
            instance: self.instance.clone(),
            job: self.job(),
            door: self.rundir.join(DOOR_SOCKET),
            transport: self.config.rank.transport,
            fanout: self.config.instance.fanout,
            nofile,
        };
        let keeper = match self.nested {
            Some(_) => Keeper::Parent,
            None => Keeper::This,
        };
        Nodes::new(ground, keeper)
    }

    /// What the shells of this node are told.
    fn ground(&self, nofile: Option<Rlimit>) -> Result<Ground, StartError> {
        Ok(Ground {
            statedir: self.statedir.clone(),
            rundir: self.rundir.clone(),
            instance: self.instance.clone(),
            mock: self.mock,
            spool_bytes: self.config.instance.limits.spool_bytes,
            nofile,
            ranks: self.local.clone(),
            marker: None,
            streams: match &self.nested {
                Some(nested) if !nested.kept.command.is_empty() => {
                    Some(Arc::new(duplicates().map_err(io("hand on the streams"))?))
                }
                Some(_) | None => None,
            },
        })
    }
}
