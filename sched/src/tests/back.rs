//! Jobs that gave their cores back and want them again: as many, on the same nodes, and all at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Sharing};
use eddy_wire::plan::{Delta, Outcome, Owner, Verdict, Want};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::time::{MICROS, Time};

use super::model::{inventory, nodes, slots};
use crate::Lines;

const SUSPENDED: JobId = JobId(1);
const OTHER: JobId = JobId(2);
const BEHIND: JobId = JobId(3);

fn at(seconds: i64) -> Time {
    Time((1000 + seconds) * MICROS)
}

/// So many cores of each of these nodes, from the lowest number on, until then.
fn set(cores: &[(u32, u32)], until: i64) -> Arc<ResourceSet> {
    let node = |(rank, cores): &(u32, u32)| {
        let node = NodeSet {
            host: format!("n{rank}").into(),
            cores: Idset::first_ids(*cores),
            gpus: Idset::new(),
            memory: 0,
            ..NodeSet::default()
        };
        (Rank(*rank), node)
    };
    Arc::new(ResourceSet {
        nodes: cores.iter().map(node).collect(),
        starttime: at(0).0,
        expiration: at(until).0,
        ..ResourceSet::default()
    })
}

/// Two nodes of four cores; the first job gave back three of one and one of the other.
fn planner(policy: &str) -> Lines {
    let mut planner = Lines::new();
    planner.apply(Delta::Policy(policy.into()));
    planner.apply(Delta::Inventory(inventory(&[(4, 0, 0), (4, 0, 0)])));
    planner.apply(Delta::Up(Idset::first_ids(2)));
    let held = set(&[(0, 3), (1, 1)], 60);
    planner.apply(Delta::Held(SUSPENDED, Owner::default(), held));
    planner.apply(Delta::Rests(SUSPENDED, None, set(&[(0, 0), (1, 0)], 60)));
    planner
}

fn wants_back(planner: &mut Lines) {
    let cores: BTreeMap<Rank, u32> = [(Rank(0), 3), (Rank(1), 1)].into();
    let want = Want {
        back: Some(Arc::new(cores)),
        ..Want::of(31, timed(slots(4, 1), 30))
    };
    planner.apply(Delta::Want(SUSPENDED, want));
}

fn timed(request: Request, seconds: i64) -> Request {
    Request {
        duration: Some(seconds * MICROS),
        ..request
    }
}

/// The cores that a job starts on, by rank.
fn started(outcome: &Outcome, job: JobId) -> Option<Vec<(u32, String)>> {
    outcome
        .verdicts
        .iter()
        .find_map(|(id, verdict)| match verdict {
            Verdict::Start(set) if *id == job => {
                let nodes = set.nodes.iter();
                Some(
                    nodes
                        .map(|(rank, node)| (rank.0, node.cores.to_string()))
                        .collect(),
                )
            }
            _ => None,
        })
}

#[test]
fn as_many_come_back_on_each_node_and_no_sooner_than_all_do() {
    for policy in [
        "preset = \"fcfs\"",
        "preset = \"easy\"",
        "preset = \"conservative\"",
    ] {
        let mut planner = planner(policy);
        // Other cores than it had are as good; two of the first node are too few.
        planner.apply(Delta::Held(OTHER, Owner::default(), set(&[(0, 2)], 20)));
        wants_back(&mut planner);
        assert_eq!(planner.plan(at(1), 100).verdicts, [], "{policy}");
        planner.apply(Delta::Freed(OTHER));
        planner.apply(Delta::Held(
            OTHER,
            Owner::default(),
            set(&[(0, 1), (1, 2)], 20),
        ));
        let outcome = planner.plan(at(2), 100);
        let cores = started(&outcome, SUSPENDED);
        let expected = vec![(0, "1-3".to_owned()), (1, "2".to_owned())];
        assert_eq!(cores, Some(expected), "{policy}");
    }
}

#[test]
fn what_it_waits_for_is_kept_from_those_who_would_take_longer() {
    let mut planner = planner("preset = \"easy\"");
    planner.apply(Delta::Held(OTHER, Owner::default(), set(&[(0, 2)], 20)));
    wants_back(&mut planner);
    // One core of the first node and three of the second are nobody's by then; it would have more.
    planner.apply(Delta::Want(BEHIND, Want::of(16, timed(slots(5, 1), 100))));
    assert_eq!(planner.plan(at(1), 100).verdicts, []);
    planner.apply(Delta::Unwant(BEHIND));
    // This is over by then.
    planner.apply(Delta::Want(BEHIND, Want::of(16, timed(slots(5, 1), 5))));
    assert!(started(&planner.plan(at(2), 100), BEHIND).is_some());
}

