//! Questions to the journal: history of finished jobs, records by range, blobs. `Effect::Query` and
//! the event streams come here, on threads of their own, so that no question delays a commit. It
//! sees only what is durable and never writes.

use std::cell::Cell;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::types::{FromSql, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension};
use thiserror::Error;

use super::open::{DATABASE, row_of};
use super::purge::Purged;
use super::store::count_finished;
use super::verify::EVENT_COLUMNS;
use super::{Finished, Row, blobs, schema, sequences};

/// Questions that may wait for a thread; beyond it [`Readers::ask`] refuses.
const QUESTIONS_MAX: usize = 4_096;
/// Before a reader that could not be opened is opened again.
const OPEN_PAUSE: Duration = Duration::from_secs(1);

/// Why a question has no answer.
#[derive(Debug, Error)]
pub enum ReadError {
    /// SQLite's reason.
    #[error("the journal cannot be read")]
    Sqlite(#[from] rusqlite::Error),
    /// A blob that a record names is not there.
    #[error("record {seq} names a blob that is not there")]
    NoBlob {
        /// The record given.
        seq: u64,
    },
    /// A blob that is not what its hash says.
    #[error("the blob that record {seq} names is damaged")]
    BadBlob {
        /// The record given.
        seq: u64,
    },
    /// A blob that was damaged, and that recovery found no whole copy of.
    #[error("the blob that record {seq} names was damaged and is lost")]
    LostBlob {
        /// The record given.
        seq: u64,
    },
    /// A derived row whose list of records cannot be read.
    #[error("the row of job {id} is damaged")]
    BadRow {
        /// The job.
        id: u64,
    },
}

/// Which finished jobs; empty lists and `None` match all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// These ids.
    pub ids: Vec<u64>,
    /// This user.
    pub user: Option<u32>,
    /// This name.
    pub name: Option<String>,
    /// One of these results.
    pub results: Vec<String>,
    /// Became inactive at this time or later, microseconds since 1970.
    pub since: Option<i64>,
    /// Older than this one: the last of the page before.
    pub before: Option<Cursor>,
    /// At most this many.
    pub limit: u32,
}

impl Filter {
    /// Whether it takes this job.
    pub fn takes(&self, job: &Finished) -> bool {
        (self.ids.is_empty() || self.ids.contains(&job.id))
            && self.user.is_none_or(|user| user == job.user)
            && self.name.as_ref().is_none_or(|name| *name == job.name)
            && (self.results.is_empty() || self.results.contains(&job.result))
            && self.since.is_none_or(|since| job.t_inactive >= since)
            && self
                .before
                .is_none_or(|before| (job.t_inactive, job.id) < (before.t_inactive, before.id))
    }
}

/// A place in the listing, newest end first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// When the job became inactive.
    pub t_inactive: i64,
    /// The job.
    pub id: u64,
}

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Finished jobs with a row.
    pub finished: u64,
    /// The last durable record.
    pub last_seq: u64,
    /// What was purged.
    pub purged: Purged,
}

/// A read-only connection, beside the writer of this or another process.
pub struct Reader {
    conn: Connection,
}

impl Reader {
    /// Opens the journal of state directory `dir`, which must exist.
    ///
    /// # Errors
    /// [`ReadError::Sqlite`] if there is none.
    pub fn open(dir: &Path) -> Result<Reader, ReadError> {
        Ok(Reader {
            conn: schema::open_reader(&dir.join(DATABASE))?,
        })
    }

    /// Durable records from `seq` on, in order, at most `limit`: the next call goes on after the
    /// last. Purged ones are left out.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails.
    pub fn from_seq(&self, seq: u64, limit: u32) -> Result<Vec<Row>, ReadError> {
        let mut rows = Vec::new();
        self.from_seq_while(seq, limit, |row| {
            rows.push(row);
            true
        })?;
        Ok(rows)
    }

