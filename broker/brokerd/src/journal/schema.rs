//! The tables, the settings of each connection, and the steps from older formats to this one.
//! Opening, readers and recovery call it. It never reads records.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::open::{OpenError, Sync};

/// The format this program writes, in `PRAGMA user_version` and in the file `version`.
pub const FORMAT: u32 = 1;

/// `PRAGMA application_id`: "eddy".
const APPLICATION: i32 = 0x6564_6479;

/// How long a commit waits for a person with sqlite3 who holds the write lock.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(10);

/// Records of this many sequences share their blobs: see `blob` in [`SCHEMA`].
pub(super) const GENERATION_BITS: u32 = 14;

/// The generation in which a record's blobs are kept.
pub(super) fn generation(seq: u64) -> u64 {
    seq >> GENERATION_BITS
}

/// Everything is appended in key order, also the indexes, so that a commit touches the same few
/// pages however long the history is:
/// - `event` by sequence; nothing indexes it by job, since a finished job's row lists its records.
/// - `blob` by generation first: a hash alone would scatter each insert over the whole index.
/// - `job_by_key`: keys are UUIDv7, so each user's part grows at its end. Not unique: the jobs
///   of a bulk submission share their key.
/// - `job_by_end` holds the user, so that "my last jobs" reads no row of others.
///
/// No STRICT tables: the sqlite3 of older distributions could not open the file.
const SCHEMA: &str = "
CREATE TABLE event(
  seq INTEGER PRIMARY KEY,  -- 1, 2, 3...
  t INTEGER NOT NULL,       -- microseconds since 1970
  job INTEGER NOT NULL,     -- 0: the instance itself
  name TEXT NOT NULL,
  version INTEGER NOT NULL, -- of the context
  context TEXT NOT NULL,    -- JSON or ''
  sum INTEGER NOT NULL      -- CRC-32 of this record, continued from the one before
);
CREATE TABLE hole(          -- sequences whose records were purged
  first INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  sum INTEGER NOT NULL      -- of the record that was at last
);
CREATE TABLE blob(
  id INTEGER PRIMARY KEY,
  generation INTEGER NOT NULL, -- seq >> 14 of the records that name it
  hash BLOB NOT NULL,          -- SHA-256
  bytes BLOB NOT NULL
);
CREATE UNIQUE INDEX blob_by_hash ON blob(generation, hash);
CREATE TABLE job(           -- finished jobs: a cache, rebuilt from event
  id INTEGER PRIMARY KEY,
  user INTEGER NOT NULL,
  key BLOB NOT NULL,        -- UUIDv7 of the submission
  name TEXT NOT NULL,
  result TEXT NOT NULL,
  t_submit INTEGER NOT NULL,
  t_inactive INTEGER NOT NULL,
  events TEXT NOT NULL,     -- sequences as deltas: [100,1,1,5] is 100 101 102 107
  row TEXT NOT NULL         -- JSON
);
CREATE INDEX job_by_key ON job(user, key);
CREATE INDEX job_by_end ON job(t_inactive, id, user);
CREATE TABLE mark(
  id INTEGER PRIMARY KEY CHECK (id = 1),
  seq INTEGER NOT NULL,
  sum INTEGER NOT NULL,     -- of the record at seq
  last_job INTEGER NOT NULL,
  live BLOB NOT NULL,       -- sequences as deltas, LEB128
  check_sum INTEGER NOT NULL -- CRC-32 of the other columns
);
CREATE TABLE purged(        -- what purging must not forget
  id INTEGER PRIMARY KEY CHECK (id = 1),
  jobs INTEGER NOT NULL,
  last_job INTEGER NOT NULL,
  t_submit INTEGER NOT NULL,
  t_inactive INTEGER NOT NULL
);
INSERT INTO purged VALUES(1, 0, 0, 0, 0);
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE VIEW eventlog AS     -- records with readable times
  SELECT seq, strftime('%Y-%m-%dT%H:%M:%f', t / 1000000.0, 'unixepoch') AS time,
         job, name, context FROM event;
CREATE VIEW job_event AS    -- the records of each finished job: WHERE job = N
  SELECT job.id AS job, sum(d.value) OVER (PARTITION BY job.id ORDER BY d.key) AS seq
  FROM job, json_each(job.events) AS d;
";

/// Opens `path` for writing, with the settings of the journal's one writer, and brings it to
/// [`FORMAT`].
pub(super) fn open_writer(path: &Path, sync: Sync) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let is_new = matches!(path.try_exists(), Ok(false));
    let conn = Connection::open_with_flags(path, flags).map_err(OpenError::Read)?;
    if is_new && sync == Sync::Normal {
        without_care(&conn).map_err(OpenError::Read)?;
    }
    settle_writer(&conn).map_err(OpenError::Read)?;
    migrate(&conn)?;
    let level = match sync {
        Sync::Full => "FULL",
        Sync::Normal => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", level)
        .map_err(OpenError::Read)?;
    Ok(conn)
}

