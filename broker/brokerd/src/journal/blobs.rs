//! Blobs, the texts that records name by their hash: how one is read, and what recovery makes of one that cannot be.
//!
//! The reader and replay ask. A blob of no bytes under the hash of some is one that recovery has given up: whoever
//! reads it is told so, and who writes that text again puts it back ([`super::store`]). Nothing else is kept of
//! that, so the tables are as they were before.

use rusqlite::{Connection, OptionalExtension, params};

use super::reader::ReadError;
use super::{CommitError, Journal, blob_hash, schema};

/// The bytes of a blob that record `seq` names.
pub(super) fn blob(conn: &Connection, seq: u64, hash: &[u8; 32]) -> Result<Vec<u8>, ReadError> {
    let stored = conn
        .prepare_cached("SELECT bytes FROM blob WHERE generation = ?1 AND hash = ?2")?
        .query_row(params![schema::generation(seq) as i64, &hash[..]], |row| {
            // What is no bytes any more is damaged, and no failure to read.
            row.get_ref(0)
                .map(|value| value.as_blob().map(<[u8]>::to_vec).ok())
        })
        .optional()?;
    match stored.ok_or(ReadError::NoBlob { seq })? {
        Some(bytes) if blob_hash(&bytes) == *hash => Ok(bytes),
        Some(bytes) if bytes.is_empty() => Err(ReadError::LostBlob { seq }),
        Some(_) | None => Err(ReadError::BadBlob { seq }),
    }
}

impl Journal {
    /// Puts a blob that record `seq` names, and that cannot be read, back from another copy: the same text is kept
    /// once for each generation, and a hash may be what is damaged. Without one it is given up: whoever asks for it
    /// from now on is answered [`ReadError::LostBlob`]. Reads all blobs.
    ///
    /// # Errors
    /// [`CommitError`] if the disk fails; then nothing is changed.
    pub fn restore(&self, seq: u64, hash: &[u8; 32]) -> Result<Option<Vec<u8>>, CommitError> {
        let conn = &self.store.conn;
        let failed = |error| CommitError::of(conn, error);
        let generation = schema::generation(seq) as i64;
        let copy = copy(conn, generation, hash).map_err(failed)?;
        let bytes = copy.as_deref().unwrap_or_default();
        conn.execute(
            "INSERT INTO blob(generation, hash, bytes) VALUES(?1, ?2, ?3)
             ON CONFLICT(generation, hash) DO UPDATE SET bytes = excluded.bytes",
            params![generation, &hash[..], bytes],
        )
        .map_err(failed)?;
        Ok(copy)
    }
}

/// The same text where it is whole.
fn copy(conn: &Connection, generation: i64, hash: &[u8; 32]) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut select = conn.prepare("SELECT bytes FROM blob WHERE hash = ?2 OR generation = ?1")?;
    let mut rows = select.query(params![generation, &hash[..]])?;
    while let Some(row) = rows.next()? {
        match row.get_ref(0)?.as_blob() {
            Ok(bytes) if blob_hash(bytes) == *hash => return Ok(Some(bytes.to_vec())),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}
