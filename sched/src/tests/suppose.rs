//! What would be if a job asked for something else: held against a planner to
//! which exactly that happens, and advice against what comes of following it.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Sharing};
use eddy_wire::plan::{Delta, Explained, Owner, Question, Suppose, Verdict, Want};
use eddy_wire::time::{MICROS, Span};
use proptest::prelude::*;

use super::model::{inventory, nodes, slots};
use crate::Planner;

const ALL: u32 = 10_000;
const NOW: Time = Time(1_000 * MICROS);

/// A planner of some nodes of four cores, after a pass: what starts is recorded.
fn planner(policy: &str, jobs: &[Request]) -> (Planner, Vec<JobId>) {
    let mut planner = Planner::new();
    planner.apply(Delta::Policy(policy.into()));
    planner.apply(Delta::Inventory(inventory(&[(4, 0, 0); 3])));
    planner.apply(Delta::Up(Idset::first_ids(3)));
    let mut waiting = BTreeMap::new();
    for (job, request) in (1..).map(JobId).zip(jobs) {
        waiting.insert(job, ());
        planner.apply(Delta::Want(job, Want::of(16, request.clone())));
    }
    for (job, verdict) in planner.plan(NOW, ALL).verdicts {
        waiting.remove(&job);
        if let Verdict::Start(set) = verdict {
            planner.apply(Delta::Held(job, Owner::default(), set));
        }
    }
    let again = planner.plan(NOW, ALL).verdicts;
    assert!(again.is_empty(), "a second pass gives {again:?}");
    (planner, waiting.into_keys().collect())
}

fn ask(planner: &mut Planner, job: JobId, suppose: &Suppose) -> Explained {
    planner.apply(Delta::Explain(Question {
        tag: 7,
        jobs: Some(vec![(job, job)]),
        most: 1,
        suppose: suppose.clone(),
        wants: Vec::new(),
        lent: Vec::new(),
    }));
    let outcome = planner.plan(NOW, ALL);
    assert!(outcome.verdicts.is_empty(), "asking starts nobody");
    let mut jobs = outcome.answers.into_iter().flat_map(|one| one.jobs);
    jobs.next().unwrap_or_else(|| panic!("{job} waits"))
}

/// Whether it starts when it really asks for that.
fn starts(planner: &Planner, job: JobId, request: &Request) -> bool {
    let mut other = planner.copy();
    other.apply(Delta::Want(job, Want::of(16, request.clone())));
    let outcome = other.plan(NOW, ALL);
    let is_start =
        |(of, verdict): &(JobId, Verdict)| *of == job && matches!(verdict, Verdict::Start(_));
    outcome.verdicts.iter().any(is_start)
}

fn limited(request: Request, seconds: i64) -> Request {
    Request {
        duration: Some(seconds * MICROS),
        ..request
    }
}

fn whole(count: u32) -> Request {
    Request {
        sharing: Sharing::Exclusive,
        ..nodes(count, 1, 0)
    }
}

#[test]
fn a_job_is_told_what_would_fit_before_a_promise() {
    // Node 0 is held for 100 s and its cleanup, then the second has all of them.
    let jobs = [
        limited(whole(1), 100),
        limited(whole(3), 60),
        limited(whole(2), 3_600),
    ];
    let (mut planner, waiting) = planner("preset = \"easy\"", &jobs);
    assert_eq!(waiting, [JobId(2), JobId(3)]);
    let told = ask(&mut planner, JobId(3), &Suppose::default());
    let of = |seconds| Suppose {
        limit: Some(Span::seconds(seconds)),
        ..Suppose::default()
    };
    assert_eq!(told.advice, [of(90)], "it takes a moment to follow");
    let told = ask(&mut planner, JobId(3), &of(100));
    assert_eq!(told.start.map(|start| start.latest), Some(Some(NOW)));
    // Two nodes would do for the second, but it would come again behind the third, who takes them.
    let told = ask(&mut planner, JobId(2), &Suppose::default());
    assert!(told.advice.is_empty(), "{:?}", told.advice);
    planner.apply(Delta::Unwant(JobId(3)));
    let told = ask(&mut planner, JobId(2), &Suppose::default());
    let fewer = Suppose {
        nodes: Some(2),
        ..Suppose::default()
    };
    assert_eq!(told.advice, [fewer]);
}

