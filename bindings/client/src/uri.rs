//! Where an instance is: from what a person gives to the path of a socket.
//!
//! Called once by a command, before it connects. Reads directories and the
//! `uri` file of a state directory; connects to nothing but to tell live
//! sockets from dead ones when it has to choose.

use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// The scheme of a socket on this host.
const SCHEME: &str = "local://";
/// The longest path a Unix socket can have, in bytes.
pub const SOCKET_PATH_MAX: usize = 107;
/// The variable that names the instance.
pub const URI_VARIABLE: &str = "EDDY_URI";
/// The socket of the instance of the whole host.
pub const SYSTEM_SOCKET: &str = "/run/eddy/local";
/// The name of the socket in an instance's run directory.
pub const SOCKET_NAME: &str = "local";
/// The file in a state directory that says where its instance is reached.
pub const URI_FILE: &str = "uri";
/// Most entries looked at in a run directory.
const INSTANCES_MAX: usize = 4096;

/// The socket of an instance. Text is `local://` and the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    path: PathBuf,
}

/// Why no instance can be named.
#[derive(Debug, Error)]
pub enum LocateError {
    /// Another scheme than `local`.
    #[error("`{given}` is not local:///PATH, a socket or a state directory")]
    Scheme {
        /// As given.
        given: String,
    },
    /// A path of a file that is not there.
    #[error("{}: no instance is there", .path.display())]
    NotThere {
        /// The file.
        path: PathBuf,
    },
    /// Neither a file nor a path of jobs.
    #[error(
        "`{given}` is not a path of jobs such as 905/3, a socket, a state directory or local:///PATH"
    )]
    Path {
        /// As given.
        given: String,
    },
    /// More steps than instances nest.
    #[error("the path of an instance has {parts} parts; allowed are at most {most}")]
    PathTooLong {
        /// Parts given.
        parts: usize,
        /// Parts allowed.
        most: usize,
    },
    /// Nothing was given.
    #[error(
        "the name of the instance is empty; allowed are local:///PATH, a socket or a state directory"
    )]
    Empty,
    /// A path that no socket can have.
    #[error("{}: has {} bytes; the path of a socket has at most {SOCKET_PATH_MAX}", .path.display(), .path.as_os_str().len())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// A directory in which no instance was started.
    #[error(
        "{}: is a directory and no instance was started on this state directory, which has no file `{URI_FILE}`",
        .path.display()
    )]
    NoInstance {
        /// The directory.
        path: PathBuf,
    },
    /// A state directory that does not say where its instance is.
    #[error("{}: cannot be read, so no instance is known by this state directory", .path.display())]
    NoUriFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Neither named nor to be found.
    #[error("no instance: EDDY_URI is not set, and there is none at {}{}", places(.run), passed_over(.foreign))]
    None {
        /// Where this user's instances would be.
        run: Vec<PathBuf>,
        /// Those of them that somebody else made, or that others may write to.
        foreign: Vec<PathBuf>,
    },
    /// More than one could be meant.
    #[error("{} instances run here; set EDDY_URI to one of: {}", .uris.len(), list(.uris))]
    Several {
        /// All of them.
        uris: Vec<Uri>,
    },
}

fn places(run: &[PathBuf]) -> String {
    let own = run
        .iter()
        .map(|run| format!("{}/*/{SOCKET_NAME}", run.display()));
    [SYSTEM_SOCKET.to_owned()]
        .into_iter()
        .chain(own)
        .collect::<Vec<_>>()
        .join(" or ")
}

fn passed_over(foreign: &[PathBuf]) -> String {
    let one = |path: &PathBuf| {
        format!(
            "; {} is not looked at: not a directory of yours alone",
            path.display()
        )
    };
    foreign.iter().map(one).collect()
}

fn list(uris: &[Uri]) -> String {
    let texts: Vec<String> = uris.iter().map(Uri::to_string).collect();
    texts.join(" ")
}

impl Uri {
    /// The socket at this path.
    pub fn of_socket(path: impl Into<PathBuf>) -> Result<Uri, LocateError> {
        let path = path.into();
        match path.as_os_str().len() > SOCKET_PATH_MAX {
            true => Err(LocateError::TooLong { path }),
            false => Ok(Uri { path }),
        }
    }

    /// The instance whose state is kept in this directory.
    pub fn of_statedir(directory: &Path) -> Result<Uri, LocateError> {
        let path = directory.join(URI_FILE);
        let text = std::fs::read_to_string(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => LocateError::NoInstance {
                path: directory.to_owned(),
            },
            _ => LocateError::NoUriFile { path, source },
        })?;
        text.lines().next().unwrap_or_default().parse()
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.path.display())
    }
}

impl FromStr for Uri {
    type Err = LocateError;

    /// `local:///PATH`, the path of a socket, or a state directory.
    fn from_str(text: &str) -> Result<Uri, LocateError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(LocateError::Empty);
        }
        let socket = text.strip_prefix(SCHEME).filter(|path| !path.is_empty());
        if let Some(path) = socket {
            return Uri::of_socket(path);
        }
        if text.contains("://") {
            return Err(LocateError::Scheme {
                given: text.to_owned(),
            });
        }
        let path = Path::new(text);
        match path.is_dir() {
            true => Uri::of_statedir(path),
            false => Uri::of_socket(path),
        }
    }
}

