//! What shells start and end.

use eddy_world::swarm::Shape;

use super::{found, found_beside, found_from};

#[test]
fn no_exchange_of_lists_when_a_shell_connects() {
    found(
        "no-exchange-of-lists",
        &[
            "lost a node, but all its shells live",
            "recorded is",
            "while its task",
        ],
    );
}

#[test]
fn a_shell_that_forgets_what_it_started() {
    found_beside(
        Shape::Flat,
        "shell-forgets-starts",
        Some("has a live task but is None"),
        &["started a second time"],
    );
}

#[test]
fn a_start_taken_by_another_life_of_the_shell() {
    found(
        "start-taken-by-other-life",
        &["a second time", "without a recorded grant"],
    );
}

#[test]
fn a_silent_shell_taken_for_dead() {
    found("silence-is-death", &["lost a node", "while its task"]);
}

#[test]
fn a_kill_that_does_not_arrive() {
    found("kill-lost", &["though its KILL was due"]);
}

#[test]
fn what_lives_on_a_node_that_was_declared_dead() {
    // A shell that hangs has work in few of them.
    found_from(450, Shape::Trees, "dead-spared", &["while its task"]);
}

#[test]
fn tasks_that_run_on_though_their_shell_says_they_stopped() {
    found("pause-unheard", &["cores"]);
}
