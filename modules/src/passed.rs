//! The child's side of jobs that a parent passes down: takes them, says what they come to.
//!
//! A job that comes over the channel is recorded under the number that it has in the parent and
//! goes the path of every job but for its place: where it runs the parent has said. What is
//! recorded of it is told once that is durable, and all of it again whenever the channel stands
//! anew; its end is kept until the parent has recorded that (`waited`). The parent's side is
//! `nest/pass.rs`. What this instance took itself while its parent was away is handed up first
//! (`passed/taken.rs`); from there on it is as what was passed.

mod above;
mod pace;
mod payload;
mod refer;
pub(crate) mod taken;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use eddy_broker::{Effect, Input, Module, Outbox, ParentWord, Reacts, Request, ToParent};
use eddy_wire::event::{
    Adoption, Entry, Exception, Final, Kind, Pass, Record, Requeue, Submit, Waitable,
};
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::preempt::{Preemption, Shrink};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{PASS_LARGE, PassState, Passed as Given, ToldOf};
use eddy_wire::shrinking::Shrinking;
use eddy_wire::spec::Spec;
use eddy_wire::suspension::Suspension;
use eddy_wire::time::{Span, Time};
use eddy_wire::update;

use crate::queues_above::QueuesAbove;
use crate::settings::Settings;
use above::Whose;
use payload::{Asked, Heard};
use refer::Referred;
use taken::{Hand, Own, is_ordered_above};

/// Jobs that were passed to this instance and of whose end the parent may not know.
pub struct Passed {
    jobs: BTreeMap<JobId, Held>,
    heard: Heard,
    channel: Channel,
    /// When what the parent could not take is handed up again.
    retry: Option<Time>,
    /// How often that was so over this channel.
    tries: u32,
    /// Submissions that are handed up only when the parent has taken a job before, by that job.
    late: BTreeMap<JobId, BTreeSet<JobId>>,
    hand: Hand,
    referred: Referred,
    /// The parent's queues that lead here.
    queues: QueuesAbove,
    /// What this instance has.
    inventory: Arc<ResourceSet>,
    /// It is an instance to which jobs can be passed.
    declared: Option<String>,
}

/// Whether the parent is heard, and so has been told all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Channel {
    #[default]
    Away,
    Stands,
}

/// One of them.
struct Held {
    attempt: Attempt,
    began: Option<Time>,
    ended: Option<Time>,
    status: Option<i32>,
    exception: Option<Exception>,
    /// Whether it has its cores.
    suspension: Suspension,
    /// The nodes that it is to give while it goes on.
    shrinking: Shrinking,
    /// Where the parent gave it something, as it was passed.
    given: Idset,
    /// Where it has something.
    has: Idset,
    work: Work,
    /// How long its tasks may run.
    limit: Option<Span>,
    /// Which time it is that the parent has it stopped, as it said over this channel.
    stop: Option<u32>,
    life: Life,
    /// What this instance took itself.
    own: Option<Own>,
    /// Who it is, where it is an instance that has said hello.
    adopted: Option<Box<Adoption>>,
    /// Its next attempt, which came before this one was forgotten.
    next: Option<(Box<Given>, Asked)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Goes,
    Over,
}