/// For a database that does not exist yet: its first page is one write, whole or not there when the
/// process dies, and until the first checkpoint a power failure may take all of it anyway. A journal
/// to roll that write back, and four syncs, would be what a short instance spends most on.
fn without_care(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "synchronous", "OFF")?;
    conn.pragma_update(None, "journal_mode", "memory")
}

fn settle_writer(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY_MAX)?;
    conn.set_prepared_statement_cache_capacity(64);
    // 4 KiB pages: each commit writes the last page of each tree again, so larger ones cost more.
    conn.pragma_update(None, "page_size", 4096)?;
    conn.pragma_update(None, "journal_mode", "wal")?;
    // The writer checkpoints when idle; this is the bound for when it never is (16 MiB).
    conn.pragma_update(None, "wal_autocheckpoint", 4096)?;
    conn.pragma_update(None, "journal_size_limit", 32 << 20)?;
    // Appending needs the right edge of six trees; 4 MiB leaves room for purges.
    conn.pragma_update(None, "cache_size", -4096)?;
    conn.pragma_update(None, "temp_store", "memory")?;
    // No mmap: a disk error must be an answer, not a SIGBUS.
    conn.pragma_update(None, "mmap_size", 0)
}

/// Opens `path` for reading beside the writer.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(Duration::from_secs(10))?;
    conn.set_prepared_statement_cache_capacity(32);
    conn.pragma_update(None, "cache_size", -2048)?;
    conn.pragma_update(None, "temp_store", "memory")?;
    conn.pragma_update(None, "mmap_size", 0)?;
    Ok(conn)
}

/// Opens a damaged `path` to read what can be read of it. Under this setting SQLite reads a file
/// that is shorter than it should be, and one whose table definitions do not parse.
pub(super) fn open_salvage(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.pragma_update(None, "writable_schema", "ON")?;
    Ok(conn)
}

/// The format that the database at `path` says it has; none if that is no journal, or cannot be read.
pub(super) fn format_of(path: &Path) -> Option<u32> {
    let conn = open_reader(path).ok()?;
    let number = |sql| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).ok();
    let is_ours = number("PRAGMA application_id")? == i64::from(APPLICATION);
    let format = number("PRAGMA user_version").filter(|_| is_ours)?;
    u32::try_from(format).ok()
}

/// The definition of each table, index and view, by name.
fn definitions(conn: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    conn.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

fn expected_definitions() -> rusqlite::Result<Vec<(String, String)>> {
    let conn = Connection::open_in_memory()?;
    conn.execute_batch(SCHEMA)?;
    definitions(&conn)
}

/// Names of what is not defined as it should be; what others added does not count.
pub(super) fn misdefined(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let found = definitions(conn)?;
    let expected = expected_definitions()?;
    let wrong = expected
        .into_iter()
        .filter(|definition| !found.contains(definition));
    Ok(wrong.map(|(name, _)| name).collect())
}

/// Restores changed definitions, without which SQLite could not find what is in the tables; answers
/// the names of those restored.
pub(super) fn mend(path: &Path) -> rusqlite::Result<Vec<String>> {
    let conn = open_salvage(path)?;
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    // Another format has other definitions; an empty database has none.
    if version != i64::from(FORMAT) {
        return Ok(Vec::new());
    }
    let mut mended = Vec::new();
    for (name, sql) in expected_definitions()? {
        let sql_now = "UPDATE sqlite_schema SET sql = ?2 WHERE name = ?1 AND sql IS NOT ?2";
        if conn.execute(sql_now, [&name, &sql])? > 0 {
            mended.push(name);
        }
    }
    Ok(mended)
}

/// One step per version, each in its own transaction, until the format is [`FORMAT`].
fn migrate(conn: &Connection) -> Result<(), OpenError> {
    loop {
        let found = conn
            .query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
            .map_err(OpenError::Read)?;
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        match found {
            0 => create(conn)?,
            FORMAT => return Ok(()),
            newer => {
                return Err(OpenError::Newer {
                    path: conn.path().unwrap_or_default().into(),
                    found: newer,
                    known: FORMAT,
                });
            }
        }
    }
}

/// From nothing to format 1.
fn create(conn: &Connection) -> Result<(), OpenError> {
    let application: i32 = conn
        .query_row("PRAGMA application_id", [], |row| row.get(0))
        .map_err(OpenError::Read)?;
    let tables: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(OpenError::Read)?;
    if application != 0 || tables != 0 {
        return Err(OpenError::NotAJournal {
            application,
            tables,
        });
    }
    conn.execute_batch(&format!(
        "BEGIN IMMEDIATE; {SCHEMA}
         PRAGMA application_id = {APPLICATION}; PRAGMA user_version = 1; COMMIT;"
    ))
    .map_err(OpenError::Read)
}
