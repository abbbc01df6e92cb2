//! The run directory that an instance of another user left, or a rank of one: it was killed before it could remove it.
//!
//! Of a rank used by the agent, on the thread of that user; of the instance itself by the shell that it was a task
//! of, which has the rights of user 0. It is below a directory of his, where he may put what he likes. So nothing
//! is done there that he could not do himself: every directory is held open, is his and no link, and what is
//! removed is removed from it by its name alone. Nothing is read that could hang.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::{RankOf, SCHEME, URI_FILE};

/// The most bytes of a file that says where an instance was reached.
const URI_BYTES_MAX: usize = 4096;
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
    /// How long it is waited for that nobody holds it.
    patience: Duration,
}

impl Left {
    /// By a rank of an instance of that user.
    pub fn of_rank(user: u32, rank: RankOf<'_>) -> Left {
        let (shared, name) = super::rank_of(user, rank);
        Left {
            user,
            shared,
            name,
            patience: HOLD_PATIENCE,
        }
    }

    /// By the leader of an instance of that user, as its state directory names it; none where that is no directory of
    /// the user, or names something elsewhere than where his instances are by default. Nobody is waited for: the shell
    /// has the jobs of others to see to.
    pub fn of_leader(user: u32, statedir: &Path) -> Option<Left> {
        let state = open(user, CWD, statedir).ok()?;
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(state, URI_FILE, how, Mode::empty()).ok()?;
        if !FileType::from_raw_mode(fstat(&file).ok()?.st_mode).is_file() {
            return None;
        }
        let mut text = vec![0; URI_BYTES_MAX];
        let read = rustix::io::read(&file, &mut text[..]).ok()?;
        let text = std::str::from_utf8(&text[..read]).ok()?;
        let socket = Path::new(text.lines().next()?.strip_prefix(SCHEME)?);
        let rundir = socket.parent()?;
        let shared = super::parent(None, user);
        let name = rundir.file_name()?.to_str()?.to_owned();
        (rundir.parent() == Some(shared.as_path())).then_some(Left {
            user,
            shared,
            name,
            patience: Duration::ZERO,
        })
    }

    /// Removes the sockets and the directory, if it is there and nobody serves in it.
    ///
    /// # Errors
    /// It is not the user's, is held, or has something else in it.
    pub fn remove(&self) -> io::Result<()> {
        let opened = open(self.user, CWD, &self.shared)
            .and_then(|shared| Ok((open(self.user, shared.as_fd(), &self.name)?, shared)));
        let (rundir, shared) = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        hold(&rundir, self.patience)?;
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
}

/// A directory, held: that user's, and no link.
fn open(user: u32, below: impl AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(below, path, how, Mode::empty())?;
    let owner = fstat(&opened)?.st_uid;
    match owner == user {
        true => Ok(opened),
        false => Err(io::Error::other(format!(
            "a directory is user {owner}'s, not {user}'s"
        ))),
    }
}

fn hold(rundir: &OwnedFd, patience: Duration) -> io::Result<()> {
    let until = Instant::now() + patience;
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
            patience: HOLD_PATIENCE,
        };
        of(user + 1, "1").remove().expect_err("another user's");
        of(user, "2").remove().expect_err("a link");
        assert!(left.join("door").exists() && other.join("door").exists());
        of(user, "1").remove().expect("removed");
        of(user, "1").remove().expect("nothing is there");
        assert!(!left.exists() && shared.exists());
    }
}