impl Module for Passed {
    fn name(&self) -> &'static str {
        "passed"
    }

    fn claims(&self, request: &Request) -> bool {
        self.whose(request) != Whose::Own
    }

    fn apply(&mut self, record: &Record) {
        self.queues.apply(record);
        if let Kind::ResourceDefine(set, _) = &record.event.kind {
            self.inventory = Arc::clone(set);
        }
        let Some(id) = record.event.job else { return };
        if let Kind::Submit(submit) = &record.event.kind {
            if let Some(pass) = &submit.pass {
                let mut held = Held::new(pass, &submit.spec);
                held.own = Own::of(record.event.t, submit);
                self.jobs.insert(id, held);
            }
            // Where no job comes from a parent there is none that does not.
            if self.declared.is_some() {
                self.referred.submitted(id, submit);
            }
            return;
        }
        if let Kind::Clean = record.event.kind {
            self.referred.over(id);
        }
        let Some(held) = self.jobs.get_mut(&id) else {
            return;
        };
        held.suspension.apply(record.event.t, &record.event.kind);
        held.shrinking.apply(&record.event.kind);
        match &record.event.kind {
            Kind::Start => held.began = Some(record.event.t),
            Kind::Adopt(adoption) => held.adopted = Some(adoption.clone()),
            Kind::GrantChanged(grant) => held.has = grant.set.ranks(),
            Kind::JobspecUpdate(map) => held.limit = update::duration(map).or(held.limit),
            Kind::Release(_, last @ (Final::Yes | Final::Free(_) | Final::Over(_))) => {
                held.ended = Some(record.event.t);
                if let Final::Free(Some(status)) | Final::Over(Some(status)) = last {
                    held.status = Some(*status);
                }
            }
            Kind::Finish(status) => held.status = Some(*status),
            Kind::Exception(exception) if exception.severity == 0 => {
                held.exception.get_or_insert_with(|| (**exception).clone());
            }
            Kind::Clean => {
                held.life = Life::Over;
                // What never had anything gives nothing back: it holds something above until then.
                held.ended.get_or_insert(record.event.t);
            }
            kind @ (Kind::Alloc(_) | Kind::Urgency(..) | Kind::Memo(_)) => {
                if let Kind::Alloc(grant) = kind {
                    held.has = grant.set.ranks();
                    // What this instance took itself was given nothing until now.
                    held.given = held.given.union(&held.has);
                }
                if let Some(own) = &mut held.own {
                    own.apply(record.event.t, kind);
                }
            }
            Kind::Waited => {
                // What is to follow is kept for those who are told of this record.
                if held.next.is_none() {
                    self.jobs.remove(&id);
                }
            }
            _ => {}
        }
    }

    /// Jobs are passed to those alone that were declared: in all others no record is of any.
    fn reacts(&self) -> Reacts {
        match self.declared {
            Some(_) => Reacts::ToBoth,
            None => Reacts::ToNeither,
        }
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => self.refer(request, out),
            Input::Cancel(caller) => self.take_back(|of| of == caller, out),
            Input::Gone(client) => self.take_back(|of| of.client == client, out),
            Input::Parent(ParentWord::Answered(reply)) => self.referred(reply, out),
            Input::Parent(ParentWord::Pass(given, tail)) => self.given(now, given, tail, out),
            Input::Parent(ParentWord::Preempted(job, attempt, left, preemption)) => {
                self.preempted(now, (*job, *attempt), (*left, preemption), out);
            }
            Input::Parent(ParentWord::Shrink(job, attempt, left, shrink)) => {
                if let Some(held) = self.jobs.get(job).filter(|held| held.attempt == *attempt)
                    && let Some(shrink) = held.gives(now.after(*left), shrink)
                {
                    out.append(now, *job, Kind::Shrink(Box::new(shrink)));
                }
            }
            Input::Parent(ParentWord::End(job, attempt, exception)) => {
                self.end(now, (*job, *attempt), exception, out);
            }
            Input::Parent(ParentWord::Pause(job, attempt, stop, userid)) => {
                self.pause(now, (*job, *attempt), (*stop, *userid), out);
            }
            Input::Parent(ParentWord::Proceed(job, attempt, _)) => {
                self.proceed(now, *job, *attempt, out);
            }
            Input::Parent(ParentWord::Limit(job, attempt, limit)) => {
                self.limit(now, (*job, *attempt), *limit, out);
            }
            Input::Parent(ParentWord::Forget(job, attempt)) => {
                self.forget(now, *job, *attempt, out);
            }
            // What was told over another channel may be lost. Over the same one a grant comes
            // whenever it has changed.
            Input::Parent(ParentWord::Granted(_)) => {
                if std::mem::replace(&mut self.channel, Channel::Stands) == Channel::Away {
                    for (job, held) in &self.jobs {
                        tell(*job, held, out);
                        held.tell_returned(*job, out);
                    }
                    self.settle(out);
                }
            }
            Input::Parent(ParentWord::TakenUp(first, outcome)) => {
                self.taken_up(now, *first, outcome, out);
            }
            Input::Parent(ParentWord::Away) => {
                self.channel = Channel::Away;
                self.heard.forget();
                self.lose_referred(out);
                (self.retry, self.tries) = (None, 0);
                self.late.clear();
                self.hand = Hand::default();
                for held in self.jobs.values_mut() {
                    held.stop = None;
                    held.own.iter_mut().for_each(Own::ask_again);
                }
            }
            Input::Applied(record) => self.applied(now, record, out),
            Input::Durable(record) => self.is_durable(record),
            Input::Tick => self.try_again(now, out),
            _ => {}
        }
    }
}

impl Held {
    fn new(pass: &Pass, spec: &Spec) -> Held {
        Held {
            attempt: pass.attempt,
            given: pass.set.ranks(),
            has: Idset::new(),
            work: spec.request.work.clone(),
            limit: spec.request.duration.map(Span),
            began: None,
            ended: None,
            status: None,
            exception: None,
            suspension: Suspension::default(),
            shrinking: Shrinking::default(),
            stop: None,
            life: Life::Goes,
            own: None,
            adopted: None,
            next: None,
        }
    }

