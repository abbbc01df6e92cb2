//! `job.collect`: the result of a waitable job, given once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use eddy_broker::{Caller, Effect, Outbox, Reply, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Waitable};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::message::Type;
use eddy_wire::services::job::CollectRequest;
use eddy_wire::time::Time;

use super::veil::Veil;
use super::{Asked, View};
use crate::jobs::Jobs;
use crate::row;

/// What there is to be collected, and who waits for it, in order.
#[derive(Default)]
pub(super) struct Collectors {
    waiting: VecDeque<Collector>,
    /// The jobs whose results nobody has: when they were over, if they are.
    open: Jobs<Open>,
    /// How many of them each user has: who asks for any looks at none.
    of: BTreeMap<u32, usize>,
    /// Those that are over, by user, the first to end first.
    over: BTreeSet<(u32, Time, JobId)>,
}

/// A job whose result nobody has.
#[derive(Clone, Copy)]
struct Open {
    user: u32,
    over: Option<Time>,
}

/// Somebody who waits: for this job, or for any of that user.
struct Collector {
    caller: Caller,
    user: u32,
    /// The user whose jobs alone are shown to him.
    only: Option<u32>,
    id: Option<JobId>,
}

impl Collector {
    fn wants(&self, id: JobId, job: Open) -> bool {
        job.user == self.user && self.id.is_none_or(|wanted| wanted == id)
    }

    /// Held by the gate: what was taken by another may not be durable yet.
    fn turn_away(&self, out: &mut Outbox) {
        let text = match self.id {
            Some(id) => format!("job {} is not there to be waited for", id.f58_ascii()),
            None => "no job is there to be waited for".to_owned(),
        };
        let refusal = Refusal::new(Code::End, text);
        let reply = Reply::new(self.caller, Type::Refused, &refusal);
        out.effect(Effect::Reply(reply));
    }
}

impl Collectors {
    /// A job is in view.
    pub(super) fn submitted(&mut self, job: &Job) {
        // Of what is a parent's the result is collected there.
        if job.submit.waitable == Waitable::Yes && job.submit.pass.is_none() {
            let user = job.submit.user;
            self.open.insert(job.id, Open { user, over: None });
            *self.of.entry(user).or_default() += 1;
        }
    }

    /// It is over.
    pub(super) fn is_over(&mut self, job: &Job) {
        if let Some(open) = self.open.get_mut(&job.id) {
            let t = job.t_inactive.unwrap_or_default();
            open.over = Some(t);
            self.over.insert((open.user, t, job.id));
        }
    }

    /// The result of this job was given to somebody.
    pub(super) fn taken(&mut self, job: JobId) {
        let Some(Open { user, over }) = self.open.remove(&job) else {
            return;
        };
        if let Some(t) = over {
            self.over.remove(&(user, t, job));
        }
        if let Some(count) = self.of.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&user);
            }
        }
    }

    pub(super) fn request(
        &mut self,
        view: &View,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<Option<Asked>, Refusal> {
        let body: CollectRequest = request.parse()?;
        let collector = Collector {
            caller: request.caller,
            user: request.uid,
            only: view.shown_to(request.sender()),
            id: body.id,
        };
        if !self.is_there(&collector) {
            collector.turn_away(out);
            return Ok(None);
        }
        match self.first(&collector).and_then(|id| view.jobs.get(&id)) {
            Some(job) => give(view, job, &collector, now, out),
            None => self.waiting.push_back(collector),
        }
        Ok(None)
    }

    /// Whether there is anything that somebody may get, now or later.
    fn is_there(&self, collector: &Collector) -> bool {
        match collector.id {
            Some(id) => {
                let open = self.open.get(&id);
                open.is_some_and(|open| collector.wants(id, *open))
            }
            None => self.of.contains_key(&collector.user),
        }
    }

    /// What somebody gets now: of all the first that was over.
    fn first(&self, collector: &Collector) -> Option<JobId> {
        if let Some(id) = collector.id {
            let open = self.open.get(&id)?;
            return open.over.map(|_| id);
        }
        let from = (collector.user, Time(i64::MIN), JobId(0));
        let (user, _, id) = self.over.range(from..).next()?;
        (*user == collector.user).then_some(*id)
    }

    /// A job that is over is told: the first who waits for it gets it.
    pub(super) fn ended(&mut self, view: &View, job: &Job, now: Time, out: &mut Outbox) {
        let Some(open) = self.open.get(&job.id).copied() else {
            return;
        };
        if let Some(place) = self.waiting.iter().position(|c| c.wants(job.id, open)) {
            let collector = self.waiting.remove(place).expect("just found");
            give(view, job, &collector, now, out);
        }
    }

    /// A result was taken: who waited for just that one waits in vain.
    pub(super) fn turn_away(&mut self, out: &mut Outbox) {
        let waiting = std::mem::take(&mut self.waiting);
        for collector in waiting {
            match self.is_there(&collector) {
                true => self.waiting.push_back(collector),
                false => collector.turn_away(out),
            }
        }
    }

    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.waiting.retain(|collector| !gone(collector.caller));
    }
}

fn give(view: &View, job: &Job, to: &Collector, now: Time, out: &mut Outbox) {
    out.append(now, job.id, Kind::Waited);
    let end = Veil::new(view, to.only).end(row::end(job));
    out.reply(to.caller, &end);
}
