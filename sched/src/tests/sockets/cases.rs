//! Slots in sockets, one by one: what is refused, who waits, who starts beside whom.

use super::*;

/// Two nodes of two sockets of four cores.
fn two() -> Arc<ResourceSet> {
    inventory(&[(vec![4, 4], 2), (vec![4, 4], 2)])
}

const SOCKET: Shape = Shape {
    nodes: None,
    sockets: 1,
    slots: 1,
    cores: 1,
    gpus: 0,
    whole: Whole::No,
};

#[test]
fn what_no_node_has_is_refused_with_what_there_is() {
    let never = |shape: Shape| {
        let request = Asks::Sockets(shape).request(1);
        Capacity::of(&two())
            .feasible(&request)
            .map_err(|why| why.to_string())
    };
    let on_nodes = Shape {
        nodes: Some(1),
        ..SOCKET
    };
    assert_eq!(
        never(Shape {
            sockets: 2,
            ..on_nodes
        }),
        Ok(())
    );
    let refused = [
        (
            Shape {
                sockets: 3,
                ..on_nodes
            },
            "asks for 3 sockets on one node; the largest has 2",
        ),
        (
            Shape { cores: 5, ..SOCKET },
            "asks for 5 cores in one socket on one node; the largest has 4",
        ),
        (
            Shape { gpus: 2, ..SOCKET },
            "asks for 2 gpus in one socket on one node; the largest has 1",
        ),
        (
            Shape {
                sockets: 5,
                ..SOCKET
            },
            "asks for 5 sockets with 1 core; the instance has 4",
        ),
        (
            Shape {
                sockets: 2,
                nodes: Some(3),
                whole: Whole::Socket,
                ..SOCKET
            },
            "asks for 3 nodes with 2 whole sockets of 1 core; the instance has 2",
        ),
    ];
    for (shape, why) in refused {
        assert_eq!(never(shape), Err(why.to_owned()));
    }
}

#[test]
fn one_who_asks_for_a_socket_waits_though_as_many_cores_are_free() {
    let mut run = Run::new(inventory(&[(vec![4, 4], 0)]), "preset = \"easy\"");
    // Cores 0 and 1 are of both sockets.
    run.want(JobId(1), Asks::Slots(2, 1), 9);
    run.plan(Head::IsNotDelayed);
    let whole = Shape {
        whole: Whole::Socket,
        ..SOCKET
    };
    run.want(JobId(2), Asks::Sockets(whole), 9);
    run.plan(Head::IsNotDelayed);
    assert!(run.waiting.contains_key(&JobId(2)));
    let question = Question {
        tag: 2,
        jobs: None,
        most: 9,
        suppose: Suppose::default(),
        wants: Vec::new(),
        lent: Vec::new(),
    };
    run.planner.apply(Delta::Explain(question));
    let outcome = run.planner.plan(run.now, ALL);
    let why = outcome.answers[0].jobs[0].reason.to_string();
    assert_eq!(why, "waits for 1 whole socket with 1 core; 0 are free now");
    run.next_end();
    run.plan(Head::IsNotDelayed);
    assert!(run.running.contains_key(&JobId(2)));
}

#[test]
fn others_start_beside_a_socket_that_is_promised() {
    let mut run = Run::new(inventory(&[(vec![2, 2], 0)]), "preset = \"easy\"");
    run.want(JobId(1), Asks::Slots(1, 1), 9);
    run.plan(Head::IsNotDelayed);
    let both = Shape {
        whole: Whole::Socket,
        sockets: 2,
        ..SOCKET
    };
    let one = Shape {
        whole: Whole::Socket,
        ..SOCKET
    };
    // The other socket is free; the first is promised for when the first job ends.
    run.want(JobId(2), Asks::Sockets(one), 9);
    run.want(JobId(3), Asks::Sockets(both), 9);
    run.want(JobId(4), Asks::Slots(1, 1), 9);
    run.plan(Head::IsNotDelayed);
    assert!(run.running.contains_key(&JobId(2)) && run.waiting.contains_key(&JobId(3)));
    assert!(run.running.contains_key(&JobId(4)), "it ends in time");
    let mut run = Run::new(inventory(&[(vec![2, 2, 2], 0)]), "preset = \"easy\"");
    run.want(JobId(1), Asks::Slots(2, 1), 9);
    run.plan(Head::IsNotDelayed);
    run.want(JobId(2), Asks::Sockets(both), 9);
    // It does not end in time, and keeps off.
    run.want(JobId(3), Asks::Slots(1, 2), 99);
    run.plan(Head::IsNotDelayed);
    let beside = &run.running[&JobId(3)].0.nodes[&Rank(0)].cores;
    assert!(run.waiting.contains_key(&JobId(2)));
    assert_eq!(
        *beside,
        "2,5".parse().expect("an idset"),
        "one socket of three"
    );
}

#[test]
fn a_child_with_a_part_of_a_socket_has_no_whole_one() {
    let mut set = ResourceSet::clone(&inventory(&[(vec![2, 2], 0)]));
    let node = set.nodes.get_mut(&Rank(0)).expect("it has one");
    // All of the first socket, and half of the second.
    node.cores = "0-2".parse().expect("an idset");
    let whole = |sockets| Shape {
        whole: Whole::Socket,
        sockets,
        ..SOCKET
    };
    let feasible = |shape| Capacity::of(&set).feasible(&Asks::Sockets(shape).request(1));
    assert_eq!(feasible(whole(1)), Ok(()));
    assert!(matches!(
        feasible(whole(2)),
        Err(Reason::NeverInAll { most: 1, .. })
    ));
    assert_eq!(
        feasible(Shape {
            sockets: 2,
            ..SOCKET
        }),
        Ok(())
    );
}

#[test]
fn what_a_suspended_job_keeps_of_a_socket_takes_the_promise_of_it_back() {
    let mut planner = Planner::new();
    planner.apply(Delta::Policy("preset = \"conservative\"".into()));
    let site = inventory(&[(vec![4, 4], 2)]);
    planner.apply(Delta::Inventory(Arc::clone(&site)));
    planner.apply(Delta::Up(site.ranks()));
    let all = ResourceSet {
        starttime: MICROS,
        expiration: 120 * MICROS,
        ..ResourceSet::clone(&site)
    };
    planner.apply(Delta::Held(
        JobId(1),
        Owner::default(),
        Arc::new(all.clone()),
    ));
    let both = Shape {
        whole: Whole::Socket,
        sockets: 2,
        ..SOCKET
    };
    let asked = Want::of(16, Asks::Sockets(both).request(60));
    planner.apply(Delta::Want(JobId(2), asked));
    planner.plan(Time(MICROS), ALL);
    // Its GPUs, of either socket, for as long as nobody knows.
    let mut rest = all;
    rest.nodes
        .values_mut()
        .for_each(|node| node.cores = Idset::new());
    planner.apply(Delta::Rests(JobId(1), None, Arc::new(rest)));
    let long = Want::of(16, Asks::Slots(1, 2).request(1000));
    planner.apply(Delta::Want(JobId(3), long));
    let verdicts = planner.plan(Time(2 * MICROS), ALL).verdicts;
    let starts = |(job, verdict): &(JobId, Verdict)| {
        *job == JobId(3) && matches!(verdict, Verdict::Start(_))
    };
    assert!(verdicts.iter().any(starts), "{verdicts:?}");
}
