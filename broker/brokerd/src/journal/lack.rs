//! What a journal cannot be opened for that passes: no room on the disk, no
//! descriptors, no memory. Damage does not pass, and is not this.
//!
//! Asked by opening, which must not take the one for the other, and by the
//! leader's start, which waits. It changes nothing.

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rusqlite::ffi;
use rustix::io::Errno;

use super::ballast::{ROOM_MIN, free_in};
use super::open::DATABASE;

/// SQLite's read and write failures that come of a lack, and of nothing in the file.
const LACKS: [i32; 5] = [
    ffi::SQLITE_IOERR_NOMEM,
    ffi::SQLITE_IOERR_SHMOPEN,
    ffi::SQLITE_IOERR_SHMSIZE,
    ffi::SQLITE_IOERR_SHMMAP,
    ffi::SQLITE_IOERR_WRITE,
];

/// Whether SQLite says that something was lacking.
pub(super) fn is_lack(error: &rusqlite::Error) -> bool {
    let code = error
        .sqlite_error()
        .map(|said| (said.code, said.extended_code));
    match code {
        Some((ErrorCode::DiskFull | ErrorCode::OutOfMemory, _)) => true,
        Some((ErrorCode::SystemIoFailure, extended)) => LACKS.contains(&extended),
        Some(_) | None => false,
    }
}

fn is_lack_of_system(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        errno,
        Some(Errno::NOSPC | Errno::DQUOT | Errno::MFILE | Errno::NFILE | Errno::NOMEM)
    )
}

/// Whether a start that failed so on this state directory may go well later: its
/// journal had begun, and something was lacking that may be there again.
pub fn may_pass(error: &(dyn Error + 'static), dir: &Path) -> bool {
    let database = dir.join(DATABASE);
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return is_lack_of_system(error) && database.exists();
        }
        if let Some(error) = error.downcast_ref::<rusqlite::Error>() {
            return (is_lack(error) || is_shut_for_now(error, &database)) && database.exists();
        }
        cause = error.source();
    }
    false
}

/// What a person can do about a start that failed so on this state directory for want of room on its disk.
pub fn advice(error: &(dyn Error + 'static), dir: &Path) -> Option<String> {
    let free = free_in(dir).filter(|free| *free < ROOM_MIN)?;
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    let is_so = causes.any(|error| {
        let system = error.downcast_ref::<io::Error>();
        let sqlite = error.downcast_ref::<rusqlite::Error>();
        system.is_some_and(is_lack_of_system) || sqlite.is_some_and(is_lack)
    });
    is_so.then(|| {
        format!(
            "no space left on the file system {} of state directory {}: {free} bytes free; \
             make room there, then start it again",
            mounted_at(dir).display(),
            dir.display()
        )
    })
}

/// Where the file system of a directory is mounted.
fn mounted_at(dir: &Path) -> PathBuf {
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    let own = device(dir);
    let within = dir.ancestors().take_while(|path| device(path) == own);
    within.last().unwrap_or(dir).to_owned()
}

/// SQLite says of want of descriptors only that it cannot open the file; the
/// system says more.
fn is_shut_for_now(error: &rusqlite::Error, database: &Path) -> bool {
    if error.sqlite_error_code() != Some(ErrorCode::CannotOpen) {
        return false;
    }
    match File::options().read(true).write(true).open(database) {
        Ok(_) => true,
        Err(error) => is_lack_of_system(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Fault, OpenError};

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_lack_passes_and_damage_does_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let begun = dir.path();
        let full = || OpenError::Directory {
            dir: begun.to_owned(),
            source: Errno::NOSPC.into(),
        };
        assert!(!may_pass(&full(), begun), "no journal had begun");
        File::create(begun.join(DATABASE)).expect("a file");
        assert!(may_pass(&full(), begun));
        for (code, passes) in [
            (ffi::SQLITE_FULL, true),
            (ffi::SQLITE_NOMEM, true),
            (ffi::SQLITE_IOERR_SHMSIZE, true),
            (ffi::SQLITE_CANTOPEN, true),
            (ffi::SQLITE_IOERR_READ, false),
            (ffi::SQLITE_CORRUPT, false),
            (ffi::SQLITE_NOTADB, false),
        ] {
            let error = OpenError::Read(sqlite(code));
            assert_eq!(may_pass(&error, begun), passes, "code {code}");
        }
        let damaged = OpenError::Damaged {
            whole: 3,
            acknowledged: Some(4),
            source: Fault::Lost { last: 3 },
        };
        assert!(!may_pass(&damaged, begun));
        let denied = OpenError::Directory {
            dir: begun.to_owned(),
            source: Errno::ACCESS.into(),
        };
        assert!(!may_pass(&denied, begun));
    }
}
