//! Each rule broken on purpose is noticed by the swarm, within a bounded number of seeds.

use std::ops::Range;

use eddy_world::broken::Rule;
use eddy_world::script::play;
use eddy_world::swarm::{self, Shape};

/// Seeds until a broken rule must have been noticed.
const SEEDS: u64 = 1500;

/// What the oracles may say of it, in the first seed that finds something.
fn found(name: &str, sentences: &[&str]) {
    found_in(Shape::Flat, name, sentences);
}

fn found_in(shape: Shape, name: &str, sentences: &[&str]) {
    found_beside(shape, name, None, sentences);
}

/// The same from that seed on: of what few seeds notice, one in hundreds, soon.
fn found_from(from: u64, shape: Shape, name: &str, sentences: &[&str]) {
    found_among(from..from + SEEDS, shape, name, None, sentences);
}

/// The same, where what a sentence with `other` says comes of the broken rule, too, and is not what
/// it is about.
fn found_beside(shape: Shape, name: &str, other: Option<&str>, sentences: &[&str]) {
    found_among(0..SEEDS, shape, name, other, sentences);
}

fn found_among(
    seeds: Range<u64>,
    shape: Shape,
    name: &str,
    other: Option<&str>,
    sentences: &[&str],
) {
    let rule = Rule::named(name).expect("the rule has this name");
    let is_it = |sentence: &String| other.is_none_or(|other| !sentence.contains(other));
    let finding = |seed| swarm::run(seed, shape, Some(rule)).finding.filter(is_it);
    let mut among = seeds;
    let first = among.find_map(finding);
    let sentence = first.unwrap_or_else(|| panic!("{SEEDS} seeds did not notice `{name}`"));
    assert!(
        sentences.iter().any(|expected| sentence.contains(expected)),
        "`{name}` was noticed as: {sentence}"
    );
}

/// By a script that is given where the rule breaks; without that nothing is found.
fn found_by(script: impl Fn(&str) -> String, name: &str, sentence: &str) {
    let told = play(&script(&format!("break {name}\n"))).expect("a script");
    assert!(told.contains(sentence), "{told}");
    let told = play(&script("")).expect("a script");
    assert!(!told.contains("BROKEN"), "{told}");
}

#[test]
fn a_reply_before_its_record_is_durable() {
    found(
        "gate-open",
        &["is not in the durable journal", "is not durable"],
    );
}

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
fn a_job_that_is_let_go_before_its_time() {
    found(
        "needs-dropped",
        &["was not met", "panic", "run, allowed are"],
    );
}

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
fn an_instance_that_gives_back_what_its_jobs_run_on() {
    let sentences = ["back, where job"];
    found_in(Shape::Trees, "given-while-used", &sentences);
}

#[test]
fn users_who_may_act_on_anothers_jobs() {
    let urged = "of urgency";
    let others = ["changed the instance", "which nobody"];
    let [governed, sent] = others;
    let sentences = ["changed job", "is not the client's", urged, governed, sent];
    found("all-owners", &sentences);
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
fn what_lives_on_a_node_that_was_declared_dead() {
    // A shell that hangs has work in few of them.
    found_from(450, Shape::Trees, "dead-spared", &["while its task"]);
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
fn a_job_that_starts_from_a_stopped_queue() {
    found("stop-unheard", &["which is stopped"]);
}

#[test]
fn a_job_that_is_taken_from_while_it_is_exempt() {
    found("exempt-forgotten", &["it is exempt for"]);
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
fn a_request_that_is_refused_or_done_again_since_its_answer_was_lost() {
    found(
        "done-unheard",
        &["which was done, was refused", "was done twice"],
    );
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
fn one_of_a_gang_left_behind_as_the_others_start() {
    let left_behind = "though a plan by";
    found("gang-scattered", &["fewer than", "never ends", left_behind]);
}

#[test]
fn tasks_that_run_on_though_their_shell_says_they_stopped() {
    found("pause-unheard", &["cores"]);
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
fn what_a_job_asks_of_sockets_unheard() {
    found("sockets-unheard", &["not in sockets as it asks"]);
}

#[test]
fn what_a_job_asks_of_nodes_unheard() {
    found("constraint-unheard", &["which are not as it asks"]);
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
fn an_instance_that_ends_though_some_of_its_nodes_would_do() {
    found_in(Shape::Trees, "gifts-unheard", &["of its nodes would do"]);
}

#[test]
fn nodes_that_are_kept_though_others_were_to_have_them() {
    found_from(4_500, Shape::Trees, "gifts-kept", &["was to give ranks"]);
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
fn a_leader_that_hangs_and_is_not_begun_anew() {
    found_in(
        Shape::Trees,
        "restart-unheard",
        &["hangs and is not begun anew"],
    );
}

#[test]
fn what_was_held_of_a_node_that_failed_and_is_charged() {
    // From the first on, in which no mark has kept the sum.
    found("failure-charged", &["the records come to"]);
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

#[test]
fn jobs_of_which_nothing_is_asked_and_which_cost_more_records() {
    let sentences = ["does not say its place", "there is a record"];
    found("all-spelled-out", &sentences);
}

#[test]
fn a_hold_that_counts_as_waiting_for_resources() {
    found("holds-counted", &["is planned as eligible"]);
}

#[test]
fn jobs_that_begin_in_an_instance_that_is_ending() {
    found_in(
        Shape::Trees,
        "end-unheard",
        &["in an instance that is ending"],
    );
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
