//! A damaged journal: what is wrong is found and said, nothing is dropped without `--recover`, and
//! with it only what is not whole.

use std::fs;
use std::path::Path;

use crate::journal_fixture::*;
use eddy_brokerd::journal::{
    Batch, Blob, Fault, GENERATION, Journal, Mark, OpenError, ReadError, Reader, Recovered, verify,
};

/// Opens a journal that must be refused; answers the numbers and the fault.
fn refused(dir: &Path) -> (u64, Option<u64>, Fault) {
    match open(dir).map(|_| ()).unwrap_err() {
        OpenError::Damaged {
            whole,
            acknowledged,
            source,
        } => (whole, acknowledged, source),
        other => panic!("{}", told(&other)),
    }
}

/// Opens with recovery; then it must be whole, and be whole again without.
fn cut(dir: &Path) -> Recovered {
    let (journal, recovered) = Journal::open(dir, &CUT).unwrap();
    assert_eq!(
        replayed(&journal),
        (1..=recovered.last_seq).collect::<Vec<_>>()
    );
    drop(journal);
    let checked = verify(dir).unwrap();
    assert!(checked.fault.is_none(), "{:?}", checked.fault);
    let (_, again) = open(dir).unwrap();
    assert_eq!((again.last_seq, &again.cut), (recovered.last_seq, &None));
    recovered
}

#[test]
fn a_changed_bit_in_the_tail_is_named_and_cut_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 50);
    settle(dir.path());
    flip(&database(dir.path()), "record 31 of");
    let error = open(dir.path()).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "records 1..30 are whole, last acknowledged was 50"
    );
    assert!(
        told(&error).contains(": record 31 has checksum "),
        "{}",
        told(&error)
    );
    let (whole, acknowledged, fault) = refused(dir.path());
    assert!(matches!(fault, Fault::Sum { seq: 31, .. }));
    assert_eq!((whole, acknowledged), (30, Some(50)));

    let recovered = cut(dir.path());
    assert_eq!(recovered.last_seq, 30);
    let cut = recovered.cut.unwrap();
    assert_eq!((cut.whole, cut.acknowledged), (30, Some(50)));
    // The rest is not gone: it is in the file that was moved aside.
    let aside = rusqlite::Connection::open(cut.aside.unwrap()).unwrap();
    let kept: i64 = aside
        .query_row("SELECT count(*) FROM event", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 50);
    let (mut journal, _) = open(dir.path()).unwrap();
    assert_eq!(journal.commit(rows(31, 40)).unwrap().seq, 40);
}

#[test]
fn a_changed_bit_in_old_history_is_found_by_verify_and_does_not_stop_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    let mark = Mark {
        seq: 50,
        last_job: 50,
        live: vec![4, 40],
    };
    journal
        .commit(Batch {
            mark: Some(mark),
            ..rows(1, 50)
        })
        .unwrap();
    drop(journal);
    settle(dir.path());
    flip(&database(dir.path()), "record 31 of");
    assert_eq!(replayed(&open(dir.path()).unwrap().0), [4, 40]);
    let checked = verify(dir.path()).unwrap();
    assert_eq!((checked.whole, checked.acknowledged), (30, Some(50)));
    assert!(
        matches!(checked.fault, Some(Fault::Sum { seq: 31, .. })),
        "{:?}",
        checked.fault
    );
}

#[test]
fn a_changed_or_missing_live_record_stops_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    let mark = Mark {
        seq: 50,
        last_job: 50,
        live: vec![4, 31, 32, 33],
    };
    journal
        .commit(Batch {
            mark: Some(mark),
            ..rows(1, 50)
        })
        .unwrap();
    drop(journal);
    for (sql, whole) in [
        ("UPDATE event SET job = 1000 WHERE seq = 32", 31),
        ("DELETE FROM event WHERE seq = 33", 32),
        ("DELETE FROM event WHERE seq = 31", 30),
        ("UPDATE event SET context = x'ff' WHERE seq = 4", 3),
        ("UPDATE event SET t = 'noon' WHERE seq = 4", 3),
        ("UPDATE event SET sum = sum + 1 WHERE seq = 50", 49),
    ] {
        let image = tempfile::tempdir().unwrap();
        settle(dir.path());
        copy(dir.path(), image.path()).unwrap();
        edit(image.path(), sql);
        assert_eq!(refused(image.path()).0, whole, "{sql}");
        assert_eq!(cut(image.path()).last_seq, whole, "{sql}");
    }
}

