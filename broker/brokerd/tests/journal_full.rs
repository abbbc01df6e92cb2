//! The journal on a full disk: nothing is lost, nothing is told that is not so, and it goes on.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::journal_fixture::*;
use eddy_brokerd::journal::{CloseError, Committed, Journal, Options, advice, verify};

const WAIT: Duration = Duration::from_secs(60);
const SMALL: Options = Options {
    size_max: Some(256 << 10),
    ..NO_BALLAST
};

/// Sends record after record until the disk is told full; answers the last durable and last sent.
fn fill(
    writer: &mut eddy_brokerd::journal::Writer,
    said: &Receiver<Committed>,
    from: u64,
) -> (u64, u64) {
    let mut durable = from - 1;
    for sent in from..from + 100_000 {
        writer.send(rows(sent, sent)).unwrap();
        match said.recv_timeout(WAIT).unwrap() {
            Committed::Durable { seq, .. } => durable = seq,
            Committed::DiskFull { waiting, .. } => {
                assert_eq!(waiting, 1);
                return (durable, sent);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the disk never became full");
}

fn next_durable(said: &Receiver<Committed>) -> u64 {
    match said.recv_timeout(WAIT).unwrap() {
        Committed::Durable { seq, .. } => seq,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_disk_holds_what_was_sent_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, said) = writer(Journal::open(dir.path(), &SMALL).unwrap().0);
    let (durable, sent) = fill(&mut writer, &said, 1);
    assert_eq!(durable + 1, sent);
    writer.send(rows(sent + 1, sent + 5)).unwrap();
    assert_eq!(writer.backlog().rows, 6);
    // Nothing more is told while it is full: neither success nor the same trouble again.
    assert!(said.try_recv().is_err());
    writer.limit_size(None);
    assert_eq!(next_durable(&said), sent);
    assert!(matches!(
        said.recv_timeout(WAIT).unwrap(),
        Committed::SpaceBack { .. }
    ));
    assert_eq!(next_durable(&said), sent + 5);
    writer.close().unwrap();
    let (journal, recovered) = open(dir.path()).unwrap();
    assert_eq!(recovered.last_seq, sent + 5);
    assert_eq!(replayed(&journal), (1..=sent + 5).collect::<Vec<_>>());
}

#[test]
fn a_writer_at_hand_leaves_a_full_disk_to_its_thread_and_goes_on_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, said) = writer_at_hand(Journal::open(dir.path(), &SMALL).unwrap().0);
    let mut sent = 0;
    let full = loop {
        sent += 1;
        match writer.commit(rows(sent, sent)).unwrap() {
            Some(Committed::Durable { seq, .. }) => assert_eq!(seq, sent),
            Some(other) => panic!("{other:?}"),
            None => match said.recv_timeout(WAIT).unwrap() {
                // The thread was at work on the log.
                Committed::Durable { seq, .. } => assert_eq!(seq, sent),
                word => break word,
            },
        }
    };
    assert!(
        matches!(full, Committed::DiskFull { waiting: 1, .. }),
        "{full:?}"
    );
    assert!(writer.commit(rows(sent + 1, sent + 1)).unwrap().is_none());
    assert_eq!(writer.backlog().rows, 2);
    writer.limit_size(None);
    assert_eq!(next_durable(&said), sent);
    let back = said.recv_timeout(WAIT).unwrap();
    assert!(matches!(back, Committed::SpaceBack { .. }), "{back:?}");
    assert_eq!(next_durable(&said), sent + 1);
    let last = sent + 2;
    match writer.commit(rows(last, last)).unwrap() {
        Some(Committed::Durable { seq, .. }) => assert_eq!(seq, last),
        // The thread has told of the commit and not yet laid down the journal.
        None => assert_eq!(next_durable(&said), last),
        other => panic!("{other:?}"),
    }
    writer.close().unwrap();
    assert_eq!(open(dir.path()).unwrap().1.last_seq, last);
}

#[test]
fn closing_on_a_full_disk_says_what_was_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, said) = writer(Journal::open(dir.path(), &SMALL).unwrap().0);
    let (durable, sent) = fill(&mut writer, &said, 1);
    writer.send(rows(sent + 1, sent + 2)).unwrap();
    assert_eq!(writer.close(), Err(CloseError::Full { rows: 3 }));
    let (_, recovered) = open(dir.path()).unwrap();
    assert_eq!(recovered.last_seq, durable);
}

#[test]
fn dropping_the_writer_on_a_full_disk_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, said) = writer(Journal::open(dir.path(), &SMALL).unwrap().0);
    let (durable, _) = fill(&mut writer, &said, 1);
    drop(writer);
    assert_eq!(open(dir.path()).unwrap().1.last_seq, durable);
}

#[test]
fn a_disk_without_room_for_the_ballast_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let huge = Options {
        ballast_bytes: 1 << 60,
        ..NO_BALLAST
    };
    let (_, recovered) = Journal::open(dir.path(), &huge).unwrap();
    assert!(
        recovered.notes[0].starts_with("no room for the ballast: "),
        "{:?}",
        recovered.notes
    );
}

#[test]
fn a_full_disk_without_a_ballast_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mounted) = small_disk(dir.path(), "2m") else {
        return;
    };
    let state = dir.path().join("state");
    let with_ballast = Options {
        ballast_bytes: 1 << 20,
        ..NO_BALLAST
    };
    drop(Journal::open(&state, &with_ballast).unwrap());
    fs::remove_file(state.join("ballast")).unwrap();
    let _ = fs::write(dir.path().join("filler"), vec![1u8; 2 << 20]);
    let error = Journal::open(&state, &with_ballast).map(drop).unwrap_err();
    let (mount, state) = (dir.path().display(), state.display());
    assert_eq!(
        advice(&error, &dir.path().join("state")).unwrap(),
        format!(
            "no space left on the file system {mount} of state directory {state}: 0 bytes free; \
             make room there, then start it again"
        )
    );
}

