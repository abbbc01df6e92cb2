//! What a person may write for an instance: its socket, its state directory, or
//! a path of jobs in the tree of instances.
//!
//! `905/3` is job 3 of job 905 of the instance that would be used anyway; `/905`
//! begins at the root, `..` goes up. Read by [`crate::resolve`], which asks the
//! instances on the way. Looks at the file system, because what is there as a
//! file or directory is meant first; connects to nothing.

use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::str::FromStr;

use eddy_wire::id::JobId;
use eddy_wire::services::child::NESTING_MAX;

use crate::uri::{LocateError, URI_FILE, Uri};

/// The longest name of a declared instance in a path, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Most parts of a path: all the way up from the deepest instance and down again.
const PARTS_MAX: usize = 2 * NESTING_MAX as usize;

/// What a text for an instance means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    /// A socket, however it was named.
    Socket(Uri),
    /// An instance in the tree of instances.
    Path(InstancePath),
}

/// A place in the tree of instances. Text is `905/3`, `/905/3`, `batch/12`, `..`, `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstancePath {
    /// Where it begins.
    pub begin: Begin,
    /// The steps from there.
    pub steps: Vec<Step>,
}

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At the instance that would be used without a path.
    Here,
    /// At the root above it.
    Root,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the instance around this one.
    Up,
    /// To the instance that is this job, or the declared one of this name.
    Down(String),
}

impl Step {
    /// The job a step names, if it may be one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Step::Up => None,
            Step::Down(text) => text.parse().ok(),
        }
    }
}

impl fmt::Display for InstancePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.begin, self.steps.is_empty()) {
            (Begin::Root, _) => "/",
            (Begin::Here, true) => ".",
            (Begin::Here, false) => "",
        })?;
        for (at, step) in self.steps.iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            match step {
                Step::Up => f.write_str("..")?,
                Step::Down(text) => f.write_str(text)?,
            }
        }
        Ok(())
    }
}

impl FromStr for InstancePath {
    type Err = LocateError;

    fn from_str(text: &str) -> Result<InstancePath, LocateError> {
        let wrong = || LocateError::Path {
            given: text.to_owned(),
        };
        let (begin, rest) = match text.strip_prefix('/') {
            Some(rest) => (Begin::Root, rest),
            None => (Begin::Here, text),
        };
        let parts = rest.split('/').filter(|part| !matches!(*part, "" | "."));
        let steps: Vec<Step> = parts
            .map(|part| match part {
                ".." => Ok(Step::Up),
                name if is_name(name) => Ok(Step::Down(name.to_owned())),
                _ => Err(wrong()),
            })
            .collect::<Result<_, _>>()?;
        if steps.len() > PARTS_MAX {
            return Err(LocateError::PathTooLong {
                parts: steps.len(),
                most: PARTS_MAX,
            });
        }
        Ok(InstancePath { begin, steps })
    }
}

/// A job id in any spelling, or the name of a declared instance.
fn is_name(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    part.parse::<JobId>().is_ok()
        || (!part.is_empty() && part.len() <= NAME_BYTES_MAX && part.chars().all(plain))
}

/// What `--at TEXT` means.
///
/// # Errors
/// What names nothing: a path of a file that is not there, a directory in which
/// no instance was started, another scheme.
pub fn meant(text: &str) -> Result<Meant, LocateError> {
    let text = text.trim();
    // As in Flux, `jobid:` says what a path is anyway.
    if let Some(path) = text.strip_prefix("jobid:") {
        return match path.is_empty() {
            true => Err(LocateError::Empty),
            false => path.parse().map(Meant::Path),
        };
    }
    if text.contains("://") || text.is_empty() {
        return socket(text);
    }
    let path = Path::new(text);
    let meta = std::fs::metadata(path).ok();
    let is_directory = meta.as_ref().is_some_and(std::fs::Metadata::is_dir);
    let is_socket = meta
        .as_ref()
        .is_some_and(|meta| meta.file_type().is_socket());
    if is_socket || (is_directory && path.join(URI_FILE).is_file()) {
        return text.parse().map(Meant::Socket);
    }
    if names_a_file(text) {
        return match meta {
            Some(_) => text.parse().map(Meant::Socket),
            None => socket(text),
        };
    }
    text.parse().map(Meant::Path)
}

