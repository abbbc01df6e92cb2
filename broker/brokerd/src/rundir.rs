//! The run directory of a rank: its sockets, and the file in the state directory
//! that says where they are (doc/protocol/directories.md).
//!
//! Made by the leader and by agents, which hold the lock of the state directory and, as long as they
//! live, the run directory itself: another state directory may name the same one. Found by the shell.
//! It never listens and never removes what is not an instance's own.

pub mod left;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eddy_wire::id::{Attempt, JobId};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use thiserror::Error;

use left::Left;

/// Name of the socket for clients.
pub const LOCAL_SOCKET: &str = "local";
/// Name of the socket for the shell.
pub const SHELL_SOCKET: &str = "shell";
/// Name of the file in the state directory.
pub const URI_FILE: &str = "uri";
/// Name of the run directory in a state directory.
const IN_STATE: &str = "run";
/// The scheme of a socket on this host.
pub const SCHEME: &str = "local://";
/// The longest path a Unix socket can have, in bytes.
pub const SOCKET_PATH_MAX: usize = 107;
/// How many characters of the instance's id name its run directory.
const NAME_CHARS: usize = 8;
/// How long one that is held is tried for: who ends removes it first, and what was just killed holds it
/// until the system has taken it apart.
const HOLD_PATIENCE: Duration = Duration::from_secs(1);
/// How often.
const HOLD_PAUSE: Duration = Duration::from_millis(5);

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
    /// Where it is cannot be written down.
    #[error("cannot write {}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else's, open to others, or no directory: in `/tmp` anybody may have been first.
    #[error("run directory {}: is {kind} of user {uid} with mode {mode:03o}; allowed is a directory of user {own} with mode 700 or 711, or another place by XDG_RUNTIME_DIR or rank.rundir", .path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
        /// Its owner.
        uid: u32,
        /// Its mode.
        mode: u32,
        /// Who asks.
        own: u32,
    },
    /// Another process serves there.
    #[error("run directory {}: held by the process of another state directory than {}", .path.display(), .statedir.display())]
    Held {
        /// Which.
        path: PathBuf,
        /// The state directory that it is wanted for.
        statedir: PathBuf,
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

/// The run directory that this instance had before, if it can be had again:
/// running tasks know it by EDDY_URI. Else a new one, of a child beside that of
/// `parent`, its URI, or in its state directory where somebody else was first in `/tmp`. Nothing is made yet.
pub fn find(
    statedir: &Path,
    given: Option<&str>,
    parent: Option<&str>,
    instance: &str,
) -> Result<PathBuf, RundirError> {
    if given.is_none() {
        let before = recorded(statedir).filter(|before| may_be(before));
        if let Some(rundir) = before.or_else(|| place_beside(parent?, instance)) {
            return Ok(rundir);
        }
    }
    let runtime = std::env::var("XDG_RUNTIME_DIR").ok();
    let found = place(given, runtime.as_deref(), instance);
    match (given, parent) {
        (None, Some(_)) => found.or_else(|error| in_state(statedir, error)),
        // Who begins it hears why not.
        (Some(_), _) | (None, None) => found,
    }
}

/// Where a directory that others may be first in is theirs: in the state directory, where nobody else is. Its path
/// may be too long.
fn in_state(statedir: &Path, error: RundirError) -> Result<PathBuf, RundirError> {
    match error {
        RundirError::Foreign { .. } => short_enough(statedir.join(IN_STATE)).map_err(|_| error),
        RundirError::Io { .. }
        | RundirError::Record { .. }
        | RundirError::Held { .. }
        | RundirError::TooLong { .. } => Err(error),
    }
}

/// Where the run directory of this instance is to be: `given`, or below `runtime`
/// (`$XDG_RUNTIME_DIR`) or `/tmp`, in a directory that is made if need be.
fn place(
    given: Option<&str>,
    runtime: Option<&str>,
    instance: &str,
) -> Result<PathBuf, RundirError> {
    match given {
        Some(given) => short_enough(PathBuf::from(given)),
        None => short_enough(shared(runtime)?.join(name(instance))),
    }
}

/// A rank other than the leader's, in one life of its instance.
#[derive(Clone, Copy, Debug)]
pub struct RankOf<'r> {
    /// The instance's id.
    pub instance: &'r str,
    /// Which job of its parent that is, and in which attempt; none for a root.
    pub job: Option<(JobId, Attempt)>,
    /// As its directories are named.
    pub rank: u32,
}

