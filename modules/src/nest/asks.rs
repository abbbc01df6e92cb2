//! How jobs in instances ended, asked on behalf of jobs here that wait for them (`afterok:12/3`).
//!
//! The manager says of which it wants to know, and is told. It is asked over the channel as their user would ask,
//! again whenever a channel stands anew or when it had no room, and over with the instance: what was not heard by
//! then nobody tells.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use eddy_broker::{
    Caller, ClientId, Effect, EndedBy, Inside, Notice, Outbox, Reply, Request, Volatile,
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

/// How many are asked of one instance at a time: it takes 512 calls of a client.
const ASKED_MAX: usize = 256;
/// When an instance that had no room is asked again.
const AGAIN: Span = Span::seconds(1);

/// A job in an instance: which instance, which job.
type Inner = (JobId, JobId);

/// What is asked.
#[derive(Debug, Default)]
pub(super) struct Asks {
    of: BTreeMap<Inner, Ask>,
    calls: BTreeMap<u64, Inner>,
}

#[derive(Debug)]
struct Ask {
    user: u32,
    /// Where it is under way, its number.
    call: Option<u64>,
}

impl Nest {
    /// Somebody waits for the end of that job.
    pub(super) fn ask_inside(&mut self, inner: Inner, user: u32, out: &mut Outbox) {
        if !self.children.contains_key(&inner.0) {
            return out.notice(Notice::Inside(inner, Inside::Over));
        }
        self.asks
            .of
            .entry(inner)
            .or_insert(Ask { user, call: None });
        self.ask_again(inner.0, out);
    }

    /// A channel stands: asks what is not under way.
    pub(super) fn ask_again(&mut self, instance: JobId, out: &mut Outbox) {
        let child = self.children.get(&instance);
        let Some(channel) = child.and_then(|child| child.told.channel) else {
            return;
        };
        let its = |inner: &Inner| inner.0 == instance;
        let under_way = self.asks.calls.values().filter(|inner| its(inner)).count();
        let open = self.asks.of.iter_mut();
        let open = open.filter(|(inner, ask)| its(inner) && ask.call.is_none());
        for (inner, ask) in open.take(ASKED_MAX.saturating_sub(under_way)) {
            let Ok(tail) = question(inner.1, ask.user) else {
                continue;
            };
            let call = self.relays.next();
            ask.call = Some(call);
            self.asks.calls.insert(call, *inner);
            let word = FromParent::Request { call };
            out.effect(Effect::Reply(Reply {
                tail,
                ..Reply::new(channel, Type::Part, &word)
            }));
        }
    }

    /// Asks all that are not under way.
    pub(super) fn ask_all(&mut self, out: &mut Outbox) {
        let open = self.asks.of.iter().filter(|(_, ask)| ask.call.is_none());
        let instances: BTreeSet<JobId> = open.map(|((instance, _), _)| *instance).collect();
        for instance in instances {
            self.ask_again(instance, out);
        }
    }

    /// The channel is down: what was under way is asked again.
    pub(super) fn asks_lost(&mut self, instance: JobId) {
        for (_, inner) in self
            .asks
            .calls
            .extract_if(.., |_, inner| inner.0 == instance)
        {
            if let Some(ask) = self.asks.of.get_mut(&inner) {
                ask.call = None;
            }
        }
    }

    /// The instance is over.
    pub(super) fn asks_over(&mut self, instance: JobId, out: &mut Outbox) {
        self.asks_lost(instance);
        for (inner, _) in self.asks.of.extract_if(.., |inner, _| inner.0 == instance) {
            out.notice(Notice::Inside(inner, Inside::Over));
        }
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
        if kind == AnswerKind::Refused && has_no_room(body) {
            self.asks.calls.remove(&call);
            if let Some(ask) = self.asks.of.get_mut(&inner) {
                ask.call = None;
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
        let end = ends.into_iter().find(|end| end.id == inner.1);
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
        // It is answered with the first end; what is said after it is of nobody.
        if self.asks.of.remove(&inner).is_some() {
            out.notice(Notice::Inside(inner, told));
        }
        if kind != AnswerKind::Part {
            self.asks.calls.remove(&call);
            self.ask_again(inner.0, out);
        }
        true
    }
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
fn question(job: JobId, user: u32) -> Result<Bytes, Refusal> {
    let body = WaitRequest::from(JobSet::one(job));
    let request = Request {
        caller: Caller {
            client: ClientId(ClientId::OWN_FROM),
            matchtag: 0,
        },
        topic: Wait::TOPIC.to_owned(),
        uid: user,
        roles: Roles::USER,
        body: Bytes::from(serde_json::to_vec(&body).unwrap_or_default()),
        tail: Bytes::new(),
    };
    wrapped(&request, 1)
}
