//! Step 6 of a job's path: streams durable records to whoever asks, from any
//! place in the journal.
//!
//! A subscriber is first brought up to date by reading the journal in bounded
//! chunks, then follows. It never shows what is not durable.

use std::collections::BTreeMap;

use bytes::Bytes;
use eddy_broker::effect::RANGE_BYTES;
use eddy_broker::{
    Answer, Caller, Endpoint, Input, Module, Outbox, Query, Reacts, Request, Volatile,
};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Record;
use eddy_wire::id::Seq;
use eddy_wire::services::instance::{Stream, StreamReply, StreamRequest};
use eddy_wire::services::job::EventsLine;
use eddy_wire::time::Time;

/// Records read from the journal at a time.
const CHUNK: u32 = 512;

/// The subscribers.
#[derive(Default)]
pub struct Events {
    durable: Seq,
    subscribers: BTreeMap<u64, Subscriber>,
    next_tag: u64,
}

struct Subscriber {
    caller: Caller,
    /// The next record it is to get.
    next: Seq,
    /// What was durable when the journal was last asked for it.
    asked_at: Seq,
    follow: bool,
    pace: Pace,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// The journal is being read for it.
    CatchingUp,
    /// It has all that is durable.
    Following,
}

impl Module for Events {
    fn name(&self) -> &'static str {
        "events"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[Endpoint::of::<Stream>()];
        ENDPOINTS
    }

    /// What is replayed is durable; live, `Durable` says so.
    fn apply(&mut self, _record: &Record) {}

    fn reacts(&self) -> Reacts {
        Reacts::ToDurable
    }

    fn handle(&mut self, _now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.subscribe(request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Durable(record) => self.durable(record, out),
            Input::Answer(tag, answer) => self.read(tag, answer, out),
            Input::Cancel(caller) => self.subscribers.retain(|_, s| s.caller != caller),
            Input::Gone(client) => self.subscribers.retain(|_, s| s.caller.client != client),
            _ => {}
        }
    }
}

impl Events {
    fn subscribe(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: StreamRequest = request.parse()?;
        let tag = self.next_tag;
        self.next_tag += 1;
        let subscriber = Subscriber {
            caller: request.caller,
            next: body.from.max(Seq(1)),
            follow: body.follow,
            asked_at: self.durable,
            pace: Pace::CatchingUp,
        };
        out.volatile(Volatile::Query(tag, Query::Range(subscriber.next, CHUNK)));
        self.subscribers.insert(tag, subscriber);
        Ok(())
    }

    fn durable(&mut self, record: &Record, out: &mut Outbox) {
        if record.seq == self.durable {
            // Implied: its lines were told with its record.
            return;
        }
        self.durable = record.seq;
        if self.subscribers.is_empty() {
            return;
        }
        let lines = EventsLine::of(record).into_iter();
        let reply = StreamReply {
            records: lines.map(|line| (record.event.job, line)).collect(),
        };
        for subscriber in self.subscribers.values_mut() {
            if subscriber.pace == Pace::Following && record.seq >= subscriber.next {
                subscriber.next = record.seq.next();
                out.part(subscriber.caller, &reply, Bytes::new());
            }
        }
    }

    fn read(&mut self, tag: u64, answer: &Answer, out: &mut Outbox) {
        let Some(subscriber) = self.subscribers.get_mut(&tag) else {
            return;
        };
        let records = match answer {
            Answer::Records(records) => records.clone(),
            Answer::Failed(why) => {
                out.refuse(subscriber.caller, &Refusal::new(Code::Busy, why.clone()));
                self.subscribers.remove(&tag);
                return;
            }
            other => panic!("records were asked for, the answer is {other:?}"),
        };
        // More may have become durable since the journal was read, and a full
        // chunk may not have been all. What a purge took is not in between: a
        // read begins with the first record there is.
        let contexts = records.iter().filter_map(|(_, line)| line.context.as_ref());
        let bytes: usize = contexts.map(|context| context.get().len()).sum();
        let full = records.len() >= CHUNK as usize || bytes >= RANGE_BYTES;
        if let Some((_, line)) = records.last() {
            subscriber.next = line.seq.next();
            out.part(subscriber.caller, &StreamReply { records }, Bytes::new());
        } else {
            // Nothing is left of what was durable when it was asked for: purged
            // to the end. To ask again would get the same answer for ever.
            subscriber.next = subscriber.next.max(subscriber.asked_at.next());
        }
        if full || subscriber.next <= self.durable {
            subscriber.asked_at = self.durable;
            let query = Query::Range(subscriber.next, CHUNK);
            return out.volatile(Volatile::Query(tag, query));
        }
        match subscriber.follow {
            true => subscriber.pace = Pace::Following,
            false => {
                out.answer(subscriber.caller, &StreamReply::default());
                self.subscribers.remove(&tag);
            }
        }
    }
}
