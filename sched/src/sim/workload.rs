//! The jobs of a trace and the machine they ran on.
//!
//! Made by `swf` and by [`read_json`], replayed by `replay`. Times are whole
//! microseconds from whatever instant the trace counts from.

use std::collections::BTreeMap;

use eddy_wire::time::{Span, Time};
use serde::Deserialize;
use thiserror::Error;

/// What a trace says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Processors of the machine, where the trace says so.
    pub procs: Option<u64>,
    /// In the order of the file.
    pub jobs: Vec<SimJob>,
    /// Jobs that are left out because the trace does not say what they need or how long they ran.
    pub dropped: u64,
    /// Who jobs belong to, each once.
    pub owners: Vec<Owner>,
}

/// A user, in a group where the trace has groups; `unknown` where it does not say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The account that the user is of.
    pub group: String,
    /// The user.
    pub user: String,
}

/// What is written for an owner that the trace does not name.
pub(super) const UNKNOWN: &str = "unknown";

/// One job of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimJob {
    /// Its number in the trace.
    pub id: u64,
    /// When it was submitted.
    pub submit: Time,
    /// Processors it needs, at least 1.
    pub procs: u64,
    /// How long it would run.
    pub run: Span,
    /// How long it asked for; `None` if it did not say.
    pub limit: Option<Span>,
    /// Whose it is: a place in [`Workload::owners`].
    pub owner: u32,
}

impl SimJob {
    /// How long it runs: no longer than it asked for.
    pub fn runs(&self) -> Span {
        self.limit.map_or(self.run, |limit| self.run.min(limit))
    }
}

/// Gives owners their places in the order in which they come.
#[derive(Default)]
pub(super) struct Owners(BTreeMap<Owner, u32>);

impl Owners {
    /// The place of an owner.
    pub(super) fn place(&mut self, group: &str, user: &str) -> u32 {
        let next = self.0.len() as u32;
        let (group, user) = (group.to_owned(), user.to_owned());
        *self.0.entry(Owner { group, user }).or_insert(next)
    }

    /// All of them by place.
    pub(super) fn list(self) -> Vec<Owner> {
        let mut list: Vec<(Owner, u32)> = self.0.into_iter().collect();
        list.sort_by_key(|(_, place)| *place);
        list.into_iter().map(|(owner, _)| owner).collect()
    }
}

/// Why a text is no workload.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// Not JSON, or of another shape.
    #[error("workload: line {line}: {what}")]
    Shape {
        /// Line in the text, from 1.
        line: usize,
        /// What the reader says.
        what: String,
    },
    /// A number or a name that cannot be.
    #[error("workload: job {id}: {field}: {given}; allowed is {allowed}")]
    Number {
        /// Which job.
        id: u64,
        /// Which field.
        field: &'static str,
        /// What was given.
        given: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The same id twice.
    #[error("workload: job {0} is given twice")]
    Twice(u64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    procs: Option<u64>,
    jobs: Vec<TextJob>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextJob {
    id: u64,
    submit: f64,
    run: f64,
    procs: u64,
    limit: Option<f64>,
    user: Option<String>,
    group: Option<String>,
}

/// Reads `{"procs": N, "jobs": [{"id", "submit", "run", "procs", "limit", "user", "group"}]}`; times
/// are in seconds, `procs` of the machine and the last three of a job may be absent.
///
/// # Errors
/// [`WorkloadError`] names the line, or the job and the field.
pub fn read_json(text: &[u8]) -> Result<Workload, WorkloadError> {
    let text: Text = serde_json::from_slice(text).map_err(|error| WorkloadError::Shape {
        line: error.line(),
        what: error.to_string(),
    })?;
    let mut owners = Owners::default();
    let jobs = text.jobs.iter().map(|given| job(given, &mut owners));
    let jobs: Vec<SimJob> = jobs.collect::<Result<_, _>>()?;
    match twice(&jobs) {
        Some(id) => Err(WorkloadError::Twice(id)),
        None => Ok(Workload {
            procs: text.procs,
            jobs,
            dropped: 0,
            owners: owners.list(),
        }),
    }
}

/// An id that two jobs have.
pub(super) fn twice(jobs: &[SimJob]) -> Option<u64> {
    let mut ids: Vec<u64> = jobs.iter().map(|job| job.id).collect();
    ids.sort_unstable();
    let pair = ids.windows(2).find(|pair| pair[0] == pair[1])?;
    Some(pair[0])
}

fn job(job: &TextJob, owners: &mut Owners) -> Result<SimJob, WorkloadError> {
    let name = |field, given: &Option<String>| match given {
        Some(given) if given.is_empty() || given.contains('/') => Err(WorkloadError::Number {
            id: job.id,
            field,
            given: format!("{given:?}"),
            allowed: "a name without `/`",
        }),
        Some(given) => Ok(given.clone()),
        None => Ok(UNKNOWN.to_owned()),
    };
    let (group, user) = (name("group", &job.group)?, name("user", &job.user)?);
    if job.procs == 0 {
        return Err(WorkloadError::Number {
            id: job.id,
            field: "procs",
            given: job.procs.to_string(),
            allowed: "1 or more",
        });
    }
    let seconds = |field, given: f64| {
        let time = Time::from_seconds(given).filter(|time| (0..=LONGEST).contains(&time.0));
        time.ok_or_else(|| WorkloadError::Number {
            id: job.id,
            field,
            given: given.to_string(),
            allowed: "0 to 1e12 s",
        })
    };
    Ok(SimJob {
        id: job.id,
        submit: seconds("submit", job.submit)?,
        procs: job.procs,
        run: Span(seconds("run", job.run)?.0),
        limit: match job.limit {
            Some(limit) => Some(Span(seconds("limit", limit)?.0)),
            None => None,
        },
        owner: owners.place(&group, &user),
    })
}

/// The latest time and the longest span of a trace: sums of some of them can still be counted.
pub(super) const LONGEST: i64 = 1_000_000_000_000_000_000;
