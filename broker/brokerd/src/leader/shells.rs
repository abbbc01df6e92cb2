//! The shells as processes: started here, watched until they are dead, and what
//! they left behind ended before anybody is told.
//!
//! Used by the leader's loop for its own node and by each hosted rank for its
//! own. Each watch is a task that waits for a pidfd. A shell is dead when its
//! lock is free, never because it is silent.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use eddy_wire::id::Epoch;
use eddy_wire::idset::Idset;
use eddy_wire::time::Span;
use tokio::task::{spawn_blocking, spawn_local};
use tokio::time::sleep;

use crate::life::Life;
use crate::own::Own;
use crate::rundir;
use crate::shell::leftover::Process;
use crate::shell::process::launcher::Launched;
use crate::shell::procfs::MARKER_VARIABLE;
use crate::shell::reap;
use crate::shell::spawn::Rlimit;
use crate::shell::sweep::{self, LockError, ShellLock, sweep};

/// Name of the log in the state directory, as `eddy start` has it.
const LOG_FILE: &str = "log";
/// Before a lock that nobody owns up to is looked at again: a shell that has
/// just begun, or a task between clone and exec.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Before trying again what failed for want of memory or descriptors.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// What every shell of this rank is told.
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
    /// Limit of open files for tasks, where this process raised its own.
    pub nofile: Option<Rlimit>,
    /// All ranks that shells may have started tasks for.
    pub ranks: Idset,
    /// What marks everything that a shell starts as within tasks of outer
    /// instances; `None` is the marker of this process.
    pub marker: Option<String>,
    /// What stands for 0, 1 and 2 of tasks that inherit them. They are not closed
    /// by the exec of a shell, which gets their numbers.
    pub streams: Option<Arc<[OwnedFd; 3]>>,
}

/// Whom the death of a shell is told.
pub type Tell = Rc<dyn Fn(Epoch)>;

/// The shells that are watched.
pub struct Shells {
    ground: Ground,
    tell: Tell,
    watched: HashSet<Epoch>,
    launched: Launched,
    /// The last that is dead and swept up after.
    over: Option<Epoch>,
}

impl Shells {
    /// None watched yet.
    pub fn new(ground: Ground, tell: Tell) -> Shells {
        Shells {
            ground,
            tell,
            watched: HashSet::new(),
            launched: Launched::default(),
            over: None,
        }
    }

    /// Shells started from now on are told this.
    pub fn set_ground(&mut self, ground: Ground) {
        self.ground = ground;
    }

    /// Starts a shell under this epoch, unless it is watched. That it could not
    /// be started is told as its death.
    pub fn launch(&mut self, epoch: Epoch) {
        if self.watched.contains(&epoch) {
            return;
        }
        // Epochs that began anew: what was over was another's.
        self.over = self.over.filter(|over| *over < epoch);
        let started = self.ground.command(epoch);
        let life = started.and_then(|mut command| {
            let mut child = command.spawn()?;
            self.launched.keep(epoch, child.stdin.take());
            tracing::info!(epoch = epoch.0, pid = child.id(), "a shell was started");
            Life::of_child(child)
        });
        match life {
            Ok(life) => self.watch(epoch, Some(life)),
            Err(error) => {
                tracing::error!(epoch = epoch.0, %error, "the shell cannot be started");
                // If it was started and cannot be watched, its lock tells.
                self.watch(epoch, None);
            }
        }
    }

    /// Finds out whether that shell lives, and tells when it is dead. What is
    /// known to be dead is told again without another sweep: that would hold the
    /// lock which the next shell, perhaps launched meanwhile, must find free.
    pub fn check(&mut self, epoch: Epoch) {
        if self.over.is_some_and(|over| epoch <= over) {
            let tell = Rc::clone(&self.tell);
            spawn_local(async move { tell(epoch) });
        } else if !self.watched.contains(&epoch) {
            self.watch(epoch, None);
        }
    }

