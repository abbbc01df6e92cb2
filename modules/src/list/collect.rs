//! `job.collect`: the result of a waitable job, given once.

use std::collections::{BTreeSet, VecDeque};

use eddy_broker::{Caller, Effect, Outbox, Reply, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Waitable};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::lifecycle::JobState;
use eddy_wire::message::Type;
use eddy_wire::services::job::CollectRequest;
use eddy_wire::time::Time;

use super::{Asked, View};
use crate::row;

/// Who waits to collect, in order.
#[derive(Default)]
pub(super) struct Collectors {
    waiting: VecDeque<Collector>,
    /// Collected, which is not durable yet.
    taken: BTreeSet<JobId>,
}

/// Somebody who waits: for this job, or for any of that user.
struct Collector {
    caller: Caller,
    user: u32,
    id: Option<JobId>,
}

impl Collector {
    fn wants(&self, job: &Job) -> bool {
        // Of what is a parent's the result is collected there.
        job.submit.waitable == Waitable::Yes
            && job.submit.pass.is_none()
            && job.submit.user == self.user
            && self.id.is_none_or(|id| id == job.id)
    }

    /// Held by the gate: what was taken by another may not be durable yet.
    fn turn_away(&self, out: &mut Outbox) {
        let text = match self.id {
            Some(id) => format!("job {id} is not there to be waited for"),
            None => "no job is there to be waited for".to_owned(),
        };
        let refusal = Refusal::new(Code::End, text);
        let reply = Reply::new(self.caller, Type::Refused, &refusal);
        out.effect(Effect::Reply(reply));
    }
}

impl Collectors {
    /// The result of this job was given to somebody.
    pub(super) fn taken(&mut self, job: JobId) {
        self.taken.insert(job);
    }

    /// That is durable: the job is not in view any more.
    pub(super) fn left(&mut self, job: JobId) {
        self.taken.remove(&job);
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
            id: body.id,
        };
        let mut open = self.open(view, &collector).peekable();
        if open.peek().is_none() {
            collector.turn_away(out);
            return Ok(None);
        }
        match open
            .filter(|job| job.state == JobState::Inactive)
            .min_by_key(|j| j.t_inactive)
        {
            Some(job) => give(job, request.caller, now, out),
            None => self.waiting.push_back(collector),
        }
        Ok(None)
    }

    /// The jobs in view that somebody wants and nobody has.
    fn open<'v>(&self, view: &'v View, collector: &Collector) -> impl Iterator<Item = &'v Job> {
        let jobs = view.jobs.values();
        jobs.filter(|job| collector.wants(job) && !self.taken.contains(&job.id))
    }

    /// A job is over: the first who waits for it gets it.
    pub(super) fn ended(&mut self, job: &Job, now: Time, out: &mut Outbox) {
        if self.taken.contains(&job.id) {
            return;
        }
        if let Some(place) = self.waiting.iter().position(|c| c.wants(job)) {
            let collector = self.waiting.remove(place).expect("just found");
            give(job, collector.caller, now, out);
        }
    }

    /// A result was taken: who waited for just that one waits in vain.
    pub(super) fn turn_away(&mut self, view: &View, out: &mut Outbox) {
        let waiting = std::mem::take(&mut self.waiting);
        for collector in waiting {
            if self.open(view, &collector).next().is_some() {
                self.waiting.push_back(collector);
            } else {
                collector.turn_away(out);
            }
        }
    }

    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.waiting.retain(|collector| !gone(collector.caller));
    }
}

fn give(job: &Job, caller: Caller, now: Time, out: &mut Outbox) {
    out.append(now, job.id, Kind::Waited);
    out.reply(caller, &row::end(job));
}