    /// The same, one by one and as long as `take` wants more: they may be long.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails.
    pub fn from_seq_while(
        &self,
        seq: u64,
        limit: u32,
        mut take: impl FnMut(Row) -> bool,
    ) -> Result<(), ReadError> {
        let sql =
            format!("SELECT {EVENT_COLUMNS} FROM event WHERE seq >= ?1 ORDER BY seq LIMIT ?2");
        let mut select = self.conn.prepare_cached(&sql)?;
        let rows = select.query_map([seq as i64, i64::from(limit)], row_of)?;
        for row in rows {
            if !take(row?) {
                break;
            }
        }
        Ok(())
    }

    /// The records of a finished job, in order; `None` if it has no row: unknown, active or purged.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails or the row is damaged.
    pub fn events_of(&self, id: u64) -> Result<Option<Vec<Row>>, ReadError> {
        let Some(job) = self.job(id)? else {
            return Ok(None);
        };
        let sql = format!(
            "SELECT {EVENT_COLUMNS} FROM event WHERE seq BETWEEN ?1 AND ?2 AND job = ?3 ORDER BY seq"
        );
        let mut select = self.conn.prepare_cached(&sql)?;
        let mut events = Vec::with_capacity(job.events.len());
        for (first, last) in sequences::runs(&job.events) {
            for row in select.query_map([first as i64, last as i64, id as i64], row_of)? {
                events.push(row?);
            }
        }
        Ok(Some(events))
    }

    /// A finished job.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails or the row is damaged.
    pub fn job(&self, id: u64) -> Result<Option<Finished>, ReadError> {
        let filter = Filter {
            ids: vec![id],
            limit: 1,
            ..Filter::default()
        };
        self.finished(&filter)?.pop().map(whole).transpose()
    }

    /// The finished job that `user` submitted with `key`; of a bulk submission, which shares its
    /// key, the one with the lowest id.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails or the row is damaged.
    pub fn by_key(&self, user: u32, key: &[u8; 16]) -> Result<Option<Finished>, ReadError> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM job WHERE user = ?1 AND key = ?2 ORDER BY id LIMIT 1"
        );
        let mut select = self.conn.prepare_cached(&sql)?;
        let job = select
            .query_row(rusqlite::params![user, &key[..]], |row| {
                Ok(finished_of(row).map_err(ReadError::from).and_then(whole))
            })
            .optional()?;
        job.transpose()
    }

    /// What purging has taken away.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails.
    pub fn purged(&self) -> Result<Purged, ReadError> {
        Ok(purged(&self.conn)?)
    }

    /// Finished jobs, latest end first. Of a row whose text is damaged, or what it is found by, that text is empty, and
    /// so are the places of its records where those are: one is not to hide all others. Whether such a row is one that
    /// `filter` takes is not known before it is made again.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails.
    pub fn finished(&self, filter: &Filter) -> Result<Vec<Finished>, ReadError> {
        let (condition, values) = condition(filter);
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM job WHERE {condition} ORDER BY t_inactive DESC, id DESC LIMIT ?"
        );
        let mut select = self.conn.prepare_cached(&sql)?;
        let mut rows = select.query(rusqlite::params_from_iter(values))?;
        let mut jobs = Vec::new();
        while let Some(row) = rows.next()? {
            jobs.push(finished_of(row)?);
        }
        Ok(jobs)
    }

    /// The bytes of a blob that record `seq` names.
    ///
    /// # Errors
    /// [`ReadError`] if it is not there, not whole, or the disk fails.
    pub fn blob(&self, seq: u64, hash: &[u8; 32]) -> Result<Vec<u8>, ReadError> {
        blobs::blob(&self.conn, seq, hash)
    }

    /// How much there is. Counting takes some 10 ms for a million jobs.
    ///
    /// # Errors
    /// [`ReadError`] if the disk fails.
    pub fn counts(&self) -> Result<Counts, ReadError> {
        let last: Option<i64> = self.conn.query_row(
            "SELECT max((SELECT coalesce(max(seq), 0) FROM event),
                        (SELECT coalesce(max(last), 0) FROM hole))",
            [],
            |row| row.get(0),
        )?;
        Ok(Counts {
            finished: count_finished(&self.conn)?,
            last_seq: last.unwrap_or(0) as u64,
            purged: purged(&self.conn)?,
        })
    }
}

