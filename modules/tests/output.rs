//! Files that jobs name for output: made anew before anybody else writes there.

use crate::instance::{Instance, ended, part};
use eddy_broker::Arrival;
use eddy_wire::id::Epoch;
use eddy_wire::shell::{FromShell, PartState, ToShell};
use serde_json::{Value, json};

const OVER: [&str; 4] = ["finish", "release", "free", "clean"];

fn named(path: &str) -> Value {
    json!({"shell": {"options": {"output": {"stdout": {"path": path}}}}})
}

/// The shells that are sent a start.
fn asked(i: &mut Instance) -> Vec<Epoch> {
    i.starts().iter().map(|start| start.shell).collect()
}

#[test]
fn others_begin_once_the_first_has_made_the_file_anew() {
    let mut i = Instance::with(3);
    i.submit(3, 3, &named("out"));
    assert_eq!(asked(&mut i), [Epoch(1)]);
    i.started(1, 0);
    assert_eq!(asked(&mut i), [Epoch(2), Epoch(3)]);
    i.started(1, 1);
    assert_eq!(asked(&mut i), []);
    i.started(1, 2);
    assert_eq!(i.life(1, "start"), ["start"]);
}

#[test]
fn without_a_file_in_common_all_begin_at_once() {
    let mut i = Instance::with(2);
    i.submit(2, 2, &named("none"));
    assert_eq!(asked(&mut i), [Epoch(1), Epoch(2)]);
}

#[test]
fn where_the_first_cannot_be_started_the_others_are_not() {
    let mut i = Instance::with(2);
    i.submit(2, 2, &named("out"));
    i.clear();
    i.ended(1, 0, ended(127 << 8, Some("no such program")));
    let exec = ("exec".to_owned(), "rank 0: no such program".to_owned());
    assert_eq!(i.exceptions(1), [exec]);
    let told = std::mem::take(&mut i.told);
    let started = told
        .iter()
        .any(|(_, word)| matches!(word, ToShell::Start(_)));
    assert!(!started, "{told:?}");
    let part = part(1, 1);
    let why = "it is not held here".to_owned();
    i.act(Arrival::Shell(Epoch(2), FromShell::NotMine { part, why }));
    assert_eq!(i.life(1, "finish"), OVER);
}

#[test]
fn a_leader_that_was_restarted_meanwhile_begins_the_others() {
    let mut i = Instance::with(2);
    i.submit(2, 2, &named("out"));
    i.restart();
    i.reach("0-1");
    i.hello(2, &[]);
    assert_eq!(asked(&mut i), []);
    let done = PartState::Ended(ended(0, None));
    i.hello(1, &[(part(1, 0), done)]);
    assert_eq!(asked(&mut i), [Epoch(2)]);
    i.ended(1, 1, ended(0, None));
    assert_eq!(i.life(1, "finish"), OVER);
}
