//! The records of a state directory, one after the other, for whoever only reads.
//!
//! Called by `eddy sim`. It takes no lock, so the instance may run meanwhile: what
//! is durable when it is read is what there is. It folds nothing and never writes.

use std::path::Path;

use eddy_wire::event::Record;

use super::HistoryError;
use crate::journal::Reader;
use crate::leader::replay::ReplayError;
use crate::leader::texts::Specs;

/// Records read at a time.
const PAGE: u32 = 10_000;

/// Shows every record that is kept, in order; purged ones are left out.
///
/// # Errors
/// [`HistoryError`] if there is no journal, or it cannot be read or is of a newer version.
pub fn records(statedir: &Path, mut each: impl FnMut(&Record)) -> Result<(), HistoryError> {
    let reader = Reader::open(statedir)?;
    let mut specs = Specs::of_reader(&reader);
    let mut next = 1;
    loop {
        let rows = reader.from_seq(next, PAGE)?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        next = last.seq + 1;
        for row in &rows {
            let read = specs.record(row);
            each(&read.map_err(|error| ReplayError::of(row.seq, error))?);
        }
    }
}
