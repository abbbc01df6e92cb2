//! The lock and the version of a state directory, so that one leader at a time, and none too old,
//! touches it. [`super::Journal::open`] calls it first. It never waits for the holder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::open::{DATABASE, OpenError, Recover, Sync};
use super::schema::{self, FORMAT};

/// Held as long as the value lives; the kernel gives it back when the process dies.
#[derive(Debug)]
pub(super) struct DirLock {
    // `File` is close-on-exec, so a started shell does not inherit the lock.
    file: File,
}

impl DirLock {
    /// Makes the directory if need be, and takes the lock or says who has it.
    pub fn take(dir: &Path) -> Result<DirLock, OpenError> {
        let io = |source| OpenError::Directory {
            dir: dir.into(),
            source,
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(io)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(dir.join("lock"))
            .map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // The holder writes its pid after it has the lock: for a moment there is none.
                let _ = file.take(32).read_to_string(&mut text);
                return Err(OpenError::Locked {
                    dir: dir.into(),
                    pid: text.trim().parse().ok(),
                });
            }
            Err(errno) => return Err(io(errno.into())),
        }
        Ok(DirLock { file })
    }

    /// Says in it which process has it. That takes room on the disk, which the holder may have to make first.
    pub fn sign(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        writeln!(self.file, "{}", std::process::id())
    }
}

impl Drop for DirLock {
    /// Whoever ends in order leaves no number that another process may have by then.
    fn drop(&mut self) {
        // One that stays is no harm: nobody goes by it who can have the lock.
        let _ = self.file.set_len(0);
    }
}

/// The longest that the file `version` is read: a number is shorter.
const VERSION_BYTES_MAX: u64 = 40;

/// Refuses a directory of a newer version; writes the file where there is none, or only its name:
/// with [`Sync::Normal`] a power failure may leave no more. One that recovers goes by what the
/// database says of its format, which has the same number, and answers a note of what it wrote anew.
pub(super) fn check_version(
    dir: &Path,
    sync: Sync,
    recover: Recover,
) -> Result<Option<String>, OpenError> {
    let path = dir.join("version");
    let io = |source| OpenError::Directory {
        dir: dir.into(),
        source,
    };
    let text = match read_version(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(io(e)),
    };
    if text.is_empty() {
        write_version(dir, sync).map_err(io)?;
        return Ok(None);
    }
    let refused = match text.trim().parse::<u32>() {
        Ok(found) if found <= FORMAT => return Ok(None),
        Ok(found) => OpenError::Newer {
            path: path.clone(),
            found,
            known: FORMAT,
        },
        Err(_) => OpenError::Version {
            path: path.clone(),
            text: text.clone(),
        },
    };
    let is_known = || schema::format_of(&dir.join(DATABASE)) == Some(FORMAT);
    if recover == Recover::Refuse || !is_known() {
        return Err(refused);
    }
    write_version(dir, sync).map_err(io)?;
    Ok(Some(format!(
        "{} held {text:?} and is written anew: format {FORMAT}, as the journal says",
        path.display()
    )))
}

/// What is no text of it is shown as such.
fn read_version(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(VERSION_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes the version this program knows, in one step.
pub(super) fn write_version(dir: &Path, sync: Sync) -> io::Result<()> {
    let next = dir.join("version.new");
    let mut how = OpenOptions::new();
    let how = how.write(true).create(true).truncate(true);
    let mut file = how.mode(0o600).open(&next)?;
    writeln!(file, "{FORMAT}")?;
    if sync == Sync::Full {
        file.sync_all()?;
    }
    fs::rename(&next, dir.join("version"))?;
    match sync {
        Sync::Full => sync_dir(dir),
        Sync::Normal => Ok(()),
    }
}

/// Makes renames in `dir` durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
