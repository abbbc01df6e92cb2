//! Step 4 of a job's path: feeds the planner with what changes and records its
//! verdicts.
//!
//! The planner itself (eddy-sched) runs beside the broker; here is the mailbox
//! around it. A verdict is a proposal (`sched/verdicts.rs`).

mod alike;
mod asked;
mod awaited;
mod gang;
pub(crate) mod grounds;
mod halts;
mod limit;
mod oversize;
mod passed;
mod policy;
mod pools;
mod present;
mod reach;
mod reserved;
mod seated;
mod seen;
mod sets;
mod settled;
mod settling;
mod shrinks;
mod stays;
mod supposed;
mod taken;
mod unordered;
mod verdicts;

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::{
    Endpoint, Input, Line, Module, Notice, Outbox, ParentWord, Reacts, Request, Volatile,
};
use eddy_wire::access::Access;
use eddy_wire::account::Book;
use eddy_wire::error::Refusal;
use eddy_wire::event::{Event, Kind, Record, Taken};
use eddy_wire::id::{Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::{Delta, Head, Reason, Stay, Unavailable};
use eddy_wire::queue::{Gates, Turned};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::Service;
use eddy_wire::services::sched::{Explain, Policy, SetPolicy, SetPolicyRequest, Shares};
use eddy_wire::services::{pool, reservation, resource};
use eddy_wire::suspension::Standing;
use eddy_wire::time::Time;

use crate::gangs::Gangs;
use crate::ingest::queues;
use crate::jobs::Jobs;
use crate::limits::Limits;
use crate::live::{self, Change};
use crate::nest::run::waits_below;
use crate::settings::{Place, Settings};
use crate::silence::Silence;
use alike::Alike;
use asked::Asked;
use awaited::Awaited;
use grounds::Grounds;
pub use passed::BOUNCE;
use passed::Passed;
pub(crate) use policy::{Obeyed, is_one as is_policy, set as policy_set};
use pools::Pools;
use reserved::Reserved;
use seen::Seen;
use sets::Sets;
use settling::Settling;
use taken::Rules;
use unordered::Unordered;

/// What planners obey that are told of nothing else.
const DEFAULT_POLICY: &str = "preset = \"fcfs\"";

/// The mailbox around the planner.
#[derive(Default)]
pub struct Sched {
    obeyed: Obeyed,
    /// Who may take from whom.
    rules: Rules,
    /// What users see of each other's jobs.
    access: Access,
    book: Book,
    gates: Gates,
    asked: Asked,
    jobs: Jobs<Seen>,
    /// Those of them that are ground for instances.
    grounds: Grounds,
    /// The instances that queues lead to.
    sets: Sets,
    /// Those of what may be had; it knows no jobs.
    limits: Limits,
    reserved: Reserved,
    pools: Pools,
    gangs: Gangs,
    /// Jobs that came back from where they were passed to wait so long for their next try.
    resting: BTreeMap<JobId, Time>,
    /// Those who were led elsewhere by a configuration that the planner is to be told of.
    led: Vec<JobId>,
    /// Jobs that a parent passed down and that are still to begin, or to go on.
    passed: Passed,
    /// Whether the parent is heard, and whether there is time left.
    silence: Silence,
    /// Until when that is.
    place: Place,
    /// What the planner was told of that.
    stay_told: Stay,
    /// Jobs that this instance took for its parent, and that are not its to order yet.
    unordered: Unordered,
    /// What all of them hold.
    used: ResourceSet,
    inventory: Option<Arc<ResourceSet>>,
    alike: Alike,
    /// Its ranks.
    ranks: Idset,
    shells: BTreeMap<Rank, Epoch>,
    online: Idset,
    settling: Settling,
    awaited: Awaited,
    drained: Idset,
    /// What the planner was told last of ranks.
    told: Told,
    head: Option<(JobId, Reason)>,
    /// And in each line apart.
    apart: Vec<Head>,
    /// What was said last of those behind it.
    line: Line,
    /// When to ask the planner again though nothing happens.
    again: Option<Time>,
    intake: Intake,
}

/// The ranks as a planner was told of them.
#[derive(Debug, Default)]
struct Told {
    up: Idset,
    offline: Idset,
    drained: Idset,
}

/// Whether verdicts are still wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Intake {
    #[default]
    Open,
    Stopping,
}

