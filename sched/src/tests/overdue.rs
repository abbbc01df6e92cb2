//! Whoever waits longer than `reserve_after` begins, also where accounts take turns and nothing else is
//! reserved: what is told of him then is kept, and whoever comes keeps off it.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Request;
use eddy_wire::plan::{Delta, Explained, Outcome, Owner, Question, Suppose, Verdict, Want};
use eddy_wire::time::{MICROS, Span};
use proptest::prelude::*;

use super::model::{inventory, slots};
use crate::Planner;
use crate::cleanup::CLEANUP;

const ALL: u32 = 10_000;
const AFTER: Span = Span::seconds(20);
/// Longer than what any waits who is promised a start after that: so many with the longest limit.
const BOUND: Span = Span::seconds(20 + 14 * 50);

/// An instance whose jobs end as late as they may.
struct Run {
    planner: Planner,
    now: Time,
    last: u64,
    /// What those who come are worth.
    urgency: u8,
    waiting: BTreeMap<JobId, Want>,
    running: BTreeMap<JobId, Time>,
    told: BTreeMap<JobId, Time>,
    again: Option<Time>,
}

impl Run {
    fn new(preset: &str, cores: &[u32]) -> Run {
        let policy = format!("preset = \"{preset}\"");
        Run::by(&policy, cores)
    }

    fn by(policy: &str, cores: &[u32]) -> Run {
        let sizes: Vec<(u32, u32, u64)> = cores.iter().map(|&cores| (cores, 0, 0)).collect();
        let mut planner = Planner::new();
        let policy = format!("{policy}\nqueue.reserve_after = \"20s\"");
        planner.apply(Delta::Policy(policy.into()));
        planner.apply(Delta::Inventory(inventory(&sizes)));
        planner.apply(Delta::Up(Idset::first_ids(sizes.len() as u32)));
        Run {
            planner,
            now: Time(MICROS),
            last: 0,
            urgency: 16,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            told: BTreeMap::new(),
            again: None,
        }
    }

    /// A job of a user; by number of slots and limit.
    fn want(&mut self, user: u32, count: u32, seconds: Option<i64>) -> JobId {
        self.last += 1;
        let job = JobId(self.last);
        let duration = seconds.map(|seconds| seconds * MICROS);
        let request = Request {
            duration,
            ..slots(count, 1)
        };
        let want = Want {
            owner: Owner {
                user,
                ..Owner::default()
            },
            submitted: self.now,
            eligible: self.now,
            ..Want::of(self.urgency, request)
        };
        self.waiting.insert(job, want.clone());
        self.planner.apply(Delta::Want(job, want));
        job
    }

    /// Plans and records what starts; what was promised holds.
    fn plan(&mut self) {
        let question = Question {
            tag: 1,
            jobs: None,
            most: 1_000,
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        };
        self.planner.apply(Delta::Explain(question));
        let outcome = self.planner.plan(self.now, ALL);
        assert!(!outcome.unfinished);
        self.again = outcome.again.filter(|again| *again > self.now);
        self.record(&outcome);
        let told = outcome.answers.into_iter().flat_map(|answer| answer.jobs);
        for Explained { job, start, .. } in told {
            let is_late = |want: &Want| self.now - want.eligible >= AFTER;
            let latest = start.and_then(|start| start.latest);
            if let Some(at) = latest.filter(|_| self.waiting.get(&job).is_some_and(is_late)) {
                let first = *self.told.entry(job).or_insert(at);
                assert!(at <= first, "job {job}: told {first:?}, and now {at:?}");
            }
        }
    }

    fn record(&mut self, outcome: &Outcome) {
        for (job, verdict) in &outcome.verdicts {
            let Verdict::Start(set) = verdict else {
                panic!("all fit, and nobody may be taken from");
            };
            let want = self.waiting.remove(job).expect("it waits");
            let held = Delta::Held(*job, want.owner, Arc::clone(set));
            self.planner.apply(held);
            let end = want
                .request
                .duration
                .map(|limit| self.now.after(Span(limit)).after(CLEANUP));
            self.running.insert(*job, end.unwrap_or(Time(i64::MAX)));
            let told = self.told.get(job);
            assert!(told.is_none_or(|told| self.now <= *told), "job {job}");
            assert!(
                self.now - want.eligible < BOUND,
                "job {job} waited too long"
            );
        }
    }

