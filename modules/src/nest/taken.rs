//! What queue instances took, and perhaps began, while this one was away.
//!
//! It is handed up as submissions (`handed.rs`, `ingest/taking.rs`) and waits here as any other; what has
//! begun is said with what has become of it (`child.told`) and recorded by `begun.rs`. Until the instance has
//! said all (`child.settled`) nothing is planned for it and nothing is passed to it, so that nothing of
//! this instance's begins there before it is known what began without it.

use bytes::Bytes;
use eddy_broker::{Notice, Outbox, Request, TakenBy, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::Service;
use eddy_wire::services::child::{
    Counted, FromParent, PassState, QueueAbove, SettledRequest, TakenUp, ToldOf,
};
use eddy_wire::services::job::{JobSet, Raise, SubmitRequest, URGENCY_MAX};
use eddy_wire::time::{Span, Time};

use super::Nest;
use super::adopt::{grace_within, reserve};
use super::begun::Lost;
use super::blocks::Owner as Drawn;
use super::child::{Above, Child, Stated};
use super::pass::{forget, say};
use super::run::{Heard, as_here};
use crate::live::Change;
use crate::queues_above;

/// The attempt in which an instance takes a job itself.
const FIRST: Attempt = Attempt(1);
/// A leader of an earlier release never says that it has handed all up. One that has handed nothing up for
/// so long has nothing.
const SETTLES_IN: Span = Span::seconds(30);

impl Nest {
    /// The queues that lead to an instance, as it is told of them.
    fn queues_of(&self, name: &str) -> Vec<QueueAbove> {
        let queues = self.queues.iter();
        let queues = queues.filter(|queue| queue.instance.as_deref() == Some(name));
        let above = queues.map(|queue| QueueAbove {
            name: queue.name.clone(),
            rules: queue.rules.clone(),
            gate: self.gates.gate(&queue.name).cloned().unwrap_or_default(),
            default_time: self.default_time,
            counted: match self.limits.counts_in(&queue.name) {
                true => Counted::Above,
                false => Counted::Nowhere,
            },
        });
        above.collect()
    }

    /// After a record of the instance's own: what instances are told of queues, and of their nodes, may have
    /// changed. They are told with the first such record that is durable, before which nothing could leave: of many,
    /// as of a drain of many nodes, once.
    pub(super) fn queues_change(&mut self, record: &Record) {
        let is_of_queues = match &record.event.kind {
            Kind::Queue(_) | Kind::Account(_) => true,
            Kind::Memo(memo) => Change::told(memo).is_some() || queues_above::is_one(memo),
            Kind::Drain(..) | Kind::Undrain(..) | Kind::Reservation(_) => true,
            _ => false,
        };
        if is_of_queues {
            self.untold.get_or_insert(record.seq);
        }
    }

    /// A record is durable: tells instances what it and those after it have changed.
    pub(super) fn tell_queues(&mut self, now: Time, record: &Record, out: &mut Outbox) {
        if self.untold.take_if(|first| *first == record.seq).is_none() {
            return;
        }
        let all: Vec<JobId> = self.children.keys().copied().collect();
        for job in all {
            let child = self.children.get(&job);
            let is_news = child.is_some_and(|child| child.told.above != Some(self.above(child)));
            if is_news {
                self.tell_grant(now, job, out);
            }
        }
    }

    /// What a child is told beside its grant.
    pub(super) fn above(&self, child: &Child) -> Above {
        let Some(name) = child.declared.as_deref() else {
            let numbers = child.numbers();
            let mut closed = self.closed.out_of_service(&numbers);
            let own = child.beside_until().map(|(rank, until, limit)| {
                let reserve = reserve(grace_within(self.kill_grace), Some(limit));
                (rank, Time(until.0.saturating_sub(reserve.0)))
            });
            closed.extend(self.closed.going(&numbers, own));
            return Above {
                closed,
                ..Above::default()
            };
        };
        Above {
            access: self.sight.access().clone(),
            queues: self.queues_of(name),
            closed: self.closed.of(&child.numbers()),
        }
    }

    /// Has a submission taken that an instance took itself.
    pub(super) fn take_up(
        &mut self,
        now: Time,
        (child, name): (JobId, &str),
        (handed, submission, taken): (Box<Request>, &SubmitRequest, Box<TakenUp>),
        refused: Option<Refusal>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        self.may_be_taken(name, submission, &taken)?;
        self.child(child).told.settles = None;
        let by = TakenBy {
            instance: name.into(),
            awaited: self.unsettled(now, name),
            refused,
        };
        out.notice(Notice::TakenUp(handed, taken, by));
        Ok(())
    }

    /// The numbers of the other instances that may have begun jobs of which this one has not heard yet: those that
    /// are heard and have not settled, and while this leader is new all that it has not heard. What one took and
    /// has not begun it may still hand up later: to wait for that, too, could have two wait for each other. One that
    /// stays away is waited for no longer, since who hands up meanwhile is passed nothing.
    fn unsettled(&self, now: Time, but: &str) -> Vec<(JobId, JobId)> {
        let is_new = self.woke.is_some_and(|woke| now < woke.after(SETTLES_IN));
        let others = self.by_name.iter().filter(|(name, _)| *name != but);
        let awaited = others.filter(|(_, job)| {
            let child = self.children.get(job);
            child.is_some_and(|child| {
                let heard = child.told.channel.is_some();
                child.told.settled == Stated::NotYet && (heard || is_new)
            })
        });
        let ranges = awaited.flat_map(|(name, _)| self.blocks.ranges(name));
        ranges.copied().collect()
    }

    /// Whether what an instance says of a submission that it took can be.
    fn may_be_taken(
        &self,
        name: &str,
        submission: &SubmitRequest,
        taken: &TakenUp,
    ) -> Result<(), Refusal> {
        let first = taken.first;
        let count = submission.cc.as_ref().map_or(1, Idset::len);
        let last = JobId(first.0.saturating_add(count.saturating_sub(1)));
        if count == 0 || self.blocks.owner(first, last) != Drawn::Of(name) {
            let text = format!(
                "taken.first: {first} given for {count} jobs, which are not all among the numbers that \
                 `{name}` has drawn"
            );
            return Err(Refusal::invalid(text));
        }
        if let Some(given) = taken.begun.iter().find(|job| **job < first || last < **job) {
            let text = format!("taken.begun: {given} given, which is not of {first} to {last}");
            return Err(Refusal::invalid(text));
        }
        let urgencies = taken.urgencies.values().chain([&submission.urgency]);
        if let Some(given) = urgencies.into_iter().find(|one| **one > URGENCY_MAX) {
            let text = format!("taken.urgencies: {given} given, allowed are 0 to {URGENCY_MAX}");
            return Err(Refusal::invalid(text));
        }
        // An instance that was set up anew from a copy of its journal would give numbers again.
        let mut known = self.passes.jobs.range(first..=last);
        if let Some((job, _)) = known.find(|(_, run)| run.submit.key != submission.key) {
            let text = format!("taken.first: job {job} is of another submission");
            return Err(Refusal::new(Code::Conflict, text));
        }
        Ok(())
    }

    /// An instance has handed all up, and said what has begun of it.
    pub(super) fn settled(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: SettledRequest = request.parse()?;
        let child = self.speaker(request, body.child)?;
        let (job, channel) = (child.id(), child.told.channel);
        let is_news = self.children[&job].told.settled == Stated::NotYet;
        if channel.map(|channel| channel.client) == Some(request.caller.client) {
            if is_news {
                self.has_settled(now, job, out);
            }
            if body.open == 0 {
                self.lose_taken(now, job, Lost::Unknown, out);
            }
        }
        out.answer(request.caller, &());
        Ok(())
    }

    /// The channel of a child is new, and it has not said what it did before.
    pub(super) fn unsettle(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let told = &mut self.child(job).told;
        told.settled = Stated::NotYet;
        told.settles = Some(now.after(SETTLES_IN));
        self.begun.forget_of(job);
        out.volatile(Volatile::Wake(now.after(SETTLES_IN)));
    }

    /// Those that do not say that they have settled have.
    pub(super) fn settle_late(&mut self, now: Time, out: &mut Outbox) {
        let is_late = |child: &&Child| {
            let told = &child.told;
            told.settled == Stated::NotYet && told.settles.is_some_and(|at| at <= now)
        };
        let late = self.children.values().filter(is_late);
        let late: Vec<JobId> = late.map(Child::id).collect();
        for job in late {
            self.has_settled(now, job, out);
        }
    }

    /// Now it is known what began without this instance: that is recorded, and what it was to begin is
    /// passed again.
    fn has_settled(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let told = &mut self.child(job).told;
        (told.settled, told.settles) = (Stated::Yes, None);
        self.recall_in_the_way(now, job, out);
        self.record_begun(now, job, out);
        self.tell_serving(out);
        self.pass_again(now, job, out);
    }

    /// Whether what is said is of a job that its instance took itself and that has no grant here; then
    /// that is taken in.
    pub(super) fn told_of_taken(
        &mut self,
        now: Time,
        (child, name): (JobId, &str),
        told: &ToldOf,
        out: &mut Outbox,
    ) -> bool {
        let (job, attempt) = (told.job, told.attempt);
        let is_drawn = self.blocks.owner(job, job) == Drawn::Of(name);
        let Some(run) = self.passes.jobs.get_mut(&job) else {
            return false;
        };
        if !is_drawn || attempt != FIRST || run.attempt != FIRST {
            return false;
        }
        run.heard = match told.begun {
            Some(_) => Heard::Begun,
            None => Heard::Yes,
        };
        if told.begun.is_none() {
            run.waits(now, job, out);
        }
        if run.grant.is_some() {
            return false;
        }
        let is_over = matches!(run.state, JobState::Cleanup | JobState::Inactive);
        if let Some(begun) = told.begun.as_ref().filter(|_| !is_over) {
            self.begun.insert(child, (**begun).clone(), told.clone());
            self.record_begun(now, child, out);
            return true;
        }
        if let Some(exception) = run.end.clone() {
            let end = FromParent::End {
                job,
                attempt,
                exception,
            };
            self.say_to(child, &end, out);
        } else if let PassState::Over {
            exception: Some(exception),
            ..
        } = &told.state
        {
            let exception = Box::new(as_here(exception.clone()));
            out.append(now, job, Kind::Exception(exception));
        }
        true
    }

    /// After a record of a job: what it lets be recorded of those that were begun elsewhere, and what
    /// its instance is told of one that it took and that never had a grant.
    pub(super) fn taken_on(&mut self, now: Time, job: JobId, kind: &Kind, out: &mut Outbox) {
        match kind {
            Kind::Exception(exception) if exception.severity == 0 => {
                let run = self.passes.jobs.get(&job);
                if run.is_some_and(|run| run.to.is_none())
                    && let Some(child) = self.taker(job)
                {
                    let end = FromParent::End {
                        job,
                        attempt: FIRST,
                        exception: (**exception).clone(),
                    };
                    self.say_to(child, &end, out);
                }
            }
            Kind::Clean => {
                if let Some(child) = self.taker(job).and_then(|id| self.children.get(&id)) {
                    forget(child, (job, FIRST), out);
                }
                self.begun.remove(job);
                self.record_all_begun(now, out);
            }
            Kind::Requeue(_) => {
                self.begun.remove(job);
                self.record_all_begun(now, out);
            }
            Kind::Submit(_) | Kind::Depend | Kind::Priority(_) => self.record_all_begun(now, out),
            kind if kind.frees() => self.record_all_begun(now, out),
            Kind::Alloc(_) => {
                if let Some((child, told)) = self.begun.remove(job) {
                    self.record_told(now, child, told, out);
                    self.record_all_begun(now, out);
                }
            }
            _ => {}
        }
    }

    /// Why a request is refused that would end jobs of which their instance may have begun one: what it used
    /// would be charged to nobody.
    pub(super) fn may_have_begun(&self, request: &Request, jobs: &JobSet) -> Option<Refusal> {
        if request.topic != Raise::TOPIC || self.by_name.is_empty() {
            return None;
        }
        let ranges = jobs.ranges.iter();
        let mut named = ranges.flat_map(|(first, last)| self.passes.jobs.range(*first..=*last));
        let (job, child) = named.find_map(|(job, _)| Some((job, self.unsure_of(*job)?)))?;
        let text = format!(
            "{} took job {job}, may have begun it, and has not said so yet",
            child.title()
        );
        Some(Refusal::new(Code::Unreachable, text))
    }

    /// The instance that took a job, holds its nodes, and may have begun it without having said so.
    pub(super) fn unsure_of(&self, job: JobId) -> Option<&Child> {
        let run = self.passes.jobs.get(&job)?;
        let child = self.children.get(&self.taker(job)?)?;
        (run.is_unsaid() && child.job.grant().is_some()).then_some(child)
    }

    /// The instance that drew this number, if it is there.
    fn taker(&self, job: JobId) -> Option<JobId> {
        match self.blocks.owner(job, job) {
            Drawn::Of(name) => self.by_name.get(name).copied(),
            Drawn::Here | Drawn::Several => None,
        }
    }

    fn say_to(&self, child: JobId, word: &FromParent, out: &mut Outbox) {
        let child = self.children.get(&child);
        if let Some(channel) = child.and_then(|child| child.told.channel) {
            say(channel, word, Bytes::new(), out);
        }
    }
}
