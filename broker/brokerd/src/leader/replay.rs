//! The journal's rows as records again, folded into a broker.
//!
//! Called once at the leader's start, and by `history.rs` for whoever only
//! reads. A row that this version does not understand ends the start: a fold with
//! a hole in it would be another history. What becomes of jobspecs whose text is
//! damaged, [`super::texts`] says.

use std::sync::Arc;

use eddy_broker::Broker;
use eddy_modules::live::Change;
use eddy_modules::queues_above::admitted;
use eddy_wire::event::{EventError, Kind};
use eddy_wire::pool;
use eddy_wire::resource_set::ResourceSet;
use thiserror::Error;

use super::store::Known;
use super::texts::{RecordError, Specs, TextError};
use crate::journal::{Journal, ReadError};

/// The name of the record of an inventory.
const RESOURCE_DEFINE: &str = "resource-define";

/// Why the journal cannot be folded.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error("the journal cannot be replayed")]
    Read(#[from] ReadError),
    /// A record is not one of this version.
    #[error("record {seq} cannot be replayed")]
    Event {
        /// Its place.
        seq: u64,
        /// Why.
        #[source]
        source: EventError,
    },
    /// A text that it names is not there.
    #[error(transparent)]
    Text(TextError),
}

impl ReplayError {
    /// Of the record in this place.
    pub fn of(seq: u64, error: RecordError) -> ReplayError {
        match error {
            RecordError::Event(source) => ReplayError::Event { seq, source },
            RecordError::Text(error) => ReplayError::Text(error),
        }
    }
}

/// Shows the broker every record its state rests on.
pub fn replay(
    journal: &Journal,
    mut specs: Specs<'_>,
    broker: &mut Broker,
) -> Result<Known, ReplayError> {
    let mut known = Known::default();
    let mut failed = None;
    let replayed = journal.replay(|row| {
        if failed.is_some() {
            return;
        }
        match specs.record(&row) {
            Ok(record) => {
                known.lost.apply(&record.event);
                known.queued.apply(&record.event);
                if let (Kind::Submit(submit), Some(job)) = (&record.event.kind, record.event.job) {
                    known.keys.insert(job, submit.key);
                    // One that cannot be read was refused.
                    let takes = pool::of(&submit.spec).unwrap_or_default();
                    if !takes.is_empty() {
                        known.takers.insert(job, takes);
                    }
                    known.last_job = known.last_job.max(job);
                }
                let is_over = matches!(record.event.kind, Kind::Clean)
                    || record.event.kind.implied() == Some(Kind::Clean);
                if let (true, Some(job)) = (is_over, record.event.job) {
                    // It has its row.
                    known.keys.remove(&job);
                    known.takers.remove(&job);
                }
                if let Some(job) = record.event.job {
                    known.holds(job, &record.event.kind);
                }
                if record.event.kind.sums_up() {
                    known.summaries.insert(row.seq);
                }
                if let Kind::ResourceDefine(inventory, basis) = &record.event.kind {
                    known.inventory = Some(Arc::clone(inventory));
                    known.removed.clone_from(&basis.removed);
                    known.told = basis.told;
                }
                if let Kind::Memo(memo) = &record.event.kind {
                    known.change = Change::told(memo).or(known.change.take());
                    known.admitted = admitted(memo).or(known.admitted.take());
                }
                broker.replay(&record);
            }
            Err(error) => failed = Some(ReplayError::of(row.seq, error)),
        }
    })?;
    known.replayed = replayed;
    failed.map_or(Ok(known), Err)
}

/// The inventory that was recorded last, without a look at anything else.
///
/// # Errors
/// The journal cannot be read.
pub fn recorded_inventory(journal: &Journal) -> Result<Option<Arc<ResourceSet>>, ReplayError> {
    let mut found = None;
    journal.replay(|row| {
        if row.name != RESOURCE_DEFINE {
            return;
        }
        let kind = Kind::decode(&row.name, row.version, &row.context, &mut |_, _| None);
        if let Ok(Kind::ResourceDefine(set, _)) = kind {
            found = Some(set);
        }
    })?;
    Ok(found)
}
