//! What is told of a promise that moved later: for what it did.

use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{
    Delta, Explained, Moved, Mover, Owner, Question, Suppose, Unavailable, Verdict, Want,
};
use eddy_wire::time::{MICROS, Span};

use super::model::{inventory, nodes};
use crate::Planner;
use crate::cleanup::CLEANUP;

const BEGIN: Time = Time(1_000 * MICROS);
/// The first is planned to end then.
const END: Time = Time(1_000 * MICROS + 100 * MICROS + CLEANUP.0);

/// Two nodes, both held by job 1 for 100 s.
fn planner(policy: &str) -> Planner {
    let mut planner = Planner::new();
    planner.apply(Delta::Policy(policy.into()));
    planner.apply(Delta::Inventory(inventory(&[(1, 0, 0), (1, 0, 0)])));
    planner.apply(Delta::Up(Idset::first_ids(2)));
    want(&mut planner, 1, 16, BEGIN);
    let outcome = planner.plan(BEGIN, 100);
    let [(job, Verdict::Start(set))] = &outcome.verdicts[..] else {
        panic!("it starts");
    };
    planner.apply(Delta::Held(*job, Owner::default(), Arc::clone(set)));
    planner
}

/// A job of both nodes for 100 s.
fn want(planner: &mut Planner, job: u64, urgency: u8, at: Time) {
    let mut request = nodes(2, 1, 1);
    request.duration = Some(100 * MICROS);
    let want = Want {
        submitted: at,
        eligible: at,
        ..Want::of(urgency, request)
    };
    planner.apply(Delta::Want(JobId(job), want));
}

fn why(planner: &mut Planner, job: u64, now: Time) -> Explained {
    planner.apply(Delta::Explain(Question {
        tag: 1,
        jobs: Some(vec![(JobId(job), JobId(job))]),
        most: 1,
        suppose: Suppose::default(),
        wants: Vec::new(),
        lent: Vec::new(),
    }));
    let mut answers = planner.plan(now, 100).answers;
    answers.remove(0).jobs.remove(0)
}

fn later(seconds: i64) -> Time {
    BEGIN.after(Span::seconds(seconds))
}

/// Who was second was only told a forecast. Then he is first and is promised a start, and that is what counts.
#[test]
fn who_was_told_a_forecast_first_is_told_of_his_promise_that_moved() {
    let mut planner = planner("preset = \"easy\"");
    want(&mut planner, 2, 16, later(1));
    want(&mut planner, 3, 16, later(1));
    let told = why(&mut planner, 3, later(1));
    let forecast = told.start.and_then(|one| one.latest);
    assert!(forecast.is_some_and(|at| at > END), "{told:?}");
    planner.apply(Delta::Unwant(JobId(2)));
    let told = why(&mut planner, 3, later(2));
    assert_eq!(told.start.and_then(|one| one.latest), Some(END));
    want(&mut planner, 4, 20, later(3));
    planner.plan(later(3), 100);
    let moved = Moved {
        from: END,
        by: Mover::Job { job: JobId(4) },
    };
    assert_eq!(why(&mut planner, 3, later(3)).moved, Some(moved));
}

/// By another order who was second is first. Who has the same time by that is told nothing.
#[test]
fn another_policy_is_what_a_promise_moved_for() {
    for (order, by) in [("0 - urgency", Some(Mover::Policy)), ("urgency", None)] {
        let mut planner = planner("preset = \"conservative\"");
        want(&mut planner, 2, 17, BEGIN);
        want(&mut planner, 3, 16, BEGIN);
        let told = why(&mut planner, 2, later(1));
        assert_eq!(told.start.and_then(|one| one.latest), Some(END));
        let policy = format!("preset = \"conservative\"\npriority = {{ order = [\"{order}\"] }}");
        planner.apply(Delta::Policy(policy.as_str().into()));
        planner.plan(later(2), 100);
        let moved = by.map(|by| Moved { from: END, by });
        assert_eq!(why(&mut planner, 2, later(3)).moved, moved, "{order}");
    }
}

/// Where nothing is promised by the other, that is what is told all the same.
#[test]
fn a_policy_that_promises_nothing_is_what_a_promise_moved_for() {
    let mut planner = planner("preset = \"easy\"");
    want(&mut planner, 2, 16, BEGIN);
    let told = why(&mut planner, 2, later(1));
    assert_eq!(told.start.and_then(|one| one.latest), Some(END));
    want(&mut planner, 3, 20, BEGIN);
    planner.apply(Delta::Policy("preset = \"fcfs\"".into()));
    planner.plan(later(2), 100);
    let by = why(&mut planner, 2, later(3)).moved.map(|moved| moved.by);
    assert_eq!(by, Some(Mover::Policy));
}

