//! Requests that were done, by keys of their senders' making: who lost the answer asks again and is told the same.
//!
//! Beside the path of a job. The module that makes such a change records with it, in the same commit, a memo of no
//! job that has the key and the answer ([`reply`]); this one folds these and claims a request whose key it knows
//! before anybody refuses it as done. It changes nothing.

use std::collections::{BTreeMap, VecDeque};

use eddy_broker::{Input, Module, Outbox, Reacts, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::hash::Hash;
use eddy_wire::id::Seq;
use eddy_wire::services::{ONCE_KEPT, Service, account, grant, kvs, reservation, resource};
use eddy_wire::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The memo that says it.
const KEY: &str = "done";

/// The requests that may have a key: of no other is the body read to see whether it has one.
const TOPICS: [&str; 7] = [
    account::Set::TOPIC,
    grant::Release::TOPIC,
    kvs::Delete::TOPIC,
    reservation::Create::TOPIC,
    reservation::Delete::TOPIC,
    resource::Drain::TOPIC,
    resource::Undrain::TOPIC,
];

/// A request that was done, as it is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Done {
    once: Uuid,
    userid: u32,
    topic: String,
    /// Of the body: another request with the same key is not the same.
    asked: Hash,
    answer: Value,
}

impl Done {
    fn told(memo: &Map<String, Value>) -> Option<Done> {
        serde_json::from_value(memo.get(KEY)?.clone()).ok()
    }

    fn memo(&self) -> Kind {
        let done = serde_json::to_value(self).expect("words and numbers are JSON");
        Kind::Memo(Map::from_iter([(KEY.to_owned(), done)]))
    }
}

/// What all bodies with a key have.
#[derive(Deserialize)]
struct Keyed {
    #[serde(default)]
    once: Option<Uuid>,
}

/// Answers a request that was done by what is proposed so far. With a key, both are remembered.
pub(crate) fn reply(
    now: Time,
    request: &Request,
    once: Option<Uuid>,
    answer: &impl Serialize,
    out: &mut Outbox,
) {
    if let Some(once) = once {
        let done = Done {
            once,
            userid: request.uid,
            topic: request.topic.clone(),
            asked: Hash::of(&request.body),
            answer: serde_json::to_value(answer).expect("an answer is JSON"),
        };
        out.append_own(now, done.memo());
    }
    out.reply(request.caller, answer);
}

/// The last of them.
#[derive(Default)]
pub struct Once {
    known: BTreeMap<(u32, Uuid), (Done, Seq)>,
    /// Their keys, the longest done first.
    order: VecDeque<(u32, Uuid)>,
}

impl Module for Once {
    fn name(&self) -> &'static str {
        "once"
    }

    fn claims(&self, request: &Request) -> bool {
        self.done(request).is_some()
    }

    fn apply(&mut self, record: &Record) {
        let (Kind::Memo(memo), None) = (&record.event.kind, record.event.job) else {
            return;
        };
        let Some(done) = Done::told(memo) else {
            return;
        };
        let key = (done.userid, done.once);
        if self.known.insert(key, (done, record.seq)).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > ONCE_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn reacts(&self) -> Reacts {
        Reacts::ToNeither
    }

    fn handle(&mut self, _now: Time, input: Input<'_>, out: &mut Outbox) {
        let Input::Request(request) = input else {
            return;
        };
        let done = self.done(request).expect("it claims no other");
        match done.topic == request.topic && done.asked == Hash::of(&request.body) {
            true => out.reply(request.caller, &done.answer),
            false => {
                let text = format!(
                    "once: {} given, the key of another request that was done; allowed is a new one",
                    done.once
                );
                out.refuse(request.caller, &Refusal::new(Code::Conflict, text));
            }
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.known.values().map(|(_, seq)| *seq));
    }
}

impl Once {
    /// The request of this key, if it was done.
    fn done(&self, request: &Request) -> Option<&Done> {
        if self.known.is_empty() || !TOPICS.contains(&request.topic.as_str()) {
            return None;
        }
        let Keyed { once } = request.parse().ok()?;
        let (done, _) = self.known.get(&(request.uid, once?))?;
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::event::Event;

    fn folded(once: &mut Once, number: u64) -> (u32, Uuid) {
        let done = Done {
            once: Uuid::from_u128(u128::from(number)),
            userid: 7,
            topic: kvs::Delete::TOPIC.to_owned(),
            asked: Hash::of(b"{}"),
            answer: Value::Null,
        };
        once.apply(&Record {
            seq: Seq(number),
            event: Event {
                t: Time(0),
                job: None,
                kind: done.memo(),
            },
        });
        (7, done.once)
    }

    #[test]
    fn the_longest_done_is_forgotten_with_its_record() {
        let mut once = Once::default();
        let first = folded(&mut once, 1);
        let kept = ONCE_KEPT as u64;
        for number in 2..=kept {
            folded(&mut once, number);
        }
        assert!(once.known.contains_key(&first));
        folded(&mut once, kept + 1);
        assert!(!once.known.contains_key(&first));
        let mut seqs = Vec::new();
        once.live(&mut seqs);
        seqs.sort_unstable();
        assert_eq!((seqs.len(), seqs[0]), (ONCE_KEPT, Seq(2)));
    }
}
