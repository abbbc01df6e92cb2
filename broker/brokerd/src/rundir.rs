//! The run directory of a rank: its sockets, and the file in the state directory
//! that says where they are (doc/protocol/directories.md).
//!
//! Made by the leader and by agents, which hold the lock of the state directory;
//! found by the shell. It never listens and never removes what is not an instance's own.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Name of the socket for clients.
pub const LOCAL_SOCKET: &str = "local";
/// Name of the socket for the shell.
pub const SHELL_SOCKET: &str = "shell";
/// Name of the file in the state directory.
pub const URI_FILE: &str = "uri";
/// The scheme of a socket on this host.
pub const SCHEME: &str = "local://";
/// The longest path a Unix socket can have, in bytes.
pub const SOCKET_PATH_MAX: usize = 107;
/// How many characters of the instance's id name its run directory.
const NAME_CHARS: usize = 8;

/// Why there is no run directory.
#[derive(Debug, Error)]
pub enum RundirError {
    /// It cannot be made or looked at.
    #[error("cannot use the run directory {}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else's, or open to others.
    #[error("run directory {}: belongs to user {uid} with mode {mode:03o}; allowed is user {own} with mode 700", .path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its mode.
        mode: u32,
        /// Who asks.
        own: u32,
    },
    /// Sockets in it would have paths that are too long.
    #[error("run directory {}: a socket in it has {bytes} bytes of path; allowed are at most {SOCKET_PATH_MAX}", .path.display())]
    TooLong {
        /// Which.
        path: PathBuf,
        /// Bytes of the longest socket's path.
        bytes: usize,
    },
}

/// The run directory for this instance: `given`, or below `runtime`
/// (`$XDG_RUNTIME_DIR`) or `/tmp`. Made with mode 0700; one that belongs to
/// another user is refused.
pub fn prepare(
    given: Option<&str>,
    runtime: Option<&str>,
    instance: &str,
) -> Result<PathBuf, RundirError> {
    let own = rustix::process::geteuid().as_raw();
    let name: String = instance.chars().take(NAME_CHARS).collect();
    let path = match given {
        Some(given) => PathBuf::from(given),
        None => {
            let parent = parent(runtime, own);
            make(&parent, own)?;
            parent.join(name)
        }
    };
    checked(path, own)
}

/// The same for another rank of that instance on this node: its name has the
/// rank behind the instance's.
pub fn prepare_rank(
    runtime: Option<&str>,
    instance: &str,
    rank: u32,
) -> Result<PathBuf, RundirError> {
    let own = rustix::process::geteuid().as_raw();
    let parent = parent(runtime, own);
    make(&parent, own)?;
    let name: String = instance.chars().take(NAME_CHARS).collect();
    checked(parent.join(format!("{name}-{rank}")), own)
}

/// Makes it, if sockets in it have paths that can be.
fn checked(path: PathBuf, own: u32) -> Result<PathBuf, RundirError> {
    let bytes = path.join(LOCAL_SOCKET).as_os_str().len();
    if bytes.max(path.join(SHELL_SOCKET).as_os_str().len()) > SOCKET_PATH_MAX {
        return Err(RundirError::TooLong { path, bytes });
    }
    make(&path, own)?;
    Ok(path)
}

/// `$XDG_RUNTIME_DIR/eddy` where that is a directory of ours, else
/// `/tmp/eddy-UID`.
fn parent(runtime: Option<&str>, own: u32) -> PathBuf {
    let usable = |path: &&str| {
        path.starts_with('/')
            && fs::metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == own)
    };
    match runtime.filter(usable) {
        Some(runtime) => Path::new(runtime).join("eddy"),
        None => PathBuf::from(format!("/tmp/eddy-{own}")),
    }
}

/// Makes a private directory, or checks that the one there is private.
fn make(path: &Path, own: u32) -> Result<(), RundirError> {
    let io = |source| RundirError::Io {
        path: path.to_owned(),
        source,
    };
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(io(error)),
    }
    // Not through a link: in /tmp anybody may have put one there.
    let meta = fs::symlink_metadata(path).map_err(io)?;
    let mode = meta.mode() & 0o777;
    if !meta.is_dir() || meta.uid() != own || mode & 0o077 != 0 {
        return Err(RundirError::Foreign {
            path: path.to_owned(),
            uid: meta.uid(),
            mode,
            own,
        });
    }
    Ok(())
}