#[test]
fn a_missing_record_is_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 20);
    edit(dir.path(), "DELETE FROM event WHERE seq = 7");
    let (whole, acknowledged, fault) = refused(dir.path());
    assert_eq!(fault.to_string(), "record 7 is missing, the next is 8");
    assert_eq!((whole, acknowledged), (6, Some(20)));
    assert_eq!(cut(dir.path()).last_seq, 6);
}

#[test]
fn acknowledged_records_missing_at_the_end_are_said_and_admitted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    // A mark past the end must not stand in for the records that are gone.
    let mark = Mark {
        seq: 20,
        last_job: 20,
        live: vec![1],
    };
    journal
        .commit(Batch {
            mark: Some(mark),
            ..rows(1, 20)
        })
        .unwrap();
    drop(journal);
    edit(dir.path(), "DELETE FROM event WHERE seq > 15");
    let error = open(dir.path()).map(|_| ()).unwrap_err();
    assert_eq!(
        told(&error),
        "records 1..15 are whole, last acknowledged was 20: record 16 is missing, and all after it"
    );
    let recovered = cut(dir.path());
    assert_eq!(recovered.last_seq, 15);
    let cut = recovered.cut.unwrap();
    assert_eq!(
        (cut.whole, cut.acknowledged, cut.aside),
        (15, Some(20), None)
    );
}

#[test]
fn a_missing_database_is_not_taken_for_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 20);
    fs::remove_file(database(dir.path())).unwrap();
    assert_eq!(refused(dir.path()).0, 0);
    // Also not the second time, when an empty one is there.
    assert_eq!(refused(dir.path()).0, 0);
    assert_eq!(cut(dir.path()).last_seq, 0);
}

#[test]
fn another_history_than_the_acknowledged_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 20);
    let (mut journal, _) = open(other.path()).unwrap();
    journal
        .commit(Batch {
            rows: (1..=20).map(|s| row(s, 1, "submit")).collect(),
            ..Batch::default()
        })
        .unwrap();
    journal.commit(rows(21, 21)).unwrap();
    drop(journal);
    settle(other.path());
    fs::copy(database(other.path()), database(dir.path())).unwrap();
    let _ = fs::remove_file(dir.path().join("journal.db-wal"));
    let (whole, acknowledged, fault) = refused(dir.path());
    assert_eq!(
        fault.to_string(),
        "record 20 is not the one that was acknowledged"
    );
    assert_eq!((whole, acknowledged), (21, Some(20)));
    assert_eq!(cut(dir.path()).last_seq, 21);
}

#[test]
fn a_lost_or_torn_side_file_is_noted_and_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 20);
    let file = dir.path().join("acknowledged");
    let good = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let (_, recovered) = open(dir.path()).unwrap();
    assert_eq!(
        recovered.notes,
        ["file acknowledged is missing; made anew from the journal"]
    );
    assert_eq!(fs::read(&file).unwrap(), good);
    fs::write(&file, &good[..17]).unwrap();
    let (_, recovered) = open(dir.path()).unwrap();
    assert_eq!(
        recovered.notes,
        ["file acknowledged is damaged; made anew from the journal"]
    );
    assert_eq!(fs::read(&file).unwrap(), good);
}

#[test]
fn a_side_file_older_than_the_journal_is_fine() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 20);
    let file = dir.path().join("acknowledged");
    let old = fs::read(&file).unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    journal.commit(rows(21, 30)).unwrap();
    drop(journal);
    fs::write(&file, old).unwrap();
    let (_, recovered) = open(dir.path()).unwrap();
    assert_eq!((recovered.last_seq, recovered.notes.len()), (30, 0));
}

