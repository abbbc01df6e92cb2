//! The journal in ordinary days: what is appended comes back, marks, history, locks, versions.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::journal_fixture::*;
use eddy_brokerd::journal::{
    Batch, Blob, CommitError, Committed, Cursor, FORMAT, Filter, GENERATION, Journal, Mark,
    OpenError, ReadError, Reader, Readers,
};

const WAIT: Duration = Duration::from_secs(60);

#[test]
fn what_is_appended_is_replayed_in_order_with_every_field() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, fresh) = open(dir.path()).unwrap();
    assert_eq!((fresh.last_seq, fresh.last_job, fresh.last_t), (0, 0, 0));
    assert_eq!(fresh.notes, Vec::<String>::new());
    let batch = rows(1, 300);
    journal.commit(batch.clone()).unwrap();
    journal.set_meta("instance", "f00d").unwrap();
    drop(journal);

    let (journal, again) = open(dir.path()).unwrap();
    assert_eq!((again.last_seq, again.last_job), (300, 300));
    assert_eq!(again.last_t, 1_700_000_000_000_300);
    assert_eq!(again.notes, Vec::<String>::new());
    let mut read = Vec::new();
    assert_eq!(journal.replay(|row| read.push(row)).unwrap(), 300);
    assert_eq!(read, batch.rows);
    assert_eq!(journal.meta("instance").unwrap().as_deref(), Some("f00d"));
    assert_eq!(journal.meta("other").unwrap(), None);
}

#[test]
fn after_a_mark_only_live_records_and_later_ones_are_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    let mark = Mark {
        seq: 90,
        last_job: 200,
        live: vec![1, 17, 18, 19, 80],
    };
    journal
        .commit(Batch {
            mark: Some(mark),
            ..rows(1, 100)
        })
        .unwrap();
    journal
        .commit(Batch {
            finished: vec![finished(95, vec![95]).into()],
            ..rows(101, 103)
        })
        .unwrap();
    drop(journal);
    let (journal, recovered) = open(dir.path()).unwrap();
    assert_eq!((recovered.last_seq, recovered.last_job), (103, 200));
    assert_eq!(recovered.last_t, 1_700_000_000_000_103);
    let expected: Vec<u64> = [1, 17, 18, 19, 80].into_iter().chain(91..=103).collect();
    assert_eq!(replayed(&journal), expected);
}

#[test]
fn the_latest_time_is_found_wherever_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    let mut batch = rows(1, 100);
    // What an instance of this one did, and this one heard of late.
    for row in &mut batch.rows[90..] {
        row.t -= 1_000;
    }
    journal.commit(batch).unwrap();
    drop(journal);
    let (mut journal, recovered) = open(dir.path()).unwrap();
    assert_eq!(recovered.last_t, 1_700_000_000_000_090);
    let mark = Mark {
        seq: 100,
        last_job: 100,
        live: vec![1, 90],
    };
    journal
        .commit(Batch {
            mark: Some(mark),
            ..Batch::default()
        })
        .unwrap();
    drop(journal);
    let (_, recovered) = open(dir.path()).unwrap();
    assert_eq!(recovered.last_t, 1_700_000_000_000_090);
}

#[test]
fn without_a_mark_jobs_are_replayed_that_no_summary_of_usage_knows() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    journal.commit(whole_job(1, 1)).unwrap();
    let more = |rows| Batch {
        rows,
        ..Batch::default()
    };
    let rows = vec![row(9, 0, "drain"), row(10, 2, "submit")];
    journal.commit(more(rows)).unwrap();
    drop(journal);
    let (mut journal, recovered) = open(dir.path()).unwrap();
    assert_eq!(replayed(&journal), (1..=10).collect::<Vec<u64>>());
    assert_eq!(recovered.last_job, 2);
    let mut usage = row(11, 0, "usage");
    usage.t += 1_000;
    journal.commit(more(vec![usage])).unwrap();
    drop(journal);
    let (journal, _) = open(dir.path()).unwrap();
    assert_eq!(replayed(&journal), [9, 10, 11]);
}

