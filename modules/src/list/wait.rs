//! `job.wait`: the ends of a set of jobs, as they come.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use bytes::Bytes;
use eddy_broker::{Answer, Caller, Outbox, Request, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::{GATHER_MAX, JobEnd, JobSet, ListRequest, WaitRequest};
use eddy_wire::time::{Span, Time};

use super::scans::{Scan, Scans};
use super::veil::Veil;
use super::{Asked, View};
use crate::callers::Callers;
use crate::jobs::Jobs;
use crate::sight::there_is_none;
use crate::{named, row};

/// Most jobs one call may wait for.
const WAIT_JOBS_MAX: u64 = 1_000_000;
/// Most jobs of which the ends are waited for by all calls of one user together, each counted for each call.
const WAITED_MAX: usize = 4_000_000;
/// Most ends kept for one call before they are told.
const GATHERED_MAX: usize = 1_024;
/// The journal is asked for so many at a time, and so many that are over are told at once.
const PORTION: usize = 1_000;

/// Who waits for which jobs.
#[derive(Default)]
pub(super) struct Waiters {
    calls: BTreeMap<u64, Waiter>,
    callers: Callers,
    by_job: Jobs<Vec<u64>>,
    /// How many jobs the calls of each user wait for.
    by_user: BTreeMap<u32, usize>,
    /// When ends that are kept are to be told, and of which call.
    due: BTreeSet<(Time, u64)>,
}

struct Waiter {
    caller: Caller,
    user: u32,
    /// The user whose jobs alone are shown to it.
    only: Option<u32>,
    /// Jobs in memory that have not ended.
    left: BTreeSet<JobId>,
    /// Those the journal is asked for.
    asked: Option<Asking>,
    /// How long an end may be kept.
    gather: Span,
    /// Ends that are kept, and until when.
    gathered: Vec<JobEnd>,
    due: Option<Time>,
}

impl Waiter {
    /// What the journal is to be asked for.
    fn scan(&self, tag: u64) -> Option<Scan> {
        let Asking { now, only, .. } = self.asked.as_ref()?;
        Some(Scan {
            caller: self.caller,
            user: self.user,
            tag,
            request: ListRequest {
                jobs: now.clone(),
                user: *only,
                ..ListRequest::default()
            },
        })
    }
}

/// Jobs that are not in memory.
struct Asking {
    /// Those that the journal is asked for.
    now: JobSet,
    /// And then.
    later: VecDeque<(JobId, JobId)>,
    /// Of that user only.
    only: Option<u32>,
}

impl Asking {
    /// The next portion of them.
    fn next(mut later: VecDeque<(JobId, JobId)>, only: Option<u32>) -> Asking {
        let (mut ranges, mut room) = (Vec::new(), PORTION as u64);
        while room > 0
            && let Some((first, last)) = later.pop_front()
        {
            let end = last.0.min(first.0.saturating_add(room - 1));
            ranges.push((first, JobId(end)));
            room -= end - first.0 + 1;
            if end < last.0 {
                later.push_front((JobId(end + 1), last));
            }
        }
        Asking {
            now: JobSet { ranges },
            later,
            only,
        }
    }
}

impl Waiters {
    pub(super) fn request(
        &mut self,
        view: &View,
        (tag, scans): (u64, &mut Scans),
        request: &Request,
        out: &mut Outbox,
    ) -> Result<Option<Asked>, Refusal> {
        let WaitRequest { jobs: set, gather } = request.parse()?;
        check(&set)?;
        if !(Span::ZERO..=GATHER_MAX).contains(&gather) {
            let text = format!("gather: {gather} s given, allowed are 0 to {GATHER_MAX} s");
            return Err(Refusal::invalid(text));
        }
        let only = view.shown_to(request.sender());
        let veil = Veil::new(view, only);
        let mut waiter = Waiter {
            caller: request.caller,
            user: request.uid,
            only,
            left: BTreeSet::new(),
            asked: None,
            gather,
            gathered: Vec::new(),
            due: None,
        };
        let mut here = BTreeSet::new();
        let mut ended = Vec::new();
        for (first, last) in &set.ranges {
            for (id, job) in view.jobs.range(*first..=*last) {
                if only.is_some_and(|user| user != job.submit.user) {
                    continue;
                }
                here.insert(*id);
                match job.state {
                    JobState::Inactive => ended.push(veil.end(row::end(job))),
                    _ => {
                        waiter.left.insert(*id);
                    }
                }
            }
        }
        self.has_room(request.uid, waiter.left.len())?;
        for ended in ended.chunks(PORTION) {
            out.part(request.caller, &ended, Bytes::new());
        }
        if here.len() as u64 != set.len() {
            let elsewhere = set.without(&here).ranges.into();
            waiter.asked = Some(Asking::next(elsewhere, only));
        }
        Ok(self.enter((tag, scans), waiter, out))
    }

    /// Whether so many more may be waited for by this user.
    fn has_room(&self, user: u32, more: usize) -> Result<(), Refusal> {
        let waited = self.by_user.get(&user).copied().unwrap_or_default();
        if waited + more <= WAITED_MAX {
            return Ok(());
        }
        let text = format!(
            "jobs: {more} given, user {user} waits for {waited} by other calls; the limit `waited jobs` is {WAITED_MAX}"
        );
        Err(Refusal::new(Code::Busy, text))
    }

    fn enter(
        &mut self,
        (tag, scans): (u64, &mut Scans),
        waiter: Waiter,
        out: &mut Outbox,
    ) -> Option<Asked> {
        for id in &waiter.left {
            match self.by_job.get_mut(id) {
                Some(tags) => tags.push(tag),
                None => drop(self.by_job.insert(*id, vec![tag])),
            }
        }
        *self.by_user.entry(waiter.user).or_default() += waiter.left.len();
        let scan = waiter.scan(tag);
        self.callers.insert(waiter.caller, tag);
        self.calls.insert(tag, waiter);
        match scan {
            Some(scan) => {
                scans.ask(scan, out);
                Some(Asked::Wait)
            }
            None => {
                self.finish_if_done(tag, out);
                None
            }
        }
    }

    /// The journal's rows of the jobs that were not in memory.
    pub(super) fn answered(
        &mut self,
        view: &View,
        (tag, scans): (u64, &mut Scans),
        answer: &Answer,
        out: &mut Outbox,
    ) -> Option<Asked> {
        let waiter = self.calls.get_mut(&tag)?;
        let Asking { now, later, only } = waiter.asked.take()?;
        let refusal = match answer {
            // All of a portion are in one answer.
            Answer::Rows(rows, _) => {
                let veil = Veil::new(view, waiter.only);
                let ends = rows.iter().map(|row| veil.end(row::end_of_row(row)));
                let ends: Vec<JobEnd> = ends.collect();
                let found: BTreeSet<JobId> = ends.iter().map(|end| end.id).collect();
                if !ends.is_empty() {
                    out.part(waiter.caller, &ends, Bytes::new());
                }
                let missing = now.without(&found);
                let first = missing.ranges.first();
                first.map(|(first, _)| {
                    Refusal::not_found(format!("jobs: {}", there_is_none(*first)))
                })
            }
            Answer::Failed(why) => Some(Refusal::new(Code::Busy, why.clone())),
            other => panic!("rows were asked for, the answer is {other:?}"),
        };
        if let Some(refusal) = refusal {
            out.refuse(waiter.caller, &refusal);
            self.remove(tag);
            return None;
        }
        waiter.asked = (!later.is_empty()).then(|| Asking::next(later, only));
        if let Some(scan) = waiter.scan(tag) {
            scans.ask(scan, out);
            return Some(Asked::Wait);
        }
        self.finish_if_done(tag, out);
        None
    }

    /// A job is over for good.
    pub(super) fn ended(&mut self, view: &View, job: &Job, now: Time, out: &mut Outbox) {
        let Some(tags) = self.by_job.remove(&job.id) else {
            return;
        };
        let end = row::end(job);
        for tag in tags {
            let Some(waiter) = self.calls.get_mut(&tag) else {
                continue;
            };
            if !waiter.left.remove(&job.id) {
                continue;
            }
            less(&mut self.by_user, waiter.user, 1);
            let veil = Veil::new(view, waiter.only);
            waiter.gathered.push(veil.end(end.clone()));
            if waiter.gather == Span::ZERO || waiter.gathered.len() >= GATHERED_MAX {
                self.tell(tag, out);
            } else if waiter.due.is_none() {
                let at = now + waiter.gather;
                waiter.due = Some(at);
                self.due.insert((at, tag));
                out.volatile(Volatile::Wake(at));
            }
            self.finish_if_done(tag, out);
        }
    }

    /// Time has passed: tells what was kept long enough.
    pub(super) fn tick(&mut self, now: Time, out: &mut Outbox) {
        while let Some((at, tag)) = self.due.first().copied()
            && at <= now
        {
            self.due.pop_first();
            self.tell(tag, out);
        }
    }

    /// Tells what is kept for a call.
    fn tell(&mut self, tag: u64, out: &mut Outbox) {
        let Some(waiter) = self.calls.get_mut(&tag) else {
            return;
        };
        if let Some(at) = waiter.due.take() {
            self.due.remove(&(at, tag));
        }
        let ends = std::mem::take(&mut waiter.gathered);
        if !ends.is_empty() {
            out.part(waiter.caller, &ends, Bytes::new());
        }
    }

    /// These are gone.
    pub(super) fn drop_of(&mut self, callers: &RangeInclusive<Caller>) {
        let tags = self.callers.of(callers);
        tags.into_iter().for_each(|tag| self.remove(tag));
    }

    fn finish_if_done(&mut self, tag: u64, out: &mut Outbox) {
        let done = self
            .calls
            .get(&tag)
            .filter(|waiter| waiter.left.is_empty() && waiter.asked.is_none());
        if let Some(caller) = done.map(|waiter| waiter.caller) {
            self.tell(tag, out);
            out.answer(caller, &Vec::<JobEnd>::new());
            self.remove(tag);
        }
    }

    fn remove(&mut self, tag: u64) {
        let Some(waiter) = self.calls.remove(&tag) else {
            return;
        };
        self.callers.remove(waiter.caller, tag);
        less(&mut self.by_user, waiter.user, waiter.left.len());
        if let Some(at) = waiter.due {
            self.due.remove(&(at, tag));
        }
        for id in waiter.left {
            if let Some(tags) = self.by_job.get_mut(&id) {
                tags.retain(|other| *other != tag);
                if tags.is_empty() {
                    self.by_job.remove(&id);
                }
            }
        }
    }
}

/// So many are not waited for any more.
fn less(by_user: &mut BTreeMap<u32, usize>, user: u32, by: usize) {
    if let Some(waited) = by_user.get_mut(&user) {
        *waited = waited.saturating_sub(by);
        if *waited == 0 {
            by_user.remove(&user);
        }
    }
}

fn check(set: &JobSet) -> Result<(), Refusal> {
    if set.is_empty() {
        return Err(Refusal::invalid("jobs: none given, at least one is needed"));
    }
    named::ranges(set)?;
    let total = set.len();
    if total > WAIT_JOBS_MAX {
        let text = format!("jobs: {total} given, at most {WAIT_JOBS_MAX} can be waited for");
        return Err(Refusal::new(Code::TooLarge, text));
    }
    Ok(())
}
