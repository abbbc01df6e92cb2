//! The agents of the instance's nodes as processes: started here "as if each
//! were a host", watched, started again when they die, ended with the instance.
//!
//! Used by the leader's loop. Each agent has a task that waits for a pidfd; a
//! lock file with pid and start time says which agents outlived the leader
//! before. What an agent does is not looked at.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use eddy_wire::idset::Idset;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};
use tokio::time::{Instant, sleep, timeout_at};

use crate::agent::LOCK_NAME;
use crate::config::Transport;
use crate::life::Life;
use crate::rundir;
use crate::shell::spawn::Rlimit;
use crate::shell::sweep::{self, ShellLock};

/// Name of the directory with the state directories of ranks.
const RANKS: &str = "ranks";
/// Name of the log in each.
const LOG_FILE: &str = "log";
/// Deaths that are made good at once within [`DEATHS_WITHIN`].
const DEATHS_MAX: usize = 3;
/// See [`DEATHS_MAX`].
const DEATHS_WITHIN: Duration = Duration::from_secs(60);
/// After what failed for want of memory or descriptors.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
/// How long a killed process may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// What every agent of this leader is told.
#[derive(Clone, Debug)]
pub struct NodesGround {
    /// State directory of the instance.
    pub statedir: PathBuf,
    /// The instance.
    pub instance: String,
    /// The leader's door.
    pub door: PathBuf,
    /// What carries frames between ranks.
    pub transport: Transport,
    /// How many ranks hang directly under one.
    pub fanout: u32,
    /// Limit of open files for tasks, where the leader raised its own.
    pub nofile: Option<Rlimit>,
}

/// Who keeps the agents of an instance's nodes alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// This leader.
    This,
    /// Its parent, whose agents host the ranks.
    Parent,
}

/// The agents that are kept alive, by rank; rank 0's only hosts.
pub struct Nodes {
    keeper: Keeper,
    ground: Rc<NodesGround>,
    kept: BTreeMap<u32, Kept>,
}

struct Kept {
    wish: watch::Sender<Wish>,
    task: JoinHandle<()>,
}

/// What an agent is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Live,
    End,
    Kill,
}

/// How a wait for an agent's end came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Died,
    Asked,
}

impl Nodes {
    /// None yet.
    pub fn new(ground: NodesGround, keeper: Keeper) -> Nodes {
        Nodes {
            keeper,
            ground: Rc::new(ground),
            kept: BTreeMap::new(),
        }
    }

    /// Keeps an agent alive for each of these ranks, and for no other but 0.
    pub fn want(&mut self, ranks: &Idset) {
        for (rank, kept) in &self.kept {
            if *rank != 0 && !ranks.contains(*rank) {
                kept.wish.send_replace(Wish::End);
            }
        }
        for rank in ranks.iter() {
            self.keep(rank);
        }
    }

    /// Keeps one alive that only hosts, on the leader's own node.
    pub fn attend(&mut self) {
        self.keep(0);
    }

    fn keep(&mut self, rank: u32) {
        if self.keeper == Keeper::Parent {
            return;
        }
        let before = self.kept.remove(&rank);
        let before = match before {
            Some(kept) if *kept.wish.borrow() == Wish::Live => {
                self.kept.insert(rank, kept);
                return;
            }
            Some(kept) => Some(kept.task),
            None => None,
        };
        let (wish, wished) = watch::channel(Wish::Live);
        let ground = Rc::clone(&self.ground);
        let task = spawn_local(async move {
            // A rank that was taken out and is wanted again.
            if let Some(before) = before {
                let _ = before.await;
            }
            ground.keep(rank, wished).await;
        });
        self.kept.insert(rank, Kept { wish, task });
    }

    /// Ends all agents in order, those that do not end by then at once, and any
    /// shell that is still there: nothing runs that it could hold.
    pub async fn end(&mut self, until: Instant) {
        let kept = std::mem::take(&mut self.kept);
        for one in kept.values() {
            one.wish.send_replace(Wish::End);
        }
        for (rank, mut one) in kept {
            if timeout_at(until, &mut one.task).await.is_ok() {
                continue;
            }
            tracing::warn!(rank, "its agent does not end and is killed");
            one.wish.send_replace(Wish::Kill);
            let last = until + KILL_PATIENCE;
            if timeout_at(last, &mut one.task).await.is_err() {
                tracing::error!(rank, "its agent is left behind");
            }
        }
    }
}