impl Module for Sched {
    fn name(&self) -> &'static str {
        "sched"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[
            Endpoint::of::<Explain>(),
            Endpoint::of::<Shares>(),
            Endpoint::of::<Policy>(),
            Endpoint::of::<SetPolicy>(),
            Endpoint::of::<reservation::Create>(),
            Endpoint::of::<reservation::Delete>(),
            Endpoint::of::<reservation::List>(),
            Endpoint::of::<pool::List>(),
            Endpoint::of::<resource::Vacate>(),
        ];
        ENDPOINTS
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        self.obeyed.live(seqs);
        self.reserved.live(seqs);
    }

    fn stands(&self, event: &Event) -> bool {
        match (&event.kind, event.job) {
            (Kind::Alloc(_), Some(job)) => {
                let seen = self.jobs.get(&job);
                let may = |seen: &Seen| match seen.submit.pass.as_ref().map(|pass| pass.taken) {
                    None => true,
                    // What was taken here may begin by the word of nobody, once.
                    Some(Taken::Here) => seen.state == JobState::Sched,
                    Some(Taken::Above) => self.passed.may_begin(job),
                };
                seen.is_none_or(may)
            }
            _ => true,
        }
    }

    fn apply(&mut self, record: &Record) {
        self.gangs.apply(record);
        self.unordered.apply(record, &self.jobs);
        if record.event.job.is_none() {
            self.limits.apply(record);
            self.asked.apply(record);
        }
        match (&record.event.kind, record.event.job) {
            (Kind::Memo(memo), None) => {
                self.obeyed.apply(record.seq, memo);
                let told = live::admitted(memo);
                self.access = told.unwrap_or_else(|| std::mem::take(&mut self.access));
                if let Some(change) = Change::told(memo) {
                    self.configured(&change);
                }
            }
            (Kind::Submit(submit), Some(id)) => self.submitted(record.event.t, id, submit),
            (Kind::Clean, Some(id)) => {
                if let Some(seen) = self.jobs.remove(&id) {
                    self.passed.forget(id, &seen);
                    self.unordered.forget(id);
                    self.forget_ground(id, &seen);
                    self.over(id, &seen);
                }
            }
            (kind, Some(id)) => {
                if let Some(seen) = self.jobs.get_mut(&id) {
                    // What a queue instance holds its jobs are given.
                    match Sets::name(&seen.submit) {
                        Some(name) => self.sets.apply(name, id, kind),
                        None => seen.hold(kind, &mut self.used),
                    }
                    seen.end(record.event.t, kind, self.rules.grace());
                    self.pools.apply(id, &seen.submit, kind);
                    seen.apply(record.event.t, kind, &self.gates);
                    seen.lasts(kind, limit::last(self.inventory.as_deref()));
                    seen.passed(kind, &self.sets);
                    self.passed.apply(id, seen);
                    self.unordered.moved(id, seen);
                }
            }
            (Kind::Account(changed), None) => self.book.apply(&changed.change),
            (Kind::Queue(turned), None) => self.gates.apply(record.event.t, turned),
            (Kind::Reservation(kept), None) => self.reserved.apply(record.seq, kept),
            (kind, None) => self.apply_own(kind),
        }
        if let Some(id) = record.event.job {
            self.fold_ground(id, &record.event.kind);
        }
    }

    fn reacts(&self) -> Reacts {
        Reacts::ToApplied
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        // Whatever brings the moment: no verdict that comes with it is to be taken.
        self.looks_at_time(now, out);
        self.take(now, input, out);
        self.order(out);
    }
}

