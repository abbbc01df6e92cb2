//! The journal on disk: every record of an instance, in one order, in SQLite. `brokerd`'s loop calls
//! it: [`Journal::open`] at start, [`Journal::replay`] to fold what is owed, then [`Writer`] for
//! commits and [`Readers`] for questions. It never interprets a record: names and contexts are text
//! to it, and what is live, finished or owed is said by its caller. The format and how it recovers:
//! `doc/protocol/journal.md`.

mod acknowledged;
mod ballast;
mod blobs;
mod chain;
mod lack;
mod lock;
mod named;
mod open;
mod purge;
mod reader;
mod recover;
mod schema;
mod sequences;
mod store;
mod summaries;
mod verify;
mod writer;

use std::borrow::Cow;
use std::sync::Arc;

pub use lack::{advice, may_pass};
pub(crate) use open::DATABASE;
pub use open::{Journal, OpenError, Options, Recover, Recovered, Sync};
pub use purge::{Purge, Purged};
pub use reader::{Counts, Cursor, Filter, ReadError, Reader, Readers, ReadersBusy};
pub use recover::Cut;
pub use schema::FORMAT;
pub use store::{CommitError, Done};
pub use verify::{Fault, Verified, verify};
pub use writer::{Backlog, CloseError, Committed, SendError, Writer};

/// Most records one commit takes (a batch larger than this is a commit of its own).
pub const COMMIT_ROWS_MAX: usize = 8_192;
/// Most bytes of text and blobs one commit takes (a larger batch is a commit of its own).
pub const COMMIT_BYTES_MAX: usize = 8 << 20;
/// Most records that may wait for the disk; beyond it [`Writer::send`] refuses.
pub const BACKLOG_ROWS_MAX: usize = 4_000_000;
/// Most bytes that may wait for the disk; beyond it [`Writer::send`] refuses.
pub const BACKLOG_BYTES_MAX: usize = 1 << 30;
/// Records `n * GENERATION ..` share one copy of each blob that they name.
pub const GENERATION: u64 = 1 << schema::GENERATION_BITS;
/// Largest blob, in bytes: the limit of a jobspec.
pub const BLOB_BYTES_MAX: usize = 4 << 20;

/// One record: an event with its place in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Place in the journal, from 1, without gaps; the caller counts, the journal checks.
    pub seq: u64,
    /// Broker time, microseconds since 1970.
    pub t: i64,
    /// The job it is about; 0 for the instance's own records.
    pub job: u64,
    /// Event name (RFC 18).
    pub name: Cow<'static, str>,
    /// Version of the record's context.
    pub version: u16,
    /// JSON object, or empty for none (RFC 18 context).
    pub context: String,
}

/// Bytes that a record names by their hash: jobspecs, environments, templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The record that names it. Whoever reads the blob gives this number again, since copies are
    /// shared only among nearby records.
    pub seq: u64,
    /// SHA-256 of `bytes`; see [`Blob::new`].
    pub hash: [u8; 32],
    /// At most [`BLOB_BYTES_MAX`].
    pub bytes: Arc<[u8]>,
}

impl Blob {
    /// Hashes `bytes`, named by record `seq`.
    pub fn new(seq: u64, bytes: Arc<[u8]>) -> Blob {
        Blob {
            seq,
            hash: blob_hash(&bytes),
            bytes,
        }
    }
}

/// The hash that names a blob: SHA-256 (FIPS 180-4) of its bytes.
pub fn blob_hash(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).into()
}

/// The derived row of a finished job: a cache of what its records say, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The job.
    pub id: u64,
    /// Who submitted it.
    pub user: u32,
    /// The sender's key (UUIDv7, RFC 9562), scoped by user; zeros for none.
    pub key: [u8; 16],
    /// Job name.
    pub name: String,
    /// How it ended: `completed`, `failed`, `canceled`, `timeout`.
    pub result: String,
    /// When it was submitted, microseconds since 1970.
    pub t_submit: i64,
    /// When it became inactive, microseconds since 1970.
    pub t_inactive: i64,
    /// The sequences of its records, ascending.
    pub events: Vec<u64>,
    /// The row as JSON, in the caller's form.
    pub row: String,
}

/// A place from which a restart need not read back: see [`Journal::replay`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mark {
    /// Every record up to this one is either in `live` or no longer needed to rebuild state.
    pub seq: u64,
    /// The highest job id given out so far.
    pub last_job: u64,
    /// The records up to `seq` that state still rests on, ascending.
    pub live: Vec<u64>,
}

/// What is committed together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// Records, in order, continuing the last ones sent.
    pub rows: Vec<Row>,
    /// Every blob that `rows` name, once for each that names it, written before or not: the journal
    /// keeps one copy per [`GENERATION`]. Records of the instance itself (job 0) may not name blobs,
    /// which live as long as the jobs of their generation.
    pub blobs: Vec<Blob>,
    /// Jobs whose last record is in `rows` or before.
    pub finished: Vec<Arc<Finished>>,
    /// A new mark, no further than the last of `rows`.
    pub mark: Option<Mark>,
    /// Of the mark's live records those that sum up what was used, ascending: earlier ones that neither it nor
    /// the mark before rests on are forgotten.
    pub summaries: Vec<u64>,
    /// Finished jobs to forget, a bounded number at a time.
    pub purge: Option<Purge>,
}

impl Batch {
    /// Bytes of text and blobs, for the limits of a commit and of the backlog.
    fn bytes(&self) -> usize {
        let rows: usize = self
            .rows
            .iter()
            .map(|r| r.context.len() + r.name.len() + 40)
            .sum();
        let blobs: usize = self.blobs.iter().map(|b| b.bytes.len() + 40).sum();
        let ended: usize = self
            .finished
            .iter()
            .map(|f| f.row.len() + f.events.len() * 8 + 80)
            .sum();
        rows + blobs + ended + self.mark.as_ref().map_or(0, |m| m.live.len() * 8)
    }
}
