//! The shells as processes: started here, watched until they are dead, and what
//! they left behind ended before anybody is told.
//!
//! Used by the leader's loop. Each watch is a thread that waits in the kernel.
//! A shell is dead when its lock is free, never because it is silent.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use eddy_wire::id::Epoch;
use eddy_wire::idset::Idset;
use eddy_wire::time::Span;
use rustix::event::{PollFd, PollFlags, poll};

use super::{Inner, Inside};
use crate::shell::reap;
use crate::shell::spawn::Rlimit;
use crate::shell::sweep::{LockError, ShellLock, sweep};

/// Name of the log in the state directory, as `eddy start` has it.
const LOG_FILE: &str = "log";
/// Before a lock that nobody owns up to is looked at again: a shell that has
/// just begun, or a task between clone and exec.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Before trying again what failed for want of memory or descriptors.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// What every shell of this leader is told.
#[derive(Clone, Debug)]
pub struct Ground {
    /// State directory.
    pub statedir: PathBuf,
    /// Run directory.
    pub rundir: PathBuf,
    /// The instance.
    pub instance: String,
    /// How long tasks last that are none; `None` starts processes.
    pub mock: Option<Span>,
    /// Output kept of one job on one rank.
    pub spool_bytes: u64,
    /// Limit of open files for tasks, where the leader raised its own.
    pub nofile: Option<Rlimit>,
    /// All ranks that shells may have started tasks for.
    pub ranks: Idset,
}

/// The shells that are watched.
#[derive(Debug)]
pub struct Shells {
    ground: Ground,
    inside: Inside,
    watched: HashSet<Epoch>,
}

impl Shells {
    /// None watched yet.
    pub fn new(ground: Ground, inside: Inside) -> Shells {
        Shells {
            ground,
            inside,
            watched: HashSet::new(),
        }
    }

    /// Starts a shell under this epoch. That it could not be started is told
    /// as its death.
    pub fn launch(&mut self, epoch: Epoch) {
        match self
            .ground
            .command(epoch)
            .and_then(|mut command| command.spawn())
        {
            Ok(child) => {
                tracing::info!(epoch = epoch.0, pid = child.id(), "a shell was started");
                self.watch(epoch, Some(child));
            }
            Err(error) => {
                tracing::error!(epoch = epoch.0, %error, "the shell cannot be started");
                // Nothing ran under it, so nothing is left of it.
                let _ = self.inside.send(Inner::ShellDead(epoch));
            }
        }
    }

    /// Finds out whether that shell lives, and tells when it is dead.
    pub fn check(&mut self, epoch: Epoch) {
        if !self.watched.contains(&epoch) {
            self.watch(epoch, None);
        }
    }

    /// How many are not known to be dead.
    pub fn watched(&self) -> usize {
        self.watched.len()
    }

    /// Whether there are any, and all of them are so.
    pub fn all(&self, is_so: impl Fn(Epoch) -> bool) -> bool {
        !self.watched.is_empty() && self.watched.iter().all(|epoch| is_so(*epoch))
    }

    /// It is dead: its number is not watched any more.
    pub fn dead(&mut self, epoch: Epoch) {
        self.watched.remove(&epoch);
    }

    fn watch(&mut self, epoch: Epoch, child: Option<Child>) {
        self.watched.insert(epoch);
        let (ground, inside) = (self.ground.clone(), self.inside.clone());
        let thread = std::thread::Builder::new().name(format!("shell-{epoch}"));
        let started = thread.spawn(move || {
            match child {
                Some(child) => ground.outlive(epoch, child),
                None => ground.wait_for_lock(epoch),
            }
            let _ = inside.send(Inner::ShellDead(epoch));
        });
        if let Err(error) = started {
            tracing::error!(epoch = epoch.0, %error, "a shell cannot be watched");
            self.watched.remove(&epoch);
        }
    }
}

impl Ground {
    fn command(&self, epoch: Epoch) -> io::Result<Command> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.statedir.join(LOG_FILE))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("shell").arg("--statedir").arg(&self.statedir);
        command.arg("--rundir").arg(&self.rundir);
        command.args(["--epoch", &epoch.to_string(), "--instance", &self.instance]);
        command.args(["--spool-bytes", &self.spool_bytes.to_string()]);
        if let Some(mock) = self.mock {
            command.args(["--mock", &mock.0.to_string()]);
        }
        if let Some(nofile) = self.nofile {
            command.args(["--nofile", &nofile.soft.to_string()]);
        }
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }

    /// Waits for the end of a shell that was started here.
    fn outlive(&self, epoch: Epoch, mut child: Child) {
        match child.wait() {
            Ok(status) => tracing::info!(epoch = epoch.0, %status, "the shell ended"),
            Err(error) => tracing::error!(epoch = epoch.0, %error, "the shell was not waited for"),
        }
        self.wait_for_lock(epoch);
    }

    /// Waits until no shell holds the lock, then ends what is left. With the
    /// lock in hand nobody can start anything meanwhile.
    fn wait_for_lock(&self, epoch: Epoch) {
        loop {
            match ShellLock::take(&self.statedir) {
                Ok(lock) => return self.sweep(epoch, &lock),
                Err(LockError::Held {
                    holder: Some(holder),
                    ..
                }) => {
                    match reap::open_exact(holder.pid, holder.start_time) {
                        Ok(Some(pidfd)) => {
                            // Readable once it has ended; interrupted is asked again.
                            let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None);
                        }
                        Ok(None) => std::thread::sleep(LOCK_PAUSE),
                        Err(error) => {
                            tracing::error!(epoch = epoch.0, %error, "a shell cannot be watched");
                            std::thread::sleep(FAILURE_PAUSE);
                        }
                    }
                }
                Err(LockError::Held { holder: None, .. }) => std::thread::sleep(LOCK_PAUSE),
                Err(LockError::Io { path, source }) => {
                    tracing::error!(path = %path.display(), error = %source, "cannot lock");
                    std::thread::sleep(FAILURE_PAUSE);
                }
            }
        }
    }

    fn sweep(&self, epoch: Epoch, lock: &ShellLock) {
        // Mock tasks leave no process behind.
        if self.mock.is_some() {
            return;
        }
        for rank in self.ranks.iter() {
            loop {
                match sweep(lock, &self.instance, rank, None) {
                    Ok(outcome) => {
                        for process in &outcome.ended {
                            let pid = process.pid;
                            tracing::info!(epoch = epoch.0, pid, "a left-over was ended");
                        }
                        for (process, errno) in &outcome.refused {
                            let pid = process.pid;
                            tracing::error!(epoch = epoch.0, pid, errno, "a left-over stays");
                        }
                        if outcome.left.is_empty() {
                            break;
                        }
                    }
                    Err(error) => tracing::error!(epoch = epoch.0, %error, "cannot sweep"),
                }
                std::thread::sleep(FAILURE_PAUSE);
            }
        }
    }
}
