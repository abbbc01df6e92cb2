//! How jobs in instances ended, asked on behalf of jobs here that wait for them (`afterok:12/3`).
//!
//! The manager says of which it wants to know, and is told. It is asked over the channel as their user would ask,
//! again whenever a channel stands anew or when it had no room. What was not heard before the instance is over its
//! own journal tells (`left`). An instance that begins anew comes to its jobs again: one that it does not know yet is
//! asked for until it does. What one says of an attempt that ends so that another follows is no end: the jobs of
//! that end by it, and come again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use bytes::Bytes;
use eddy_broker::{
    Caller, ClientId, Effect, EndedBy, Inner, Inside, Notice, Outbox, Reply, Request, Volatile,
};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::jobspec::Work;
use eddy_wire::message::{Message, Roles, Type};
use eddy_wire::services::Service;
use eddy_wire::services::child::{self, AnswerKind, FromParent};
use eddy_wire::services::job::{JobEnd, JobSet, Wait, WaitRequest};
use eddy_wire::time::{Span, Time};

use super::Nest;
use super::child::Child;
use super::left::Lefts;
use super::relay::wrapped;
use super::run::Run;

/// How many are asked at a time: half of the calls that are relayed. Others wait for one of those to be over.
const ASKED_MAX: usize = 32_768;
/// When an instance that had no room is asked again.
pub(super) const AGAIN: Span = Span::seconds(1);
/// When one is that does not know a job yet.
const YET: Span = Span::seconds(5);

/// What is asked.
#[derive(Debug, Default)]
pub(super) struct Asks {
    /// What nobody is asked for now.
    open: BTreeSet<Inner>,
    /// What is under way, by its number.
    of: BTreeMap<Inner, u64>,
    /// The child that is asked; also where the end was told and the last word was not.
    calls: BTreeMap<u64, (Inner, JobId)>,
    /// Until when nobody is asked again who could not answer.
    rest: Option<Time>,
    /// Those instances that are over and still to tell.
    pub(super) lefts: Lefts,
}

impl Asks {
    /// What nobody is asked for now, of that instance.
    pub(super) fn of_instance(&self, instance: JobId) -> BTreeSet<Inner> {
        self.open.range(all_of(instance)).copied().collect()
    }

    /// That one need not be asked for any more.
    pub(super) fn told(&mut self, inner: Inner) {
        self.open.remove(&inner);
    }
}

/// Whom to ask for a job in an instance.
enum Whom {
    /// The instance, which is this child.
    Child(JobId, Caller),
    /// The child that has it as a job.
    Through(JobId, Caller),
    /// Nobody now.
    Away,
    /// It is no instance that is there: what it left tells.
    Nobody,
}

impl Nest {
    /// Somebody waits for the end of that job.
    pub(super) fn ask_inside(&mut self, now: Time, inner: Inner, out: &mut Outbox) {
        if self.asks.of.contains_key(&inner) {
            return;
        }
        self.asks.open.insert(inner);
        match self.whom(inner.instance) {
            Whom::Nobody => self.look_back(inner.instance, out),
            _ => self.ask(now, inner, out),
        }
    }

    /// Whether the attempt that could answer ends, and another is to follow.
    fn comes_again(&self, instance: JobId) -> bool {
        let child = self.children.get(&instance);
        let passed = self.passes.jobs.get(&instance);
        child.is_some_and(|child| child.job.is_to_be_requeued())
            || passed.is_some_and(Run::is_to_be_requeued)
    }

    fn whom(&self, instance: JobId) -> Whom {
        if self.comes_again(instance) {
            return Whom::Away;
        }
        if let Some(child) = self.children.get(&instance) {
            let channel = child.told.channel;
            return channel.map_or(Whom::Away, |channel| Whom::Child(instance, channel));
        }
        let Some(run) = self.passes.jobs.get(&instance) else {
            return Whom::Nobody;
        };
        if !matches!(run.submit.spec.request.work, Work::Instance { .. }) {
            return Whom::Nobody;
        }
        let its = |child: &&Child| child.declared.is_some() && child.declared == run.to;
        let child = self.children.values().find(its);
        let channel = child.and_then(|child| Some((child.id(), child.told.channel?)));
        channel.map_or(Whom::Away, |(child, channel)| Whom::Through(child, channel))
    }