const JOB_COLUMNS: &str = "id, user, key, name, result, t_submit, t_inactive, events, row";

fn finished_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Finished> {
    let text = |at| {
        row.get_ref(at)
            .map(|text| text.as_str().unwrap_or_default())
    };
    let columns = Columns {
        row,
        damaged: Cell::new(0),
    };
    let mut job = Finished {
        id: row.get::<_, i64>(0)? as u64,
        user: columns.get(1),
        key: columns.get(2),
        name: columns.get(3),
        result: columns.get(4),
        t_submit: columns.get(5),
        t_inactive: columns.get(6),
        events: sequences::from_json(text(7)?).unwrap_or_default(),
        row: text(8)?.to_owned(),
    };
    // What is found by other words than it has is to be made again as a whole.
    if columns.damaged.get() > 0 {
        job.row.clear();
        job.t_inactive = place_of(row)?;
    }
    Ok(job)
}

/// The columns of a row, those of another type than the schema's empty.
struct Columns<'r, 's> {
    row: &'r rusqlite::Row<'s>,
    damaged: Cell<u32>,
}

impl Columns<'_, '_> {
    fn get<T: FromSql + Default>(&self, at: usize) -> T {
        self.row.get(at).unwrap_or_else(|_| {
            self.damaged.set(self.damaged.get() + 1);
            T::default()
        })
    }
}

/// The time by which SQLite has a row in its place whose own is none: behind all where there is nothing, else before.
fn place_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<i64> {
    Ok(match row.get_ref(6)? {
        ValueRef::Null => i64::MIN,
        ValueRef::Integer(t) => t,
        ValueRef::Real(t) => t as i64,
        ValueRef::Text(_) | ValueRef::Blob(_) => i64::MAX,
    })
}

/// The same, of which its records have to be known: there is no job without any.
fn whole(job: Finished) -> Result<Finished, ReadError> {
    match job.events[..] {
        [] => Err(ReadError::BadRow { id: job.id }),
        _ => Ok(job),
    }
}

/// The filter as SQL with its values, the limit last.
fn condition(filter: &Filter) -> (String, Vec<Value>) {
    let mut parts = vec!["1".to_owned()];
    let mut values = Vec::new();
    let number = |n: u64| Value::Integer(n as i64);
    if let [id] = filter.ids[..] {
        // One statement for all of them, parsed once.
        parts.push("id = ?".into());
        values.push(number(id));
    } else if !filter.ids.is_empty() {
        // Numbers written out: SQLite allows fewer places than a person may list ids.
        let ids: Vec<String> = filter
            .ids
            .iter()
            .map(|&id| (id as i64).to_string())
            .collect();
        parts.push(format!("id IN ({})", ids.join(",")));
    }
    if let Some(user) = filter.user {
        // The plus keeps SQLite from collecting and sorting all jobs of the user by `job_by_key`.
        // One that is no number any more may be of anybody.
        let damaged = "typeof(user) <> 'integer' OR user NOT BETWEEN 0 AND 4294967295";
        parts.push(format!("(+user = ? OR {damaged})"));
        values.push(number(user.into()));
    }
    if let Some(name) = &filter.name {
        parts.push("name = ?".into());
        values.push(Value::Text(name.clone()));
    }
    if !filter.results.is_empty() {
        let places: Vec<_> = iter::repeat_n("?", filter.results.len()).collect();
        parts.push(format!("result IN ({})", places.join(",")));
        values.extend(filter.results.iter().cloned().map(Value::Text));
    }
    if let Some(since) = filter.since {
        parts.push("t_inactive >= ?".into());
        values.push(Value::Integer(since));
    }
    if let Some(Cursor { t_inactive, id }) = filter.before {
        parts.push("(t_inactive, id) < (?, ?)".into());
        values.extend([Value::Integer(t_inactive), number(id)]);
    }
    values.push(number(filter.limit.into()));
    (parts.join(" AND "), values)
}