#[test]
fn another_policy_may_let_a_job_pass() {
    let jobs = [
        limited(whole(1), 100),
        limited(whole(3), 60),
        limited(whole(1), 30),
    ];
    let (mut planner, _) = planner("preset = \"fcfs\"", &jobs);
    let told = ask(&mut planner, JobId(3), &Suppose::default());
    assert!(told.advice.is_empty(), "nothing of its own helps");
    let easy = Suppose {
        policy: Some(Arc::from("preset = \"easy\"")),
        ..Suppose::default()
    };
    let told = ask(&mut planner, JobId(3), &easy);
    assert_eq!(told.start.map(|start| start.latest), Some(Some(NOW)));
}

/// That he would be charged as he begins is not why he begins.
#[test]
fn who_would_start_at_once_is_told_what_he_is_due_before_that() {
    let (mut planner, _) = planner("preset = \"flux\"", &[limited(whole(2), 100)]);
    let want = Want {
        owner: Owner {
            user: 5,
            ..Owner::default()
        },
        ..Want::of(16, limited(whole(3), 60))
    };
    planner.apply(Delta::Want(JobId(2), want));
    assert!(planner.plan(NOW, ALL).verdicts.is_empty());
    let fair_share = |told: &Explained| {
        let mut terms = told.priority.terms.iter();
        let term = terms.find(|term| term.name == "fair_share");
        term.map(|term| term.factor)
    };
    let waits = ask(&mut planner, JobId(2), &Suppose::default());
    let fewer = Suppose {
        nodes: Some(1),
        ..Suppose::default()
    };
    let begins = ask(&mut planner, JobId(2), &fewer);
    assert_eq!(begins.start.map(|start| start.latest), Some(Some(NOW)));
    assert!(fair_share(&waits).is_some(), "{waits:?}");
    assert_eq!(fair_share(&begins), fair_share(&waits));
}

#[test]
fn more_than_there_is_never_starts() {
    let (mut planner, _) = planner("preset = \"easy\"", &[whole(3), whole(1)]);
    let suppose = Suppose {
        nodes: Some(4),
        ..Suppose::default()
    };
    let told = ask(&mut planner, JobId(2), &suppose);
    assert_eq!(told.start, None);
    let reason = told.reason.to_string();
    assert_eq!(reason, "asks for 4 whole nodes; the instance has 3");
}

fn request() -> impl Strategy<Value = Request> {
    let shape = prop_oneof![
        (1u32..9, 1u32..3).prop_map(|(count, cores)| slots(count, cores)),
        (1u32..4, 1u32..4).prop_map(|(count, each)| nodes(count, each, 1)),
        (1u32..4).prop_map(whole),
    ];
    (shape, prop::option::weighted(0.8, 1i64..400)).prop_map(|(request, seconds)| Request {
        duration: seconds.map(|seconds| seconds * MICROS),
        ..request
    })
}

fn suppose() -> impl Strategy<Value = Suppose> {
    prop_oneof![
        (1u32..5).prop_map(|count| Suppose {
            nodes: Some(count),
            ..Suppose::default()
        }),
        (1u32..9).prop_map(|count| Suppose {
            slots: Some(count),
            ..Suppose::default()
        }),
        (1i64..400).prop_map(|seconds| Suppose {
            limit: Some(Span::seconds(seconds)),
            ..Suppose::default()
        }),
    ]
}

fn policies() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("preset = \"fcfs\""),
        Just("preset = \"easy\""),
        Just("preset = \"hybrid\"\nqueue = { depth = 2 }"),
        Just("preset = \"conservative\""),
        Just("preset = \"conservative-replanned\""),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn advice_that_is_followed_starts_the_job(
        policy in policies(),
        jobs in prop::collection::vec(request(), 2..12),
    ) {
        let (mut planner, waiting) = planner(policy, &jobs);
        for job in waiting {
            let told = ask(&mut planner, job, &Suppose::default());
            for advice in told.advice {
                let request = advice.request(&jobs[(job.0 - 1) as usize]);
                prop_assert!(starts(&planner, job, &request), "job {job}: {advice:?}");
            }
        }
    }

    #[test]
    fn what_is_supposed_is_what_would_be(
        policy in policies(),
        jobs in prop::collection::vec(request(), 2..12),
        suppose in suppose(),
    ) {
        let (mut planner, waiting) = planner(policy, &jobs);
        for job in waiting {
            let told = ask(&mut planner, job, &suppose);
            let request = suppose.request(&jobs[(job.0 - 1) as usize]);
            let told = told.start.is_some_and(|start| start.latest == Some(NOW));
            prop_assert_eq!(told, starts(&planner, job, &request), "job {}: {:?}", job, request);
        }
    }
}