#[test]
fn a_journal_opened_on_a_full_disk_begins_on_the_room_of_its_ballast() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mounted) = small_disk(dir.path(), "4m") else {
        return;
    };
    let state = dir.path().join("state");
    let options = Options {
        ballast_bytes: 1 << 20,
        ..NO_BALLAST
    };
    drop(Journal::open(&state, &options).unwrap());
    let filler = dir.path().join("filler");
    let _ = fs::write(&filler, vec![1u8; 4 << 20]);
    let (mut writer, said) = writer(Journal::open(&state, &options).unwrap().0);
    let first = said.recv_timeout(WAIT).unwrap();
    assert!(
        matches!(first, Committed::DiskFull { free: 0, .. }),
        "{first:?}"
    );
    writer.send(rows(1, 1)).unwrap();
    assert_eq!(next_durable(&said), 1);
    fs::remove_file(&filler).unwrap();
    loop {
        match said.recv_timeout(WAIT).unwrap() {
            Committed::SpaceBack { .. } => break,
            Committed::Durable { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    writer.close().unwrap();
}

/// A file system of that size, if it may be mounted.
fn small_disk<'a>(dir: &'a Path, size: &str) -> Option<Mounted<'a>> {
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
        .arg(dir)
        .output();
    if mount.is_ok_and(|output| output.status.success()) {
        return Some(Mounted(dir));
    }
    println!("no right to mount a tmpfs: this was not tested");
    None
}

struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_really_full_disk_gives_up_its_ballast_for_what_must_be_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
        .arg(dir.path())
        .output();
    if !mount.is_ok_and(|output| output.status.success()) {
        println!("no right to mount a tmpfs: only the cases with a size limit were tested");
        return;
    }
    let _mounted = Mounted(dir.path());
    let options = Options {
        ballast_bytes: 1 << 20,
        ..NO_BALLAST
    };
    let state = dir.path().join("state");
    let (journal, recovered) = Journal::open(&state, &options).unwrap();
    assert_eq!(recovered.notes, Vec::<String>::new());
    assert_eq!(fs::metadata(state.join("ballast")).unwrap().len(), 1 << 20);
    // Someone else takes all but 300 KiB of the rest.
    let filler = dir.path().join("filler");
    fs::write(&filler, vec![1u8; 2_500 << 10]).unwrap();
    let (mut writer, said) = writer(journal);
    let (durable, sent) = fill(&mut writer, &said, 1);
    assert_eq!(durable + 1, sent);
    assert!(!state.join("ballast").exists());
    // On the room of the ballast it goes on, quietly, until that is used up too.
    let mut last = next_durable(&said);
    assert_eq!(last, sent);
    let mut next = sent;
    while next - sent < 20 {
        next += 1;
        writer.send(rows(next, next)).unwrap();
        last = next_durable(&said);
    }
    assert_eq!(last, next);
    for _ in 0..20_000 {
        next += 1;
        writer.send(rows(next, next)).unwrap();
    }
    fs::remove_file(&filler).unwrap();
    loop {
        match said.recv_timeout(WAIT).unwrap() {
            Committed::Durable { seq, .. } if seq == next => break,
            Committed::Durable { .. } | Committed::SpaceBack { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    writer.close().unwrap();
    let checked = verify(&state).unwrap();
    assert!(checked.fault.is_none(), "{:?}", checked.fault);
    assert_eq!(checked.whole, next);
}

#[test]
fn a_small_disk_has_room_again_once_somebody_made_some() {
    let dir = tempfile::tempdir().unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
        .arg(dir.path())
        .output();
    if !mount.is_ok_and(|output| output.status.success()) {
        println!("no right to mount a tmpfs: this was not tested");
        return;
    }
    let _mounted = Mounted(dir.path());
    let options = Options {
        ballast_bytes: 16 << 20,
        ..NO_BALLAST
    };
    let state = dir.path().join("state");
    let (journal, recovered) = Journal::open(&state, &options).unwrap();
    assert_eq!(recovered.notes, Vec::<String>::new());
    let made = fs::metadata(state.join("ballast")).unwrap().len();
    assert!(
        (8 << 20..=12 << 20).contains(&made),
        "half of what is free, not {made}"
    );
    let left = (24 << 20) - made as usize;
    let filler = dir.path().join("filler");
    // What is left is less than twice the ballast whoever makes room.
    fs::write(&filler, vec![1u8; left - (700 << 10)]).unwrap();
    let (mut writer, said) = writer(journal);
    let (_, sent) = fill(&mut writer, &said, 1);
    assert_eq!(next_durable(&said), sent);
    // The room of the ballast is none for others.
    writer.send(rows(sent + 1, sent + 1)).unwrap();
    assert_eq!(next_durable(&said), sent + 1);
    fs::remove_file(&filler).unwrap();
    writer.send(rows(sent + 2, sent + 2)).unwrap();
    // The writer may look at the room before it takes up the rows, or after.
    let (mut durable, mut back) = (false, false);
    while !(durable && back) {
        match said.recv_timeout(WAIT).unwrap() {
            Committed::Durable { seq, .. } if seq == sent + 2 => durable = true,
            Committed::SpaceBack { .. } => back = true,
            other => panic!("{other:?}"),
        }
    }
    assert!(state.join("ballast").exists());
    writer.close().unwrap();
}
