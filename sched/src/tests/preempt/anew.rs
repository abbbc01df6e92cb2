//! Who is taken from is who the facts say, in whatever order they were told, and those for whom somebody ends begin
//! once he has: drawn by the hundred.

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Request;
use eddy_wire::plan::Delta;

use super::{EASY, Stand, at, limited, nodes, slots};

/// Told the same facts a planner made anew names the same victims.
#[test]
fn a_planner_from_scratch_takes_from_the_same() {
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let cores: Vec<u32> = (0..rng.usize(1..5)).map(|_| rng.u32(1..5)).collect();
        let mut stand = Stand::new(EASY, &cores);
        let mut facts: Vec<(i64, String)> = Vec::new();
        let mut job = 0;
        let mut free: BTreeMap<usize, u32> = cores.iter().copied().enumerate().collect();
        for _ in 0..rng.usize(1..9) {
            let on = rng.usize(0..cores.len());
            let has = free[&on];
            if has == 0 {
                continue;
            }
            let takes = rng.u32(1..=has);
            let from = cores[on] - has;
            free.insert(on, has - takes);
            job += 1;
            let qos = ["low", "mid", "high"][rng.usize(0..3)];
            let text = format!("{job} {qos} {on}/{from}-{}", from + takes - 1);
            facts.push((rng.i64(0..200), text));
        }
        let wanted: Vec<(u64, &str, Request)> = (0..rng.u64(1..5))
            .map(|at| {
                let qos = ["low", "mid", "high"][rng.usize(0..3)];
                let request = match rng.bool() {
                    true => slots(rng.u32(1..4), rng.u32(1..3)),
                    false => nodes(rng.u32(1..3), 1, rng.u32(1..4)),
                };
                (100 + at, qos, limited(request, rng.i64(1..1000)))
            })
            .collect();
        // One is told all in another order, and plans in between.
        let mut other = Stand::new(EASY, &cores);
        for (since, text) in &facts {
            stand.holds(*since, text);
        }
        for (since, text) in facts.iter().rev() {
            other.holds(*since, text);
        }
        for (job, qos, request) in &wanted {
            stand.wants(*job, qos, request.clone());
            other.wants(*job, qos, request.clone());
        }
        let said = stand.says(200);
        assert_eq!(said, other.says(200), "seed {seed}");
        check(&stand, &said, &facts, seed);
    }
}

/// Whoever is named stands below, and each for whom somebody ends starts when they have.
fn check(stand: &Stand, said: &[String], facts: &[(i64, String)], seed: u64) {
    let mut planner = stand.planner.copy();
    let mut heirs = Vec::new();
    for words in said {
        let words: Vec<&str> = words.split(' ').collect();
        let ["end", victim, "for", by] = words[..] else {
            continue;
        };
        let holder = facts
            .iter()
            .find(|(_, text)| text.split(' ').next() == Some(victim));
        let (since, text) = holder.expect("who is named holds something");
        assert!(!text.contains("high"), "seed {seed}: {text}");
        assert!(
            !text.contains("mid") || since + 100 <= 200,
            "seed {seed}: {text}"
        );
        planner.apply(Delta::Freed(JobId(victim.parse().expect("a job"))));
        heirs.push(by.to_owned());
    }
    let outcome = planner.plan(at(201), 100);
    let started: Vec<String> = outcome
        .verdicts
        .iter()
        .map(|(job, _)| job.to_string())
        .collect();
    assert!(
        heirs.iter().all(|heir| started.contains(heir)),
        "seed {seed}: {said:?}"
    );
}
