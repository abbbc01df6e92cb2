//! Whether the records are whole: the walk along the chain, over all of it or from a mark. Opening
//! and recovery call it, and tools through [`verify`]. It never changes anything.

use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row as SqlRow};
use thiserror::Error;

use super::acknowledged::{Acknowledged, Witness};
use super::chain::{Chain, Fields, Head};
use super::open::OpenError;
use super::store::{mark_check, sum_at};
use super::{Mark, schema, sequences};

/// What is wrong at the first place that is not whole.
#[derive(Debug, Error)]
pub enum Fault {
    /// Records are missing that no purge took.
    #[error("record {} is missing, the next is {next}", after + 1)]
    Gap {
        /// The last whole record.
        after: u64,
        /// The next one there is.
        next: u64,
    },
    /// A record is not what was written.
    #[error("record {seq} has checksum {stored:08x}, its content gives {computed:08x}")]
    Sum {
        /// The record.
        seq: u64,
        /// What it says.
        stored: u32,
        /// What it should say.
        computed: u32,
    },
    /// A record is there that a purge says it took.
    #[error("record {seq} is there although it was purged")]
    Undead {
        /// The record.
        seq: u64,
    },
    /// The database cannot be read on.
    #[error("record {} cannot be read", after + 1)]
    Unreadable {
        /// The last whole record.
        after: u64,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The records are whole, but the database around them is not.
    #[error("the database file is damaged: {finding}")]
    Physical {
        /// The first finding of SQLite's own check.
        finding: String,
    },
    /// Records are missing at the end: acknowledged ones, or the mark's.
    #[error("record {} is missing, and all after it", last + 1)]
    Lost {
        /// The last record.
        last: u64,
    },
    /// The record that was acknowledged is not the one that is there.
    #[error("record {seq} is not the one that was acknowledged")]
    Other {
        /// The record.
        seq: u64,
    },
}

/// A record as it is stored, borrowed; text unchecked.
pub(super) struct Stored<'a> {
    pub fields: Fields<'a>,
    pub sum: u32,
}

pub(super) const EVENT_COLUMNS: &str = "seq, t, job, version, name, context, sum";

/// Reads a row of [`EVENT_COLUMNS`].
pub(super) fn stored<'a>(row: &'a SqlRow<'_>) -> rusqlite::Result<Stored<'a>> {
    let text = |index| {
        let value = row.get_ref(index)?;
        value.as_bytes().map_err(|e| {
            rusqlite::Error::FromSqlConversionFailure(index, value.data_type(), Box::new(e))
        })
    };
    let fields = Fields {
        seq: row.get::<_, i64>(0)? as u64,
        t: row.get(1)?,
        job: row.get::<_, i64>(2)? as u64,
        version: row.get(3)?,
        name: text(4)?,
        context: text(5)?,
    };
    Ok(Stored {
        fields,
        sum: row.get(6)?,
    })
}

/// Whether an error tells of damage, rather than of a passing trouble (busy, out of memory).
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, SystemIoFailure, Unknown};
    if super::lack::is_lack(error) {
        return false;
    }
    match error.sqlite_error_code() {
        // Unknown is SQLite's answer to a table or column that is not there.
        Some(code) => matches!(
            code,
            DatabaseCorrupt | NotADatabase | SystemIoFailure | Unknown
        ),
        // A value of another type than the schema's: written by damage only.
        None => !matches!(error, rusqlite::Error::QueryReturnedNoRows),
    }
}

/// How far a walk came.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// The last whole record, purged ones included.
    pub head: Head,
    /// The latest time of the records seen.
    pub t: i64,
    /// The highest job of the records seen.
    pub last_job: u64,
    /// How many records were seen.
    pub rows: u64,
    /// Why it went no further.
    pub fault: Option<Fault>,
}

#[derive(Clone, Copy)]
struct Hole {
    first: u64,
    last: u64,
    sum: u32,
}

