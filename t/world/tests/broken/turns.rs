//! Whose turn it is, and what was promised to him.

use eddy_world::script::play;
use eddy_world::swarm::Shape;

use super::{SEEDS, found, found_among, found_beside, found_by, found_from, found_in};

#[test]
fn a_job_that_is_let_go_before_its_time() {
    found(
        "needs-dropped",
        &["was not met", "panic", "run, allowed are"],
    );
}

#[test]
fn a_head_that_is_delayed_by_those_who_pass() {
    // From the first on, who promises nothing does not see that a gang never fits.
    let sentences = ["passes it, and it starts at"];
    let range = 2_593..2_593 + SEEDS;
    // Nor does it weigh what is used.
    found_among(
        range,
        Shape::Flat,
        "head-delayed",
        Some("is told as"),
        &sentences,
    );
}

#[test]
fn a_head_that_is_delayed_where_queues_have_instances() {
    let sentences = ["passes it, and it starts at"];
    // Nor does it weigh what is used, as above.
    let other = Some("is told as");
    found_beside(Shape::Queues, "head-delayed", other, &sentences);
}

#[test]
fn somebody_who_passes_where_nobody_may() {
    found_in(
        Shape::Queues,
        "order-unheard",
        &["passes it, and nobody may"],
    );
}

#[test]
fn a_promise_that_moves_though_nobody_came_before() {
    // Few policies promise anything for good, and mostly to one who is first.
    let sentences = ["was promised a start at"];
    found_from(1_190, Shape::Queues, "promises-anew", &sentences);
}

#[test]
fn a_job_that_waits_too_long_and_is_passed_on() {
    // Before that one there is a gang that never fits, which is not seen where nobody is promised anything.
    let sentences = ["has waited too long and would start at"];
    found_from(60, Shape::Flat, "overdue-unheard", &sentences);
}

#[test]
fn a_job_that_waits_too_long_in_a_line_of_nodes_that_are_set_aside() {
    // The first ends early, and one that comes last would have its core for longer than the second. Between
    // them somebody elsewhere has all looked at.
    let script = |broken: &str| {
        format!(
            "machines 2x2\nqueue q nodes=1\n{broken}\
             policy fcfs queue.walk=\"skip\" queue.reserve_after=\"2s\"\npass 2\n\
             submit a queue=q run=10 limit=20\nsubmit b queue=q run=20 limit=20\n\
             submit c queue=q cores=2 run=5 limit=5\npass 3\nsubmit d run=1 limit=1\n\
             pass 6\nsubmit e queue=q run=60 limit=60\npass 20\n"
        )
    };
    let sentence = "has waited too long in line `q` and would start at";
    found_by(script, "overdue-unheard", sentence);
}

#[test]
fn a_promise_that_is_lost_to_a_lesser_job_where_turns_change() {
    // The second is promised the end of the first, and is due more than the third, whose user has the first, too. Few
    // seeds have three who wait for what ends in time under that policy.
    let script = |broken: &str| {
        format!(
            "machines 1x2\nsubmit a cores=2 run=60 limit=60\npass 3\n3> submit b cores=2 run=20 limit=20\n\
             submit c cores=2 run=20 limit=20\n{broken}policy flux\npass 3\nsubmit d cores=2 run=20 limit=20\n\
             pass 3\n"
        )
    };
    let sentence = "though nobody who is due as much begins or has another start";
    found_by(script, "promise-dropped", sentence);
}

#[test]
fn a_job_that_is_taken_from_while_it_is_exempt() {
    found("exempt-forgotten", &["it is exempt for"]);
}

#[test]
fn one_of_a_gang_left_behind_as_the_others_start() {
    let left_behind = "though a plan by";
    found("gang-scattered", &["fewer than", "never ends", left_behind]);
}

#[test]
fn a_hold_that_counts_as_waiting_for_resources() {
    found("holds-counted", &["is planned as eligible"]);
}

#[test]
fn a_promise_that_moves_in_a_line_of_nodes_that_are_set_aside() {
    // The first ends early: who is before the last has his place then, where promises are not kept.
    let script = "machines 2x2\nqueue q nodes=1\nbreak promises-anew\npolicy conservative\npass 2\n\
                  submit a queue=q run=5 limit=40\nsubmit b queue=q run=60 limit=10\n\
                  submit c queue=q cores=2 run=30 limit=30\nsubmit d queue=q run=10 limit=10\npass 8\n";
    let told = play(script).expect("a script");
    let found = "was promised a start at 1800000032.000000, and now 1800000072.000000";
    assert!(told.contains(found), "{told}");
}

#[test]
fn a_leader_that_promises_a_later_start_than_the_one_before_it() {
    let script = "nodes 1x2\nbreak limit-unheard\npolicy easy\nsubmit a cores=2 run=20 limit=20\n\
                  submit b cores=2 run=5 limit=5\npass 2\ncrash leader\npass 1\nstart\npass 4\n";
    let told = play(script).expect("a script");
    let found =
        "BROKEN: job 2 was promised a start at 1800000030.000000, and now 1800000090.000000";
    assert!(told.contains(found), "{told}");
}

#[test]
fn a_head_that_loses_its_turn_while_its_instance_is_not_reached() {
    found_in(
        Shape::Queues,
        "turns-dropped",
        &["an instance is expected: job"],
    );
}
