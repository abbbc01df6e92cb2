//! Forgetting old finished jobs, a bounded number per commit. The store calls it inside a commit's
//! transaction. It never touches a record of the instance itself (`summaries` forgets some), of a job
//! that has no row, or of one that ended after the last mark: what is summed up of jobs is recorded
//! with a mark, so of such a job it would be known from nothing any more.
//!
//! What is purged leaves a hole: the range of its sequences and the running sum at its end, so that
//! the chain goes on and every missing sequence is accounted for. Neighbouring holes become one.

use rusqlite::{Connection, OptionalExtension, params};

use super::schema::{GENERATION_BITS, generation};
use super::sequences;

/// Which finished jobs to forget: those that either bound condemns, the longest finished first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purge {
    /// Jobs that became inactive before this, microseconds since 1970; `i64::MIN` for none.
    pub ended_before: i64,
    /// Keep at most this many; `u64::MAX` for no limit.
    pub keep_most: u64,
    /// At most this many jobs in this commit, so that others do not wait long for it.
    pub jobs_max: u32,
}

/// What purging has taken away since the journal was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Purged {
    /// How many jobs.
    pub jobs: u64,
    /// The highest id among them: ids are not used again.
    pub last_job: u64,
    /// The latest submission among them: an unknown key not younger than this is too old to judge.
    pub t_submit: i64,
    /// The latest end among them.
    pub t_inactive: i64,
}

/// What came of a [`Purge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Outcome {
    /// Jobs that were forgotten.
    pub forgotten: u64,
    /// Condemned ones that stay until there is another mark.
    pub unmarked: u64,
}

struct Victim {
    id: i64,
    t_submit: i64,
    t_inactive: i64,
    events: Vec<u64>,
}

/// Forgets up to `purge.jobs_max` of the `finished` jobs there are.
pub(super) fn purge(conn: &Connection, purge: &Purge, finished: u64) -> rusqlite::Result<Outcome> {
    let surplus = finished.saturating_sub(purge.keep_most);
    let condemned = condemned(conn, purge, surplus)?;
    let marked = marked(conn)?;
    let is_marked = |victim: &Victim| victim.events.last().is_none_or(|&last| last < marked);
    let (victims, stay): (Vec<Victim>, Vec<Victim>) = condemned.into_iter().partition(is_marked);
    let outcome = Outcome {
        forgotten: victims.len() as u64,
        unmarked: stay.len() as u64,
    };
    if victims.is_empty() {
        return Ok(outcome);
    }
    let mut gone = Vec::new();
    for victim in &victims {
        gone.extend(forget(conn, victim)?);
    }
    gone.sort_unstable();
    leave_holes(conn, &gone)?;
    drop_blobs(conn, &gone)?;
    conn.prepare_cached(
        "UPDATE purged SET jobs = jobs + ?1, last_job = max(last_job, ?2),
         t_submit = max(t_submit, ?3), t_inactive = max(t_inactive, ?4) WHERE id = 1",
    )?
    .execute(params![
        victims.len() as i64,
        victims.iter().map(|v| v.id).max(),
        victims.iter().map(|v| v.t_submit).max(),
        victims.iter().map(|v| v.t_inactive).max(),
    ])?;
    Ok(outcome)
}

