//! `job.collect`: the result of a waitable job, given once.

use std::collections::{BTreeSet, VecDeque};

use eddy_broker::{Caller, Outbox, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Waitable};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::CollectRequest;
use eddy_wire::time::Time;

use super::wait::end;
use super::{Asked, View};
use crate::row::row;

/// Who waits to collect, in order.
#[derive(Default)]
pub(super) struct Collectors {
    waiting: VecDeque<(Caller, Option<JobId>)>,
    /// Collected, whether or not that is durable yet.
    taken: BTreeSet<JobId>,
}

impl Collectors {
    /// The result of this job was given to somebody.
    pub(super) fn taken(&mut self, job: JobId) {
        self.taken.insert(job);
    }

    pub(super) fn request(
        &mut self,
        view: &View,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<Option<Asked>, Refusal> {
        let body: CollectRequest = request.parse()?;
        let wanted = |job: &&Job| {
            job.submit.waitable == Waitable::Yes
                && job.submit.user == request.uid
                && body.id.is_none_or(|id| id == job.id)
                && !self.taken.contains(&job.id)
        };
        let mut open = view.jobs.values().filter(wanted).peekable();
        if open.peek().is_none() {
            let text = match body.id {
                Some(id) => format!("job {id} is not there to be waited for"),
                None => "no job is there to be waited for".to_owned(),
            };
            return Err(Refusal::new(Code::End, text));
        }
        match open
            .filter(|job| job.state == JobState::Inactive)
            .min_by_key(|j| j.t_inactive)
        {
            Some(job) => give(job, request.caller, now, out),
            None => self.waiting.push_back((request.caller, body.id)),
        }
        Ok(None)
    }

    /// A job is over: the first who waits for it gets it.
    pub(super) fn ended(&mut self, job: &Job, now: Time, out: &mut Outbox) {
        if job.submit.waitable == Waitable::No || self.taken.contains(&job.id) {
            return;
        }
        let wants = |(_, id): &(Caller, Option<JobId>)| id.is_none_or(|id| id == job.id);
        if let Some(place) = self.waiting.iter().position(wants) {
            let (caller, _) = self.waiting.remove(place).expect("just found");
            give(job, caller, now, out);
        }
    }

    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.waiting.retain(|(caller, _)| !gone(*caller));
    }
}

fn give(job: &Job, caller: Caller, now: Time, out: &mut Outbox) {
    out.append(now, job.id, Kind::Waited);
    out.reply(caller, &end(&row(job, String::new())));
}