/// Who is first needs a node that is away, so that who is second is promised a start. Once it is back the first has
/// that.
#[test]
fn one_who_was_first_all_along_and_can_be_planned_again_is_named() {
    let mut planner = planner("preset = \"easy\"");
    planner.apply(Delta::Down(Idset::one(1), Unavailable::Offline));
    want(&mut planner, 2, 16, later(1));
    let mut one = nodes(1, 1, 1);
    one.duration = Some(100 * MICROS);
    let small = Want {
        submitted: later(2),
        eligible: later(2),
        ..Want::of(16, one)
    };
    planner.apply(Delta::Want(JobId(3), small));
    let told = why(&mut planner, 3, later(2));
    assert_eq!(told.start.and_then(|one| one.latest), Some(END));
    planner.apply(Delta::Up(Idset::one(1)));
    planner.plan(later(3), 100);
    let moved = Moved {
        from: END,
        by: Mover::Job { job: JobId(2) },
    };
    assert_eq!(why(&mut planner, 3, later(3)).moved, Some(moved));
}

#[test]
fn a_job_that_came_before_one_who_was_promised_a_start_is_named() {
    for policy in ["hybrid-8", "conservative-replanned"] {
        let mut planner = planner(&format!("preset = \"{policy}\""));
        want(&mut planner, 2, 16, later(1));
        let told = why(&mut planner, 2, later(1));
        assert_eq!(
            (told.start.and_then(|one| one.latest), told.moved),
            (Some(END), None)
        );
        want(&mut planner, 3, 20, later(2));
        // Also when nobody asked in that pass, and the other runs.
        planner.plan(later(2), 100);
        planner.apply(Delta::Freed(JobId(1)));
        let outcome = planner.plan(later(50), 100);
        let [(JobId(3), Verdict::Start(set))] = &outcome.verdicts[..] else {
            panic!("it starts");
        };
        planner.apply(Delta::Held(JobId(3), Owner::default(), Arc::clone(set)));
        let told = why(&mut planner, 2, later(51));
        let moved = Moved {
            from: END,
            by: Mover::Job { job: JobId(3) },
        };
        assert_eq!(told.moved, Some(moved), "{policy}");
        let third = why(&mut planner, 2, later(52)).moved;
        assert_eq!(third, Some(moved), "it is not told anew");
    }
}

#[test]
fn one_whose_values_came_to_be_better_is_named() {
    let policy = "preset = \"conservative\"\npriority = { order = [\"urgency + 0 * wait\"], refresh = \"1s\" }";
    let mut planner = planner(policy);
    want(&mut planner, 2, 16, later(1));
    assert_eq!(why(&mut planner, 2, later(1)).moved, None);
    want(&mut planner, 3, 20, later(2));
    let told = why(&mut planner, 2, later(70));
    let by = told.moved.map(|moved| moved.by);
    assert_eq!(by, Some(Mover::Job { job: JobId(3) }));
}

#[test]
fn nodes_that_go_and_what_runs_on_are_told_apart() {
    for (lost, mover) in [(true, Mover::Nodes), (false, Mover::Overrun)] {
        let mut planner = planner("preset = \"conservative\"");
        want(&mut planner, 2, 16, later(1));
        assert_eq!(why(&mut planner, 2, later(1)).moved, None);
        if lost {
            planner.apply(Delta::Down(Idset::one(0), Unavailable::Offline));
        }
        let told = why(&mut planner, 2, END.after(Span::seconds(9)));
        assert_eq!(
            told.moved.map(|moved| (moved.from, moved.by)),
            Some((END, mover))
        );
    }
}

#[test]
fn a_promise_moves_with_the_limit_of_what_runs() {
    let mut planner = planner("preset = \"conservative\"");
    let held = |limit: i64| {
        let mut set = inventory(&[(1, 0, 0), (1, 0, 0)]).as_ref().clone();
        (set.starttime, set.expiration) = (BEGIN.0, BEGIN.0 + limit * MICROS);
        Delta::Held(JobId(1), Owner::default(), Arc::new(set))
    };
    let start = |told: &Explained| told.start.and_then(|start| start.latest);
    planner.apply(held(100));
    want(&mut planner, 2, 16, later(1));
    assert_eq!(start(&why(&mut planner, 2, later(1))), Some(END));
    planner.apply(held(300));
    let told = why(&mut planner, 2, later(2));
    assert_eq!(start(&told), Some(END.after(Span::seconds(200))));
    let extension = Moved {
        from: END,
        by: Mover::Extension { job: JobId(1) },
    };
    assert_eq!(told.moved, Some(extension));
    planner.apply(held(50));
    let told = why(&mut planner, 2, later(3));
    assert_eq!(start(&told), Some(Time(END.0 - 50 * MICROS)));
    assert_eq!(told.moved, None, "it is no later than what was promised");
}

