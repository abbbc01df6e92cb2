//! Requests that are a declared instance's: sent over its channel, answered
//! from there.
//!
//! Nothing is kept of a call but who made it. While the channel is down a
//! submission waits (its key makes it repeatable, so it is sent again); so does
//! one that is refused because the instance ends, if its next job will take it.
//! Every other call is refused: its caller knows best whether to ask again.

use std::collections::{BTreeMap, VecDeque};

use eddy_broker::{Caller, Effect, Outbox, Reply, Request, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::message::{MESSAGE_BYTES_MAX, Message, Type};
use eddy_wire::services::Service;
use eddy_wire::services::child::{AnswerKind, AnswerRequest, FromParent};
use eddy_wire::services::job::Submit;

use super::Nest;
use super::route::Way;

/// How many calls are relayed at a time, all children together.
const CALLS_MAX: usize = 65_536;
/// How many submissions wait for one instance's channel.
const HELD_MAX: usize = 1000;
/// And how many bytes they have.
const HELD_BYTES_MAX: usize = 64 << 20;
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
    /// Submissions that wait for a channel, by the instance's name.
    held: BTreeMap<String, Held>,
    intake: Intake,
}

/// Whether there will be another job of a declared instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Intake {
    #[default]
    Open,
    Stopping,
}

#[derive(Debug)]
struct Call {
    caller: Caller,
    job: JobId,
    /// The request, if it is sent again over the next channel.
    again: Option<Request>,
}

#[derive(Debug, Default)]
struct Held {
    requests: VecDeque<Request>,
    bytes: usize,
}

impl Held {
    fn has_room(&self, request: &Request) -> bool {
        let bytes = self.bytes.saturating_add(size(request));
        self.requests.len() < HELD_MAX && (bytes <= HELD_BYTES_MAX || self.requests.is_empty())
    }

    fn push(&mut self, request: Request) {
        self.bytes += size(&request);
        self.requests.push_back(request);
    }

    fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.requests.retain(|request| !gone(request.caller));
        self.bytes = self.requests.iter().map(size).sum();
    }
}

