//! Recovery of a damaged journal: what is whole goes into a new database, the old one is kept aside.
//! Only opening with `Recover::Cut` calls it. It never deletes a record: it moves files.
//!
//! The steps, each safe to repeat after a crash behind any of them:
//! 1. `recovering.db` is filled; a left over one is thrown away.
//! 2. It is synced and renamed `recovered-N.db`: from here on recovery goes forward only.
//! 3. `journal.db` and its log become `cut-N.db`.
//! 4. `recovered-N.db` becomes `journal.db`.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::acknowledged::Witness;
use super::chain::Head;
use super::lock::sync_dir;
use super::open::{DATABASE, OpenError, Sync};
use super::verify::{self, Fault, Stored, Verified};
use super::{named, schema, sequences, summaries};

const FILLING: &str = "recovering.db";

/// What was cut away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Records `1..=whole` were kept.
    pub whole: u64,
    /// The last record that others had been told of, if known: more than `whole` are lost promises.
    pub acknowledged: Option<u64>,
    /// Where the old database is kept; `None` if nothing but the end was missing.
    pub aside: Option<PathBuf>,
    /// What was wrong.
    pub fault: String,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut {
            whole,
            acknowledged,
            aside,
            fault,
        } = self;
        write!(
            f,
            "the journal was cut: {fault}; records 1..{whole} are kept"
        )?;
        if let Some(last) = acknowledged {
            write!(f, ", last acknowledged was {last}")?;
        }
        match aside {
            Some(aside) => write!(f, "; what it was is in {}", aside.display()),
            None => Ok(()),
        }
    }
}

/// Checks everything and repairs it by cutting; answers what was cut, and notes for the log.
pub(super) fn cut(
    dir: &Path,
    sync: Sync,
    witness: Witness,
) -> Result<(Option<Cut>, Vec<String>), OpenError> {
    let path = dir.join(DATABASE);
    // What cannot be mended shows in what follows.
    let mended = if path.exists() {
        schema::mend(&path).unwrap_or_default()
    } else {
        Vec::new()
    };
    let (old, verified) = inspect(dir, sync, witness)?;
    let mended = mended
        .iter()
        .map(|name| format!("the definition of {name} was restored"));
    let bad = |hash| format!("blob {} does not match its hash", hex(hash));
    let notes = mended
        .chain(verified.bad_blobs.iter().map(|hash| bad(hash)))
        .collect();
    let Some(fault) = verified.fault else {
        return Ok((None, notes));
    };
    let last_job = named::last_job(dir).map_err(|source| OpenError::Directory {
        dir: dir.into(),
        source,
    })?;
    let aside = match fault {
        // The records that are there are whole: there is nothing to move. The mark may rest on
        // those that are not.
        Fault::Lost { .. } | Fault::Other { .. } => {
            if let Some(old) = &old {
                let left = unmark(old, last_job);
                left.map_err(OpenError::Read)?;
            }
            None
        }
        Fault::Gap { .. }
        | Fault::Sum { .. }
        | Fault::Undead { .. }
        | Fault::Unreadable { .. }
        | Fault::Physical { .. } => Some(rebuild(dir, old, last_job)?),
    };
    let cut = Cut {
        whole: verified.whole,
        acknowledged: verified.acknowledged,
        aside,
        fault: describe(&fault),
    };
    Ok((Some(cut), notes))
}

/// Takes the mark away, and has numbers go on behind this job's.
fn unmark(conn: &Connection, last_job: u64) -> rusqlite::Result<()> {
    let last = conn.unchecked_transaction()?;
    last.execute("DELETE FROM mark", [])?;
    used_up(&last, last_job)?;
    last.commit()
}

/// No job gets this number or one before it any more, whatever records there are.
fn used_up(conn: &Connection, last_job: u64) -> rusqlite::Result<()> {
    let sql = "UPDATE purged SET last_job = max(last_job, ?1) WHERE id = 1";
    conn.execute(sql, [last_job as i64]).map(drop)
}

