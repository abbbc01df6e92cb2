//! Instances that give nodes and go on, by numbers that one can follow.

use eddy_wire::id::JobId;
use eddy_wire::plan::{Delta, Gives, Reason, Unavailable};
use eddy_wire::preempt::{Cause, Shrink};

use super::model::{nodes, slots};
use super::preempt::{EASY, Stand, at};

/// By factors, so that `low` goes before `mid`.
const RANKED: &str = "preset = \"easy\"\n[priority.factors]\ndefault_qos = \"low\"\n\
    qos = { high = 1.0, mid = 0.5, low = 0.0 }\n";

/// An instance that can be without any of its nodes but that one.
fn gives(stand: &mut Stand, job: u64, but: u32) {
    let but = eddy_wire::idset::Idset::one(but);
    stand.apply(Delta::Gives(JobId(job), Gives::Nodes { but }));
}

/// It is recorded that it gives those to these.
fn shrinks(stand: &mut Stand, job: u64, to: &[(&str, u64)]) {
    let shrink = |(ranks, by): &(&str, u64)| Shrink {
        ranks: ranks.parse().expect("ranks"),
        by: Some(JobId(*by)),
        until: at(15),
        cause: Cause::Urgency,
        grace: 0,
        why: String::new(),
    };
    let all = to.iter().map(shrink).collect();
    stand.apply(Delta::Shrinks(JobId(job), all));
}

#[test]
fn an_instance_gives_no_more_than_is_needed() {
    let mut stand = Stand::new(EASY, &[4, 4, 4, 4]);
    stand.holds(1, "1 low 0/0-3 1/0-3 2/0-3 3/0-3");
    gives(&mut stand, 1, 0);
    stand.wants(7, "high", nodes(2, 1, 4));
    assert_eq!(stand.says(10), ["1 gives 2-3 to 7"]);
    shrinks(&mut stand, 1, &[("2-3", 7)]);
    let Reason::Preempting { jobs, .. } = stand.why(7, 11) else {
        panic!("it waits for who gives");
    };
    assert_eq!(jobs, [JobId(1)]);
    // The first of the two has gone: the other is waited for.
    stand.holds(1, "1 low 0/0-3 1/0-3 3/0-3");
    gives(&mut stand, 1, 0);
    assert!(stand.says(12).is_empty());
    stand.holds(1, "1 low 0/0-3 1/0-3");
    gives(&mut stand, 1, 0);
    assert_eq!(stand.says(13), ["start 7 2/0-3 3/0-3"]);
}

#[test]
fn two_are_given_nodes_of_one_at_a_time() {
    let mut stand = Stand::new(EASY, &[4, 4, 4]);
    stand.holds(1, "1 low 0/0-3 1/0-3 2/0-3");
    gives(&mut stand, 1, 0);
    stand.wants(7, "high", slots(1, 4));
    stand.wants(8, "high", slots(2, 2));
    assert_eq!(stand.says(10), ["1 gives 2 to 7", "1 gives 1 to 8"]);
    // What it was only proposed to give it has where nothing came of that.
    stand.apply(Delta::Kept(JobId(1), at(20)));
    assert!(stand.says(11).is_empty());
    assert_eq!(stand.says(20), ["1 gives 2 to 7", "1 gives 1 to 8"]);
}

#[test]
fn nobody_higher_ends_to_spare_nodes_of_an_instance() {
    let mut stand = Stand::new(RANKED, &[4, 4, 4, 4, 4]);
    stand.holds(2, "1 low 0/0-3 1/0-3 2/0-3");
    gives(&mut stand, 1, 0);
    stand.holds(-200, "2 mid 3/0-3 4/0-3");
    stand.wants(7, "high", nodes(2, 1, 4));
    assert_eq!(stand.says(10), ["1 gives 1-2 to 7"]);
}

#[test]
fn one_ends_rather_than_that_a_higher_one_is_taken_from_in_its_place() {
    let mut stand = Stand::new(RANKED, &[4, 4, 4, 4]);
    stand.holds(2, "1 low 0/0-3 1/0-3");
    gives(&mut stand, 1, 0);
    stand.holds(-200, "2 mid 2/0-3 3/0-3");
    stand.wants(7, "high", nodes(2, 1, 4));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
}

#[test]
fn of_equals_those_that_go_on_give_before_others_end() {
    let mut stand = Stand::new(EASY, &[4, 4, 4]);
    stand.holds(1, "1 low 0/0-3 1/0-3");
    gives(&mut stand, 1, 0);
    stand.holds(2, "2 low 2/0-3");
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["1 gives 1 to 7"]);
}

#[test]
fn one_that_cannot_give_enough_ends_and_one_that_can_gives() {
    let mut stand = Stand::new(EASY, &[4, 4, 4, 4]);
    stand.holds(2, "1 low 0/0-3 1/0-3");
    gives(&mut stand, 1, 0);
    stand.holds(1, "2 low 2/0-3 3/0-3");
    gives(&mut stand, 2, 2);
    stand.wants(7, "high", nodes(2, 1, 4));
    assert_eq!(stand.says(10), ["1 gives 1 to 7", "2 gives 3 to 7"]);
    stand.apply(Delta::Unwant(JobId(7)));
    stand.apply(Delta::Kept(JobId(1), at(0)));
    stand.apply(Delta::Kept(JobId(2), at(0)));
    stand.wants(8, "high", nodes(3, 1, 4));
    assert_eq!(stand.says(11), ["end 1 for 8", "2 gives 3 to 8"]);
}

#[test]
fn what_nobody_waits_for_any_more_is_for_whoever_is_next() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(1, "1 low 0/0-3 1/0-3");
    gives(&mut stand, 1, 0);
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["1 gives 1 to 7"]);
    shrinks(&mut stand, 1, &[("1", 7)]);
    stand.apply(Delta::Unwant(JobId(7)));
    stand.wants(8, "high", slots(1, 4));
    assert!(stand.says(11).is_empty(), "rank 1 will do");
    stand.holds(1, "1 low 0/0-3");
    gives(&mut stand, 1, 0);
    assert_eq!(stand.says(12), ["start 8 1/0-3"]);
}

#[test]
fn an_instance_that_has_no_node_left_to_give_stands_among_those_that_end() {
    let mut stand = Stand::new(EASY, &[4, 4, 4]);
    stand.holds(1, "1 low 0/0-3 1/0-3");
    gives(&mut stand, 1, 0);
    stand.holds(2, "2 low 2/0-3");
    stand.wants(7, "high", slots(1, 4));
    stand.wants(8, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["1 gives 1 to 7", "end 2 for 8"]);
}

#[test]
fn a_node_that_came_back_is_not_taken_beside_another() {
    let mut stand = Stand::new(EASY, &[4, 4, 4]);
    stand.holds(1, "1 low 0/0-3 1/0-3 2/0-3");
    gives(&mut stand, 1, 0);
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["1 gives 2 to 7"]);
    shrinks(&mut stand, 1, &[("2", 7)]);
    stand.apply(Delta::Down("2".parse().unwrap(), Unavailable::Offline));
    assert_eq!(stand.says(11), ["1 gives 1 to 7"]);
    shrinks(&mut stand, 1, &[("2", 7), ("1", 7)]);
    stand.apply(Delta::Up("2".parse().unwrap()));
    stand.wants(8, "high", slots(2, 4));
    // Both are on their way: nobody ends, and neither is given twice.
    assert!(stand.says(12).is_empty());
}
