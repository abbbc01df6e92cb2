//! Queue instances cost a schedule nothing: what they hold is what their jobs are given.

use eddy_sched::policy::{Policy, preset};
use eddy_sched::sim::{Events, Foresight, Machine, Replay, Scene, SimJob, Workload};
use eddy_wire::time::{Span, Time};
use eddy_world::random::Random;
use eddy_world::tax::{Layout, Site, starts};

/// Processors of the machine.
const PROCS: u32 = 20;
/// Most that a job asks for where a fifth of them is apart.
const NARROW: u64 = 16;

/// Jobs of all lengths and widths up to that, more than there is room for now and then.
fn workload(seed: u64, jobs: u64, widest: u64) -> Workload {
    let mut random = Random::new(seed);
    let mut submit = 0;
    let mut job = |id| {
        submit += random.between(0, 60);
        let limit = random.between(1, 600);
        // Some would run longer than they asked for.
        let run = random.between(1, limit + 30);
        let widest = *random.pick(&[2, 8, widest]);
        SimJob {
            id,
            submit: Time(submit * 1_000_000),
            procs: 1 + random.below(widest),
            nodes: None,
            run: Span::seconds(run),
            limit: Some(Span::seconds(limit)),
            owner: 0,
            terms: 0,
        }
    };
    Workload {
        procs: Some(u64::from(PROCS)),
        jobs: (1..=jobs).map(&mut job).collect(),
        ..Workload::default()
    }
}

fn site(nodes: u32, layout: Layout, message: Span) -> Site {
    Site {
        nodes,
        cores: PROCS / nodes,
        layout,
        message,
        policy: "preset = \"easy\"".to_owned(),
    }
}

fn easy() -> Policy {
    preset("easy").expect("there is one")
}

/// Processors of the machine of a trace that is often played.
const TRACE_PROCS: u32 = 100;

/// Jobs as on that machine: widths that are mostly powers of two, most short and some for half a day, and limits that
/// are mostly far too long.
fn like_a_trace(seed: u64, jobs: u64) -> Workload {
    let mut random = Random::new(seed);
    let mut submit = 0;
    let mut job = |id| {
        submit += random.between(0, 2_200);
        let longest = *random.pick(&[60, 600, 3_600, 14_400, 43_200]);
        let run = random.between(1, longest);
        let over = *random.pick(&[1, 1, 2, 5, 10]);
        SimJob {
            id,
            submit: Time(submit * 1_000_000),
            procs: *random.pick(&[1, 1, 1, 2, 3, 4, 8, 8, 16, 25, 32, 64, 100]),
            nodes: None,
            run: Span::seconds(run),
            // A few would run longer than they asked for.
            limit: Some(Span::seconds((run * over - 5).max(1))),
            owner: 0,
            terms: 0,
        }
    };
    Workload {
        procs: Some(u64::from(TRACE_PROCS)),
        jobs: (1..=jobs).map(&mut job).collect(),
        ..Workload::default()
    }
}

/// The published algorithm over a count of processors.
fn flat(workload: &Workload) -> Vec<Time> {
    let machine = Machine::count(workload.procs.expect("it says how many"));
    let scene = Scene {
        workload,
        machine: &machine,
        foresight: Foresight::Requested,
        events: Events::Batch,
    };
    let policy = easy();
    let mut replay = Replay::on_count(scene, &policy).expect("easy can be played");
    while let eddy_sched::walk::Progress::More = replay.slice(1000) {}
    let course = replay.course();
    course.starts.into_iter().map(Option::unwrap).collect()
}

fn mean_wait(workload: &Workload, starts: &[Time]) -> f64 {
    let waits = workload.jobs.iter().zip(starts);
    let sum: i64 = waits.map(|(job, start)| (*start - job.submit).0).sum();
    sum as f64 / starts.len() as f64
}

fn assert_same(workload: &Workload, starts: &[Time], wanted: &[Time], what: &str) {
    let other = (0..wanted.len()).filter(|at| starts[*at] != wanted[*at]);
    let other = other.map(|at| (&workload.jobs[at], starts[at], wanted[at]));
    let mut other: Vec<_> = other.collect();
    // Who began first tells why.
    other.sort_by_key(|(_, start, wanted)| *start.min(wanted));
    other.truncate(3);
    assert!(other.is_empty(), "{what}: {other:?}");
}

