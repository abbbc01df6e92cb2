//! `job.list`: rows of jobs in memory, then of finished ones from the journal.
//!
//! Many ask the same again and again: while nothing changes they get the same bytes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use eddy_broker::{Answer, Caller, Outbox, Reply, Request, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::json;
use eddy_wire::lifecycle::JobState;
use eddy_wire::message::Type;
use eddy_wire::services::job::{Detail, JobRow, ListRequest};

use super::scans::{Scan, Scans};
use super::veil::Veil;
use super::{Asked, View};
use crate::ingest::queues;
use crate::named;
use crate::row::row;

/// Rows in one part of the answer.
const CHUNK: usize = 1000;

/// An answer of so many bytes or less is kept for who asks the same.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// The most rows of the journal in one answer, whatever was asked for.
const ROWS_MAX: u32 = 1_000_000;

/// Listings waiting for the journal, and the last one that did not need it.
#[derive(Default)]
pub(super) struct Listings {
    waiting: BTreeMap<u64, Waiting>,
    kept: Option<Kept>,
}

/// Who waits for the journal, and what is to be asked of it still.
struct Waiting {
    caller: Caller,
    user: u32,
    /// The user whose jobs alone are shown to him.
    only: Option<u32>,
    left: ListRequest,
}

impl Waiting {
    fn scan(&self, tag: u64) -> Scan {
        Scan {
            caller: self.caller,
            user: self.user,
            tag,
            request: self.left.clone(),
        }
    }
}

/// An answer, with all that it depends on.
struct Kept {
    version: u64,
    /// By [`View::ticks`].
    ticks: i64,
    request: Bytes,
    shown_to: Option<u32>,
    parts: Vec<Bytes>,
}

impl Kept {
    fn is_of(&self, view: &View, request: &Request) -> bool {
        self.version == view.version
            && self.ticks == view.ticks()
            && self.request == request.body
            && self.shown_to == view.shown_to(request.sender())
    }

    fn tell(&self, to: Caller, out: &mut Outbox) {
        for body in &self.parts {
            let (kind, body, tail) = (Type::Part, body.clone(), Bytes::new());
            out.volatile(Volatile::Reply(Reply {
                to,
                kind,
                body,
                tail,
            }));
        }
        out.answer(to, &Vec::<JobRow>::new());
    }
}

impl Listings {
    pub(super) fn request(
        &mut self,
        view: &View,
        (tag, scans): (u64, &mut Scans),
        request: &Request,
        out: &mut Outbox,
    ) -> Result<Option<Asked>, Refusal> {
        if let Some(kept) = &self.kept
            && kept.is_of(view, request)
        {
            kept.tell(request.caller, out);
            return Ok(None);
        }
        let mut body: ListRequest = request.parse()?;
        named::ranges(&body.jobs)?;
        if let Some(own) = view.shown_to(request.sender()) {
            // Asked for another's: a listing of nothing, as if there were none.
            if body.user.is_some_and(|user| user != own) {
                out.answer(request.caller, &Vec::<JobRow>::new());
                return Ok(None);
            }
            body.user = Some(own);
        }
        let shown_to = view.shown_to(request.sender());
        let rows: Vec<JobRow> = limited(&body, view, shown_to);
        let found = rows.len() as u32;
        let told = Kept {
            version: view.version,
            ticks: view.ticks(),
            request: request.body.clone(),
            shown_to,
            parts: rows.chunks(CHUNK).map(encoded).collect(),
        };
        let full = body.limit > 0 && found >= body.limit;
        if !wants_finished(&body) || full {
            told.tell(request.caller, out);
            let bytes: usize = told.parts.iter().map(Bytes::len).sum();
            self.kept = (bytes <= KEPT_BYTES_MAX).then_some(told);
            return Ok(None);
        }
        for part in told.parts {
            let reply = Reply {
                to: request.caller,
                kind: Type::Part,
                body: part,
                tail: Bytes::new(),
            };
            out.volatile(Volatile::Reply(reply));
        }
        body.limit = match body.limit {
            0 => ROWS_MAX,
            limit => (limit - found).min(ROWS_MAX),
        };
        let waiting = Waiting {
            caller: request.caller,
            user: request.uid,
            only: shown_to,
            left: body,
        };
        scans.ask(waiting.scan(tag), out);
        self.waiting.insert(tag, waiting);
        Ok(Some(Asked::Rows))
    }

    /// These are gone.
    pub(super) fn drop_of(&mut self, callers: &RangeInclusive<Caller>) {
        self.waiting
            .retain(|_, waiting| !callers.contains(&waiting.caller));
    }

