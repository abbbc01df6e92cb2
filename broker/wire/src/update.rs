//! What a record `jobspec-update` changes of a job: dotted keys and their values, as in RFC 21.
//!
//! A time limit may change as long as the job is not ending, and counts from the start of its tasks whenever
//! it is said. Name, queue, account and QoS are those of a job that waits. The QoS changes also of one that
//! goes on beyond its budget.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
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

/// The key of a QoS.
pub const QOS: &str = "attributes.system.qos";

/// The key of a time limit, in seconds; 0 is none.
pub const DURATION: &str = "attributes.system.duration";

/// The key of asking for no time limit at all, beside one of 0.
pub const UNLIMITED: &str = "attributes.system.unlimited";
/// The same in a jobspec.
const NO_LIMIT: &str = "unlimited";

/// The key of a queue.
pub const QUEUE: &str = "attributes.system.queue";

/// The key of an account.
pub const ACCOUNT: &str = "attributes.system.account";

/// The key of a name.
pub const NAME: &str = "attributes.system.job.name";

/// What else than its time limit may be asked to be other of a job that waits; what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The account that is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its QoS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
}

impl Terms {
    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        *self == Terms::default()
    }

    /// The key of one that is given, if any is.
    pub fn first_key(&self) -> Option<&'static str> {
        let all = [
            (NAME, &self.name),
            (QUEUE, &self.queue),
            (ACCOUNT, &self.account),
            (QOS, &self.qos),
        ];
        let mut given = all.into_iter().filter(|(_, value)| value.is_some());
        given.next().map(|(key, _)| key)
    }

    /// Whether it would be with others, or of others: all but its name is about them.
    pub fn moves(&self) -> bool {
        self.queue.is_some() || self.account.is_some() || self.qos.is_some()
    }
}

/// Another time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This one.
    To(Span),
    /// None is asked for, in whose place a default is put.
    Without,
    /// None at all, which is asked for: no default is put in its place.
    Unlimited,
}

impl Limit {
    /// Of a span, where none is nothing.
    pub fn of(span: Option<Span>) -> Limit {
        match span.filter(|span| *span > Span::ZERO) {
            Some(span) => Limit::To(span),
            None => Limit::Without,
        }
    }

    /// What a jobspec asks for.
    pub fn of_spec(spec: &Spec) -> Limit {
        let other = &spec.jobspec.attributes.system.other;
        let is_unlimited = other.get(NO_LIMIT).and_then(Value::as_bool) == Some(true);
        match Limit::of(spec.request.duration.map(Span)) {
            Limit::Without if is_unlimited => Limit::Unlimited,
            limit => limit,
        }
    }

    /// How long, if there is an end.
    pub fn span(self) -> Option<Span> {
        match self {
            Limit::To(span) => Some(span),
            Limit::Without | Limit::Unlimited => None,
        }
    }
}

/// What is other of a job from one record on; what is not in it stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Its time limit.
    pub limit: Option<Limit>,
    /// Its name.
    pub name: Option<String>,
    /// Its queue.
    pub queue: Option<String>,
    /// The account that is charged.
    pub account: Option<Name>,
    /// Its QoS.
    pub qos: Option<Name>,
}

impl Change {
    /// What a record says.
    pub fn of(map: &Map<String, Value>) -> Change {
        let text = |key: &str| map.get(key)?.as_str().map(str::to_owned);
        Change {
            limit: limit(map),
            name: text(NAME),
            queue: text(QUEUE),
            account: named(map, ACCOUNT),
            qos: named(map, QOS),
        }
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Change::default()
    }

    /// Whether one that has begun may have it: another time limit, and nothing else.
    pub fn may_run(&self) -> bool {
        let is_limit = matches!(self.limit, Some(Limit::To(_)));
        let rest = Change {
            limit: None,
            ..self.clone()
        };
        is_limit && rest.is_empty()
    }

    /// The record of it: who asked for it, and the key of the reckoning that it was asked by.
    pub fn record(&self, by: Option<u32>, key: Option<Uuid>) -> Kind {
        let text = |name: &Name| Value::from(name.as_str());
        let seconds = |limit: Limit| {
            let span = limit.span().unwrap_or(Span::ZERO);
            Value::from(seconds_of_micros(span.0))
        };
        let all = [
            (DURATION, self.limit.map(seconds)),
            (
                UNLIMITED,
                (self.limit == Some(Limit::Unlimited)).then_some(Value::Bool(true)),
            ),
            (NAME, self.name.as_deref().map(Value::from)),
            (QUEUE, self.queue.as_deref().map(Value::from)),
            (ACCOUNT, self.account.as_ref().map(text)),
            (QOS, self.qos.as_ref().map(text)),
            (BY, by.map(Value::from)),
            (KEY, key.map(|key| Value::from(key.to_string()))),
        ];
        let given = all
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Kind::JobspecUpdate(given.collect())
    }

