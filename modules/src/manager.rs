//! Step 3 of a job's path: folds each job's records and gives it what it is
//! owed next.
//!
//! What is owed is computed by [`owed`] after every record of a job and for
//! every job after a restart, never remembered. The manager places nothing
//! (sched does) and starts nothing (exec does).

mod above;
mod change;
mod gate;
mod hook;
mod later;
mod lost;
mod order;
mod owed;
mod pace;
mod update;
mod waits;

use std::sync::Arc;

use eddy_broker::{Effect, Endpoint, Exit, Finished, Input, Module, Notice, Outbox};
use eddy_wire::account::NOBODY;
use eddy_wire::event::{Entry, Event, Exception, Final, Kind, Record};
use eddy_wire::grant::Grant;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::job::Job;
use eddy_wire::lifecycle::JobState;
use eddy_wire::preempt::{Mode, Preemption};
use eddy_wire::services::{job, sched};
use eddy_wire::time::Time;
use eddy_wire::update::Change;

use crate::jobs::Jobs;
use crate::row::row;
use crate::settings::Settings;
use crate::sight::Sight;
use above::Above;
use gate::{As, Gate};
pub use hook::{ByUrgency, Hook};
use later::Later;
use owed::runs_again;
pub use owed::{Action, owed};
use waits::Waits;

/// The jobs of the instance that are not done with.
pub struct Manager {
    jobs: Jobs<Job>,
    /// What those in DEPEND wait for.
    waits: Waits,
    attempts_max: u32,
    hook: Box<dyn Hook + Send>,
    gate: Gate,
    sight: Sight,
    course: Course,
    rest: Rest,
    above: Above,
    /// Changes of many jobs that are under way.
    later: Later,
}

/// What becomes of jobs that wait when the instance ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// They stay: a root and a queue instance come back.
    Kept,
    /// They end: nobody leads a user's instance again when its job is over.
    Canceled,
}

/// When it is asked whether a job that begins to wait has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    AtOnce,
    /// As one of those who are kept back, once its turn comes: others came before it to be kept so.
    InTurn,
}

/// Whether the instance goes on or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Serving,
    Stopping,
    Stopped,
}

