//! What a record `jobspec-update` changes of a job: dotted keys and their values, as in RFC 21.
//!
//! One key is written: the QoS of a job that goes on beyond its budget.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::account::{Name, Party};
use crate::event::{Kind, Submit};

const QOS: &str = "attributes.system.qos";

/// The record that gives a job another QoS.
pub fn to_qos(name: &Name) -> Kind {
    let pair = (QOS.to_owned(), Value::from(name.as_str()));
    Kind::JobspecUpdate([pair].into_iter().collect())
}

/// The QoS that a job has from now on, if the record says one.
fn qos(map: &Map<String, Value>) -> Option<Name> {
    map.get(QOS)?.as_str()?.parse().ok()
}

/// What is updated of whom a job is charged to.
pub fn party(party: &mut Party, map: &Map<String, Value>) {
    party.qos = qos(map).or_else(|| party.qos.take());
}

/// The same of a job as it was submitted.
pub fn submit(submit: &mut Arc<Submit>, map: &Map<String, Value>) {
    if qos(map).is_some() {
        party(&mut Arc::make_mut(submit).party, map);
    }
}
