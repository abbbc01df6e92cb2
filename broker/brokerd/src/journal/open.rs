//! Opening a journal: lock, version, the check of what state rests on, and the replay of it.
//! The leader's start calls it. It never starts a thread and decides nothing about jobs.

use std::borrow::Cow;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};
use thiserror::Error;

use super::acknowledged::{Acknowledged, Witness};
use super::ballast::Ballast;
use super::chain::Head;
use super::lock::{DirLock, check_version};
use super::reader::{self, ReadError};
use super::recover::{self, Cut};
use super::store::{CommitError, Done, Store};
use super::verify::{self, EVENT_COLUMNS, Fault, MarkRow};
use super::{Batch, Mark, Purged, Row, blobs, schema, sequences};

/// The database's name in the state directory.
pub(crate) const DATABASE: &str = "journal.db";

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Power loss: each commit waits for the disk.
    Full,
    /// The death of the process; a power loss may take the last commits.
    Normal,
}

/// What to do with a journal that is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recover {
    /// Refuse to open it, saying what is whole.
    Refuse,
    /// Check everything, keep what is whole, move the rest aside, say so.
    Cut,
}

/// How to open a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What a commit survives.
    pub sync: Sync,
    /// What to do with damage.
    pub recover: Recover,
    /// Size of the ballast file; 0 for none. Usual: 16 MiB.
    pub ballast_bytes: u64,
    /// Largest size of the database; at it the disk counts as full. `None` for no limit.
    pub size_max: Option<u64>,
}

impl Default for Options {
    /// What root and queue instances use.
    fn default() -> Options {
        Options {
            sync: Sync::Full,
            recover: Recover::Refuse,
            ballast_bytes: 16 << 20,
            size_max: None,
        }
    }
}

/// Why a journal was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The directory or a plain file in it.
    #[error("state directory {dir} cannot be used")]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another leader has it.
    #[error("state directory {dir} is in use by process {}", pid.map_or("unknown".into(), |p| p.to_string()))]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// Who holds the lock, if it says.
        pid: Option<u32>,
    },
    /// Written by a later release.
    #[error("{} has format {found}, this program knows up to {known}", path.display())]
    Newer {
        /// The database, or the file `version`.
        path: PathBuf,
        /// The journal's format.
        found: u32,
        /// The newest this program reads.
        known: u32,
    },
    /// The file `version` holds no number.
    #[error("{} holds {text:?}, a number is expected; `eddy start --recover` writes it anew if the journal tells its format", path.display())]
    Version {
        /// That file.
        path: PathBuf,
        /// What it holds, cut.
        text: String,
    },
    /// Some other program's database.
    #[error("journal.db is not a journal: application id {application}, {tables} tables")]
    NotAJournal {
        /// Its `PRAGMA application_id`.
        application: i32,
        /// How many tables and indexes it has.
        tables: i64,
    },
    /// Damage; `--recover` is needed.
    #[error("records 1..{whole} are whole, last acknowledged was {}", acknowledged.map_or("unknown".into(), |n| n.to_string()))]
    Damaged {
        /// The last whole record.
        whole: u64,
        /// The last record that others were told of, if known.
        acknowledged: Option<u64>,
        /// What is wrong.
        source: Fault,
    },
    /// The database could not be read or set up, without being damaged.
    #[error("the journal cannot be read")]
    Read(#[source] rusqlite::Error),
}

/// What opening found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// The last record; the next is one more.
    pub last_seq: u64,
    /// The highest job id seen in records, mark or purge.
    pub last_job: u64,
    /// The latest record's time, microseconds since 1970; broker time starts no earlier.
    pub last_t: i64,
    /// What purging took away.
    pub purged: Purged,
    /// What [`Recover::Cut`] cut away, if anything.
    pub cut: Option<Cut>,
    /// That the file `version` was damaged and is written anew.
    pub rewritten: Option<String>,
    /// What a person should read in the log, one line each.
    pub notes: Vec<String>,
}

impl Recovered {
    /// What whoever asked to recover is told: what was written anew or cut, and the notes with that.
    /// Nothing of a start that mended nothing.
    pub fn said(&self) -> Vec<String> {
        let cut = self.cut.as_ref().map(Cut::to_string);
        let notes = self.notes.iter().map(|note| format!("journal: {note}"));
        let with = cut.is_some();
        let mended = self.rewritten.iter().cloned().chain(cut);
        mended.chain(notes.filter(|_| with)).collect()
    }
}

/// From where state is rebuilt.
enum Base {
    /// The mark's live records and all after it.
    Mark(Mark),
    /// Every record but those of jobs with a derived row.
    Everything,
}

