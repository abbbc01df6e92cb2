//! Small traces of our own, with schedules worked out by hand, and traces that
//! are no traces.

use eddy_wire::time::{Span, Time};
use proptest::prelude::*;

use super::*;
use crate::policy::Policy;
use crate::policy::read::read;
use crate::walk::Progress;

mod parts;

mod planned;

mod rules;

fn policy(text: &str) -> Policy {
    match read(text) {
        Ok(policy) => policy,
        Err(errors) => panic!("{errors:?}"),
    }
}

fn line(id: u64, submit: u64, run: i64, procs: i64, asked: i64, limit: i64) -> String {
    format!("{id} {submit} -1 {run} {procs} -1 -1 {asked} {limit} -1 1 1 -1 -1 -1 -1 -1 -1\n")
}

/// Starts in seconds and the figures on four processors.
fn run(text: &str, policy: &str, events: Events) -> (Vec<i64>, Measures) {
    let workload = read_swf(text.as_bytes()).expect("a trace");
    let policy = named(policy).expect("a policy");
    let machine = Machine::count(4);
    let scene = Scene {
        workload: &workload,
        machine: &machine,
        foresight: Foresight::Requested,
        events,
    };
    let mut replay = Replay::on_count(scene, &policy).expect("it can be replayed");
    while let Progress::More = replay.slice(1) {}
    let course = replay.course();
    let starts = course.starts.iter();
    let starts = starts.map(|start| start.map_or(-1, |start| start.0 / 1_000_000));
    let measures = Measures::new(&workload, &machine, &course);
    (starts.collect(), measures)
}

/// A long narrow job; a wide one that must wait for it; a filler that ends in time, one that does
/// not, and one that asks for too much time but ends early.
fn trace() -> String {
    [
        line(1, 0, 10, 2, 2, 10),
        line(2, 1, 5, 4, 4, 5),
        line(3, 2, 8, 2, 2, 8),
        line(4, 3, 9, 1, 1, 9),
        line(5, 12, 2, 2, 2, 100),
    ]
    .concat()
}

#[test]
fn each_policy_gives_the_schedule_worked_out_by_hand() {
    let starts = |policy| run(&trace(), policy, Events::Batch).0;
    assert_eq!(starts("fcfs"), [0, 10, 15, 15, 23]);
    assert_eq!(starts("easy"), [0, 10, 2, 15, 15]);
    assert_eq!(starts("cons"), [0, 10, 2, 15, 15]);
    assert_eq!(starts("hybrid-2"), [0, 10, 2, 15, 15]);
}

#[test]
fn figures_are_those_of_the_starts() {
    let (_, measures) = run(&trace(), "easy", Events::Batch);
    // Waits 0, 9, 0, 12, 3; runs 10, 5, 8, 9, 2.
    assert_eq!(measures.mean_wait, 4.8);
    assert_eq!((measures.median_wait, measures.max_wait), (3.0, 12.0));
    // Slowdowns 1, 14 / 10, 1, 21 / 10, 1.
    assert!((measures.mean_bsld - 1.3).abs() < 1e-12);
    assert_eq!((measures.makespan, measures.peak_procs), (24.0, 4));
    assert!((measures.utilisation - 69.0 / 96.0).abs() < 1e-12);
    assert_eq!(
        (measures.backfilled, measures.widest_tenth_max_wait),
        (1, 9.0)
    );
    assert_eq!((measures.jobs, measures.dropped), (5, 0));
}

#[test]
fn a_job_that_ends_at_an_instant_ends_before_others_come_unless_each_event_has_a_pass() {
    // The first ends early at 5, when a second comes that needs all, and then a narrow one.
    let text = [
        line(1, 0, 5, 4, 4, 10),
        line(2, 5, 5, 4, 4, 5),
        line(3, 5, 5, 1, 1, 5),
    ]
    .concat();
    let (batch, measures) = run(&text, "easy", Events::Batch);
    assert_eq!((batch, measures.passes), (vec![0, 5, 10], 4));
    let (each, measures) = run(&text, "easy", Events::Each);
    assert_eq!((each, measures.passes), (vec![0, 5, 10], 6));
}

#[test]
fn a_job_that_ends_as_it_starts_takes_its_place_all_the_same() {
    let text = [line(1, 0, 0, 4, 4, 0), line(2, 0, 3, 4, 4, 3)].concat();
    let (starts, measures) = run(&text, "easy", Events::Batch);
    assert_eq!((starts, measures.peak_procs), (vec![0, 0], 4));
}