    fn end(&mut self, job: JobId) {
        self.running.remove(&job);
        self.planner.apply(Delta::Freed(job));
    }

    /// On to when something happens.
    fn go_on(&mut self) {
        let ends = self.running.values().copied().chain(self.again);
        self.now = ends.min().expect("something happens while others wait");
        let over = self.running.iter().filter(|(_, end)| **end <= self.now);
        let over: Vec<JobId> = over.map(|(job, _)| *job).collect();
        over.into_iter().for_each(|job| self.end(job));
    }
}

/// Two jobs of one core come whenever one is over, so that ten cores are never free together.
fn starts_among_small_ones(policy: &str) {
    let mut run = Run::by(policy, &[10]);
    for at in 0..12 {
        run.want(at % 3, 1, Some(3 + i64::from(at)));
    }
    run.plan();
    // Whoever comes is before it.
    run.urgency = 15;
    let wide = run.want(7, 10, Some(5));
    run.urgency = 16;
    for at in 0..200 {
        run.plan();
        if !run.waiting.contains_key(&wide) {
            return;
        }
        run.go_on();
        run.want(at % 3, 1, Some(3 + i64::from(at % 11)));
        run.want(at % 2, 1, Some(3 + i64::from(at % 7)));
        let small = run.waiting.keys().copied().find(|job| *job != wide);
        if let Some(small) = small.filter(|_| run.waiting.len() > 10) {
            // Some give up: those who wait are not ever more.
            run.waiting.remove(&small);
            run.planner.apply(Delta::Unwant(small));
        }
    }
    panic!("job {wide} never starts: {policy}");
}

#[test]
fn a_wide_job_starts_among_small_ones_that_keep_coming() {
    starts_among_small_ones("preset = \"armada\"");
    starts_among_small_ones("preset = \"armada-legacy\"");
    starts_among_small_ones("preset = \"fcfs\"\nqueue.walk = \"skip\"");
}

/// Those who came since and are more urgent had their starts reserved first, again and again.
#[test]
fn a_wide_job_starts_among_small_ones_that_are_before_it() {
    starts_among_small_ones("preset = \"easy\"");
    starts_among_small_ones("preset = \"conservative-replanned\"");
    starts_among_small_ones("preset = \"hybrid-8\"\nqueue.replan_every = \"5s\"");
    // Its start was given to whoever came and is worth more.
    let drifts = "priority = { order = [\"urgency + 0 * wait\"], refresh = \"1s\" }\nqueue.displace_margin = 0";
    let kept = "queue.reservations = \"kept\"\nqueue.depth = 4";
    starts_among_small_ones(&format!("preset = \"easy\"\n{drifts}\n{kept}"));
}

/// It need not wait for something else to happen.
#[test]
fn who_waits_too_long_is_promised_a_start_in_time() {
    for policy in [
        "preset = \"fcfs\"\nqueue.walk = \"skip\"",
        "preset = \"armada-legacy\"",
    ] {
        let mut run = Run::by(policy, &[2]);
        run.want(1, 1, Some(1000));
        run.plan();
        run.want(2, 2, Some(5));
        run.plan();
        assert_eq!(run.again, Some(run.now.after(AFTER)), "{policy}");
    }
}

/// None of them has an end before that.
#[test]
fn a_wide_job_starts_though_its_start_is_beyond_the_window() {
    starts_among_small_ones("preset = \"easy\"\nqueue.window = \"1s\"");
}

#[test]
fn whoever_has_no_end_does_not_begin_before_one_who_waited_too_long() {
    no_end_begins("preset = \"armada\"");
    no_end_begins("preset = \"fcfs\"\nqueue.walk = \"skip\"");
    no_end_begins("preset = \"easy\"");
}

