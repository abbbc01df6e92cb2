//! What a new shell does before it takes a start: makes sure that the shell
//! before it is dead, and that nothing it started lives on.
//!
//! Called once by `eddy shell` as it begins an epoch. The kernel has killed the
//! direct children of a dead shell; their own children, daemons and nested
//! instances are left to this. It never takes the lock from a living shell and
//! never waits for one to end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use eddy_wire::idset::Idset;
use rustix::fs::{FlockOperation, flock};

use super::leftover::{self, Outcome, Patience, Process, Quarry};
use super::procfs;

/// Name of the lock file in the rank's state directory.
pub const LOCK_NAME: &str = "shell.lock";

/// Held by the living shell of a rank and user. The kernel gives it up when the
/// shell ends, however it ends; tasks do not inherit it past their exec.
#[derive(Debug)]
pub struct ShellLock {
    _file: File,
}

/// Why a shell may not begin.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// There is one already.
    #[error("{} is held by the process with {}", .path.display(), spell(.holder))]
    Held {
        /// The lock.
        path: PathBuf,
        /// Who wrote it, if it can be read and lives.
        holder: Option<Process>,
    },
    /// It cannot be opened or locked.
    #[error("cannot lock {}", .path.display())]
    Io {
        /// The lock.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

fn spell(holder: &Option<Process>) -> String {
    holder.as_ref().map_or_else(
        || "an unknown pid".to_owned(),
        |holder| format!("pid {}", holder.pid),
    )
}

impl ShellLock {
    /// Takes the lock in this directory, or says who has it. With the lock in
    /// hand every older shell is dead. In the instant between clone and exec a
    /// task still holds the lock of a shell that was killed: a caller who knows
    /// the old shell to be dead asks again.
    pub fn take(directory: &Path) -> Result<ShellLock, LockError> {
        ShellLock::take_at(directory.join(LOCK_NAME))
    }

    /// The same at another place: of an agent.
    pub(crate) fn take_at(path: PathBuf) -> Result<ShellLock, LockError> {
        let failed = |source: io::Error| LockError::Io {
            path: path.clone(),
            source,
        };
        let mut how = OpenOptions::new();
        let how = how
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let mut file = how.open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(LockError::Held {
                    holder: read_holder(&mut file),
                    path,
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let own = procfs::stat(std::process::id() as i32);
        let own = own.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let line = format!("{} {}\n", own.pid, own.start_time);
        file.set_len(0)
            .and_then(|()| file.write_all(line.as_bytes()))
            .map_err(failed)?;
        Ok(ShellLock { _file: file })
    }
}

/// The living process that the lock at this path names, whether or not it
/// still holds it.
pub(crate) fn holder(path: &Path) -> Option<Process> {
    let named = read_holder(&mut File::open(path).ok()?)?;
    // One that nobody has collected yet still has its number.
    let lives = procfs::stat(named.pid).is_some_and(|stat| !stat.is_ended());
    lives.then_some(named)
}

/// The living process that the lock names.
fn read_holder(file: &mut File) -> Option<Process> {
    let mut line = String::new();
    file.rewind().ok()?;
    file.take(64).read_to_string(&mut line).ok()?;
    let (pid, start_time) = line.trim_end().split_once(' ')?;
    let named = Process {
        pid: pid.parse().ok()?,
        start_time: start_time.parse().ok()?,
    };
    let stat = procfs::stat(named.pid).filter(|stat| Process::from(stat) == named);
    stat.map(|_| named)
}

/// Ends everything that older shells of these ranks left on the node, nested
/// instances included, and says what that was. The lock is the proof that none
/// of it has a living shell. `user`: see [`Quarry::Ranks`].
pub fn sweep(
    _lock: &ShellLock,
    instance: &str,
    ranks: &Idset,
    user: Option<u32>,
) -> io::Result<Outcome> {
    let quarry = Quarry::Ranks {
        instance: instance.to_owned(),
        ranks: ranks.clone(),
        user,
    };
    leftover::end(&quarry, Patience::THOROUGH)
}
