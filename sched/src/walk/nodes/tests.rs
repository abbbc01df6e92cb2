//! Nodes as a room, by hand and against the walk over them.

use eddy_wire::time::{Span, Time};

use super::*;
use crate::amounts::UNIT;

fn cores(count: i64) -> Amounts {
    let mut amounts = Amounts::NONE;
    amounts[0] = count * UNIT;
    amounts
}

fn need(nodes: usize, count: i64, hold: Hold) -> NodesNeed {
    NodesNeed {
        nodes,
        each: cores(count),
        hold,
        pools: Vec::new(),
    }
}

#[test]
fn what_is_free_in_sum_may_be_free_on_no_node() {
    let mut room = Nodes::new(&[cores(4), cores(4)], &[]);
    let shared = need(2, 2, Hold::Shared);
    let spot = room.fit(&shared, Time(0), Span(10)).expect("all is free");
    assert_eq!(spot.nodes, [(0, cores(2)), (1, cores(2))]);
    room.take(&spot, Time(0), Span(10));
    let wide = need(1, 3, Hold::Shared);
    let busy = Blocked::Busy {
        what: "nodes",
        asked: 1,
        free: 0,
    };
    assert_eq!(room.fit(&wide, Time(0), Span(5)), Err(busy));
    let (at, _) = room.earliest(&wide, Time(0), Span(5)).expect("later");
    assert_eq!(at, Time(10));
    room.give(&spot, Time(4), Span(6));
    let (at, _) = room.earliest(&wide, Time(4), Span(5)).expect("now");
    assert_eq!(at, Time(4));
}

#[test]
fn a_whole_node_is_shared_with_nobody() {
    let mut room = Nodes::new(&[cores(4), cores(4)], &[]);
    let whole = need(1, 1, Hold::Whole);
    let spot = room.fit(&whole, Time(0), Span(10)).expect("all is free");
    assert_eq!(spot.nodes, [(0, cores(4))]);
    room.take(&spot, Time(0), Span(10));
    let two = need(2, 1, Hold::Shared);
    let at = room.earliest(&two, Time(0), Span(1)).map(|(at, _)| at);
    assert_eq!(at, Ok(Time(10)));
}

#[test]
fn a_pool_is_planned_like_a_node() {
    let mut room = Nodes::new(&[cores(4)], &[1]);
    let licensed = NodesNeed {
        pools: vec![(0, 1)],
        ..need(1, 1, Hold::Shared)
    };
    let spot = room.fit(&licensed, Time(0), Span(7)).expect("all is free");
    room.take(&spot, Time(0), Span(7));
    let at = room.earliest(&licensed, Time(0), Span(1)).map(|(at, _)| at);
    assert_eq!(at, Ok(Time(7)));
    let many = NodesNeed {
        pools: vec![(0, 2)],
        ..licensed
    };
    assert_eq!(room.fit(&many, Time(0), Span(1)), Err(Blocked::Never));
}

#[test]
fn what_is_reserved_is_told_from_what_is_busy() {
    let mut room = Nodes::new(&[cores(4)], &[]);
    let all = need(1, 4, Hold::Shared);
    let (_, spot) = room.earliest(&all, Time(5), Span(5)).expect("free");
    room.take(&spot, Time(5), Span(5));
    assert_eq!(room.fit(&all, Time(0), Span(6)), Err(Blocked::Reserved));
    assert!(room.fit(&all, Time(0), Span(5)).is_ok());
}

#[test]
fn nodes_out_of_service_are_told_from_nodes_that_are_not() {
    let mut room = Nodes::new(&[cores(4), cores(8)], &[]);
    room.serve(1, Service::Out);
    let wide = need(1, 8, Hold::Shared);
    let never = need(1, 9, Hold::Shared);
    assert_eq!(
        room.fit(&wide, Time(0), Span(1)),
        Err(Blocked::NotInService)
    );
    assert_eq!(room.fit(&never, Time(0), Span(1)), Err(Blocked::Never));
    room.serve(1, Service::In);
    assert!(room.fit(&wide, Time(0), Span(1)).is_ok());
}