impl Sched {
    fn take(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.request(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Cancel(caller) => self.asked.drop_where(|of| of == caller),
            Input::Gone(client) => self.asked.drop_where(|of| of.client == client),
            Input::Applied(record) => {
                let (kind, job) = (&record.event.kind, record.event.job);
                self.looks_again(kind, job, out);
                self.applied(now, kind, job, out);
                self.stay_changed(kind, job, out);
                self.ground_changed(kind, job, out);
                self.oversize_again(kind, job, out);
                self.gang_moved(kind, job, out);
                self.start_passed(now, kind, job, out);
            }
            Input::Parent(ParentWord::Pass(given, tail)) => {
                self.place_unordered(now, (given, tail), out);
            }
            Input::Parent(ParentWord::Proceed(job, attempt, cores)) => {
                self.goes_back(*job, *attempt, cores);
                self.go_on(now, *job, out);
            }
            Input::Parent(ParentWord::Away) => self.parent_silent(now, out),
            Input::Parent(ParentWord::Granted(granted)) => {
                let turn = self.silence.ends();
                self.asked.granted(now, granted);
                self.parent_turns(turn, out);
                self.place.told(now, granted);
                self.looks_at_time(now, out);
                self.wake_at_end(out);
                self.tell_stay(out);
                self.unordered.heard();
            }
            Input::Planned(outcome) => self.planned(now, outcome, out),
            Input::Notice(Notice::Online(online)) => self.reached(now, online, out),
            Input::Notice(Notice::Serving(serving)) => self.serving(now, serving, out),
            Input::Notice(Notice::Used(used)) => {
                out.volatile(Volatile::Plan(vec![Delta::Used(Arc::clone(used))]));
            }
            Input::Notice(Notice::Past(used)) => {
                out.volatile(Volatile::Plan(vec![Delta::Past(Arc::clone(used))]));
            }
            Input::Resume(_) => {
                self.told = Told::default();
                self.settles(now, out);
                self.tell_all(out);
                self.wait_for_ends(out);
                self.resume_passed(now, out);
                self.wake_at_end(out);
                // A leader may begin without its parent, which is to be heard yet.
                self.parent_silent(now, out);
            }
            Input::Tick => {
                self.settled(now, out);
                if self.again.is_some_and(|at| at <= now) {
                    self.again = None;
                    out.volatile(Volatile::Plan(Vec::new()));
                }
                self.end_reservations(now, out);
                self.bounce(now, out);
                self.try_again(now, out);
            }
            Input::Stop => self.intake = Intake::Stopping,
            _ => {}
        }
    }

    /// A mailbox to which nothing has come.
    pub fn new(settings: &Settings) -> Sched {
        Sched {
            obeyed: Obeyed::new(&settings.policy),
            asked: Asked::new(settings),
            rules: Rules::new(settings),
            access: settings.access.clone(),
            sets: Sets::new(settings),
            limits: Limits::new(settings),
            grounds: Grounds::new(settings),
            pools: Pools::new(&settings.pools),
            place: settings.place.clone(),
            silence: Silence::new(
                settings.place.child.map(|_| settings.lease),
                settings
                    .autonomous_after
                    .filter(|_| settings.place.name.is_some()),
            ),
            ..Sched::default()
        }
    }

    fn request(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        match request.topic.as_str() {
            Explain::TOPIC => self.explain(now, request, out)?,
            Shares::TOPIC => self
                .asked
                .ask_shares(request, self.shown_to(request), out)?,
            Policy::TOPIC => out.answer(request.caller, &self.obeyed.shown()),
            pool::List::TOPIC => out.answer(request.caller, &self.pools.rows()),
            resource::Vacate::TOPIC => self.vacate(now, request, out)?,
            reservation::Create::TOPIC | reservation::Delete::TOPIC | reservation::List::TOPIC => {
                self.reservation_request(now, request, out)?
            }
            _ => {
                let body: SetPolicyRequest = request.parse()?;
                out.append_own(now, self.obeyed.set(request.uid, &body.text)?);
                // As it will be once that is recorded.
                out.reply(request.caller, &());
            }
        }
        Ok(())
    }

    fn apply_own(&mut self, kind: &Kind) {
        self.place.recorded(kind);
        match kind {
            Kind::ResourceDefine(set, _) => {
                (self.inventory, self.ranks) = (Some(Arc::clone(set)), set.ranks());
                self.sets.requires.on(set);
            }
            Kind::ShellStart(ranks, epoch) => {
                self.shells
                    .extend(ranks.iter().map(|rank| (Rank(rank), *epoch)));
            }
            Kind::Drain(ranks, _, _) => self.drained = self.drained.union(ranks),
            Kind::Undrain(ranks, _) => self.drained = self.drained.difference(ranks),
            _ => {}
        }
    }

