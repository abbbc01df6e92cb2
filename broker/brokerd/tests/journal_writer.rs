//! The writer of the journal: what it commits when and in which order, and what real kills leave.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::journal_fixture::*;
use eddy_brokerd::journal::{CommitError, Committed, SendError, verify};

const WAIT: Duration = Duration::from_secs(60);

#[test]
fn the_writer_commits_in_order_and_merges_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, said) = writer(open(dir.path()).unwrap().0);
    for seq in 1..=2_000 {
        writer.send(rows(seq, seq)).unwrap();
    }
    let (mut durable, mut commits) = (0, 0);
    while durable < 2_000 {
        match said.recv_timeout(WAIT).unwrap() {
            Committed::Durable { seq, .. } => {
                assert!(seq > durable);
                (durable, commits) = (seq, commits + 1);
            }
            other => panic!("{other:?}"),
        }
    }
    println!("2000 batches in {commits} commits");
    assert_eq!(writer.backlog(), Default::default());
    writer.close().unwrap();
    assert_eq!(open(dir.path()).unwrap().1.last_seq, 2_000);
}

#[test]
fn a_writer_at_hand_commits_small_batches_at_once_and_others_in_order_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, said) = writer_at_hand(open(dir.path()).unwrap().0);
    for seq in 1..=50 {
        match writer.commit(rows(seq, seq)).unwrap() {
            Some(Committed::Durable { seq: durable, .. }) => assert_eq!(durable, seq),
            other => panic!("{other:?}"),
        }
    }
    assert!(said.try_recv().is_err(), "it was told by the call");
    // Too large for the sender's thread; what follows meets it at work, or at rest again.
    let mut durable = 50;
    assert!(writer.commit(rows(51, 9_000)).unwrap().is_none());
    for seq in 9_001..=9_200 {
        match writer.commit(rows(seq, seq)).unwrap() {
            Some(Committed::Durable { seq: now, .. }) => {
                assert_eq!(now, seq, "only the last sent is committed here");
                durable = now;
            }
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
    while durable < 9_200 {
        match said.recv_timeout(WAIT).unwrap() {
            Committed::Durable { seq, .. } => durable = durable.max(seq),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(writer.backlog(), Default::default());
    writer.close().unwrap();
    assert_eq!(open(dir.path()).unwrap().1.last_seq, 9_200);
}

#[test]
fn a_writer_at_hand_waits_for_nobody_who_holds_the_write_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, said) = writer_at_hand(open(dir.path()).unwrap().0);
    assert!(writer.commit(rows(1, 1)).unwrap().is_some());
    let person = rusqlite::Connection::open(dir.path().join("journal.db")).unwrap();
    person.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The thread waits for the person; the loop does not.
    assert!(writer.commit(rows(2, 2)).unwrap().is_none());
    person.execute_batch("COMMIT").unwrap();
    match said.recv_timeout(WAIT).unwrap() {
        Committed::Durable { seq: 2, .. } => {}
        other => panic!("{other:?}"),
    }
    writer.close().unwrap();
}

#[test]
fn a_writer_at_hand_that_never_had_a_thread_closes_or_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, _said) = writer_at_hand(open(dir.path()).unwrap().0);
    assert!(writer.commit(rows(1, 3)).unwrap().is_some());
    writer.close().unwrap();
    let (mut writer, _said) = writer_at_hand(open(dir.path()).unwrap().0);
    assert!(writer.commit(rows(4, 4)).unwrap().is_some());
    // As a crash leaves it.
    drop(writer);
    assert_eq!(open(dir.path()).unwrap().1.last_seq, 4);
}

#[test]
fn a_fatal_error_of_a_writer_at_hand_is_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, _said) = writer_at_hand(open(dir.path()).unwrap().0);
    let said = writer.commit(rows(2, 2)).unwrap();
    assert!(matches!(said, Some(Committed::Fatal(_))), "{said:?}");
    let again = writer.commit(rows(1, 1)).map(drop);
    assert_eq!(again, Err(SendError::Ended));
    writer.close().unwrap_err();
}

