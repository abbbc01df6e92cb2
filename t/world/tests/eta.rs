//! What people are told of when their jobs start is true.

use eddy_sched::sim::{SimJob, Workload};
use eddy_wire::plan::Mover;
use eddy_wire::time::{Span, Time};
use eddy_world::random::Random;
use eddy_world::trial::eta::{Asking, Asks, Promises, Truth, play};
use eddy_world::trial::stir::{self, Late, Stir, Stirred};

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
        asks: Asks::Cores,
        followed_in: 0,
        running: None,
        lends: None,
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

/// How many followed what they were advised, none of them in vain.
fn followed(seed: u64, queues: &[&'static str], asks: Asks) -> usize {
    followed_at(seed, queues, asks, None)
}

/// The same where so many jobs of each queue run at a time at most.
fn followed_at(seed: u64, queues: &[&'static str], asks: Asks, running: Option<u32>) -> usize {
    let (nodes, cores) = match asks {
        Asks::Cores => (1, CORES),
        Asks::Nodes | Asks::Scattered => (CORES / 2, 2),
    };
    let asking = Asking {
        nodes,
        cores,
        asks,
        running,
        queues: queues.to_vec(),
        followed_in: 1,
        ..asking("easy", Promises::First)
    };
    let truth = play(&workload(seed, 1000), &asking).unwrap();
    assert!(truth.misled.is_empty(), "{asks:?}: {truth:?}");
    truth.followed
}

#[test]
fn who_asks_for_less_as_advised_starts_at_once() {
    let queues = [&[][..], &["a", "b"], &["a", "b", "c"]];
    let each = (7..).zip(queues);
    let sum: usize = each
        .map(|(seed, queues)| followed(seed, queues, Asks::Cores))
        .sum();
    assert!(sum >= 500, "{sum}");
}

#[test]
fn who_asks_for_fewer_nodes_as_advised_starts_at_once() {
    let queues = [&[][..], &["a", "b"], &["a", "b", "c"]];
    let each = (10..).zip(queues);
    let sum: usize = each
        .map(|(seed, queues)| followed(seed, queues, Asks::Nodes))
        .sum();
    assert!(sum >= 400, "{sum}");
}

#[test]
fn who_scatters_over_fewer_nodes_as_advised_starts_at_once() {
    let queues = [&[][..], &["a", "b"]];
    let each = (13..).zip(queues);
    let sum: usize = each
        .map(|(seed, queues)| followed(seed, queues, Asks::Scattered))
        .sum();
    assert!(sum >= 200, "{sum}");
}

/// Where a limit keeps some back, who takes a job back makes room for them, and is behind them.
#[test]
fn who_follows_advice_in_a_queue_with_a_limit_starts_at_once() {
    let of_cores = followed_at(15, &["a", "b"], Asks::Cores, Some(3));
    let of_nodes = followed_at(16, &["a", "b"], Asks::Nodes, Some(3));
    assert!(of_cores >= 30 && of_nodes >= 30, "{of_cores} {of_nodes}");
}

/// Where something is done about once in so many jobs, some of which would run for twice their limits.
fn stirred(seed: u64, policy: &str, promises: Promises) -> Stirred {
    let mut workload = workload(seed, 400);
    for job in workload.jobs.iter_mut().filter(|job| job.id % 5 == 0) {
        job.run = job.limit.map_or(job.run, |limit| Span(limit.0 * 2));
    }
    let stir = Stir {
        nodes: CORES,
        policy: format!("preset = \"{policy}\""),
        promises,
        every: 6,
    };
    stir::play(&workload, &stir).unwrap()
}

/// More urgent jobs, nodes that go and limits that are extended: whoever begins later than he was promised was told for
/// which of them, and there was such a one.
#[test]
fn who_begins_later_than_promised_was_told_for_what() {
    for (policy, promises) in [("easy", Promises::First), ("conservative", Promises::All)] {
        let told = stirred(20, policy, promises);
        assert!(told.promised >= 50, "{policy}: {told:?}");
        assert_eq!(told.untold(), Vec::<&Late>::new(), "{policy}: {told:?}");
        let by = [
            told.late_by(|by| matches!(by, Mover::Job { .. })),
            told.late_by(|by| *by == Mover::Nodes),
            told.late_by(|by| matches!(by, Mover::Extension { .. })),
        ];
        assert!(by.iter().all(|many| *many > 0), "{policy}: {by:?}");
        assert_eq!(
            by.iter().sum::<usize>(),
            told.late.len(),
            "{policy}: {told:?}"
        );
    }
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

/// Whose limit is longer than half of the nodes are lent for is told so, and starts at once with that limit.
#[test]
fn who_takes_no_longer_than_nodes_are_lent_for_as_advised_starts_at_once() {
    let asking = Asking {
        nodes: CORES / 2,
        cores: 2,
        queues: vec!["a", "b"],
        followed_in: 1,
        lends: Some(Span::seconds(300)),
        ..asking("easy", Promises::First)
    };
    let truth = play(&workload(21, 1000), &asking).unwrap();
    assert!(truth.misled.is_empty(), "{truth:?}");
    assert!(truth.lent >= 20, "{} of {}", truth.lent, truth.followed);
}
