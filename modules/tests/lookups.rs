//! Submissions whose keys the journal is asked about, since another leader may have known them.

use std::sync::Arc;

use eddy_broker::effect::Query;
use eddy_broker::{Answer, Arrival};
use eddy_wire::event::{Event, Kind, Record};
use eddy_wire::id::{Epoch, JobId};
use serde_json::json;

use crate::instance::Instance;

/// An instance whose leader is not its first.
fn another_leader() -> Instance {
    let mut i = Instance::with(1);
    let start = Record {
        seq: i.broker.last().next(),
        event: Event {
            t: i.now,
            job: None,
            kind: Kind::LeaderStart(Epoch(2)),
        },
    };
    i.records.push(Arc::new(start));
    i.restart();
    i
}

/// The jobs, with the set that each names.
fn sets(i: &Instance) -> Vec<(JobId, String)> {
    let sets = i.records.iter().filter_map(|record| {
        let Kind::Submit(submit) = &record.event.kind else {
            return None;
        };
        Some((record.event.job?, submit.spec.set.clone()?.to_string()))
    });
    sets.collect()
}

/// The journal has several readers. Whose key is new beyond doubt meanwhile waits as well.
#[test]
fn submissions_are_taken_in_their_order_whoever_is_answered_first() {
    let mut i = another_leader();
    i.submit(0, 1, &json!({"job_set": "first"}));
    i.submit(0, 1, &json!({"job_set": "second"}));
    let queries = std::mem::take(&mut i.queries);
    assert!(matches!(
        queries[..],
        [(_, Query::Key(..)), (_, Query::Key(..))]
    ));
    i.tick_after(100_000);
    i.submit(0, 1, &json!({"job_set": "third"}));
    assert!(i.queries.is_empty(), "its key is new");
    for (tag, _) in queries.into_iter().rev() {
        i.act(Arrival::Answer(tag, Answer::Key(None)));
    }
    // Each in a turn of its own.
    (0..2).for_each(|_| i.tick_after(0));
    let named = |job, set: &str| (JobId(job), set.to_owned());
    assert_eq!(
        sets(&i),
        [named(1, "first"), named(2, "second"), named(3, "third")]
    );
}

/// Both were looked up before either was recorded.
#[test]
fn of_two_under_one_key_the_first_counts() {
    let mut i = another_leader();
    let key = i.key();
    for set in ["first", "second"] {
        i.submit_as(key, (0, 1), &json!({"job_set": set}));
    }
    i.answers.clear();
    let queries = std::mem::take(&mut i.queries);
    for (tag, _) in queries.into_iter().rev() {
        i.act(Arrival::Answer(tag, Answer::Key(None)));
    }
    i.tick_after(0);
    assert_eq!(sets(&i), [(JobId(1), "first".to_owned())]);
    assert!(
        i.answers.iter().any(|told| told.contains("was used")),
        "{:?}",
        i.answers
    );
}