/// The URI of an instance by its run directory.
pub fn uri(rundir: &Path) -> String {
    format!("{SCHEME}{}", rundir.join(LOCAL_SOCKET).display())
}

/// Writes where the instance is reached, in one step.
pub fn record(statedir: &Path, rundir: &Path) -> io::Result<()> {
    let next = statedir.join("uri.new");
    fs::write(&next, format!("{}\n", uri(rundir)))?;
    fs::rename(next, statedir.join(URI_FILE))
}

/// The run directory that was written last.
pub fn recorded(statedir: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(statedir.join(URI_FILE)).ok()?;
    let socket = text.lines().next()?.strip_prefix(SCHEME)?;
    Path::new(socket).parent().map(Path::to_owned)
}

/// Removes the sockets, those of links too, and the directory, at an orderly end.
pub fn remove(rundir: &Path) {
    let entries = fs::read_dir(rundir).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            // What is not there is removed already.
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(rundir);
}

/// Removes the run directories of an instance or rank that is over, and of all instances and ranks
/// within it on this node, as their state directories name them: one that was killed left its own.
/// Only when nothing of them runs any more.
pub fn remove_of(statedir: &Path) {
    let mut states = vec![statedir.to_owned()];
    while let Some(state) = states.pop() {
        if let Some(rundir) = recorded(&state) {
            remove(&rundir);
        }
        states.extend(
            ["children", "ranks"]
                .iter()
                .flat_map(|name| inside(&state, name)),
        );
    }
}

/// The same of all instances that are jobs of the one of this state directory.
pub fn remove_below(statedir: &Path) {
    for state in inside(statedir, "children") {
        remove_of(&state);
    }
}

/// The directories in one of a state directory's; links are not followed.
fn inside(statedir: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(statedir.join(name)).into_iter().flatten();
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn it_is_private_and_named_by_the_instance() {
        let runtime = tempfile::tempdir().expect("a directory");
        let text = runtime.path().to_str().expect("UTF-8");
        let path = prepare(None, Some(text), "0123456789abcdef").expect("made");
        assert_eq!(path, runtime.path().join("eddy/01234567"));
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o700);
        assert_eq!(
            prepare(None, Some(text), "0123456789abcdef").expect("there already"),
            path
        );
    }

    #[test]
    fn what_others_could_have_put_there_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let (open, link) = (dir.path().join("open"), dir.path().join("link"));
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("ours");
        symlink(dir.path(), &link).expect("made");
        for path in [&open, &link] {
            let error = prepare(path.to_str(), None, "x").expect_err("not private");
            assert!(matches!(error, RundirError::Foreign { .. }), "{error}");
        }
        let long = format!("/tmp/{}", "x".repeat(100));
        assert!(matches!(
            prepare(Some(&long), None, "x"),
            Err(RundirError::TooLong { .. })
        ));
    }

    #[test]
    fn what_was_killed_at_any_depth_is_cleared_away_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        let deep = ["", "children/3.1", "children/3.1/ranks/1/children/2.1"];
        let left: Vec<PathBuf> = (0..4).map(|at| dir.path().join(at.to_string())).collect();
        for rundir in &left {
            fs::create_dir(rundir).expect("made");
            drop(std::os::unix::net::UnixListener::bind(
                rundir.join(LOCAL_SOCKET),
            ));
        }
        for (below, rundir) in deep.iter().zip(&left) {
            fs::create_dir_all(state.join(below)).expect("made");
            record(&state.join(below), rundir).expect("written");
        }
        remove_below(&state);
        let there: Vec<bool> = left.iter().map(|rundir| rundir.exists()).collect();
        assert_eq!(there, [true, false, false, true]);
        remove_of(&state);
        assert!(!left[0].exists() && left[3].exists());
    }

    #[test]
    fn where_it_is_can_be_read_back() {
        let state = tempfile::tempdir().expect("a directory");
        assert_eq!(recorded(state.path()), None);
        record(state.path(), Path::new("/tmp/eddy-0/abc")).expect("written");
        assert_eq!(
            recorded(state.path()),
            Some(PathBuf::from("/tmp/eddy-0/abc"))
        );
    }
}
