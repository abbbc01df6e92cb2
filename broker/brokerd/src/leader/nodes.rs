//! The agents of the instance's nodes as processes: started here "as if each
//! were a host", watched, started again when they die, ended with the instance.
//!
//! Used by the leader's loop. Each agent has a task that waits for a pidfd; a
//! lock file with pid and start time says which agents outlived the leader
//! before. What an agent does is not looked at.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use eddy_wire::id::{Attempt, JobId};
use eddy_wire::idset::Idset;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::agent::LOCK_NAME;
use crate::config::Transport;
use crate::life::Life;
use crate::own::Own;
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
/// How long an agent that was taken out may take to end in order.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// How long a killed process may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// What every agent of this leader is told.
#[derive(Clone, Debug)]
pub struct NodesGround {
    /// State directory of the instance.
    pub statedir: PathBuf,
    /// The instance.
    pub instance: String,
    /// Which job of its parent that is, and in which attempt; none for a root.
    pub job: Option<(JobId, Attempt)>,
    /// The leader's door.
    pub door: PathBuf,
    /// What carries frames between ranks.
    pub transport: Transport,
    /// How many ranks hang directly under one.
    pub fanout: u32,
    /// Limit of open files for tasks, where the leader raised its own.
    pub nofile: Option<Rlimit>,
}

/// Who keeps the agents of an instance's nodes alive. The one that only hosts, on the leader's own node, its
/// leader always keeps: an agent of the parent hosts no rank there.
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
    strays: Strays,
}

/// Whether it was looked for agents of ranks that an earlier leader had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strays {
    Unknown,
    Ended,
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
            strays: Strays::Unknown,
        }
    }

    /// Keeps an agent alive for each of these ranks, and for no other but 0: also
    /// those are ended that an earlier leader did not come to end.
    pub fn want(&mut self, ranks: &Idset) {
        let strays = std::mem::replace(&mut self.strays, Strays::Ended);
        if strays == Strays::Unknown {
            self.adopt();
        }
        if self.keeper == Keeper::Parent {
            return;
        }
        self.kept.retain(|rank, kept| {
            let is_wanted = *rank == 0 || ranks.contains(*rank);
            if !is_wanted {
                kept.wish.send_replace(Wish::End);
            }
            is_wanted || !kept.task.is_finished()
        });
        for rank in ranks.iter() {
            self.keep(rank);
        }
        if strays == Strays::Unknown {
            self.end_strays(ranks);
        }
    }

    /// The agent that only hosts may have outlived an earlier leader, or what it made may: this one has it
    /// from now on, also where it has nothing for it to do.
    fn adopt(&mut self) {
        if !self.ground.recorded().contains(&0) {
            return;
        }
        match self.ground.holder(0) {
            Ok(Some(_)) => self.attend(),
            Ok(None) => self.end_stray(0),
            Err(error) => tracing::error!(rank = 0, %error, "its agent cannot be found"),
        }
    }

    /// Ends agents of ranks that are in no inventory any more.
    fn end_strays(&mut self, wanted: &Idset) {
        for rank in self.ground.recorded() {
            if rank != 0 && !wanted.contains(rank) && !self.kept.contains_key(&rank) {
                self.end_stray(rank);
            }
        }
    }

    fn end_stray(&mut self, rank: u32) {
        if self.kept.contains_key(&rank) {
            return;
        }
        let (wish, wished) = watch::channel(Wish::End);
        let ground = Rc::clone(&self.ground);
        let task = spawn_local(async move { ground.end_stray(rank, wished).await });
        self.kept.insert(rank, Kept { wish, task });
    }

    /// Keeps one alive that only hosts, on the leader's own node.
    pub fn attend(&mut self) {
        self.keep(0);
    }

    fn keep(&mut self, rank: u32) {
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

    /// Ranks that have a state directory here.
    fn recorded(&self) -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir(self.statedir.join(RANKS)) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| name.parse().ok()).collect()
    }

    /// The process that has the lock of that rank's agent.
    fn holder(&self, rank: u32) -> io::Result<Option<Life>> {
        match sweep::holder(&self.statedir_of(rank).join(LOCK_NAME)) {
            Some(holder) => Life::of(holder),
            None => Ok(None),
        }
    }

    /// Ends an agent that nobody wants, if there is one, and removes what one left that was killed.
    async fn end_stray(&self, rank: u32, mut wish: watch::Receiver<Wish>) {
        wish.mark_changed();
        match self.holder(rank) {
            Ok(None) => self.clear(rank).await,
            Ok(Some(mut life)) => {
                tracing::warn!(rank, "its agent is in no inventory and is ended");
                outlive(rank, &mut life, &mut wish).await;
                self.clear(rank).await;
            }
            Err(error) => tracing::error!(rank, %error, "its agent cannot be ended"),
        }
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
        if let Some(life) = self.holder(rank)? {
            tracing::info!(rank, "an agent is there");
            return Ok(life);
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&statedir)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(statedir.join(LOG_FILE))?;
        let mut command = Own::find()?.command();
        command.arg("agent").arg("--statedir").arg(&statedir);
        command.args(["--rank", &rank.to_string(), "--instance", &self.instance]);
        command.arg("--leader").arg(&self.door);
        command.args(["--transport", self.transport.name()]);
        command.args(["--fanout", &self.fanout.to_string()]);
        if rank == 0 {
            command.arg("--hosts-only");
        }
        if let Some((job, attempt)) = self.job {
            command.args(["--job", &format!("{}.{}", job.0, attempt.0)]);
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

/// Waits for the end of an agent. One that is told to end and does not, since it
/// is stopped for one, is killed.
async fn outlive(rank: u32, life: &mut Life, wish: &mut watch::Receiver<Wish>) -> Ended {
    let mut patience: Option<Instant> = None;
    loop {
        let until = patience.unwrap_or_else(Instant::now);
        tokio::select! {
            ended = life.ended() => {
                if *wish.borrow() != Wish::Live {
                    return Ended::Asked;
                }
                tracing::warn!(rank, ?ended, "its agent ended");
                return Ended::Died;
            }
            () = sleep_until(until), if patience.is_some() => {
                tracing::warn!(rank, "its agent does not end and is killed");
                patience = None;
                send(rank, life, libc::SIGKILL);
            }
            changed = wish.changed() => {
                let signal = match *wish.borrow_and_update() {
                    Wish::Live => continue,
                    Wish::End => {
                        patience = Some(Instant::now() + END_PATIENCE);
                        libc::SIGTERM
                    }
                    Wish::Kill => libc::SIGKILL,
                };
                if changed.is_err() {
                    return Ended::Asked;
                }
                send(rank, life, signal);
            }
        }
    }
}

fn send(rank: u32, life: &Life, signal: i32) {
    if let Err(error) = life.signal(signal) {
        tracing::error!(rank, %error, "its agent cannot be signalled");
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
