//! Output of jobs that are forgotten goes, too.
//!
//! Runs on a reader's thread, asked by the store. It reaches what is on this disk: the leader's own
//! node, and ranks whose state directories are beside. It never removes what is not named like a spool.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use eddy_wire::id::JobId;

use crate::journal::{ReadError, Reader};
use crate::shell::process::SPOOL_DIRECTORY;

/// Why spools cannot be removed.
#[derive(Debug, thiserror::Error)]
pub enum SpoolsError {
    /// The journal does not say which are forgotten.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The directory cannot be listed, or a file in it not be removed.
    #[error("cannot change {}", .path.display())]
    Io {
        /// The directory, or the file in it.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Spools that were there.
#[derive(Debug, Default)]
pub struct Listed(Vec<(PathBuf, JobId)>);

/// Those of the instance with this state directory.
pub fn list(statedir: &Path) -> Result<Listed, SpoolsError> {
    let mut listed = Listed::default();
    for spool in directories(statedir) {
        for name in files(&spool)? {
            // What is not named like a spool is not ours to remove.
            let job = name.split('.').next().and_then(|job| job.parse().ok());
            let path = job.map(|job| (spool.join(name), JobId(job)));
            listed.0.extend(path);
        }
    }
    Ok(listed)
}

/// Removes those of jobs that are neither open nor have a row; returns how many. Which are open is to be looked
/// at after they were listed: a job that began meanwhile may have begun to write.
pub fn remove(
    reader: &Reader,
    listed: Listed,
    is_open: impl Fn(JobId) -> bool,
) -> Result<u64, SpoolsError> {
    let mut removed = 0;
    for (path, job) in listed.0 {
        if is_open(job) || reader.job(job.0)?.is_some() {
            continue;
        }
        match fs::remove_file(&path) {
            // Somebody was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map(|()| removed += 1).map_err(failed(&path))?,
        }
    }
    Ok(removed)
}

/// Where the shells of an instance's ranks write: in its own state directory, in those of its ranks,
/// and of a child in those that its parent's ranks have for it.
fn directories(statedir: &Path) -> Vec<PathBuf> {
    let mut states = vec![statedir.to_owned()];
    states.extend(ranks(statedir));
    let children = statedir.parent().filter(|path| path.ends_with("children"));
    if let (Some(parent), Some(name)) = (children.and_then(Path::parent), statedir.file_name()) {
        let hosted = |rank: PathBuf| rank.join("children").join(name);
        states.extend(ranks(parent).into_iter().map(hosted));
    }
    states
        .into_iter()
        .map(|state| state.join(SPOOL_DIRECTORY))
        .collect()
}

/// What another user's instance may not list it has nothing in.
fn ranks(statedir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(statedir.join("ranks")).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

fn files(spool: &Path) -> Result<Vec<String>, SpoolsError> {
    let entries = match fs::read_dir(spool) {
        // The first output makes it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed(spool))?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
    let names: io::Result<Vec<Option<String>>> = names.collect();
    Ok(names
        .map_err(failed(spool))?
        .into_iter()
        .flatten()
        .collect())
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SpoolsError {
    let path = path.to_owned();
    move |source| SpoolsError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_looked_for_wherever_ranks_of_the_instance_write() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        for name in ["ranks/1", "ranks/2"] {
            fs::create_dir_all(root.join(name)).expect("made");
        }
        let found = |statedir: &Path| {
            let mut found = directories(statedir);
            found.sort();
            found
        };
        let below =
            |names: &[&str]| -> Vec<PathBuf> { names.iter().map(|name| root.join(name)).collect() };
        assert_eq!(
            found(root),
            below(&["ranks/1/spool", "ranks/2/spool", "spool"])
        );
        assert_eq!(
            found(&root.join("children/q")),
            below(&[
                "children/q/spool",
                "ranks/1/children/q/spool",
                "ranks/2/children/q/spool"
            ])
        );
    }
}
