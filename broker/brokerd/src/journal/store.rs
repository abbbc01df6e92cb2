//! One commit: batches become rows in one transaction. The writer calls it (and opening, for tools
//! that need no thread). It never retries and never reports: its caller does.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension, Statement, params};
use thiserror::Error;

use super::chain::{Chain, Fields, Head};
use super::schema::{self, generation};
use super::{BLOB_BYTES_MAX, Batch, Blob, Finished, Mark, Row, purge, sequences, summaries};

/// Why a commit did not happen. Nothing of it is in the journal.
#[derive(Debug, Error)]
pub enum CommitError {
    /// The disk, or the size limit of the journal, is full: the same commit may succeed later.
    #[error("no space left for the journal")]
    Full(#[source] rusqlite::Error),
    /// SQLite refused for any other reason.
    #[error("commit to the journal failed")]
    Sqlite(#[source] rusqlite::Error),
    /// The caller counted wrong.
    #[error("record {given} given, record {expected} is next")]
    Order {
        /// The sequence given.
        given: u64,
        /// The only one allowed.
        expected: u64,
    },
    /// A mark past the end or with a live list that is not a part of `1..=seq`, ascending.
    #[error("mark at record {seq} with {live} live ones; the last record is {last}")]
    Mark {
        /// The mark's sequence.
        seq: u64,
        /// How many live records it lists.
        live: usize,
        /// The last record of the journal.
        last: u64,
    },
    /// A blob over the limit.
    #[error("blob of {bytes} bytes; at most {BLOB_BYTES_MAX} are allowed")]
    Blob {
        /// Its length.
        bytes: usize,
    },
}

impl CommitError {
    /// Sorts an error of `conn` into full and everything else.
    pub(super) fn of(conn: &Connection, error: rusqlite::Error) -> CommitError {
        use ErrorCode::{DiskFull, SystemIoFailure};
        match error.sqlite_error_code() {
            Some(DiskFull) => CommitError::Full(error),
            // SQLite names a full disk only on plain writes; a quota, or the growth of the shared
            // memory file, comes as an i/o error. A failed sync is never retried: the kernel may
            // have dropped the pages.
            Some(SystemIoFailure) if !is_sync(&error) && is_no_space(system_errno(conn)) => {
                CommitError::Full(error)
            }
            _ => CommitError::Sqlite(error),
        }
    }
}

fn is_sync(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_extended_error_code();
    code == Some(rusqlite::ffi::SQLITE_IOERR_FSYNC)
        || code == Some(rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn is_no_space(errno: i32) -> bool {
    errno == libc::ENOSPC || errno == libc::EDQUOT
}

fn system_errno(conn: &Connection) -> i32 {
    // SAFETY: the handle is valid while `conn` is borrowed, and the call only reads a number from it.
    unsafe { rusqlite::ffi::sqlite3_system_errno(conn.handle()) }
}

/// What a commit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// The last record of the journal.
    pub seq: u64,
    /// Finished jobs forgotten, if a purge was asked for.
    pub purged: u64,
    /// Those that it would have taken, too, had they ended before the last mark.
    pub unmarked: u64,
}

/// The write connection and where the chain stands.
pub(super) struct Store {
    pub conn: Connection,
    pub head: Head,
    chain: Chain,
    recent: Recent,
    /// How many finished jobs there are; counted when a purge first asks.
    finished: Option<u64>,
    /// Rough count of pages in the write-ahead log since it was last written back.
    pub log_pages: usize,
}

/// Hashes of one generation known to be written, so that a shared blob costs no look-up in a tree.
/// Bounded: a generation has 16,384 records, each naming a few blobs.
#[derive(Default)]
struct Recent {
    generation: u64,
    hashes: HashSet<[u8; 32]>,
}

const RECENT_MAX: usize = 65_536;

impl Recent {
    /// Whether `blob` was not yet seen in its generation.
    fn is_new(&mut self, blob: &Blob) -> bool {
        let generation = generation(blob.seq);
        if generation != self.generation || self.hashes.len() >= RECENT_MAX {
            self.hashes.clear();
            self.generation = generation;
        }
        self.hashes.insert(blob.hash)
    }
}

impl Store {
    pub fn new(conn: Connection, head: Head) -> Store {
        Store {
            conn,
            head,
            chain: Chain::default(),
            recent: Recent::default(),
            finished: None,
            log_pages: 0,
        }
    }

    /// The same as [`Store::commit`], but `None` at once where another process has the write lock.
    pub fn try_commit(&mut self, group: &[Batch]) -> Result<Option<Done>, CommitError> {
        let patience = |conn: &Connection, patience| {
            let set = conn.busy_timeout(patience);
            set.map_err(|error| CommitError::of(conn, error))
        };
        patience(&self.conn, Duration::ZERO)?;
        let result = self.commit(group);
        patience(&self.conn, schema::BUSY_MAX)?;
        match result {
            Err(CommitError::Sqlite(error)) if is_busy(&error) => Ok(None),
            result => result.map(Some),
        }
    }

    /// Commits all of `group` or nothing.
    pub fn commit(&mut self, group: &[Batch]) -> Result<Done, CommitError> {
        let before = self.head;
        let result = self.transact(group);
        match &result {
            Ok(_) => {
                let bytes: usize = group.iter().map(Batch::bytes).sum();
                // Three trees' last pages are rewritten by each commit.
                self.log_pages += 3 + bytes / 3_500;
            }
            Err(_) => {
                // A full disk may have ended the transaction already; then this has nothing to do.
                let _ = self.conn.execute_batch("ROLLBACK");
                self.head = before;
                self.recent.hashes.clear();
                self.finished = None;
            }
        }
        result
    }

    fn transact(&mut self, group: &[Batch]) -> Result<Done, CommitError> {
        self.run("BEGIN IMMEDIATE")?;
        let mut done = Done::default();
        for batch in group {
            self.put_rows(&batch.rows)?;
            self.put_blobs(&batch.blobs)?;
            self.put_finished(&batch.finished)?;
        }
        // Only the last mark counts, and its list may be long.
        let mut latest = group.iter().rev();
        let marked = latest.find_map(|batch| Some((batch.mark.as_ref()?, &batch.summaries)));
        if let Some((mark, summaries)) = marked {
            self.put_mark(mark, summaries)?;
        }
        // Behind it: what waited for a mark goes with it.
        for limits in group.iter().filter_map(|batch| batch.purge.as_ref()) {
            let outcome = self.purge(limits)?;
            done.purged += outcome.forgotten;
            done.unmarked = outcome.unmarked;
        }
        self.run("COMMIT")?;
        done.seq = self.head.seq;
        Ok(done)
    }

    fn run(&self, sql: &str) -> Result<(), CommitError> {
        let run = || self.conn.prepare_cached(sql)?.execute([]);
        run().map(drop).map_err(|e| CommitError::of(&self.conn, e))
    }

    fn put_rows(&mut self, rows: &[Row]) -> Result<(), CommitError> {
        if rows.is_empty() {
            return Ok(());
        }
        let Store {
            conn, head, chain, ..
        } = self;
        let failed = |e| CommitError::of(conn, e);
        let mut insert = conn
            .prepare_cached(
                "INSERT INTO event(seq, t, job, name, version, context, sum)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )
            .map_err(failed)?;
        for row in rows {
            let expected = head.seq + 1;
            if row.seq != expected {
                return Err(CommitError::Order {
                    given: row.seq,
                    expected,
                });
            }
            let sum = chain.next(head.sum, &fields(row));
            put_row(&mut insert, row, sum).map_err(failed)?;
            *head = Head { seq: row.seq, sum };
        }
        Ok(())
    }

    fn put_blobs(&mut self, blobs: &[Blob]) -> Result<(), CommitError> {
        for blob in blobs {
            if blob.bytes.len() > BLOB_BYTES_MAX {
                return Err(CommitError::Blob {
                    bytes: blob.bytes.len(),
                });
            }
            if self.recent.is_new(blob) {
                put_blob(&self.conn, blob).map_err(|e| CommitError::of(&self.conn, e))?;
            }
        }
        Ok(())
    }

    fn put_finished(&mut self, jobs: &[Arc<Finished>]) -> Result<(), CommitError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let failed = |e| CommitError::of(&self.conn, e);
        let mut insert = self.conn.prepare_cached(INSERT_JOB).map_err(failed)?;
        for job in jobs {
            let new = put_job(&self.conn, &mut insert, job).map_err(failed)?;
            self.finished = self.finished.map(|n| n + new);
        }
        Ok(())
    }

    fn purge(&mut self, limits: &purge::Purge) -> Result<purge::Outcome, CommitError> {
        let failed = |e| CommitError::of(&self.conn, e);
        let finished = match self.finished {
            Some(known) => known,
            None => count_finished(&self.conn).map_err(failed)?,
        };
        let outcome = purge::purge(&self.conn, limits, finished).map_err(failed)?;
        self.finished = Some(finished - outcome.forgotten.min(finished));
        Ok(outcome)
    }

    fn put_mark(&self, mark: &Mark, standing: &[u64]) -> Result<(), CommitError> {
        let ascends = mark.live.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = mark.live.first().is_none_or(|&first| first > 0)
            && mark.live.last().is_none_or(|&last| last <= mark.seq);
        if mark.seq > self.head.seq || !ascends || !inside {
            let (live, last) = (mark.live.len(), self.head.seq);
            return Err(CommitError::Mark {
                seq: mark.seq,
                live,
                last,
            });
        }
        let write = || {
            let sum = match mark.seq == self.head.seq {
                true => Some(self.head.sum),
                false => sum_at(&self.conn, mark.seq)?,
            };
            // A purged record cannot carry a mark; the one before stays.
            let Some(sum) = sum else { return Ok(()) };
            write_mark(&self.conn, mark, sum)?;
            summaries::retire(&self.conn, standing)
        };
        write().map_err(|e| CommitError::of(&self.conn, e))
    }

    /// Writes the log back into the database without waiting for readers. What one that still reads
    /// an old state keeps from being written back stays for the next time, as many pages later.
    pub fn checkpoint(&mut self) -> rusqlite::Result<()> {
        self.log_pages = 0;
        self.conn
            .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?
            .query_row([], |_| Ok(()))
    }
}

pub(super) fn fields(row: &Row) -> Fields<'_> {
    Fields {
        seq: row.seq,
        t: row.t,
        job: row.job,
        version: row.version,
        name: row.name.as_bytes(),
        context: row.context.as_bytes(),
    }
}

fn put_row(insert: &mut Statement<'_>, row: &Row, sum: u32) -> rusqlite::Result<()> {
    insert.raw_bind_parameter(1, row.seq as i64)?;
    insert.raw_bind_parameter(2, row.t)?;
    insert.raw_bind_parameter(3, row.job as i64)?;
    insert.raw_bind_parameter(4, row.name.as_ref())?;
    insert.raw_bind_parameter(5, row.version)?;
    insert.raw_bind_parameter(6, row.context.as_str())?;
    insert.raw_bind_parameter(7, sum)?;
    insert.raw_execute().map(drop)
}

fn put_blob(conn: &Connection, blob: &Blob) -> rusqlite::Result<()> {
    // One that recovery gave up is put back by who has its text.
    let sql = "INSERT INTO blob(generation, hash, bytes) VALUES(?1, ?2, ?3)
               ON CONFLICT(generation, hash) DO UPDATE SET bytes = excluded.bytes
               WHERE length(blob.bytes) = 0";
    conn.prepare_cached(sql)?
        .execute(params![
            generation(blob.seq) as i64,
            &blob.hash[..],
            &blob.bytes[..]
        ])
        .map(drop)
}

/// Writes a derived row; answers 1 if the job had none.
fn put_job(conn: &Connection, insert: &mut Statement<'_>, job: &Finished) -> rusqlite::Result<u64> {
    match insert_job(insert, job) {
        // Replay may end a job again whose row is there: then the row is written anew.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            conn.prepare_cached("DELETE FROM job WHERE id = ?1")?
                .execute([job.id as i64])?;
            insert_job(insert, job).map(|()| 0)
        }
        inserted => inserted.map(|()| 1),
    }
}

/// `INSERT OR REPLACE` would copy each page aside that it changes, to be able to take a row back.
const INSERT_JOB: &str =
    "INSERT INTO job(id, user, key, name, result, t_submit, t_inactive, events, row)
     VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

fn insert_job(insert: &mut Statement<'_>, job: &Finished) -> rusqlite::Result<()> {
    insert.raw_bind_parameter(1, job.id as i64)?;
    insert.raw_bind_parameter(2, job.user)?;
    insert.raw_bind_parameter(3, &job.key[..])?;
    insert.raw_bind_parameter(4, job.name.as_str())?;
    insert.raw_bind_parameter(5, job.result.as_str())?;
    insert.raw_bind_parameter(6, job.t_submit)?;
    insert.raw_bind_parameter(7, job.t_inactive)?;
    insert.raw_bind_parameter(8, sequences::to_json(&job.events))?;
    insert.raw_bind_parameter(9, job.row.as_str())?;
    insert.raw_execute().map(drop)
}

pub(super) fn count_finished(conn: &Connection) -> rusqlite::Result<u64> {
    conn.prepare_cached("SELECT count(*) FROM job")?
        .query_row([], |row| row.get::<_, i64>(0))
        .map(|n| n as u64)
}

/// The running sum at `seq`, if that record is there or ends a hole; 0 before the first.
pub(super) fn sum_at(conn: &Connection, seq: u64) -> rusqlite::Result<Option<u32>> {
    if seq == 0 {
        return Ok(Some(0));
    }
    let sum: Option<i64> = conn
        .prepare_cached(
            "SELECT sum FROM event WHERE seq = ?1
             UNION ALL SELECT sum FROM hole WHERE last = ?1 AND first = (
               SELECT max(first) FROM hole WHERE first <= ?1)",
        )?
        .query_row([seq as i64], |row| row.get(0))
        .optional()?;
    Ok(sum.map(|sum| sum as u32))
}

fn write_mark(conn: &Connection, mark: &Mark, sum: u32) -> rusqlite::Result<()> {
    let live = sequences::to_varints(&mark.live);
    let check = mark_check(mark.seq, sum, mark.last_job, &live);
    conn.prepare_cached(
        "INSERT OR REPLACE INTO mark(id, seq, sum, last_job, live, check_sum)
         VALUES(1, ?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        mark.seq as i64,
        sum,
        mark.last_job as i64,
        live,
        check
    ])
    .map(drop)
}

/// Guards the mark, which the chain of records does not cover.
pub(super) fn mark_check(seq: u64, sum: u32, last_job: u64, live: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seq.to_le_bytes());
    hasher.update(&sum.to_le_bytes());
    hasher.update(&last_job.to_le_bytes());
    hasher.update(live);
    hasher.finalize()
}