/// An open journal, held by this process alone.
pub struct Journal {
    pub(super) dir: PathBuf,
    pub(super) store: Store,
    pub(super) acknowledged: Acknowledged,
    pub(super) ballast: Ballast,
    pub(super) size_max: Option<u64>,
    /// Bytes that were free when it was opened, if that was too little to begin with.
    pub(super) low: Option<u64>,
    base: Base,
    // Last, so that it is given back only when all else is closed.
    _lock: DirLock,
}

/// What an examination concludes.
struct Examined {
    head: Head,
    base: Base,
    last_t: i64,
    last_job: u64,
    note: Option<String>,
}

impl Journal {
    /// Locks `dir` (made if missing), brings the journal to this format and checks all that state
    /// rests on: the live records of the mark and every record after it.
    ///
    /// # Errors
    /// [`OpenError`]; with [`Recover::Cut`] damage is not an error.
    pub fn open(dir: &Path, options: &Options) -> Result<(Journal, Recovered), OpenError> {
        let directory = |source| OpenError::Directory {
            dir: dir.into(),
            source,
        };
        let mut lock = DirLock::take(dir)?;
        let mut ballast = Ballast::new(dir, options.ballast_bytes);
        let low = ballast.make_room();
        lock.sign().map_err(directory)?;
        let rewritten = check_version(dir, options.sync, options.recover)?;
        recover::finish(dir).map_err(directory)?;
        let (acknowledged, witness) = Acknowledged::open(dir, options.sync).map_err(directory)?;
        let mut recovered = Recovered {
            rewritten,
            ..Recovered::default()
        };
        let witness = match options.recover {
            Recover::Refuse => witness,
            Recover::Cut => {
                let (cut, mut notes) = recover::cut(dir, options.sync, witness)?;
                recovered.notes.append(&mut notes);
                recovered.cut = cut;
                // What is left was judged already: it has no witness but itself.
                Witness::Missing
            }
        };
        let (conn, examined) = examine(dir, options.sync, witness)?;
        describe(&conn, &examined, &mut recovered).map_err(OpenError::Read)?;
        note_witness(
            witness,
            options.recover,
            examined.head,
            &mut recovered.notes,
        );
        recovered.notes.extend(examined.note);
        acknowledged.write(examined.head).map_err(directory)?;
        let has_ballast = matches!(ballast.make(), Ok(true));
        if !has_ballast {
            let free = ballast.free();
            recovered
                .notes
                .push(format!("no room for the ballast: {free} bytes are free"));
        }
        let journal = Journal {
            dir: dir.into(),
            store: Store::new(conn, examined.head),
            acknowledged,
            ballast,
            size_max: options.size_max,
            low: low.filter(|_| !has_ballast),
            base: examined.base,
            _lock: lock,
        };
        journal.limit_size().map_err(OpenError::Read)?;
        Ok((journal, recovered))
    }