impl Relays {
    fn begin(&mut self, job: JobId, request: &Request) -> u64 {
        self.last += 1;
        let again = (request.topic == Submit::TOPIC).then(|| request.clone());
        let call = Call {
            caller: request.caller,
            job,
            again,
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
    pub(super) fn relay(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        match self.way(request) {
            Way::To(name) if request.topic == Submit::TOPIC => {
                let amended = self.keeper.admit(request)?;
                self.relay_to(&name, amended.as_ref().unwrap_or(request), out)
            }
            Way::To(name) => self.relay_to(&name, request, out),
            Way::Nobody(refusal) => Err(refusal),
            Way::Here => unreachable!("the router sent `{}` to nest", request.topic),
        }
    }

    fn relay_to(&mut self, name: &str, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let is_it = |child: &&super::Child| child.declared.as_deref() == Some(name);
        let child = self.children.values().find(is_it);
        if let Some(child) = child
            && let Some(channel) = child.told.channel
        {
            let job = child.id();
            return self.send(job, channel, request, out);
        }
        if request.topic == Submit::TOPIC {
            return self.hold(name, request);
        }
        Err(match child {
            Some(child) => unreached(&child.title()),
            None if self.fleet.is_up(name) => unreached(&format!("queue instance {name}")),
            None => Refusal::not_found(format!(
                "jobs: those named were of the instance `{name}`, which is over"
            )),
        })
    }

    fn send(
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
        let message = Message {
            topic: request.topic.clone(),
            uid: request.uid,
            roles: request.roles,
            body: request.body.clone(),
            tail: request.tail.clone(),
            ..Message::request(&request.topic, self.relays.last + 1, &())
        };
        let given = message.wire_len();
        let tail = message.encode().ok();
        let Some(tail) = tail.filter(|tail| tail.len() + WRAPPING_BYTES <= MESSAGE_BYTES_MAX)
        else {
            let text = format!(
                "message of {given} bytes is relayed with {WRAPPING_BYTES} more; the limit \
                 `message` is {MESSAGE_BYTES_MAX}"
            );
            return Err(Refusal::new(Code::TooLarge, text));
        };
        let call = self.relays.begin(job, request);
        let word = FromParent::Request { call };
        // Behind what was told before: that it has a grant is told first.
        out.effect(Effect::Reply(Reply {
            tail,
            ..Reply::new(channel, Type::Part, &word)
        }));
        Ok(())
    }

    /// Keeps a submission until the channel stands.
    fn hold(&mut self, name: &str, request: &Request) -> Result<(), Refusal> {
        if let Some(why) = self.fleet.down(name) {
            return Err(Refusal::new(Code::NotReady, why));
        }
        let held = self.relays.held.entry(name.to_owned()).or_default();
        if !held.has_room(request) {
            let text = format!(
                "queue instance {name} is not reached; the limit `held submissions` is {HELD_MAX} \
                 and {HELD_BYTES_MAX} bytes"
            );
            return Err(Refusal::new(Code::Busy, text));
        }
        held.push(request.clone());
        Ok(())
    }

    /// The channel of this child stands: what waited for it is sent.
    pub(super) fn resend(&mut self, job: JobId, out: &mut Outbox) {
        let child = self.child(job);
        let (Some(name), Some(channel)) = (child.declared.clone(), child.told.channel) else {
            return;
        };
        let held = self.relays.held.remove(&name).unwrap_or_default();
        for request in held.requests {
            if let Err(refusal) = self.send(job, channel, &request, out) {
                out.refuse(request.caller, &refusal);
            }
        }
    }

    /// The channel of this child is down: submissions wait, other calls end.
    pub(super) fn lose_calls(&mut self, job: JobId, out: &mut Outbox) {
        let Some(child) = self.children.get(&job) else {
            return;
        };
        let refusal = unreached(&child.title());
        let name = child.declared.clone().unwrap_or_default();
        let of_it = |(number, call): (&u64, &Call)| (call.job == job).then_some(*number);
        let lost: Vec<u64> = self.relays.calls.iter().filter_map(of_it).collect();
        for number in lost {
            let Some(call) = self.relays.end(number) else {
                continue;
            };
            let outcome = match call.again {
                Some(request) => self.hold(&name, &request),
                None => Err(refusal.clone()),
            };
            if let Err(refusal) = outcome {
                out.refuse(call.caller, &refusal);
            }
        }
    }

    /// Whether a submission was refused only because this job of a declared instance ends: the
    /// next takes it. At the end of this instance there is no next.
    fn waits_for_next(&self, call: &Call, message: &Message) -> bool {
        let ends = |child: &super::Child| {
            let name = child.declared.as_deref().unwrap_or_default();
            child.job.end.is_some() && self.fleet.is_up(name)
        };
        let is_refused = || {
            let refusal: Option<Refusal> = serde_json::from_slice(&message.body).ok();
            refusal.is_some_and(|refusal| refusal.code == Code::NotReady)
        };
        self.relays.intake == Intake::Open
            && call.again.is_some()
            && self.children.get(&call.job).is_some_and(ends)
            && is_refused()
    }

    fn wait_for_next(&mut self, call: u64, out: &mut Outbox) -> Result<(), Refusal> {
        let ended = self.relays.end(call).expect("it was just found");
        let child = self.children.get(&ended.job);
        let name = child.and_then(|child| child.declared.clone());
        if let (Some(name), Some(request)) = (name, ended.again) {
            if let Err(refusal) = self.hold(&name, &request) {
                out.refuse(ended.caller, &refusal);
            }
        }
        Ok(())
    }

    /// Callers that wait no more.
    pub(super) fn taken_back(&mut self, gone: impl Fn(Caller) -> bool, out: &mut Outbox) {
        for held in self.relays.held.values_mut() {
            held.drop_where(&gone);
        }
        let callers = self.relays.by_caller.iter();
        let lost = callers.filter(|(caller, _)| gone(**caller));
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

    /// Submissions to an instance that is not started again do not wait for it.
    pub(super) fn refuse_waiting_for_the_down(&mut self, out: &mut Outbox) {
        let fleet = &self.fleet;
        let down = |name: &String, _: &mut Held| !fleet.is_up(name);
        let lost: Vec<(String, Held)> = self.relays.held.extract_if(.., down).collect();
        for (name, held) in lost {
            let why = self
                .fleet
                .down(&name)
                .unwrap_or("it is not declared any more");
            let refusal = Refusal::new(Code::NotReady, why);
            for request in held.requests {
                out.refuse(request.caller, &refusal);
            }
        }
    }

    pub(super) fn stop(&mut self, out: &mut Outbox) {
        self.relays.intake = Intake::Stopping;
        let refusal = Refusal::new(Code::NotReady, "the instance is shutting down");
        for held in std::mem::take(&mut self.relays.held).into_values() {
            for request in held.requests {
                out.refuse(request.caller, &refusal);
            }
        }
    }

    /// A child's answer to a relayed call, passed on to its caller.
    pub(super) fn answer(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: AnswerRequest = request.parse()?;
        let job = self.speaker(request, body.child)?.id();
        let message = Message::decode(&request.tail)
            .map_err(|error| Refusal::invalid(format!("tail: {error}")))?;
        out.answer(request.caller, &());
        let call = self.relays.calls.get(&body.call);
        // A caller that is gone, or that another channel lost.
        let Some(call) = call.filter(|call| call.job == job) else {
            return Ok(());
        };
        let to = call.caller;
        match body.kind {
            AnswerKind::Part => {}
            AnswerKind::Refused if self.waits_for_next(call, &message) => {
                return self.wait_for_next(body.call, out);
            }
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

/// What a request that waits is counted with: a tail is of no use to a
/// submission, and yet it is kept.
fn size(request: &Request) -> usize {
    request.body.len().saturating_add(request.tail.len())
}

fn unreached(title: &str) -> Refusal {
    Refusal::new(Code::Unreachable, format!("{title} is not reached"))
}
