//! Seeds in which something was wrong once, each with what it was.

use eddy_world::swarm::{self, Shape};

fn is_right(seed: u64, shape: Shape) {
    assert_eq!(swarm::run(seed, shape, None).finding, None, "seed {seed}");
}

/// Jobs that a limit keeps back are cancelled in one request; the end of the first let the second
/// through, whose end was proposed already.
#[test]
fn who_is_cancelled_in_the_same_turn_is_not_let_through() {
    is_right(700_324, Shape::Trees);
    is_right(703_518, Shape::Trees);
    is_right(700_884, Shape::Queues);
}

/// Those behind a promise whose time had passed waited while all was free.
#[test]
fn a_promise_that_is_late_keeps_nobody_from_free_nodes() {
    is_right(248_801, Shape::Trees);
}

/// Whoever is first was told by numbers, though who is level goes by submission: what a queue instance took
/// while the root was away has an older number.
#[test]
fn a_job_that_was_taken_below_is_not_before_who_was_submitted_earlier() {
    is_right(3_000_685, Shape::Queues);
}

/// Ground beside its leader was cleared when a shell of the instance that had grown there was
/// launched: the agent there, which did that, had not heard yet that it hosts no more.
#[test]
fn ground_beside_the_leader_is_over_when_the_agent_there_says_so() {
    is_right(60_024_619, Shape::Trees);
    is_right(70_014_239, Shape::Trees);
}

/// All machines but the leader's were removed: without links nothing happened for an hour, and nobody put right
/// meanwhile what kept a job waiting.
#[test]
fn a_world_of_one_machine_is_looked_at() {
    is_right(147, Shape::Queues);
}

/// A submission of the instance's own was looked up in the journal while another under its key was handed up.
#[test]
fn a_key_that_is_looked_up_is_of_no_other_submission() {
    is_right(21_829, Shape::Queues);
}

/// One that asks for whole sockets counts with all their cores: it waits where a limit is of fewer.
#[test]
fn who_asks_for_whole_sockets_is_not_taken_for_one_within_a_limit() {
    is_right(20_458, Shape::Flat);
}

/// A filter never answers for a job that a queue instance took; who waits for it asked in another queue instance.
#[test]
fn who_asks_beside_where_a_job_lasts_waits_with_it() {
    is_right(31_569, Shape::Queues);
}

/// What begins just before its instance ends was charged for all of its limit until that was recorded.
#[test]
fn who_begins_is_charged_for_no_more_than_is_left_of_the_instance() {
    is_right(40_707, Shape::Trees);
}

/// Who is told that he never starts was held to wait on by the judge, and the others to be due less.
#[test]
fn who_never_starts_is_no_more_among_those_who_are_due_something() {
    is_right(1867, Shape::Queues);
}

/// An instance was told of its end by a clock that had been set back, while its leader, which begins again, tells
/// the time by its records.
#[test]
fn who_begins_again_behind_his_records_ends_by_them() {
    is_right(65_064, Shape::Queues);
}

/// An administrator's word on a machine that was off came half a minute late: it was on again, and cut off. What he
/// would not say any more he takes back.
#[test]
fn who_calls_a_node_dead_takes_it_back_where_it_lives_again() {
    is_right(83_258, Shape::Queues);
}

/// Who began was held to have been due what he was told while another job of his user ran, by a judge that had seen
/// that one end.
#[test]
fn who_is_due_more_since_his_own_job_ended_takes_what_another_was_promised() {
    is_right(65_026, Shape::Flat);
}

/// A node came back, and the first in turn waited for an instance that had no ground on it yet: who was behind began
/// there.
#[test]
fn who_waits_for_ground_of_his_instance_is_not_passed() {
    is_right(1103, Shape::Queues);
}
