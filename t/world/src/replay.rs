//! Whether what a leader folded is what the journal says: from the mark, from all, and live.
//!
//! A broker cannot be compared, but asked: for the records its state rests on, and by the same
//! requests that clients send.

use std::collections::BTreeMap;

use eddy_broker::{Arrival, Broker, ClientId, Effect, Output};
use eddy_wire::id::Seq;
use eddy_wire::message::{Message, Roles};
use eddy_wire::services::Service;
use eddy_wire::services::usage::UsageReport;
use eddy_wire::services::{account, job, kvs, resource, sched, usage};
use eddy_wire::time::Time;
use serde_json::Value;

use crate::client::OWNER;
use crate::instance::Instance;
use crate::leader::identity;
use crate::oracle::Oracle;

/// Nobody's connection.
const ASKER: ClientId = ClientId(u64::MAX);

/// Whether a broker replayed from the mark is the same as one replayed from everything.
pub fn agrees_with_all(instance: &Instance, from_mark: &Broker) -> Result<(), String> {
    if instance.journal.mark().is_none() {
        return Ok(());
    }
    let mut all = from_all(instance);
    same_live(instance, from_mark, &all, "from the mark")?;
    let mut mark = replayed(instance, instance.journal.to_replay().iter());
    same_answers(
        &mut mark,
        &mut all,
        instance.journal.last(),
        "from the mark",
    )
}

/// Whether a broker replayed from everything is the same as the one that lives. Only when all that
/// was recorded is durable. What was used is, besides, what the judge makes of the records: all brokers
/// may be wrong alike.
pub fn agrees_with_life(instance: &mut Instance, judge: &Oracle, now: Time) -> Result<(), String> {
    let mut all = from_all(instance);
    let last = instance.journal.last();
    // Clocks that were set ahead are so still: nobody asks before what is recorded.
    let now = now.max(instance.journal.floor());
    if let Some(leader) = &instance.leader {
        same_live(instance, leader.broker(), &all, "live")?;
    }
    let Some(leader) = &mut instance.leader else {
        return Ok(());
    };
    all.resume(now, last, None);
    let live = answers(leader.broker_mut(), now);
    judge.agrees_with(&used(&live)?)?;
    compare(&live, &answers(&mut all, now), "live")
}

fn from_all(instance: &Instance) -> Broker {
    replayed(instance, instance.journal.records().iter())
}

fn replayed<'a>(
    instance: &Instance,
    records: impl Iterator<Item = &'a std::sync::Arc<eddy_wire::event::Record>>,
) -> Broker {
    let mut broker = Broker::new(identity(instance), eddy_modules::leader(&instance.settings));
    records.for_each(|record| broker.replay(record));
    broker
}

fn same_live(instance: &Instance, one: &Broker, all: &Broker, which: &str) -> Result<(), String> {
    let (one, all) = (one.live(), all.live());
    let differs = one.iter().find(|seq| all.binary_search(seq).is_err());
    let differs = differs.or_else(|| all.iter().find(|seq| one.binary_search(seq).is_err()));
    match differs {
        None => Ok(()),
        Some(seq) => {
            let record = instance.journal.record(*seq);
            let name = record.map_or("no record", |record| record.event.kind.name());
            Err(format!(
                "record {seq} `{name}` counts either {which} or from all, not for both"
            ))
        }
    }
}

fn same_answers(one: &mut Broker, all: &mut Broker, last: Seq, which: &str) -> Result<(), String> {
    let now = crate::nature::BEGIN;
    one.resume(now, last, None);
    all.resume(now, last, None);
    compare(&answers(one, now), &answers(all, now), which)
}

fn compare(
    one: &BTreeMap<&'static str, Value>,
    all: &BTreeMap<&'static str, Value>,
    which: &str,
) -> Result<(), String> {
    for (topic, answer) in one {
        if answer != &all[topic] {
            let all = &all[topic];
            return Err(format!(
                "`{topic}` of the state {which} is {answer}, from all {all}"
            ));
        }
    }
    Ok(())
}

/// What a broker answers to questions that change nothing.
fn answers(broker: &mut Broker, now: Time) -> BTreeMap<&'static str, Value> {
    let mut answers = BTreeMap::new();
    let list = serde_json::json!({});
    for (topic, body) in [
        (job::List::TOPIC, list),
        (kvs::List::TOPIC, serde_json::json!({ "key": "" })),
        (resource::Status::TOPIC, Value::Null),
        (sched::Policy::TOPIC, Value::Null),
        (account::List::TOPIC, Value::Null),
        // What is charged to whom is the same after every restart, and its parts the whole.
        (usage::Report::TOPIC, serde_json::json!({})),
    ] {
        let mut message = Message::request(topic, 1, &body);
        (message.uid, message.roles) = (OWNER, Roles::OWNER);
        let output = broker.handle(now, Arrival::Message(ASKER, message));
        answers.insert(topic, told(&output));
    }
    answers
}

/// What was used, of such answers.
fn used(answers: &BTreeMap<&'static str, Value>) -> Result<UsageReport, String> {
    let report = &answers[usage::Report::TOPIC][0];
    let report = serde_json::from_value(report.clone());
    report.map_err(|why| format!("what was used cannot be read: {why}"))
}

/// The bodies of an answer, without what no record tells.
fn told(output: &Output) -> Value {
    let bodies = output.effects.iter().filter_map(|effect| match effect {
        Effect::Reply(reply) => serde_json::from_slice::<Value>(&reply.body).ok(),
        _ => None,
    });
    let mut parts: Vec<Value> = bodies.collect();
    for row in parts
        .iter_mut()
        .flat_map(|part| part.as_array_mut())
        .flatten()
    {
        let Some(row) = row.as_object_mut() else {
            continue;
        };
        // Whether a shell is connected just now, and why a job waits.
        let transient = if row.contains_key("rank") {
            "state"
        } else {
            "reason"
        };
        row.remove(transient);
    }
    Value::Array(parts)
}
