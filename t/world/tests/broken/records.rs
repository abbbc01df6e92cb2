//! What is recorded, and what is told of it.

use super::found;

#[test]
fn a_reply_before_its_record_is_durable() {
    found(
        "gate-open",
        &["is not in the durable journal", "is not durable"],
    );
}

#[test]
fn keys_of_finished_jobs_forgotten() {
    found(
        "keys-forgotten",
        &["a submission became two jobs", "was refused"],
    );
}

#[test]
fn a_mark_that_leaves_out_a_record() {
    found(
        "mark-drops-record",
        &["counts either", "panic", "from the mark"],
    );
}

#[test]
fn an_end_forgotten_before_it_is_recorded() {
    found(
        "ends-forgotten",
        &["recorded is", "lost a node", "a second time"],
    );
}

#[test]
fn a_verdict_recorded_unchecked() {
    found("verdict-unchecked", &["alloc", "granted"]);
}

#[test]
fn a_wake_up_that_is_lost() {
    found(
        "wake-lost",
        &[
            "over its time limit",
            "KILL was due",
            "never ends",
            "all it waits for is met",
        ],
    );
}

#[test]
fn a_row_that_is_not_what_its_events_say() {
    found("row-stale", &["is not what its events say"]);
}

#[test]
fn a_request_that_is_refused_or_done_again_since_its_answer_was_lost() {
    found(
        "done-unheard",
        &["which was done, was refused", "was done twice"],
    );
}

#[test]
fn a_configuration_that_is_not_heard_of() {
    found(
        "configuration-unheard",
        &[
            "are in use, which has fewer",
            "waits, though",
            "counts either",
        ],
    );
}

#[test]
fn jobs_of_which_nothing_is_asked_and_which_cost_more_records() {
    let sentences = ["does not say its place", "there is a record"];
    found("all-spelled-out", &sentences);
}
