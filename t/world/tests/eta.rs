//! What people are told of when their jobs start is true.

use eddy_sched::sim::{SimJob, Workload};
use eddy_wire::time::{Span, Time};
use eddy_world::random::Random;
use eddy_world::trial::eta::{Asking, Promises, Truth, play};

const CORES: u32 = 20;

/// Jobs of all lengths and widths, more than there is room for now and then; most end long before
/// their limits, as people's do.
fn workload(seed: u64, jobs: u64) -> Workload {
    let mut random = Random::new(seed);
    let mut submit = 0;
    let mut job = |id| {
        submit += random.between(0, 220);
        let limit = random.between(60, 900);
        let part = random.between(5, 110);
        let widest = *random.pick(&[2, 8, u64::from(CORES)]);
        SimJob {
            id,
            submit: Time(submit * 1_000_000),
            procs: 1 + random.below(widest),
            nodes: None,
            run: Span::seconds((limit * part / 100).max(1)),
            limit: Some(Span::seconds(limit)),
            owner: 0,
            terms: 0,
        }
    };
    Workload {
        procs: Some(u64::from(CORES)),
        jobs: (1..=jobs).map(&mut job).collect(),
        ..Workload::default()
    }
}

fn asking(preset: &str, promises: Promises) -> Asking {
    Asking {
        nodes: 1,
        cores: CORES,
        message: Span::ZERO,
        queues: Vec::new(),
        policy: format!("preset = \"{preset}\""),
        promises,
        one_in: 1,
        followed_in: 0,
    }
}

fn keeps_promises(truth: &Truth, least: usize) {
    assert!(truth.promised >= least, "{truth:?}");
    assert!(truth.late.is_empty(), "{truth:?}");
}

#[test]
fn who_is_first_starts_no_later_than_he_was_told() {
    for seed in 0..3 {
        let asking = asking("easy", Promises::First);
        keeps_promises(&play(&workload(seed, 300), &asking).unwrap(), 20);
    }
}

#[test]
fn where_promises_are_kept_nobody_starts_later_than_he_was_told_at_first() {
    for seed in 3..5 {
        let asking = asking("conservative", Promises::All);
        keeps_promises(&play(&workload(seed, 300), &asking).unwrap(), 100);
    }
}

#[test]
fn four_of_five_start_when_that_is_likely() {
    for preset in ["easy", "conservative"] {
        let asking = asking(preset, Promises::First);
        let truth = play(&workload(6, 2000), &asking).unwrap();
        assert!(truth.likely > 800, "{truth:?}");
        assert!((0.75..=0.85).contains(&truth.coverage()), "{truth:?}");
        assert!(truth.width < 1.0, "{truth:?}");
    }
}

#[test]
fn who_asks_less_as_advised_starts_at_once() {
    let mut followed = 0;
    for (seed, queues) in [(7, vec![]), (8, vec!["a", "b"]), (9, vec!["a", "b", "c"])] {
        let asking = Asking {
            queues,
            followed_in: 2,
            ..asking("easy", Promises::First)
        };
        let truth = play(&workload(seed, 400), &asking).unwrap();
        followed += truth.followed;
        assert!(truth.misled.is_empty(), "{truth:?}");
    }
    assert!(followed > 100, "{followed}");
}

/// Jobs of one and two cores that never stop coming, more than there is room for, and among them one
/// of nine tenths of the machine.
fn endless(seed: u64) -> Workload {
    let mut workload = workload(seed, 400);
    let mut random = Random::new(seed);
    for (at, job) in workload.jobs.iter_mut().enumerate() {
        job.submit = Time(at as i64 * 8_000_000);
        job.procs = 1 + random.below(2);
        let limit = random.between(60, 400);
        job.limit = Some(Span::seconds(limit));
        job.run = Span::seconds(random.between(30, limit));
    }
    workload.jobs[WIDE].procs = u64::from(CORES) * 9 / 10;
    workload
}

const WIDE: usize = 150;

#[test]
fn a_wide_job_over_three_instances_starts_when_one_queue_says() {
    // Some messages of a millisecond.
    let pass = Span::millis(20);
    for seed in 0..3 {
        let workload = endless(seed);
        let one = Asking {
            nodes: 10,
            cores: CORES / 10,
            ..asking("easy", Promises::First)
        };
        let flat = play(&workload, &one).unwrap();
        let says = flat.promises[&WIDE];
        assert!(flat.began[&WIDE] <= says);
        for message in [Span::ZERO, Span::millis(1)] {
            let three = Asking {
                queues: vec!["a", "b", "c"],
                message,
                ..one.clone()
            };
            let parted = play(&workload, &three).unwrap();
            let late = parted.began[&WIDE] - says;
            assert!(late <= pass, "seed {seed}, messages of {message}: {late}");
        }
    }
}
