//! Nodes that are declared dead: whose word it takes, and what becomes of one that comes back.

use eddy_broker::Arrival;
use eddy_wire::event::Kind;
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::message::Roles;
use eddy_wire::shell::{PartState, ToShell};
use eddy_wire::time::Span;
use serde_json::json;

use crate::instance::*;

#[test]
fn what_comes_back_from_the_dead_is_killed_and_ends() {
    let mut i = Instance::with(3);
    i.submit(3, 3, &json!({}));
    (0..3).for_each(|rank| i.started(1, rank));
    let dead = json!({"targets": {"ranks": "1"}, "reason": "burnt"});
    let refused = i.call("resource.dead", &dead);
    assert!(refused.contains("ranks 1 are in service"), "{refused}");
    i.act(Arrival::ShellAway(Epoch(2)));
    i.reach("0,2");
    i.sender = (1000, Roles::USER);
    let refused = i.call("resource.dead", &dead);
    assert!(refused.contains("may not ask"), "{refused}");
    i.sender = (0, Roles::OWNER);
    i.clear();
    assert_eq!(i.call("resource.dead", &dead), "null");
    let expected = (
        "node-failure".to_owned(),
        "user 0 declared rank 1 dead: burnt".to_owned(),
    );
    assert_eq!(i.exceptions(1), [expected]);
    assert_eq!(i.signals(), [(0, 15), (2, 15)]);
    // Said again without a reason it stays as it was said.
    let again = json!({"targets": {"ranks": "1-2"}});
    assert!(
        i.call("resource.dead", &again)
            .contains("ranks 2 are in service")
    );
    let again = json!({"targets": {"ranks": "1"}});
    assert_eq!(i.call("resource.dead", &again), "null");
    let reasons = i
        .records
        .iter()
        .filter_map(|record| match &record.event.kind {
            Kind::Drain(_, reason, _) => Some(reason.as_str()),
            _ => None,
        });
    assert_eq!(reasons.collect::<Vec<_>>(), ["burnt"]);
    for rank in [0, 2] {
        i.ended(1, rank, ended(15, None));
    }
    assert_eq!(i.life(1, "finish").last(), Some(&"clean"));
    i.clear();
    i.restart();
    i.reach("0-2");
    assert_eq!(
        i.launched,
        [("1".to_owned(), Epoch(4))],
        "another life of it"
    );
    let runs = PartState::Running { t: i.now };
    i.hello(2, &[(part(1, 1), runs)]);
    assert_eq!(i.signals(), [(1, 9)]);
    i.ended(1, 1, ended(9, None));
    let told: Vec<&ToShell> = i.told.iter().map(|(_, word)| word).collect();
    assert!(
        matches!(told[..], [ToShell::Forget { .. }, ToShell::Exit]),
        "{told:?}"
    );
}

#[test]
fn who_was_on_two_of_them_ended_when_that_was_said() {
    let mut i = Instance::with(3);
    i.submit(2, 2, &json!({"constraints": {"ranks": ["1-2"]}}));
    (1..3).for_each(|rank| i.started(1, rank));
    for epoch in [2, 3] {
        i.act(Arrival::ShellAway(Epoch(epoch)));
    }
    i.reach("0");
    i.now = i.now.after(Span::seconds(48));
    let dead = json!({"targets": {"ranks": "1-2"}, "reason": "burnt"});
    assert_eq!(i.call("resource.dead", &dead), "null");
    let of_it = i.records.iter().filter(|record| record.event.job.is_some());
    let ends = of_it.skip_while(|record| record.event.kind.name() != "exception");
    let ends: Vec<_> = ends
        .map(|record| (record.event.kind.name(), record.event.t))
        .collect();
    assert!(
        ends.len() == 2 && ends.iter().all(|(_, t)| *t == i.now),
        "{ends:?}"
    );
}

#[test]
fn a_shell_that_hangs_is_ended_by_its_agent_and_what_it_had_after_that() {
    let mut i = Instance::with(3);
    i.submit(3, 3, &json!({}));
    (0..3).for_each(|rank| i.started(1, rank));
    i.sender = (0, Roles::OWNER);
    let asks = |ranks: &str| json!({"targets": {"ranks": ranks}, "reason": "stuck", "force": true});
    let refused = i.call("resource.dead", &asks("0-1"));
    assert!(
        refused.contains("ranks 0 are on the leader's own node"),
        "{refused}"
    );
    i.clear();
    assert_eq!(i.call("resource.dead", &asks("1")), "null");
    assert_eq!(i.ended, [(Rank(1), Epoch(2))]);
    assert_eq!(i.exceptions(1), [], "something of it may run");
    // Its agent may not have heard that.
    i.clear();
    i.reach("0,2");
    i.reach("0-2");
    assert_eq!(i.ended, [(Rank(1), Epoch(2))]);
    i.act(Arrival::ShellDead(Epoch(2)));
    let expected = ("node-failure", "user 0 declared rank 1 dead: stuck");
    let found = i.exceptions(1);
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(kind, note)| (&**kind, &**note))
        .collect();
    assert_eq!(found, [expected]);
    assert_eq!(i.launched, [("1".to_owned(), Epoch(4))], "the next one");
    i.clear();
    i.reach("0,2");
    i.reach("0-2");
    assert_eq!(i.ended, [], "that was done");
}

#[test]
fn a_node_whose_agent_is_there_is_dead_when_that_says_so() {
    let mut i = Instance::with(2);
    i.act(Arrival::ShellAway(Epoch(2)));
    i.clear();
    let dead = json!({"targets": {"ranks": "1"}});
    assert_eq!(i.call("resource.dead", &dead), "null");
    assert_eq!(i.ended, [(Rank(1), Epoch(2))]);
    let lost = |i: &Instance| {
        i.records
            .iter()
            .any(|r| r.event.kind.name() == "shell-lost")
    };
    assert!(!lost(&i));
    i.act(Arrival::ShellDead(Epoch(2)));
    assert!(lost(&i));
}
