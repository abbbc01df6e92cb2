//! Changes of many jobs: so many records in a turn, and one answer at the end.

use std::collections::BTreeSet;

use eddy_wire::event::Kind;
use eddy_wire::message::Roles;
use serde_json::{Value, json};

use crate::instance::{Instance, ended};

/// What the changes are of.
const JOBS: u64 = 2500;
const IN_A_TURN: usize = 1000;

/// An instance in which so many jobs wait for a time that does not come.
fn crowded() -> Instance {
    crowd(&json!([{"scheme": "begin-time", "value": "4000000000"}]))
}

/// One in which they wait for this.
fn crowd(dependencies: &Value) -> Instance {
    let mut i = Instance::with(1);
    let answer = submitted(&mut i, dependencies, &format!("1-{JOBS}"));
    assert!(answer.contains("2500"), "{answer}");
    i
}

/// What is said of a submission of so many copies that wait for this.
fn submitted(i: &mut Instance, dependencies: &Value, cc: &str) -> String {
    i.sender = (1001, Roles::USER);
    let ms = (i.now.0 / 1000) as u128;
    let key = uuid::Uuid::from_u128(ms << 80 | 7 << 76 | 2 << 62 | 99);
    let jobspec = json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {
            "duration": 60,
            "dependencies": dependencies,
        }},
    });
    i.call(
        "job.submit",
        &json!({"key": key, "jobspec": jobspec, "cc": cc}),
    )
}

fn of_all(more: &Value) -> Value {
    let mut body = json!({"jobs": {"ranges": [[1, JOBS]]}});
    let fields = body.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    body
}

/// How many records of jobs there are.
fn of_jobs(i: &Instance) -> usize {
    let records = i.records.iter();
    records.filter(|record| record.event.job.is_some()).count()
}

/// Whether it is the event that is asked for.
type IsIt = fn(&Kind) -> bool;

/// Of how many jobs that was recorded.
fn of_how_many(i: &Instance, is_it: IsIt) -> usize {
    let records = i.records.iter().filter(|record| is_it(&record.event.kind));
    let jobs: BTreeSet<_> = records.filter_map(|record| record.event.job).collect();
    jobs.len()
}

#[test]
fn what_is_submitted_at_once_waits_for_so_much_that_others_are_answered_meanwhile() {
    let mut i = Instance::with(1);
    let mut submit = |many: u64| {
        let time =
            |at: u64| json!({"scheme": "begin-time", "value": (4_000_000_000 + at).to_string()});
        submitted(&mut i, &(0..many).map(time).collect(), "1-1000")
    };
    let refused = submit(101);
    assert!(
        refused.contains("101 given for each of 1000 jobs; the limit `dependencies` is 100000"),
        "{refused}"
    );
    let taken = submit(100);
    assert!(taken.contains("1000"), "{taken}");
}

#[test]
fn what_was_begun_of_many_jobs_the_next_leader_does_to_the_end() {
    let asked: [(&str, Value, IsIt); 4] = [
        ("job.urgency", json!({"urgency": 0}), |kind| {
            matches!(kind, Kind::Urgency(0, _))
        }),
        ("job.release", json!({}), |kind| {
            matches!(kind, Kind::Urgency(16, _))
        }),
        ("job.update", json!({"set": {"name": "other"}}), |kind| {
            matches!(kind, Kind::JobspecUpdate(_))
        }),
        (
            "job.raise",
            json!({"type": "cancel", "severity": 0}),
            |kind| matches!(kind, Kind::Exception(_)),
        ),
    ];
    let mut i = crowded();
    for (topic, body, is_it) in asked {
        assert_eq!(i.call(topic, &of_all(&body)), "", "{topic}");
        // It dies before the first part, then after one.
        i.restart();
        i.tick_after(0);
        assert_eq!(of_how_many(&i, is_it), IN_A_TURN, "{topic}");
        i.restart();
        let before = i.records.len();
        (0..4).for_each(|_| i.tick_after(0));
        assert_eq!(of_how_many(&i, is_it), JOBS as usize, "{topic}");
        let left = i.records[before..]
            .iter()
            .filter(|record| is_it(&record.event.kind));
        assert_eq!(
            left.count(),
            JOBS as usize - IN_A_TURN,
            "{topic}: nobody twice"
        );
    }
}

#[test]
fn what_is_asked_of_many_jobs_is_done_some_in_a_turn_and_answered_at_the_end() {
    let asked = [
        ("job.urgency", json!({"urgency": 0}), 1),
        ("job.update", json!({"set": {"name": "other"}}), 1),
        ("job.update", json!({"duration": 30_000_000}), 1),
        // Each is over with it.
        ("job.raise", json!({"type": "cancel", "severity": 0}), 2),
    ];
    for (topic, body, records) in asked {
        let mut i = crowded();
        let begin = of_jobs(&i);
        let mut before = begin;
        let mut answer = i.call(topic, &of_all(&body));
        for turn in 0.. {
            assert!(turn < 4, "{topic} ends");
            assert!(of_jobs(&i) - before <= IN_A_TURN * records, "{topic}");
            if !answer.is_empty() {
                break;
            }
            before = of_jobs(&i);
            i.tick_after(0);
            answer = i.answers.first().cloned().unwrap_or_default();
        }
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["count"], JOBS, "{topic}");
        assert_eq!(of_jobs(&i) - begin, JOBS as usize * records, "{topic}");
    }
}

#[test]
fn who_asks_for_something_else_meanwhile_is_answered_first() {
    let mut i = crowded();
    assert_eq!(i.call("job.urgency", &of_all(&json!({"urgency": 0}))), "");
    i.tick_after(0);
    // The last of them is over before its turn comes, and is none of them.
    let last = json!({"jobs": {"ranges": [[JOBS, JOBS]]}, "type": "cancel", "severity": 0});
    let answer = i.call("job.raise", &last);
    assert!(answer.contains("\"count\":1"), "{answer}");
    i.answers.clear();
    i.tick_after(0);
    assert!(i.answers.is_empty());
    i.tick_after(0);
    let answer: Value = serde_json::from_str(&i.answers[0]).expect("JSON");
    assert_eq!(answer["count"], JOBS - 1);
}

#[test]
fn who_is_to_be_cancelled_in_a_later_turn_begins_no_more() {
    let mut i = crowd(&json!([]));
    let begun = |i: &Instance| {
        let records = i.records.iter();
        let grants = records.filter(|record| matches!(record.event.kind, Kind::Alloc(_)));
        grants.count()
    };
    assert_eq!(begun(&i), 4);
    (1..=4).for_each(|job| i.started(job, 0));
    let cancel = of_all(&json!({"type": "cancel", "severity": 0}));
    assert_eq!(i.call("job.raise", &cancel), "");
    i.tick_after(0);
    (1..=4).for_each(|job| i.ended(job, 0, ended(15, None)));
    while i.answers.is_empty() {
        i.tick_after(0);
    }
    assert_eq!(
        begun(&i),
        4,
        "their cores are free, and those behind them wait"
    );
    // Whoever is none of them is given what they were not.
    let other = i.submit(0, 4, &json!({}));
    assert!(other.contains("2501"), "{other}");
    assert_eq!(begun(&i), 5);
}