    /// Ends that shell, which hangs: who watches it then ends what it left and tells.
    pub fn end(&mut self, epoch: Epoch) {
        self.check(epoch);
        if self.watched.contains(&epoch)
            && let Err(error) = self.ground.kill_holder(epoch)
        {
            tracing::error!(epoch = epoch.0, %error, "the shell cannot be ended");
        }
    }

    /// How many are not known to be dead.
    pub fn watched(&self) -> usize {
        self.watched.len()
    }

    /// This process ends in order: those that nobody welcomed yet end with it.
    pub fn leave(&mut self) {
        self.launched.leave();
    }

    /// It is dead: its number is not watched any more.
    pub fn dead(&mut self, epoch: Epoch) {
        self.watched.remove(&epoch);
        self.launched.drop(epoch);
        self.over = self.over.max(Some(epoch));
    }

    fn watch(&mut self, epoch: Epoch, life: Option<Life>) {
        self.watched.insert(epoch);
        let (ground, tell) = (self.ground.clone(), Rc::clone(&self.tell));
        spawn_local(async move {
            match life {
                Some(life) => ground.outlive(epoch, life).await,
                None => ground.wait_for_lock(epoch).await,
            }
            tell(epoch);
        });
    }
}

impl Ground {
    fn command(&self, epoch: Epoch) -> io::Result<Command> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.statedir.join(LOG_FILE))?;
        let mut command = Own::find()?.command();
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
        if let Some(streams) = self.streams.as_deref() {
            let numbers = streams.each_ref().map(|fd| fd.as_raw_fd().to_string());
            command.args(["--inherit", &numbers.join(",")]);
        }
        if let Some(marker) = &self.marker {
            command.env(MARKER_VARIABLE, marker);
        }
        // The other end closes with this process, and a shell that no leader knows of yet ends by that.
        command
            .arg("--launched")
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }

    /// Waits for the end of a shell that was started here.
    async fn outlive(&self, epoch: Epoch, mut life: Life) {
        match life.ended().await {
            Ok(Some(status)) if status.success() => {
                // It says so: it held nothing, so nothing of it is left.
                return tracing::info!(epoch = epoch.0, "the shell ended in order");
            }
            Ok(status) => tracing::info!(epoch = epoch.0, ?status, "the shell ended"),
            Err(error) => tracing::error!(epoch = epoch.0, %error, "the shell was not waited for"),
        }
        self.wait_for_lock(epoch).await;
    }

    /// Waits until no shell holds the lock, then ends what is left. With the
    /// lock in hand nobody can start anything meanwhile.
    async fn wait_for_lock(&self, epoch: Epoch) {
        loop {
            match ShellLock::take(&self.statedir) {
                Ok(lock) => return self.sweep(epoch, lock).await,
                // Another watch of ours sweeps: asked about a shell again, it does so again.
                Err(LockError::Held {
                    holder: Some(holder),
                    ..
                }) if is_own(&holder) => sleep(LOCK_PAUSE).await,
                Err(LockError::Held {
                    holder: Some(holder),
                    ..
                }) => match Life::of(holder) {
                    Ok(Some(mut life)) => {
                        // Readable once it has ended; failed is asked again.
                        if life.ended().await.is_err() {
                            sleep(FAILURE_PAUSE).await;
                        }
                    }
                    Ok(None) => sleep(LOCK_PAUSE).await,
                    Err(error) => {
                        tracing::error!(epoch = epoch.0, %error, "a shell cannot be watched");
                        sleep(FAILURE_PAUSE).await;
                    }
                },
                Err(LockError::Held { holder: None, .. }) => sleep(LOCK_PAUSE).await,
                Err(LockError::Io { path, source }) => {
                    tracing::error!(path = %path.display(), error = %source, "cannot lock");
                    sleep(FAILURE_PAUSE).await;
                }
            }
        }
    }

    /// KILL to the shell that holds the lock. The one of this epoch does, as long as it is not known to be dead: the
    /// next one is launched after that. Who sweeps holds it, too, and is this process.
    fn kill_holder(&self, epoch: Epoch) -> io::Result<()> {
        let holder = sweep::holder(&self.statedir.join(sweep::LOCK_NAME));
        let Some(holder) = holder.filter(|holder| !is_own(holder)) else {
            return Ok(());
        };
        if let Some(pidfd) = reap::open_exact(holder.pid, holder.start_time)? {
            tracing::warn!(
                epoch = epoch.0,
                pid = holder.pid,
                "the shell is ended as it was asked for"
            );
            reap::signal(pidfd.as_fd(), libc::SIGKILL)?;
        }
        Ok(())
    }

    async fn sweep(&self, epoch: Epoch, lock: ShellLock) {
        let ground = self.clone();
        let swept = spawn_blocking(move || ground.sweep_all(epoch, &lock)).await;
        if let Err(error) = swept {
            tracing::error!(epoch = epoch.0, %error, "a sweep did not end");
        }
    }

    /// Reads all of `/proc`, and waits for ends: not for the loop's thread. On
    /// made-up nodes, too: mock tasks leave nothing, instances on them may.
    fn sweep_all(&self, epoch: Epoch, lock: &ShellLock) {
        loop {
            match sweep(lock, &self.instance, &self.ranks, None) {
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
                        return rundir::remove_below(&self.statedir);
                    }
                }
                Err(error) => tracing::error!(epoch = epoch.0, %error, "cannot sweep"),
            }
            std::thread::sleep(FAILURE_PAUSE);
        }
    }
}

