//! Many jobs that wait for one, and a long chain: each dependency is looked at once.

use std::collections::BTreeMap;

use eddy_broker::{Answer, Arrival, Query};
use eddy_wire::id::JobId;

use crate::instance::{Instance, ended, part};
use serde_json::{Value, json};

const JOBS: u64 = 2_000;

fn after(scheme: &str, job: u64) -> Value {
    json!({"dependencies": [{"scheme": scheme, "value": job.to_string()}]})
}

/// A job that waits for the end of the century.
fn waiting(instance: &mut Instance) {
    let late = json!({"dependencies": [{"scheme": "begin-time", "value": "4000000000"}]});
    instance.submit(0, 1, &late);
}

fn cancel(instance: &mut Instance, job: u64) {
    let body = json!({"jobs": {"ranges": [[job, job]]}, "type": "cancel"});
    instance.call("job.raise", &body);
}

/// How many records there are of each kind, from this one on.
fn counts(instance: &Instance, from: usize) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for record in &instance.records[from..] {
        *counts.entry(record.event.kind.name()).or_default() += 1;
    }
    counts
}

#[test]
fn a_chain_ends_when_its_first_does_with_three_records_each() {
    let many = JOBS;
    let mut i = Instance::with(1);
    waiting(&mut i);
    for job in 2..=many {
        i.submit(0, 1, &after("afterok", job - 1));
    }
    let from = i.records.len();
    cancel(&mut i, 1);
    let counts = counts(&i, from);
    assert_eq!(counts["exception"], many);
    assert_eq!(counts["clean"], many);
    assert_eq!(counts.len(), 2, "{counts:?}");
    let last = i.exceptions(many);
    assert_eq!(last[0].0, "dependency");
}

#[test]
fn those_who_wait_for_one_are_let_go_at_its_end_over_a_restart_too() {
    let many = JOBS;
    let mut i = Instance::with(1);
    waiting(&mut i);
    for _ in 2..=many {
        i.submit(0, 1, &after("afterany", 1));
    }
    i.restart();
    i.reach("0");
    i.hello(1, &[]);
    let from = i.records.len();
    cancel(&mut i, 1);
    let counts = counts(&i, from);
    for name in ["dependency-remove", "depend", "priority"] {
        assert_eq!(counts[name], many - 1, "{name}");
    }
    assert_eq!(
        counts["alloc"],
        4.min(many - 1),
        "as many as there are cores"
    );
}

#[test]
fn jobs_of_one_name_go_one_by_one() {
    let many = JOBS;
    let mut i = Instance::with(1);
    let single = json!({"dependencies": [
        {"scheme": "singleton", "value": ""},
        {"scheme": "begin-time", "value": "4000000000"},
    ]});
    waiting(&mut i);
    for _ in 2..=many {
        i.submit(0, 1, &single);
    }
    let from = i.records.len();
    for job in 1..=many {
        cancel(&mut i, job);
    }
    let counts = counts(&i, from);
    assert_eq!(counts["dependency-remove"], many - 1);
}

#[test]
fn a_job_starts_once_the_other_has_ended_well_and_its_time_has_come() {
    let mut i = Instance::with(1);
    i.submit(0, 1, &json!({}));
    let soon = (i.now.0 / 1_000_000 + 5).to_string();
    let both = json!({"dependencies": [
        {"scheme": "afterok", "value": "1"},
        {"scheme": "begin-time", "value": soon},
    ]});
    i.submit(0, 1, &both);
    assert_eq!(i.starts().len(), 1);
    i.started(1, 0);
    i.ended(1, 0, ended(0, None));
    assert_eq!(i.life(2, "dependency-remove"), ["dependency-remove"]);
    i.tick_after(4);
    assert_eq!(i.starts().len(), 0);
    i.tick_after(2);
    let gone = ["dependency-remove", "depend", "priority", "alloc"];
    assert_eq!(i.life(2, "dependency-remove")[1..], gone);
    assert_eq!(i.starts()[0].part, part(2, 0));
    assert_eq!(i.signals(), []);
}

#[test]
fn who_waits_for_its_name_is_let_go_when_that_is_anothers_no_more() {
    let mut i = Instance::with(1);
    let named = |name: &str, single: &Value| json!({"job": {"name": name}, "dependencies": single});
    let late = json!([{"scheme": "begin-time", "value": "4000000000"}]);
    let single = json!([{"scheme": "singleton", "value": ""}]);
    i.submit(0, 1, &named("a", &late));
    i.submit(0, 1, &named("a", &single));
    i.submit(0, 1, &named("b", &single));
    i.started(3, 0);
    i.submit(0, 1, &named("c", &late));
    i.submit(0, 1, &named("a", &single));
    let rename = |i: &mut Instance, job: u64, name: &str| {
        let body = json!({"jobs": {"ranges": [[job, job]]}, "set": {"name": name}});
        let reply = i.call("job.update", &body);
        assert!(reply.contains("\"count\":1"), "{reply}");
    };
    let is_let_go = |i: &Instance, job: u64| i.life(job, "submit").contains(&"depend");
    assert!(!is_let_go(&i, 2));
    rename(&mut i, 1, "b");
    assert!(is_let_go(&i, 2), "it is the first `a`");
    // The fifth waits for the second, and the fourth for nobody.
    assert!(!is_let_go(&i, 5));
    rename(&mut i, 5, "c");
    assert!(!is_let_go(&i, 5), "the fourth is `c`");
    rename(&mut i, 5, "d");
    assert!(is_let_go(&i, 5), "it is the first `d`");
    // What was renamed and ends holds up nobody who comes later.
    cancel(&mut i, 1);
    i.started(2, 0);
    i.ended(2, 0, ended(0, None));
    i.submit(0, 1, &named("a", &single));
    assert!(is_let_go(&i, 6));
}

#[test]
fn nobody_waits_for_a_job_that_the_journal_has_forgotten_whose_end_is_remembered() {
    let mut i = Instance::with(1);
    waiting(&mut i);
    cancel(&mut i, 1);
    i.clear();
    let answer = i.submit(0, 1, &after("afterany", 1));
    assert_eq!(answer, "", "the journal is asked");
    let (tag, _) = i.queries[0].clone();
    i.act(Arrival::Answer(tag, Answer::Finished(None)));
    let refused = i.answers.concat();
    assert!(
        refused.contains("attributes.system.dependencies"),
        "{refused}"
    );
    assert!(
        refused.contains("or it is over and kept no longer"),
        "{refused}"
    );
}

/// All of it is durable: whose jobs these were is kept by the journal, and not here until the next leader.
#[test]
fn what_was_over_before_a_restart_is_asked_of_the_journal() {
    let mut i = Instance::with(1);
    waiting(&mut i);
    cancel(&mut i, 1);
    i.restart();
    i.clear();
    i.submit(0, 1, &after("afterany", 1));
    // Its key may be older than the leader.
    let (tag, _) = i.queries.remove(0);
    i.act(Arrival::Answer(tag, Answer::Key(None)));
    assert!(i.answers.is_empty(), "the journal is asked");
    let asked = &i.queries[..];
    assert!(
        matches!(asked, [(_, Query::Finished(JobId(1)))]),
        "{asked:?}"
    );
}
