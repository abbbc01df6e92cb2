//! What the journal's tests share: a history to write, and hands to damage it with. Only the
//! `journal*.rs` tests use it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::{fs, io};

use eddy_brokerd::journal::{
    Batch, Committed, Finished, Journal, OpenError, Options, Recover, Recovered, Row, Sync, Writer,
};

/// Names of a job's records, in order.
pub const LIFE: [&str; 8] = [
    "submit", "depend", "priority", "alloc", "start", "finish", "release", "clean",
];

pub const NO_BALLAST: Options = Options {
    sync: Sync::Full,
    recover: Recover::Refuse,
    ballast_bytes: 0,
    size_max: None,
};

pub const CUT: Options = Options {
    recover: Recover::Cut,
    ..NO_BALLAST
};

pub const NO_SYNC: Options = Options {
    sync: Sync::Normal,
    ..NO_BALLAST
};

pub fn row(seq: u64, job: u64, name: &'static str) -> Row {
    let context = match name {
        "clean" => String::new(),
        _ => format!("{{\"of\":{job},\"note\":\"record {seq} of the test's history\"}}"),
    };
    Row {
        seq,
        t: 1_700_000_000_000_000 + seq as i64,
        job,
        name: name.into(),
        version: 1,
        context,
    }
}

pub fn rows(first: u64, last: u64) -> Batch {
    Batch {
        rows: (first..=last).map(|seq| row(seq, seq, "submit")).collect(),
        ..Batch::default()
    }
}

/// A whole job of 8 records from `first`, with its derived row.
pub fn whole_job(id: u64, first: u64) -> Batch {
    let rows = (0..8u64)
        .map(|i| row(first + i, id, LIFE[i as usize]))
        .collect();
    Batch {
        rows,
        finished: vec![finished(id, (first..first + 8).collect()).into()],
        ..Batch::default()
    }
}

pub fn finished(id: u64, events: Vec<u64>) -> Finished {
    let mut key = [0u8; 16];
    key[8..].copy_from_slice(&id.to_be_bytes());
    Finished {
        id,
        user: 1000 + (id % 3) as u32,
        key,
        name: format!("job{}", id % 5),
        result: if id.is_multiple_of(4) {
            "failed"
        } else {
            "completed"
        }
        .into(),
        t_submit: 1_700_000_000_000_000 + id as i64 * 100,
        t_inactive: 1_700_000_000_000_000 + id as i64 * 100 + 50,
        events,
        row: format!("{{\"id\":{id}}}"),
    }
}

pub fn open(dir: &Path) -> Result<(Journal, Recovered), OpenError> {
    Journal::open(dir, &NO_BALLAST)
}

pub fn replayed(journal: &Journal) -> Vec<u64> {
    let mut seqs = Vec::new();
    journal.replay(|row| seqs.push(row.seq)).unwrap();
    seqs
}

/// Writes records 1..=last, one job each.
pub fn write_rows(dir: &Path, last: u64) {
    let (mut journal, _) = open(dir).unwrap();
    journal.commit(rows(1, last)).unwrap();
}

/// Starts a writer whose words come out of a channel.
pub fn writer(journal: Journal) -> (Writer, Receiver<Committed>) {
    let (send, said) = channel();
    let writer = Writer::start(journal, move |word| drop(send.send(word))).unwrap();
    (writer, said)
}

/// A writer that commits small batches on the thread of whoever sends them.
pub fn writer_at_hand(journal: Journal) -> (Writer, Receiver<Committed>) {
    let (send, said) = channel();
    let writer = Writer::at_hand(journal, move |word| drop(send.send(word)));
    (writer, said)
}

/// Changes a closed journal behind its back.
pub fn edit(dir: &Path, sql: &str) {
    let conn = rusqlite::Connection::open(dir.join("journal.db")).unwrap();
    conn.execute_batch(sql).unwrap();
}

/// Writes the log back, so that all is in `journal.db` itself.
pub fn settle(dir: &Path) {
    let conn = rusqlite::Connection::open(dir.join("journal.db")).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
}

/// Copies what a crash would leave: everything but the shared memory.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for name in ["acknowledged", "version", "journal.db", "journal.db-wal"] {
        match fs::copy(from.join(name), to.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Changes a bit of the one place in `file` that holds `text`.
pub fn flip(file: &Path, text: &str) {
    let mut bytes = fs::read(file).unwrap();
    let places: Vec<usize> = (0..bytes.len() - text.len())
        .filter(|&at| &bytes[at..at + text.len()] == text.as_bytes())
        .collect();
    assert_eq!(
        places.len(),
        1,
        "{text:?} is in {} at {places:?}",
        file.display()
    );
    bytes[places[0] + text.len() - 1] ^= 0x04;
    fs::write(file, bytes).unwrap();
}

pub fn database(dir: &Path) -> PathBuf {
    dir.join("journal.db")
}

/// The error as a person reads it: the chain, from the outside in.
pub fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
