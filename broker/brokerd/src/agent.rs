//! `eddy agent`: the process that hosts the ranks of one node that do not lead:
//! its own rank of an instance, and ranks of instances inside that one.
//!
//! Started by the leader (`leader::nodes`) or an administrator. Each rank is a
//! task with its own loop ([`following`]), sockets and directories; [`hosts`]
//! begins and ends those of inner instances. It holds nothing that must survive
//! and never spawns with anything between fork and exec.

pub mod following;
pub mod guest;
pub mod hosts;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use eddy_wire::id::{Attempt, JobId, Rank};
use eddy_wire::tree::ATTENDANT;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use self::following::{End, Following, Post};
use crate::config::Transport;
use crate::logging;
use crate::rundir::{self, Claim, RundirError};
use crate::shell::process::limits::raise_open_files;
use crate::shell::spawn::Rlimit;
use crate::shell::sweep::{LockError, ShellLock};

/// Name of the lock in the state directory of a rank.
pub const LOCK_NAME: &str = "agent.lock";
/// The exit code of an agent that could not begin.
const CODE_NO_BEGIN: i32 = 1;
/// How long the lock of an agent that was just killed may still be held by a
/// child between clone and exec.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at that lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// Sweeps at a time: each reads all of `/proc`.
const SWEEPS_MAX: usize = 2;

/// What an agent is started with.
#[derive(Clone, Debug, clap::Args)]
pub struct AgentArgs {
    /// State directory of the rank; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub statedir: PathBuf,
    /// Its rank in the instance
    #[arg(long, value_name = "R")]
    pub rank: u32,
    /// Id of the instance
    #[arg(long, value_name = "ID")]
    pub instance: String,
    /// Where its leader is knocked at
    #[arg(long, value_name = "PATH")]
    pub leader: String,
    /// Host ranks of inner instances only: the leader has this rank itself
    #[arg(long)]
    pub hosts_only: bool,
    /// Job and attempt that its instance is, as 3.1, of one that is a job of another
    #[arg(long, value_name = "JOB.ATTEMPT", value_parser = job)]
    pub job: Option<(JobId, Attempt)>,
    /// What carries frames to ranks that knock here: zeromq or stream
    #[arg(long, value_name = "NAME", default_value = "zeromq", value_parser = transport)]
    pub transport: Transport,
    /// How many ranks hang directly under one
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub fanout: u32,
    /// Limit of open files for tasks; what the agent itself began with, if not given
    #[arg(long, value_name = "N")]
    pub nofile: Option<u64>,
}

fn job(text: &str) -> Result<(JobId, Attempt), String> {
    let parts = text.split_once('.');
    let numbers = parts.and_then(|(job, attempt)| Some((job.parse().ok()?, attempt.parse().ok()?)));
    let (job, attempt) = numbers.ok_or_else(|| "allowed are two numbers, as 3.1".to_owned())?;
    Ok((JobId(job), Attempt(attempt)))
}

fn transport(name: &str) -> Result<Transport, String> {
    Transport::of_name(name).ok_or_else(|| "allowed are zeromq and stream".to_owned())
}

/// What all ranks that one process hosts share.
#[derive(Debug)]
pub struct Common {
    /// User id of whom it all belongs to.
    pub owner: u32,
    /// What carries frames to ranks that knock here.
    pub transport: Transport,
    /// How many ranks hang directly under one.
    pub fanout: u32,
    /// Limit of open files for tasks.
    pub nofile: Option<Rlimit>,
    /// `$XDG_RUNTIME_DIR`, for run directories.
    pub runtime: Option<String>,
    /// What starts the ranks of other users' instances: of the administrator's agent only.
    pub starters: Option<guest::Starters>,
}

/// Why an agent does not begin.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// There is one already for this rank.
    #[error("rank {rank} has an agent already: {source}")]
    Lock {
        /// The rank.
        rank: u32,
        /// Who.
        source: LockError,
    },
    /// It would follow itself.
    #[error("--rank: 0 given; rank 0 leads and follows nobody, beside it --hosts-only is allowed")]
    Leader,
    /// There is one with another state directory.
    #[error("run directory {}: another agent has it: two agents for one rank", .rundir.display())]
    Twice {
        /// Where its sockets are.
        rundir: PathBuf,
    },
    /// The system refused something.
    #[error("cannot {attempt}: {source}")]
    Io {
        /// What.
        attempt: &'static str,
        /// Why.
        source: io::Error,
    },
    /// There is no run directory.
    #[error(transparent)]
    Rundir(#[from] RundirError),
}