    /// Says which nodes it has returned while it goes on, if it is an instance and has.
    fn tell_returned(&self, job: JobId, out: &mut Outbox) {
        let is_instance = self.work != Work::Tasks && self.is_known();
        let goes_on = self.life == Life::Goes && self.began.is_some();
        let ranks = self.given.difference(&self.has);
        if is_instance && goes_on && !ranks.is_empty() {
            let told = ToldOf {
                job,
                attempt: self.attempt,
                state: PassState::Returned { ranks },
                began: self.began,
                ended: None,
                begun: None,
                adopted: None,
            };
            say(told, out);
        }
    }

    /// What it is to give, by this instance's clock, of the nodes that it has and is not to give yet.
    fn gives(&self, until: Time, shrink: &Shrink) -> Option<Shrink> {
        let stays = self.has.difference(&self.shrinking.ranks());
        let ranks = shrink.ranks.intersect(&stays);
        let goes_on = self.exception.is_none() && !ranks.is_empty();
        goes_on.then(|| Shrink {
            ranks,
            until,
            ..shrink.clone()
        })
    }

    /// Whether the parent knows it.
    fn is_known(&self) -> bool {
        self.own.as_ref().is_none_or(Own::is_known)
    }

    fn state(&self) -> PassState {
        match self.life {
            Life::Over => PassState::Over {
                began: self.began.is_some(),
                status: self.status,
                exception: self.exception.clone(),
            },
            Life::Goes if self.began.is_some() => PassState::Running,
            Life::Goes => PassState::Accepted,
        }
    }
}

impl Passed {
    /// No jobs yet.
    pub fn new(settings: &Settings) -> Passed {
        Passed {
            jobs: BTreeMap::new(),
            heard: Heard::new(settings.keeps),
            channel: Channel::Away,
            retry: None,
            tries: 0,
            late: BTreeMap::new(),
            hand: Hand::default(),
            referred: Referred::default(),
            queues: QueuesAbove::default(),
            inventory: Arc::clone(&settings.inventory),
            declared: settings.place.name.clone(),
        }
    }

    fn applied(&mut self, now: Time, record: &Record, out: &mut Outbox) {
        self.comes(record);
        let Some(id) = record.event.job else { return };
        let Some(held) = self.jobs.get_mut(&id) else {
            return self.hand_up_after(id, out);
        };
        match &record.event.kind {
            Kind::Submit(_) if !held.is_known() && self.channel == Channel::Stands => {
                self.hand_up_last(id, out);
            }
            Kind::Clean if held.next.is_some() => out.append(now, id, Kind::Waited),
            Kind::Memo(memo) if is_ordered_above(memo) => self.is_ordered(id, out),
            Kind::Start | Kind::Adopt(_) | Kind::Clean => tell(id, held, out),
            Kind::Suspend(_) => held.tell_stopped(id, out),
            Kind::GrantChanged(_) => {
                held.tell_stopped(id, out);
                held.tell_returned(id, out);
            }
            Kind::Waited => {
                if let Some((given, spec)) = held.next.take() {
                    self.jobs.remove(&id);
                    take(now, &given, spec, out);
                }
            }
            _ => {}
        }
    }

    /// A job came, perhaps not for the first time.
    fn given(&mut self, now: Time, given: &Given, tail: &Bytes, out: &mut Outbox) {
        let (job, attempt) = (given.job, given.pass.attempt);
        let spec = self.heard.spec(given, tail);
        // One of which nothing can be made is answered by that.
        let is_large = tail.len() as u64 >= PASS_LARGE && spec.is_ok();
        match self.jobs.get_mut(&job) {
            Some(held) if attempt < held.attempt => {}
            Some(held) if attempt == held.attempt => {
                if !held.is_placed(now, given, tail, out) || is_large {
                    tell(job, held, out);
                }
                return;
            }
            Some(held) => {
                // The parent has given the earlier attempt up, or it would not pass another.
                held.next = Some((Box::new(given.clone()), spec));
                match held.life {
                    Life::Over => out.append(now, job, Kind::Waited),
                    // It is said again until this attempt is there.
                    Life::Goes if held.exception.is_some() => {}
                    Life::Goes => out.append(now, job, superseded(attempt)),
                }
            }
            None => take(now, given, spec, out),
        }
        if is_large {
            say(ToldOf::accepted(job, attempt), out);
        }
    }

    /// A job is to end for the sake of another.
    fn preempted(
        &self,
        now: Time,
        (job, attempt): (JobId, Attempt),
        (left, preemption): (Span, &Preemption),
        out: &mut Outbox,
    ) {
        let is_it = |held: &&Held| held.attempt == attempt && held.exception.is_none();
        if self.jobs.get(&job).filter(is_it).is_some() {
            // By this instance's clock; what is said again comes too late for the manager.
            let preemption = Preemption {
                until: now.after(left),
                ..preemption.clone()
            };
            out.append(now, job, Kind::Preempted(Box::new(preemption)));
        }
    }