    /// Shows, in order, each record that state must be rebuilt from, and answers how many there
    /// were: the mark's live ones, then all after it, those of jobs that finished since included.
    /// Without a usable mark: all but those of jobs that have a derived row.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails now; the records themselves were checked by opening.
    pub fn replay(&self, mut visit: impl FnMut(Row)) -> Result<u64, ReadError> {
        let conn = &self.store.conn;
        match &self.base {
            Base::Mark(mark) => {
                let mut count = 0;
                for (first, last) in sequences::runs(&mark.live) {
                    count += show(conn, "seq BETWEEN ?1 AND ?2", [first, last], &mut visit)?;
                }
                let after = [mark.seq + 1, i64::MAX as u64];
                Ok(count + show(conn, "seq BETWEEN ?1 AND ?2", after, &mut visit)?)
            }
            Base::Everything => {
                // What a job used that was over before the last summary is in that one; of the
                // others it is known only from their records.
                let left = "NOT EXISTS (SELECT 1 FROM job WHERE job.id = event.job
                                AND job.t_inactive <
                                    (SELECT max(t) FROM event WHERE name = 'usage'))
                            AND seq BETWEEN ?1 AND ?2";
                Ok(show(conn, left, [1, i64::MAX as u64], &mut visit)?)
            }
        }
    }

    /// The jobs whose last record, by name and context, was appended after all rows that are there,
    /// the latest first. Rows are written in the order of those records, and none waits over a mark.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails.
    pub fn without_row(&self, is_last: impl Fn(&str, &str) -> bool) -> Result<Vec<u64>, ReadError> {
        let after = match &self.base {
            Base::Mark(mark) => mark.seq,
            Base::Everything => 0,
        };
        let sql = "SELECT job, EXISTS (SELECT 1 FROM job WHERE job.id = event.job), name, context
                   FROM event WHERE seq > ?1 AND job <> 0 ORDER BY seq DESC";
        let mut select = self.store.conn.prepare(sql)?;
        let mut rows = select.query(params![after as i64])?;
        let mut jobs = Vec::new();
        while let Some(row) = rows.next()? {
            let text = |at| {
                row.get_ref(at)
                    .map(|text| text.as_str().unwrap_or_default())
            };
            if !is_last(text(2)?, text(3)?) {
                continue;
            }
            if row.get::<_, bool>(1)? {
                break;
            }
            jobs.push(row.get::<_, i64>(0)? as u64);
        }
        Ok(jobs)
    }

    /// Commits `batch` here and now, for tools and tests; a leader uses [`super::Writer`].
    ///
    /// # Errors
    /// [`CommitError`]; then nothing of the batch is in the journal.
    pub fn commit(&mut self, batch: Batch) -> Result<Done, CommitError> {
        let done = self.store.commit(&[batch])?;
        self.acknowledge();
        Ok(done)
    }

    /// The bytes of a blob that record `seq` names.
    ///
    /// # Errors
    /// [`ReadError`] if it is not there, not whole, or the disk fails.
    pub fn blob(&self, seq: u64, hash: &[u8; 32]) -> Result<Vec<u8>, ReadError> {
        blobs::blob(&self.store.conn, seq, hash)
    }

    /// A value set with [`Journal::set_meta`]: the instance's id and the like.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails.
    pub fn meta(&self, key: &str) -> Result<Option<String>, ReadError> {
        let sql = "SELECT value FROM meta WHERE key = ?1";
        Ok(self
            .store
            .conn
            .query_row(sql, [key], |row| row.get(0))
            .optional()?)
    }

    /// How many jobs with a row ended with this result, and how many there are.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails.
    pub fn finished_with(&self, result: &str) -> Result<(u64, u64), ReadError> {
        let sql = "SELECT count(*) FILTER (WHERE result = ?1), count(*) FROM job";
        let counts = self.store.conn.query_row(sql, [result], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })?;
        Ok((counts.0 as u64, counts.1 as u64))
    }

    /// Keeps a value that is not history.
    ///
    /// # Errors
    /// [`CommitError`] if it could not be written.
    pub fn set_meta(&mut self, key: &str, value: &str) -> Result<(), CommitError> {
        let sql = "INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)";
        let conn = &self.store.conn;
        conn.execute(sql, params![key, value])
            .map(drop)
            .map_err(|e| CommitError::of(conn, e))
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn acknowledge(&self) {
        if let Err(error) = self.acknowledged.write(self.store.head) {
            // Only a witness: the commit itself stands.
            tracing::warn!(%error, seq = self.store.head.seq, "acknowledged not written");
        }
    }

    pub(super) fn limit_size(&self) -> rusqlite::Result<()> {
        let pages = self
            .size_max
            .map_or(i64::from(u32::MAX - 1), |bytes| (bytes / 4096) as i64);
        let sql = format!("PRAGMA max_page_count = {}", pages.max(1));
        self.store.conn.query_row(&sql, [], |_| Ok(()))
    }
}

fn show(
    conn: &Connection,
    condition: &str,
    range: [u64; 2],
    visit: &mut impl FnMut(Row),
) -> rusqlite::Result<u64> {
    let sql = format!("SELECT {EVENT_COLUMNS} FROM event WHERE {condition} ORDER BY seq");
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query([range[0] as i64, range[1] as i64])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        visit(row_of(row)?);
        count += 1;
    }
    Ok(count)
}

/// Reads a row of [`EVENT_COLUMNS`].
pub(super) fn row_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        seq: row.get::<_, i64>(0)? as u64,
        t: row.get(1)?,
        job: row.get::<_, i64>(2)? as u64,
        version: row.get(3)?,
        name: Cow::Owned(row.get(4)?),
        context: row.get(5)?,
    })
}

