//! Limits and queues where jobs are in one line: rates hold back whoever is next,
//! and queues come before all values.

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Request;
use eddy_wire::plan::{Delta, Owner, Question, Reason, Verdict, Want};
use eddy_wire::time::MICROS;

use super::model::{inventory, slots};
use crate::Planner;

const NOW: Time = Time(1_000 * MICROS);

fn planner(policy: &str, cores: u32) -> Planner {
    let mut planner = Planner::new();
    planner.apply(Delta::Policy(policy.into()));
    planner.apply(Delta::Inventory(inventory(&[(cores, 0, 0)])));
    planner.apply(Delta::Up(Idset::one(0)));
    planner
}

fn want(planner: &mut Planner, job: u64, user: u32, queue: &str, cores: u32) {
    let request = Request {
        duration: Some(100 * MICROS),
        ..slots(1, cores)
    };
    let owner = Owner {
        user,
        queue: Some(queue.into()),
        ..Owner::default()
    };
    let want = Want {
        owner,
        ..Want::of(16, request)
    };
    planner.apply(Delta::Want(JobId(job), want));
}

/// What starts, and when to ask again.
fn starts(planner: &mut Planner, now: Time) -> (Vec<u64>, Option<Time>) {
    let mut started = Vec::new();
    loop {
        let outcome = planner.plan(now, 3);
        for (job, verdict) in outcome.verdicts {
            assert!(matches!(verdict, Verdict::Start(_)), "{job}");
            started.push(job.0);
        }
        if !outcome.unfinished {
            return (started, outcome.again);
        }
    }
}

#[test]
fn a_rate_holds_back_first_come_first_served() {
    let policy = "[queue.limits]\nrate = { per_second = 4, burst = 2 }";
    let mut planner = planner(policy, 8);
    (1..=5).for_each(|job| want(&mut planner, job, 1, "", 1));
    let (first, again) = starts(&mut planner, NOW);
    assert_eq!(first, [1, 2]);
    let again = again.expect("a time");
    assert!((again - NOW).0 <= MICROS / 4 + 2, "{again}");
    assert_eq!(starts(&mut planner, NOW), (vec![], Some(again)));
    assert_eq!(starts(&mut planner, again).0, [3]);
    assert_eq!(starts(&mut planner, Time(NOW.0 + 60 * MICROS)).0, [4, 5]);
}

#[test]
fn the_rate_of_an_account_lets_others_pass_where_jobs_may() {
    let rate = "[queue.limits]\naccount_rate = { per_second = 1, burst = 1 }";
    for (preset, expected) in [("fcfs", vec![1]), ("easy", vec![1, 3])] {
        let mut planner = planner(&format!("preset = \"{preset}\"\n{rate}"), 8);
        want(&mut planner, 1, 1, "", 1);
        want(&mut planner, 2, 1, "", 1);
        want(&mut planner, 3, 2, "", 1);
        assert_eq!(starts(&mut planner, NOW).0, expected, "{preset}");
        planner.apply(Delta::Explain(Question {
            tag: 1,
            jobs: Some(vec![(JobId(2), JobId(2))]),
            most: 1,
            suppose: eddy_wire::plan::Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        }));
        let told = planner.plan(NOW, 10).answers.remove(0).jobs.remove(0);
        assert!(
            matches!(&told.reason, Reason::Limit { limit, .. } if limit == "queue.limits.account_rate"),
            "{preset}: {}",
            told.reason
        );
    }
}

#[test]
fn a_promise_that_is_due_waits_for_the_rate() {
    let policy = "preset = \"easy\"\n[queue.limits]\nrate = { per_second = 0.01, burst = 2 }";
    let mut planner = planner(policy, 4);
    want(&mut planner, 1, 1, "", 4);
    assert_eq!(starts(&mut planner, NOW).0, [1]);
    want(&mut planner, 2, 1, "", 4);
    assert_eq!(starts(&mut planner, NOW).0, Vec::<u64>::new());
    want(&mut planner, 3, 1, "", 4);
    let due = Time(NOW.0 + 110 * MICROS);
    for job in [1, 2] {
        planner.apply(Delta::Freed(JobId(job)));
        planner.apply(Delta::Unwant(JobId(job)));
        if job == 1 {
            assert_eq!(starts(&mut planner, Time(NOW.0 + 50 * MICROS)).0, [2]);
        }
    }
    let (none, again) = starts(&mut planner, Time(NOW.0 + 51 * MICROS));
    assert_eq!(none, Vec::<u64>::new());
    let again = again.expect("a time");
    assert!(again < due, "{again}");
    assert_eq!(starts(&mut planner, again).0, [3]);
}

#[test]
fn the_queue_of_the_highest_priority_is_first_whatever_the_values() {
    let policy = "preset = \"fcfs\"\nqueue.source = \"by_queue\"\npriority.factors.queues = { debug = 2, long = 1 }";
    let mut planner = planner(policy, 1);
    for (job, queue) in [(1, "other"), (2, "long"), (3, "debug"), (4, "debug")] {
        want(&mut planner, job, 1, queue, 1);
    }
    for expected in [3, 4, 2, 1] {
        assert_eq!(starts(&mut planner, NOW).0, [expected]);
        planner.apply(Delta::Freed(JobId(expected)));
        planner.apply(Delta::Unwant(JobId(expected)));
    }
}