#[test]
fn a_record_out_of_order_and_a_mark_past_the_end_are_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    journal.commit(rows(1, 3)).unwrap();
    let wrong = Batch {
        rows: vec![row(4, 4, "submit"), row(6, 6, "submit")],
        ..Batch::default()
    };
    let error = journal.commit(wrong).unwrap_err();
    assert_eq!(error.to_string(), "record 6 given, record 5 is next");
    let mark = Mark {
        seq: 5,
        last_job: 4,
        live: vec![],
    };
    let error = journal
        .commit(Batch {
            mark: Some(mark),
            ..rows(4, 4)
        })
        .unwrap_err();
    assert!(
        matches!(
            error,
            CommitError::Mark {
                seq: 5,
                live: 0,
                last: 4
            }
        ),
        "{error}"
    );
    let mark = Mark {
        seq: 3,
        last_job: 4,
        live: vec![2, 1],
    };
    journal
        .commit(Batch {
            mark: Some(mark),
            ..rows(4, 4)
        })
        .unwrap_err();
    assert_eq!(journal.commit(rows(4, 5)).unwrap().seq, 5);
    drop(journal);
    assert_eq!(open(dir.path()).unwrap().1.last_seq, 5);
}

#[test]
fn a_second_opener_is_refused_and_told_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path()).unwrap();
    let error = open(dir.path()).map(|_| ()).unwrap_err();
    let expected = format!(
        "state directory {} is in use by process {}",
        dir.path().display(),
        std::process::id()
    );
    assert_eq!(error.to_string(), expected);
    drop(journal);
    open(dir.path()).unwrap();
}

#[test]
fn a_newer_version_is_refused_naming_both() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 3);
    let expected = |name| {
        let path = dir.path().join(name);
        let path = path.display();
        format!("{path} has format 99, this program knows up to {FORMAT}")
    };
    edit(dir.path(), "PRAGMA user_version = 99");
    assert_eq!(
        open(dir.path()).map(|_| ()).unwrap_err().to_string(),
        expected("journal.db")
    );
    edit(dir.path(), &format!("PRAGMA user_version = {FORMAT}"));
    open(dir.path()).unwrap();
    fs::write(dir.path().join("version"), "99\n").unwrap();
    assert_eq!(
        open(dir.path()).map(|_| ()).unwrap_err().to_string(),
        expected("version")
    );
}

#[test]
fn a_damaged_version_is_refused_by_name_and_written_anew_where_the_journal_tells_it() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 3);
    let path = dir.path().join("version");
    for (bytes, shown) in [
        (&b"lots\n"[..], "\"lots\\n\""),
        (b"\xb1\n", "\"\u{fffd}\\n\""),
        (b"3\n", "has format 3,"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = open(dir.path()).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        assert!(error.contains(shown), "{error}");
        let (_, recovered) = Journal::open(dir.path(), &CUT).unwrap();
        assert_eq!((recovered.last_seq, &recovered.cut), (3, &None));
        let said = recovered.said();
        assert!(said[0].contains("is written anew: format 1"), "{said:?}");
        assert_eq!(fs::read(&path).unwrap(), b"1\n");
        assert!(open(dir.path()).unwrap().1.said().is_empty());
    }
    // Where that does not tell it either, nobody knows.
    fs::write(&path, "lots\n").unwrap();
    edit(dir.path(), "PRAGMA application_id = 7");
    let error = Journal::open(dir.path(), &CUT).map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Version { .. }), "{error}");
}

#[test]
fn the_database_of_another_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    edit(dir.path(), "CREATE TABLE recipe(name TEXT)");
    let error = open(dir.path()).map(|_| ()).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::NotAJournal {
                application: 0,
                tables: 1
            }
        ),
        "{error}"
    );
}