#[test]
fn a_fatal_error_is_told_and_ends_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, said) = writer(open(dir.path()).unwrap().0);
    writer.send(rows(2, 2)).unwrap();
    let word = said.recv_timeout(WAIT).unwrap();
    assert!(matches!(
        word,
        Committed::Fatal(CommitError::Order {
            given: 2,
            expected: 1
        })
    ));
    // The channel closes when the thread has ended.
    said.recv_timeout(WAIT).unwrap_err();
    assert_eq!(writer.send(rows(1, 1)), Err(SendError::Ended));
    writer.close().unwrap_err();
    open(dir.path()).unwrap();
}

#[test]
fn what_was_told_durable_is_in_a_copy_of_the_files_as_they_are() {
    let (dir, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut writer, said) = writer(open(dir.path()).unwrap().0);
    for round in 1..=20u64 {
        writer.send(rows(round * 200 - 199, round * 200)).unwrap();
        let word = said.recv_timeout(WAIT).unwrap();
        assert!(
            matches!(word, Committed::Durable { seq, .. } if seq == round * 200),
            "{word:?}"
        );
        let image = aside.path().join(round.to_string());
        copy(dir.path(), &image).unwrap();
        let (journal, recovered) = open(&image).unwrap();
        assert_eq!(recovered.last_seq, round * 200);
        assert_eq!(replayed(&journal), (1..=round * 200).collect::<Vec<_>>());
    }
    // Dropped, not closed: as a crash leaves it.
    drop(writer);
    assert_eq!(open(dir.path()).unwrap().1.last_seq, 4_000);
}

const VICTIM: &str = "EDDY_JOURNAL_TEST_VICTIM";
const AT_HAND: &str = "EDDY_JOURNAL_TEST_AT_HAND";

/// The process that the next test kills; by itself it has nothing to do.
#[test]
fn victim_of_the_kill_test() {
    let Some(dir) = env::var_os(VICTIM) else {
        return;
    };
    let (journal, recovered) = open(dir.as_ref()).unwrap();
    let mut sent = recovered.last_seq;
    if env::var_os(AT_HAND).is_some() {
        let (mut writer, _said) = writer_at_hand(journal);
        loop {
            sent += 1;
            println!("sent {sent}");
            match writer.commit(rows(sent, sent)).unwrap() {
                Some(Committed::Durable { seq, .. }) => println!("durable {seq}"),
                // The log is written back now and then, on the thread.
                None => {}
                other => panic!("{other:?}"),
            }
        }
    }
    let (mut writer, said) = writer(journal);
    loop {
        // Well ahead, so that the kill finds some under way and some waiting.
        while writer.backlog().rows < 20 {
            sent += 1;
            writer.send(rows(sent, sent)).unwrap();
            println!("sent {sent}");
        }
        match said.recv_timeout(WAIT).unwrap() {
            Committed::Durable { seq, .. } => println!("durable {seq}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn kill_9_takes_nothing_that_was_told_durable() {
    killed_again_and_again(|_| {});
}

#[test]
fn kill_9_takes_nothing_that_was_told_durable_at_hand() {
    killed_again_and_again(|victim| {
        victim.env(AT_HAND, "1");
    });
}

fn killed_again_and_again(how: impl Fn(&mut Command)) {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=5 {
        let mut victim = Command::new(env::current_exe().unwrap());
        how(&mut victim);
        let mut victim = victim
            .args([
                "--exact",
                "journal_writer::victim_of_the_kill_test",
                "--nocapture",
            ])
            .env(VICTIM, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let mut told: Vec<u64> = Vec::new();
        // Killed as it sends, when most often a commit is under way. What it said until then, and
        // in the pipe, counts.
        for line in lines.map_while(Result::ok) {
            match line.split_once(' ') {
                Some(("durable", seq)) => told.push(seq.parse().unwrap()),
                Some(("sent", _)) if told.len() >= round * 20 => victim.kill().unwrap(),
                _ => {}
            }
        }
        victim.wait().unwrap();
        let (journal, recovered) = open(dir.path()).unwrap();
        let last = *told.last().unwrap();
        assert!(
            recovered.last_seq >= last,
            "told {last}, there are {}",
            recovered.last_seq
        );
        assert_eq!(
            replayed(&journal),
            (1..=recovered.last_seq).collect::<Vec<_>>()
        );
        println!("round {round}: told {last}, kept {}", recovered.last_seq);
    }
    assert!(verify(dir.path()).unwrap().fault.is_none());
}
