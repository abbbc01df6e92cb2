//! Requests that are a declared instance's: sent over its channel, answered
//! from there.
//!
//! Nothing is kept of a call but who made it. While the channel is down calls
//! are refused: their callers know best whether to ask again.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use eddy_broker::{Caller, Effect, Outbox, Reply, Request, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::message::{MESSAGE_BYTES_MAX, Message, Type};
use eddy_wire::services::child::{AnswerKind, AnswerRequest, FromParent};
use eddy_wire::time::Time;

use super::Nest;
use super::route::{Way, of_tasks};

/// How many calls are relayed at a time, all children together.
const CALLS_MAX: usize = 65_536;
/// What a message grows by on its way, at most: over the channel, and as a
/// letter to the rank where the channel ends.
const WRAPPING_BYTES: usize = 2048;

/// The calls on their way.
#[derive(Debug, Default)]
pub(super) struct Relays {
    /// The number of the last call.
    last: u64,
    calls: BTreeMap<u64, Call>,
    by_caller: BTreeMap<Caller, u64>,
}

#[derive(Debug)]
struct Call {
    caller: Caller,
    job: JobId,
}

impl Relays {
    /// A number of its own for a call of this instance itself.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn begin(&mut self, job: JobId, request: &Request) -> u64 {
        self.last += 1;
        let call = Call {
            caller: request.caller,
            job,
        };
        self.by_caller.insert(request.caller, self.last);
        self.calls.insert(self.last, call);
        self.last
    }

    fn end(&mut self, number: u64) -> Option<Call> {
        let call = self.calls.remove(&number)?;
        if self.by_caller.get(&call.caller) == Some(&number) {
            self.by_caller.remove(&call.caller);
        }
        Some(call)
    }
}

impl Nest {
    /// A request that this module claimed.
    pub(super) fn relay(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        match self.way(request) {
            Way::To(name) => self.relay_to(now, &name, request, out),
            Way::Nobody(refusal) => Err(refusal),
            Way::Here => unreachable!("the router sent `{}` to nest", request.topic),
        }
    }

    pub(super) fn relay_to(
        &mut self,
        now: Time,
        name: &str,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let is_it = |child: &&super::Child| child.declared.as_deref() == Some(name);
        let child = self.children.values().find(is_it);
        if let Some(child) = child
            && let Some(channel) = child.told.channel
        {
            let job = child.id();
            if let Some(inner) = of_tasks(request) {
                self.pass_now(now, inner, out);
            }
            return self.send(job, channel, request, out);
        }
        Err(match child {
            Some(child) => unreached(&child.title()),
            None if self.fleet.is_up(name) => unreached(&format!("queue instance {name}")),
            None => Refusal::not_found(format!(
                "jobs: those named were of the instance `{name}`, which is over"
            )),
        })
    }

    pub(super) fn send(
        &mut self,
        job: JobId,
        channel: Caller,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        if self.relays.calls.len() >= CALLS_MAX {
            let text = format!("the limit `relayed calls` is {CALLS_MAX}, all are under way");
            return Err(Refusal::new(Code::Busy, text));
        }
        let tail = wrapped(request, self.relays.last + 1)?;
        let call = self.relays.begin(job, request);
        let word = FromParent::Request { call };
        // Behind what was told before: that it has a grant is told first.
        out.effect(Effect::Reply(Reply {
            tail,
            ..Reply::new(channel, Type::Part, &word)
        }));
        Ok(())
    }

    /// The channel of this child is down: calls under way end.
    pub(super) fn lose_calls(&mut self, job: JobId, out: &mut Outbox) {
        self.asks_lost(job);
        let Some(child) = self.children.get(&job) else {
            return;
        };
        let refusal = unreached(&child.title());
        let of_it = |(number, call): (&u64, &Call)| (call.job == job).then_some(*number);
        let lost: Vec<u64> = self.relays.calls.iter().filter_map(of_it).collect();
        for number in lost {
            if let Some(call) = self.relays.end(number) {
                out.refuse(call.caller, &refusal);
            }
        }
    }

    /// Callers that wait no more.
    pub(super) fn taken_back(&mut self, gone: RangeInclusive<Caller>, out: &mut Outbox) {
        let lost = self.relays.by_caller.range(gone);
        let lost: Vec<u64> = lost.map(|(_, number)| *number).collect();
        for call in lost {
            let ended = self.relays.end(call).expect("it was just found");
            let child = self.children.get(&ended.job);
            if let Some(channel) = child.and_then(|child| child.told.channel) {
                let word = FromParent::Cancel { call };
                out.effect(Effect::Reply(Reply::new(channel, Type::Part, &word)));
            }
        }
    }

    /// A child's answer to a relayed call, passed on to its caller.
    pub(super) fn answer(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: AnswerRequest = request.parse()?;
        let job = self.speaker(request, body.child)?.id();
        let message = Message::decode(&request.tail)
            .map_err(|error| Refusal::invalid(format!("tail: {error}")))?;
        out.answer(request.caller, &());
        if self.is_asked(now, (job, body.call), (body.kind, &message.body), out) {
            return Ok(());
        }
        let call = self.relays.calls.get(&body.call);
        // A caller that is gone, or that another channel lost.
        let Some(call) = call.filter(|call| call.job == job) else {
            return Ok(());
        };
        let to = call.caller;
        match body.kind {
            AnswerKind::Part => {}
            AnswerKind::Reply | AnswerKind::Refused => {
                self.relays.end(body.call);
            }
        }
        out.volatile(Volatile::Reply(Reply {
            to,
            kind: body.kind.message_type(),
            body: message.body,
            tail: message.tail,
        }));
        Ok(())
    }
}

/// A request as a message that rides in another one.
pub(crate) fn wrapped(request: &Request, matchtag: u64) -> Result<Bytes, Refusal> {
    let message = Message {
        topic: request.topic.clone(),
        uid: request.uid,
        roles: request.roles,
        body: request.body.clone(),
        tail: request.tail.clone(),
        ..Message::request(&request.topic, matchtag, &())
    };
    let given = message.wire_len();
    let tail = message.encode().ok();
    tail.filter(|tail| tail.len() + WRAPPING_BYTES <= MESSAGE_BYTES_MAX)
        .ok_or_else(|| {
            let text = format!(
                "message of {given} bytes is relayed with {WRAPPING_BYTES} more; the limit \
                 `message` is {MESSAGE_BYTES_MAX}"
            );
            Refusal::new(Code::TooLarge, text)
        })
}

fn unreached(title: &str) -> Refusal {
    Refusal::new(Code::Unreachable, format!("{title} is not reached"))
}
