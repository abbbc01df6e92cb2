//! The jobs of a trace and the machine they ran on.
//!
//! Made by `swf` and by [`read_json`], replayed by `replay`. Times are whole
//! microseconds from whatever instant the trace counts from.

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
}

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
}

impl SimJob {
    /// How long it runs: no longer than it asked for.
    pub fn runs(&self) -> Span {
        self.limit.map_or(self.run, |limit| self.run.min(limit))
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
    /// A number that cannot be.
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
}

/// Reads `{"procs": N, "jobs": [{"id", "submit", "run", "procs", "limit"}]}`; times are in
/// seconds, `procs` of the machine and `limit` may be absent.
///
/// # Errors
/// [`WorkloadError`] names the line, or the job and the field.
pub fn read_json(text: &[u8]) -> Result<Workload, WorkloadError> {
    let text: Text = serde_json::from_slice(text).map_err(|error| WorkloadError::Shape {
        line: error.line(),
        what: error.to_string(),
    })?;
    let jobs: Vec<SimJob> = text.jobs.iter().map(job).collect::<Result<_, _>>()?;
    match twice(&jobs) {
        Some(id) => Err(WorkloadError::Twice(id)),
        None => Ok(Workload {
            procs: text.procs,
            jobs,
            dropped: 0,
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

fn job(job: &TextJob) -> Result<SimJob, WorkloadError> {
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
    })
}

/// The latest time and the longest span of a trace: sums of some of them can still be counted.
pub(super) const LONGEST: i64 = 1_000_000_000_000_000_000;
