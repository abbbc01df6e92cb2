//! Who does not begin since somebody who waits would take from him at once, by numbers that one can follow.

use eddy_wire::id::JobId;
use eddy_wire::plan::{Delta, Want};
use eddy_wire::preempt::PREEMPTIONS_MAX;

use super::model::{nodes, slots};
use super::preempt::{EASY, FCFS, Stand, limited, owner, said};

#[test]
fn who_would_be_taken_from_at_once_does_not_begin() {
    for policy in [EASY, FCFS] {
        let mut stand = Stand::new(policy, &[4]);
        stand.wants(5, "low", slots(1, 4));
        stand.wants(7, "high", slots(1, 4));
        assert_eq!(stand.says(10), ["start 7 0/0-3"]);
        stand.apply(Delta::Freed(JobId(7)));
        stand.apply(Delta::Unwant(JobId(7)));
        assert_eq!(stand.says(11), ["start 5 0/0-3"]);
    }
}

#[test]
fn nobody_fills_what_another_is_to_have_with_that_of_those_who_end_for_him() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(1, "1 low 0/0-3");
    stand.wants(7, "high", nodes(2, 1, 4));
    stand.wants(8, "low", limited(slots(1, 4), 60));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
}

#[test]
fn nobody_ends_where_it_is_enough_that_others_do_not_begin() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(1, "1 low 0/0-3");
    stand.wants(5, "low", slots(1, 2));
    stand.wants(6, "low", slots(1, 2));
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["start 7 1/0-3"]);
}

#[test]
fn only_those_wait_whose_place_is_needed_and_the_first_begin_elsewhere() {
    let mut stand = Stand::new(EASY, &[2, 2, 2]);
    stand.wants(4, "low", slots(1, 2));
    stand.wants(5, "low", slots(1, 2));
    stand.wants(6, "low", slots(1, 2));
    stand.wants(7, "high", slots(1, 2));
    assert_eq!(
        stand.says(10),
        ["start 4 0/0-1", "start 5 1/0-1", "start 7 2/0-1"]
    );
}

#[test]
fn what_one_slice_of_a_pass_says_is_looked_at_by_itself() {
    let mut stand = Stand::new(EASY, &[2, 2]);
    stand.wants(4, "low", slots(1, 2));
    stand.wants(5, "low", slots(1, 2));
    stand.wants(7, "high", nodes(2, 1, 2));
    let outcome = stand.plan_in(10, 2);
    let said: Vec<String> = outcome.verdicts.iter().map(said).collect();
    assert_eq!(said, ["start 7 0/0-1 1/0-1"]);
}

#[test]
fn who_is_exempt_once_he_runs_keeps_his_turn() {
    let mut stand = Stand::new(EASY, &[4]);
    stand.wants(5, "mid", slots(1, 4));
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["start 5 0/0-3"]);
}

#[test]
fn who_was_taken_from_as_often_as_may_be_keeps_his_turn() {
    let mut stand = Stand::new(EASY, &[4]);
    let want = Want {
        owner: owner("low"),
        preemptions: PREEMPTIONS_MAX,
        ..Want::of(16, slots(1, 4))
    };
    stand.apply(Delta::Want(JobId(5), want));
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["start 5 0/0-3"]);
}

#[test]
fn an_equal_keeps_his_turn() {
    let mut stand = Stand::new(EASY, &[4]);
    stand.wants(5, "high", slots(1, 4));
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["start 5 0/0-3"]);
}

#[test]
fn what_is_promised_to_those_below_is_no_obstacle_where_nobody_below_runs() {
    for policy in [EASY, "preset = \"conservative\""] {
        let wide = |who: &str| {
            let mut stand = Stand::new(policy, &[4, 4]);
            stand.holds(1, "1 none 0/0-3");
            stand.wants(5, who, limited(nodes(2, 1, 4), 60));
            stand.wants(7, "high", slots(1, 4));
            stand.says(10)
        };
        assert_eq!(wide("low"), ["start 7 1/0-3"]);
        assert!(wide("high").is_empty());
    }
}
