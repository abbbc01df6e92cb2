//! Forgetting finished jobs: what goes, what stays, and that nothing missing goes unaccounted for.

use std::sync::Arc;

use crate::journal_fixture::*;
use eddy_brokerd::journal::{Batch, Blob, GENERATION, Journal, Mark, Purge, verify};

fn holes(journal: &std::path::Path) -> Vec<(i64, i64)> {
    let conn = rusqlite::Connection::open(database(journal)).unwrap();
    let mut select = conn
        .prepare("SELECT first, last FROM hole ORDER BY first")
        .unwrap();
    select
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn purge(journal: &mut Journal, limits: Purge) -> u64 {
    journal
        .commit(Batch {
            purge: Some(limits),
            ..Batch::default()
        })
        .unwrap()
        .purged
}

/// One record of the instance's own, which carries a mark: nothing before it is live.
fn marked(seq: u64) -> Batch {
    Batch {
        rows: vec![row(seq, 0, "usage")],
        mark: Some(Mark {
            seq,
            last_job: 0,
            live: Vec::new(),
        }),
        ..Batch::default()
    }
}

#[test]
fn jobs_that_ended_after_the_last_mark_stay_until_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    journal.commit(whole_job(1, 1)).unwrap();
    let all = Purge {
        ended_before: i64::MIN,
        keep_most: 0,
        jobs_max: 9,
    };
    let looked = |batch: Batch| Batch {
        purge: Some(all),
        ..batch
    };
    let mut done = |batch: Batch| {
        let done = journal.commit(looked(batch)).unwrap();
        (done.purged, done.unmarked)
    };
    assert_eq!(done(Batch::default()), (0, 1));
    assert_eq!(done(whole_job(2, 9)), (0, 2));
    // What waited for it goes with it.
    assert_eq!(done(marked(17)), (2, 0));
    assert_eq!(done(whole_job(3, 18)), (0, 1));
    assert_eq!(holes(dir.path()), [(1, 16)]);
    assert!(verify(dir.path()).unwrap().fault.is_none());
}

#[test]
fn purged_jobs_leave_holes_and_a_chain_that_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    // Records 1, 10, 19, ... are the instance's own; a job's eight stand between them.
    for id in 1..=10u64 {
        let first = id * 9 - 8;
        journal
            .commit(Batch {
                rows: vec![row(first, 0, "drain")],
                ..Batch::default()
            })
            .unwrap();
        journal.commit(whole_job(id, first + 1)).unwrap();
    }
    let own: Vec<u64> = (0..10).map(|n| n * 9 + 1).collect();
    let mut last = marked(91);
    if let Some(mark) = &mut last.mark {
        mark.live.clone_from(&own);
    }
    journal.commit(last).unwrap();
    let all = Purge {
        ended_before: i64::MIN,
        keep_most: u64::MAX,
        jobs_max: 100,
    };
    assert_eq!(purge(&mut journal, all), 0);
    assert_eq!(
        purge(
            &mut journal,
            Purge {
                keep_most: 3,
                jobs_max: 2,
                ..all
            }
        ),
        2
    );
    assert_eq!(holes(dir.path()), [(2, 9), (11, 18)]);
    let ended_before = finished(5, vec![]).t_inactive;
    assert_eq!(
        purge(
            &mut journal,
            Purge {
                ended_before,
                ..all
            }
        ),
        2
    );
    assert_eq!(
        purge(
            &mut journal,
            Purge {
                keep_most: 0,
                ..all
            }
        ),
        6
    );
    assert_eq!(holes(dir.path()).len(), 10);
    let checked = verify(dir.path()).unwrap();
    assert_eq!((checked.whole, checked.records), (91, 11));
    assert!(checked.fault.is_none(), "{:?}", checked.fault);
    drop(journal);
    let (mut journal, recovered) = open(dir.path()).unwrap();
    assert_eq!((recovered.last_seq, recovered.last_job), (91, 10));
    assert_eq!((recovered.purged.jobs, recovered.purged.last_job), (10, 10));
    assert_eq!(recovered.purged.t_submit, finished(10, vec![]).t_submit);
    assert_eq!(replayed(&journal), own);
    assert_eq!(journal.commit(rows(92, 92)).unwrap().seq, 92);
}