impl Module for Manager {
    fn name(&self) -> &'static str {
        "manager"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[
            Endpoint::of::<job::Raise>(),
            Endpoint::of::<job::WouldRaise>(),
            Endpoint::of::<job::Urgency>(),
            Endpoint::of::<job::Release>(),
            Endpoint::of::<job::RequeueJob>(),
            Endpoint::of::<job::Suspend>(),
            Endpoint::of::<job::Resume>(),
            Endpoint::of::<job::Order>(),
            Endpoint::of::<job::Update>(),
            Endpoint::of::<sched::Bounds>(),
        ];
        ENDPOINTS
    }

    /// A job is moved on by the record of another, too: when that one ends, or gives something of
    /// a limit back. One that is cancelled in the same turn is not.
    fn stands(&self, event: &Event) -> bool {
        match (&event.kind, event.job) {
            // One that has begun meanwhile is what it began as.
            (Kind::JobspecUpdate(map), Some(id)) => {
                let job = self.jobs.get(&id);
                let may = |job: &Job| job.state != JobState::Run || Change::of(map).may_run();
                job.is_some_and(|job| job.state.next(&event.kind).is_ok() && may(job))
            }
            (kind @ (Kind::Priority(_) | Kind::DependencyRemove(_) | Kind::Depend), Some(id)) => {
                let job = self.jobs.get(&id);
                job.is_some_and(|job| job.state.next(kind).is_ok())
            }
            // What it would be given is given to others when its end is recorded, a few turns from now.
            (Kind::Alloc(_), Some(id)) => !self.later.ends(id),
            // A remark that came meanwhile had it proposed, too.
            (Kind::Free, Some(id)) => self.owes(id, &Action::Free),
            (Kind::Clean, Some(id)) => self.owes(id, &Action::Clean),
            (Kind::Requeue(attempt), Some(id)) => self.owes(id, &Action::Requeue(*attempt)),
            (Kind::Preempted(preemption), Some(id)) => {
                let job = self.jobs.get(&id);
                job.is_some_and(|job| may_give(job, preemption.mode))
            }
            (Kind::Shrink(shrink), Some(id)) => {
                let job = self.jobs.get(&id);
                job.is_some_and(|job| may_give_nodes(job, &shrink.ranks))
            }
            (Kind::Suspend(_) | Kind::Resume(_), Some(id)) => {
                let job = self.jobs.get(&id);
                job.is_some_and(|job| job.state == JobState::Run)
            }
            // Two modules may end one at the same time, each with its reason. What holds nothing is
            // over with the first.
            (Kind::Exception(exception), Some(id)) if exception.severity == 0 => {
                let is_left = |job: &Job| match job.state {
                    JobState::Cleanup => job.grant().is_some(),
                    JobState::Inactive => false,
                    _ => true,
                };
                self.jobs.get(&id).is_some_and(is_left)
            }
            _ => true,
        }
    }

    /// Most jobs wait for nothing and are over with what they held: what they are owed is no record of its own.
    fn completes(&self, event: &mut Event) {
        // What is heard of late is recorded as of when it was, and what follows as of now.
        if event.t < self.gate.latest() {
            return;
        }
        match (&mut event.kind, event.job) {
            (Kind::Submit(submit), Some(_)) => {
                if submit.entry == Entry::Priority && !self.gate.asks_about(submit) {
                    let place = self.hook.priority(submit, submit.urgency);
                    Arc::make_mut(submit).entry = Entry::Queued(place);
                }
            }
            (Kind::Release(_, last), Some(id)) => {
                let ends = |job: &&Job| !runs_again(job, self.attempts_max);
                if let (Final::Free(status), Some(_)) = (*last, self.jobs.get(&id).filter(ends)) {
                    *last = Final::Over(status);
                }
            }
            _ => {}
        }
    }

    fn apply(&mut self, record: &Record) {
        self.gate.apply(record);
        self.sight.apply(record);
        self.above.apply(record, &self.jobs);
        self.later.apply(record);
        let Some(id) = record.event.job else { return };
        if let Some(job) = Job::from_record(record) {
            self.jobs.insert(id, job);
            return;
        }
        let Some(job) = self.jobs.get_mut(&id) else {
            panic!(
                "record {} `{}` is of job {id}, which is not known",
                record.seq,
                record.event.kind.name()
            )
        };
        if let Err(illegal) = job.apply(record) {
            panic!("record {} of job {id}: {illegal}", record.seq);
        }
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.change(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Parent(word) => self.above.parent(word),
            Input::Applied(record) => {
                if let Some(id) = record.event.job {
                    self.applied(now, id, &record.event.kind, out);
                }
                self.let_through(now, record, out);
            }
            Input::Resume(_) => {
                // Replay keeps those that were over, since their rows are written already.
                self.jobs.retain(|_, job| !job.is_done());
                let attempts_max = self.attempts_max;
                let waits = |job: &&Job| owed(job, attempts_max) == Action::Priority;
                let waiting = self.jobs.values().filter(waits);
                let waiting = waiting.map(|job| (job.id, job.urgency));
                let is_asked =
                    |(id, _): &(JobId, u8)| !self.gate.bars(*id) && !self.is_of_waiting(*id);
                let mut waiting: Vec<(JobId, u8)> = waiting.filter(is_asked).collect();
                let (jobs, gate) = (&self.jobs, &mut self.gate);
                waiting.retain(|(id, urgency)| {
                    let is_here = jobs.get(id).is_some_and(is_ordered_here);
                    *urgency == 0 || !is_here || !gate.shuts(now, *id, out)
                });
                self.gate.keep_all(waiting.into_iter());
                self.withdraw_grounds(now, out);
                for job in self.jobs.values().filter(|job| !waits(job)) {
                    give(now, job, self.attempts_max, out);
                }
                self.waits.resume(now, &self.jobs, out);
                self.later.resume(now, out);
                // Who is about to wait again may be first of them.
                if !self.jobs.values().any(|job| self.runs_again(job)) {
                    self.let_next(now, None, out);
                }
            }
            Input::Durable(record) => {
                if let (Kind::Clean, Some(id)) = (&record.event.kind, record.event.job) {
                    self.waits.durable(id);
                }
            }
            Input::Notice(Notice::Limited(began, changed)) => {
                self.later.done(now, *began, changed, out);
            }
            Input::Notice(Notice::Inside(inner, heard)) => {
                self.waits.heard(now, &self.jobs, (*inner, *heard), out);
            }
            Input::Answer(tag, answer) => self.waits.answered(now, &self.jobs, tag, answer, out),
            Input::Tick => {
                self.waits.tick(now, &self.jobs, out);
                self.gate.tick(now);
                self.place_barred(now, out);
                self.withdraw_grounds(now, out);
                self.let_next(now, None, out);
                self.change_on(now, out);
            }
            Input::Stop => self.stop(now, out),
            _ => {}
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        for job in self.jobs.values().filter(|job| !job.is_done()) {
            seqs.extend_from_slice(&job.seqs);
        }
        self.later.live(seqs);
    }
}