impl RankOf<'_> {
    /// What its run directory is called. The next attempt of an instance counts its ranks anew: on a machine that is
    /// several of its nodes one has a number that another, which still ends, had before, so each has a name of its own.
    fn name(&self) -> String {
        let name = format!("{}-{}", name(self.instance), self.rank);
        match self.job {
            Some((job, attempt)) => format!("{name}-{job}.{attempt}"),
            None => name,
        }
    }
}

/// The same for another rank on this node, whose state directory that is. Where somebody else was first in `/tmp` it
/// is in the state directory.
pub fn place_rank(
    runtime: Option<&str>,
    statedir: &Path,
    rank: RankOf<'_>,
) -> Result<PathBuf, RundirError> {
    let shared = shared(runtime);
    let found = shared.map(|shared| shared.join(rank.name()));
    found
        .and_then(short_enough)
        .or_else(|error| in_state(statedir, error))
}

/// The directory that holds that of a rank of this user's, who has no other by his environment, and its name there.
pub fn rank_of(user: u32, rank: RankOf<'_>) -> (PathBuf, String) {
    (parent(None, user), rank.name())
}

/// The same beside the run directory in which this instance is reached; `None`
/// where others could put something, as when an administrator chose it.
fn place_beside(uri: &str, instance: &str) -> Option<PathBuf> {
    let shared = Path::new(uri.strip_prefix(SCHEME)?).parent()?.parent()?;
    let path = short_enough(shared.join(name(instance))).ok()?;
    is_private(shared, own()).then_some(path)
}

/// Whether this can be a run directory: it is a private one, or nothing is there
/// and it can be made.
fn may_be(path: &Path) -> bool {
    let is_free = match fs::symlink_metadata(path) {
        Ok(_) => is_private(path, own()),
        Err(_) => path.parent().is_some_and(Path::is_dir),
    };
    is_free && short_enough(path.to_owned()).is_ok()
}

/// What [`make`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// Nothing: it is new.
    New,
    /// It was there, and private.
    Kept,
}

/// A run directory that this process holds as long as this lives: nobody else begins in it. It goes
/// again if it was made for a start that fails.
#[derive(Debug)]
#[must_use]
pub struct Claim {
    path: PathBuf,
    made: Made,
    _held: File,
}

impl Claim {
    /// As [`make`], and held. One that is held is another's: it is not to be cleared away with this
    /// state directory, which names it no more.
    pub fn new(statedir: &Path, path: &Path) -> Result<Claim, RundirError> {
        let until = Instant::now() + HOLD_PATIENCE;
        loop {
            let made = make(statedir, path)?;
            if let Some(held) = hold(path)? {
                return Ok(Claim {
                    path: path.to_owned(),
                    made,
                    _held: held,
                });
            }
            if Instant::now() >= until {
                disown(statedir).map_err(|source| RundirError::Record {
                    path: statedir.join(URI_FILE),
                    source,
                })?;
                return Err(RundirError::Held {
                    path: path.to_owned(),
                    statedir: statedir.to_owned(),
                });
            }
            std::thread::sleep(HOLD_PAUSE);
        }
    }

    /// At an orderly end of who was served here: it is removed.
    pub fn remove(mut self) {
        self.made = Made::New;
    }

    /// It stays for who removes it himself.
    pub fn keep(&mut self) {
        self.made = Made::Kept;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.made.undo(&self.path);
    }
}

/// Locks the directory for this process, if nobody else has and it is still the one at that path.
fn hold(path: &Path) -> Result<Option<File>, RundirError> {
    let io = |source| RundirError::Io {
        path: path.to_owned(),
        source,
    };
    let held = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io)?,
    };
    match flock(&held, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(io(errno.into())),
    }
    let own = held.metadata().map_err(io)?;
    let is_there = |meta: fs::Metadata| (meta.dev(), meta.ino()) == (own.dev(), own.ino());
    Ok(fs::symlink_metadata(path)
        .is_ok_and(is_there)
        .then_some(held))
}

