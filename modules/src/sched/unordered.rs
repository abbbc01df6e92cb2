//! Jobs that this instance took for its parent while that was away, and that the parent has not ordered.
//!
//! They wait for it. When it has been silent for long enough they begin by themselves, first come first
//! served: the planner is told of the first of them alone, whatever policy this instance has. What is on
//! its way from the parent goes before them, and where something of the parent's is suspended none begins:
//! its cores may be due to it. Of the rest the parent may have decided what is not known here, so it waits.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use eddy_broker::{Notice, Outbox, Volatile};
use eddy_wire::event::{Kind, Record};
use eddy_wire::gang;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::{Delta, Going, Reason};
use eddy_wire::reservation;
use eddy_wire::services::child::Passed as Given;
use eddy_wire::time::{Span, Time};

use super::passed::BOUNCE_AFTER;
use super::present::JustTaken;
use super::seen::{Order, Seen};
use super::{Intake, Sched, pools};
use crate::jobs::Jobs;
use crate::passed::taken::{is_as_taken, is_ordered_above};
use crate::queues_above::{self, QueuesAbove};
use crate::silence::MayBegin;
use eddy_wire::pool::Takes as Uses;

/// Those jobs.
#[derive(Default)]
pub(super) struct Unordered {
    queues: QueuesAbove,
    /// That wait and that the parent has not taken, in the order in which they came.
    waiting: BTreeSet<JobId>,
    /// Those that the parent has taken since, and that are not over.
    ordered: BTreeSet<JobId>,
    /// The one that the planner knows.
    first: Option<JobId>,
    /// Those that fit nowhere where they may begin without the parent, as far as that has said.
    unfit: BTreeSet<JobId>,
    /// What was said last of why each waits.
    said: BTreeMap<JobId, Reason>,
    /// Those of whom that may be otherwise now.
    news: News,
}

/// Of whom something is to be said.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Of(BTreeSet<JobId>),
    All,
}

impl Default for News {
    fn default() -> News {
        News::Of(BTreeSet::new())
    }
}

impl News {
    fn of(&mut self, job: JobId) {
        if let News::Of(jobs) = self {
            jobs.insert(job);
        }
    }
}

impl Unordered {
    /// A record, before it is folded into the jobs that are not over.
    pub(super) fn apply(&mut self, record: &Record, jobs: &Jobs<Seen>) {
        self.queues.apply(record);
        if let (Kind::Memo(memo), Some(job)) = (&record.event.kind, record.event.job)
            && is_ordered_above(memo)
            && jobs.contains_key(&job)
        {
            self.waiting.remove(&job);
            self.ordered.insert(job);
            self.news.of(job);
        }
        if let Kind::ResourceDefine(..) = record.event.kind {
            self.unfit.clear();
        }
        if record.event.job.is_none() {
            self.say_again();
        }
    }

    /// A job after one of its records.
    pub(super) fn moved(&mut self, id: JobId, seen: &Seen) {
        if !seen.submit.is_taken_here() {
            return;
        }
        match seen.is_queued() && !self.ordered.contains(&id) {
            true => self.waiting.insert(id),
            false => self.waiting.remove(&id),
        };
        self.news.of(id);
    }

    pub(super) fn forget(&mut self, id: JobId) {
        self.waiting.remove(&id);
        self.ordered.remove(&id);
        self.unfit.remove(&id);
        self.news.of(id);
    }

    /// Whether one waits for the parent that the planner finds no room for: there it may fit.
    pub(super) fn fits_above(&mut self, id: JobId) -> bool {
        let waits = self.waiting.contains(&id);
        if waits {
            self.unfit.insert(id);
        }
        waits
    }

    /// The nodes that go, as the parent said.
    pub(super) fn going(&self) -> Vec<Going> {
        self.queues.going().collect()
    }

    /// The parent is heard, and may have said something else.
    pub(super) fn heard(&mut self) {
        self.unfit.clear();
        self.say_again();
    }

    pub(super) fn say_again(&mut self) {
        self.news = News::All;
    }

    fn is_none(&self) -> bool {
        self.waiting.is_empty()
            && self.ordered.is_empty()
            && self.first.is_none()
            && self.said.is_empty()
    }

    fn all(&self) -> BTreeSet<JobId> {
        let all = self.waiting.iter().chain(&self.ordered);
        all.chain(self.said.keys()).copied().collect()
    }
}