/// Where a user's instances may have their run directories. An instance that
/// was started without `$XDG_RUNTIME_DIR`, or with one it could not use, has it
/// below `/tmp`.
fn run_directories(runtime: Option<&str>, uid: u32) -> Vec<PathBuf> {
    let runtime = runtime.filter(|path| path.starts_with('/'));
    let own = runtime.map(|runtime| Path::new(runtime).join("eddy"));
    own.into_iter()
        .chain([PathBuf::from(format!("/tmp/eddy-{uid}"))])
        .collect()
}

/// The instance a command is for: the one named, else the host's, else this
/// user's only one.
pub fn locate(given: Option<&str>) -> Result<Uri, LocateError> {
    if let Some(given) = given {
        return given.parse();
    }
    if is_socket(Path::new(SYSTEM_SOCKET)) {
        return Uri::of_socket(SYSTEM_SOCKET);
    }
    let uid = rustix::process::geteuid().as_raw();
    let runtime = std::env::var("XDG_RUNTIME_DIR").ok();
    only(&run_directories(runtime.as_deref(), uid), uid)
}

/// The only instance of `uid` below these directories.
fn only(run: &[PathBuf], uid: u32) -> Result<Uri, LocateError> {
    let uris: Vec<Uri> = run.iter().flat_map(|run| found(run, uid)).collect();
    // Sockets of leaders that were killed stay behind; they count only when
    // nobody is alive, for then one of them may be coming back.
    let alive: Vec<Uri> = uris
        .iter()
        .filter(|uri| UnixStream::connect(uri.path()).is_ok())
        .cloned()
        .collect();
    let mut candidates = if alive.is_empty() { uris } else { alive };
    match candidates.len() {
        0 => Err(LocateError::None {
            run: run.to_owned(),
            foreign: run
                .iter()
                .filter(|run| is_foreign(run, uid))
                .cloned()
                .collect(),
        }),
        1 => Ok(candidates.remove(0)),
        _ => Err(LocateError::Several { uris: candidates }),
    }
}

fn found(run: &Path, uid: u32) -> Vec<Uri> {
    let owned = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| meta.uid() == uid);
    // Anybody may make directories in /tmp, and links to ours: what is not ours alone is not looked at.
    if is_foreign(run, uid) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(run)
        .into_iter()
        .flatten()
        .take(INSTANCES_MAX);
    let mut uris: Vec<Uri> = entries
        .flatten()
        // The run directories of agents are named by instance and rank.
        .filter(|entry| !entry.file_name().as_encoded_bytes().contains(&b'-'))
        .map(|entry| entry.path().join(SOCKET_NAME))
        .filter(|path| is_socket(path) && owned(path))
        .filter_map(|path| Uri::of_socket(path).ok())
        .collect();
    uris.sort_by(|a, b| a.path.cmp(&b.path));
    uris
}

/// Whether something is there that is not a directory of this user to which nobody else writes.
fn is_foreign(run: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(run)
        .is_ok_and(|meta| !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o022 != 0)
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_uri_a_socket_and_a_state_directory_name_the_same_instance() {
        let state = tempfile::tempdir().expect("a directory");
        std::fs::write(state.path().join(URI_FILE), "local:///tmp/x/local\n").expect("written");
        let of = |text: &str| text.parse::<Uri>().expect("an instance");
        assert_eq!(of("local:///tmp/x/local"), of("/tmp/x/local"));
        assert_eq!(
            of(state.path().to_str().expect("UTF-8")),
            of("/tmp/x/local")
        );
        assert_eq!(of("/tmp/x/local").to_string(), "local:///tmp/x/local");
    }

    #[test]
    fn what_names_no_instance_is_refused_in_one_line() {
        let refused = |text: &str| text.parse::<Uri>().expect_err("refused").to_string();
        assert_eq!(refused(" "), LocateError::Empty.to_string());
        assert!(refused("local://").starts_with("`local://` is not local:///PATH"));
        assert!(refused("ssh://host/x").starts_with("`ssh://host/x` is not local:///PATH"));
        assert!(refused(&format!("/{}", "x".repeat(107))).contains("has 108 bytes"));
        let state = tempfile::tempdir().expect("a directory");
        let text = refused(state.path().to_str().expect("UTF-8"));
        assert!(
            text.contains("no instance was started on this state directory"),
            "{text}"
        );
    }

    #[test]
    fn the_only_live_instance_is_found_and_several_are_listed() {
        let run = tempfile::tempdir().expect("a directory");
        let uid = rustix::process::geteuid().as_raw();
        let own = [run.path().to_owned()];
        assert!(matches!(only(&own, uid), Err(LocateError::None { .. })));
        let listen = |name: &str| {
            let directory = run.path().join(name);
            std::fs::create_dir(&directory).expect("made");
            UnixListener::bind(directory.join(SOCKET_NAME)).expect("bound")
        };
        let first = listen("aaaaaaaa");
        let second = listen("bbbbbbbb");
        let several = only(&own, uid).expect_err("two").to_string();
        assert!(
            several.contains("aaaaaaaa") && several.contains("bbbbbbbb"),
            "{several}"
        );
        // A killed leader leaves its socket: the living one is meant.
        drop(first);
        let found = only(&own, uid).expect("one lives");
        assert!(found.path().starts_with(run.path().join("bbbbbbbb")));
        drop(second);
        assert!(matches!(only(&own, uid), Err(LocateError::Several { .. })));
        assert!(matches!(only(&own, uid + 1), Err(LocateError::None { .. })));
    }
}