    /// Its tasks may run for so long. Said again over each channel.
    fn limit(
        &mut self,
        now: Time,
        (job, attempt): (JobId, Attempt),
        limit: Span,
        out: &mut Outbox,
    ) {
        let held = self.going(job, attempt);
        if held.is_some_and(|held| held.limit != Some(limit)) {
            out.append(now, job, update::to_duration(limit, None, None));
        }
    }

    /// A job is to end; one that never came never will.
    fn end(
        &mut self,
        now: Time,
        (job, attempt): (JobId, Attempt),
        exception: &Exception,
        out: &mut Outbox,
    ) {
        if self.comes_never(job, attempt) {
            return refuse(job, attempt, exception.clone(), out);
        }
        match self.jobs.get(&job).filter(|held| held.attempt == attempt) {
            Some(held) if held.life == Life::Over => tell(job, held, out),
            Some(held) if held.exception.is_some() => {}
            Some(_) => {
                let exception = Box::new(exception.clone());
                out.append(now, job, Kind::Exception(exception));
            }
            None => refuse(job, attempt, exception.clone(), out),
        }
    }

    /// Whether that attempt waited here for an earlier one to be over, which it does no more.
    fn comes_never(&mut self, job: JobId, attempt: Attempt) -> bool {
        let held = self.jobs.get_mut(&job);
        let is_it = |(given, _): &mut (Box<Given>, Asked)| given.pass.attempt == attempt;
        held.is_some_and(|held| held.next.take_if(is_it).is_some())
    }

    fn forget(&mut self, now: Time, job: JobId, attempt: Attempt, out: &mut Outbox) {
        if self.comes_never(job, attempt) {
            return;
        }
        let held = self.jobs.get(&job).filter(|held| held.attempt == attempt);
        match held.map(|held| held.life) {
            Some(Life::Over) => out.append(now, job, Kind::Waited),
            // The parent counts it as lost, and yet it is here: it must not go on.
            Some(Life::Goes) if held.is_some_and(|held| held.exception.is_none()) => {
                out.append(now, job, superseded(attempt));
            }
            Some(Life::Goes) | None => {}
        }
    }
}

/// A job comes for the first time, or again.
fn take(now: Time, given: &Given, spec: Asked, out: &mut Outbox) {
    match spec {
        Ok(spec) => {
            let submit = Kind::Submit(Arc::new(submit(given, spec)));
            out.append(now, given.job, submit);
        }
        Err(unread) => refuse(given.job, given.pass.attempt, unread.exception(), out),
    }
}

fn submit(given: &Given, spec: Arc<Spec>) -> Submit {
    Submit {
        user: given.user,
        asked_by: None,
        urgency: given.urgency,
        waitable: Waitable::No,
        requeue: Requeue::No,
        key: given.key,
        index: given.index,
        count: given.count,
        cc: given.cc,
        party: given.party.clone(),
        entry: Entry::of(&spec, Some(&given.pass)),
        spec,
        sent: given.sent.map(Arc::new),
        filtered: None,
        pass: Some(Arc::new(given.pass.clone())),
        taken_in: None,
    }
}

fn superseded(attempt: Attempt) -> Kind {
    Kind::Exception(Box::new(Exception {
        kind: "cancel".to_owned(),
        severity: 0,
        note: format!("its parent has given attempt {} up", attempt.0),
        userid: None,
        until: None,
    }))
}

/// What it holds is recorded, so it waits until that is durable.
fn tell(job: JobId, held: &Held, out: &mut Outbox) {
    // Of what the parent has not heard of it would take this for a mistake.
    if held.is_known() {
        say(
            ToldOf {
                job,
                attempt: held.attempt,
                state: held.state(),
                began: held.began,
                ended: held.ended,
                begun: held.own.as_ref().and_then(Own::begun),
                adopted: held.adopted.clone(),
            },
            out,
        );
    }
}

fn say(told: ToldOf, out: &mut Outbox) {
    out.effect(Effect::Parent(ToParent::Told(Box::new(told))));
}

/// A job that never was here.
fn refuse(job: JobId, attempt: Attempt, exception: Exception, out: &mut Outbox) {
    let state = PassState::Over {
        began: false,
        status: None,
        exception: Some(exception),
    };
    let told = ToldOf {
        job,
        attempt,
        state,
        began: None,
        ended: None,
        begun: None,
        adopted: None,
    };
    say(told, out);
}