impl Made {
    /// Whose start failed leaves none. Clients of one that was killed wait for it
    /// to come back.
    fn undo(self, path: &Path) {
        match self {
            Made::New => remove(path),
            Made::Kept => {}
        }
    }
}

/// Makes the run directory of the instance or rank of this state directory, with
/// mode 0700; one that is open to others or somebody else's is refused. Written
/// to the file `uri` before it is made: who is killed from here on leaves a
/// directory that whoever clears up after it can find. Where it cannot be, what was written before stands
/// again: clients would wait for a place that nobody serves.
pub fn make(statedir: &Path, path: &Path) -> Result<Made, RundirError> {
    let before = recorded(statedir);
    let unwritten = |source| RundirError::Record {
        path: statedir.join(URI_FILE),
        source,
    };
    record(statedir, path).map_err(unwritten)?;
    let made = match make_private(path, own()) {
        Ok(made) => made,
        Err(error) => {
            let restored = match &before {
                Some(before) => record(statedir, before),
                None => disown(statedir),
            };
            restored.map_err(unwritten)?;
            return Err(error);
        }
    };
    if let Some(before) = before.filter(|before| before != path) {
        // It has another place now; nobody else knows of that one, unless this is a copy.
        remove_left(&before);
    }
    Ok(made)
}

/// Makes the run directory of a rank that serves there again, and holds it, where what cleans up removed it; none
/// where it is there, whosever it is.
///
/// # Errors
/// [`RundirError`], as for [`make`].
pub fn again(statedir: &Path, path: &Path) -> Result<Option<File>, RundirError> {
    let is_gone = |path: &Path| {
        let found = fs::symlink_metadata(path);
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    if !is_gone(path) {
        return Ok(None);
    }
    if let Some(shared) = path.parent().filter(|shared| is_gone(shared)) {
        make_private(shared, own())?;
    }
    make_private(path, own())?;
    let held = hold(path)?.ok_or_else(|| RundirError::Held {
        path: path.to_owned(),
        statedir: statedir.to_owned(),
    })?;
    Ok(Some(held))
}

/// Lets other users reach the clients' socket of a rank, and those who have an
/// instance in it its state directory; nothing else of either directory. What
/// cannot be opened is logged: the owner is served all the same.
pub fn open_to_others(statedir: &Path, rundir: &Path) {
    if let Err(error) = open_statedir(statedir).and_then(|()| open_rundir(rundir)) {
        tracing::error!(%error, rundir = %rundir.display(), "other users cannot be admitted");
    }
    let closed = |path: &&Path| fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o001 == 0);
    for path in [rundir, statedir] {
        if let Some(above) = path.ancestors().find(closed) {
            let (path, above) = (path.display(), above.display());
            tracing::warn!("other users do not reach {path}: {above} is closed to them");
        }
    }
}

/// Names may be passed through below the state directory, nothing read.
fn open_statedir(statedir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(statedir)?.flatten() {
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let mode = match name.to_str() {
            Some("children" | "ranks") | Some(URI_FILE) => continue,
            _ if kind.is_dir() => 0o700,
            _ if kind.is_file() => 0o600,
            _ => continue,
        };
        match fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)) {
            // Written anew under another name meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    for name in ["children", "ranks"] {
        let path = statedir.join(name);
        fs::DirBuilder::new().recursive(true).create(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o711))?;
    }
    fs::set_permissions(statedir, fs::Permissions::from_mode(0o711))
}