#[test]
fn a_damaged_mark_costs_only_time() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    let mark = Mark {
        seq: 16,
        last_job: 2,
        live: vec![9, 10],
    };
    journal.commit(whole_job(1, 1)).unwrap();
    let two = Batch {
        finished: vec![],
        mark: Some(mark),
        ..whole_job(2, 9)
    };
    journal.commit(two).unwrap();
    drop(journal);
    assert_eq!(replayed(&open(dir.path()).unwrap().0), [9, 10]);
    for sql in [
        "UPDATE mark SET live = x'8080'",
        "UPDATE mark SET live = 5",
        "UPDATE mark SET seq = 15",
    ] {
        edit(dir.path(), sql);
        let (journal, recovered) = open(dir.path()).unwrap();
        assert_eq!(
            recovered.notes,
            ["the mark is not used: it is damaged"],
            "{sql}"
        );
        // Nobody summed up what jobs that are over used: it is known only from their records.
        assert_eq!(replayed(&journal), (1..=16).collect::<Vec<_>>(), "{sql}");
    }
}

#[test]
fn derived_rows_that_rest_on_cut_records_go_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    for id in 1..=5 {
        let first = id * 8 - 7;
        let blobs = vec![Blob::new(first, format!("spec of {id}").as_bytes().into())];
        journal
            .commit(Batch {
                blobs,
                ..whole_job(id, first)
            })
            .unwrap();
    }
    journal.set_meta("instance", "f00d").unwrap();
    drop(journal);
    edit(dir.path(), "UPDATE event SET name = 'begin' WHERE seq = 30");
    let (journal, recovered) = Journal::open(dir.path(), &CUT).unwrap();
    assert_eq!(recovered.last_seq, 29);
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.counts().unwrap().finished, 3);
    // Job 4 is active again, from what is whole of it; its jobspec is there. Of the others it is only
    // their records that tell what they used.
    assert_eq!(replayed(&journal), (1..=29).collect::<Vec<_>>());
    let hash = eddy_brokerd::journal::blob_hash(b"spec of 4");
    assert_eq!(journal.blob(25, &hash).unwrap(), b"spec of 4");
    assert_eq!(journal.meta("instance").unwrap().as_deref(), Some("f00d"));
}

#[test]
fn numbers_that_something_is_named_after_are_not_given_again() {
    for broken in [
        "UPDATE event SET name = 'begin' WHERE seq = 2",
        "DELETE FROM event WHERE seq > 1",
    ] {
        for (name, number) in [
            ("spool/17.1.0", 17),
            ("children/18.1", 18),
            ("ranks/2/spool/19.1.2", 19),
            ("ranks/2/children/20.3", 20),
            // Of a declared instance, and of nobody.
            ("children/21", 1),
            ("spool/9223372036854775808.1.0", 1),
            ("spool/22.x.0", 1),
        ] {
            let dir = tempfile::tempdir().unwrap();
            write_rows(dir.path(), 30);
            edit(dir.path(), broken);
            fs::create_dir_all(dir.path().join(name)).unwrap();
            let recovered = cut(dir.path());
            assert_eq!(
                (recovered.last_seq, recovered.last_job),
                (1, number),
                "{name}"
            );
            let (_, again) = open(dir.path()).unwrap();
            assert_eq!(again.last_job, number, "{name}");
        }
    }
}

#[test]
fn a_damaged_blob_is_named_and_not_handed_out() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    let blob = Blob::new(1, b"command: [true]"[..].into());
    journal
        .commit(Batch {
            blobs: vec![blob.clone()],
            ..rows(1, 1)
        })
        .unwrap();
    drop(journal);
    edit(
        dir.path(),
        "UPDATE blob SET bytes = CAST('command: [rm]' AS BLOB)",
    );
    let (journal, _) = open(dir.path()).unwrap();
    let error = journal.blob(1, &blob.hash).unwrap_err();
    assert_eq!(error.to_string(), "the blob that record 1 names is damaged");
    assert_eq!(verify(dir.path()).unwrap().bad_blobs, [blob.hash]);
}