#[test]
fn what_a_trace_does_not_say_is_dropped_and_counted() {
    let text = [
        "; Computer: none\r\n;MaxProcs: 6\n;  MaxProcs:   4 \n\n".to_owned(),
        line(1, 0, 5, 3, -1, -1),
        line(2, 0, -1, 3, 3, 5),
        line(3, 0, 5, -1, -1, 5),
        line(4, 0, 9, 1, 5, 3),
    ]
    .concat();
    let workload = read_swf(text.as_bytes()).expect("a trace");
    assert_eq!((workload.procs, workload.dropped), (Some(6), 2));
    let job = |id, procs, run, limit| SimJob {
        id,
        submit: Time(0),
        procs,
        nodes: None,
        run: Span::seconds(run),
        limit: Some(Span::seconds(limit)),
        owner: 0,
        terms: 0,
    };
    assert_eq!(workload.jobs, [job(1, 3, 5, 5), job(4, 5, 9, 3)]);
    let (starts, measures) = run(&text, "easy", Events::Batch);
    assert_eq!((starts, measures.dropped), (vec![0, -1], 3));
}

#[test]
fn a_bad_line_is_an_error_of_one_line() {
    let said = |text: &str| read_swf(text.as_bytes()).expect_err("no trace").to_string();
    assert_eq!(
        said("; a\n1 2 3\n"),
        "line 2: 3 fields are given; a job has 18"
    );
    let text = line(1, 0, 5, 3, 3, 5).replace(" 5 3", " 5x 3");
    assert_eq!(
        said(&text),
        "line 1: field 4 (run time): `5x` is not a number from -1 to 1e12"
    );
    let twice = [line(7, 0, 5, 3, 3, 5), line(7, 1, 5, 3, 3, 5)].concat();
    assert_eq!(said(&twice), "job 7 is given twice");
}

#[test]
fn json_says_the_same_as_a_trace() {
    let text =
        br#"{"procs": 4, "jobs": [{"id": 1, "submit": 0.5, "run": 3, "procs": 2, "limit": 5},
        {"id": 2, "submit": 1, "run": 3, "procs": 2}]}"#;
    let workload = read_json(text).expect("a workload");
    assert_eq!(workload.jobs[0].submit, Time(500_000));
    assert_eq!(workload.jobs[1].limit, None);
    let said = |text: &[u8]| read_json(text).expect_err("no workload").to_string();
    let zero = br#"{"jobs": [{"id": 1, "submit": 0, "run": 3, "procs": 0}]}"#;
    assert_eq!(
        said(zero),
        "workload: job 1: procs: 0; allowed is 1 or more"
    );
    assert!(said(b"{\n\"job\": []}").starts_with("workload: line 2: "));
    let word = b"{\"jobs\": [\n{\"id\": 1, \"submit\": 0, \"run\" : \"3\", \"procs\": 1}]}";
    assert!(said(word).starts_with("workload: line 2: run: invalid type: string"));
    let none = br#"{"procs": 0, "jobs": []}"#;
    assert_eq!(said(none), "workload: procs: 0; allowed is 1 or more");
}

#[test]
fn an_unknown_policy_names_those_there_are() {
    for name in ["easy-", "hybrid-0", "hybrid-x", ""] {
        let error = named(name).expect_err("no policy");
        assert!(error.to_string().contains("hybrid-K"), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_swf(&text);
        let _ = read_json(&text);
    }

    /// Whatever the trace and the policy, everybody who fits runs once, not before he came, and
    /// never are more processors in use than there are.
    #[test]
    fn every_job_runs_and_none_too_many_at_once(
        jobs in prop::collection::vec((0..60_u64, 0..20_i64, 1..=5_i64, 0..30_i64), 0..60),
        policy in prop::sample::select(vec![
            "fcfs", "easy", "easy-sjbf", "easy-sjf", "easy-saf", "hybrid-3", "cons", "cons-compress",
        ]),
    ) {
        let lines = (1..).zip(&jobs);
        let text: String = lines
            .map(|(id, &(submit, run, procs, limit))| line(id, submit, run, procs, procs, limit))
            .collect();
        let (starts, measures) = run(&text, policy, Events::Batch);
        for (start, &(submit, _, procs, _)) in starts.iter().zip(&jobs) {
            prop_assert_eq!(*start >= submit as i64, procs <= 4, "start {} of {}", start, submit);
        }
        prop_assert!(measures.peak_procs <= 4);
        prop_assert!(measures.utilisation <= 1.0);
    }
}
