//! Jobs that end later than they were to, so that the time of a promise passes:
//! when all is free at last somebody starts, the first who waits where nobody
//! behind him holds a promise, and nobody waits for a promise that is void.

use std::collections::BTreeMap;

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Sharing};
use eddy_wire::plan::{Delta, Owner, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Span};
use proptest::prelude::*;

use super::model::{inventory, nodes, slots};
use crate::Planner;
use crate::cleanup::CLEANUP;

const CORES: u32 = 2;

/// An instance, who waits in it, and until when those who run were to have ended.
struct Run {
    planner: Planner,
    now: Time,
    waiting: BTreeMap<JobId, Request>,
    running: BTreeMap<JobId, Time>,
}

impl Run {
    fn new(ranks: u32, policy: &str) -> Run {
        let mut planner = Planner::new();
        planner.apply(Delta::Policy(policy.into()));
        let all = vec![(CORES, 0, 0); ranks as usize];
        planner.apply(Delta::Inventory(inventory(&all)));
        planner.apply(Delta::Up(Idset::first_ids(ranks)));
        Run {
            planner,
            now: Time(MICROS),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
        }
    }

    fn want(&mut self, job: u64, request: Request) {
        let job = JobId(job);
        self.waiting.insert(job, request.clone());
        self.planner.apply(Delta::Want(job, Want::of(16, request)));
    }

    /// Plans and gives who starts, which is recorded.
    fn plan(&mut self) -> Vec<JobId> {
        let mut started = Vec::new();
        loop {
            let outcome = self.planner.plan(self.now, 2);
            for (job, verdict) in outcome.verdicts {
                let request = self.waiting.remove(&job).expect("it waits");
                if let Verdict::Start(set) = verdict {
                    self.planner.apply(Delta::Held(job, Owner::default(), set));
                    let limit = request.duration.map_or(MICROS, |limit| limit + CLEANUP.0);
                    self.running.insert(job, Time(self.now.0 + limit));
                    started.push(job);
                }
            }
            if !outcome.unfinished {
                return started;
            }
        }
    }

    fn end(&mut self, job: JobId) {
        self.running.remove(&job).expect("it runs");
        self.planner.apply(Delta::Freed(job));
    }
}

fn whole(ranks: u32, limit: Option<i64>) -> Request {
    Request {
        sharing: Sharing::Exclusive,
        duration: limit.map(|seconds| seconds * MICROS),
        ..nodes(ranks, 1, 1)
    }
}

#[test]
fn those_behind_a_late_promise_stand_back() {
    let mut run = Run::new(3, "preset = \"conservative\"");
    run.want(1, whole(3, Some(1)));
    assert_eq!(run.plan(), [JobId(1)]);
    run.want(2, whole(3, Some(1)));
    run.want(3, whole(3, Some(1)));
    run.want(4, slots(1, 1));
    assert_eq!(run.plan(), []);
    // Job 2 was promised the end of job 1, and 3 the end of 2; the last could have it for ever.
    run.now = run.now.after(CLEANUP).after(CLEANUP);
    run.end(JobId(1));
    assert_eq!(run.plan(), [JobId(2)]);
}

fn request() -> impl Strategy<Value = Request> {
    let shape = prop_oneof![
        (1u32..5).prop_map(|count| slots(count, 1)),
        (1u32..4).prop_map(|count| whole(count, None)),
    ];
    (shape, prop::option::of(1i64..30)).prop_map(|(request, seconds)| Request {
        duration: seconds.map(|seconds| seconds * MICROS),
        ..request
    })
}

/// Who comes, after how many ends, and how late each end is, in seconds.
fn workload() -> impl Strategy<Value = Vec<(Request, u8, i64)>> {
    let late = prop_oneof![3 => Just(0i64), 1 => -10i64..0, 2 => 1i64..60];
    prop::collection::vec((request(), 0u8..6, late), 1..20)
}

/// Who starts when all is free.
#[derive(Clone, Copy)]
enum Starts {
    First,
    /// Kept promises behind the first may be in its way.
    Somebody,
}

/// Plays it to its end and looks whenever all is free.
fn play(policy: &str, jobs: &[(Request, u8, i64)], starts: Starts) {
    let mut run = Run::new(3, policy);
    let mut coming = (1..).zip(jobs).peekable();
    let mut ends = 0;
    loop {
        while let Some((job, (request, ..))) = coming.next_if(|(_, (_, after, _))| *after <= ends) {
            run.want(job, request.clone());
        }
        let all_is_free = run.running.is_empty();
        let first = run.waiting.keys().next().copied();
        let started = run.plan();
        if let Some(first) = first.filter(|_| all_is_free) {
            let right = match starts {
                Starts::First => started.contains(&first),
                Starts::Somebody => !started.is_empty(),
            };
            assert!(
                right,
                "all is free, and job {first} waits; {started:?} start"
            );
        }
        let next = run.running.iter().min_by_key(|(_, until)| **until);
        let Some((&job, &until)) = next else {
            if coming.peek().is_none() {
                return;
            }
            ends += 1;
            continue;
        };
        let late = jobs[(job.0 - 1) as usize].2;
        run.now = run.now.after(Span(1)).max(until.after(Span::seconds(late)));
        run.end(job);
        ends += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn easy_serves_the_first(jobs in workload()) {
        play("preset = \"easy\"", &jobs, Starts::First);
    }

    #[test]
    fn hybrid_serves_somebody(jobs in workload()) {
        play("preset = \"hybrid\"\nqueue = { depth = 3 }", &jobs, Starts::Somebody);
    }

    #[test]
    fn conservative_serves_somebody(jobs in workload()) {
        play("preset = \"conservative\"", &jobs, Starts::Somebody);
    }

    #[test]
    fn replanned_serves_the_first(jobs in workload()) {
        play("preset = \"conservative-replanned\"", &jobs, Starts::First);
    }
}

#[test]
fn what_a_grant_that_shrinks_leaves_is_for_who_waits() {
    for policy in ["preset = \"fcfs\"", "preset = \"easy\""] {
        let mut run = Run::new(3, policy);
        let all = whole(3, None);
        run.planner.apply(Delta::Want(JobId(1), Want::of(16, all)));
        let outcome = run.planner.plan(run.now, 100);
        let [(_, Verdict::Start(set))] = &outcome.verdicts[..] else {
            panic!("{outcome:?}");
        };
        let held = |set: ResourceSet| Delta::Held(JobId(1), Owner::default(), set.into());
        run.planner.apply(held(set.as_ref().clone()));
        run.want(2, whole(1, None));
        assert_eq!(run.plan(), []);
        run.planner.apply(held(set.restrict(&Idset::first_ids(2))));
        assert_eq!(run.plan(), [JobId(2)], "{policy}");
    }
}
