//! What limits of one queue allow, with schedules worked out by hand.

use eddy_wire::time::{Span, Time};
use proptest::prelude::*;

use crate::policy::Policy;
use crate::policy::read::read;
use crate::sim::*;
use crate::walk::Progress;

fn policy(text: &str) -> Policy {
    read(text).expect("a policy")
}

/// Starts in seconds on so many processors.
fn starts(jobs: &str, procs: u64, policy: &Policy) -> Vec<f64> {
    let text = format!(r#"{{"procs": {procs}, "jobs": [{jobs}]}}"#);
    let workload = read_json(text.as_bytes()).expect("a workload");
    let course = course(&workload, procs, policy);
    let starts = course.starts.iter();
    starts
        .map(|start| start.map_or(-1.0, |start| (start.0 / 1000) as f64 / 1e3))
        .collect()
}

fn course(workload: &Workload, procs: u64, policy: &Policy) -> Course {
    let machine = Machine::count(procs);
    let scene = Scene {
        workload,
        machine: &machine,
        foresight: Foresight::Requested,
        events: Events::Batch,
    };
    let mut replay = Replay::on_count(scene, policy).expect("it is replayed");
    // Far more than there are events: what never ends is a mistake.
    assert_eq!(replay.slice(100_000), Progress::Done);
    replay.course()
}

/// A job of one processor for ten seconds.
fn small(id: u64, submit: u64, user: &str) -> String {
    format!(
        r#"{{"id": {id}, "submit": {submit}, "run": 10, "limit": 10, "procs": 1, "user": "{user}"}}"#
    )
}

#[test]
fn a_rate_lets_so_many_start_and_the_others_as_tokens_come() {
    let policy =
        policy("preset = \"fcfs\"\n[queue.limits]\nrate = { per_second = 0.5, burst = 2 }");
    let jobs: Vec<String> = (1..=4).map(|id| small(id, 0, "a")).collect();
    assert_eq!(starts(&jobs.join(","), 9, &policy), [0.0, 0.0, 2.0, 4.0]);
}

#[test]
fn the_rate_of_an_account_lets_others_pass() {
    let text = "preset = \"easy\"\n[queue.limits]\naccount_rate = { per_second = 1, burst = 1 }";
    let jobs = [
        small(1, 0, "a"),
        small(2, 0, "a"),
        small(3, 0, "b"),
        small(4, 0, "a"),
    ];
    let starts = starts(&jobs.join(","), 9, &policy(text));
    assert_eq!(starts, [0.0, 1.0, 0.0, 2.0]);
}

#[test]
fn a_pass_starts_its_part_and_the_next_goes_on() {
    // Looked at before each start: the second makes it more than three of ten, the third waits.
    let text = "preset = \"fcfs\"\n[queue.limits]\npass_fraction.cores = 0.3";
    let job = |id| format!(r#"{{"id": {id}, "submit": 0, "run": 100, "limit": 100, "procs": 2}}"#);
    let jobs: Vec<String> = (1..=5).map(job).collect();
    let starts = starts(&jobs.join(","), 10, &policy(text));
    assert_eq!(starts, [0.0, 0.0, 1.0, 1.0, 2.0]);
}

#[test]
fn an_account_has_no_more_than_its_part_and_what_never_may_start_holds_nobody_up() {
    let text = "preset = \"fcfs\"\n[queue.limits.account_fraction.default]\ncores = 0.5";
    let wide = r#"{"id": 9, "submit": 0, "run": 1, "limit": 1, "procs": 3, "user": "a"}"#;
    let jobs = [
        wide.to_owned(),
        small(1, 0, "b"),
        small(2, 0, "b"),
        small(3, 0, "b"),
        small(4, 0, "c"),
    ];
    // First come, first served: the last waits behind one that its account's part holds back.
    assert_eq!(
        starts(&jobs.join(","), 4, &policy(text)),
        [-1.0, 0.0, 0.0, 10.0, 10.0]
    );
    let easy = policy(&text.replace("fcfs", "easy"));
    assert_eq!(
        starts(&jobs.join(","), 4, &easy),
        [-1.0, 0.0, 0.0, 10.0, 0.0]
    );
}

#[test]
fn what_is_reserved_for_an_account_counts_as_had() {
    // The first holds 3 of 4; the second, of 2, waits with a reservation. The third is of the same
    // account and would fit beside, but account b may have 2.
    let text = "preset = \"easy\"\n[queue.limits.account_fraction.default]\ncores = 0.75";
    let job = |id, procs, user: &str| {
        format!(
            r#"{{"id": {id}, "submit": 0, "run": 10, "limit": 10, "procs": {procs}, "user": "{user}"}}"#
        )
    };
    let jobs = [
        job(1, 3, "a"),
        job(2, 3, "b"),
        job(3, 1, "b"),
        job(4, 1, "c"),
    ];
    assert_eq!(
        starts(&jobs.join(","), 4, &policy(text)),
        [0.0, 10.0, 20.0, 0.0]
    );
}

#[test]
fn queues_go_before_each_other_by_their_priority() {
    let text = "preset = \"fcfs\"\n[queue]\nsource = \"by_queue\"\n\
        [priority.factors.queues]\nquick = 10\nslow = 1";
    let job = |id, queue: &str| {
        format!(
            r#"{{"id": {id}, "submit": 0, "run": 10, "limit": 10, "procs": 1, "queue": "{queue}"}}"#
        )
    };
    let jobs = [
        job(1, "slow"),
        job(2, "none"),
        job(3, "quick"),
        job(4, "slow"),
    ];
    assert_eq!(
        starts(&jobs.join(","), 1, &policy(text)),
        [10.0, 30.0, 0.0, 20.0]
    );
}

fn limits() -> impl Strategy<Value = String> {
    let rate = (1..40_u32, 1..4_u32).prop_map(|(per_second, burst)| {
        format!(
            "{{ per_second = {:.1}, burst = {burst} }}",
            f64::from(per_second) / 10.0
        )
    });
    let fraction = prop::sample::select(vec!["0.25", "0.5", "1"]);
    let lines = (
        prop::option::of(rate.clone()),
        prop::option::of(rate),
        prop::option::of(fraction.clone()),
        prop::option::of(fraction),
    );
    lines.prop_map(|(rate, account, pass, part)| {
        let mut text = String::new();
        let lines = [
            ("rate", rate),
            ("account_rate", account),
            ("pass_fraction.cores", pass.map(str::to_owned)),
            ("account_fraction.default.cores", part.map(str::to_owned)),
        ];
        for (name, value) in lines {
            if let Some(value) = value {
                text += &format!("{name} = {value}\n");
            }
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the limits and the walk: everybody who may start does, once; never have more been
    /// started within a time than the bucket and what came since allow, and never has an account
    /// more than its part.
    #[test]
    fn nothing_starts_over_a_limit_and_nobody_waits_for_ever(
        limits in limits(),
        jobs in prop::collection::vec((0..20_u64, 1..9_u64, 1..=8_u64, 0..3_u8), 1..30),
        preset in prop::sample::select(vec!["fcfs", "easy", "hybrid", "conservative", "conservative-replanned"]),
    ) {
        let rules = policy(&format!("preset = \"{preset}\"\n[queue.limits]\n{limits}"));
        let lines: Vec<String> = (1..).zip(&jobs).map(|(id, (submit, run, procs, user))| format!(
            r#"{{"id": {id}, "submit": {submit}, "run": {run}, "limit": {run}, "procs": {procs}, "user": "u{user}"}}"#
        )).collect();
        let text = format!(r#"{{"procs": 8, "jobs": [{}]}}"#, lines.join(","));
        let workload = read_json(text.as_bytes()).expect("a workload");
        let course = course(&workload, 8, &rules);
        let part = rules.queue.limits.account_fraction.get("default");
        let part = part.map_or(8, |fractions| (8.0 * fractions["cores"]).round() as u64);
        for (job, start) in workload.jobs.iter().zip(&course.starts) {
            prop_assert_eq!(start.is_some(), job.procs <= part, "job {}", job.id);
        }
        let began: Vec<(Time, &SimJob)> = workload.jobs.iter().zip(&course.starts)
            .filter_map(|(job, start)| Some(((*start)?, job))).collect();
        for &(at, job) in &began {
            let runs = |(start, other): &&(Time, &SimJob)|
                other.owner == job.owner && *start <= at && at < start.after(other.runs());
            let has: u64 = began.iter().filter(runs).map(|(_, other)| other.procs).sum();
            prop_assert!(has <= part, "user {} has {has} of {part} at {at}", job.owner);
        }
        let rates = [(rules.queue.limits.rate, false), (rules.queue.limits.account_rate, true)];
        for (rate, own) in rates {
            let Some(rate) = rate else { continue };
            for &(from, first) in &began {
                for &(until, _) in &began {
                    let within = |(start, other): &&(Time, &SimJob)| (from..=until).contains(start)
                        && (!own || other.owner == first.owner);
                    let count = began.iter().filter(within).count() as f64;
                    let span = (until - from).max(Span::ZERO);
                    let most = f64::from(rate.burst) + rate.per_second * span.0 as f64 / 1e6;
                    prop_assert!(until < from || count <= most + 1e-3, "{count} of {most}");
                }
            }
        }
    }
}
