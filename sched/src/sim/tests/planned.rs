//! Replays through the planner of an instance: what jobs ask of nodes is obeyed, and
//! who asks nothing is served as everywhere.

use std::error::Error as _;

use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::MICROS;

use super::*;
use crate::sim::parties::Parties;
use crate::tests::model::inventory;

/// Four nodes of four cores in two sockets; the last two have a GPU each and are so named.
const NODES: &str = r#"{"version": 1, "execution": {"starttime": 0, "expiration": 0,
    "R_lite": [{"rank": "0-1", "children": {"core": "0-3"}},
               {"rank": "2-3", "children": {"core": "0-3", "gpu": "0"}}],
    "nodelist": ["n[0-3]"], "properties": {"fast": "2-3"}},
    "scheduling": {"eddy": {"sockets": {"0-1": [{"core": "0-1"}, {"core": "2-3"}],
        "2-3": [{"core": "0-1", "gpu": "0"}, {"core": "2-3"}]}}}}"#;

/// One pass at each instant, by the times that jobs ask for.
fn scene<'w>(workload: &'w Workload, machine: &'w Machine) -> Scene<'w> {
    Scene {
        workload,
        machine,
        foresight: Foresight::Requested,
        events: Events::Batch,
    }
}

fn course(jobs: &[String], policy: &str) -> Course {
    let text = format!(r#"{{"jobs": [{}]}}"#, jobs.join(","));
    let workload = read_json(text.as_bytes()).expect("a workload");
    let machine = Machine::of(&ResourceSet::parse(NODES).expect("nodes"));
    let policy = super::policy(policy);
    let scene = scene(&workload, &machine);
    assert_eq!(way(&policy, scene), Way::Planner);
    play(scene, &policy, |_| {}).expect("it is replayed")
}

fn starts(course: &Course) -> Vec<i64> {
    let starts = course.starts.iter();
    let starts = starts.map(|start| start.map_or(-1, |start| start.0 / MICROS));
    starts.collect()
}

/// One that asks for this (RFC 14), with these further attributes, and runs for 10 s.
fn job(id: u64, submit: u64, resources: &str, system: &str) -> String {
    format!(
        r#"{{"id": {id}, "submit": {submit}, "run": 10, "jobspec": {{"version": 1, "resources": [{resources}],
            "tasks": [{{"command": ["true"], "slot": "task", "count": {{"per_slot": 1}}}}],
            "attributes": {{"system": {{"duration": 10{system}}}}}}}}}"#
    )
}

/// So many slots of so many cores, in one node or wherever.
fn slots(count: u32, cores: u32) -> String {
    format!(
        r#"{{"type": "slot", "count": {count}, "label": "task", "with": [{{"type": "core", "count": {cores}}}]}}"#
    )
}

const FAST: &str = r#", "constraints": {"properties": ["fast"]}"#;

#[test]
fn who_asks_for_a_property_waits_for_a_node_that_has_it() {
    let jobs = [
        job(1, 0, &slots(2, 4), FAST),
        job(2, 1, &slots(1, 4), FAST),
        job(3, 2, &slots(1, 4), ""),
        // There is none of these.
        job(
            4,
            3,
            &slots(1, 1),
            r#", "constraints": {"properties": ["slow"]}"#,
        ),
    ];
    let course = course(&jobs, "preset = \"easy\"");
    assert_eq!(starts(&course), [0, 10, 2, -1]);
    assert_eq!(
        course.nodes[..3],
        [vec![(2, 4), (3, 4)], vec![(2, 4)], vec![(0, 4)]]
    );
    assert_eq!((course.backfilled, course.max_queue), (1, 2));
}

#[test]
fn whole_nodes_sockets_and_gpus_are_had_whole() {
    let whole = format!(
        r#"{{"type": "node", "count": 1, "exclusive": true, "with": [{}]}}"#,
        slots(1, 1)
    );
    let socket = r#"{"type": "slot", "count": 1, "label": "task", "with": [{"type": "socket", "count": 1}]}"#;
    let gpu = r#"{"type": "slot", "count": 1, "label": "task",
        "with": [{"type": "core", "count": 1}, {"type": "gpu", "count": 1}]}"#;
    let jobs = [
        job(1, 0, &whole, ""),
        job(2, 0, socket, ""),
        job(3, 0, gpu, ""),
        job(4, 0, gpu, ""),
        // A core is free beside each GPU, but no GPU.
        job(5, 0, gpu, ""),
    ];
    let course = course(&jobs, "preset = \"fcfs\"");
    assert_eq!(starts(&course), [0, 0, 0, 0, 10]);
    assert_eq!(course.procs, [4, 2, 1, 1, 1]);
    assert_eq!(course.nodes[..2], [vec![(0, 4)], vec![(1, 2)]]);
}