/// Opens the database and checks it as far as state rests on it.
fn examine(dir: &Path, sync: Sync, witness: Witness) -> Result<(Connection, Examined), OpenError> {
    let said = |whole, source| OpenError::Damaged {
        whole,
        acknowledged: match witness {
            Witness::Said(head) => Some(head.seq),
            Witness::Missing | Witness::Damaged => None,
        },
        source,
    };
    let conn = match schema::open_writer(&dir.join(DATABASE), sync) {
        Err(OpenError::Read(source)) if verify::is_damage(&source) => {
            let salvaged = recover::salvage(&dir.join(DATABASE), source, witness);
            let (_, verified) = salvaged.map_err(OpenError::Read)?;
            let fault = verified.fault.expect("what does not open has a fault");
            return Err(said(verified.whole, fault));
        }
        result => result?,
    };
    let unused = match verify::read_mark(&conn).map_err(OpenError::Read)? {
        MarkRow::Good(mark, sum) => match from_mark(&conn, mark, sum, witness) {
            Ok(Ok(examined)) => return Ok((conn, examined)),
            Ok(Err(fault)) => Some(fault.to_string()),
            Err(error) => return Err(OpenError::Read(error)),
        },
        MarkRow::Damaged => Some("it is damaged".into()),
        MarkRow::Missing => None,
    };
    // All of it is read now: for want of a mark, or to say how much is whole.
    match from_start(&conn, witness).map_err(OpenError::Read)? {
        (_, Ok(mut examined)) => {
            examined.note = unused.map(|why| format!("the mark is not used: {why}"));
            Ok((conn, examined))
        }
        (whole, Err(fault)) => Err(said(whole, fault)),
    }
}

/// Checks the mark's live records and the chain after it.
fn from_mark(
    conn: &Connection,
    mark: Mark,
    sum: u32,
    witness: Witness,
) -> rusqlite::Result<Result<Examined, Fault>> {
    let live = verify::check_live(conn, &mark.live)?;
    if let Some(fault) = live.fault {
        return Ok(Err(fault));
    }
    let seq = mark.seq;
    match super::store::sum_at(conn, seq)? {
        Some(stored) if stored != sum => {
            return Ok(Err(Fault::Sum {
                seq,
                stored,
                computed: sum,
            }));
        }
        None if !verify::is_purged(conn, seq, seq)? => {
            return Ok(Err(Fault::Lost { last: seq - 1 }));
        }
        Some(_) | None => {}
    }
    let tail = verify::walk(conn, Head { seq, sum }, &mut |_| ControlFlow::Continue(()))?;
    if let Some(fault) = tail.fault {
        return Ok(Err(fault));
    }
    if let Some(fault) = verify::check_witness(conn, tail.head, witness)? {
        return Ok(Err(fault));
    }
    Ok(Ok(Examined {
        head: tail.head,
        last_t: live.t.max(tail.t),
        last_job: mark.last_job.max(live.last_job).max(tail.last_job),
        base: Base::Mark(mark),
        note: None,
    }))
}

/// Checks every record; answers also up to which they are whole.
fn from_start(
    conn: &Connection,
    witness: Witness,
) -> rusqlite::Result<(u64, Result<Examined, Fault>)> {
    let walk = verify::walk(conn, Head::default(), &mut |_| ControlFlow::Continue(()))?;
    let whole = walk.head.seq;
    let fault = match walk.fault {
        Some(fault) => Some(fault),
        None => verify::check_witness(conn, walk.head, witness)?,
    };
    let examined = Examined {
        head: walk.head,
        base: Base::Everything,
        last_t: walk.t,
        last_job: walk.last_job,
        note: None,
    };
    Ok((whole, fault.map_or(Ok(examined), Err)))
}

fn describe(
    conn: &Connection,
    examined: &Examined,
    recovered: &mut Recovered,
) -> rusqlite::Result<()> {
    let purged = reader::purged(conn)?;
    // The last record is not among the checked ones when the mark is at it and it is not live.
    let last: Option<i64> = conn
        .query_row("SELECT t FROM event ORDER BY seq DESC LIMIT 1", [], |row| {
            row.get(0)
        })
        .optional()?;
    let last_t = last
        .unwrap_or(0)
        .max(examined.last_t)
        .max(purged.t_inactive);
    recovered.last_seq = examined.head.seq;
    recovered.last_job = examined.last_job.max(purged.last_job);
    recovered.last_t = last_t;
    recovered.purged = purged;
    Ok(())
}

fn note_witness(witness: Witness, recover: Recover, head: Head, notes: &mut Vec<String>) {
    match (witness, recover) {
        (Witness::Missing, Recover::Refuse) if head.seq > 0 => {
            notes.push("file acknowledged is missing; made anew from the journal".into());
        }
        (Witness::Damaged, Recover::Refuse) => {
            notes.push("file acknowledged is damaged; made anew from the journal".into());
        }
        (Witness::Said(_) | Witness::Missing | Witness::Damaged, _) => {}
    }
}