#[test]
fn a_damaged_blob_is_restored_from_another_copy_or_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    let later = GENERATION + 1;
    let twice = [1, later].map(|seq| Blob::new(seq, b"command: [twice]"[..].into()));
    let once = Blob::new(1, b"command: [once]"[..].into());
    let moved = Blob::new(1, b"command: [moved]"[..].into());
    let blobs = [&twice[0], &twice[1], &once, &moved].map(Clone::clone);
    journal
        .commit(Batch {
            blobs: blobs.to_vec(),
            ..rows(1, 1)
        })
        .unwrap();
    drop(journal);
    for sql in [
        "UPDATE blob SET bytes = 'command: [ice]' WHERE instr(bytes, 'twice') AND generation = 0",
        "DELETE FROM blob WHERE instr(bytes, 'once')",
        "UPDATE blob SET hash = x'00' WHERE instr(bytes, 'moved')",
    ] {
        edit(dir.path(), sql);
    }
    let (mut journal, _) = open(dir.path()).unwrap();
    for (blob, copy) in [
        (&twice[0], Some(&b"command: [twice]"[..])),
        (&moved, Some(&b"command: [moved]"[..])),
        (&once, None),
    ] {
        assert!(journal.blob(1, &blob.hash).is_err());
        let restored = journal.restore(1, &blob.hash).unwrap();
        assert_eq!(restored.as_deref(), copy);
        assert_eq!(journal.blob(1, &blob.hash).ok().as_deref(), copy);
    }
    let error = journal.blob(1, &once.hash).unwrap_err();
    assert!(matches!(error, ReadError::LostBlob { seq: 1 }), "{error}");
    // Who has its text puts it back; what is whole stays as it is.
    let blobs = vec![once.clone(), twice[0].clone()];
    journal
        .commit(Batch {
            blobs,
            ..rows(2, 2)
        })
        .unwrap();
    assert_eq!(journal.blob(2, &once.hash).unwrap(), b"command: [once]");
    assert_eq!(
        journal.blob(2, &twice[0].hash).unwrap(),
        b"command: [twice]"
    );
}

#[test]
fn a_truncated_database_keeps_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 2_000);
    settle(dir.path());
    let file = fs::OpenOptions::new()
        .write(true)
        .open(database(dir.path()))
        .unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length / 8192 * 4096).unwrap();
    let (whole, acknowledged, fault) = refused(dir.path());
    assert!(matches!(fault, Fault::Unreadable { .. }), "{fault:?}");
    assert_eq!(acknowledged, Some(2_000));
    assert!((500..2_000).contains(&whole), "{whole}");
    assert_eq!(cut(dir.path()).last_seq, whole);
}

#[test]
fn a_truncated_log_is_a_short_end() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    for seq in 1..=20 {
        journal.commit(rows(seq, seq)).unwrap();
    }
    let image = tempfile::tempdir().unwrap();
    copy(dir.path(), image.path()).unwrap();
    let log = image.path().join("journal.db-wal");
    let file = fs::OpenOptions::new().write(true).open(log).unwrap();
    file.set_len(file.metadata().unwrap().len() - 6_000)
        .unwrap();
    let (whole, acknowledged, fault) = refused(image.path());
    assert!(
        matches!(fault, Fault::Lost { last } if last == whole),
        "{fault:?}"
    );
    assert_eq!(acknowledged, Some(20));
    assert!(whole < 20);
    assert_eq!(cut(image.path()).last_seq, whole);
}

