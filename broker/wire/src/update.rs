//! What a record `jobspec-update` changes of a job: dotted keys and their values, as in RFC 21.
//!
//! Two keys are written: the QoS of a job that goes on beyond its budget, and a time limit that
//! somebody changed. A limit may change as long as the job is not ending, and counts from the start of
//! its tasks whenever it is said.

use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::account::{Name, Party};
use crate::event::{Kind, Submit};
use crate::fsd::{micros_of_seconds, seconds_of_micros};
use crate::spec::Spec;
use crate::time::Span;

/// Who asked for it, by user id.
const BY: &str = "userid";

/// The key of the reckoning.
const KEY: &str = "key";

const QOS: &str = "attributes.system.qos";

/// The key of a time limit, in seconds.
pub const DURATION: &str = "attributes.system.duration";

/// The record that gives a job another QoS.
pub fn to_qos(name: &Name) -> Kind {
    one(QOS, Value::from(name.as_str()), None)
}

/// The record that gives a job another time limit, more than nothing; who asked for it, and the key of the
/// reckoning that it was asked by.
pub fn to_duration(limit: Span, by: Option<u32>, key: Option<Uuid>) -> Kind {
    let by = by.map(|user| (BY.to_owned(), Value::from(user)));
    let key = key.map(|key| (KEY.to_owned(), Value::from(key.to_string())));
    one(
        DURATION,
        Value::from(seconds_of_micros(limit.0)),
        by.into_iter().chain(key),
    )
}

fn one(key: &str, value: Value, more: impl IntoIterator<Item = (String, Value)>) -> Kind {
    Kind::JobspecUpdate([(key.to_owned(), value)].into_iter().chain(more).collect())
}

/// The key of the reckoning that a record was asked by.
pub fn key(map: &Map<String, Value>) -> Option<Uuid> {
    map.get(KEY)?.as_str()?.parse().ok()
}

/// The QoS that a job has from now on, if the record says one.
fn qos(map: &Map<String, Value>) -> Option<Name> {
    map.get(QOS)?.as_str()?.parse().ok()
}

/// The time limit that a job has from now on, if the record says one.
pub fn duration(map: &Map<String, Value>) -> Option<Span> {
    let micros = micros_of_seconds(map.get(DURATION)?.as_f64()?).ok()?;
    Some(Span(micros)).filter(|limit| *limit > Span::ZERO)
}

/// What is updated of whom a job is charged to.
pub fn party(party: &mut Party, map: &Map<String, Value>) {
    party.qos = qos(map).or_else(|| party.qos.take());
}

/// What is updated of what it asks for.
pub fn spec(spec: &mut Arc<Spec>, map: &Map<String, Value>) {
    if let Some(limit) = duration(map) {
        *spec = Arc::new(spec.with(None, Some(limit.0)));
    }
}

/// All of that of a job as it was submitted. What was sent stays known.
pub fn submit(submit: &mut Arc<Submit>, map: &Map<String, Value>) {
    if qos(map).is_some() {
        party(&mut Arc::make_mut(submit).party, map);
    }
    if duration(map).is_some() {
        let sent = Arc::new(submit.sent());
        let submit = Arc::make_mut(submit);
        submit.sent.get_or_insert(sent);
        spec(&mut submit.spec, map);
    }
}
