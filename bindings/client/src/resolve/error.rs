//! Why a path leads to no instance, level by level.
//!
//! Made by the walk along a path; read by commands, which go on with what an
//! instance that is over has left.

use eddy_wire::id::JobId;
use thiserror::Error;

use crate::error::ClientError;
use crate::path::{InstancePath, Step};
use crate::uri::LocateError;

/// Why there is no connection to what was named.
#[derive(Debug, Error)]
pub enum PathError {
    /// It is not to be found on this host.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// An instance on the way does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The parent of a root was asked for.
    #[error("{path}: {of} is a root and has no parent")]
    Root {
        /// The whole path.
        path: String,
        /// The level.
        of: String,
    },
    /// No such job.
    #[error("{path}: {of} has no job {job}")]
    NoJob {
        /// The whole path.
        path: String,
        /// The level that should have it.
        of: String,
        /// The job.
        job: String,
    },
    /// No instance of that name.
    #[error("{path}: {of} has no instance named `{name}`")]
    NoName {
        /// The whole path.
        path: String,
        /// The level that should have it.
        of: String,
        /// The name.
        name: String,
    },
    /// A declared instance that is not started again.
    #[error("{path}: {why}")]
    Down {
        /// The whole path.
        path: String,
        /// Which, and why.
        why: String,
    },
    /// More than one instance of that name.
    #[error("{path}: {of} has {} instances named `{name}`: jobs {}", .jobs.len(), numbers(.jobs))]
    Several {
        /// The whole path.
        path: String,
        /// The level.
        of: String,
        /// The name.
        name: String,
        /// All of them.
        jobs: Vec<JobId>,
    },
    /// A job that is something else.
    #[error("{path}: job {job} of {of} is not an instance")]
    NotInstance {
        /// The whole path.
        path: String,
        /// The level.
        of: String,
        /// The job.
        job: JobId,
    },
    /// A job that is over and took no clients as long as it was there.
    #[error(
        "{path}: job {job} of {of} never took clients as an instance, and ended with result {result}"
    )]
    NeverServed {
        /// The whole path.
        path: String,
        /// The level.
        of: String,
        /// The job.
        job: JobId,
        /// How it ended.
        result: String,
    },
    /// An instance that is over.
    #[error("{path}: job {job} of {of} ended with result {result}")]
    Ended {
        /// The whole path.
        path: String,
        /// The level.
        of: String,
        /// The job.
        job: JobId,
        /// How.
        result: String,
        /// What it has left, if it ever began and it or what is inside it is meant.
        remains: Option<Remains>,
    },
    /// An instance whose job waits.
    #[error("{path}: job {job} of {of} waits for resources: {reason}")]
    Waiting {
        /// The whole path.
        path: String,
        /// The level.
        of: String,
        /// The job.
        job: JobId,
        /// Why.
        reason: String,
    },
    /// An instance that did not come up in time.
    #[error("{path}: job {job} of {of} is starting and took no clients within {waited:.1} s")]
    Starting {
        /// The whole path.
        path: String,
        /// The level.
        of: String,
        /// The job.
        job: JobId,
        /// How long it was waited for, in seconds.
        waited: f64,
    },
}

/// What an instance that is over has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// Its state directory.
    pub statedir: String,
    /// The path that led to it.
    pub path: String,
    /// The steps from there to what is meant.
    pub rest: Vec<Step>,
}

impl PathError {
    /// The same at that step of the path. Nothing is around what is over.
    pub(super) fn on(mut self, path: &InstancePath, at: usize) -> PathError {
        if let PathError::Ended { remains, .. } = &mut self {
            let rest = path.steps[at + 1..].to_vec();
            *remains = remains
                .take()
                .filter(|_| !rest.contains(&Step::Up))
                .map(|remains| Remains {
                    path: so_far(path, at).to_string(),
                    rest,
                    ..remains
                });
        }
        self
    }
}

/// The path as far as this step.
pub(super) fn so_far(path: &InstancePath, at: usize) -> InstancePath {
    InstancePath {
        begin: path.begin,
        steps: path.steps[..=at].to_vec(),
    }
}

fn numbers(jobs: &[JobId]) -> String {
    let texts: Vec<String> = jobs.iter().map(JobId::to_string).collect();
    texts.join(" ")
}
