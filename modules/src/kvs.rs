//! Named values: small JSON documents kept with the instance, and watched.
//!
//! A value is a record; what is read is durable. Watchers get each change once
//! it is.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use eddy_broker::{Caller, Endpoint, Input, Module, Outbox, Reacts, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::Seq;
use eddy_wire::services::Service;
use eddy_wire::services::kvs::{
    self, DELETED_MAX, DeleteRequest, Entry, KEY_BYTES_MAX, KEYS_MAX, KeyRequest, Pair, PutRequest,
    SET_MAX, VALUE_BYTES_MAX,
};
use eddy_wire::time::Time;
use serde_json::Value;

use crate::once;

/// So much is shown of a key that may not be.
const SHOWN_MAX: usize = 80;
/// Watchers of one instance at most.
const WATCHERS_MAX: usize = 65_536;

/// The values.
#[derive(Default)]
pub struct Kvs {
    /// What is durable.
    values: BTreeMap<String, (Value, Seq)>,
    /// The last record of each value, durable or not: what a mark must keep.
    latest: BTreeMap<String, Seq>,
    watchers: Vec<(Caller, String)>,
    source: Source,
}

/// Where records come from: the journal (durable), or live (durable later).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Source {
    #[default]
    Replay,
    Live,
}

impl Module for Kvs {
    fn name(&self) -> &'static str {
        "kvs"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[
            Endpoint::of::<kvs::Put>(),
            Endpoint::of::<kvs::Delete>(),
            Endpoint::of::<kvs::Get>(),
            Endpoint::of::<kvs::List>(),
            Endpoint::of::<kvs::Watch>(),
        ];
        ENDPOINTS
    }

    fn apply(&mut self, record: &Record) {
        match &record.event.kind {
            Kind::Put(key, ..) => {
                self.latest.insert(key.clone(), record.seq);
            }
            Kind::Delete(key, _) => {
                self.latest.remove(key);
            }
            _ => {}
        }
        if self.source == Source::Replay {
            self.fold(record);
        }
    }

    fn reacts(&self) -> Reacts {
        Reacts::ToDurable
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.request(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Durable(record) => {
                self.fold(record);
                self.notify(record, out);
            }
            Input::Resume(_) => self.source = Source::Live,
            Input::Cancel(caller) => self.watchers.retain(|(of, _)| *of != caller),
            Input::Gone(client) => self.watchers.retain(|(of, _)| of.client != client),
            _ => {}
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.latest.values());
    }
}

impl Kvs {
    fn fold(&mut self, record: &Record) {
        match &record.event.kind {
            Kind::Put(key, value, _) => {
                self.values.insert(key.clone(), (value.clone(), record.seq));
            }
            Kind::Delete(key, _) => {
                self.values.remove(key);
            }
            _ => {}
        }
    }

    fn notify(&self, record: &Record, out: &mut Outbox) {
        let (Kind::Put(key, ..) | Kind::Delete(key, _)) = &record.event.kind else {
            return;
        };
        let entry = Entry {
            seq: record.seq,
            ..self.entry(key)
        };
        for (caller, _) in self.watchers.iter().filter(|(_, watched)| watched == key) {
            out.part(*caller, &entry, Bytes::new());
        }
    }

    fn entry(&self, key: &str) -> Entry {
        let found = self.values.get(key);
        Entry {
            key: key.to_owned(),
            value: found.map(|(value, _)| value.clone()),
            seq: found.map_or(Seq(0), |(_, seq)| *seq),
        }
    }