#[test]
fn elastic_instances_start_every_job_when_one_queue_would() {
    for seed in 0..4 {
        let workload = workload(seed, 150, u64::from(PROCS));
        let flat = flat(&workload);
        for layout in [Layout::Flat, Layout::Elastic(2), Layout::Elastic(5)] {
            let what = format!("{layout:?} of seed {seed}");
            let starts = starts(&workload, &site(1, layout, Span::ZERO)).expect(&what);
            assert_same(&workload, &starts, &flat, &what);
        }
    }
}

#[test]
fn on_many_nodes_too() {
    for seed in 4..7 {
        let workload = workload(seed, 150, u64::from(PROCS));
        let flat = starts(&workload, &site(5, Layout::Flat, Span::ZERO)).expect("all begin");
        for number in [2, 4] {
            let what = format!("{number} instances, seed {seed}");
            let site = site(5, Layout::Elastic(number), Span::ZERO);
            let starts = starts(&workload, &site).expect(&what);
            assert_same(&workload, &starts, &flat, &what);
        }
    }
}

#[test]
fn two_four_and_eight_instances_give_a_trace_the_schedule_of_one_queue() {
    let workload = like_a_trace(3, 1_500);
    let flat = flat(&workload);
    let waited = (0..flat.len()).filter(|at| flat[*at] > workload.jobs[*at].submit);
    assert!(waited.count() > 500, "most have room");
    for number in [2, 4, 8] {
        let what = format!("{number} instances");
        let site = Site {
            cores: TRACE_PROCS,
            ..site(1, Layout::Elastic(number), Span::ZERO)
        };
        let starts = starts(&workload, &site).expect(&what);
        assert_same(&workload, &starts, &flat, &what);
    }
}

#[test]
fn a_millisecond_of_a_message_costs_next_to_nothing() {
    let workload = workload(9, 300, u64::from(PROCS));
    let alone = mean_wait(&workload, &flat(&workload));
    let site = site(1, Layout::Elastic(3), Span::millis(1));
    let starts = starts(&workload, &site).expect("all begin");
    let ratio = mean_wait(&workload, &starts) / alone;
    assert!(ratio < 1.01, "{ratio}");
}

#[test]
fn nodes_that_are_divided_for_good_cost_a_lot() {
    let workload = workload(9, 300, NARROW);
    let alone = mean_wait(&workload, &flat(&workload));
    let site = site(5, Layout::Fixed(vec![1, 4]), Span::ZERO);
    let starts = starts(&workload, &site).expect("all begin");
    let ratio = mean_wait(&workload, &starts) / alone;
    assert!(ratio > 1.2, "{ratio}");
}

/// Jobs of one and two cores without an end, and among them one of nine tenths of the machine.
fn endless(seed: u64, wide: usize) -> Workload {
    let mut workload = workload(seed, 600, 2);
    let mut random = Random::new(seed);
    for (at, job) in workload.jobs.iter_mut().enumerate() {
        // More than there is room for, all the time.
        job.submit = Time(at as i64 * 8_000_000);
        job.procs = 1 + random.below(2);
        let limit = random.between(60, 400);
        job.limit = Some(Span::seconds(limit));
        job.run = Span::seconds(random.between(30, limit));
    }
    workload.jobs[wide].procs = u64::from(PROCS) * 9 / 10;
    workload
}

#[test]
fn a_wide_job_over_three_instances_starts_when_one_queue_would() {
    const WIDE: usize = 150;
    for seed in 0..3 {
        let workload = endless(seed, WIDE);
        let site = |layout, message| site(10, layout, message);
        let flat = starts(&workload, &site(Layout::Flat, Span::ZERO)).expect("all begin");
        let wait = flat[WIDE] - workload.jobs[WIDE].submit;
        assert!(wait > Span::seconds(100), "it waits: {wait}");
        let parted = starts(&workload, &site(Layout::Elastic(3), Span::ZERO)).expect("all begin");
        assert_eq!(parted[WIDE], flat[WIDE], "seed {seed}");
    }
}
