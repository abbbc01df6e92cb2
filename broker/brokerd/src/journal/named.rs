//! What a state directory has that is named after jobs: their output, and directories of those that are
//! instances. Recovery calls it: what it cuts away took numbers, and who is given such a number again
//! must not find what another left under it. It removes nothing.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::Path;

/// Where names begin with the number of a job.
const NAMED: [&str; 2] = ["spool", "children"];

/// The highest number of a job that something is named after, on this disk; 0 for none.
pub(super) fn last_job(statedir: &Path) -> io::Result<u64> {
    let mut last = highest(statedir)?;
    for rank in names(&statedir.join("ranks"))? {
        last = last.max(highest(&statedir.join("ranks").join(rank))?);
    }
    Ok(last)
}

fn highest(statedir: &Path) -> io::Result<u64> {
    let mut last = 0;
    for directory in NAMED {
        let names = names(&statedir.join(directory))?;
        last = names
            .iter()
            .filter_map(|name| number(name))
            .fold(last, u64::max);
    }
    Ok(last)
}

/// `JOB.ATTEMPT` or `JOB.ATTEMPT.RANK`. The journal has no number that is larger than its own are.
fn number(name: &OsStr) -> Option<u64> {
    let mut parts = name.to_str()?.split('.');
    let job = parts.next()?.parse::<i64>().ok()?;
    let others: Vec<Option<u32>> = parts.map(|part| part.parse().ok()).collect();
    let is_named = matches!(others[..], [Some(_)] | [Some(_), Some(_)]);
    u64::try_from(job).ok().filter(|_| is_named)
}

fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    match fs::read_dir(directory) {
        // The first that has a name there makes it.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect(),
    }
}
