//! Nodes that go, and instances that end: nobody begins who would not have ended by then.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Delta, Going, Lasts, Reason, Stay, Verdict, Want};

use super::model::nodes;
use super::reserved::{Site, at, lasting};
use crate::cleanup::CLEANUP;

fn stay(site: &mut Site, end: Option<i64>, goes: &[(Idset, i64)]) {
    let goes = goes.iter().map(|(ranks, seconds)| Going {
        ranks: ranks.clone(),
        at: at(*seconds),
    });
    let stay = Stay {
        end: end.map(at),
        goes: goes.collect(),
    };
    site.lines.apply(Delta::Stay(Arc::new(stay)));
}

/// A request whose limit is so long, without what is planned beyond it.
fn limited(request: eddy_wire::jobspec::Request, seconds: i64) -> eddy_wire::jobspec::Request {
    lasting(request, seconds + CLEANUP.0 / 1_000_000)
}

#[test]
fn who_would_not_have_ended_begins_on_other_nodes_than_those_that_go() {
    let mut site = Site::new("preset = \"easy\"");
    stay(&mut site, None, &[(Idset::range(2, 3), 61)]);
    site.want(1, limited(nodes(1, 1, 2), 61), None);
    site.want(2, limited(nodes(2, 1, 2), 60), None);
    assert_eq!(
        site.plan(),
        [(1, Some(Idset::one(0))), (2, Some(Idset::range(1, 2)))]
    );
}

#[test]
fn who_needs_nodes_that_go_sooner_is_let_go_of_and_holds_up_nobody() {
    for preset in ["preset = \"easy\"", "preset = \"fcfs\""] {
        let mut site = Site::new(preset);
        stay(&mut site, None, &[(Idset::range(2, 3), 61)]);
        site.want(1, limited(nodes(3, 1, 2), 61), None);
        site.want(2, limited(nodes(4, 1, 2), 60), None);
        assert_eq!(site.plan(), [(1, None), (2, Some(Idset::range(0, 3)))]);
    }
}

#[test]
fn who_is_promised_a_start_is_promised_none_on_a_node_that_is_gone_by_then() {
    let mut site = Site::new("preset = \"easy\"");
    stay(&mut site, None, &[(Idset::range(2, 3), 101)]);
    site.want(1, limited(nodes(4, 1, 2), 50), None);
    assert_eq!(site.plan(), [(1, Some(Idset::range(0, 3)))]);
    // Both free nodes that stay are there at 61; those that go would be, too.
    site.want(2, limited(nodes(2, 1, 2), 60), None);
    assert_eq!(site.plan(), []);
    let (_, start) = site.why(2);
    assert_eq!(start, Some(at(61)));
    site.want(3, limited(nodes(2, 1, 2), 60), None);
    assert_eq!(site.plan(), []);
    let (reason, start) = site.why(3);
    assert!(start >= Some(at(121)), "{start:?} {reason}");
}

#[test]
fn whoever_takes_what_time_is_left_begins_on_nodes_that_go() {
    let mut site = Site::new("preset = \"easy\"");
    stay(&mut site, Some(1000), &[(Idset::range(0, 3), 61)]);
    site.want(1, nodes(1, 1, 2), None);
    let left = Want {
        lasts: Lasts::Left,
        ..Want::of(16, limited(nodes(1, 1, 2), 2000))
    };
    site.wants(2, left);
    assert_eq!(
        site.plan(),
        [(1, Some(Idset::one(0))), (2, Some(Idset::one(1)))]
    );
}

#[test]
fn nobody_begins_who_would_not_have_ended_when_the_instance_does() {
    for preset in ["preset = \"easy\"", "preset = \"fcfs\""] {
        let mut site = Site::new(preset);
        site.want(1, limited(nodes(4, 1, 2), 40), None);
        assert_eq!(site.plan(), [(1, Some(Idset::range(0, 3)))]);
        stay(&mut site, Some(81), &[]);
        site.want(2, limited(nodes(4, 1, 2), 40), None);
        // It may yet begin, if the first ends sooner; nobody is told when.
        assert_eq!(site.plan(), []);
        assert_eq!(site.why(2).1, None);
        site.now = at(42);
        site.want(3, limited(nodes(4, 1, 2), 20), None);
        site.free(1);
        assert_eq!(site.plan(), [(2, None), (3, Some(Idset::range(0, 3)))]);
        site.want(4, limited(nodes(4, 1, 2), 40), None);
        let told = site.lines.plan(site.now, 9).verdicts;
        let never = Verdict::Never(Reason::Outlasts { at: at(81) });
        assert_eq!(told, [(JobId(4), never)]);
        // It is given more time.
        stay(&mut site, Some(200), &[]);
        site.want(4, limited(nodes(4, 1, 2), 40), None);
        site.free(3);
        assert_eq!(site.plan(), [(4, Some(Idset::range(0, 3)))]);
    }
}

/// Who has no limit takes what time is left, of which there is none where what is held ends as the instance does.
#[test]
fn nobody_is_told_a_start_after_the_end_of_the_instance() {
    for policy in [
        "preset = \"easy\"",
        "preset = \"conservative\"",
        "preset = \"flux\"",
        "preset = \"fcfs\"",
    ] {
        let mut site = Site::new(policy);
        stay(&mut site, Some(81), &[]);
        site.want(1, limited(nodes(4, 1, 2), 79), None);
        assert_eq!(site.plan(), [(1, Some(Idset::range(0, 3)))]);
        site.want(2, nodes(4, 1, 2), None);
        assert_eq!(site.plan(), []);
        assert_eq!(site.why(2).1, None, "{policy}");
        site.now = at(80);
        site.free(1);
        assert_eq!(site.plan(), [(2, Some(Idset::range(0, 3)))]);
    }
}
