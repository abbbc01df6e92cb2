//! The journal's rows as records again, folded into a broker.
//!
//! Called once at the leader's start, and by `history/records.rs` for whoever only
//! reads. Jobspecs that jobs share are read and parsed once. A row that this
//! version does not understand ends the start: a fold with a hole in it would be
//! another history.

use std::collections::HashMap;
use std::sync::Arc;

use eddy_broker::Broker;
use eddy_modules::live::Change;
use eddy_modules::queues_above::admitted;
use eddy_wire::event::{Event, EventError, Kind, Record};
use eddy_wire::hash::Hash;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::pool;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;
use thiserror::Error;

use super::store::Known;
use crate::journal::{Journal, ReadError, Row};

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
}

/// Shows the broker every record its state rests on.
pub fn replay(journal: &Journal, broker: &mut Broker) -> Result<Known, ReplayError> {
    let blob = |seq, hash: &[u8; 32]| journal.blob(seq, hash);
    let mut specs = Specs::of(&blob);
    let mut known = Known::default();
    let mut failed = None;
    let replayed = journal.replay(|row| {
        if failed.is_some() {
            return;
        }
        match record(&row, &mut specs) {
            Ok(record) => {
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
            Err(source) => {
                failed = Some(ReplayError::Event {
                    seq: row.seq,
                    source,
                })
            }
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

/// The record that a row is.
pub fn record(row: &Row, specs: &mut Specs<'_>) -> Result<Record, EventError> {
    let mut find = |jobspec: &Hash, environment: &Hash| specs.find(row.seq, jobspec, environment);
    let kind = Kind::decode(&row.name, row.version, &row.context, &mut find)?;
    let job = (row.job > 0).then_some(JobId(row.job));
    Ok(Record {
        seq: Seq(row.seq),
        event: Event {
            t: Time(row.t),
            job,
            kind,
        },
    })
}

/// Gives the bytes of a blob that a record names.
pub type Blobs<'a> = &'a dyn Fn(u64, &[u8; 32]) -> Result<Vec<u8>, ReadError>;

/// Jobspecs read so far.
pub struct Specs<'a> {
    blobs: Blobs<'a>,
    specs: HashMap<(Hash, Hash), Arc<Spec>>,
    texts: HashMap<Hash, Arc<[u8]>>,
}

impl<'a> Specs<'a> {
    /// None yet.
    pub fn of(blobs: Blobs<'a>) -> Specs<'a> {
        Specs {
            blobs,
            specs: HashMap::new(),
            texts: HashMap::new(),
        }
    }

    fn find(&mut self, seq: u64, jobspec: &Hash, environment: &Hash) -> Option<Arc<Spec>> {
        let key = (*jobspec, *environment);
        if let Some(spec) = self.specs.get(&key) {
            return Some(Arc::clone(spec));
        }
        let text = self.text(seq, jobspec)?;
        let environment = self.text(seq, environment)?;
        let spec = match Spec::from_blobs(text, environment) {
            Ok(spec) => Arc::new(spec),
            Err(error) => {
                tracing::error!(seq, %error, "a stored jobspec cannot be read");
                return None;
            }
        };
        self.specs.insert(key, Arc::clone(&spec));
        Some(spec)
    }

    fn text(&mut self, seq: u64, hash: &Hash) -> Option<Arc<[u8]>> {
        if let Some(text) = self.texts.get(hash) {
            return Some(Arc::clone(text));
        }
        match (self.blobs)(seq, &hash.0) {
            Ok(bytes) => {
                let text: Arc<[u8]> = bytes.into();
                self.texts.insert(*hash, Arc::clone(&text));
                Some(text)
            }
            Err(error) => {
                tracing::error!(seq, %error, "a stored text cannot be read");
                None
            }
        }
    }
}