/// Whether a text can only be the path of a file: `./x`, `~x`, or one from the
/// root of the file system whose first directory is there.
fn names_a_file(text: &str) -> bool {
    if text.starts_with("./") || text.starts_with('~') {
        return true;
    }
    let Some(rest) = text.strip_prefix('/') else {
        return false;
    };
    let first = rest.split('/').find(|part| !part.is_empty());
    first.is_some_and(|first| first != ".." && Path::new("/").join(first).exists())
}

/// A socket that may be missing only as long as its leader starts again: then
/// its run directory is there.
fn socket(text: &str) -> Result<Meant, LocateError> {
    let uri: Uri = text.parse()?;
    let path = uri.path();
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let is_named_so = path
        .file_name()
        .is_some_and(|name| name == crate::uri::SOCKET_NAME);
    let may_come = is_named_so && directory.is_some_and(Path::is_dir);
    // Whoever tries it is told that a directory on the way is closed.
    let is_closed = || {
        let found = path.try_exists();
        found.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    match path.exists() || may_come || is_closed() {
        true => Ok(Meant::Socket(uri)),
        false => Err(LocateError::NotThere {
            path: path.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn path(text: &str) -> InstancePath {
        match meant(text).expect("a path") {
            Meant::Path(path) => path,
            Meant::Socket(uri) => panic!("{uri} is a socket"),
        }
    }

    #[test]
    fn a_path_is_jobs_and_names_from_here_or_from_the_root() {
        assert_eq!(path("905/3").begin, Begin::Here);
        assert_eq!(path("/905").begin, Begin::Root);
        assert_eq!(path("/").steps, []);
        assert_eq!(path("/").to_string(), "/");
        assert_eq!(path("batch//f2/").to_string(), "batch/f2");
        assert_eq!(path("ƒ2/0x7").steps[0].job(), Some(JobId(1)));
        assert_eq!(path("../3").steps[0], Step::Up);
        assert_eq!(path("jobid:905/3"), path("905/3"));
    }

    #[test]
    fn what_can_be_no_path_is_refused_in_one_line() {
        let refused = |text: &str| meant(text).expect_err("refused").to_string();
        assert!(refused("905/a b").starts_with("`905/a b` is not a path of jobs"));
        assert!(refused(&"1/".repeat(33)).contains("33 parts"));
        for empty in ["", " ", "jobid:", "jobid: "] {
            assert!(refused(empty).contains("is empty"), "{empty}");
        }
        assert!(refused("ssh://x/y").contains("is not local:///PATH"));
    }

    #[test]
    fn what_is_there_as_a_file_is_meant_first() {
        let place = tempfile::tempdir().expect("a directory");
        let text = |name: &str| place.path().join(name).to_string_lossy().into_owned();
        std::fs::create_dir(text("7")).expect("made");
        // A directory without an instance is named as such.
        let refused = meant(&text("7")).expect_err("refused").to_string();
        assert!(
            refused.contains("no instance was started on this state directory"),
            "{refused}"
        );
        std::fs::write(text("7/uri"), "local:///tmp/x/local\n").expect("written");
        assert!(matches!(meant(&text("7")), Ok(Meant::Socket(_))));
        let _listener = UnixListener::bind(text("local")).expect("bound");
        assert!(matches!(meant(&text("local")), Ok(Meant::Socket(_))));
    }

    #[test]
    fn a_file_that_is_not_there_is_named_at_once_unless_its_leader_may_come_back() {
        let place = tempfile::tempdir().expect("a directory");
        let text = |name: &str| place.path().join(name).to_string_lossy().into_owned();
        assert!(matches!(meant(&text("local")), Ok(Meant::Socket(_))));
        for gone in ["typo", "gone/local"] {
            let error = meant(&text(gone)).expect_err("refused").to_string();
            assert!(error.ends_with("no instance is there"), "{error}");
            let uri = format!("local://{}", text(gone));
            assert!(meant(&uri).is_err());
        }
    }
}
