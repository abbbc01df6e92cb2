//! Whoever waits longer than `queue.reserve_after` begins, in whole instances and whatever else comes.

use eddy_world::trial::crowd::{Crowd, Ends, Patience, wait};

/// Crowds of each kind.
const SEEDS: u64 = 4;

/// Nobody else is promised anything that lasts.
const LOOSE: [&str; 6] = [
    "preset = \"armada\"",
    "preset = \"armada-legacy\"",
    "preset = \"fcfs\"\nqueue.walk = \"skip\"",
    "preset = \"easy\"",
    "preset = \"easy-sjbf\"",
    "preset = \"slurm-fair-tree\"\nqueue.window = \"5s\"",
];

/// Those ahead keep what they were promised.
const KEPT: [&str; 3] = [
    "preset = \"hybrid-8\"",
    "preset = \"conservative\"",
    "preset = \"flux\"\npriority.refresh = \"1s\"",
];

fn all(policies: &[&str], ends: Ends) {
    for policy in policies {
        for queue in [None, Some("q")] {
            let crowd = Crowd {
                policy: (*policy).to_owned(),
                queue,
                ends,
            };
            for seed in 0..SEEDS {
                let waited = wait(seed, &crowd, Patience::Ends);
                assert!(waited.is_ok(), "{queue:?} {}", waited.unwrap_err());
            }
        }
    }
}

#[test]
fn a_wide_job_begins_though_narrow_ones_never_stop_coming() {
    all(&LOOSE, Ends::Known);
    all(&KEPT, Ends::Known);
}

#[test]
fn a_wide_job_begins_though_nobody_says_when_he_ends() {
    all(&LOOSE[..5], Ends::Unknown);
}

/// Else the others would show nothing.
#[test]
fn it_never_begins_where_nobody_may_wait_too_long() {
    for policy in &LOOSE[..3] {
        let crowd = Crowd {
            policy: (*policy).to_owned(),
            queue: None,
            ends: Ends::Known,
        };
        let waits = |seed| wait(seed, &crowd, Patience::Lasts).is_err();
        assert!((0..SEEDS).any(waits), "{policy}");
    }
}