    /// Tells the planner of one change.
    fn applied(&mut self, now: Time, kind: &Kind, job: Option<JobId>, out: &mut Outbox) {
        if let Some(id) = job
            && self
                .jobs
                .get(&id)
                .is_some_and(|seen| Sets::name(&seen.submit).is_some())
            && let Some(deltas) = self.set_changed(id, kind)
        {
            return out.volatile(Volatile::Plan(deltas));
        }
        let delta = match (kind, job) {
            (Kind::Priority(_), Some(id)) if self.rests(now, id, out) => return,
            (Kind::Order(..), Some(id)) if self.resting.contains_key(&id) => return,
            (Kind::Order(..), Some(id)) if !self.waits(id) => return,
            (Kind::Priority(_) | Kind::Order(..), Some(id)) => self.want(id),
            (Kind::JobspecUpdate(_), Some(id)) => return self.updated(id, out),
            (Kind::Urgency(..), Some(id)) => Delta::Unwant(id),
            (Kind::Exception(exception), Some(id)) if exception.severity == 0 => {
                return self.ends(id, out);
            }
            (Kind::Start, Some(id)) => return self.begun(id, out),
            (Kind::Preempted(_) | Kind::Shrink(_), Some(id)) => {
                return self.tell_standing(id, None, out);
            }
            // One that has its cores wants nothing.
            (Kind::Suspend(_) | Kind::Resume(_), Some(id)) => self.want(id),
            (Kind::Alloc(_) | Kind::GrantChanged(_), Some(id)) => {
                let held = self.jobs.get(&id).and_then(|seen| seen.holding(id));
                self.tell_standing(id, held, out);
                if matches!(kind, Kind::GrantChanged(_)) {
                    // What left it is for who waits; that a job holds something is no news.
                    out.volatile(Volatile::Plan(Vec::new()));
                }
                return;
            }
            (Kind::Memo(memo), Some(id)) if waits_below(memo) && self.is_there(id) => self.want(id),
            (Kind::Finish(_), Some(id)) => return self.goes_on_no_more(id, out),
            (kind, Some(id)) if kind.frees() => return self.freed(id, out),
            (Kind::ResourceDefine(set, _), None) => {
                let mut deltas = vec![Delta::Inventory(Arc::clone(set))];
                deltas.extend(self.ranks_changed());
                return out.volatile(Volatile::Plan(deltas));
            }
            (kind, None) if self.is_of_service(kind) => {
                self.tell_gifts(out);
                return self.tell_ranks(out);
            }
            (Kind::Queue(turned), None) => return self.turned(turned, out),
            (Kind::Reservation(kept), None) => return self.reservation_applied(kept, out),
            (Kind::Account(changed), None) => return self.account_changed(&changed.change, out),
            (Kind::Memo(memo), None) if Change::told(memo).is_some() => {
                return self.tell_configuration(out);
            }
            (Kind::Memo(memo), None) if policy::is_one(memo) => {
                let told = self.obeyed.told();
                let policy = Delta::Policy(told.unwrap_or_else(|| DEFAULT_POLICY.into()));
                out.volatile(Volatile::Plan(vec![policy]));
                out.notice(Notice::Reckon);
                return self.tell_gifts(out);
            }
            _ => return,
        };
        out.volatile(Volatile::Plan(vec![delta]));
    }

    fn is_there(&self, id: JobId) -> bool {
        self.jobs.contains_key(&id)
    }

    fn tell_standing(&self, id: JobId, first: Option<Delta>, out: &mut Outbox) {
        let uses = self.pools.delta(id).filter(|_| first.is_some());
        let mut deltas = Vec::new();
        deltas.extend(first);
        deltas.extend(uses);
        self.standing(id, &mut deltas);
        if !deltas.is_empty() {
            out.volatile(Volatile::Plan(deltas));
        }
    }

    /// One is to end: what it holds it keeps until its release is recorded.
    fn ends(&self, id: JobId, out: &mut Outbox) {
        if !self.holds(id) {
            return out.volatile(Volatile::Plan(vec![Delta::Unwant(id)]));
        }
        self.goes_on_no_more(id, out);
        self.tell_standing(id, None, out);
    }