    pub(super) fn answered(
        &mut self,
        view: &View,
        (tag, scans): (u64, &mut Scans),
        answer: &Answer,
        out: &mut Outbox,
    ) -> Option<Asked> {
        let mut waiting = self.waiting.remove(&tag)?;
        let caller = waiting.caller;
        match answer {
            Answer::Rows(rows, more) => {
                let veil = Veil::new(view, waiting.only);
                for chunk in rows.chunks(CHUNK) {
                    match waiting.only {
                        None => out.part(caller, &chunk, Bytes::new()),
                        Some(_) => {
                            let shown = chunk.iter().map(|row| veil.row(row.clone()));
                            out.part(caller, &shown.collect::<Vec<JobRow>>(), Bytes::new());
                        }
                    }
                }
                let left = waiting.left.limit.saturating_sub(rows.len() as u32);
                if left > 0 && more.is_some() {
                    (waiting.left.limit, waiting.left.behind) = (left, *more);
                    scans.ask(waiting.scan(tag), out);
                    self.waiting.insert(tag, waiting);
                    return Some(Asked::Rows);
                }
                out.answer(caller, &Vec::<JobRow>::new());
            }
            Answer::Failed(why) => out.refuse(caller, &Refusal::new(Code::Busy, why.clone())),
            other => panic!("rows were asked for, the answer is {other:?}"),
        }
        None
    }
}

fn encoded(rows: &[JobRow]) -> Bytes {
    json::to_vec(rows).into()
}

/// Pending by place in the queue, then running.
fn limited(body: &ListRequest, view: &View, shown_to: Option<u32>) -> Vec<JobRow> {
    let veil = Veil::new(view, shown_to);
    let matching = |job: &&Job| matches(body, job);
    let mut jobs: Vec<&Job> = if body.jobs.is_empty() {
        view.jobs.values().filter(matching).collect()
    } else {
        let ranges = body.jobs.ranges.iter();
        ranges
            .flat_map(|(first, last)| view.jobs.range(*first..=*last))
            .map(|(_, job)| job)
            .filter(matching)
            .collect()
    };
    jobs.sort_by_key(|job| order(job));
    let limit = if body.limit == 0 {
        usize::MAX
    } else {
        body.limit as usize
    };
    let told = |job: &Job| {
        let row = veil.row(row(job, view.reason(job, shown_to)));
        match body.detail {
            Detail::Usual => row.usual(),
            Detail::All => row,
        }
    };
    jobs.into_iter().take(limit).map(told).collect()
}

/// Who is over is none of them.
fn order(job: &Job) -> (u8, i64, JobId) {
    match job.state {
        JobState::New | JobState::Depend | JobState::Priority | JobState::Sched => {
            (0, -job.priority.unwrap_or(0), job.id)
        }
        JobState::Run | JobState::Cleanup | JobState::Inactive => {
            (1, -job.t_alloc.map_or(0, |t| t.0), job.id)
        }
    }
}

fn matches(body: &ListRequest, job: &Job) -> bool {
    let spec = &job.submit.spec.jobspec;
    // What is over the journal has, also while it is kept here for who collects its result.
    job.state != JobState::Inactive
        && (body.states.is_empty() || body.states.contains(&job.state))
        && body.results.is_empty()
        && body.since.is_none()
        && body.user.is_none_or(|user| user == job.submit.user)
        && body.name.as_ref().is_none_or(|name| name == spec.name())
        && body.queue.as_ref().is_none_or(|queue| {
            let named = spec.attributes.system.queue.as_deref();
            named.unwrap_or_default() == queue || queues::of(&job.submit.spec) == Some(queue)
        })
        && (body.queues.is_empty()
            || queues::of(&job.submit.spec)
                .is_some_and(|of| body.queues.iter().any(|queue| queue == of)))
        && body.account.as_ref().is_none_or(|account| {
            let own = job.submit.party.account.as_ref();
            own.is_some_and(|own| own.as_str() == account)
        })
        && body
            .job_set
            .as_ref()
            .is_none_or(|set| job.submit.spec.set.as_deref() == Some(set))
}

fn asks_results(body: &ListRequest) -> bool {
    !body.results.is_empty() || body.since.is_some()
}

fn wants_finished(body: &ListRequest) -> bool {
    body.states.contains(&JobState::Inactive)
        || body.states.is_empty() && (!body.jobs.is_empty() || asks_results(body))
}