fn describe(fault: &Fault) -> String {
    match fault {
        Fault::Unreadable { source, .. } => format!("{fault}: {source}"),
        _ => fault.to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn inspect(
    dir: &Path,
    sync: Sync,
    witness: Witness,
) -> Result<(Option<Connection>, Verified), OpenError> {
    match schema::open_writer(&dir.join(DATABASE), sync) {
        Ok(conn) => {
            let verified = verify::verify_all(&conn, witness).map_err(OpenError::Read)?;
            Ok((Some(conn), verified))
        }
        Err(OpenError::Read(source)) if verify::is_damage(&source) => {
            salvage(&dir.join(DATABASE), source, witness).map_err(OpenError::Read)
        }
        Err(error) => Err(error),
    }
}

/// What can be read of a database that does not open for `source`.
pub(super) fn salvage(
    path: &Path,
    source: rusqlite::Error,
    witness: Witness,
) -> rusqlite::Result<(Option<Connection>, Verified)> {
    match schema::open_salvage(path) {
        Ok(conn) => {
            let mut verified = verify::verify_all(&conn, witness)?;
            let fault = Fault::Unreadable {
                after: verified.whole,
                source,
            };
            verified.fault = verified.fault.or(Some(fault));
            Ok((Some(conn), verified))
        }
        // Not even its first page: nothing of it can be kept.
        Err(error) if verify::is_damage(&error) => {
            let fault = Fault::Unreadable { after: 0, source };
            let acknowledged = match witness {
                Witness::Said(head) => Some(head.seq),
                Witness::Missing | Witness::Damaged => None,
            };
            let (whole, records, bad_blobs) = (0, 0, Vec::new());
            Ok((
                None,
                Verified {
                    whole,
                    records,
                    acknowledged,
                    fault: Some(fault),
                    bad_blobs,
                },
            ))
        }
        Err(error) => Err(error),
    }
}

/// Steps 1 to 4; answers where the old database went.
fn rebuild(dir: &Path, old: Option<Connection>, last_job: u64) -> Result<PathBuf, OpenError> {
    let directory = |source| OpenError::Directory {
        dir: dir.into(),
        source,
    };
    let path = dir.join(FILLING);
    remove_database(&path).map_err(directory)?;
    // Synced once, at the end.
    let new = schema::open_writer(&path, Sync::Normal)?;
    if let Some(old) = &old {
        fill(old, &new).map_err(OpenError::Read)?;
    }
    used_up(&new, last_job).map_err(OpenError::Read)?;
    // One file, without a log, can be renamed in one step.
    new.pragma_update(None, "journal_mode", "delete")
        .map_err(OpenError::Read)?;
    drop(new);
    drop(old);
    File::open(&path)
        .and_then(|file| file.sync_all())
        .map_err(directory)?;
    let number = (1u32..)
        .find(|n| !dir.join(format!("cut-{n}.db")).exists())
        .expect("fewer than 4 billion recoveries");
    fs::rename(&path, dir.join(format!("recovered-{number}.db"))).map_err(directory)?;
    sync_dir(dir).map_err(directory)?;
    finish(dir).map_err(directory)?;
    Ok(dir.join(format!("cut-{number}.db")))
}

fn remove_database(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        remove_if_there(&beside(path, suffix))?;
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Does what is left to do of a recovery that was interrupted after step 2, or undoes one before.
pub(super) fn finish(dir: &Path) -> io::Result<()> {
    remove_database(&dir.join(FILLING))?;
    let Some(number) = unfinished(dir)? else {
        return Ok(());
    };
    let (journal, aside) = (dir.join(DATABASE), dir.join(format!("cut-{number}.db")));
    for suffix in ["", "-wal"] {
        match fs::rename(beside(&journal, suffix), beside(&aside, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    remove_if_there(&beside(&journal, "-shm"))?;
    // The old names must be gone for good before the new file takes one of them.
    sync_dir(dir)?;
    fs::rename(dir.join(format!("recovered-{number}.db")), &journal)?;
    sync_dir(dir)
}

fn unfinished(dir: &Path) -> io::Result<Option<u32>> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("recovered-"))
            .and_then(|name| name.strip_suffix(".db"))
            .and_then(|number| number.parse().ok());
        if number.is_some() {
            return Ok(number);
        }
    }
    Ok(None)
}

/// Copies the whole records, and of the rest what rests on them. The mark stays behind: what was
/// live at it is found by reading everything once.
fn fill(old: &Connection, new: &Connection) -> rusqlite::Result<()> {
    new.execute_batch("BEGIN")?;
    let mut insert = new.prepare(
        "INSERT INTO event(seq, t, job, name, version, context, sum) VALUES(?1,?2,?3,?4,?5,?6,?7)",
    )?;
    // A failure to write must not pass for a fault of what is read.
    let mut failed = None;
    let walk = verify::walk(old, Head::default(), &mut |record| match copy_record(
        &mut insert,
        record,
    ) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let whole = walk.head.seq;
    copy_rows(old, new, HOLES, &mut |row| {
        row.get::<_, i64>(1).map(|last| last as u64 <= whole)
    })?;
    copy_rows(old, new, PURGED, &mut |_| Ok(true))?;
    // What is noted of summaries is of some that may be no more.
    copy_rows(old, new, META, &mut |row| {
        row.get::<_, String>(0).map(|key| !summaries::is_note(&key))
    })?;
    copy_rows(old, new, JOBS, &mut |row| {
        let events = sequences::from_json(&row.get::<_, String>(7)?);
        Ok(events.is_some_and(|events| events.last().is_none_or(|&last| last <= whole)))
    })?;
    copy_blobs(old, new)?;
    new.execute_batch("COMMIT")
}

fn copy_record(insert: &mut rusqlite::Statement<'_>, record: &Stored<'_>) -> rusqlite::Result<()> {
    let fields = &record.fields;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    insert
        .execute(params![
            fields.seq as i64,
            fields.t,
            fields.job as i64,
            text(fields.name),
            fields.version,
            text(fields.context),
            record.sum
        ])
        .map(drop)
}

struct Table {
    name: &'static str,
    columns: &'static str,
    order: &'static str,
}

const HOLES: &Table = &Table {
    name: "hole",
    columns: "first, last, sum",
    order: "first",
};
const PURGED: &Table = &Table {
    name: "purged",
    columns: "id, jobs, last_job, t_submit, t_inactive",
    order: "id",
};
const META: &Table = &Table {
    name: "meta",
    columns: "key, value",
    order: "key",
};
const JOBS: &Table = &Table {
    name: "job",
    columns: "id, user, key, name, result, t_submit, t_inactive, events, row",
    order: "id",
};

/// Copies the rows that `keep` keeps, until the first that cannot be read: all of these are either
/// small or rebuilt by the caller from records.
fn copy_rows(
    old: &Connection,
    new: &Connection,
    table: &Table,
    keep: &mut dyn FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    let Table {
        name,
        columns,
        order,
    } = table;
    let width = columns.split(',').count();
    let places = vec!["?"; width].join(",");
    let sql = format!("INSERT OR REPLACE INTO {name}({columns}) VALUES({places})");
    let mut insert = new.prepare(&sql)?;
    let sql = format!("SELECT {columns} FROM {name} NOT INDEXED ORDER BY {order}");
    let mut read = || -> rusqlite::Result<Vec<rusqlite::types::Value>> {
        let mut select = old.prepare(&sql)?;
        let mut rows = select.query([])?;
        let mut values = Vec::new();
        loop {
            match rows.next() {
                Ok(Some(row)) => {
                    if keep(row).unwrap_or(false) {
                        for index in 0..width {
                            values.push(row.get(index)?);
                        }
                    }
                }
                Ok(None) => return Ok(values),
                Err(error) if verify::is_damage(&error) => return Ok(values),
                Err(error) => return Err(error),
            }
        }
    };
    match read() {
        Ok(values) => {
            for row in values.chunks(width) {
                insert.execute(rusqlite::params_from_iter(row))?;
            }
            Ok(())
        }
        Err(error) if verify::is_damage(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Blobs are not rebuilt from anything, so each is sought by itself: a bad page costs those on it.
fn copy_blobs(old: &Connection, new: &Connection) -> rusqlite::Result<()> {
    let last = old.query_row("SELECT max(id) FROM blob NOT INDEXED", [], |row| {
        row.get::<_, Option<i64>>(0)
    });
    let last = match last {
        Ok(last) => last.unwrap_or(0),
        // The right edge is what is damaged: look further than blobs can have come.
        Err(error) if verify::is_damage(&error) => 1_000_000,
        Err(error) => return Err(error),
    };
    let mut select = match old.prepare("SELECT generation, hash, bytes FROM blob WHERE id = ?1") {
        Ok(select) => select,
        Err(error) if verify::is_damage(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut insert =
        new.prepare("INSERT OR IGNORE INTO blob(generation, hash, bytes) VALUES(?1, ?2, ?3)")?;
    for id in 1..=last {
        let blob = select.query_row([id], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, Vec<u8>>(1)?,
                row.get::<_, Vec<u8>>(2)?,
            ))
        });
        match blob {
            Ok((generation, hash, bytes)) => insert.execute(params![generation, hash, bytes])?,
            Err(rusqlite::Error::QueryReturnedNoRows) => continue,
            Err(error) if verify::is_damage(&error) => continue,
            Err(error) => return Err(error),
        };
    }
    Ok(())
}