impl NodesGround {
    fn statedir_of(&self, rank: u32) -> PathBuf {
        self.statedir.join(RANKS).join(rank.to_string())
    }

    async fn keep(&self, rank: u32, mut wish: watch::Receiver<Wish>) {
        let mut deaths: VecDeque<Instant> = VecDeque::new();
        while *wish.borrow_and_update() == Wish::Live {
            let pause = match self.life(rank) {
                Ok(mut life) => match outlive(rank, &mut life, &mut wish).await {
                    Ended::Asked => break,
                    Ended::Died => pause_after(&mut deaths),
                },
                Err(error) => {
                    tracing::error!(rank, %error, "an agent cannot be started");
                    FAILURE_PAUSE
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                changed = wish.changed() => if changed.is_err() { return },
            }
        }
        self.clear(rank).await;
    }

    /// The agent that lives, or a new one.
    fn life(&self, rank: u32) -> io::Result<Life> {
        let statedir = self.statedir_of(rank);
        if let Some(holder) = sweep::holder(&statedir.join(LOCK_NAME))
            && let Some(life) = Life::of(holder)?
        {
            tracing::info!(rank, pid = holder.pid, "an agent is there");
            return Ok(life);
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&statedir)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(statedir.join(LOG_FILE))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("agent").arg("--statedir").arg(&statedir);
        command.args(["--rank", &rank.to_string(), "--instance", &self.instance]);
        command.arg("--leader").arg(&self.door);
        command.args(["--transport", self.transport.name()]);
        command.args(["--fanout", &self.fanout.to_string()]);
        if rank == 0 {
            command.arg("--hosts-only");
        }
        if let Some(nofile) = self.nofile {
            command.args(["--nofile", &nofile.soft.to_string()]);
        }
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = command.spawn()?;
        tracing::info!(rank, pid = child.id(), "an agent was started");
        Life::of_child(child)
    }

    /// Removes what an agent that could not end in order left, and ends a shell
    /// that it did not take along. Only when nothing of the rank runs any more.
    async fn clear(&self, rank: u32) {
        let statedir = self.statedir_of(rank);
        if let Some(rundir) = rundir::recorded(&statedir) {
            rundir::remove(&rundir);
        }
        let Some(holder) = sweep::holder(&statedir.join(sweep::LOCK_NAME)) else {
            return;
        };
        tracing::warn!(rank, pid = holder.pid, "its shell is ended");
        if let Ok(Some(mut life)) = Life::of(holder) {
            let _ = life.signal(libc::SIGKILL);
            let _ = life.ended().await;
        }
        let instance = self.instance.clone();
        let swept = spawn_blocking(move || match ShellLock::take(&statedir) {
            Ok(lock) => sweep::sweep(&lock, &instance, &Idset::one(rank), None).map(drop),
            // Whoever has it now is not what was ended.
            Err(error) => Err(io::Error::other(error)),
        });
        if let Ok(Err(error)) = swept.await {
            tracing::error!(rank, %error, "what its shell left was not looked for");
        }
    }
}

async fn outlive(rank: u32, life: &mut Life, wish: &mut watch::Receiver<Wish>) -> Ended {
    loop {
        tokio::select! {
            ended = life.ended() => {
                if *wish.borrow() != Wish::Live {
                    return Ended::Asked;
                }
                tracing::warn!(rank, ?ended, "its agent ended");
                return Ended::Died;
            }
            changed = wish.changed() => {
                let signal = match *wish.borrow_and_update() {
                    Wish::Live => continue,
                    Wish::End => libc::SIGTERM,
                    Wish::Kill => libc::SIGKILL,
                };
                if changed.is_err() {
                    return Ended::Asked;
                }
                if let Err(error) = life.signal(signal) {
                    tracing::error!(rank, %error, "its agent cannot be signalled");
                }
            }
        }
    }
}

/// None for the first few deaths, then until the first of them is long ago.
fn pause_after(deaths: &mut VecDeque<Instant>) -> Duration {
    let now = Instant::now();
    deaths.push_back(now);
    if deaths.len() <= DEATHS_MAX {
        return Duration::ZERO;
    }
    let first = deaths.pop_front().unwrap_or(now);
    (first + DEATHS_WITHIN).saturating_duration_since(now)
}
