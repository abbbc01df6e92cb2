//! Summaries of what was used, which each mark has anew, and which are long. The store calls it in the commit of
//! a mark.
//!
//! Those that the mark before rests on stay until the next, so that a journal whose end is damaged, and is cut, has
//! one with all that belongs to it. The others leave holes, as what is purged does. It knows them by number and
//! name and never reads what they say.

use rusqlite::{Connection, OptionalExtension, params};

use super::{purge, sequences};

/// Those that stood with the last mark, those that the one before it had and the last has not, and up to
/// which record those of earlier versions, which kept all, were looked for.
const STANDING: &str = "summaries";
const DUE: &str = "summaries-due";
const SWEPT: &str = "summaries-swept";
/// So many records are looked through in one commit.
const SWEEP: u64 = 50_000;

/// Whether this module keeps something under that key.
pub(super) fn is_note(key: &str) -> bool {
    [STANDING, DUE, SWEPT].contains(&key)
}

/// These stand with the mark that is committed, ascending; without any nothing is known of them.
pub(super) fn retire(conn: &Connection, standing: &[u64]) -> rusqlite::Result<()> {
    if standing.is_empty() {
        return Ok(());
    }
    let before = list(conn, STANDING)?;
    let stays = |seq: &u64| {
        let is_in = |all: &[u64]| all.binary_search(seq).is_ok();
        is_in(&before) || is_in(standing)
    };
    let mut over = list(conn, DUE)?;
    if let Some(&last) = before.last() {
        over.extend(sweep(conn, last)?);
    }
    over.sort_unstable();
    over.dedup();
    over.retain(|seq| !stays(seq));
    forget(conn, &over)?;
    let is_due = |seq: &u64| standing.binary_search(seq).is_err();
    let due: Vec<u64> = before.into_iter().filter(is_due).collect();
    put(conn, DUE, &sequences::to_json(&due))?;
    put(conn, STANDING, &sequences::to_json(standing))
}

/// The next of those before the last one, as long as not all were looked for.
fn sweep(conn: &Connection, last: u64) -> rusqlite::Result<Vec<u64>> {
    let swept = get(conn, SWEPT)?.and_then(|text| text.parse().ok());
    let swept = swept.unwrap_or(0_u64);
    if swept == u64::MAX {
        return Ok(Vec::new());
    }
    let until = last.min(swept.saturating_add(SWEEP));
    let found = conn
        .prepare_cached(
            "SELECT seq FROM event WHERE seq > ?1 AND seq <= ?2
             AND job = 0 AND name IN ('usage', 'usage-day')",
        )?
        .query_map([swept as i64, until as i64], |row| row.get::<_, i64>(0))?
        .map(|seq| seq.map(|seq| seq as u64))
        .collect();
    let swept = if until == last { u64::MAX } else { until };
    put(conn, SWEPT, &swept.to_string())?;
    found
}

fn forget(conn: &Connection, over: &[u64]) -> rusqlite::Result<()> {
    let mut delete = conn.prepare_cached(
        "DELETE FROM event WHERE seq = ?1 AND job = 0 AND name IN ('usage', 'usage-day')
         RETURNING sum",
    )?;
    let mut gone = Vec::new();
    for &seq in over {
        let sum = delete.query_row([seq as i64], |row| row.get::<_, i64>(0));
        gone.extend(sum.optional()?.map(|sum| (seq, sum as u32)));
    }
    purge::leave_holes(conn, &gone)
}

fn list(conn: &Connection, key: &str) -> rusqlite::Result<Vec<u64>> {
    let text = get(conn, key)?;
    let list = text.and_then(|text| sequences::from_json(&text));
    Ok(list.unwrap_or_default())
}

fn get(conn: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()
}

fn put(conn: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)")?
        .execute(params![key, value])
        .map(drop)
}
