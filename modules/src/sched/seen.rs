//! A job as far as scheduling goes: the fold of its records.
//!
//! What it wants, what it holds, who pays. The mailbox asks it; it asks nobody.

use std::sync::Arc;

use eddy_wire::event::{Final, Kind, Submit};
use eddy_wire::grace;
use eddy_wire::id::JobId;
use eddy_wire::job::Place;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing};
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::{Delta, Owner, Want};
use eddy_wire::pool::Takes;
use eddy_wire::preempt::Mode;
use eddy_wire::queue::Gates;
use eddy_wire::reservation;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::job::{URGENCY_DEFAULT, URGENCY_MAX};
use eddy_wire::shrinking::Shrinking;
use eddy_wire::suspension::{Standing, Suspension};
use eddy_wire::time::{Span, Time};
use eddy_wire::update;

use super::limit;
use super::pools;
use super::sets::{Sets, To};
use super::settled::Charges;
use super::stays;
use crate::ingest::queues;
use crate::nest::run::waits_below;

/// How a job gives way to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub by: JobId,
    pub until: Time,
    pub mode: Mode,
}

/// With whom an attempt was passed down, as long as it has not begun there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassedWith {
    Nobody,
    Others,
}

/// A job as far as scheduling goes.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) submit: Arc<Submit>,
    pub(super) submitted: Time,
    /// When it last came to wait for resources, earlier by as long as it had waited for them before.
    pub(super) eligible: Time,
    /// For how long its queue had been stopped when it came to.
    pub(super) stopped: Span,
    pub(super) wait: Wait,
    pub(super) state: JobState,
    pub(super) urgency: u8,
    /// What a release gives it back.
    pub(super) urgency_before: u8,
    pub(super) priority: i64,
    /// Among the jobs of its user.
    pub(super) place: Place,
    pub(super) held: Option<Arc<ResourceSet>>,
    /// The instance that it is passed to.
    pub(super) to: Option<To>,
    /// With whom it was.
    pub(super) passed_with: PassedWith,
    /// How often it came back from there.
    pub(super) recalls: u32,
    /// Whether it is to rest before it is planned again.
    pub(super) rest: Rest,
    /// How often it was to end for the sake of another.
    pub(super) preemptions: u32,
    /// For whom it is to give way now, how, and by when.
    pub(super) preempted: Option<Way>,
    /// Which of its nodes it is to give while it goes on.
    pub(super) shrinking: Shrinking,
    /// By when it ends that is ending.
    pub(super) ending: Option<Time>,
    /// When it was granted what it holds.
    pub(super) since: Time,
    /// Whether it has its cores.
    pub(super) suspension: Suspension,
    pub(super) limit: limit::Changed,
    pub(super) charges: Charges,
    /// Who says when it begins.
    pub(super) order: Order,
}

/// Whether a job that came back has rested since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Due,
    Had,
}

/// Whether an attempt waits for nothing but resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It does, also where it was given some and has not begun.
    Now,
    /// It has waited for them so long, and something else is missing.
    Before(Span),
    /// It has begun.
    Over,
}

/// Who says when and where a job begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The planner of this instance.
    Here,
    /// The parent.
    Above,
    /// Nobody: a queue instance took it, and is to say whether it has begun it.
    Below,
}

impl Order {
    pub(super) fn of(submit: &Submit) -> Order {
        match (&submit.pass, &submit.taken_in) {
            (Some(_), _) => Order::Above,
            (None, Some(_)) => Order::Below,
            (None, None) => Order::Here,
        }
    }
}

impl Seen {
    /// One that was submitted then, and is passed to that instance.
    pub(super) fn new(t: Time, submit: &Arc<Submit>, to: Option<To>) -> Seen {
        Seen {
            submit: Arc::clone(submit),
            submitted: t,
            eligible: t,
            stopped: Span::ZERO,
            wait: Wait::Before(Span::ZERO),
            state: submit.entry.state(),
            urgency: submit.urgency,
            urgency_before: match submit.urgency {
                0 => URGENCY_DEFAULT,
                urgency => urgency,
            },
            priority: 0,
            place: Place::FIRST,
            held: None,
            to,
            passed_with: PassedWith::Nobody,
            recalls: 0,
            rest: Rest::Had,
            preemptions: 0,
            preempted: None,
            shrinking: Shrinking::default(),
            ending: None,
            since: t,
            suspension: Suspension::default(),
            limit: limit::Changed::default(),
            charges: Charges::default(),
            order: Order::of(submit),
        }
    }