#[test]
fn neighbouring_holes_become_one_in_any_order() {
    for order in [
        [1, 2, 3],
        [1, 3, 2],
        [2, 1, 3],
        [2, 3, 1],
        [3, 1, 2],
        [3, 2, 1],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path()).unwrap();
        for id in 1..=3u64 {
            let mut batch = whole_job(id, id * 8 - 7);
            let job = Arc::make_mut(&mut batch.finished[0]);
            job.t_inactive = order[id as usize - 1];
            journal.commit(batch).unwrap();
        }
        journal.commit(marked(25)).unwrap();
        for keep_most in [2, 1, 0] {
            let limits = Purge {
                ended_before: i64::MIN,
                keep_most,
                jobs_max: 9,
            };
            assert_eq!(purge(&mut journal, limits), 1);
            let checked = verify(dir.path()).unwrap();
            assert!(
                checked.fault.is_none(),
                "{order:?} {keep_most}: {:?}",
                checked.fault
            );
        }
        assert_eq!(holes(dir.path()), [(1, 24)]);
        drop(journal);
        let (journal, recovered) = open(dir.path()).unwrap();
        assert_eq!((recovered.last_seq, recovered.last_job), (25, 3));
        assert_eq!(replayed(&journal), Vec::<u64>::new());
    }
}

#[test]
fn a_mark_may_rest_on_records_that_were_purged_since() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    journal.commit(whole_job(1, 1)).unwrap();
    journal.commit(whole_job(2, 9)).unwrap();
    // As an earlier release left it, which purged what had ended after the mark.
    let mut last = marked(17);
    if let Some(mark) = &mut last.mark {
        mark.live = (1..=5).chain(9..=16).collect();
    }
    journal.commit(last).unwrap();
    let limits = Purge {
        ended_before: i64::MIN,
        keep_most: 1,
        jobs_max: 9,
    };
    assert_eq!(purge(&mut journal, limits), 1);
    drop(journal);
    let (journal, recovered) = open(dir.path()).unwrap();
    assert_eq!(recovered.notes, Vec::<String>::new());
    assert_eq!(recovered.last_seq, 17);
    assert_eq!(replayed(&journal), (9..=16).collect::<Vec<_>>());
}

#[test]
fn a_wrong_derived_row_cannot_purge_the_records_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    let mut batch = whole_job(1, 1);
    batch.rows[3].job = 2;
    journal.commit(batch).unwrap();
    journal.commit(marked(9)).unwrap();
    let limits = Purge {
        ended_before: i64::MIN,
        keep_most: 0,
        jobs_max: 9,
    };
    assert_eq!(purge(&mut journal, limits), 1);
    assert_eq!(holes(dir.path()), [(1, 3), (5, 8)]);
    assert!(verify(dir.path()).unwrap().fault.is_none());
}