/// A node of two cores and a GPU.
fn of_one_node(policy: &str) -> Lines {
    let mut planner = Lines::new();
    planner.apply(Delta::Policy(policy.into()));
    planner.apply(Delta::Inventory(inventory(&[(2, 1, 0)])));
    planner.apply(Delta::Up(Idset::first_ids(1)));
    planner
}

/// So many of its cores and the GPU: until 60 s, or without an end where there are none.
fn with_gpu(cores: u32) -> Arc<ResourceSet> {
    let mut all = ResourceSet::clone(&set(&[(0, cores)], 60));
    for node in all.nodes.values_mut() {
        node.gpus = Idset::first_ids(1);
    }
    if cores == 0 {
        all.expiration = 0;
    }
    Arc::new(all)
}

fn gpu() -> Request {
    Request {
        gpus_per_slot: 1,
        ..timed(slots(1, 1), 10)
    }
}

/// It is to go on for so many seconds on its two cores.
fn wants_two_back(planner: &mut Lines, seconds: i64) {
    let want = Want {
        back: Some(Arc::new([(Rank(0), 2)].into())),
        ..Want::of(31, timed(slots(2, 1), seconds))
    };
    planner.apply(Delta::Want(SUSPENDED, want));
}

/// Where accounts take turns, and the other waited so long that something is promised to it.
#[test]
fn who_goes_on_does_not_wait_for_one_who_waits_for_what_it_holds() {
    let mut planner = of_one_node("preset = \"armada\"\nqueue.reserve_after = \"1s\"");
    planner.apply(Delta::Rests(SUSPENDED, None, with_gpu(0)));
    let whole = Request {
        sharing: Sharing::Exclusive,
        ..nodes(1, 1, 1)
    };
    let behind = Want {
        eligible: at(0),
        ..Want::of(16, whole)
    };
    planner.apply(Delta::Want(BEHIND, behind));
    assert_eq!(planner.plan(at(5), 100).verdicts, []);
    // Neither has an end.
    let want = Want {
        back: Some(Arc::new([(Rank(0), 2)].into())),
        ..Want::of(31, slots(2, 1))
    };
    planner.apply(Delta::Want(SUSPENDED, want));
    assert!(started(&planner.plan(at(6), 100), SUSPENDED).is_some());
}

#[test]
fn what_is_left_to_it_is_nobody_elses_until_it_is_over() {
    let mut planner = of_one_node("preset = \"fcfs\"");
    planner.apply(Delta::Rests(SUSPENDED, None, with_gpu(0)));
    planner.apply(Delta::Want(BEHIND, Want::of(16, gpu())));
    planner.apply(Delta::Want(OTHER, Want::of(31, timed(slots(2, 1), 10))));
    let outcome = planner.plan(at(1), 100);
    assert!(started(&outcome, OTHER).is_some() && started(&outcome, BEHIND).is_none());
    planner.apply(Delta::Unwant(OTHER));
    assert_eq!(planner.plan(at(2), 100).verdicts, [], "the GPU is kept");
    // It wants nothing any more, and keeps what it has.
    planner.apply(Delta::Unwant(SUSPENDED));
    assert_eq!(planner.plan(at(2), 100).verdicts, []);
    planner.apply(Delta::Freed(SUSPENDED));
    assert!(started(&planner.plan(at(3), 100), BEHIND).is_some());
}

#[test]
fn nobody_is_promised_what_is_left_to_it_from_an_end_that_nobody_knows() {
    let mut planner = of_one_node("preset = \"conservative\"\n[queue]\ndefault_limit = \"20s\"");
    planner.apply(Delta::Rests(SUSPENDED, None, with_gpu(0)));
    planner.apply(Delta::Want(OTHER, Want::of(16, gpu())));
    assert_eq!(planner.plan(at(10), 100).verdicts, []);
    // It is to go on for longer than that.
    wants_two_back(&mut planner, 30);
    assert!(started(&planner.plan(at(11), 100), SUSPENDED).is_some());
}

#[test]
fn nobody_keeps_a_promise_of_what_is_left_to_it() {
    let mut planner = of_one_node("preset = \"conservative\"");
    planner.apply(Delta::Held(SUSPENDED, Owner::default(), with_gpu(2)));
    let node = Request {
        sharing: Sharing::Exclusive,
        ..timed(nodes(1, 1, 1), 10)
    };
    planner.apply(Delta::Want(OTHER, Want::of(16, node)));
    assert_eq!(planner.plan(at(10), 100).verdicts, []);
    planner.apply(Delta::Rests(SUSPENDED, None, with_gpu(0)));
    planner.plan(at(20), 100);
    wants_two_back(&mut planner, 50);
    assert!(started(&planner.plan(at(30), 100), SUSPENDED).is_some());
}