fn no_end_begins(policy: &str) {
    let mut run = Run::by(policy, &[2]);
    let first = run.want(1, 1, None);
    run.plan();
    let wide = run.want(2, 2, Some(5));
    run.plan();
    run.now = run.now.after(AFTER);
    let (endless, short) = (run.want(3, 1, None), run.want(3, 1, Some(5)));
    run.plan();
    let begun = |run: &Run, job| run.running.contains_key(&job);
    assert!(!begun(&run, endless) && begun(&run, short));
    run.end(first);
    run.end(short);
    run.plan();
    assert!(begun(&run, wide) && !begun(&run, endless));
}

/// What the short one was promised kept the long one off by it, and it was moved before him.
#[test]
fn nobody_passes_who_waited_longer_and_loses_his_promise() {
    for preset in ["armada", "armada-legacy"] {
        // The first is given ten seconds more, or ends ten seconds late.
        for is_given in [true, false] {
            let mut run = Run::new(preset, &[2]);
            let first = run.want(1, 2, Some(100));
            run.plan();
            let begun = run.now;
            let (long, short) = (run.want(2, 2, Some(50)), run.want(3, 2, Some(5)));
            run.now = run.now.after(AFTER);
            run.plan();
            let end = run.told[&long];
            assert_eq!(run.told[&short], end.after(Span::seconds(60)));
            run.told.clear();
            if is_given {
                let mut set = inventory(&[(2, 0, 0)]).as_ref().clone();
                (set.starttime, set.expiration) = (begun.0, begun.0 + 110 * MICROS);
                let owner = Owner {
                    user: 1,
                    ..Owner::default()
                };
                run.planner.apply(Delta::Held(first, owner, Arc::new(set)));
                run.plan();
                assert_eq!(run.told[&long], end.after(Span::seconds(10)));
            }
            for late in 0..10 {
                run.now = end.after(Span::seconds(late));
                run.told.clear();
                run.plan();
            }
            run.now = end.after(Span::seconds(10));
            run.end(first);
            run.told.clear();
            run.plan();
            assert!(run.running.contains_key(&long), "{preset}");
        }
    }
}

#[test]
fn two_without_an_end_do_not_keep_each_other_waiting() {
    two_without_an_end("preset = \"armada\"");
    two_without_an_end("preset = \"fcfs\"\nqueue.walk = \"skip\"");
    two_without_an_end("preset = \"easy\"");
}

fn two_without_an_end(policy: &str) {
    let mut run = Run::by(policy, &[2]);
    let first = run.want(1, 1, None);
    run.plan();
    let wide = [2, 3, 4].map(|user| run.want(user, 2, None));
    run.now = run.now.after(AFTER);
    run.plan();
    run.end(first);
    for job in wide {
        run.plan();
        assert!(run.running.contains_key(&job));
        run.end(job);
    }
}

/// Cores of each node; jobs, each of a user, with slots and limit, and whether it comes while others wait.
type Workload = (Vec<u32>, Vec<(u32, u32, i64, u8)>);

fn workload() -> impl Strategy<Value = Workload> {
    let cores = prop::collection::vec(1u32..5, 1..4);
    let jobs = prop::collection::vec((0u32..4, 1u32..8, 1i64..40, 0u8..3), 1..80);
    (cores, jobs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_waits_for_ever_and_what_is_told_after_that_time_is_kept(
        (cores, jobs) in workload(),
        preset in prop::sample::select(vec!["armada", "armada-legacy"]),
    ) {
        let mut run = Run::new(preset, &cores);
        let most: u32 = cores.iter().sum();
        let mut coming = jobs.into_iter().peekable();
        while coming.peek().is_some() || !run.waiting.is_empty() {
            // No more wait than are promised a start at a time.
            while let Some((user, count, limit, _)) =
                coming.next_if(|(.., more)| run.waiting.is_empty() || *more > 0 && run.waiting.len() < 14)
            {
                run.want(user, count.min(most), Some(limit));
            }
            run.plan();
            if !run.waiting.is_empty() {
                run.go_on();
            } else if let Some(job) = run.running.keys().next().copied() {
                run.end(job);
            }
        }
    }
}
