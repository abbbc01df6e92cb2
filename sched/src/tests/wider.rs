//! Jobs that leave their number of nodes open.

use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Choice, Request, Tasks};
use eddy_wire::plan::{Delta, Verdict, Want};
use eddy_wire::time::MICROS;
use proptest::prelude::*;

use super::model::{inventory, nodes};
use super::script::check;
use crate::Planner;

#[test]
fn it_starts_with_the_fewest_and_takes_as_many_as_are_free() {
    check(
        "nodes 2c 2c 2c 2c 2c
         up 0-4
         held 9 0/0 1/0
         want 1 nodes=2 most=4 whole
         want 2 nodes=1 most=9
         plan
         freed 9
         want 3 nodes=2 most=3 whole
         want 4 nodes=3 most=4 whole
         want 5 nodes=1 most=2
         plan
         ----
         start 1 2/0-1 3/0-1 4/0-1
         start 2 0/1 1/1
         done
         head 3 waits for 2 whole nodes; 0 are free now",
    );
}

const NOW: Time = Time(1_000 * MICROS);

fn choice(count: &str, each: u32, seconds: i64) -> Request {
    let count: eddy_wire::jobspec::Count = count.parse().expect("a choice");
    let tasks = Tasks::OnEach;
    Request {
        duration: Some(seconds * MICROS),
        choice: Some(Arc::new(Choice {
            nodes: count.clone(),
            tasks,
        })),
        ..nodes(count.least(), 1, each)
    }
}

fn planner(policy: &str, nodes: u32) -> Planner {
    let mut planner = Planner::new();
    planner.apply(Delta::Policy(policy.into()));
    let all: Vec<(u32, u32, u64)> = (0..nodes).map(|_| (1, 0, 0)).collect();
    planner.apply(Delta::Inventory(inventory(&all)));
    planner.apply(Delta::Up(Idset::first_ids(nodes)));
    planner
}

fn want(planner: &mut Planner, job: u64, request: Request) {
    planner.apply(Delta::Want(JobId(job), Want::of(16, request)));
}

/// Who starts, on how many nodes.
fn starts(planner: &mut Planner) -> Vec<(u64, usize)> {
    let outcome = planner.plan(NOW, 100);
    let verdicts = outcome.verdicts.into_iter();
    let started = verdicts.filter_map(|(job, verdict)| match verdict {
        Verdict::Start(set) => Some((job.0, set.nodes.len())),
        Verdict::Never(_) | Verdict::Preempt { .. } => None,
    });
    started.collect()
}

#[test]
fn what_others_are_promised_it_leaves_alone() {
    let mut planner = planner("preset = \"easy\"", 4);
    let fixed = |count| Request {
        duration: Some(100 * MICROS),
        ..nodes(count, 1, 1)
    };
    want(&mut planner, 9, fixed(2));
    assert_eq!(starts(&mut planner), [(9, 2)]);
    // Two are free, and three are promised from the end of those on.
    want(&mut planner, 1, fixed(3));
    want(&mut planner, 2, choice("1-4", 1, 1_000_000));
    assert_eq!(starts(&mut planner), [(2, 1)]);
    want(&mut planner, 3, choice("1-4", 1, 10));
    assert_eq!(
        starts(&mut planner),
        [(3, 1)],
        "what is free until then it may have"
    );
}

#[test]
fn a_limit_of_its_account_counts_what_it_is_given() {
    let policy = "[queue.limits.account_fraction.default]\ncores = 0.5";
    let mut planner = planner(policy, 8);
    want(&mut planner, 1, choice("1-8", 1, 100));
    let started = starts(&mut planner);
    assert_eq!(started, [(1, 4)], "half of all");
}

#[test]
fn it_is_given_the_fewest_where_more_is_due_to_others() {
    for policy in [
        "preset = \"armada\"",
        "preset = \"conservative-replanned\"",
        "[queue.limits]\npass_fraction = { cores = 0.5 }",
    ] {
        let mut planner = planner(policy, 8);
        want(&mut planner, 1, choice("2-8", 1, 100));
        assert_eq!(starts(&mut planner), [(1, 2)], "{policy}");
    }
}

#[test]
fn only_numbers_that_it_names_will_do() {
    let mut one = planner("preset = \"fcfs\"", 7);
    want(&mut one, 1, choice("1,2,4,8", 1, 100));
    want(&mut one, 2, choice("1-9:2:*", 1, 100));
    want(&mut one, 3, choice("1+", 1, 100));
    assert_eq!(starts(&mut one), [(1, 4), (2, 2), (3, 1)]);
}

proptest! {
    #[test]
    fn it_is_given_the_most_that_will_do_and_are_free(
        free in 1_u32..20,
        least in 1_u32..8,
        more in 1_u32..20,
        step in 1_u32..4,
    ) {
        let mut planner = planner("preset = \"fcfs\"", free);
        let most = least + more;
        want(&mut planner, 1, choice(&format!("{least}-{most}:{step}"), 1, 100));
        let allowed = (least..=most).step_by(step as usize).filter(|nodes| *nodes <= free);
        let expected: Vec<(u64, usize)> = allowed.max().map(|nodes| (1, nodes as usize)).into_iter().collect();
        prop_assert_eq!(starts(&mut planner), expected);
    }
}