#[test]
fn users_are_due_their_shares() {
    let of = |id: u64, user: &str| {
        format!(
            r#"{{"id": {id}, "submit": 0, "run": 10, "user": "{user}", "group": "lab",
                "jobspec": {{"version": 1, "resources": [{}],
                "tasks": [{{"command": ["true"], "slot": "task", "count": {{"per_slot": 1}}}}],
                "attributes": {{"system": {{"duration": 10}}}}}}}}"#,
            slots(4, 4)
        )
    };
    // One runs at a time.
    let jobs: Vec<String> = (1..=8).map(|id| of(id, "ann")).collect();
    let jobs: Vec<String> = jobs
        .into_iter()
        .chain((9..=16).map(|id| of(id, "bob")))
        .collect();
    let text = format!(
        r#"{{"jobs": [{}], "shares": {{"lab/ann": 3}}}}"#,
        jobs.join(",")
    );
    let workload = read_json(text.as_bytes()).expect("a workload");
    let machine = Machine::of(&ResourceSet::parse(NODES).expect("nodes"));
    let scene = scene(&workload, &machine);
    let fair = policy(
        "preset = \"flux\"\n[priority]\norder = [\"fair_share\"]\n[usage]\ndecay = { form = \"none\" }",
    );
    let course = play(scene, &fair, |_| {}).expect("it is replayed");
    let starts = starts(&course);
    let before = |jobs: &[i64]| jobs.iter().filter(|start| **start < 80).count();
    assert_eq!(
        (before(&starts[..8]), before(&starts[8..])),
        (6, 2),
        "{starts:?}"
    );
}