pub(super) fn purged(conn: &Connection) -> rusqlite::Result<Purged> {
    let sql = "SELECT jobs, last_job, t_submit, t_inactive FROM purged WHERE id = 1";
    let purged = conn
        .query_row(sql, [], |row| {
            Ok(Purged {
                jobs: row.get::<_, i64>(0)? as u64,
                last_job: row.get::<_, i64>(1)? as u64,
                t_submit: row.get(2)?,
                t_inactive: row.get(3)?,
            })
        })
        .optional()?;
    Ok(purged.unwrap_or_default())
}

type Question = Box<dyn FnOnce(&Reader) + Send>;

/// All threads are busy and as many questions wait as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{QUESTIONS_MAX} questions to the journal wait already")]
pub struct ReadersBusy;

/// Threads with a [`Reader`] each, started by the questions that come: most instances inside others
/// are over before there is one. Dropping it answers what was asked, then ends them.
pub struct Readers {
    dir: PathBuf,
    /// How many threads there may be.
    most: usize,
    questions: Option<SyncSender<Question>>,
    receiver: Arc<Mutex<Receiver<Question>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// At most so many threads for the journal of state directory `dir`, none yet.
    pub fn new(dir: &Path, most: usize) -> Readers {
        let (questions, receiver) = sync_channel(QUESTIONS_MAX);
        Readers {
            dir: dir.to_owned(),
            most,
            questions: Some(questions),
            receiver: Arc::new(Mutex::new(receiver)),
            threads: Vec::new(),
        }
    }

    /// Has `question` asked on one of the threads; it sends its own answer. Never blocks.
    ///
    /// # Errors
    /// [`ReadersBusy`]; then the question was dropped.
    pub fn ask(
        &mut self,
        question: impl FnOnce(&Reader) + Send + 'static,
    ) -> Result<(), ReadersBusy> {
        self.start_thread();
        let questions = self.questions.as_ref();
        let questions = questions.filter(|_| !self.threads.is_empty());
        let Some(questions) = questions else {
            return Err(ReadersBusy);
        };
        questions
            .try_send(Box::new(question))
            .map_err(|error| match error {
                TrySendError::Full(_) | TrySendError::Disconnected(_) => ReadersBusy,
            })
    }

    /// One more for each question, up to the most.
    fn start_thread(&mut self) {
        if self.threads.len() >= self.most {
            return;
        }
        let (dir, receiver) = (self.dir.clone(), Arc::clone(&self.receiver));
        let builder = thread::Builder::new().name("journal-reader".into());
        match builder.spawn(move || serve(&dir, &receiver)) {
            Ok(thread) => self.threads.push(thread),
            // Those there are answer; without any the question is refused.
            Err(error) => tracing::warn!(%error, "no thread to read the journal"),
        }
    }
}

fn serve(dir: &Path, receiver: &Mutex<Receiver<Question>>) {
    let mut opened = None;
    loop {
        // The lock is held while waiting, not while answering.
        let next = receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        match next {
            Ok(question) => question(opened.get_or_insert_with(|| open_at_last(dir))),
            Err(_) => return,
        }
    }
}

/// Who asked waits for an answer, and the journal is there: the writer has it open. What is short
/// is memory or descriptors, for a while.
fn open_at_last(dir: &Path) -> Reader {
    loop {
        match Reader::open(dir) {
            Ok(reader) => return reader,
            Err(error) => tracing::error!(%error, "a reader of the journal cannot be opened"),
        }
        thread::sleep(OPEN_PAUSE);
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.questions = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
