//! The run directory that a rank of another user's instance left: it was killed before it could remove it.
//!
//! Used by [`super::guest`], on the thread of that user: it is below a directory of his, where he may put what he
//! likes. So nothing is done there that he could not do himself: every directory is held open, is his and no link,
//! and what is removed is removed from it by its name alone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, statat,
    unlinkat,
};
use rustix::io::Errno;

use crate::rundir;

/// How long one that is held is tried for: a child of who was killed holds it between clone and exec.
const HOLD_PATIENCE: Duration = Duration::from_secs(1);
/// How often.
const HOLD_PAUSE: Duration = Duration::from_millis(5);

/// Where something may be left.
#[derive(Debug)]
pub struct Left {
    /// Whose it is.
    pub user: u32,
    shared: PathBuf,
    name: String,
}

impl Left {
    /// By a rank of this instance of that user.
    pub fn of_rank(user: u32, instance: &str, rank: u32) -> Left {
        let (shared, name) = rundir::rank_of(user, instance, rank);
        Left { user, shared, name }
    }

    /// Removes the sockets and the directory, if it is there and nobody serves in it.
    ///
    /// # Errors
    /// It is not the user's, is held, or has something else in it.
    pub fn remove(&self) -> io::Result<()> {
        let opened = self
            .open(CWD, &self.shared)
            .and_then(|shared| Ok((self.open(shared.as_fd(), &self.name)?, shared)));
        let (rundir, shared) = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        hold(&rundir)?;
        for entry in Dir::read_from(&rundir)? {
            let entry = entry?;
            let name = entry.file_name();
            let stat = statat(&rundir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode).is_socket() {
                unlinkat(&rundir, name, AtFlags::empty())?;
            }
        }
        Ok(unlinkat(&shared, self.name.as_str(), AtFlags::REMOVEDIR)?)
    }

    fn open(&self, below: impl AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(below, path, how, Mode::empty())?;
        let owner = fstat(&opened)?.st_uid;
        match owner == self.user {
            true => Ok(opened),
            false => Err(io::Error::other(format!(
                "a directory is user {owner}'s, not {}'s",
                self.user
            ))),
        }
    }
}

fn hold(rundir: &OwnedFd) -> io::Result<()> {
    let until = Instant::now() + HOLD_PATIENCE;
    loop {
        match flock(rundir, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(HOLD_PAUSE),
            held => return Ok(held?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_a_killed_rank_left_goes_and_nothing_that_is_not_its_users() {
        let directory = tempfile::tempdir().expect("a directory");
        let shared = directory.path().join("shared");
        let (left, other) = (shared.join("1"), directory.path().join("other"));
        fs::create_dir_all(&left).expect("made");
        fs::create_dir(&other).expect("made");
        for place in [&left, &other] {
            drop(UnixListener::bind(place.join("door")).expect("a socket"));
        }
        symlink(&other, shared.join("2")).expect("made");
        let user = rustix::process::geteuid().as_raw();
        let of = |user: u32, name: &str| Left {
            user,
            shared: shared.clone(),
            name: name.to_owned(),
        };
        of(user + 1, "1").remove().expect_err("another user's");
        of(user, "2").remove().expect_err("a link");
        assert!(left.join("door").exists() && other.join("door").exists());
        of(user, "1").remove().expect("removed");
        of(user, "1").remove().expect("nothing is there");
        assert!(!left.exists() && shared.exists());
    }
}