/// Four of one, as many as there are nodes, then two of another 5 s later.
fn late() -> Vec<String> {
    let one = |id, submit, user: &str| {
        let named = format!(r#""run": 10, "user": "{user}", "class": "preemptible""#);
        job(id, submit, &slots(1, 4), "").replace("\"run\": 10", &named)
    };
    let first = (1..=4).map(|id| one(id, 0, "ann"));
    first.chain((5..=6).map(|id| one(id, 5, "bob"))).collect()
}

#[test]
fn who_is_taken_from_begins_anew() {
    let course = course(
        &late(),
        "preset = \"armada\"\n[share]\nprotected_fraction = 0",
    );
    let mut starts = starts(&course);
    assert_eq!((course.preempted, starts.split_off(4)), (2, vec![5, 5]));
    // Two ran on; as they ended at 10 the others began from nothing.
    starts.sort_unstable();
    assert_eq!(starts, [0, 0, 10, 10]);
}

#[test]
fn a_pass_for_each_event_looks_at_submissions_first() {
    let jobs = [job(1, 0, &slots(4, 4), ""), job(2, 10, &slots(1, 4), "")];
    let text = format!(r#"{{"jobs": [{}]}}"#, jobs.join(","));
    let workload = read_json(text.as_bytes()).expect("a workload");
    let machine = Machine::of(&ResourceSet::parse(NODES).expect("nodes"));
    let passes = |events| {
        let scene = Scene {
            workload: &workload,
            machine: &machine,
            foresight: Foresight::Clairvoyant,
            events,
        };
        let course = play(scene, &policy("preset = \"fcfs\""), |_| {}).expect("it is replayed");
        (starts(&course), course.passes, course.max_queue)
    };
    // The second comes and waits before the first has ended.
    assert_eq!(passes(Events::Each), (vec![0, 10], 4, 1));
    assert_eq!(passes(Events::Batch), (vec![0, 10], 3, 1));
}

#[test]
fn a_workload_without_groups_and_shares_has_no_accounts() {
    let workload = |text: &str| read_json(text.as_bytes()).expect("a workload");
    let jobs = r#""jobs": [{"id": 1, "submit": 0, "run": 1, "procs": 1, "user": "bob"},
        {"id": 2, "submit": 0, "run": 1, "procs": 1, "user": "ann", "group": "lab"}]"#;
    let alone =
        workload(r#"{"jobs": [{"id": 1, "submit": 0, "run": 1, "procs": 1, "user": "bob"}]}"#);
    let parties = Parties::of(&alone);
    assert_eq!(
        (parties.parties[0].account.clone(), parties.changes.len()),
        (None, 0)
    );
    let parties = Parties::of(&workload(&format!("{{{jobs}}}")));
    let accounts: Vec<String> = parties
        .parties
        .iter()
        .filter_map(|party| party.account.as_ref().map(ToString::to_string))
        .collect();
    // In the order of names: the group, then who has none.
    assert_eq!(accounts, ["a00000001", "a00000000"]);
    assert_eq!(parties.changes.len(), 4);
}

#[test]
fn a_jobspec_that_is_none_is_refused_by_the_number_of_the_job() {
    let said = |job: String| {
        let text = format!(r#"{{"jobs": [{job}]}}"#);
        let error = read_json(text.as_bytes()).expect_err("it is refused");
        let source = error.source().map(|source| format!(": {source}"));
        format!("{error}{}", source.unwrap_or_default())
    };
    assert_eq!(
        said(job(7, 0, &slots(1, 1), "").replace("\"version\": 1", "\"version\": 2")),
        "workload: job 7: jobspec: version: is 2; allowed are 1 to 1"
    );
    assert!(
        said(job(7, 0, r#"{"type": "rack", "count": 1}"#, ""))
            .starts_with("workload: job 7: jobspec: ")
    );
    let beside = job(7, 0, &slots(1, 1), "").replace("\"run\": 10", "\"run\": 10, \"procs\": 1");
    assert!(said(beside).starts_with("workload: job 7: procs: given beside a jobspec; allowed is"));
    assert_eq!(
        said(r#"{"id": 7, "submit": 0, "run": 1}"#.to_owned()),
        "workload: job 7: procs: missing; allowed is 1 or more, or a jobspec"
    );
}

#[test]
fn what_others_have_to_do_with_is_refused() {
    let said = |system: &str| {
        let text = format!(r#"{{"jobs": [{}]}}"#, job(7, 0, &slots(1, 1), system));
        let error = read_json(text.as_bytes()).expect_err("it is refused");
        error.to_string()
    };
    assert_eq!(
        said(r#", "gang": {"name": "g", "size": 2}"#),
        "workload: job 7: jobspec: a gang; allowed is what a job asks for by itself"
    );
    let after = r#", "dependencies": [{"scheme": "after", "value": "1"}]"#;
    assert!(said(after).contains("jobspec: dependencies; allowed is"));
}

/// One of 20 s that takes all nodes and asks for 30 s, then two of a node each.
fn behind_one() -> Vec<String> {
    let run = |job: String, run: &str| job.replace("\"run\": 10", run);
    vec![
        run(job(1, 0, &slots(4, 4), ""), r#""run": 20, "limit": 30"#),
        run(job(2, 0, &slots(1, 4), ""), r#""run": 1, "limit": 30"#),
        run(job(3, 0, &slots(1, 4), ""), r#""run": 5, "limit": 30"#),
    ]
}

#[test]
fn who_has_a_promise_and_no_token_starts_when_there_is_one() {
    let policy =
        "preset = \"conservative\"\n[queue.limits]\nrate = { per_second = 0.3, burst = 1 }";
    // A token comes each three seconds and a third, the next after the second has taken one.
    let course = course(&behind_one(), policy);
    assert_eq!(starts(&course), [0, 20, 23]);
}

#[test]
fn who_waits_for_a_token_however_long_is_not_given_up() {
    let one = |id: u64| job(id, id, &slots(1, 1), "").replace("\"run\": 10", "\"run\": 1");
    let jobs: Vec<String> = (1..=3_700).map(one).collect();
    let policy = "preset = \"fcfs\"\n[queue.limits]\nrate = { per_second = 0.01, burst = 1 }";
    let course = course(&jobs, policy);
    assert!(course.starts.iter().all(Option::is_some));
}

#[test]
fn who_asks_for_more_than_his_account_may_have_holds_nobody_up() {
    let jobs = [job(1, 0, &slots(4, 4), ""), job(2, 0, &slots(2, 4), "")];
    let policy = "preset = \"fcfs\"\n[queue.limits.account_fraction]\ndefault = { cores = 0.5 }";
    let class =
        "\n[placement]\ndefault_class = \"default\"\n[placement.classes.default]\npriority = 0";
    assert_eq!(starts(&course(&jobs, &format!("{policy}{class}"))), [-1, 0]);
}

#[test]
fn times_beyond_what_can_be_counted_are_refused() {
    let long =
        |id| job(id, 0, &slots(4, 4), "").replace("\"run\": 10", "\"run\": 1e12, \"limit\": 1e12");
    let text = format!(r#"{{"jobs": [{}, {}, {}]}}"#, long(1), long(2), long(3));
    let workload = read_json(text.as_bytes()).expect("a workload");
    let machine = Machine::of(&ResourceSet::parse(NODES).expect("nodes"));
    let scene = scene(&workload, &machine);
    let refused = play(scene, &policy("preset = \"easy\""), |_| {});
    assert_eq!(refused, Err(NotSimulated::TooLong));
}

#[test]
fn jobs_without_limits_end_a_search_that_finds_nothing() {
    // Nobody knows when the first ends: the second can be promised nothing.
    let text = r#"{"jobs": [{"id": 1, "submit": 0, "run": 20, "procs": 16},
        {"id": 2, "submit": 0, "run": 5, "procs": 9}]}"#;
    let workload = read_json(text.as_bytes()).expect("a workload");
    let machine = Machine::of(&ResourceSet::parse(NODES).expect("nodes"));
    for name in ["easy", "conservative", "flux"] {
        let scene = scene(&workload, &machine);
        let course = play(scene, &named(name).expect("a policy"), |_| {}).expect("it is replayed");
        assert_eq!(starts(&course), [0, 20], "{name}");
    }
}

#[test]
fn who_asks_something_of_nodes_needs_nodes() {
    let text = format!(
        r#"{{"procs": 4, "jobs": [{}]}}"#,
        job(1, 0, &slots(1, 1), "")
    );
    let workload = read_json(text.as_bytes()).expect("a workload");
    let machine = Machine::count(4);
    let scene = scene(&workload, &machine);
    let refused = play(scene, &policy("preset = \"fcfs\""), |_| {});
    assert_eq!(refused, Err(NotSimulated::AskNodes));
}

/// Times in units that are long against the time after an end that an instance plans with.
fn asks() -> impl Strategy<Value = Vec<(i64, i64, i64, u64, u8)>> {
    let one = (0..20_i64, 1..9_i64, 0..4_i64, 1..9_u64, 0..3_u8);
    proptest::collection::vec(one, 1..25)
}

const UNIT: i64 = 1000;

proptest! {
    /// The planner of an instance and the walk over nodes are one scheduler.
    #[test]
    fn who_asks_nothing_of_nodes_starts_as_in_a_walk_over_them(asks in asks()) {
        let jobs = (1..).zip(&asks).map(|(id, &(submit, run, over, procs, user))| SimJob {
            id,
            submit: Time(submit * UNIT * MICROS),
            procs,
            nodes: None,
            run: Span::seconds(run * UNIT),
            limit: Some(Span::seconds((run + over) * UNIT)),
            owner: user.into(),
            terms: 0,
        });
        let owners = ["ann", "bob", "eve"].map(|user| Owner::new(None, user));
        let mut workload = Workload {
            jobs: jobs.collect(),
            owners: owners.to_vec(),
            ..Workload::default()
        };
        let machine = Machine::of(&inventory(&[(4, 0, 0), (2, 0, 0), (4, 0, 0)]));
        for name in ["fcfs", "easy"] {
            let policy = named(name).expect("a policy");
            let mut played = |requests| {
                workload.requests = requests;
                let scene = scene(&workload, &machine);
                play(scene, &policy, |_| {}).expect("it is replayed")
            };
            let (walked, planned) = (played(Vec::new()), played(vec![None; asks.len()]));
            prop_assert_eq!(&walked.starts, &planned.starts, "{}", name);
            prop_assert_eq!(&walked.nodes, &planned.nodes, "{}", name);
            prop_assert_eq!(walked.backfilled, planned.backfilled, "{}", name);
            prop_assert_eq!(walked.max_queue, planned.max_queue, "{}", name);
        }
    }
}
