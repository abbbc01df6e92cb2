//! Who waits for ends hears of each, at once or with others, and of none twice.

use crate::instance::{Instance, ended};
use serde_json::{Value, json};

const THREE: [[u64; 2]; 1] = [[1, 3]];

/// Three jobs that run, one on each rank.
fn running() -> Instance {
    let mut instance = Instance::with(3);
    for job in 1..=3u32 {
        instance.submit(0, 4, &json!({}));
        instance.started(u64::from(job), job - 1);
    }
    instance
}

/// The numbers in each answer since the last look, the final one being empty.
fn told(instance: &mut Instance) -> Vec<Vec<u64>> {
    let answers = std::mem::take(&mut instance.answers);
    let numbers = |body: &String| {
        let ends: Vec<Value> = serde_json::from_str(body).expect("a list of ends");
        ends.iter().filter_map(|end| end["id"].as_u64()).collect()
    };
    answers.iter().map(numbers).collect()
}

#[test]
fn each_end_is_told_at_once_to_who_says_nothing_else() {
    let mut i = running();
    i.call("job.wait", &json!({"ranges": THREE}));
    assert_eq!(told(&mut i), [[0; 0]; 0]);
    i.ended(2, 1, ended(0, None));
    assert_eq!(told(&mut i), [[2]]);
    i.ended(1, 0, ended(0, None));
    assert_eq!(told(&mut i), [[1]]);
    i.ended(3, 2, ended(0, None));
    assert_eq!(told(&mut i), [vec![3], vec![]]);
}

#[test]
fn who_would_have_ends_kept_for_longer_than_may_be_is_refused() {
    let mut i = running();
    for gather in [json!(5), json!(-1)] {
        let said = i.call("job.wait", &json!({"ranges": THREE, "gather": gather}));
        let why = format!("gather: {gather}.000000 s given, allowed are 0 to 1.000000 s");
        assert!(said.contains(&why), "{said}");
    }
}

#[test]
fn ends_that_may_be_gathered_are_told_when_it_is_time_or_with_the_last() {
    let mut i = running();
    i.call("job.wait", &json!({"ranges": THREE, "gather": 0.1}));
    i.ended(2, 1, ended(0, None));
    assert_eq!(told(&mut i), [[0; 0]; 0]);
    i.tick_after(1);
    assert_eq!(told(&mut i), [[2]]);
    i.tick_after(1);
    assert_eq!(told(&mut i), [[0; 0]; 0], "once is enough");
    i.ended(1, 0, ended(0, None));
    assert_eq!(told(&mut i), [[0; 0]; 0]);
    i.ended(3, 2, ended(0, None));
    assert_eq!(told(&mut i), [vec![1, 3], vec![]]);
    i.tick_after(1);
    assert_eq!(told(&mut i), [[0; 0]; 0]);
}

#[test]
fn who_names_a_job_twice_hears_of_that_one_alone() {
    let mut i = running();
    i.call("job.wait", &json!({"ranges": [[2, 2], [1, 2], [2, 2]]}));
    assert_eq!(i.queries.len(), 0, "both are here: {:?}", i.queries);
    for (job, rank) in [(3, 2), (2, 1), (1, 0)] {
        i.ended(job, rank, ended(0, None));
    }
    assert_eq!(told(&mut i), [vec![2], vec![1], vec![]]);
}

#[test]
fn a_listing_of_all_numbers_there_may_be_is_one_of_what_there_is() {
    let mut i = running();
    let all = json!([[0, u64::MAX], [0, u64::MAX], [1, 3]]);
    let rows = i.call("job.list", &json!({"jobs": {"ranges": all}}));
    let rows: Vec<Value> = serde_json::from_str(&rows).expect("rows");
    assert_eq!(rows.len(), 3);
    let reversed = i.call("job.list", &json!({"jobs": {"ranges": [[3, 1]]}}));
    assert!(
        reversed.contains("a range ends after it begins"),
        "{reversed}"
    );
}

#[test]
fn the_jobs_that_all_calls_of_a_user_wait_for_have_a_limit() {
    let mut i = Instance::with(1);
    let late = json!({"dependencies": [{"scheme": "begin-time", "value": "4000000000"}]});
    let jobs = 2_000;
    (0..jobs).for_each(|_| drop(i.submit(0, 1, &late)));
    let all = json!({"ranges": [[1, jobs]]});
    for _ in 0..4_000_000 / jobs {
        assert_eq!(i.call("job.wait", &all), "");
    }
    let refused = i.call("job.wait", &all);
    assert!(
        refused.contains("limit `waited jobs` is 4000000"),
        "{refused}"
    );
    let roles = i.sender.1;
    let first = std::mem::replace(&mut i.sender, (8, roles));
    assert_eq!(i.call("job.wait", &all), "", "another user has as much");
    i.sender = first;
    i.call(
        "job.raise",
        &json!({"jobs": {"ranges": [[1, 1]]}, "type": "cancel"}),
    );
    let others = json!({"ranges": [[2, jobs]]});
    assert_eq!(
        i.call("job.wait", &others),
        "",
        "each call waits for one less"
    );
}
