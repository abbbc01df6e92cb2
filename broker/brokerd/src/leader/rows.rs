//! Rows of jobs that are over which a leader was killed before it wrote: made again of the records.
//!
//! Called once the journal is open, by a leader that begins and by whoever reads a history, and for a row that is
//! damaged when it is read.
//! [`super::store`] says why they may be missing. It folds those jobs alone and no other state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::Finished as Over;
use eddy_modules::row;
use eddy_wire::event::{EVENT_VERSION, EventError, Kind};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::lifecycle::{Illegal, JobState};
use thiserror::Error;

use super::store::finished;
use super::texts::{Aim, RecordError, Specs, TextError};
use crate::journal::{Batch, CommitError, Finished, Journal, ReadError, Reader, Row};

/// Whether this is the last record of a job that has no row before it.
fn is_last(name: &str, context: &str) -> bool {
    match name {
        "clean" => true,
        "release" => {
            let kind = Kind::decode(name, EVENT_VERSION, context, &mut |_, _| None);
            kind.is_ok_and(|kind| kind.implied() == Some(Kind::Clean))
        }
        _ => false,
    }
}

/// Why rows that are missing stay so.
#[derive(Debug, Error)]
pub enum RowsError {
    /// The journal cannot be read.
    #[error("rows of jobs that are over cannot be made again")]
    Read(#[from] ReadError),
    /// It cannot be written.
    #[error("rows of jobs that are over cannot be written")]
    Write(#[from] CommitError),
    /// A record is not one of this version.
    #[error("record {seq} cannot be read for the row of its job")]
    Event {
        /// Its place.
        seq: u64,
        /// Why.
        #[source]
        source: EventError,
    },
    /// A text that a record names is not there.
    #[error(transparent)]
    Text(TextError),
    /// A record does not follow on those before it.
    #[error("record {seq} does not follow on the state of its job")]
    Illegal {
        /// Its place.
        seq: u64,
        /// Why.
        #[source]
        source: Illegal,
    },
}

/// Writes the rows that are missing; how many.
///
/// # Errors
/// [`RowsError`]; then none was written.
pub fn complete(journal: &mut Journal, aim: Aim) -> Result<usize, RowsError> {
    let missing: BTreeSet<u64> = journal.without_row(is_last)?.into_iter().collect();
    if missing.is_empty() {
        return Ok(0);
    }
    let finished = made(journal, Specs::of(journal, aim), &missing)?;
    let number = finished.len();
    journal.commit(Batch {
        finished: finished.into_iter().map(Arc::new).collect(),
        ..Batch::default()
    })?;
    Ok(number)
}

/// The row of a job that is over, which is stored and cannot be read, made again of its records; none where they do
/// not say that it is over.
///
/// # Errors
/// [`RowsError`], never to write.
pub fn again(reader: &Reader, id: JobId) -> Result<Option<Finished>, RowsError> {
    let (mut specs, mut jobs) = (Specs::of_reader(reader), BTreeMap::new());
    for stored in reader.events_of(id.0)?.unwrap_or_default() {
        if let Some(over) = take(&stored, &mut specs, &mut jobs)? {
            return Ok(Some(over));
        }
    }
    Ok(None)
}

fn made(
    journal: &Journal,
    mut specs: Specs<'_>,
    missing: &BTreeSet<u64>,
) -> Result<Vec<Finished>, RowsError> {
    let (mut jobs, mut rows) = (BTreeMap::new(), Vec::new());
    let mut failed = None;
    journal.replay(|stored| {
        if failed.is_none() && missing.contains(&stored.job) {
            match take(&stored, &mut specs, &mut jobs) {
                Ok(over) => rows.extend(over),
                Err(error) => failed = Some(error),
            }
        }
    })?;
    failed.map_or(Ok(rows), Err)
}

/// Folds one record; the row, if it was the last.
fn take(
    stored: &Row,
    specs: &mut Specs<'_>,
    jobs: &mut BTreeMap<JobId, Job>,
) -> Result<Option<Finished>, RowsError> {
    let (id, seq) = (JobId(stored.job), stored.seq);
    let record = specs.record(stored).map_err(|error| match error {
        RecordError::Event(source) => RowsError::Event { seq, source },
        RecordError::Text(error) => RowsError::Text(error),
    })?;
    let implied = record.implied();
    if let Some(job) = Job::from_record(&record) {
        jobs.insert(id, job);
    }
    let Some(job) = jobs.get_mut(&id) else {
        return Ok(None);
    };
    let first = Some(&record).filter(|record| !matches!(record.event.kind, Kind::Submit(_)));
    for record in first.into_iter().chain(&implied) {
        let applied = job.apply(record);
        applied.map_err(|source| RowsError::Illegal { seq, source })?;
    }
    if job.state != JobState::Inactive {
        return Ok(None);
    }
    let over = jobs.remove(&id).map(|job| {
        let key = job.submit.key;
        let over = Over {
            row: row::row(&job, String::new()),
            seqs: job.seqs,
        };
        finished(&over, key)
    });
    Ok(over)
}