impl Manager {
    /// A manager of no jobs.
    pub fn new(settings: &Settings) -> Manager {
        Manager {
            jobs: Jobs::default(),
            waits: Waits::default(),
            attempts_max: settings.attempts_max,
            hook: Box::new(ByUrgency),
            gate: Gate::new(settings),
            sight: Sight::new(settings),
            course: Course::Serving,
            rest: match (&settings.place.child, &settings.place.name) {
                (Some(_), None) => Rest::Canceled,
                (Some(_), Some(_)) | (None, _) => Rest::Kept,
            },
            above: Above::default(),
            later: Later::default(),
        }
    }

    /// Whether that is what a job is owed by now.
    fn owes(&self, id: JobId, action: &Action) -> bool {
        let job = self.jobs.get(&id);
        job.is_some_and(|job| owed(job, self.attempts_max) == *action)
    }

    /// A record of this job was folded: what it is owed now.
    fn applied(&mut self, now: Time, id: JobId, kind: &Kind, out: &mut Outbox) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        if matches!(kind, Kind::Clean) {
            out.finished(Finished {
                row: row(job, String::new()),
                seqs: job.seqs.clone(),
            });
        }
        self.waits.applied(now, &self.jobs, job, kind, out);
        match kind {
            Kind::Requeue(_) => self.withdraw_grounds(now, out),
            Kind::Start => self.place_grounds(now, id, out),
            _ => {}
        }
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        if job.is_done() {
            self.jobs.remove(&id);
        } else if kind.implied().is_some() {
            // What it is owed is folded next.
        } else if owed(job, self.attempts_max) == Action::Priority {
            let ask = match kind {
                Kind::Requeue(_) => Ask::InTurn,
                _ => Ask::AtOnce,
            };
            self.place(now, id, ask, out);
        } else {
            give(now, job, self.attempts_max, out);
        }
        if self.course == Course::Stopping && matches!(kind, Kind::Clean | Kind::Priority(_)) {
            // One that was to have another attempt waits again.
            let waits = self.jobs.get(&id).filter(|job| self.ends(job));
            waits.into_iter().for_each(|job| cancel(now, job, out));
            self.stop_when_idle(now, out);
        }
    }

    /// Gives a job its place in the queue, unless a limit keeps it back.
    fn place(&mut self, now: Time, id: JobId, ask: Ask, out: &mut Outbox) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        if owed(job, self.attempts_max) != Action::Priority {
            return;
        }
        // It is asked about again when limits change.
        if (self.gate.bars(id) || self.is_of_waiting(id)) && job.urgency > 0 {
            return;
        }
        if job.urgency > 0 && is_ordered_here(job) && self.gate.shuts(now, id, out) {
            return;
        }
        let place = self.hook.priority(&job.submit, job.urgency);
        // Who is held by his user asks for nothing.
        let goes = match (place, ask) {
            (..=0, _) => Some(As::ItIs),
            (_, Ask::InTurn) => self.gate.lines_up(now, id, job.urgency, out),
            (_, Ask::AtOnce) => self.gate.admits(now, id, job.urgency, out),
        };
        if let Some(goes) = goes {
            out.append(now, id, goes.record(place));
        }
    }

    /// Those of gangs have their place whom no limit keeps back any more that had come since, and those who may
    /// begin again: each in its turn among all who are kept back.
    fn place_barred(&mut self, now: Time, out: &mut Outbox) {
        for id in self.gate.barred_before() {
            let waits = |job: &Job| job.state == JobState::Priority;
            if self.jobs.get(&id).is_some_and(waits) && !self.gate.is_kept(id) {
                self.place(now, id, Ask::InTurn, out);
            }
        }
    }

    /// Whether it is what an instance is to grow by that waits: it has no place until that does, which would
    /// keep the instance itself back where both count for a limit.
    fn is_of_waiting(&self, id: JobId) -> bool {
        let of = |job: &Job| job.submit.spec.request.grows();
        let of = self.jobs.get(&id).and_then(of);
        let of = of.and_then(|of| self.jobs.get(&of));
        of.is_some_and(|of| of.state.is_pending()) && self.gate.counts(id)
    }

    /// What instances are to grow by that wait to run again gives its place back.
    fn withdraw_grounds(&mut self, now: Time, out: &mut Outbox) {
        for id in self.gate.grounds() {
            if !self.is_of_waiting(id) {
                continue;
            }
            self.gate.forget(id);
            let has_place = |job: &&Job| job.state == JobState::Sched && job.urgency > 0;
            if let Some(job) = self.jobs.get(&id).filter(has_place) {
                out.append(now, id, Kind::Urgency(job.urgency, NOBODY));
            }
        }
    }

    /// An instance runs: what it is to grow by is asked about.
    fn place_grounds(&mut self, now: Time, instance: JobId, out: &mut Outbox) {
        let of = |id: &JobId| self.jobs.get(id)?.submit.spec.request.grows();
        let mut its = self.gate.grounds();
        its.retain(|id| of(id) == Some(instance));
        for id in its {
            let waits = |job: &Job| job.state == JobState::Priority;
            if self.jobs.get(&id).is_some_and(waits) && !self.gate.is_kept(id) {
                self.place(now, id, Ask::AtOnce, out);
            }
        }
    }

    /// Whether another attempt of it is owed.
    fn runs_again(&self, job: &Job) -> bool {
        matches!(owed(job, self.attempts_max), Action::Requeue(_))
    }

    /// After a record that may have given something of a limit back.
    fn let_through(&mut self, now: Time, record: &Record, out: &mut Outbox) {
        match (&record.event.kind, record.event.job) {
            // It waits for the same again: its own record brings the next.
            (Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)), Some(id))
                if self.jobs.get(&id).is_some_and(|job| self.runs_again(job)) => {}
            (Kind::Account(_) | Kind::Memo(_) | Kind::Queue(_) | Kind::Reservation(_), None) => {
                self.gate.changed(now, out)
            }
            (
                Kind::Free
                | Kind::Release(_, Final::Free(_) | Final::Over(_))
                | Kind::GrantChanged(_)
                | Kind::Clean
                | Kind::Priority(_)
                | Kind::Requeue(_)
                | Kind::JobspecUpdate(_)
                | Kind::Urgency(..)
                | Kind::Exception(_),
                Some(id),
            ) => self.let_next(now, Some(id), out),
            _ => {}
        }
    }

    /// Lets one more through, if there is one: its own record brings the next.
    fn let_next(&mut self, now: Time, after: Option<JobId>, out: &mut Outbox) {
        while let Some((id, goes)) = self.gate.next(now, after, out) {
            if let Some(job) = self
                .jobs
                .get(&id)
                .filter(|job| job.state == JobState::Priority)
            {
                self.gate.propose(id);
                let place = self.hook.priority(&job.submit, job.urgency);
                return out.append(now, id, goes.record(place));
            }
        }
    }

    /// Ends what runs; what waits stays for the next start, if there may be one.
    fn stop(&mut self, now: Time, out: &mut Outbox) {
        self.course = Course::Stopping;
        let ending = self.jobs.values().filter(|job| self.ends(job));
        ending.for_each(|job| cancel(now, job, out));
        self.stop_when_idle(now, out);
    }

    /// Whether the end of the instance ends this job, too.
    fn ends(&self, job: &Job) -> bool {
        match job.state {
            JobState::Run => true,
            JobState::Depend | JobState::Priority | JobState::Sched => self.rest == Rest::Canceled,
            JobState::New | JobState::Cleanup | JobState::Inactive => false,
        }
    }

    fn stop_when_idle(&mut self, now: Time, out: &mut Outbox) {
        let is_left = |job: &Job| match self.rest {
            Rest::Kept => job.grant().is_some() || job.state == JobState::Cleanup,
            Rest::Canceled => job.state != JobState::Inactive,
        };
        if !self.jobs.values().any(is_left) {
            self.course = Course::Stopped;
            out.append_own(now, Kind::LeaderStop);
            out.effect(Effect::Exit(Exit::Stopped));
        }
    }
}