/// The record that carries the mark; 0 where there is none.
fn marked(conn: &Connection) -> rusqlite::Result<u64> {
    let seq: Option<i64> = conn
        .prepare_cached("SELECT seq FROM mark WHERE id = 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(seq.unwrap_or(0) as u64)
}

fn condemned(conn: &Connection, purge: &Purge, surplus: u64) -> rusqlite::Result<Vec<Victim>> {
    let mut oldest = conn.prepare_cached(
        "SELECT id, t_submit, t_inactive, events FROM job ORDER BY t_inactive, id LIMIT ?1",
    )?;
    let mut rows = oldest.query([i64::from(purge.jobs_max)])?;
    let mut victims = Vec::new();
    while let Some(row) = rows.next()? {
        let t_inactive = row.get(2)?;
        if t_inactive >= purge.ended_before && victims.len() as u64 >= surplus {
            break;
        }
        victims.push(Victim {
            id: row.get(0)?,
            t_submit: row.get(1)?,
            t_inactive,
            events: sequences::from_json(&row.get::<_, String>(3)?).unwrap_or_default(),
        });
    }
    Ok(victims)
}

/// Deletes a job's row and records; answers the sequences and sums of the records that were there.
fn forget(conn: &Connection, victim: &Victim) -> rusqlite::Result<Vec<(u64, u32)>> {
    conn.prepare_cached("DELETE FROM job WHERE id = ?1")?
        .execute([victim.id])?;
    // The row is only a cache: the job's own number guards the records of others against it.
    let mut delete =
        conn.prepare_cached("DELETE FROM event WHERE seq = ?1 AND job = ?2 RETURNING sum")?;
    let mut gone = Vec::new();
    for &seq in &victim.events {
        let sum: Option<i64> = delete
            .query_row([seq as i64, victim.id], |row| row.get(0))
            .optional()?;
        gone.extend(sum.map(|sum| (seq, sum as u32)));
    }
    Ok(gone)
}

/// Notes that these records are gone on purpose, ascending, with their sums.
pub(super) fn leave_holes(conn: &Connection, gone: &[(u64, u32)]) -> rusqlite::Result<()> {
    let seqs: Vec<u64> = gone.iter().map(|g| g.0).collect();
    for &(first, last) in &sequences::runs(&seqs) {
        let at = gone.partition_point(|g| g.0 < last);
        add_hole(conn, first, last, gone[at].1)?;
    }
    Ok(())
}

/// Notes that `first..=last` are gone on purpose, joined with the holes on both sides.
fn add_hole(
    conn: &Connection,
    mut first: u64,
    mut last: u64,
    mut sum: u32,
) -> rusqlite::Result<()> {
    let left: Option<(i64, i64)> = conn
        .prepare_cached(
            "SELECT first, last FROM hole WHERE first < ?1 ORDER BY first DESC LIMIT 1",
        )?
        .query_row([first as i64], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let right: Option<(i64, i64)> = conn
        .prepare_cached("SELECT last, sum FROM hole WHERE first = ?1")?
        .query_row([last as i64 + 1], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((end, end_sum)) = right {
        conn.prepare_cached("DELETE FROM hole WHERE first = ?1")?
            .execute([last as i64 + 1])?;
        (last, sum) = (end as u64, end_sum as u32);
    }
    if let Some((start, end)) = left
        && end as u64 + 1 == first
    {
        first = start as u64;
    }
    conn.prepare_cached("INSERT OR REPLACE INTO hole(first, last, sum) VALUES(?1, ?2, ?3)")?
        .execute([first as i64, last as i64, i64::from(sum)])?;
    Ok(())
}

/// Drops the blobs of each generation that no job's record is left to name.
fn drop_blobs(conn: &Connection, gone: &[(u64, u32)]) -> rusqlite::Result<()> {
    let mut touched: Vec<u64> = gone.iter().map(|g| generation(g.0)).collect();
    touched.dedup();
    let last: Option<i64> = conn
        .prepare_cached("SELECT max(seq) FROM event")?
        .query_row([], |row| row.get(0))?;
    let newest = generation(last.unwrap_or(0) as u64);
    let mut named = conn
        .prepare_cached("SELECT 1 FROM event WHERE seq >= ?1 AND seq < ?2 AND job <> 0 LIMIT 1")?;
    let mut delete = conn.prepare_cached("DELETE FROM blob WHERE generation = ?1")?;
    // The newest may still get records.
    for g in touched.into_iter().filter(|&g| g < newest) {
        let (first, end) = (g << GENERATION_BITS, (g + 1) << GENERATION_BITS);
        if !named.exists([first as i64, end as i64])? {
            delete.execute([g as i64])?;
        }
    }
    Ok(())
}
