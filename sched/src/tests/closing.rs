//! Nodes that close for a reservation, and those of whom nobody knows that they are over by then.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Bar, Delta, Owner};

use super::model::{inventory, nodes, slots};
use super::reserved::{Site, at, bar, lasting, reservation};

#[test]
fn who_has_no_limit_keeps_off_what_closes_whatever_is_assumed_of_him() {
    for policy in [
        "preset = \"fcfs\"\nqueue.default_limit = \"10s\"",
        "preset = \"easy\"\nqueue.default_limit = \"10s\"",
        "preset = \"armada\"\nqueue.default_limit = \"10s\"",
    ] {
        let mut site = Site::new(policy);
        site.reserve(reservation("r", (100, 161), Idset::range(0, 2)));
        site.want(1, slots(2, 1), None);
        assert_eq!(site.plan(), [(1, Some(Idset::one(3)))], "{policy}");
        site.want(2, slots(2, 1), None);
        assert_eq!(site.plan(), [], "{policy}");
        assert_eq!(site.why(2).0, bar("r", Bar::Ahead, 99), "{policy}");
        site.unreserve("r");
        site.reserve(reservation("s", (100, 161), Idset::one(0)));
        assert_eq!(site.plan(), [(2, Some(Idset::one(1)))], "{policy}");
        site.reserve(reservation("t", (100, 131), Idset::range(1, 3)));
        site.want(3, slots(2, 1), None);
        assert_eq!(site.plan(), [], "{policy}");
        site.now = at(131);
        assert_eq!(site.plan(), [(3, Some(Idset::one(2)))], "{policy}");
    }
}

#[test]
fn one_that_is_over_before_is_not_taken_for_one_like_it_that_is_not() {
    let mut site = Site::new("preset = \"armada\"");
    site.reserve(reservation("r", (100, 161), Idset::range(0, 3)));
    site.want(1, lasting(slots(1, 1), 200), None);
    site.want(2, lasting(slots(1, 1), 50), None);
    let started = site.plan();
    assert_eq!(started.len(), 1, "{started:?}");
    assert_eq!(started[0].0, 2);
}

#[test]
fn a_reservation_over_what_is_suspended_has_the_cores_that_it_gave() {
    let mut site = Site::new("preset = \"fcfs\"");
    let set = |cores: &str| {
        let mut set = inventory(&[(2, 0, 0)]).restrict(&Idset::one(0));
        for node in set.nodes.values_mut() {
            node.cores = cores.parse().expect("cores");
        }
        Arc::new(set)
    };
    let suspended = JobId(9);
    site.lines
        .apply(Delta::Held(suspended, Owner::default(), set("0-1")));
    site.lines.apply(Delta::Rests(suspended, None, set("")));
    site.reserve(reservation("r", (0, 61), Idset::one(0)));
    site.want(1, lasting(nodes(1, 1, 2), 20), Some("r"));
    assert_eq!(site.plan(), [(1, Some(Idset::one(0)))]);
}
