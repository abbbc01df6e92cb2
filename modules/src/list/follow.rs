//! `job.events`: the event log of one job, then what comes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use eddy_broker::{Answer, Caller, Outbox, Query, Request, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::{EventsLine, EventsReply, EventsRequest};

use crate::callers::Callers;
use crate::sight::no_job;

use super::veil::Veil;
use super::{Asked, View};

/// Who follows which job.
#[derive(Default)]
pub(super) struct Followers {
    calls: BTreeMap<u64, Follower>,
    callers: Callers,
    by_job: BTreeMap<JobId, Vec<u64>>,
    /// The record whose lines were told last.
    told: Seq,
}

struct Follower {
    caller: Caller,
    /// The user whose jobs alone are shown to it.
    only: Option<u32>,
    job: JobId,
    stage: Stage,
    /// Records that came while the journal was read.
    later: Vec<EventsLine>,
    until: Until,
}

/// What the journal was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Finished,
    Records,
    Following,
}

/// When the stream ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// With what there is.
    Now,
    /// When the job is over.
    Clean,
}

impl Followers {
    pub(super) fn request(
        &mut self,
        view: &View,
        tag: u64,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<Option<Asked>, Refusal> {
        let body: EventsRequest = request.parse()?;
        let only = view.shown_to(request.sender());
        if let Some(job) = view.jobs.get(&body.id)
            && only.is_some_and(|user| user != job.submit.user)
        {
            return Err(no_job(body.id));
        }
        let (stage, query, over) = match view.jobs.get(&body.id) {
            Some(job) => {
                let over = job.state == JobState::Inactive;
                (Stage::Records, Query::Records(job.seqs.clone()), over)
            }
            None => (Stage::Finished, Query::Finished(body.id), true),
        };
        let until = if body.follow && !over {
            Until::Clean
        } else {
            Until::Now
        };
        let follower = Follower {
            caller: request.caller,
            only,
            job: body.id,
            stage,
            later: Vec::new(),
            until,
        };
        self.callers.insert(follower.caller, tag);
        self.calls.insert(tag, follower);
        self.by_job.entry(body.id).or_default().push(tag);
        out.volatile(Volatile::Query(tag, query));
        Ok(Some(Asked::Follow))
    }

    pub(super) fn answered(
        &mut self,
        view: &View,
        tag: u64,
        answer: &Answer,
        out: &mut Outbox,
    ) -> Option<Asked> {
        let follower = self.calls.get_mut(&tag)?;
        match (answer, follower.stage) {
            (Answer::Finished(Some(found)), Stage::Finished)
                if follower.only.is_some_and(|user| user != found.0.userid) =>
            {
                out.refuse(follower.caller, &no_job(follower.job));
                self.remove(tag);
            }
            (Answer::Finished(Some(found)), Stage::Finished) => {
                follower.stage = Stage::Records;
                out.volatile(Volatile::Query(tag, Query::Records(found.1.clone())));
                return Some(Asked::Follow);
            }
            (Answer::Records(records), Stage::Records) => {
                let lines = records.iter().map(|(_, line)| line.clone()).collect();
                self.begin(view, tag, lines, out);
            }
            (Answer::Finished(None), _) => {
                out.refuse(follower.caller, &no_job(follower.job));
                self.remove(tag);
            }
            (Answer::Failed(why), _) => {
                out.refuse(follower.caller, &Refusal::new(Code::Busy, why.clone()));
                self.remove(tag);
            }
            (other, _) => panic!("a job's records were asked for, the answer is {other:?}"),
        }
        None
    }

    /// The log so far, what came meanwhile, and on.
    fn begin(&mut self, view: &View, tag: u64, mut lines: Vec<EventsLine>, out: &mut Outbox) {
        let Some(follower) = self.calls.get_mut(&tag) else {
            return;
        };
        let last = lines.last().map_or(Seq(0), |line| line.seq);
        lines.extend(follower.later.drain(..).filter(|line| line.seq > last));
        // A collected job has a `waited` behind its `clean`.
        let over = lines.iter().any(|line| line.name == "clean");
        follower.stage = Stage::Following;
        let lines = Veil::new(view, follower.only).lines(lines);
        out.part(follower.caller, &EventsReply { lines }, Bytes::new());
        if over || follower.until == Until::Now {
            self.finish(tag, out);
        }
    }

    pub(super) fn durable(&mut self, view: &View, job: JobId, record: &Record, out: &mut Outbox) {
        let Some(tags) = self.by_job.get(&job) else {
            return;
        };
        let lines = match record.seq > self.told {
            true => EventsLine::of(record),
            // It is implied by the last one: its line was told with that.
            false => Vec::new(),
        };
        self.told = record.seq;
        let clean = matches!(record.event.kind, Kind::Clean);
        for tag in tags.clone() {
            let Some(follower) = self.calls.get_mut(&tag) else {
                continue;
            };
            if follower.stage != Stage::Following {
                follower.later.extend(lines.iter().cloned());
                continue;
            }
            if !lines.is_empty() {
                let lines = Veil::new(view, follower.only).lines(lines.clone());
                out.part(follower.caller, &EventsReply { lines }, Bytes::new());
            }
            if clean {
                self.finish(tag, out);
            }
        }
    }

    /// These are gone.
    pub(super) fn drop_of(&mut self, callers: &RangeInclusive<Caller>) {
        let tags = self.callers.of(callers);
        tags.into_iter().for_each(|tag| self.remove(tag));
    }

    fn finish(&mut self, tag: u64, out: &mut Outbox) {
        if let Some(follower) = self.calls.get(&tag) {
            out.answer(follower.caller, &EventsReply::default());
        }
        self.remove(tag);
    }

    fn remove(&mut self, tag: u64) {
        let Some(follower) = self.calls.remove(&tag) else {
            return;
        };
        self.callers.remove(follower.caller, tag);
        if let Some(tags) = self.by_job.get_mut(&follower.job) {
            tags.retain(|other| *other != tag);
            if tags.is_empty() {
                self.by_job.remove(&follower.job);
            }
        }
    }
}
