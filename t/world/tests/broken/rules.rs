//! What users, queues, limits and jobs themselves say of what may begin.

use eddy_world::swarm::Shape;

use super::{found, found_from};

#[test]
fn users_who_may_act_on_anothers_jobs() {
    let urged = "of urgency";
    let others = ["changed the instance", "which nobody"];
    let [governed, sent] = others;
    let sentences = ["changed job", "is not the client's", urged, governed, sent];
    found("all-owners", &sentences);
}

#[test]
fn a_job_that_starts_from_a_stopped_queue() {
    found("stop-unheard", &["which is stopped"]);
}

#[test]
fn a_job_that_a_disabled_queue_takes() {
    found("disable-unheard", &["which is disabled"]);
}

#[test]
fn more_jobs_than_an_account_may_have_submitted() {
    found("submitted-unheard", &["may be submitted"]);
}

#[test]
fn a_job_that_starts_where_nodes_are_kept_for_others() {
    found("reservation-unheard", &["reservation `", "reservations `"]);
}

#[test]
fn a_pool_of_which_more_is_given_than_there_is() {
    found("pools-inflated", &["are in use, which has fewer"]);
}

#[test]
fn a_filter_that_is_overruled() {
    found("filter-overruled", &["does not let in"]);
}

#[test]
fn what_a_job_asks_of_sockets_unheard() {
    found("sockets-unheard", &["not in sockets as it asks"]);
}

#[test]
fn what_a_job_asks_of_nodes_unheard() {
    found("constraint-unheard", &["which are not as it asks"]);
}

#[test]
fn more_cores_or_nodes_than_somebody_may_have() {
    found(
        "cores-unheard",
        &["`cores`, whose limit", "`nodes`, whose limit"],
    );
}

#[test]
fn one_who_is_let_through_a_limit_past_one_of_a_better_qos() {
    // One in a thousand worlds has somebody of a better QoS behind one of a worse one at the same limit.
    let sentences = ["was let through past job"];
    found_from(1_400, Shape::Flat, "grade-unheard", &sentences);
}

#[test]
fn core_minutes_that_are_had_again_on_the_next_day() {
    found("period-unheard", &["core-minutes"]);
}

#[test]
fn users_who_may_suspend_anothers_jobs() {
    let sentences = ["by `suspend`", "by `resume`"];
    found_from(700, Shape::Flat, "all-suspend", &sentences);
}

#[test]
fn users_who_may_send_signals_to_anothers_jobs() {
    found("all-kill", &["which nobody"]);
}

#[test]
fn users_who_may_take_nodes_out_of_service() {
    found("all-drain", &["changed the instance by `drain`"]);
}
