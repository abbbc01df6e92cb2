//! What shares tell of use is what the ledger has, also of what failed and of what a leader heard late.

use eddy_broker::Arrival;
use eddy_wire::Time;
use eddy_wire::id::Epoch;
use eddy_wire::message::Roles;
use eddy_wire::shell::{Ended, PartState};
use eddy_wire::time::MICROS;
use serde_json::{Value, json};

use crate::instance::*;

/// So many ranks, where what was used counts and is never forgotten.
fn counting(ranks: u32) -> Instance {
    let mut i = Instance::with(ranks);
    i.sender = (0, Roles::OWNER);
    let text = "preset = \"flux\"\nusage.decay = { form = \"none\" }";
    assert_eq!(i.call("sched.set-policy", &json!({"text": text})), "null");
    i
}

fn passes(i: &mut Instance, seconds: i64) {
    i.now = Time(i.now.0 + seconds * MICROS);
}

/// Core-seconds by shares, and charged by the ledger.
fn used(i: &mut Instance) -> (f64, f64) {
    let told = |answer: String| -> Value { serde_json::from_str(&answer).expect("an answer") };
    let shares = told(i.call("sched.shares", &json!(null)));
    let rows = shares["rows"].as_array().expect("rows");
    let users = rows.iter().filter(|row| !row["user"].is_null());
    let shares = users.filter_map(|row| row["usage"].as_f64()).sum();
    let usage = told(i.call("usage.report", &json!({})));
    let rows = usage["rows"].as_array().expect("rows").iter();
    let cores = rows.filter_map(|row| row["charged"]["cores"].as_f64());
    (shares, cores.sum::<f64>() / MICROS as f64)
}

fn end(i: &mut Instance, job: u64, rank: u32, t: Time) {
    let how = Ended {
        t,
        ..ended(0, None)
    };
    i.ended(job, rank, how);
}

#[test]
fn what_ended_while_no_leader_was_there_is_charged_to_its_end() {
    let mut i = counting(1);
    i.submit(1, 2, &json!({}));
    i.started(1, 0);
    let ends = Time(i.now.0 + 3 * MICROS);
    passes(&mut i, 23);
    i.restart();
    i.reach("0");
    let how = Ended {
        t: ends,
        ..ended(0, None)
    };
    i.hello(1, &[(part(1, 0), PartState::Ended(how))]);
    passes(&mut i, 10);
    assert_eq!(i.life(1, "finish").last(), Some(&"clean"));
    assert_eq!(used(&mut i), (6.0, 6.0));
    i.restart();
    assert_eq!(used(&mut i), (6.0, 6.0), "by the next leader as well");
}

#[test]
fn what_a_node_failed_under_is_charged_to_nobody() {
    let mut i = counting(2);
    i.submit(2, 2, &json!({}));
    (0..2).for_each(|rank| i.started(1, rank));
    passes(&mut i, 10);
    i.act(Arrival::ShellDead(Epoch(2)));
    i.submit(1, 1, &json!({}));
    i.started(2, 0);
    passes(&mut i, 5);
    let now = i.now;
    end(&mut i, 1, 0, now);
    end(&mut i, 2, 0, now);
    assert_eq!(i.exceptions(1)[0].0, "node-failure");
    assert_eq!(i.life(1, "finish").last(), Some(&"clean"));
    passes(&mut i, 5);
    assert_eq!(used(&mut i), (5.0, 5.0));
}

#[test]
fn a_configuration_that_weighs_nothing_otherwise_moves_no_share() {
    let mut i = counting(1);
    i.submit(1, 1, &json!({}));
    i.started(1, 0);
    passes(&mut i, 10);
    i.act(Arrival::ShellDead(Epoch(1)));
    passes(&mut i, 10);
    let before = used(&mut i);
    let text = "preset = \"flux\"\nusage.decay = { form = \"none\" }\nqueue.depth = 65";
    assert_eq!(i.call("sched.set-policy", &json!({"text": text})), "null");
    assert_eq!(used(&mut i), before);
}
