//! How jobs in instances ended, asked on behalf of jobs here that wait for them (`afterok:12/3`).
//!
//! The manager says of which it wants to know, and is told. It is asked over the channel as their user would ask,
//! again whenever a channel stands anew or when it had no room, and over with the instance: what was not heard by
//! then nobody tells.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use eddy_broker::{
    Caller, ClientId, Effect, EndedBy, Inner, Inside, Notice, Outbox, Reply, Request, Volatile,
};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::message::{Roles, Type};
use eddy_wire::services::Service;
use eddy_wire::services::child::{AnswerKind, FromParent};
use eddy_wire::services::job::{JobEnd, JobSet, Wait, WaitRequest};
use eddy_wire::time::{Span, Time};

use super::Nest;
use super::relay::wrapped;

/// How many are asked at a time: half of the calls that are relayed. Others wait for one of those to be over.
const ASKED_MAX: usize = 32_768;
/// When an instance that had no room is asked again.
const AGAIN: Span = Span::seconds(1);

/// What is asked, and where it is under way its number.
#[derive(Debug, Default)]
pub(super) struct Asks {
    of: BTreeMap<Inner, Option<u64>>,
    calls: BTreeMap<u64, Inner>,
}

impl Nest {
    /// Somebody waits for the end of that job.
    pub(super) fn ask_inside(&mut self, inner: Inner, out: &mut Outbox) {
        if !self.children.contains_key(&inner.instance) {
            return out.notice(Notice::Inside(inner, Inside::Over));
        }
        self.asks.of.entry(inner).or_insert(None);
        self.ask(inner, out);
    }

    /// Asks, unless that is under way or nobody can be asked now.
    fn ask(&mut self, inner: Inner, out: &mut Outbox) {
        let child = self.children.get(&inner.instance);
        let Some(channel) = child.and_then(|child| child.told.channel) else {
            return;
        };
        if self.asks.calls.len() >= ASKED_MAX {
            return;
        }
        if let Some(under_way @ None) = self.asks.of.get_mut(&inner)
            && let Ok(tail) = question(inner)
        {
            let call = self.relays.next();
            *under_way = Some(call);
            self.asks.calls.insert(call, inner);
            let word = FromParent::Request { call };
            out.effect(Effect::Reply(Reply {
                tail,
                ..Reply::new(channel, Type::Part, &word)
            }));
        }
    }

    /// A channel stands: asks what is not under way.
    pub(super) fn ask_again(&mut self, instance: JobId, out: &mut Outbox) {
        let its = self.asks.of.range(all_of(instance));
        let open: Vec<Inner> = its.map(|(inner, _)| *inner).collect();
        open.into_iter().for_each(|inner| self.ask(inner, out));
    }

    /// Asks all that are not under way.
    pub(super) fn ask_all(&mut self, out: &mut Outbox) {
        if self.asks.of.len() <= self.asks.calls.len() {
            return;
        }
        let open = self.asks.of.iter().filter(|(_, call)| call.is_none());
        let open: Vec<Inner> = open.map(|(inner, _)| *inner).collect();
        open.into_iter().for_each(|inner| self.ask(inner, out));
    }

    /// The channel is down: what was under way is asked again.
    pub(super) fn asks_lost(&mut self, instance: JobId) {
        for (_, call) in self.asks.of.range_mut(all_of(instance)) {
            if let Some(call) = call.take() {
                self.asks.calls.remove(&call);
            }
        }
        // Those whose end was told and whose last word was not.
        self.asks
            .calls
            .retain(|_, inner| inner.instance != instance);
    }

    /// The instance is over.
    pub(super) fn asks_over(&mut self, instance: JobId, out: &mut Outbox) {
        self.asks_lost(instance);
        let over = self.asks.of.extract_if(all_of(instance), |_, _| true);
        over.for_each(|(inner, _)| out.notice(Notice::Inside(inner, Inside::Over)));
    }

    /// Whether an answer is to something asked here, which is told then.
    pub(super) fn is_asked(
        &mut self,
        now: Time,
        call: u64,
        (kind, body): (AnswerKind, &[u8]),
        out: &mut Outbox,
    ) -> bool {
        let Some(inner) = self.asks.calls.get(&call).copied() else {
            return false;
        };
        let is_open = self.asks.of.get(&inner) == Some(&Some(call));
        if kind == AnswerKind::Refused && has_no_room(body) {
            self.asks.calls.remove(&call);
            if is_open {
                self.asks.of.insert(inner, None);
            }
            out.volatile(Volatile::Wake(now.after(AGAIN)));
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
            (Some(end), _) => Inside::Ended(
                end.result,
                match end.exception {
                    Some(_) => EndedBy::Exception,
                    None => EndedBy::Itself,
                },
            ),
            (None, AnswerKind::Part) => return true,
            (None, AnswerKind::Reply | AnswerKind::Refused) => Inside::Unknown,
        };
        // It is answered with its end; what is said after that is of nobody, or of a later question.
        if is_open {
            self.asks.of.remove(&inner);
            out.notice(Notice::Inside(inner, told));
        }
        if kind != AnswerKind::Part {
            self.asks.calls.remove(&call);
            self.ask_all(out);
        }
        true
    }
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

/// Whether who refuses may say otherwise later.
fn has_no_room(body: &[u8]) -> bool {
    let refusal = serde_json::from_slice::<Refusal>(body);
    refusal.is_ok_and(|refusal| {
        matches!(
            refusal.code,
            Code::Busy | Code::NotReady | Code::Unreachable
        )
    })
}

/// The question for the end of that job, as its user would ask it.
fn question(inner: Inner) -> Result<Bytes, Refusal> {
    let body = WaitRequest::from(JobSet::one(inner.job));
    let request = Request {
        caller: Caller {
            client: ClientId(ClientId::OWN_FROM),
            matchtag: 0,
        },
        topic: Wait::TOPIC.to_owned(),
        uid: inner.user,
        roles: Roles::USER,
        body: Bytes::from(serde_json::to_vec(&body).unwrap_or_default()),
        tail: Bytes::new(),
    };
    wrapped(&request, 1)
}