/// Makes an [`io::Error`] one of an agent's start.
fn io(attempt: &'static str) -> impl FnOnce(io::Error) -> AgentError {
    move |source| AgentError::Io { attempt, source }
}

/// Hosts until it is told to end; the process's exit code.
pub fn run_agent(args: AgentArgs) -> i32 {
    logging::start(None);
    let _span = tracing::info_span!("agent", rank = args.rank).entered();
    // A session of its own, as a shell: keys at a terminal are not for it.
    let _ = rustix::process::setsid();
    match begin(&args) {
        Ok(end) => {
            tracing::info!(?end, "the agent ends");
            0
        }
        Err(error) => {
            tracing::error!("{error}");
            CODE_NO_BEGIN
        }
    }
}

fn begin(args: &AgentArgs) -> Result<End, AgentError> {
    let statedir = std::path::absolute(&args.statedir).map_err(io("find the state directory"))?;
    make(&statedir).map_err(io("make the state directory"))?;
    if args.rank == 0 && !args.hosts_only {
        return Err(AgentError::Leader);
    }
    let lock = take_lock(&statedir, args.rank)?;
    let common = Rc::new(Common {
        owner: rustix::process::geteuid().as_raw(),
        transport: args.transport,
        fanout: args.fanout,
        nofile: raise_open_files(args.nofile),
        runtime: std::env::var("XDG_RUNTIME_DIR").ok(),
        starters: match rustix::process::geteuid().is_root() {
            true => Some(guest::Starters::default()),
            false => None,
        },
    });
    let post = Post {
        instance: args.instance.clone(),
        job: args.job,
        rank: match args.hosts_only {
            true => ATTENDANT,
            false => Rank(args.rank),
        },
        node: args.rank,
        leader: args.leader.clone(),
        statedir,
        marker: None,
    };
    let runtime = common.runtime.as_deref();
    let rundir = rundir::place_rank(runtime, &post.statedir, post.rank_of())?;
    let claim = claimed(&post.statedir, &rundir)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(SWEEPS_MAX)
        .build()
        .map_err(io("make a runtime"))?;
    let local = tokio::task::LocalSet::new();
    let ended = local.block_on(&runtime, async {
        let stop = watch_signals().map_err(io("watch for signals"))?;
        let following = Following::begin(post, common)?;
        Ok(following.run(stop).await)
    });
    drop(local);
    // A sweep that still looks has nobody to tell.
    runtime.shutdown_background();
    drop((claim, lock));
    ended
}

/// Makes a private directory, and those above it.
fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn take_lock(statedir: &Path, rank: u32) -> Result<ShellLock, AgentError> {
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match ShellLock::take_at(statedir.join(LOCK_NAME)) {
            Err(LockError::Held { holder: None, .. }) if Instant::now() < until => {
                std::thread::sleep(LOCK_PAUSE);
            }
            answer => return answer.map_err(|source| AgentError::Lock { rank, source }),
        }
    }
}

/// The directory of its sockets, held for this process: another agent of this
/// rank, whose state directory is another, would take them from under it.
fn claimed(statedir: &Path, rundir: &Path) -> Result<Claim, AgentError> {
    let mut claim = Claim::new(statedir, rundir).map_err(|error| match error {
        RundirError::Held { path, .. } => AgentError::Twice { rundir: path },
        error => AgentError::Rundir(error),
    })?;
    // The rank that is served there removes it.
    claim.keep();
    Ok(claim)
}

/// TERM and INT end it in order; HUP is not for a daemon.
fn watch_signals() -> io::Result<oneshot::Receiver<()>> {
    let (stop, stopped) = oneshot::channel();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::task::spawn_local(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => tracing::info!("signal HUP is ignored"),
            }
        }
        // Nobody listens when it ends already.
        let _ = stop.send(());
    });
    Ok(stopped)
}