#[test]
fn blobs_go_when_the_last_job_of_their_generation_is_purged() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(dir.path(), &NO_SYNC).unwrap();
    let generations = 3;
    for id in 1..=generations * GENERATION / 8 {
        let first = id * 8 - 7;
        let text = format!("jobspec {}", id % 2);
        let blobs = vec![Blob::new(first, text.as_bytes().into())];
        journal
            .commit(Batch {
                blobs,
                ..whole_job(id, first)
            })
            .unwrap();
    }
    journal
        .commit(marked(generations * GENERATION + 1))
        .unwrap();
    let blobs = || -> i64 {
        let conn = rusqlite::Connection::open(database(dir.path())).unwrap();
        conn.query_row("SELECT count(*) FROM blob", [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(blobs(), 6);
    let mut keep = |keep_most| {
        let limits = Purge {
            ended_before: i64::MIN,
            keep_most,
            jobs_max: 10_000,
        };
        purge(&mut journal, limits);
    };
    keep(2 * GENERATION / 8 + 1);
    assert_eq!(blobs(), 6);
    keep(2 * GENERATION / 8 - 1);
    assert_eq!(blobs(), 4);
    keep(1);
    assert_eq!(blobs(), 2);
    drop(journal);
    assert!(verify(dir.path()).unwrap().bad_blobs.is_empty());
}

/// The summaries that are there.
fn summaries(dir: &std::path::Path) -> Vec<i64> {
    let conn = rusqlite::Connection::open(database(dir)).unwrap();
    let mut select = conn
        .prepare("SELECT seq FROM event WHERE name LIKE 'usage%' ORDER BY seq")
        .unwrap();
    let seqs = select.query_map([], |row| row.get(0)).unwrap();
    seqs.map(Result::unwrap).collect()
}

/// A record of a job, one of a day and the summary, which carries a mark that rests on these.
fn summed_up(first: u64, summaries: &[u64]) -> Batch {
    let mark = Mark {
        seq: first + 2,
        last_job: first,
        live: summaries.to_vec(),
    };
    Batch {
        rows: vec![
            row(first, first, "submit"),
            row(first + 1, 0, "usage-day"),
            row(first + 2, 0, "usage"),
        ],
        mark: Some(mark),
        summaries: summaries.to_vec(),
        ..Batch::default()
    }
}

/// All of them stayed for ever, and each is as long as what a year of all users comes to.
#[test]
fn of_summaries_those_stay_that_the_last_two_marks_rest_on() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    let mut mark = |first, summaries: &[u64]| journal.commit(summed_up(first, summaries)).unwrap();
    mark(1, &[2, 3]);
    mark(4, &[2, 5, 6]);
    assert_eq!(summaries(dir.path()), [2, 3, 5, 6]);
    // The day of record 2 is told anew.
    mark(7, &[5, 8, 9]);
    assert_eq!(summaries(dir.path()), [2, 5, 6, 8, 9]);
    mark(10, &[5, 8, 11, 12]);
    assert_eq!(summaries(dir.path()), [5, 8, 9, 11, 12]);
    assert_eq!(holes(dir.path()), [(2, 3), (6, 6)]);
    drop(journal);
    assert!(verify(dir.path()).unwrap().fault.is_none());
    let (journal, _) = open(dir.path()).unwrap();
    assert_eq!(replayed(&journal), [5, 8, 11, 12]);
}

/// What stands in a journal that an earlier version wrote.
#[test]
fn summaries_that_an_earlier_version_kept_go_with_the_second_mark() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    for n in 0..30 {
        let kept = Batch {
            summaries: Vec::new(),
            ..summed_up(3 * n + 1, &[3 * n + 3])
        };
        journal.commit(kept).unwrap();
    }
    journal.commit(summed_up(91, &[93])).unwrap();
    assert_eq!(summaries(dir.path()).len(), 62);
    journal.commit(summed_up(94, &[95, 96])).unwrap();
    assert_eq!(summaries(dir.path()), [93, 95, 96]);
    drop(journal);
    assert!(verify(dir.path()).unwrap().fault.is_none());
}

/// The mark is lost with what was written last: the summary before it has all that belongs to it.
#[test]
fn a_journal_that_is_cut_before_its_last_summary_has_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path()).unwrap();
    for (first, summaries) in [(1, vec![2, 3]), (4, vec![2, 5, 6]), (7, vec![5, 8, 9])] {
        journal.commit(summed_up(first, &summaries)).unwrap();
    }
    drop(journal);
    let conn = rusqlite::Connection::open(database(dir.path())).unwrap();
    conn.execute("UPDATE event SET context = '{}' WHERE seq = 8", [])
        .unwrap();
    drop(conn);
    let (mut journal, _) = Journal::open(dir.path(), &CUT).unwrap();
    assert_eq!(replayed(&journal), [1, 2, 4, 5, 6, 7]);
    // What was noted of summaries that are no more takes no other away.
    journal
        .commit(Batch {
            rows: vec![row(8, 8, "submit")],
            ..Batch::default()
        })
        .unwrap();
    journal.commit(summed_up(9, &[2, 5, 11])).unwrap();
    assert_eq!(summaries(dir.path()), [2, 5, 6, 10, 11]);
}
