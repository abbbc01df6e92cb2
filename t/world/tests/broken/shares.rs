//! What was used, who is due what, and what is charged.

use eddy_world::script::play;
use eddy_world::swarm::Shape;

use super::{found, found_from};

#[test]
fn what_was_used_under_another_policy_that_does_not_count() {
    // Another policy than `flux` is not judged, and few change theirs to that.
    found_from(30, Shape::Flat, "past-unheard", &["is told as used"]);
}

#[test]
fn what_an_attempt_is_charged_that_does_not_count() {
    found("settled-unheard", &["is told as used", "is told as due"]);
    found("ends-untold", &["and not what it is charged"]);
}

#[test]
fn what_was_held_of_a_node_that_failed_and_is_charged() {
    // From the first on, in which no mark has kept the sum.
    found("failure-charged", &["the records come to"]);
}

#[test]
fn starts_that_do_not_count_before_the_next_pick() {
    // What is due is another, too, where nothing is to be used any more.
    found("pass-unheard", &["is told as to use", "is told as due"]);
}

#[test]
fn one_who_gets_everything_where_another_waits_for_the_same() {
    // In seeds it is told before that what starts come to is not counted.
    let script = "nodes 1x2\npolicy flux\nbreak pass-unheard\ndrain 0\n\
                  submit a run=10 limit=20\nsubmit b run=10 limit=20\n3> submit c run=10 limit=20\npass 1\n\
                  crash leader\nstart\npass 1\nundrain 0\npass 2\n";
    let told = play(script).expect("a script");
    let found = "BROKEN: job 2 begins, which is due";
    assert!(told.contains(found), "{told}");
    assert!(told.contains("and job 3 waits, which asks for the same and is due"));
}

#[test]
fn idle_accounts_that_take_from_those_beside_them() {
    // Few seeds have both accounts and that policy.
    found_from(340, Shape::Flat, "idle-heard", &["is told as due"]);
}
