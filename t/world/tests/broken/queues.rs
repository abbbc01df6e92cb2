//! Instances that queues lead to.

use eddy_world::swarm::Shape;

use super::{found_beside, found_from, found_in};

#[test]
fn a_job_that_comes_in_an_attempt_that_it_is_not_in() {
    found_in(
        Shape::Queues,
        "pass-inflated",
        &["was passed down in attempt", "passed down for no job"],
    );
}

#[test]
fn a_job_that_is_lent_a_home_for_too_long() {
    found_in(Shape::Queues, "lent-for-ever", &["begins at home of"]);
}

#[test]
fn an_instance_that_does_not_hear_of_its_nodes() {
    found_in(
        Shape::Queues,
        "grant-unheard",
        &[
            "never ends",
            "is not reached",
            "does not come to rest",
            "no leader came back",
            "gets no answer",
            "could start it",
        ],
    );
}

#[test]
fn an_instance_whose_jobs_go_on_on_other_cores() {
    found_from(
        600,
        Shape::Queues,
        "proceed-elsewhere",
        &["it grants", "never ends"],
    );
}

#[test]
fn an_instance_that_does_not_wait_for_its_parent() {
    found_in(
        Shape::Queues,
        "alone-at-once",
        &["begins without the parent, which is silent for"],
    );
}

#[test]
fn a_job_that_is_passed_ahead_of_what_it_needs() {
    // How it ended is then told otherwise than it did, too.
    let other = Some("ended with");
    found_beside(Shape::Queues, "ends-foretold", other, &["ahead: job"]);
}

#[test]
fn nodes_that_go_back_unheard() {
    found_from(
        2_800,
        Shape::Queues,
        "return-unheard",
        &["where it was passed to"],
    );
}

#[test]
fn a_payload_taken_for_another() {
    found_in(
        Shape::Queues,
        "payload-mixed",
        &[
            "is another than was passed down",
            "without what it asks for",
        ],
    );
}

#[test]
fn an_end_that_is_taken_for_as_late_as_it_is_heard() {
    found_in(
        Shape::Queues,
        "ends-undated",
        &["are charged for the same cores"],
    );
}