#[test]
fn jobs_that_ended_after_the_last_row_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    for id in 1..=5 {
        let mut job = whole_job(id, id * 8 - 7);
        if id > 3 {
            job.finished.clear();
        }
        journal.commit(job).unwrap();
    }
    let last = |name: &str, _: &str| name == LIFE[LIFE.len() - 1];
    assert_eq!(journal.without_row(last).unwrap(), [5, 4]);
    let finished = vec![finished(4, (25..=32).collect())];
    journal
        .commit(Batch {
            finished: finished.into_iter().map(Into::into).collect(),
            ..Batch::default()
        })
        .unwrap();
    assert_eq!(journal.without_row(last).unwrap(), [5]);
    drop(journal);
    let (journal, _) = open(dir.path()).unwrap();
    assert_eq!(journal.without_row(last).unwrap(), [5]);
}

#[test]
fn history_is_listed_latest_end_first_and_filtered() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    for id in 1..=100 {
        journal.commit(whole_job(id, id * 8 - 7)).unwrap();
    }
    let reader = Reader::open(dir.path()).unwrap();
    let all = Filter {
        limit: 1000,
        ..Filter::default()
    };
    let ids = |filter: &Filter| -> Vec<u64> {
        let found = reader.finished(filter).unwrap();
        let found: Vec<u64> = found.iter().map(|job| job.id).collect();
        // A row that is not written yet is taken or left as one that is.
        let taken = (1..=100)
            .rev()
            .filter(|id| filter.takes(&finished(*id, vec![])));
        if filter.before.is_none() {
            let taken: Vec<u64> = taken.take(filter.limit as usize).collect();
            assert_eq!(found, taken, "{filter:?}");
        }
        found
    };
    assert_eq!(ids(&all), (1..=100).rev().collect::<Vec<_>>());
    assert_eq!(
        ids(&Filter {
            limit: 3,
            ..all.clone()
        }),
        [100, 99, 98]
    );
    assert_eq!(
        ids(&Filter {
            ids: vec![7, 3, 900],
            ..all.clone()
        }),
        [7, 3]
    );
    let mine = Filter {
        user: Some(1001),
        limit: 2,
        ..all.clone()
    };
    assert_eq!(ids(&mine), [100, 97]);
    let before = Some(Cursor {
        t_inactive: finished(97, vec![]).t_inactive,
        id: 97,
    });
    assert_eq!(ids(&Filter { before, ..mine }), [94, 91]);
    let failed = Filter {
        results: vec!["failed".into(), "timeout".into()],
        ..all.clone()
    };
    assert_eq!(ids(&failed).len(), 25);
    let name = Some("job0".into());
    assert_eq!(
        ids(&Filter {
            name,
            user: Some(1000),
            ..all.clone()
        }),
        [90, 75, 60, 45, 30, 15]
    );
    let since = Some(finished(99, vec![]).t_inactive);
    assert_eq!(ids(&Filter { since, ..all }), [100, 99]);

    assert_eq!(
        reader.job(7).unwrap(),
        Some(finished(7, (49..=56).collect()))
    );
    let events = reader.events_of(7).unwrap().unwrap();
    assert_eq!(
        events
            .iter()
            .map(|row| row.name.as_ref())
            .collect::<Vec<_>>(),
        LIFE
    );
    assert_eq!(reader.events_of(101).unwrap(), None);
    let key = finished(7, vec![]).key;
    assert_eq!(reader.by_key(1001, &key).unwrap().unwrap().id, 7);
    assert_eq!(reader.by_key(1002, &key).unwrap(), None);
    let part = reader.from_seq(795, 4).unwrap();
    assert_eq!(
        part.iter().map(|row| row.seq).collect::<Vec<_>>(),
        [795, 796, 797, 798]
    );
    let counts = reader.counts().unwrap();
    assert_eq!((counts.finished, counts.last_seq), (100, 800));
}

#[test]
fn a_job_that_ends_again_in_replay_keeps_one_row() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    journal.commit(whole_job(1, 1)).unwrap();
    let again = finished(1, vec![1, 8]);
    journal
        .commit(Batch {
            finished: vec![again.clone().into()],
            ..Batch::default()
        })
        .unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.counts().unwrap().finished, 1);
    assert_eq!(reader.job(1).unwrap(), Some(again));
}