fn open_rundir(rundir: &Path) -> io::Result<()> {
    let passable = || fs::Permissions::from_mode(0o711);
    fs::set_permissions(rundir, passable())?;
    let is_shared = |shared: &&Path| {
        let name = shared.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("eddy")) && is_private(shared, own())
    };
    if let Some(shared) = rundir.parent().filter(is_shared) {
        fs::set_permissions(shared, passable())?;
    }
    // Who connects is asked of the kernel.
    match fs::set_permissions(rundir.join(LOCAL_SOCKET), fs::Permissions::from_mode(0o666)) {
        // Nobody listens yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Takes back what [`make`] wrote: the directory is another's.
fn disown(statedir: &Path) -> io::Result<()> {
    fs::remove_file(statedir.join(URI_FILE))
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// How the instance's run directories begin.
fn name(instance: &str) -> String {
    instance.chars().take(NAME_CHARS).collect()
}

/// The path, if sockets in it have paths that can be.
fn short_enough(path: PathBuf) -> Result<PathBuf, RundirError> {
    let bytes = path.join(LOCAL_SOCKET).as_os_str().len();
    if bytes.max(path.join(SHELL_SOCKET).as_os_str().len()) > SOCKET_PATH_MAX {
        return Err(RundirError::TooLong { path, bytes });
    }
    Ok(path)
}

/// The directory that holds run directories, made.
fn shared(runtime: Option<&str>) -> Result<PathBuf, RundirError> {
    let shared = parent(runtime, own());
    make_private(&shared, own())?;
    Ok(shared)
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
fn make_private(path: &Path, own: u32) -> Result<Made, RundirError> {
    let io = |source| RundirError::Io {
        path: path.to_owned(),
        source,
    };
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return Ok(Made::New),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(io(error)),
    }
    let meta = fs::symlink_metadata(path).map_err(io)?;
    if !is_private_by(&meta, own) {
        return Err(RundirError::Foreign {
            path: path.to_owned(),
            kind: match meta.file_type() {
                kind if kind.is_symlink() => "a symbolic link",
                kind if kind.is_dir() => "a directory",
                _ => "a file",
            },
            uid: meta.uid(),
            mode: meta.mode() & 0o777,
            own,
        });
    }
    Ok(Made::Kept)
}

fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == own())
}

fn is_private(path: &Path, own: u32) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| is_private_by(&meta, own))
}

/// Others may pass through it where they know a name, and neither list nor make
/// anything. Not through a link: in /tmp anybody may have put one there.
fn is_private_by(meta: &fs::Metadata, own: u32) -> bool {
    meta.is_dir() && meta.uid() == own && meta.mode() & 0o066 == 0
}

/// The URI of an instance by its run directory.
pub fn uri(rundir: &Path) -> String {
    format!("{SCHEME}{}", rundir.join(LOCAL_SOCKET).display())
}

/// Writes where the instance is reached, in one step.
fn record(statedir: &Path, rundir: &Path) -> io::Result<()> {
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
/// What is not a private directory is not ours, whoever wrote its path.
pub fn remove(rundir: &Path) {
    if !is_private(rundir, own()) {
        return;
    }
    let entries = fs::read_dir(rundir).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            // What is not there is removed already.
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(rundir);
}

/// The same of one that nobody serves in. Its path may have been copied from another's state directory.
pub fn remove_left(rundir: &Path) {
    if !is_private(rundir, own()) {
        return;
    }
    if let Ok(Some(held)) = hold(rundir) {
        remove(rundir);
        drop(held);
    }
}

/// Removes the run directories of an instance or rank that is over, and of all instances and ranks
/// within it on this node, as their state directories name them: one that was killed left its own.
/// Only when nothing of them runs any more.
pub fn remove_of(statedir: &Path) {
    let mut states = vec![statedir.to_owned()];
    while let Some(state) = states.pop() {
        // What another user may write is not followed: it could name anything.
        if !is_own(&state) {
            remove_of_other(&state);
            continue;
        }
        if let Some(rundir) = recorded(&state) {
            remove_left(&rundir);
        }
        states.extend(
            ["children", "ranks"]
                .iter()
                .flat_map(|name| inside(&state, name)),
        );
    }
}

/// The same of an instance of another user, which user 0 may remove: its own alone, since of what is in it that
/// user's shell sees to. What cannot be removed is his to see to.
fn remove_of_other(statedir: &Path) {
    let meta = fs::symlink_metadata(statedir);
    if let Ok(meta) = meta.as_ref()
        && own() == 0
        && let Some(left) = Left::of_leader(meta.uid(), statedir)
        && let Err(error) = left.remove()
    {
        tracing::warn!(%error, user = left.user, "the run directory of an instance is left");
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
mod tests;
