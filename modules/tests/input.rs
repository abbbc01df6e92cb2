//! Standard input on its way to shells: who is told of what became of it, and when.

use eddy_broker::{Arrival, ClientId};
use eddy_wire::id::Epoch;
use eddy_wire::input::Taken;
use eddy_wire::shell::{FromShell, PartState, ToShell};
use serde_json::{Value, json};

use super::instance::{Instance, part};

/// Job 1 with a task on each of so many ranks, which run.
fn running(ranks: u32) -> Instance {
    let mut i = Instance::with(ranks);
    i.submit(ranks, ranks, &json!({}));
    (0..ranks).for_each(|rank| i.started(1, rank));
    i.clear();
    i
}

fn at(offset: u64) -> Value {
    json!({"id": 1, "at": {"source": uuid::Uuid::from_u128(7), "offset": offset}})
}

/// The epochs of shells that were told of a portion, and its number.
fn told(i: &mut Instance) -> Vec<(u64, u64)> {
    let told = std::mem::take(&mut i.told).into_iter();
    let input = told.filter_map(|(epoch, told)| match told {
        ToShell::Input { portion, .. } => Some((epoch.0, portion.number)),
        _ => None,
    });
    input.collect()
}

/// The shell of that rank says what became of a portion; what is answered then.
fn took(i: &mut Instance, rank: u32, portion: u64, (next, taken): (u64, Taken)) -> Vec<String> {
    i.answers.clear();
    let took = FromShell::Took {
        part: part(1, rank),
        portion,
        next,
        taken,
    };
    i.act(Arrival::Shell(Epoch(u64::from(rank) + 1), took));
    i.answers.clone()
}

#[test]
fn who_sends_is_answered_when_the_slowest_has_room() {
    let mut i = running(2);
    assert_eq!(i.call("job.input", &at(5)), "");
    let [(1, number), (2, same)] = told(&mut i)[..] else {
        panic!("both are told");
    };
    assert_eq!(number, same);
    assert!(took(&mut i, 0, number, (5, Taken::Kept)).is_empty());
    assert!(
        took(&mut i, 0, number, (5, Taken::Kept)).is_empty(),
        "it said so"
    );
    // The other misses something: from there all is sent again.
    let answer = took(&mut i, 1, number, (2, Taken::Kept));
    assert_eq!(answer, [r#"{"next":2,"taken":"kept"}"#]);
    assert!(took(&mut i, 1, number, (5, Taken::Kept)).is_empty());
}

#[test]
fn whoever_reads_no_more_keeps_nobody_waiting_and_no_room_is_busy() {
    let mut i = running(2);
    i.call("job.input", &at(5));
    let number = told(&mut i)[0].1;
    took(&mut i, 0, number, (0, Taken::Unread));
    let answer = took(&mut i, 1, number, (5, Taken::Kept));
    assert_eq!(answer, [r#"{"next":5,"taken":"kept"}"#]);
    i.call("job.input", &at(5));
    let number = told(&mut i)[0].1;
    took(&mut i, 0, number, (5, Taken::Kept));
    let answer = took(&mut i, 1, number, (5, Taken::Later));
    assert!(answer[0].contains("\"code\":\"busy\""), "{answer:?}");
}

#[test]
fn what_a_shell_cannot_say_is_to_be_sent_again() {
    let mut i = running(2);
    i.call("job.input", &at(0));
    i.answers.clear();
    i.hello(2, &[(part(1, 1), PartState::Running { t: i.now })]);
    assert!(i.answers[0].contains("send it again"), "{:?}", i.answers);
    i.call("job.input", &at(0));
    i.answers.clear();
    i.act(Arrival::ShellDead(Epoch(2)));
    assert!(i.answers[0].contains("send it again"), "{:?}", i.answers);
}

#[test]
fn nobody_waits_for_a_job_that_is_over_and_nobody_who_is_gone_is_answered() {
    let mut i = running(1);
    i.call("job.input", &at(0));
    i.answers.clear();
    i.ended(1, 0, super::instance::ended(0, None));
    assert!(
        i.answers[0].contains("job f2 is not running"),
        "{:?}",
        i.answers
    );
    let mut i = running(1);
    i.call("job.input", &at(0));
    let number = told(&mut i)[0].1;
    i.act(Arrival::Gone(ClientId(1)));
    assert!(took(&mut i, 0, number, (0, Taken::Kept)).is_empty());
}

#[test]
fn who_does_not_say_where_it_stands_is_told_nothing_and_an_older_shell_is_believed() {
    let mut i = running(1);
    i.call("job.input", &json!({"id": 1, "eof": true}));
    let number = told(&mut i)[0].1;
    assert_eq!(took(&mut i, 0, number, (0, Taken::Kept)), ["null"]);
    let older = FromShell::Hello {
        instance: "test".to_owned(),
        epoch: Epoch(1),
        pid: 1,
        version: 0,
        parts: vec![(part(1, 0), PartState::Running { t: i.now })],
    };
    i.act(Arrival::Shell(Epoch(1), older));
    let answer = i.call("job.input", &at(3));
    assert_eq!(answer, r#"{"next":3,"taken":"kept"}"#);
}
