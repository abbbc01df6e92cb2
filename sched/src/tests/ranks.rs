//! Jobs on named ranks, and jobs that take nothing.

use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Takes};

use super::model::{inventory, slots};
use super::script::check;
use crate::feasible;

#[test]
fn slots_stay_within_the_ranks_named() {
    check(
        "nodes 4c 4c 4c 4c 4c
         up 0-4
         want 1 ranks=3
         want 2 slots=5 ranks=1,4
         want 3 nodes=2 ranks=2-4
         want 4
         plan
         ----
         start 1 3/0
         start 2 1/0-3 4/0
         start 3 2/0 3/1
         start 4 0/0
         done",
    );
}

#[test]
fn ranks_that_are_busy_or_away_are_named_in_the_reason() {
    check(
        "nodes 2c 2c 2c
         up 0-2
         want 1 cores=2 ranks=1
         want 2 ranks=1
         plan
         down 1
         plan
         down 2
         unwant 2
         want 3 nodes=2 ranks=1-2
         plan
         ----
         start 1 1/0-1
         head 2 waits for 1 core of ranks 1; 0 are free now
         head 2 waits for 1 core of ranks 1; only 0 are in service (down or drained: ranks 1)
         head 3 waits for 2 nodes of ranks 1-2; only 0 are in service (down or drained: ranks 1-2)",
    );
}

#[test]
fn what_an_instance_of_a_fixed_size_holds_is_not_waited_for() {
    check(
        "nodes 2c 2c 2c
         up 0-2
         down 2
         ground 9 0/0-1
         want 1 nodes=2
         want 2 ranks=1
         plan
         freed 9
         plan
         ----
         head 1 waits for 2 nodes; only 1 is in service (down or drained: ranks 2; of instances of a fixed size: ranks 0)
         start 1 0/0 1/0
         start 2 1/1
         done",
    );
}

#[test]
fn what_fits_only_with_nodes_of_a_fixed_instance_holds_up_nobody() {
    check(
        "nodes 2c 2c 2c 2c
         up 0-3
         ground 9 1/0-1
         held 8 0/0-1
         want 1 nodes=3 whole
         want 2 nodes=1 whole
         plan
         nodes 2c 2c 2c
         plan
         want 3 slots=5
         plan
         ----
         head 1 waits for 3 whole nodes; 2 are free now
         never 1 asks for 3 whole nodes; there are 2 beside those of instances of a fixed size (ranks 1), so that it never starts as things are
         start 2 2/0-1
         done
         never 3 asks for 5 cores; there are 4 beside those of instances of a fixed size (ranks 1), so that it never starts as things are
         done",
    );
}

#[test]
fn ranks_that_are_not_there_or_too_small_are_refused() {
    check(
        "nodes 2c 2c 2c
         up 0-2
         want 1 ranks=1-5
         want 2 nodes=3 ranks=0-1
         want 3 cores=3 ranks=2
         want 4 beside ranks=2-3
         plan
         ----
         never 4 asks for ranks 3, which the instance does not have
         never 1 asks for ranks 3-5, which the instance does not have
         never 2 asks for 3 nodes of ranks 0-1; the instance has 2
         never 3 asks for 3 cores of ranks 2 on one node; the largest has 2
         done",
    );
}

#[test]
fn what_takes_nothing_waits_for_nobody_and_holds_up_nobody() {
    check(
        "nodes 2c 2c
         up 0-1
         want 1 nodes=2 whole
         want 2
         want 3 beside ranks=0-1
         want 4 beside
         plan
         freed 1
         unwant 1
         want 5 nodes=2 whole at=31
         plan
         ----
         start 3 0/ 1/
         start 4 0/
         start 1 0/0-1 1/0-1
         head 2 waits for 1 core; 0 are free now
         start 5 0/0-1 1/0-1
         head 2 waits for 1 core; 0 are free now",
    );
}

#[test]
fn drained_ranks_serve_what_takes_nothing_and_lost_ones_do_not() {
    check(
        "nodes 1c 1c
         up 0-1
         down 1
         want 1 beside ranks=1
         plan
         lost 1
         want 2 beside ranks=0-1
         plan
         down 1
         plan
         ----
         start 1 1/
         done
         done
         start 2 0/ 1/
         done",
    );
}

#[test]
fn what_takes_nothing_fits_whatever_it_says_of_cores() {
    let all = inventory(&[(1, 0, 0)]);
    let beside = Request {
        takes: Takes::Nothing,
        ranks: Some(Idset::one(0)),
        ..slots(1, 64)
    };
    assert_eq!(feasible(&all, &beside), Ok(()));
    let text = feasible(
        &all,
        &Request {
            ranks: Some(Idset::range(0, 2)),
            ..beside
        },
    );
    let text = text.expect_err("there is one rank").to_string();
    assert_eq!(text, "asks for ranks 1-2, which the instance does not have");
}

#[test]
fn a_reason_names_no_list_of_no_ranks() {
    let all = inventory(&[(1, 0, 0)]);
    let nowhere = Request {
        ranks: Some(Idset::new()),
        ..slots(1, 1)
    };
    let text = feasible(&all, &nowhere)
        .expect_err("there is none")
        .to_string();
    assert_eq!(
        text,
        "asks for 1 core of ranks that would do; the instance has 0"
    );
}