    /// Asks for what is open, unless nobody can be asked now.
    fn ask(&mut self, now: Time, inner: Inner, out: &mut Outbox) {
        let (child, channel, asked) = match self.whom(inner.instance) {
            Whom::Child(child, channel) => (child, channel, question(inner)),
            Whom::Through(child, channel) => (child, channel, through(inner)),
            // One that is nobody else's says when it is there.
            Whom::Away if !self.passes.jobs.contains_key(&inner.instance) => return,
            Whom::Away => return self.rest(now, AGAIN, out),
            // That has no end: it is asked once, and what it left is looked for.
            Whom::Nobody => return,
        };
        if self.asks.calls.len() >= ASKED_MAX {
            return;
        }
        if let Ok(tail) = wrapped(&asked, 1)
            && self.asks.open.remove(&inner)
        {
            let call = self.relays.next();
            self.asks.of.insert(inner, call);
            self.asks.calls.insert(call, (inner, child));
            let word = FromParent::Request { call };
            out.effect(Effect::Reply(Reply {
                tail,
                ..Reply::new(channel, Type::Part, &word)
            }));
        }
    }

    /// Who cannot answer, or cannot be asked, is asked after this time, with all others.
    pub(super) fn rest(&mut self, now: Time, span: Span, out: &mut Outbox) {
        if self.asks.rest.is_none_or(|rest| rest <= now) {
            let rest = now.after(span);
            self.asks.rest = Some(rest);
            out.volatile(Volatile::Wake(rest));
        }
    }

    /// Asks all that are not under way, unless that rests.
    pub(super) fn ask_all(&mut self, now: Time, out: &mut Outbox) {
        if self.asks.rest.is_none_or(|rest| rest <= now) {
            self.ask_now(now, out);
        }
    }

    /// A channel stands: asks what is not under way.
    pub(super) fn ask_now(&mut self, now: Time, out: &mut Outbox) {
        self.asks.rest = None;
        let open: Vec<Inner> = self.asks.open.iter().copied().collect();
        open.into_iter().for_each(|inner| self.ask(now, inner, out));
        self.look_anew(out);
    }

    /// The channel is down: what was under way is asked again.
    pub(super) fn asks_lost(&mut self, child: JobId) {
        self.places_lost(child);
        let lost = self.asks.calls.extract_if(.., |_, (_, of)| *of == child);
        for (call, (inner, _)) in lost {
            if self.asks.of.get(&inner) == Some(&call) {
                self.asks.of.remove(&inner);
                self.asks.open.insert(inner);
            }
        }
    }

    /// The instance is over: nobody there can answer any more.
    pub(super) fn asks_over(&mut self, instance: JobId) {
        let asks = &mut self.asks;
        let lost = asks.of.extract_if(all_of(instance), |_, _| true);
        for (inner, call) in lost {
            asks.calls.remove(&call);
            asks.open.insert(inner);
        }
    }

    /// `child.inside`: how a job ended in an instance that is a job here, as the parent asks for one that waits.
    pub(super) fn inside(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let job: JobId = request.parse()?;
        let message = Message::decode(&request.tail)
            .map_err(|error| Refusal::invalid(format!("tail: {error}")))?;
        if message.topic != Wait::TOPIC {
            let text = format!(
                "tail: `{}` given, allowed is {}",
                message.topic.escape_debug(),
                Wait::TOPIC
            );
            return Err(Refusal::invalid(text));
        }
        let channel = self.children.get(&job).and_then(|child| child.told.channel);
        let Some(channel) = channel else {
            let text = format!(
                "job {} is no instance that can be asked now",
                job.f58_ascii()
            );
            return Err(Refusal::new(Code::NotReady, text));
        };
        let asked = Request {
            topic: message.topic,
            roles: Roles::USER,
            body: message.body,
            tail: message.tail,
            ..request.clone()
        };
        self.send(job, channel, &asked, out)
    }