    /// Whether the planner is to find it resources: queued and not held back, or suspended and to go on.
    /// Where one runs that was passed down its parent has said.
    pub(super) fn wants(&self) -> bool {
        self.order == Order::Here && (self.is_queued() || self.resumes())
    }

    /// Whether it waits for the cores that it gave back.
    pub(super) fn resumes(&self) -> bool {
        self.suspension.standing() == Standing::Resuming
            && self.state == JobState::Run
            && self.ending.is_none()
            && self.preempted.is_none()
    }

    /// Whether its attempt is to end.
    pub(super) fn is_ending(&self) -> bool {
        let ends = |way: Way| match way.mode {
            Mode::Requeue | Mode::Cancel => true,
            Mode::Suspend => false,
        };
        self.ending.is_some() || self.preempted.is_some_and(ends)
    }

    /// What a planner is to know of what it holds.
    pub(super) fn holding(&self, id: JobId) -> Option<Delta> {
        let set = Arc::clone(self.held.as_ref()?);
        Some(match self.suspension.standing().is_without_cores() {
            true => Delta::Rests(id, self.owner().line, set),
            false => Delta::Held(id, self.owner(), set),
        })
    }

    pub(super) fn is_queued(&self) -> bool {
        self.state == JobState::Sched && self.priority > 0
    }
}

impl Seen {
    pub(super) fn apply(&mut self, t: Time, kind: &Kind, gates: &Gates) {
        // By the queue in which it did.
        let waited = match self.wait {
            Wait::Now => Span((t - self.waits_since(gates, t)).0.max(0)),
            Wait::Before(waited) => waited,
            Wait::Over => Span::ZERO,
        };
        if let Ok(next) = self.state.next(kind) {
            self.state = next;
        }
        self.suspension.apply(t, kind);
        self.shrinking.apply(kind);
        self.limit.apply(kind);
        self.charges.apply(t, kind);
        let is_said = match kind {
            Kind::Alloc(_) | Kind::Requeue(_) => true,
            Kind::Memo(memo) => waits_below(memo),
            _ => false,
        };
        if is_said && self.order == Order::Below {
            self.order = Order::Here;
        }
        if kind.passed_to().is_some_and(|to| to.with.is_some()) {
            self.passed_with = PassedWith::Others;
        }
        match kind {
            Kind::Priority(priority) => self.priority = *priority,
            Kind::Urgency(urgency, _) => {
                self.urgency = *urgency;
                if *urgency > 0 {
                    self.urgency_before = *urgency;
                }
            }
            Kind::JobspecUpdate(map) => update::submit(&mut self.submit, map),
            Kind::Order(place, _) => self.place = *place,
            Kind::Recalled(_) => (self.recalls, self.rest) = (self.recalls + 1, Rest::Due),
            Kind::Alloc(_) => self.rest = Rest::Had,
            Kind::Start | Kind::Requeue(_) => self.passed_with = PassedWith::Nobody,
            _ => {}
        }
        self.wait(t, (kind, waited), gates);
    }

    /// Whether it waits for resources from now on, or not any more. What it has waited is not lost where its urgency
    /// or what it asks for changes, it is held for a while, or comes back from where it never began.
    fn wait(&mut self, t: Time, (kind, waited): (&Kind, Span), gates: &Gates) {
        let is_in_line = matches!(
            self.state,
            JobState::New | JobState::Depend | JobState::Priority | JobState::Sched
        );
        self.wait = match (self.wait, kind) {
            (_, Kind::Start) => Wait::Over,
            (Wait::Over, Kind::Requeue(_)) => Wait::Before(waited),
            (Wait::Before(_), _) if self.is_queued() => {
                self.eligible = t.after(Span(-waited.0));
                self.stopped = self.stopped_until(gates, t);
                Wait::Now
            }
            (Wait::Now, _) if is_in_line && !self.is_queued() => Wait::Before(waited),
            (wait, _) => wait,
        };
    }

    /// Since when it waits for resources, without the time for which its queue was stopped since it came to.
    fn waits_since(&self, gates: &Gates, now: Time) -> Time {
        let stopped = self.stopped_until(gates, now).0 - self.stopped.0;
        self.eligible.after(Span(stopped.max(0)))
    }

    /// It is passed to an instance, wherever its queue leads by now. Its next attempt goes where that leads then,
    /// and so does one that is in another queue.
    pub(super) fn passed(&mut self, kind: &Kind, sets: &Sets) {
        if let Kind::JobspecUpdate(map) = kind
            && update::queue(map).is_some()
        {
            self.to = sets.of(&self.submit);
        }
        if let Some(to) = kind.passed_to() {
            self.to = Some(sets.to(Arc::from(to.instance.as_str())));
        }
        if let Kind::Requeue(_) = kind {
            self.to = sets.of(&self.submit);
        }
    }