    /// One that is suspended waits for its cores no more.
    fn goes_on_no_more(&self, id: JobId, out: &mut Outbox) {
        let suspended = self.jobs.get(&id).map(|seen| seen.suspension.standing());
        if suspended.is_some_and(Standing::is_without_cores) {
            out.volatile(Volatile::Plan(vec![Delta::Unwant(id)]));
        }
    }

    fn holds(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|seen| seen.held.is_some())
    }

    fn waits(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|seen| self.wants(seen))
    }

    fn want(&self, id: JobId) -> Delta {
        match self.jobs.get(&id) {
            Some(seen) if self.wants(seen) && self.is_planned_for(seen.to.as_ref()) => {
                Delta::Want(id, self.asks(id, seen))
            }
            Some(_) | None => Delta::Unwant(id),
        }
    }

    /// Whether the planner is to find resources for it: it waits, its queue starts jobs, and the parent is
    /// heard.
    fn wants(&self, seen: &Seen) -> bool {
        let queue = queues::of(&seen.submit.spec);
        let stopped = queue.and_then(|queue| self.gates.stopped(queue));
        let begins = seen.resumes() || !self.silence.has_lapsed();
        seen.wants() && stopped.is_none() && self.may_grow(seen) && begins
    }

    /// A queue was stopped or goes on: those of its jobs that wait.
    fn turned(&self, turned: &Turned, out: &mut Outbox) {
        self.tell_wants(
            |seen| queues::of(&seen.submit.spec) == Some(turned.queue.as_str()),
            out,
        );
    }

    /// What the planner is to find for these who wait by now.
    fn tell_wants(&self, of_them: impl Fn(&Seen) -> bool, out: &mut Outbox) {
        let waiting = self.jobs.iter();
        let waiting = waiting
            .filter(|(id, seen)| seen.wants() && of_them(seen) && !self.resting.contains_key(id));
        let deltas: Vec<Delta> = waiting.map(|(id, _)| self.want(*id)).collect();
        if !deltas.is_empty() {
            out.volatile(Volatile::Plan(deltas));
        }
    }

    /// A new planner learns everything.
    fn tell_all(&mut self, out: &mut Outbox) {
        let mut deltas = Vec::new();
        deltas.extend(self.obeyed.told().map(Delta::Policy));
        deltas.push(Delta::Preempts(self.rules.told()));
        let accounts = self.book.to_changes().into_iter();
        deltas.extend(accounts.map(|change| Delta::Account(Box::new(change))));
        deltas.extend(
            self.inventory
                .iter()
                .map(|set| Delta::Inventory(Arc::clone(set))),
        );
        deltas.extend(self.sets.all());
        self.stay_told = self.stay();
        deltas.push(Delta::Stay(Arc::new(self.stay_told.clone())));
        deltas.extend(self.reserved.deltas());
        deltas.extend(self.pools.all());
        for (id, seen) in self.jobs.iter() {
            deltas.extend(seen.holding(*id));
            self.standing(*id, &mut deltas);
            deltas.extend(self.pools.delta(*id));
            if self.wants(seen) && !self.resting.contains_key(id) {
                deltas.push(self.want(*id));
            }
        }
        out.volatile(Volatile::Plan(deltas));
        self.tell_ranks(out);
    }

    /// Only what is new: ranks come one by one, and each would be told of all.
    fn tell_ranks(&mut self, out: &mut Outbox) {
        if self.inventory.is_none() {
            return;
        }
        let (online, drained) = (self.settling.shown(&self.online), self.closed());
        let now = Told {
            up: online.difference(&drained),
            offline: self.ranks.difference(&online),
            drained: drained.intersect(&online),
        };
        let deltas = [
            Delta::Up(now.up.difference(&self.told.up)),
            Delta::Down(
                now.offline.difference(&self.told.offline),
                Unavailable::Offline,
            ),
            Delta::Down(
                now.drained.difference(&self.told.drained),
                Unavailable::Drained,
            ),
        ];
        self.told = now;
        let is_news = |delta: &Delta| match delta {
            Delta::Up(ranks) | Delta::Down(ranks, _) => !ranks.is_empty(),
            _ => true,
        };
        let deltas: Vec<Delta> = deltas.into_iter().filter(is_news).collect();
        if !deltas.is_empty() {
            out.volatile(Volatile::Plan(deltas));
        }
    }
}