/// Whether this instance says when a job begins.
fn is_ordered_here(job: &Job) -> bool {
    job.submit.pass.is_none() && job.submit.taken_in.is_none()
}

/// Gives a job what it is owed but its place in the queue.
fn give(now: Time, job: &Job, attempts_max: u32, out: &mut Outbox) {
    let kind = match owed(job, attempts_max) {
        Action::Nothing | Action::Priority => return,
        Action::Need(need) => Kind::DependencyAdd(need.description()),
        Action::Validate => Kind::Validate,
        Action::Depend => Kind::Depend,
        Action::Free => Kind::Free,
        Action::End => match job.preemption().and_then(preempted) {
            Some(exception) => exception,
            None => return,
        },
        Action::GiveUp => lost::given_up(&job.submit),
        Action::Suspend => Kind::Suspend(None),
        Action::Resume => Kind::Resume(None),
        Action::Requeue(attempt) => Kind::Requeue(attempt),
        Action::Clean => Kind::Clean,
    };
    out.append(now, job.id, kind);
}

/// Ends a job for the sake of another.
fn preempted(preemption: &Preemption) -> Option<Kind> {
    let kind = match preemption.mode {
        Mode::Requeue => "requeue",
        Mode::Cancel => "cancel",
        Mode::Suspend => return None,
    };
    Some(Kind::Exception(Box::new(Exception {
        kind: kind.to_owned(),
        severity: 0,
        note: preemption.note(),
        userid: None,
        until: None,
    })))
}

/// Whether another may still take from a job what was decided: cores only while it has them.
fn may_give(job: &Job, mode: Mode) -> bool {
    let has_cores = match mode {
        Mode::Requeue | Mode::Cancel => true,
        Mode::Suspend => !job.suspension.standing().is_without_cores(),
    };
    job.state == JobState::Run && job.preemption().is_none() && has_cores
}

/// Whether one that goes on has those nodes to give.
fn may_give_nodes(job: &Job, ranks: &Idset) -> bool {
    let has = |grant: &Grant| grant.set.ranks().contains_all(ranks);
    job.state == JobState::Run && job.end.is_none() && job.grant().is_some_and(has)
}

/// What is noted of a job that ends because its instance does.
pub(crate) const SHUTDOWN: &str = "the instance is shutting down";

/// Ends a job because its instance ends.
fn cancel(now: Time, job: &Job, out: &mut Outbox) {
    let exception = Exception {
        kind: "cancel".to_owned(),
        severity: 0,
        note: SHUTDOWN.to_owned(),
        userid: None,
        until: None,
    };
    out.append(now, job.id, Kind::Exception(Box::new(exception)));
}