    /// Since when it holds what it does, whether it is to end, and by when; `grace` is from TERM to KILL.
    pub(super) fn end(&mut self, t: Time, kind: &Kind, grace: Span) {
        match kind {
            Kind::Alloc(_) => self.since = t,
            Kind::Preempted(preemption) if self.preempted.is_none() => {
                if preemption.mode != Mode::Suspend {
                    self.preemptions += 1;
                }
                self.preempted = Some(Way {
                    by: preemption.by,
                    until: preemption.until,
                    mode: preemption.mode,
                });
            }
            Kind::Exception(exception) if exception.severity == 0 => {
                let grace = grace::within(&self.submit.spec, grace);
                let until = exception.until.unwrap_or(t.after(grace));
                self.ending.get_or_insert(until);
            }
            Kind::Requeue(_) => (self.preempted, self.ending) = (None, None),
            // It gave what was to be taken.
            Kind::GrantChanged(_) if self.suspension.standing() == Standing::Stopping => {
                self.preempted = None;
            }
            _ => {}
        }
    }

    pub(super) fn hold(&mut self, kind: &Kind, used: &mut ResourceSet) {
        match kind {
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                self.give_back(used);
                used.add(&grant.set);
                self.held = Some(Arc::clone(&grant.set));
            }
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => self.give_back(used),
            _ => {}
        }
    }

    /// Its queue, if it is in one of this instance: of what was passed down the parent's counts.
    pub(super) fn queue(&self) -> Option<&str> {
        queues::of(&self.submit.spec).filter(|_| self.submit.pass.is_none())
    }

    /// For how long its queue was stopped until then.
    pub(super) fn stopped_until(&self, gates: &Gates, t: Time) -> Span {
        let queue = queues::of(&self.submit.spec);
        queue.map_or(Span::ZERO, |queue| gates.stopped_until(queue, t))
    }

    pub(super) fn want(&self, gates: &Gates) -> Want {
        // Planners are told of it while its queue is not stopped: until when that was is the same at any time.
        let eligible = self.waits_since(gates, self.eligible);
        Want {
            urgency: self.urgency,
            request: self.submit.spec.request.clone(),
            owner: self.owner(),
            submitted: self.submitted,
            eligible,
            place: self.place,
            pools: pools::takes(&self.submit),
            reservation: reservation::of(&self.submit.spec).and_then(|name| name.parse().ok()),
            gang: None,
            back: None,
            preemptions: self.preemptions,
            lasts: stays::lasts(self),
        }
    }

    /// What it wants that is suspended and to go on: the cores it gave back, where it gave them back,
    /// for as long as its limit leaves. What it takes of pools it has. It goes before all who never
    /// began: one of them could wait for what it keeps, and it for that one.
    pub(super) fn want_back(&self, gates: &Gates) -> Option<Want> {
        let cores = self.suspension.lacks().filter(|_| self.resumes())?;
        let ran = self.suspension.ran().unwrap_or(Span::ZERO).0;
        let mut want = self.want(gates);
        let slots = cores.values().fold(0, |sum: u32, n| sum.saturating_add(*n));
        want.request = Request {
            nodes: None,
            choice: None,
            slots,
            slots_per_node: slots,
            cores_per_slot: 1,
            gpus_per_slot: 0,
            sockets: None,
            memory: MemoryNeed::None,
            sharing: Sharing::Shared,
            ranks: Some(cores.keys().map(|rank| rank.0).collect()),
            duration: want.request.duration.map(|limit| (limit - ran).max(1)),
            ..want.request
        };
        want.pools = Takes::default();
        want.urgency = URGENCY_MAX;
        want.back = Some(Arc::new(cores));
        Some(want)
    }

    pub(super) fn owner(&self) -> Owner {
        let queue = self.submit.spec.jobspec.attributes.system.queue.as_deref();
        let party = &self.submit.party;
        Owner {
            user: self.submit.user,
            account: party.account.clone(),
            qos: party.qos.clone(),
            class: party.class.clone(),
            queue: queue.map(Arc::from),
            line: self.to.as_ref().and_then(To::line),
        }
    }

    pub(super) fn give_back(&mut self, used: &mut ResourceSet) {
        if let Some(held) = self.held.take() {
            used.subtract(&held);
        }
    }
}

#[cfg(test)]
mod tests;