/// Whether a process is this one, which would wait for its own end for ever.
fn is_own(process: &Process) -> bool {
    u32::try_from(process.pid).is_ok_and(|pid| pid == std::process::id())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn ground(state: &tempfile::TempDir) -> Ground {
        Ground {
            statedir: state.path().to_owned(),
            rundir: state.path().to_owned(),
            instance: "no-such-instance".to_owned(),
            mock: None,
            spool_bytes: 0,
            nofile: None,
            ranks: Idset::one(0),
            marker: None,
            streams: None,
        }
    }

    #[test]
    fn a_shell_that_is_over_is_told_again_without_its_lock() {
        let state = tempfile::tempdir().expect("a directory");
        let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
        let tell = Rc::new(move |epoch| sender.send(epoch).expect("it is awaited"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime.expect("a runtime"), async {
            let mut shells = Shells::new(ground(&state), tell);
            shells.check(Epoch(2));
            assert_eq!(told.recv().await, Some(Epoch(2)));
            shells.dead(Epoch(2));
            let next = ShellLock::take(state.path()).expect("free");
            shells.check(Epoch(2));
            assert_eq!(told.recv().await, Some(Epoch(2)));
            assert_eq!(shells.watched(), 0);
            // The one after it is another.
            shells.check(Epoch(3));
            assert_eq!(shells.watched(), 1);
            drop(next);
        });
    }

    #[test]
    fn the_log_is_the_owners_alone() {
        let state = tempfile::tempdir().expect("a directory");
        ground(&state)
            .command(Epoch(1))
            .expect("it could be started");
        let log = std::fs::metadata(state.path().join(LOG_FILE)).expect("it is made");
        assert_eq!(log.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_lock_that_another_watch_of_ours_holds_is_waited_for() {
        let state = tempfile::tempdir().expect("a directory");
        let ground = ground(&state);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let lock = ShellLock::take(state.path()).expect("free");
            let mut watch = std::pin::pin!(ground.wait_for_lock(Epoch(1)));
            let first = tokio::time::timeout(LOCK_PAUSE * 3, &mut watch).await;
            assert!(first.is_err(), "the lock is held");
            drop(lock);
            watch.await;
        });
    }
}
