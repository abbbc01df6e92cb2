//! What the planner says to scripts, and the few cases that scripts cannot write.

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing};
use eddy_wire::plan::{Delta, Outcome, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;

use super::model::{inventory, slots};
use super::script::check;
use crate::{Capacity, Planner, feasible};

#[test]
fn starts_by_priority_then_by_id_on_low_ranks_and_cores() {
    check(
        "nodes 2c 2c
         up 0-1
         want 3
         want 1
         want 2 at=31
         plan
         ----
         start 2 0/0
         start 1 0/1
         start 3 1/0
         done",
    );
}

#[test]
fn head_that_waits_blocks_what_would_fit() {
    check(
        "nodes 4c
         up 0
         want 1 cores=3
         want 2 cores=2
         want 3
         plan
         freed 1
         unwant 1
         plan
         ----
         start 1 0/0-2
         head 2 waits for 2 cores on one node; 1 is free now
         start 2 0/0-1
         start 3 0/2
         done",
    );
}

#[test]
fn what_can_never_start_does_not_block() {
    check(
        "nodes 64c 64c,1g,8m
         up 0-1
         want 1 cores=96
         want 2 nodes=3
         want 3 gpus=2
         want 4 slots=200
         want 5 nodes=2 gpus=1
         want 6 slots=4 cores=33
         want 7
         plan
         plan
         ----
         never 1 asks for 96 cores on one node; the largest has 64
         never 2 asks for 3 nodes; the instance has 2
         never 3 asks for 2 gpus on one node; the largest has 1
         never 4 asks for 200 cores; the instance has 128
         never 5 asks for 2 gpus; the instance has 1
         never 6 asks for 132 cores; the instance has 128
         start 7 0/0
         done
         done",
    );
}

#[test]
fn never_says_what_slots_are_too_many() {
    check(
        "nodes 5c 5c
         up 0-1
         want 1 slots=3 cores=3
         want 2 nodes=2 slots=2 cores=2 node-mem=4 whole
         plan
         ----
         never 1 asks for 3 slots of 3 cores; the instance has 2
         start 2 0/0-4 1/0-4
         done",
    );
}

#[test]
fn memory_beyond_every_node_is_never() {
    check(
        "nodes 4c,8m 4c,6m
         up 0-1
         want 1 node-mem=9
         want 2 nodes=2 node-mem=7
         plan
         ----
         never 1 asks for 9 bytes of memory on one node; the largest has 8
         never 2 asks for 2 nodes with 1 core and 7 bytes of memory; the instance has 1
         done",
    );
}

#[test]
fn whole_nodes_take_all_and_wait_for_idle_ones() {
    check(
        "nodes 4c,1g,8m 4c,1g,8m 4c,1g,8m
         up 0-2
         want 1
         want 2 nodes=1 whole
         want 3 nodes=2 whole
         plan
         freed 1
         unwant 1
         plan
         freed 2
         unwant 2
         plan
         ----
         start 1 0/0
         start 2 1/0-3g0m8
         head 3 waits for 2 whole nodes; 1 is free now
         start 3 0/0-3g0m8 2/0-3g0m8
         done
         done",
    );
}

#[test]
fn nodes_get_their_slots_each() {
    check(
        "nodes 2c 4c 4c
         up 0-2
         want 1 nodes=2 slots=2 cores=2
         want 2 nodes=1 slots=2
         want 3
         plan
         ----
         start 1 1/0-3 2/0-3
         start 2 0/0-1
         head 3 waits for 1 core; 0 are free now",
    );
}

#[test]
fn slots_spread_and_are_never_split() {
    check(
        "nodes 3c 3c 3c
         up 0-2
         want 1 slots=3 cores=2
         want 2 cores=2
         plan
         ----
         start 1 0/0-1 1/0-1 2/0-1
         head 2 waits for 2 cores on one node; 1 is free now",
    );
}

#[test]
fn slots_on_whole_nodes_take_no_more_of_them_than_need_be() {
    let mut planner = Planner::new();
    let policy = "preset = \"easy\"\n[placement]\nrank = \"spread\"";
    planner.apply(Delta::Policy(policy.into()));
    planner.apply(Delta::Inventory(inventory(&[(4, 0, 0); 3])));
    planner.apply(Delta::Up(Idset::first_ids(3)));
    let whole = Request {
        sharing: Sharing::Exclusive,
        ..slots(2, 1)
    };
    for job in 1..=3 {
        let want = Want::of(16, whole.clone());
        planner.apply(Delta::Want(JobId(job), want));
    }
    let outcome = planner.plan(Time(1), 10);
    let nodes = outcome.verdicts.iter().map(|(_, verdict)| match verdict {
        Verdict::Start(set) => (set.nodes.len(), set.ncores()),
        other => panic!("{other:?}"),
    });
    assert_eq!(nodes.collect::<Vec<_>>(), [(1, 4); 3]);
}

#[test]
fn gpus_and_cores_must_be_on_the_same_node() {
    check(
        "nodes 1c,1g 4c
         up 0-1
         held 9 0/0
         want 1 gpus=1
         plan
         ----
         head 1 waits for 1 slot of 1 core and 1 gpu; 0 are free now",
    );
}

#[test]
fn memory_is_counted_per_node_core_and_task() {
    check(
        "nodes 8c,16m 8c,16m
         up 0-1
         want 1 node-mem=4 slots=2
         want 2 core-mem=2 slots=2 cores=2
         want 3 task-mem=3 slots=2 tasks=3
         want 4 node-mem=11
         plan
         ----
         start 1 0/0-1m4
         start 2 0/2-5m8
         start 3 1/0-1m12
         head 4 waits for 11 bytes of memory on one node; 4 are free now",
    );
}

#[test]
fn memory_that_nobody_knows_is_no_limit() {
    check(
        "nodes 2c
         up 0
         want 1 node-mem=1000
         want 2 node-mem=1000
         plan
         ----
         start 1 0/0
         start 2 0/1
         done",
    );
}

#[test]
fn ranks_out_of_service_get_nothing_and_are_named() {
    check(
        "nodes 4c 8c 4c
         want 1 nodes=1
         plan
         up 0-2
         down 1-2
         want 1 nodes=2
         plan
         want 1 cores=6
         plan
         up 1
         plan
         ----
         head 1 waits for 1 node; only 0 are in service (down or drained: ranks 0-2)
         head 1 waits for 2 nodes; only 1 is in service (down or drained: ranks 1-2)
         head 1 waits for 6 cores on one node; only 4 are in service (down or drained: ranks 1-2)
         start 1 1/0-5
         done",
    );
}

#[test]
fn nothing_is_refused_before_there_are_nodes() {
    check(
        "up 0
         want 1
         plan
         nodes
         plan
         nodes 1c
         plan
         ----
         head 1 waits for the instance to have nodes
         head 1 waits for the instance to have nodes
         start 1 0/0
         done",
    );
}

#[test]
fn work_goes_on_where_a_rank_goes_down() {
    check(
        "nodes 2c
         up 0
         want 1
         plan
         held 1 0/0
         down 0
         up 0
         want 2 cores=2
         plan
         ----
         start 1 0/0
         done
         head 2 waits for 2 cores on one node; 1 is free now",
    );
}

#[test]
fn a_proposal_is_said_once_and_held_until_given_back() {
    check(
        "nodes 1c
         up 0
         want 1
         want 2
         plan
         want 1 at=1
         plan
         freed 1
         plan
         unwant 2
         plan
         ----
         start 1 0/0
         head 2 waits for 1 core; 0 are free now
         head 2 waits for 1 core; 0 are free now
         start 2 0/0
         head 1 waits for 1 core; 0 are free now
         start 1 0/0
         done",
    );
}

#[test]
fn a_request_that_changed_withdraws_its_proposal() {
    check(
        "nodes 4c
         up 0
         want 1 cores=1
         plan
         want 1 cores=4
         plan
         ----
         start 1 0/0
         done
         start 1 0/0-3
         done",
    );
}

#[test]
fn what_is_recorded_stays_held_when_the_want_ends() {
    check(
        "nodes 1c
         up 0
         want 1
         plan
         held 1 0/0
         unwant 1
         want 2
         plan
         ----
         start 1 0/0
         done
         head 2 waits for 1 core; 0 are free now",
    );
}

#[test]
fn next_attempt_waits_until_the_first_is_free() {
    check(
        "nodes 4c
         up 0
         held 1 0/2
         want 1
         held 1 0/2
         plan
         freed 1
         plan
         ----
         done
         start 1 0/0
         done",
    );
}

#[test]
fn held_elsewhere_than_proposed_frees_the_proposal() {
    check(
        "nodes 2c 2c
         up 0-1
         want 1
         plan
         held 1 1/1
         want 2 slots=3
         plan
         ----
         start 1 0/0
         done
         start 2 0/0-1 1/0
         done",
    );
}

#[test]
fn what_two_records_hold_is_free_after_both() {
    check(
        "nodes 2c
         up 0
         held 1 0/0-1
         held 2 0/0
         freed 1
         want 3 slots=2
         plan
         freed 2
         plan
         ----
         head 3 waits for 2 cores; 1 is free now
         start 3 0/0-1
         done",
    );
}

#[test]
fn another_inventory_keeps_what_is_held() {
    check(
        "nodes 2c 2c
         up 0-1
         held 1 0/0 1/0
         nodes 4c
         want 2 slots=3
         plan
         nodes 4c 4c
         freed 1
         want 3 slots=5
         plan
         ----
         start 2 0/1-3
         done
         start 3 0/0 1/0-3
         done",
    );
}

#[test]
fn a_pass_is_bounded_and_says_so() {
    check(
        "nodes 4c
         up 0
         want 1
         want 2 cores=9
         want 3
         plan 2
         plan 0
         plan 1
         ----
         start 1 0/0
         never 2 asks for 9 cores on one node; the largest has 4
         unfinished
         unfinished
         start 3 0/1
         done",
    );
}

#[test]
fn a_grant_ends_by_its_limit_and_not_after_its_inventory() {
    let mut set = (*inventory(&[(4, 0, 0), (4, 0, 0)])).clone();
    set.expiration = 1_000;
    set.properties.insert("fast".to_owned(), Idset::one(1));
    set.properties.insert("near".to_owned(), Idset::one(0));
    let mut planner = Planner::new();
    planner.apply(Delta::Inventory(set.into()));
    planner.apply(Delta::Up(Idset::first_ids(2)));
    for (job, duration) in [(1, Some(100)), (2, Some(i64::MAX)), (3, None), (4, Some(0))] {
        planner.apply(Delta::Want(
            JobId(job),
            Want::of(
                16,
                Request {
                    duration,
                    ..slots(1, 1)
                },
            ),
        ));
    }
    let grants = |outcome: Outcome| -> Vec<ResourceSet> {
        let set = |(_, verdict)| match verdict {
            Verdict::Start(set) => ResourceSet::clone(&set),
            Verdict::Never(reason) => panic!("fits: {reason}"),
            Verdict::Preempt { .. } => panic!("nobody may be taken from"),
        };
        outcome.verdicts.into_iter().map(set).collect()
    };
    let given = grants(planner.plan(Time(50), 10));
    let times: Vec<_> = given
        .iter()
        .map(|set| (set.starttime, set.expiration))
        .collect();
    assert_eq!(times, [(50, 150), (50, 1_000), (50, 1_000), (50, 1_000)]);
    assert_eq!(given[0].properties.keys().collect::<Vec<_>>(), ["near"]);
    assert_eq!(given[0].nslots, Some(1));
    planner.apply(Delta::Want(JobId(5), Want::of(16, slots(1, 1))));
    let late = &grants(planner.plan(Time(2_000), 10))[0];
    assert_eq!((late.starttime, late.expiration), (2_000, 2_001));
}

#[test]
fn grants_can_be_written_down_and_read() {
    let mut planner = Planner::new();
    planner.apply(Delta::Inventory(inventory(&[
        (4, 1, 1 << 30),
        (4, 1, 1 << 30),
    ])));
    planner.apply(Delta::Up(Idset::first_ids(2)));
    let request = Request {
        gpus_per_slot: 1,
        memory: MemoryNeed::PerCore(5),
        ..slots(2, 3)
    };
    planner.apply(Delta::Want(JobId(1), Want::of(16, request)));
    let outcome = planner.plan(Time(5), 1);
    let (_, Verdict::Start(set)) = &outcome.verdicts[0] else {
        panic!("fits")
    };
    let text = serde_json::to_string(&**set).expect("sets are JSON");
    assert_eq!(
        serde_json::from_str::<ResourceSet>(&text).expect("is read"),
        **set
    );
}

#[test]
fn amounts_beyond_every_number_are_refused_not_wrapped() {
    let set = inventory(&[(4, 4, 8)]);
    let huge = Request {
        nodes: Some(u32::MAX),
        slots_per_node: u32::MAX,
        gpus_per_slot: u32::MAX,
        memory: MemoryNeed::PerTask(u64::MAX),
        ntasks: u32::MAX,
        ..slots(u32::MAX, u32::MAX)
    };
    for request in [
        huge.clone(),
        Request {
            nodes: None,
            ..huge.clone()
        },
        Request {
            nodes: Some(1),
            ..huge.clone()
        },
        Request {
            memory: MemoryNeed::PerCore(u64::MAX),
            ..slots(1, 1)
        },
        Request {
            memory: MemoryNeed::PerNode(u64::MAX),
            ..slots(1, 1)
        },
        Request {
            sharing: Sharing::Exclusive,
            nodes: None,
            ..huge
        },
    ] {
        assert!(feasible(&set, &request).is_err(), "{request:?}");
    }
    assert!(feasible(&ResourceSet::new(), &slots(1, 1)).is_err());
    let nothing = Request {
        slots_per_node: 0,
        ntasks: 0,
        ..slots(0, 0)
    };
    assert_eq!(Capacity::of(&set).feasible(&nothing), Ok(()));
}

/// A promise that is moved to now takes its cores at once: they are given back where the pass is
/// begun anew before it starts.
#[test]
fn promises_moved_to_now_all_start_though_each_start_changes_the_order() {
    let mut planner = Planner::new();
    planner.apply(Delta::Policy("preset = \"flux\"".into()));
    planner.apply(Delta::Inventory(inventory(&[(4, 0, 0)])));
    planner.apply(Delta::Up(Idset::first_ids(1)));
    let want = |cores: u32| {
        let duration = Some(60_000_000);
        let request = Request {
            duration,
            ..slots(1, cores)
        };
        Want::of(16, request)
    };
    planner.apply(Delta::Want(JobId(1), want(4)));
    assert_eq!(planner.plan(Time(5), 64).verdicts.len(), 1);
    planner.apply(Delta::Want(JobId(2), want(2)));
    planner.apply(Delta::Want(JobId(3), want(2)));
    assert_eq!(planner.plan(Time(6), 64).verdicts.len(), 0);
    planner.apply(Delta::Unwant(JobId(1)));
    let started = planner.plan(Time(7), 64).verdicts;
    let mut started: Vec<JobId> = started.into_iter().map(|(job, _)| job).collect();
    started.sort();
    assert_eq!(started, [JobId(2), JobId(3)]);
}