/// The first runs, the second is as long, the third short; all want both nodes. The first is given so many
/// seconds more: how much later than the end before the others are promised a start then, and for what.
fn extended(policy: &str, more: i64) -> [(i64, Option<Mover>); 2] {
    let mut planner = planner(policy);
    want(&mut planner, 2, 16, later(1));
    want_short(&mut planner, 3, later(2));
    let before = [2, 3].map(|job| start(&why(&mut planner, job, later(2))));
    assert_eq!(before, [0, 110], "{policy}");
    let mut set = inventory(&[(1, 0, 0), (1, 0, 0)]).as_ref().clone();
    (set.starttime, set.expiration) = (BEGIN.0, BEGIN.0 + (100 + more) * MICROS);
    planner.apply(Delta::Held(JobId(1), Owner::default(), Arc::new(set)));
    let told = [2, 3].map(|job| why(&mut planner, job, later(3)));
    told.map(|told| (start(&told), told.moved.map(|moved| moved.by)))
}

/// A job of both nodes for 10 s.
fn want_short(planner: &mut Planner, job: u64, at: Time) {
    let mut request = nodes(2, 1, 1);
    request.duration = Some(10 * MICROS);
    let want = Want {
        submitted: at,
        eligible: at,
        ..Want::of(16, request)
    };
    planner.apply(Delta::Want(JobId(job), want));
}

/// The latest, in seconds from the first end.
fn start(told: &Explained) -> i64 {
    let latest = told.start.and_then(|start| start.latest);
    (latest.expect("it is known") - END).0 / MICROS
}

/// What the short one was promised was behind the new end: it kept the long one off, and was moved before it.
#[test]
fn nobody_passes_who_loses_his_promise_to_an_extension() {
    let all = [
        "preset = \"easy\"",
        "preset = \"hybrid-8\"",
        "preset = \"conservative\"",
        "preset = \"conservative-replanned\"",
        "preset = \"flux\"",
        "preset = \"slurm-fair-tree\"",
        "preset = \"conservative\"\nqueue.reserve_after = \"1s\"",
    ];
    for policy in all {
        for more in [10, 99, 111, 600] {
            let extension = Some(Mover::Extension { job: JobId(1) });
            let [second, third] = extended(policy, more);
            assert_eq!(second, (more, extension), "{policy}");
            assert_eq!(third.0, more + 110, "{policy}");
        }
    }
    let [_, third] = extended("preset = \"conservative\"", 10);
    assert_eq!(third.1, Some(Mover::Extension { job: JobId(1) }));
}

/// One who is due more and has no time, since nobody knows when his node is free, takes promises back that others have
/// of an earlier one. Who is due less and has no time either gets nothing by it.
#[test]
fn who_loses_a_promise_is_planned_before_those_who_are_due_less() {
    let policy = "preset = \"hybrid\"\nqueue.reservations = \"kept\"\nqueue.displace_margin = 0\n\
                  priority = { order = [\"urgency + 0 * wait\"], refresh = \"1s\" }";
    let all = inventory(&[(1, 0, 0), (1, 0, 0), (1, 0, 0)]);
    let mut planner = Planner::new();
    planner.apply(Delta::Policy(policy.into()));
    planner.apply(Delta::Inventory(Arc::clone(&all)));
    planner.apply(Delta::Up(Idset::first_ids(3)));
    for (rank, expiration) in [(0, BEGIN.0 + 100 * MICROS), (1, 0), (2, 0)] {
        let mut set = (*all).clone();
        set.nodes.retain(|own, _| own.0 == rank);
        (set.starttime, set.expiration) = (BEGIN.0, expiration);
        let job = JobId(u64::from(rank) + 1);
        planner.apply(Delta::Held(job, Owner::default(), Arc::new(set)));
    }
    for (job, urgency, ranks) in [(4, 16, vec![0]), (5, 10, vec![0, 2]), (6, 20, vec![1])] {
        let mut request = nodes(ranks.len() as u32, 1, 1);
        request.duration = Some(100 * MICROS);
        request.ranks = Some(ranks.into_iter().collect());
        let want = Want::of(urgency, request);
        planner.apply(Delta::Want(JobId(job), want));
        planner.plan(later(1), 100);
    }
    planner.apply(Delta::Freed(JobId(3)));
    for second in 3..9 {
        let told = why(&mut planner, 4, later(second));
        assert_eq!(told.start.and_then(|one| one.latest), Some(END), "{told:?}");
    }
}
