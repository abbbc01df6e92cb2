//! Instances in instances: what they have, and when they end.

use eddy_world::script::play;
use eddy_world::swarm::Shape;

use super::{found_beside, found_from, found_in};

#[test]
fn a_childs_shell_on_ground_that_was_given_up() {
    let sentences = [
        "lives in it",
        "begins within",
        "is nobody's",
        "hosts a rank of nobody's instance",
    ];
    found_in(Shape::Trees, "ground-unchecked", &sentences);
}

#[test]
fn a_rank_hosted_for_nobody() {
    let sentences = ["hosts a rank of nobody's instance", "never ends"];
    found_in(Shape::Trees, "hosts-for-nobody", &sentences);
}

/// Of 90,000 trees three notice: this is one.
#[test]
fn an_agent_that_its_own_leader_does_not_wait_for() {
    let (name, sentences) = ("attendant-unheard", ["begins within part", "lives in it"]);
    found_from(70_014_239, Shape::Trees, name, &sentences);
}

#[test]
fn a_child_with_more_than_its_grant() {
    found_in(Shape::Trees, "grant-inflated", &["it grants", "cores"]);
}

#[test]
fn the_end_of_an_instance_that_spares_what_is_in_it() {
    let sentences = ["lives in it", "nobody's"];
    found_in(Shape::Trees, "sweep-spares", &sentences);
}

#[test]
fn a_letter_lost_on_a_link_that_stands() {
    let sentences = [
        "out of order or with a hole",
        "never ends",
        "no answer",
        "for ever",
        "no leader came back",
    ];
    found_in(Shape::Trees, "letter-lost", &sentences);
}

#[test]
fn an_instance_that_does_not_hear_that_it_is_to_end() {
    let sentences = [
        "never ends",
        "runs on",
        "cannot be killed",
        "gets no answer",
        "no leader came back",
        // In it, where it is deaf.
        "waits, though a plan by",
    ];
    // Of whom it leads nobody is reached any more, either.
    let other = Some("is not reached");
    found_beside(Shape::Trees, "child-deaf", other, &sentences);
}

#[test]
fn a_rank_that_does_not_knock_again() {
    let sentences = ["is not reached", "never ends", "no leader came back"];
    // What waits for such a rank is told of as well.
    let other = Some("could start it");
    found_beside(Shape::Trees, "knocks-once", other, &sentences);
}

#[test]
fn an_instance_that_gives_back_what_its_jobs_run_on() {
    let sentences = ["back, where job"];
    found_in(Shape::Trees, "given-while-used", &sentences);
}

#[test]
fn an_instance_that_ends_though_some_of_its_nodes_would_do() {
    found_in(Shape::Trees, "gifts-unheard", &["of its nodes would do"]);
}

#[test]
fn nodes_that_are_kept_though_others_were_to_have_them() {
    found_in(Shape::Trees, "gifts-kept", &["was to give ranks"]);
}

#[test]
fn jobs_that_begin_on_nodes_that_go_before_they_are_over() {
    // Of what seeds make few jobs grow an instance, and fewer for a time.
    let script = "machines 2x2\nsubmit a instance nodes=1 cores=2\npass 2\nbreak going-unheard\n\
                  submit g grows=1 nodes=1 cores=2 limit=60\npass 8\n\
                  in a submit b nodes=2 cores=2 run=5 limit=90\npass 8\n";
    let told = play(script).expect("a script");
    let found = "BROKEN: a: job 1 began at";
    assert!(told.contains(found), "{told}");
    assert!(told.contains("on a node of job 2, which is over before that"));
}

#[test]
fn a_leader_that_hangs_and_is_not_begun_anew() {
    found_in(
        Shape::Trees,
        "restart-unheard",
        &["hangs and is not begun anew"],
    );
}

#[test]
fn jobs_that_begin_in_an_instance_that_is_ending() {
    found_in(
        Shape::Trees,
        "end-unheard",
        &["in an instance that is ending"],
    );
}