impl Sched {
    /// Whether by this other nodes than before may be out of service.
    pub(super) fn is_of_service(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Drain(..) | Kind::Undrain(..) => true,
            Kind::Memo(memo) => self.asked.is_users() && queues_above::is_one(memo),
            _ => false,
        }
    }

    /// The nodes that are given to nobody: those that are drained, and of a user's instance those that the one around
    /// it has drained. What is passed to a queue's instance that one places itself.
    pub(super) fn closed(&self) -> Idset {
        match self.asked.is_users() {
            true => self.drained.union(&self.unordered.queues.drained()),
            false => self.drained.clone(),
        }
    }

    /// Says who of them is to begin, and why the others wait.
    pub(super) fn order(&mut self, out: &mut Outbox) {
        if self.unordered.is_none() {
            return;
        }
        let first = self.first_unordered();
        if first != self.unordered.first {
            let before = std::mem::replace(&mut self.unordered.first, first);
            let mut deltas = Vec::new();
            if let Some(id) = before
                && let Some(seen) = self.jobs.get_mut(&id)
            {
                seen.order = Order::Above;
                if seen.is_queued() {
                    deltas.push(Delta::Unwant(id));
                }
            }
            if let Some(seen) = first.and_then(|id| self.jobs.get_mut(&id)) {
                seen.order = Order::Here;
            }
            deltas.extend(first.map(|id| self.want(id)));
            if !deltas.is_empty() {
                out.volatile(Volatile::Plan(deltas));
            }
            match (before, first) {
                (Some(before), Some(first)) => {
                    self.unordered.news.of(before);
                    self.unordered.news.of(first);
                }
                _ => self.unordered.say_again(),
            }
        }
        let jobs = match std::mem::take(&mut self.unordered.news) {
            News::Of(jobs) => jobs,
            News::All => self.unordered.all(),
        };
        for job in jobs {
            self.say_why(job, out);
        }
    }

    /// The one whose turn it is.
    fn first_unordered(&self) -> Option<JobId> {
        let begins = self.silence.is_alone() && self.intake == Intake::Open;
        if !begins || self.passed.is_any() || self.is_any_suspended() {
            return None;
        }
        let may = |id: &&JobId| self.may_begin(**id) == MayBegin::Alone;
        self.unordered.waiting.iter().find(may).copied()
    }

    /// Whether something of the parent's has given its cores back, which may be due to it.
    fn is_any_suspended(&self) -> bool {
        let mut jobs = self.jobs.values();
        jobs.any(|seen| seen.submit.pass.is_some() && seen.suspension.is_touched())
    }

    /// Whether one may begin without the parent: it asks for what can be known here.
    fn may_begin(&self, id: JobId) -> MayBegin {
        let Some(seen) = self.jobs.get(&id) else {
            return MayBegin::Ordered;
        };
        let spec = &seen.submit.spec;
        let (system, request) = (&spec.jobspec.attributes.system, &spec.request);
        let is_plain = spec.needs.is_empty()
            && request.work == Work::Tasks
            && request.takes == Takes::Resources
            && request.constraint.is_none()
            && request.ranks.is_none()
            && request.choice.is_none()
            && system.qos.is_none()
            && system.class.is_none()
            && reservation::of(spec).is_none()
            && pools::takes(&seen.submit) == Uses::default()
            && gang::of(spec).is_ok_and(|gang| gang.is_none());
        let fits = !self.unordered.unfit.contains(&id);
        match is_plain && fits && self.unordered.queues.may_begin(spec) {
            true => MayBegin::Alone,
            false => MayBegin::Ordered,
        }
    }

    /// The ranks where one may begin that the parent has not ordered: those on which that has nothing else
    /// to begin, or nobody, as long as it may run.
    pub(super) fn open_to(&self, seen: &Seen, ranks: Option<Idset>) -> Option<Idset> {
        let Some((from, until)) = self.silence.alone().filter(|_| seen.submit.is_taken_here())
        else {
            return ranks;
        };
        let limit = seen.submit.spec.request.duration;
        let closed = limit.map(|limit| until.after(Span(limit)));
        let closed = self.unordered.queues.closed(from, closed);
        match closed.is_empty() {
            true => ranks,
            false => Some(
                ranks
                    .unwrap_or_else(|| self.ranks.clone())
                    .difference(&closed),
            ),
        }
    }

    /// Says why one waits, where that is news.
    fn say_why(&mut self, id: JobId, out: &mut Outbox) {
        let why = self.why_unordered(id);
        if self.unordered.said.get(&id) == why.as_ref() {
            return;
        }
        match &why {
            Some(why) => self.unordered.said.insert(id, why.clone()),
            None => self.unordered.said.remove(&id),
        };
        out.notice(Notice::Unmet(id, why));
    }

    fn why_unordered(&self, id: JobId) -> Option<Reason> {
        if self.unordered.ordered.contains(&id) {
            let waits = self.jobs.get(&id).is_some_and(Seen::is_queued);
            return waits.then_some(Reason::ParentOrders);
        }
        if !self.unordered.waiting.contains(&id) {
            return None;
        }
        let may = self.may_begin(id);
        // Why the first waits the planner says; the others wait for that one.
        if self.unordered.first.is_some() && may == MayBegin::Alone {
            return None;
        }
        let silent = self.silence.unordered(may);
        Some(silent.unwrap_or(Reason::ParentOrders))
    }

    /// The parent says where one begins.
    pub(super) fn place_unordered(
        &mut self,
        now: Time,
        (given, tail): (&Given, &Bytes),
        out: &mut Outbox,
    ) {
        let job = given.job;
        let Some(seen) = self.jobs.get(&job) else {
            return;
        };
        // One that has no place here yet, or is kept back, begins with that, or goes back in time.
        let waits = may_be_placed(seen.state);
        let is_it = is_as_taken(&seen.submit, given, tail)
            && waits
            && seen.submit.pass.as_ref().map(|pass| pass.attempt) == Some(given.pass.attempt);
        if is_it {
            self.passed.place(now, job, given.pass.clone(), seen);
            let is_there = self.passed.is_to_begin(job);
            if !(is_there && self.start_with(now, job, &mut JustTaken::default(), out)) {
                out.volatile(Volatile::Wake(now.after(BOUNCE_AFTER)));
            }
        }
    }
}

/// Whether one that this instance took can be told where it begins: it has not begun, and is not over.
pub(super) fn may_be_placed(state: JobState) -> bool {
    match state {
        JobState::New | JobState::Depend | JobState::Priority | JobState::Sched => true,
        JobState::Run | JobState::Cleanup | JobState::Inactive => false,
    }
}
