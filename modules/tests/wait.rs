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
