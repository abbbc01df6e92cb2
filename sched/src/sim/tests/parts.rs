//! The parts of a replay on their own: how jobs lie on a machine, what is drawn, who
//! has used what, whose turn is first.

use eddy_wire::time::{MICROS, Span, Time};

use super::policy;
use crate::sim::books::{Books, Charged, parts};
use crate::sim::ranking::{Ranked, Ranking};
use crate::sim::*;
use crate::tests::model::inventory;

fn nodes(cores: &[u32]) -> Machine {
    let nodes: Vec<(u32, u32, u64)> = cores.iter().map(|&cores| (cores, 0, 0)).collect();
    Machine::of(&inventory(&nodes))
}

fn workload(jobs: &str, shares: &str) -> Workload {
    let text = format!(r#"{{"procs": 4, "jobs": [{jobs}], "shares": {shares}}}"#);
    read_json(text.as_bytes()).expect("a workload")
}

/// A job of so many processors on so many nodes.
fn sized(procs: u64, nodes: Option<u64>) -> SimJob {
    SimJob {
        id: 1,
        submit: Time(0),
        procs,
        nodes,
        run: Span::seconds(1),
        limit: None,
        owner: 0,
        terms: 0,
    }
}

#[test]
fn a_job_lies_evenly_on_as_few_nodes_as_have_room_or_on_those_it_asks_for() {
    let machine = nodes(&[4, 2, 4, 0]);
    assert_eq!((machine.procs(), machine.nodes().len()), (10, 3));
    let shape = |procs, nodes| {
        machine
            .shape(&sized(procs, nodes))
            .map(|shape| (shape.nodes, shape.each))
    };
    assert_eq!(shape(4, None), Some((1, 4)));
    assert_eq!(shape(5, None), Some((2, 3)));
    // Three of each on three nodes: one has two.
    assert_eq!(shape(9, None), None);
    assert_eq!(shape(6, Some(3)), Some((3, 2)));
    // What it asks for cannot be: it is as one that asks for nothing.
    assert_eq!(shape(8, Some(3)), Some((2, 4)));
    assert_eq!(shape(3, Some(9)), Some((1, 3)));
    let count = Machine::count(4);
    assert_eq!(
        count.shape(&sized(3, Some(1))).map(|shape| shape.nodes),
        Some(3)
    );
    assert_eq!(count.shape(&sized(5, None)), None);
}

/// Three jobs of users, the third where the first was.
const JOBS: &str = r#"
    {"id": 1, "submit": 0, "run": 20, "procs": 2, "user": "a"},
    {"id": 2, "submit": 0, "run": 30, "procs": 1, "user": "b"},
    {"id": 3, "submit": 0, "run": 10, "procs": 3, "user": "a"}"#;

fn course(starts: [i64; 3]) -> Course {
    let at = |seconds: i64| Some(Time(seconds * MICROS));
    Course {
        starts: starts.map(at).to_vec(),
        ..Course::default()
    }
}

#[test]
fn use_and_queue_are_means_of_each_step() {
    let workload = workload(JOBS, "{}");
    let course = course([0, 10, 40]);
    let until = last_end(&workload, &course);
    assert_eq!(until, Time(50 * MICROS));
    let series = Series::new(&workload, &course, until, Span::seconds(10));
    let near = |values: &[f64], expected: [f64; 5]| {
        let pairs = values.iter().zip(expected);
        pairs
            .into_iter()
            .all(|(value, expected)| (value - expected).abs() < 1e-5)
    };
    assert!(
        near(&series.used, [2.0, 3.0, 1.0, 1.0, 3.0]),
        "{:?}",
        series.used
    );
    assert!(
        near(&series.queue, [2.0, 1.0, 1.0, 1.0, 0.0]),
        "{:?}",
        series.queue
    );
    // One step that is as long as all has the mean of all: 2 * 20 + 30 + 3 * 10 over 50.
    let one = Series::new(&workload, &course, until, Span::seconds(50));
    assert!((one.used[0] - 2.0).abs() < 1e-5, "{:?}", one.used);
}

#[test]
fn bars_are_the_lowest_that_are_free_and_a_window_holds_so_many() {
    let workload = workload(JOBS, "{}");
    let course = course([0, 10, 40]);
    let window = |jobs| Window::around(&workload, &course, Time(15 * MICROS), jobs);
    let all = window(3);
    assert_eq!((all.from, all.until), (Time(0), Time(50 * MICROS)));
    let drawn = bars(&workload, &Machine::count(4), &course, all, 9);
    let procs: Vec<Vec<(u64, u64)>> = drawn.into_iter().map(|bar| bar.procs).collect();
    // The second has ended when the third comes.
    assert_eq!(procs, [vec![(0, 2)], vec![(2, 3)], vec![(0, 3)]]);
    let narrow = window(2);
    assert!(narrow.until <= Time(40 * MICROS), "{narrow:?}");
    assert_eq!(
        bars(&workload, &Machine::count(4), &course, narrow, 9).len(),
        2
    );
    // On nodes: cores of the node where it was.
    let mut placed = course;
    placed.nodes = vec![vec![(1, 2)], vec![(0, 1)], vec![(0, 3)]];
    let drawn = bars(&workload, &nodes(&[4, 2]), &placed, all, 9);
    let procs: Vec<Vec<(u64, u64)>> = drawn.into_iter().map(|bar| bar.procs).collect();
    assert_eq!(procs, [vec![(4, 6)], vec![(0, 1)], vec![(0, 3)]]);
}

#[test]
fn factors_are_of_what_was_used_and_of_shares() {
    let flux = policy("preset = \"flux\"\n[usage]\ndecay = { form = \"none\" }");
    let factors = |shares: &str| {
        let workload = workload(JOBS, shares);
        let mut books = Books::new(&flux, &workload, &Machine::count(4)).expect("books");
        let job = Charged {
            owner: 0,
            procs: 2,
            nodes: 2,
            limit: None,
            terms: 0,
        };
        books.came(0);
        books.started(job, Time(0));
        books.ended(job, Time(20 * MICROS), Span::seconds(20));
        assert!((books.usage(0, Time(30 * MICROS)) - 40.0).abs() < 1e-9);
        books.factors(Time(30 * MICROS)).expect("factors")
    };
    // 2^(-U/S): all was used by the first, whose share is a half, then three quarters.
    let half = factors("{}");
    assert!(
        (half[0] - 0.25).abs() < 1e-12 && (half[1] - 1.0).abs() < 1e-12,
        "{half:?}"
    );
    let more = factors(r#"{"a": 3}"#);
    assert!((more[0] - 2_f64.powf(-4.0 / 3.0)).abs() < 1e-12, "{more:?}");
}

#[test]
fn parts_are_of_groups_first_and_then_of_their_users() {
    let job =
        |id, whose: &str| format!(r#"{{"id": {id}, "submit": 0, "run": 1, "procs": 1, {whose}}}"#);
    let jobs = [
        job(1, r#""group": "g", "user": "a""#),
        job(2, r#""group": "g", "user": "b""#),
        job(3, r#""user": "c""#),
    ];
    let parts = |shares: &str| parts(&workload(&jobs.join(","), shares));
    assert_eq!(parts("{}"), [0.25, 0.25, 0.5]);
    assert_eq!(parts(r#"{"g": 3, "g/a": 2}"#), [0.5, 0.25, 0.25]);
}

#[test]
fn shares_of_nobody_and_of_nothing_are_refused_by_name() {
    let said = |shares: &str| {
        let text = format!(r#"{{"jobs": [{JOBS}], "shares": {shares}}}"#);
        read_json(text.as_bytes())
            .expect_err("no shares")
            .to_string()
    };
    assert!(said(r#"{"c": 1}"#).starts_with("shares: `c` is no account of the trace"));
    assert_eq!(
        said(r#"{"a": 0}"#),
        "shares: a: 0; allowed is 1 to 1000000000"
    );
    assert!(said(r#"{"a": -1}"#).starts_with("workload: line "));
}

#[test]
fn turns_are_by_what_jobs_say_of_themselves() {
    let jobs = r#"
        {"id": 1, "submit": 0, "run": 1, "procs": 1},
        {"id": 2, "submit": 0, "run": 1, "procs": 1, "qos": "standby"},
        {"id": 3, "submit": 0, "run": 1, "procs": 1, "qos": "expedite"},
        {"id": 4, "submit": 0, "run": 1, "procs": 1, "qos": "standby", "urgency": 31},
        {"id": 5, "submit": 0, "run": 1, "procs": 4}"#;
    let workload = workload(jobs, "{}");
    let order = |text: &str| {
        let machine = Machine::count(4);
        let ranking = Ranking::new(&policy(text), &workload, &machine).expect("a ranking");
        let jobs = workload.jobs.iter().enumerate();
        let ranked = jobs.map(|(place, job)| ranking.rank(job, Span::seconds(1), place, Time(0)));
        let turns = ranked.filter_map(|ranked| match ranked {
            Ranked::Turn(turn) => Some(turn),
            Ranked::Held => None,
        });
        let mut turns: Vec<Turn> = turns.collect();
        turns.sort_unstable();
        turns.iter().map(|turn| turn.id).collect::<Vec<u64>>()
    };
    // Expedited; by QoS; the larger of the ordinary ones.
    assert_eq!(order("preset = \"flux\""), [4, 3, 5, 1, 2]);
    assert_eq!(order("preset = \"easy-saf\""), [4, 1, 2, 3, 5]);
    let held = "preset = \"fcfs\"\n[priority]\norder = [\"cores\"]\nthreshold = 1";
    assert_eq!(order(held), [5]);
}

#[test]
fn more_formulas_than_a_turn_holds_are_refused() {
    let text = "preset = \"fcfs\"\n[priority]\norder = [\"cores\", \"nodes\", \"wait\", \"size\"]";
    let workload = workload(JOBS, "{}");
    let machine = Machine::count(4);
    assert!(Ranking::new(&policy(text), &workload, &machine).is_ok());
    let by_queue = format!("{text}\n[queue]\nsource = \"by_queue\"");
    let refused = Ranking::new(&policy(&by_queue), &workload, &machine).err();
    let refused = refused.expect("one place is the queue's").to_string();
    assert!(
        refused.contains("4 formulas are given; a replay obeys at most 3"),
        "{refused}"
    );
}