#[test]
fn blobs_are_kept_once_and_found_by_the_record_that_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Arc<[u8]> = vec![7; 100_000].into();
    let hash = Blob::new(1, Arc::clone(&bytes)).hash;
    let (mut journal, _) = open(dir.path()).unwrap();
    for seq in [1, 2] {
        let blobs = vec![Blob::new(seq, Arc::clone(&bytes))];
        journal
            .commit(Batch {
                blobs,
                ..rows(seq, seq)
            })
            .unwrap();
    }
    drop(journal);
    let (mut journal, _) = open(dir.path()).unwrap();
    let blobs = vec![Blob::new(3, Arc::clone(&bytes))];
    journal
        .commit(Batch {
            blobs,
            ..rows(3, 3)
        })
        .unwrap();
    for seq in 1..=3 {
        assert_eq!(journal.blob(seq, &hash).unwrap(), &bytes[..]);
    }
    let count = |sql: &str| -> i64 {
        let conn = rusqlite::Connection::open(database(dir.path())).unwrap();
        conn.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count("SELECT count(*) FROM blob"), 1);
    let error = journal.blob(GENERATION, &hash).unwrap_err();
    assert!(
        matches!(error, ReadError::NoBlob { seq: GENERATION }),
        "{error}"
    );
    let large = Blob {
        seq: 4,
        hash,
        bytes: vec![0; (4 << 20) + 1].into(),
    };
    let error = journal
        .commit(Batch {
            blobs: vec![large],
            ..rows(4, 4)
        })
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "blob of 4194305 bytes; at most 4194304 are allowed"
    );
}

#[test]
fn readers_answer_beside_a_running_writer() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, said) = writer(open(dir.path()).unwrap().0);
    let mut readers = Readers::new(dir.path(), 2);
    writer.send(whole_job(1, 1)).unwrap();
    assert!(matches!(
        said.recv_timeout(WAIT).unwrap(),
        Committed::Durable { seq: 8, .. }
    ));
    let (send, answers) = std::sync::mpsc::channel();
    for _ in 0..100 {
        let send = send.clone();
        readers
            .ask(move |reader| drop(send.send(reader.events_of(1))))
            .unwrap();
    }
    drop(readers);
    for _ in 0..100 {
        assert_eq!(
            answers.recv_timeout(WAIT).unwrap().unwrap().unwrap().len(),
            8
        );
    }
    // As a person with sqlite3 would.
    let conn = rusqlite::Connection::open(database(dir.path())).unwrap();
    let seqs: String = conn
        .query_row(
            "SELECT group_concat(seq) FROM job_event WHERE job = 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(seqs, "1,2,3,4,5,6,7,8");
    let line: (String, String) = conn
        .query_row("SELECT time, name FROM eventlog WHERE seq = 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(line, ("2023-11-14T22:13:20.000".into(), "submit".into()));
}

#[test]
fn a_restart_reads_what_is_live_and_not_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(dir.path(), &NO_SYNC).unwrap();
    let mut seq = 1;
    for id in 1..=64_000 {
        journal.commit(whole_job(id, seq)).unwrap();
        seq += 8;
    }
    let live: Vec<u64> = (seq..seq + 5_000).collect();
    let running = live
        .iter()
        .map(|&s| row(s, 64_001 + (s - seq) / 5, LIFE[((s - seq) % 5) as usize]));
    let batch = Batch {
        rows: running.collect(),
        ..Batch::default()
    };
    let mark = Mark {
        seq: seq + 4_999,
        last_job: 65_000,
        live,
    };
    journal
        .commit(Batch {
            mark: Some(mark),
            ..batch
        })
        .unwrap();
    drop(journal);
    let start = Instant::now();
    let (journal, recovered) = open(dir.path()).unwrap();
    let count = journal.replay(|_| ()).unwrap();
    println!(
        "opened and replayed {count} of {} records in {:?}",
        recovered.last_seq,
        start.elapsed()
    );
    assert_eq!((count, recovered.last_seq), (5_000, 517_000));
}