    /// Whether what it asks for has another text.
    fn is_of_spec(&self) -> bool {
        let Change {
            limit,
            name,
            queue,
            account,
            qos: _,
        } = self;
        limit.is_some() || name.is_some() || queue.is_some() || account.is_some()
    }

    /// What is asked for from then on. The QoS is in it as it was asked for.
    pub fn spec(&self, spec: &Spec) -> Spec {
        spec.amended(|system| {
            if let Some(limit) = self.limit {
                system.duration = limit.span().map_or(0, |span| span.0);
                match limit {
                    Limit::Unlimited => {
                        system.other.insert(NO_LIMIT.to_owned(), true.into());
                    }
                    Limit::To(_) | Limit::Without => drop(system.other.remove(NO_LIMIT)),
                }
            }
            if let Some(name) = &self.name {
                system.job.insert("name".to_owned(), name.clone());
            }
            if let Some(queue) = &self.queue {
                system.queue = Some(queue.clone());
            }
            if let Some(account) = &self.account {
                (system.account, system.bank) = (Some(account.to_string()), None);
            }
        })
    }

    /// Whom it is charged to from then on.
    fn party(&self, party: &mut Party) {
        party.account = self.account.clone().or_else(|| party.account.take());
        party.qos = self.qos.clone().or_else(|| party.qos.take());
    }
}

/// The record that gives a job another QoS.
pub fn to_qos(name: &Name) -> Kind {
    let change = Change {
        qos: Some(name.clone()),
        ..Change::default()
    };
    change.record(None, None)
}

/// The record that gives a job another time limit, more than nothing; who asked for it, and the key of the
/// reckoning that it was asked by.
pub fn to_duration(limit: Span, by: Option<u32>, key: Option<Uuid>) -> Kind {
    let change = Change {
        limit: Some(Limit::To(limit)),
        ..Change::default()
    };
    change.record(by, key)
}

/// The key of the reckoning that a record was asked by.
pub fn key(map: &Map<String, Value>) -> Option<Uuid> {
    map.get(KEY)?.as_str()?.parse().ok()
}

fn named(map: &Map<String, Value>, key: &str) -> Option<Name> {
    map.get(key)?.as_str()?.parse().ok()
}

/// The time limit that a job has from now on, or that it has none, if the record says so.
pub fn limit(map: &Map<String, Value>) -> Option<Limit> {
    let micros = micros_of_seconds(map.get(DURATION)?.as_f64()?).ok()?;
    let is_unlimited = map.get(UNLIMITED).and_then(Value::as_bool) == Some(true);
    Some(match Limit::of(Some(Span(micros))) {
        Limit::Without if is_unlimited => Limit::Unlimited,
        limit => limit,
    })
}

/// The time limit that a job has from now on, if the record says one.
pub fn duration(map: &Map<String, Value>) -> Option<Span> {
    limit(map)?.span()
}

/// The queue that a job is in from now on, if the record says one.
pub fn queue(map: &Map<String, Value>) -> Option<&str> {
    map.get(QUEUE)?.as_str()
}

/// What is updated of whom a job is charged to.
pub fn party(party: &mut Party, map: &Map<String, Value>) {
    Change::of(map).party(party);
}

/// What is updated of what it asks for.
pub fn spec(spec: &mut Arc<Spec>, map: &Map<String, Value>) {
    let change = Change::of(map);
    if change.is_of_spec() {
        *spec = Arc::new(change.spec(spec));
    }
}

/// All of that of a job as it was submitted. What was sent stays known.
pub fn submit(submit: &mut Arc<Submit>, map: &Map<String, Value>) {
    let change = Change::of(map);
    if change.account.is_some() || change.qos.is_some() {
        change.party(&mut Arc::make_mut(submit).party);
    }
    if change.is_of_spec() {
        let sent = Arc::new(submit.sent());
        let submit = Arc::make_mut(submit);
        submit.sent.get_or_insert(sent);
        spec(&mut submit.spec, map);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_it_was_made_of() {
        let name = |text: &str| Some(text.parse().expect("a name"));
        let all = Change {
            limit: Some(Limit::Without),
            name: Some("n".to_owned()),
            queue: Some("q".to_owned()),
            account: name("a"),
            qos: name("s"),
        };
        for change in [
            all.clone(),
            Change::default(),
            Change {
                limit: Some(Limit::Unlimited),
                ..Change::default()
            },
            Change {
                limit: Some(Limit::To(Span::seconds(90))),
                ..Change::default()
            },
        ] {
            let Kind::JobspecUpdate(map) = change.record(Some(7), None) else {
                panic!("another record")
            };
            assert_eq!((Change::of(&map), map[BY].as_u64()), (change, Some(7)));
        }
        assert!(!all.is_empty() && Change::default().is_empty());
    }
}
