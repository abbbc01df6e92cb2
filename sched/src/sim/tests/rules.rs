//! Rules of a policy as schedules worked out by hand: margins, waits that are too
//! long, how far a pass looks, rounds.

use super::policy;
use crate::sim::*;
use crate::tests::model::inventory;

/// Starts in seconds on a machine; -1 is never.
fn starts(jobs: &[&str], machine: &Machine, text: &str) -> (Vec<i64>, Course) {
    let text_of = format!(r#"{{"jobs": [{}]}}"#, jobs.join(","));
    let workload = read_json(text_of.as_bytes()).expect("a workload");
    let policy = policy(text);
    let scene = Scene {
        workload: &workload,
        machine,
        foresight: Foresight::Requested,
        events: Events::Batch,
    };
    let course = play(scene, &policy, |_| {}).expect("it is replayed");
    let starts = course.starts.iter();
    let starts = starts.map(|start| start.map_or(-1, |start| start.0 / 1_000_000));
    (starts.collect(), course)
}

/// On four processors.
fn counted(jobs: &[&str], text: &str) -> Vec<i64> {
    starts(jobs, &Machine::count(4), text).0
}

#[test]
fn a_reservation_is_taken_only_by_who_is_better_by_the_margin() {
    // The second has all four reserved for 100 s; the third comes later and is a twentieth better.
    let jobs = [
        r#"{"id": 1, "submit": 0, "run": 100, "limit": 100, "procs": 4}"#,
        r#"{"id": 2, "submit": 1, "run": 10, "limit": 10, "procs": 4, "urgency": 20}"#,
        r#"{"id": 3, "submit": 2, "run": 10, "limit": 10, "procs": 4, "urgency": 21}"#,
    ];
    let with = |margin: &str| {
        let text = format!(
            "preset = \"conservative\"\n[priority]\norder = [\"urgency + 0 * wait\"]\nrefresh = \"1s\"\n\
             [queue]\ndisplace_margin = {margin}"
        );
        counted(&jobs, &text)
    };
    assert_eq!(with("0.1"), [0, 100, 110]);
    assert_eq!(with("0.04"), [0, 110, 100]);
    assert_eq!(with("0"), [0, 110, 100]);
}

#[test]
fn who_waited_too_long_is_given_a_reservation_though_all_may_pass() {
    let jobs = [
        r#"{"id": 1, "submit": 0, "run": 40, "limit": 40, "procs": 2}"#,
        r#"{"id": 2, "submit": 1, "run": 10, "limit": 10, "procs": 4}"#,
        r#"{"id": 3, "submit": 2, "run": 60, "limit": 60, "procs": 2}"#,
        r#"{"id": 4, "submit": 3, "run": 50, "limit": 50, "procs": 2}"#,
    ];
    let skip = "preset = \"fcfs\"\n[queue]\nwalk = \"skip\"";
    assert_eq!(counted(&jobs, skip), [0, 90, 2, 40]);
    // At 40 the wide one has waited 39 s: it is kept the time when the third ends.
    let after = format!("{skip}\nreserve_after = \"30s\"");
    assert_eq!(counted(&jobs, &after), [0, 62, 2, 72]);
    let later = format!("{skip}\nreserve_after = \"40s\"");
    assert_eq!(counted(&jobs, &later), [0, 90, 2, 40]);
}

#[test]
fn a_pass_looks_so_far_and_what_never_fits_is_not_looked_at() {
    let wide = r#"{"id": 2, "submit": 1, "run": 10, "limit": 10, "procs": 4}"#;
    let never = wide.replace("\"procs\": 4", "\"procs\": 5");
    let jobs = |second| {
        [
            r#"{"id": 1, "submit": 0, "run": 30, "limit": 30, "procs": 3}"#,
            second,
            r#"{"id": 3, "submit": 2, "run": 10, "limit": 10, "procs": 1}"#,
        ]
    };
    let with = |most: u32| format!("preset = \"easy\"\n[queue]\nlookback = {most}");
    // The one that waits is all that is looked at: the third does not pass it.
    assert_eq!(counted(&jobs(wide), &with(1)), [0, 30, 40]);
    assert_eq!(counted(&jobs(wide), &with(2)), [0, 30, 2]);
    // One that never fits uses up nothing.
    assert_eq!(counted(&jobs(&never), &with(1)), [0, -1, 2]);
    assert_eq!(counted(&jobs(&never), "preset = \"fcfs\""), [0, -1, 2]);
}

fn nodes(cores: &[u32]) -> Machine {
    let nodes: Vec<(u32, u32, u64)> = cores.iter().map(|&cores| (cores, 0, 0)).collect();
    Machine::of(&inventory(&nodes))
}

#[test]
fn nodes_are_taken_by_their_rank() {
    // One core of the second is taken first; the next of one core may go anywhere.
    let jobs = [
        r#"{"id": 1, "submit": 0, "run": 90, "limit": 90, "procs": 3}"#,
        r#"{"id": 2, "submit": 1, "run": 90, "limit": 90, "procs": 1}"#,
        r#"{"id": 3, "submit": 2, "run": 90, "limit": 90, "procs": 2, "nodes": 2}"#,
    ];
    let machine = nodes(&[2, 4, 3, 4]);
    let with = |rank: &str| {
        let text = format!("preset = \"fcfs\"\n[placement]\nrank = \"{rank}\"");
        let course = starts(&jobs, &machine, &text).1;
        let places = |parts: &Vec<(u32, u64)>| parts.iter().map(|(node, _)| *node).collect();
        let nodes: Vec<Vec<u32>> = course.nodes.iter().map(places).collect();
        nodes
    };
    // Three cores: the first node with them; one core: the lowest node that has one.
    assert_eq!(with("low_id"), [vec![1], vec![0], vec![0, 1]]);
    assert_eq!(with("high_id"), [vec![3], vec![3], vec![1, 2]]);
    assert_eq!(with("pack"), [vec![1], vec![1], vec![0, 2]]);
    assert_eq!(with("spread"), [vec![1], vec![0], vec![2, 3]]);
    // Nothing is left of the third node, then one core of the first.
    assert_eq!(with("best_fit"), [vec![2], vec![0], vec![0, 1]]);
    assert_eq!(with("locality"), [vec![1], vec![0], vec![0, 1]]);
}

const ARMADA: &str = "preset = \"armada\"\n[share]\nprotected_fraction = 0";

fn preemptible(id: u64, submit: u64, user: &str) -> String {
    format!(
        r#"{{"id": {id}, "submit": {submit}, "run": 10, "procs": 1, "user": "{user}", "class": "preemptible"}}"#
    )
}

#[test]
fn one_who_comes_late_is_given_its_part_and_who_gave_way_begins_anew() {
    let mut jobs: Vec<String> = (1..=4).map(|id| preemptible(id, 0, "a")).collect();
    jobs.extend((5..=6).map(|id| preemptible(id, 5, "b")));
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let (mut begun, course) = starts(&jobs, &nodes(&[2, 2]), ARMADA);
    assert_eq!(course.preempted, 2);
    assert_eq!(begun.split_off(4), [5, 5]);
    // Two of the first ran on and ended at 10, when the others began from nothing.
    begun.sort_unstable();
    assert_eq!(begun, [0, 0, 10, 10]);
    let shared = "preset = \"armada\"\n[share]\nprotected_fraction = 1";
    let (_, course) = starts(&jobs, &nodes(&[2, 2]), shared);
    assert_eq!(
        course.preempted, 2,
        "who has more than its part is not protected"
    );
}

#[test]
fn a_job_on_several_nodes_starts_whole_in_a_round() {
    let jobs = [
        r#"{"id": 1, "submit": 0, "run": 10, "procs": 1, "user": "a"}"#,
        r#"{"id": 2, "submit": 0, "run": 10, "procs": 4, "user": "b"}"#,
        r#"{"id": 3, "submit": 0, "run": 5, "procs": 2, "user": "c"}"#,
    ];
    let (begun, course) = starts(&jobs, &nodes(&[2, 2]), "preset = \"armada\"");
    assert_eq!(begun, [0, 10, 0]);
    assert_eq!(course.nodes[1], [(0, 2), (1, 2)]);
}

#[test]
fn a_rate_of_rounds_is_waited_for() {
    let text = "preset = \"armada\"\n[queue.limits]\nrate = { per_second = 1, burst = 1 }";
    let jobs: Vec<String> = (1..=3).map(|id| preemptible(id, 0, "a")).collect();
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    assert_eq!(starts(&jobs, &nodes(&[4]), text).0, [0, 1, 2]);
}

#[test]
fn a_round_that_started_its_part_is_followed_by_another() {
    let text = "preset = \"armada\"\n[queue.limits]\npass_fraction.cores = 0.25";
    let jobs: Vec<String> = (1..=4).map(|id| preemptible(id, 0, "a")).collect();
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    // Looked at before each start: the second makes it more than one of four.
    assert_eq!(starts(&jobs, &nodes(&[4]), text).0, [0, 0, 1, 1]);
}

#[test]
fn rounds_need_nodes_and_whole_instants() {
    let jobs = r#"{"jobs": [{"id": 1, "submit": 0, "run": 1, "procs": 1}]}"#;
    let workload = read_json(jobs.as_bytes()).expect("a workload");
    let policy = policy("preset = \"armada\"");
    let refused = |machine: &Machine, events| {
        let scene = Scene {
            workload: &workload,
            machine,
            foresight: Foresight::Requested,
            events,
        };
        Rounds::new(scene, &policy)
            .err()
            .map(|error| error.to_string())
    };
    let said = refused(&Machine::count(4), Events::Batch).expect("no nodes");
    assert!(said.contains("--resources"), "{said}");
    let said = refused(&nodes(&[4]), Events::Each).expect("each event");
    assert!(said.contains("--order"), "{said}");
    assert_eq!(refused(&nodes(&[4]), Events::Batch), None);
}
