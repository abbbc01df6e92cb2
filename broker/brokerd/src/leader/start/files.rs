//! Whether a leader may have as many descriptors as it needs: one that runs short of them half begins, without a
//! shell and without a word.
//!
//! Called while a leader begins, before anything is written and again when its nodes are known. It changes no limit
//! ([`raise_open_files`] does): what counts is the hard one, to which the leader raises its own.
//!
//! [`raise_open_files`]: crate::shell::process::limits::raise_open_files

use rustix::process::{Resource, getrlimit};
use thiserror::Error;

/// What a leader and its shell have open by themselves is up to 24; the rest is for clients and questions.
const FILES_MIN: u64 = 40;
/// What each further node takes, whose agent is on its own link.
const FILES_PER_NODE: u64 = 4;

/// It may not.
#[derive(Debug, Error)]
#[error(
    "open files: the hard limit is {given} (`ulimit -Hn`), this instance needs at least {needed} (nodes: {nodes})"
)]
pub struct FilesError {
    given: u64,
    needed: u64,
    nodes: u64,
}

/// Whether the hard limit lets a leader with so many nodes beside its own begin.
///
/// # Errors
/// It does not.
pub(super) fn enough_files(others: u64) -> Result<(), FilesError> {
    let given = getrlimit(Resource::Nofile).maximum;
    within(given.unwrap_or(u64::MAX), others)
}

fn within(given: u64, others: u64) -> Result<(), FilesError> {
    let needed = FILES_MIN.saturating_add(others.saturating_mul(FILES_PER_NODE));
    match given < needed {
        true => Err(FilesError {
            given,
            needed,
            nodes: others + 1,
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_and_what_is_needed_are_named() {
        assert!(within(40, 0).is_ok());
        let error = within(51, 3).expect_err("three agents need more");
        assert_eq!(
            error.to_string(),
            "open files: the hard limit is 51 (`ulimit -Hn`), this instance needs at least 52 (nodes: 4)"
        );
        assert!(
            within(u64::MAX, u64::MAX - 1).is_ok(),
            "no limit is enough for all"
        );
    }
}