    fn request(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        if request.topic == kvs::Put::TOPIC {
            for Pair { key, value } in self.set(request.parse()?)? {
                out.append_own(now, Kind::Put(key, value, Some(request.uid)));
            }
            out.reply(request.caller, &());
            return Ok(());
        }
        if request.topic == kvs::Delete::TOPIC {
            let asked: DeleteRequest = request.parse()?;
            let key = asked.once;
            for name in self.deleted(asked)? {
                out.append_own(now, Kind::Delete(name, Some(request.uid)));
            }
            once::reply(now, request, key, &(), out);
            return Ok(());
        }
        let KeyRequest { key } = request.parse()?;
        match request.topic.as_str() {
            kvs::List::TOPIC => {
                let keys: Vec<&String> = self
                    .values
                    .range(key.clone()..)
                    .map(|(name, _)| name)
                    .take_while(|name| name.starts_with(&key))
                    .collect();
                out.answer(request.caller, &keys);
            }
            kvs::Get::TOPIC => match self.values.contains_key(&key) {
                true => out.answer(request.caller, &self.entry(&key)),
                false => return Err(Refusal::not_found(format!("key: there is no `{key}`"))),
            },
            kvs::Watch::TOPIC if self.watchers.len() >= WATCHERS_MAX => {
                let text = format!("the limit `watchers` of {WATCHERS_MAX} is reached");
                return Err(Refusal::new(Code::Busy, text));
            }
            kvs::Watch::TOPIC => {
                out.part(request.caller, &self.entry(&key), Bytes::new());
                self.watchers.push((request.caller, key));
            }
            other => unreachable!("the router sent `{other}` to kvs"),
        }
        Ok(())
    }

    /// The keys that are to be removed, each once, if all of them are there.
    fn deleted(&self, asked: DeleteRequest) -> Result<BTreeSet<String>, Refusal> {
        let count = asked.also.len() + 1;
        if count > DELETED_MAX {
            let text =
                format!("also: {count} keys named; at most {DELETED_MAX} are removed at a time");
            return Err(Refusal::new(Code::TooLarge, text));
        }
        let keys = std::iter::once(asked.key).chain(asked.also);
        keys.map(|key| match self.latest.contains_key(&key) {
            true => Ok(key),
            false => Err(Refusal::not_found(format!("key: there is no `{key}`"))),
        })
        .collect()
    }

    /// What is to be set, in order, if all of it may be.
    fn set(&self, asked: PutRequest) -> Result<Vec<Pair>, Refusal> {
        let PutRequest { key, value, also } = asked;
        let given = also.len() + 1;
        if given > SET_MAX {
            let text = format!("also: {given} values given; at most {SET_MAX} are set at a time");
            return Err(Refusal::new(Code::TooLarge, text));
        }
        let pairs: Vec<Pair> = std::iter::once(Pair { key, value }).chain(also).collect();
        for pair in &pairs {
            // Of several it is said which.
            check(pair).map_err(|refusal| match given {
                1 => refusal,
                _ => {
                    let key = shown(&pair.key);
                    Refusal::new(refusal.code, format!("`{key}`: {}", refusal.text))
                }
            })?;
        }
        let keys = pairs.iter().map(|pair| &pair.key);
        let new: BTreeSet<&String> = keys.filter(|key| !self.latest.contains_key(*key)).collect();
        let left = KEYS_MAX.saturating_sub(self.latest.len());
        if new.len() > left {
            let text = match left {
                0 => format!("the limit `kvs keys` of {KEYS_MAX} is reached"),
                _ => format!(
                    "also: {} new keys given, the limit `kvs keys` of {KEYS_MAX} leaves {left}",
                    new.len()
                ),
            };
            return Err(Refusal::new(Code::Busy, text));
        }
        Ok(pairs)
    }
}

/// The beginning of a key, as one line.
fn shown(key: &str) -> String {
    let begin: String = key.chars().take(SHOWN_MAX).collect();
    begin.escape_debug().to_string()
}

/// Whether that may be a value of that name.
fn check(Pair { key, value }: &Pair) -> Result<(), Refusal> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX || key.chars().any(char::is_control) {
        let text = format!("key: a printable name of 1 to {KEY_BYTES_MAX} bytes is allowed");
        return Err(Refusal::invalid(text));
    }
    let bytes = value.to_string().len();
    if bytes > VALUE_BYTES_MAX {
        let text =
            format!("value: {bytes} bytes given, the limit `kvs value` is {VALUE_BYTES_MAX}");
        return Err(Refusal::new(Code::TooLarge, text));
    }
    Ok(())
}