#[test]
fn a_database_without_its_first_page_is_set_aside_whole() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 20);
    settle(dir.path());
    let mut bytes = fs::read(database(dir.path())).unwrap();
    bytes[..100].fill(0x55);
    fs::write(database(dir.path()), &bytes).unwrap();
    assert_eq!(refused(dir.path()).0, 0);
    let recovered = cut(dir.path());
    assert_eq!(recovered.last_seq, 0);
    assert_eq!(
        fs::read(recovered.cut.unwrap().aside.unwrap()).unwrap(),
        bytes
    );
}

#[test]
fn an_interrupted_recovery_is_finished_by_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), 20);
    edit(dir.path(), "DELETE FROM event WHERE seq = 7");
    assert_eq!(cut(dir.path()).last_seq, 6);
    settle(dir.path());
    let at = |name: &str| dir.path().join(name);
    // As if it had died with the new database whole and the old one not yet moved.
    fs::rename(at("journal.db"), at("recovered-1.db")).unwrap();
    fs::rename(at("cut-1.db"), at("journal.db")).unwrap();
    assert_eq!(open(dir.path()).unwrap().1.last_seq, 6);
    assert!(at("cut-1.db").exists() && !at("recovered-1.db").exists());
    // As if it had died with the old one moved.
    settle(dir.path());
    fs::rename(at("journal.db"), at("recovered-1.db")).unwrap();
    assert_eq!(open(dir.path()).unwrap().1.last_seq, 6);
    // As if it had died while filling: nothing has happened yet.
    fs::write(at("recovering.db"), "half a page").unwrap();
    assert_eq!(open(dir.path()).unwrap().1.last_seq, 6);
    assert!(!at("recovering.db").exists());
}

/// Whatever byte changes: no panic, no wrong record, and recovery always gets to a whole journal.
#[test]
fn any_changed_byte_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    for id in 1..=40 {
        let first = id * 8 - 7;
        let blobs = vec![Blob::new(first, format!("spec of {id}").as_bytes().into())];
        journal
            .commit(Batch {
                blobs,
                ..whole_job(id, first)
            })
            .unwrap();
    }
    let mark = Mark {
        seq: 320,
        last_job: 40,
        live: vec![],
    };
    journal
        .commit(Batch {
            mark: Some(mark),
            ..rows(321, 400)
        })
        .unwrap();
    let good: Vec<_> = Reader::open(dir.path()).unwrap().from_seq(1, 1000).unwrap();
    drop(journal);
    settle(dir.path());
    let bytes = fs::read(database(dir.path())).unwrap();
    let (mut refusals, mut cuts, mut seed) = (0, 0, 0x9e37_79b9_7f4a_7c15u64);
    for round in 0..400 {
        // Marsaglia's xorshift64: the same bytes in every run.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let (at, bit) = ((seed >> 8) as usize % bytes.len(), 1 << (seed & 7));
        let image = tempfile::tempdir().unwrap();
        copy(dir.path(), image.path()).unwrap();
        let mut bad = bytes.clone();
        bad[at] ^= bit;
        fs::write(database(image.path()), bad).unwrap();
        let check = |journal: &Journal| {
            let visit = |row: eddy_brokerd::journal::Row| {
                assert_eq!(row, good[row.seq as usize - 1], "round {round}, byte {at}");
            };
            journal.replay(visit).unwrap();
        };
        match open(image.path()) {
            Ok((journal, _)) => check(&journal),
            Err(_) => refusals += 1,
        }
        match Journal::open(image.path(), &CUT) {
            Ok((journal, recovered)) => {
                cuts += usize::from(recovered.cut.is_some());
                check(&journal);
                drop(journal);
                let checked = verify(image.path()).unwrap();
                assert!(
                    checked.fault.is_none(),
                    "round {round}, byte {at}: {:?}",
                    checked.fault
                );
            }
            // The version or the application changed: not damage to repair, but said.
            Err(OpenError::Newer { .. } | OpenError::NotAJournal { .. }) => {}
            Err(other) => panic!("round {round}, byte {at}: {}", told(&other)),
        }
    }
    println!("400 changed bits: {refusals} refused, {cuts} cut");
}