/// Follows the chain from `from` to the end, showing each whole record to `visit`.
pub(super) fn walk(
    conn: &Connection,
    from: Head,
    visit: &mut dyn FnMut(&Stored<'_>) -> ControlFlow<()>,
) -> rusqlite::Result<Walk> {
    let mut walk = Walk {
        head: from,
        ..Walk::default()
    };
    match follow(conn, &mut walk, visit) {
        Ok(fault) => walk.fault = fault,
        Err(source) if is_damage(&source) => {
            walk.fault = Some(Fault::Unreadable {
                after: walk.head.seq,
                source,
            });
        }
        Err(error) => return Err(error),
    }
    Ok(walk)
}

fn follow(
    conn: &Connection,
    walk: &mut Walk,
    visit: &mut dyn FnMut(&Stored<'_>) -> ControlFlow<()>,
) -> rusqlite::Result<Option<Fault>> {
    let holes = holes_after(conn, walk.head.seq)?;
    let mut holes = holes.iter().peekable();
    let mut chain = Chain::default();
    let sql = format!("SELECT {EVENT_COLUMNS} FROM event WHERE seq > ?1 ORDER BY seq");
    let mut select = conn.prepare(&sql)?;
    let mut rows = select.query([walk.head.seq as i64])?;
    loop {
        // 1. Step over what was purged right here.
        while let Some(hole) = holes.next_if(|hole| hole.first <= walk.head.seq + 1) {
            walk.head = Head {
                seq: hole.last,
                sum: hole.sum,
            };
        }
        // 2. The next record must continue from there.
        let Some(row) = rows.next()? else { break };
        let record = stored(row)?;
        let seq = record.fields.seq;
        if seq <= walk.head.seq {
            return Ok(Some(Fault::Undead { seq }));
        }
        if seq != walk.head.seq + 1 {
            return Ok(Some(Fault::Gap {
                after: walk.head.seq,
                next: seq,
            }));
        }
        let computed = chain.next(walk.head.sum, &record.fields);
        if computed != record.sum {
            return Ok(Some(Fault::Sum {
                seq,
                stored: record.sum,
                computed,
            }));
        }
        if visit(&record).is_break() {
            return Ok(None);
        }
        walk.head = Head { seq, sum: computed };
        walk.t = walk.t.max(record.fields.t);
        walk.last_job = walk.last_job.max(record.fields.job);
        walk.rows += 1;
    }
    // 3. Nothing may follow that was only reached over a gap.
    Ok(holes.next().map(|hole| Fault::Gap {
        after: walk.head.seq,
        next: hole.first,
    }))
}

fn holes_after(conn: &Connection, seq: u64) -> rusqlite::Result<Vec<Hole>> {
    // The hole that begins before `seq` may reach past it.
    conn.prepare("SELECT first, last, sum FROM hole WHERE last > ?1 ORDER BY first")?
        .query_map([seq as i64], |row| {
            let (first, last): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok(Hole {
                first: first as u64,
                last: last as u64,
                sum: row.get(2)?,
            })
        })?
        .collect()
}

/// Checks that each record of `live` is there and whole, or was purged with its finished job.
pub(super) fn check_live(conn: &Connection, live: &[u64]) -> rusqlite::Result<Walk> {
    let mut walk = Walk::default();
    let mut chain = Chain::default();
    for (first, last) in sequences::runs(live) {
        walk.fault = match check_run(conn, first, last, &mut chain, &mut walk) {
            Err(source) if is_damage(&source) => Some(Fault::Unreadable {
                after: walk.head.seq.max(first - 1),
                source,
            }),
            result => result?,
        };
        if walk.fault.is_some() {
            break;
        }
    }
    Ok(walk)
}

fn check_run(
    conn: &Connection,
    first: u64,
    last: u64,
    chain: &mut Chain,
    walk: &mut Walk,
) -> rusqlite::Result<Option<Fault>> {
    let sql = format!("SELECT {EVENT_COLUMNS} FROM event WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq");
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query([first as i64, last as i64])?;
    walk.head = Head {
        seq: first - 1,
        sum: 0,
    };
    let mut before = sum_at(conn, first - 1)?;
    while let Some(row) = rows.next()? {
        let record = stored(row)?;
        let seq = record.fields.seq;
        if seq != walk.head.seq + 1 {
            if !is_purged(conn, walk.head.seq + 1, seq - 1)? {
                return Ok(Some(Fault::Gap {
                    after: walk.head.seq,
                    next: seq,
                }));
            }
            before = sum_at(conn, seq - 1)?;
        }
        let Some(sum) = before else {
            return Ok(Some(Fault::Gap {
                after: seq - 2,
                next: seq,
            }));
        };
        let computed = chain.next(sum, &record.fields);
        if computed != record.sum {
            return Ok(Some(Fault::Sum {
                seq,
                stored: record.sum,
                computed,
            }));
        }
        walk.head = Head { seq, sum: computed };
        walk.t = walk.t.max(record.fields.t);
        walk.last_job = walk.last_job.max(record.fields.job);
        walk.rows += 1;
        before = Some(computed);
    }
    let missing = walk.head.seq < last && !is_purged(conn, walk.head.seq + 1, last)?;
    Ok(missing.then_some(Fault::Gap {
        after: walk.head.seq,
        next: last + 1,
    }))
}

/// Whether one hole covers all of `first..=last`.
pub(super) fn is_purged(conn: &Connection, first: u64, last: u64) -> rusqlite::Result<bool> {
    let end: Option<i64> = conn
        .prepare_cached("SELECT last FROM hole WHERE first <= ?1 ORDER BY first DESC LIMIT 1")?
        .query_row([first as i64], |row| row.get(0))
        .optional()?;
    Ok(end.is_some_and(|end| end as u64 >= last))
}

/// What the table `mark` holds.
pub(super) enum MarkRow {
    /// None was written yet, or recovery left it behind.
    Missing,
    /// It cannot be relied on.
    Damaged,
    /// The mark, and the running sum at it.
    Good(Mark, u32),
}

pub(super) fn read_mark(conn: &Connection) -> rusqlite::Result<MarkRow> {
    let sql = "SELECT seq, sum, last_job, live, check_sum FROM mark WHERE id = 1";
    let read = conn.prepare(sql)?.query_row([], |row| {
        let (seq, last_job): (i64, i64) = (row.get(0)?, row.get(2)?);
        let (sum, check): (u32, u32) = (row.get(1)?, row.get(4)?);
        let live: Vec<u8> = row.get(3)?;
        let good = check == mark_check(seq as u64, sum, last_job as u64, &live);
        let live = sequences::from_varints(&live).filter(|_| good);
        Ok(live.map(|live| {
            (
                Mark {
                    seq: seq as u64,
                    last_job: last_job as u64,
                    live,
                },
                sum,
            )
        }))
    });
    match read {
        Ok(Some((mark, sum))) => Ok(MarkRow::Good(mark, sum)),
        Ok(None) => Ok(MarkRow::Damaged),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(MarkRow::Missing),
        Err(error) if is_damage(&error) => Ok(MarkRow::Damaged),
        Err(error) => Err(error),
    }
}

/// Holds a whole walk against what was acknowledged.
pub(super) fn check_witness(
    conn: &Connection,
    head: Head,
    witness: Witness,
) -> rusqlite::Result<Option<Fault>> {
    let Witness::Said(said) = witness else {
        return Ok(None);
    };
    if said.seq > head.seq {
        return Ok(Some(Fault::Lost { last: head.seq }));
    }
    let there = match said.seq == head.seq {
        true => Some(head.sum),
        false => sum_at(conn, said.seq)?,
    };
    // A record inside a hole cannot be compared any more.
    Ok(there
        .filter(|&sum| sum != said.sum)
        .map(|_| Fault::Other { seq: said.seq }))
}

/// SQLite's own check of its pages and indexes.
pub(super) fn check_pages(conn: &Connection) -> rusqlite::Result<Option<Fault>> {
    let finding = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match finding {
        Ok(text) if text == "ok" => {
            let wrong = schema::misdefined(conn)?;
            Ok(wrong.first().map(|name| Fault::Physical {
                finding: format!("{name} is redefined"),
            }))
        }
        Ok(text) => Ok(Some(Fault::Physical {
            finding: text.replace('\n', " "),
        })),
        Err(error) if is_damage(&error) => Ok(Some(Fault::Physical {
            finding: error.to_string(),
        })),
        Err(error) => Err(error),
    }
}

/// The result of [`verify`].
#[derive(Debug)]
pub struct Verified {
    /// Records `1..=whole` are whole (those purged are accounted for).
    pub whole: u64,
    /// How many of them are there.
    pub records: u64,
    /// The last record that was acknowledged, if the side file can be read.
    pub acknowledged: Option<u64>,
    /// What is wrong after `whole`, or with the file.
    pub fault: Option<Fault>,
    /// Blobs whose bytes do not match their hash, by hash; not those that recovery has given up.
    pub bad_blobs: Vec<[u8; 32]>,
}

/// Reads everything in the journal of `dir`, which may be in use, and checks it.
///
/// # Errors
/// [`OpenError::Read`] if there is no journal or it cannot be opened at all.
pub fn verify(dir: &Path) -> Result<Verified, OpenError> {
    let directory = |source| OpenError::Directory {
        dir: dir.into(),
        source,
    };
    // The witness first: the journal may only grow meanwhile.
    let witness = Acknowledged::peek(dir).map_err(directory)?;
    let conn = schema::open_reader(&dir.join(super::open::DATABASE)).map_err(OpenError::Read)?;
    verify_all(&conn, witness).map_err(OpenError::Read)
}

/// The same for an open connection.
pub(super) fn verify_all(conn: &Connection, witness: Witness) -> rusqlite::Result<Verified> {
    let walked = walk(conn, Head::default(), &mut |_| ControlFlow::Continue(()))?;
    let mut fault = walked.fault;
    // Pages first: they need a repair, a short end only needs to be admitted.
    if fault.is_none() {
        fault = check_pages(conn)?;
    }
    if fault.is_none() {
        fault = check_witness(conn, walked.head, witness)?;
    }
    let acknowledged = match witness {
        Witness::Said(head) => Some(head.seq),
        Witness::Missing | Witness::Damaged => None,
    };
    let bad_blobs = match &fault {
        None => bad_blobs(conn)?,
        // There is worse to say, and reading on may not be possible.
        Some(_) => Vec::new(),
    };
    Ok(Verified {
        whole: walked.head.seq,
        records: walked.rows,
        acknowledged,
        fault,
        bad_blobs,
    })
}

fn bad_blobs(conn: &Connection) -> rusqlite::Result<Vec<[u8; 32]>> {
    let mut select = conn.prepare("SELECT hash, bytes FROM blob")?;
    let mut rows = select.query([])?;
    let mut bad = Vec::new();
    while let Some(row) = rows.next()? {
        let (hash, bytes): ([u8; 32], _) = (row.get(0)?, row.get_ref(1)?);
        let whole = bytes
            .as_blob()
            .is_ok_and(|bytes| bytes.is_empty() || super::blob_hash(bytes) == hash);
        if !whole {
            bad.push(hash);
        }
    }
    Ok(bad)
}