    /// Whether an answer of this child is to something it was asked, which is told then.
    pub(super) fn is_asked(
        &mut self,
        now: Time,
        (child, call): (JobId, u64),
        (kind, body): (AnswerKind, &[u8]),
        out: &mut Outbox,
    ) -> bool {
        let asked = self.asks.calls.get(&call).copied();
        let Some((inner, _)) = asked.filter(|(_, of)| *of == child) else {
            return self.is_place(now, (child, call), (kind, body), out);
        };
        let is_its = self.asks.of.get(&inner) == Some(&call);
        let comes_again = self.comes_again(inner.instance);
        let later = self.says_later(inner, (kind, body));
        // Whatever it says of an attempt that another follows, the next one is asked.
        if let Some(rest) = later.or(comes_again.then_some(AGAIN)) {
            if kind != AnswerKind::Part {
                self.asks.calls.remove(&call);
            }
            if is_its {
                self.asks.of.remove(&inner);
                self.asks.open.insert(inner);
            }
            self.rest(now, rest, out);
            return true;
        }
        let ends: Vec<JobEnd> = match kind {
            AnswerKind::Refused => Vec::new(),
            AnswerKind::Part | AnswerKind::Reply => {
                serde_json::from_slice(body).unwrap_or_default()
            }
        };
        let end = ends.into_iter().find(|end| end.id == inner.job);
        let told = match (end, kind) {
            (Some(end), _) => heard(&end),
            (None, AnswerKind::Part) => return true,
            (None, AnswerKind::Reply | AnswerKind::Refused) => Inside::Unknown,
        };
        // It is answered with its end; what is said after that is of nobody, or of a later question.
        if is_its {
            self.asks.of.remove(&inner);
            out.notice(Notice::Inside(inner, told));
        }
        if kind != AnswerKind::Part {
            self.asks.calls.remove(&call);
            self.ask_all(now, out);
        }
        true
    }

    /// After how long who refuses may say otherwise, if he may.
    fn says_later(&self, inner: Inner, (kind, body): (AnswerKind, &[u8])) -> Option<Span> {
        if kind != AnswerKind::Refused {
            return None;
        }
        let refusal: Refusal = serde_json::from_slice(body).ok()?;
        let child = self.children.get(&inner.instance);
        let passed = self.passes.jobs.get(&inner.instance);
        let attempt = child.map(|child| child.job.attempt);
        let attempt = attempt.or(passed.map(|run| run.attempt));
        let began_anew = attempt.is_some_and(|attempt| attempt > Attempt(1));
        match refusal.code {
            Code::Busy | Code::NotReady | Code::Unreachable => Some(AGAIN),
            Code::NotFound if began_anew => Some(YET),
            _ => None,
        }
    }
}

/// What is heard by an end that an instance tells of.
pub(super) fn heard(end: &JobEnd) -> Inside {
    let by = match end.exception {
        Some(_) => EndedBy::Exception,
        None => EndedBy::Itself,
    };
    Inside::Ended(end.result, by)
}

/// What is asked of an instance.
fn all_of(instance: JobId) -> RangeInclusive<Inner> {
    let inner = |job, user| Inner {
        instance,
        job,
        user,
    };
    inner(JobId(0), 0)..=inner(JobId(u64::MAX), u32::MAX)
}

/// The question for the end of that job, as its user would ask it.
fn question(inner: Inner) -> Request {
    let body = WaitRequest::from(JobSet::one(inner.job));
    of_user(
        inner.user,
        Wait::TOPIC,
        serde_json::to_vec(&body),
        Bytes::new(),
    )
}

/// The same, for whom that instance is a job.
fn through(inner: Inner) -> Request {
    let tail = wrapped(&question(inner), 1).unwrap_or_default();
    let body = serde_json::to_vec(&inner.instance);
    of_user(inner.user, child::Inside::TOPIC, body, tail)
}

/// A question of that user.
pub(super) fn of_user(
    user: u32,
    topic: &str,
    body: serde_json::Result<Vec<u8>>,
    tail: Bytes,
) -> Request {
    Request {
        caller: Caller {
            client: ClientId(ClientId::OWN_FROM),
            matchtag: 0,
        },
        topic: topic.to_owned(),
        uid: user,
        roles: Roles::USER,
        body: Bytes::from(body.unwrap_or_default()),
        tail,
    }
}
