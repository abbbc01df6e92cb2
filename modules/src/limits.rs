//! Who is at a limit: a fold of the records of jobs, and the limits of accounts, users and QoS.
//!
//! Part of ingest (what is refused), of the manager (what is held back) and of the listing (why).
//! A job counts from its place in the queue on, with what it asks for, so that what is let through
//! can never be over a limit, whoever of those let through starts first. It holds nobody itself.

mod bound;
mod check;
mod cost;
mod days;
mod kept;
mod shut;
mod size;
mod whose;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_sched::{Grade, Grades};
use eddy_wire::account::{self, Book, Key, Limits as Given, Name, Party, STANDBY};
use eddy_wire::event::{Final, Kind, Record, Submit};
use eddy_wire::held::{Fate, Held, Stay};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::queue::Rules;
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;
use eddy_wire::update;
use eddy_wire::usage::Payer;
use serde_json::{Map, Value};

use crate::jobs::Jobs;
use crate::live::Change;
use crate::sched::{Obeyed, is_policy};
use crate::settings::{Qos, Queue, Settings};
pub(crate) use bound::{Alone, Bound, Taken};
use check::{Question, is_beyond};
use cost::{Cost, Piece, Shapes};
use days::Days;
pub(crate) use days::beginning;
use kept::Kept;
pub(crate) use kept::Turn;
use shut::Shut;
pub(crate) use whose::Whose;

/// What those who are let through have of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    submitted: u64,
    running: u64,
    /// Those of them that hold something.
    begun: u64,
    /// Those of them that gave their cores back for a while.
    suspended: u64,
    nodes: u64,
    cores: u64,
    gpus: u64,
    /// Bytes, of which one job may ask for nearly as many as a number holds.
    memory: u128,
    work: u128,
}

/// A job that is not over.
#[derive(Clone, Debug)]
struct Seen {
    user: u32,
    party: Party,
    spec: Arc<Spec>,
    order: Order,
    stage: Stage,
    /// What it holds and held, node by node, as the ledger charges.
    held: Held,
}

/// Who says when a job begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// This instance.
    Here,
    /// The parent that passed it down, or a queue instance that took it.
    Elsewhere,
}

/// How far a job is, and what it holds there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stage {
    state: JobState,
    /// Since when it holds what it does, and what that is.
    since: Option<(Time, Piece)>,
    /// What it was granted as it began.
    granted: Piece,
    /// On how many nodes that is.
    nodes: u64,
    /// Its place in the queue; 0 is held by its user.
    place: i64,
    urgency: u8,
}

impl Stage {
    const FIRST: Stage = Stage {
        state: JobState::New,
        since: None,
        granted: Piece::NOTHING,
        nodes: 0,
        place: 0,
        urgency: 0,
    };

    /// After a record that brings it to this state.
    fn next(self, t: Time, state: JobState, kind: &Kind) -> Stage {
        let mut next = Stage { state, ..self };
        match kind {
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                let held = Piece::of(&grant.set);
                next.since = Some((t, held));
                if let Kind::Alloc(_) = kind {
                    next.granted = held;
                }
                next.nodes = grant.set.nodes.len() as u64;
            }
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => next.since = None,
            Kind::Priority(place) => next.place = *place,
            Kind::Urgency(urgency, _) => next.urgency = *urgency,
            _ => {}
        }
        next
    }

    /// Whether it was let through and has not ended.
    fn counts(self) -> bool {
        let waits = self.state == JobState::Sched && self.place > 0;
        waits || self.state == JobState::Run || self.since.is_some()
    }
}

impl Seen {
    fn payer(&self) -> Payer {
        Payer {
            account: self.party.account.clone(),
            user: self.user,
            qos: self.party.qos.clone(),
            queue: self.spec.jobspec.attributes.system.queue.clone(),
        }
    }

    /// Whether it gave cores back that it has again one day; an instance gives them for good.
    fn is_suspended(&self) -> bool {
        let lacks = |(_, left): (Time, Piece)| left.cores < self.stage.granted.cores;
        self.spec.request.work == Work::Tasks && self.stage.since.is_some_and(lacks)
    }

    /// What it takes of limits: what it has, where it has that, and no more than what it asked for. An instance
    /// may have given some of it back; whole nodes may be narrower than the widest. Who is suspended has
    /// his cores again one day. On how many nodes one lies that names none is known now.
    fn takes(&self, asked: Cost) -> Cost {
        let request = &self.spec.request;
        let has = match (self.stage.since, &request.work) {
            (Some((_, left)), Work::Instance { .. }) => left,
            (Some(_), Work::Tasks | Work::Ground { .. }) => self.stage.granted,
            (None, _) => Piece::default(),
        };
        if has.cores == 0 {
            return asked;
        }
        let cores = asked.cores.min(has.cores);
        let limit = asked.time.unwrap_or(0);
        Cost {
            nodes: match request.nodes {
                Some(_) => asked.nodes.min(self.stage.nodes),
                None => self.stage.nodes,
            },
            cores,
            gpus: asked.gpus.min(has.gpus),
            memory: asked.memory.min(has.memory),
            work: asked
                .work
                .map(|work| work.min(u128::from(cores) * u128::from(limit))),
            ..asked
        }
    }

    /// Takes a record: what it held in this attempt is used when it has given all back, unless nobody
    /// pays for it.
    fn used(&mut self, t: Time, kind: &Kind) -> Vec<Stay> {
        if is_nobodys(&self.spec) {
            return Vec::new();
        }
        self.held.apply(t, kind, |_| {});
        if !kind.frees() {
            return Vec::new();
        }
        match self.held.settle() {
            (Fate::Failed, _) => Vec::new(),
            (Fate::Charged | Fate::Ending, stays) => stays,
        }
    }
}

type Counts = BTreeMap<Whose, Count>;

/// Limits and who has how much of them.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    book: Book,
    qos: BTreeMap<Name, Qos>,
    /// The queues that limit something.
    queues: BTreeMap<Arc<str>, Rules>,
    /// The queues that do not allow QoS `standby`: nobody stands by in them.
    no_standby: BTreeSet<Arc<str>>,
    limits: BTreeMap<Whose, Given>,
    /// Counted when somebody asks after limits changed, and kept from then on: who imports accounts changes many
    /// in one turn, and a replay all of them, before anybody asks.
    counts: OnceCell<Counts>,
    days: Days,
    kept: Kept,
    obeyed: Obeyed,
    /// By which those who wait are let through, as it is obeyed.
    grades: Grades,
    shut: Shut,
    jobs: Jobs<Seen>,
    shapes: Shapes,
    /// When the last record was.
    t: Time,
}

impl Limits {
    /// Those of the configuration.
    pub fn new(settings: &Settings) -> Limits {
        let mut limits = Limits {
            obeyed: Obeyed::new(&settings.policy),
            ..Limits::default()
        };
        limits.graded();
        limits.configured(&settings.qos, &settings.queues);
        limits
    }

    /// The configuration says this from now on. Who was let through goes on.
    fn configured(&mut self, qos: &[Qos], queues: &[Queue]) {
        let named = qos.iter().map(|qos| (qos.name.clone(), qos.clone()));
        let limiting = queues.iter().filter(|queue| {
            !queue.rules.limits.limits_nothing() || !queue.rules.user_limits.limits_nothing()
        });
        let there = queues.iter();
        let queues = limiting.map(|queue| (queue.name.as_str().into(), queue.rules.clone()));
        (self.qos, self.queues) = (named.collect(), queues.collect());
        let bars = |rules: &Rules| {
            let qos = rules.qos.as_ref();
            qos.is_some_and(|allowed| allowed.iter().all(|qos| qos.as_str() != STANDBY))
        };
        let barred = there.filter(|queue| bars(&queue.rules));
        self.no_standby = barred.map(|queue| queue.name.as_str().into()).collect();
        self.limits = self.named();
        self.recount();
    }

    /// Folds a record.
    pub fn apply(&mut self, record: &Record) {
        let t = record.event.t;
        self.t = self.t.max(t);
        match (&record.event.kind, record.event.job) {
            (Kind::Account(changed), _) => self.changed(&changed.change),
            (Kind::ResourceDefine(set, _), _) => {
                self.shapes = Shapes::of(set);
                self.recount();
            }
            (Kind::Memo(memo), _) => self.remarked(record.seq, memo),
            (Kind::Queue(_) | Kind::Reservation(_), _) => {
                self.shut.apply(record);
                self.forget_kept();
            }
            (Kind::Usage(tally), _) => self.days.restore(&tally.accounts),
            (Kind::UsageDay(day), _) => self.days.said(day),
            (Kind::Submit(submit), Some(id)) => self.submitted(id, submit),
            (Kind::Clean, Some(id)) => {
                self.count(id, Step::Less);
                self.jobs.remove(&id);
            }
            (kind, Some(id)) => self.moved(t, id, kind),
            (_, None) => {}
        }
    }

    /// It may be that the configuration is another, or the policy.
    fn remarked(&mut self, seq: Seq, memo: &Map<String, Value>) {
        if let Some(change) = Change::told(memo) {
            self.obeyed.configured(&change.by, change.live.policy());
            self.graded();
            self.configured(&change.live.qos, &change.live.queues);
        } else if is_policy(memo) {
            self.obeyed.apply(seq, memo);
            self.graded();
        }
    }

    /// Those who wait may have another order.
    fn graded(&mut self) {
        self.grades = Grades::new(&self.obeyed.policy());
        self.forget_kept();
    }

    /// Where a job of that party is in the order of the policy.
    fn grade(&self, party: &Party, spec: &Spec) -> Grade {
        let queue = spec.jobspec.attributes.system.queue.as_deref();
        self.grades.of(party, queue)
    }

    fn submitted(&mut self, id: JobId, submit: &Submit) {
        let seen = Seen {
            user: submit.user,
            party: submit.party.clone(),
            spec: Arc::clone(&submit.spec),
            order: match (&submit.pass, &submit.taken_in) {
                (None, None) => Order::Here,
                _ => Order::Elsewhere,
            },
            stage: Stage {
                state: submit.entry.state(),
                urgency: submit.urgency,
                ..Stage::FIRST
            },
            held: Held::default(),
        };
        self.jobs.insert(id, seen);
        self.count(id, Step::More);
    }

    fn moved(&mut self, t: Time, id: JobId, kind: &Kind) {
        let counts = !self.limits_nobody();
        let Some(seen) = self.jobs.get_mut(&id) else {
            return;
        };
        let Ok(state) = seen.stage.state.next(kind) else {
            return;
        };
        if let Kind::JobspecUpdate(map) = kind {
            return self.updated(id, state, map);
        }
        let stays = seen.used(t, kind);
        let payer = (!stays.is_empty()).then(|| seen.payer());
        let (stage, next) = (seen.stage, seen.stage.next(t, state, kind));
        if let Some(payer) = payer {
            self.used(payer, &stays);
        }
        if next == stage {
            return;
        }
        if counts {
            self.count(id, Step::Less);
        }
        if let Some(seen) = self.jobs.get_mut(&id) {
            seen.stage = next;
        }
        if counts {
            self.count(id, Step::More);
        }
    }

    /// So many cores were held from when until when.
    fn used(&mut self, payer: Payer, stays: &[Stay]) {
        let whose = self.budgets_of(&payer);
        for stay in stays {
            self.days.used(&payer, stay, &whose);
        }
    }

    /// Whom a job is charged to changes while it waits, or its time limit.
    fn updated(&mut self, id: JobId, state: JobState, map: &Map<String, Value>) {
        self.count(id, Step::Less);
        if let Some(seen) = self.jobs.get_mut(&id) {
            seen.stage.state = state;
            update::party(&mut seen.party, map);
            update::spec(&mut seen.spec, map);
        }
        self.count(id, Step::More);
    }

    /// Whether any limit may count for jobs of that queue.
    pub fn counts_in(&self, queue: &str) -> bool {
        let of_qos = |qos: &Qos| !qos.limits.limits_nothing() || !qos.user_limits.limits_nothing();
        let others = self
            .limits
            .keys()
            .any(|whose| !matches!(whose, Whose::Queue(_)));
        self.queues.contains_key(queue) || others || self.qos.values().any(of_qos)
    }

    /// An account, a member or a user is other than before.
    fn changed(&mut self, change: &account::Change) {
        let key = change.key();
        let parent = |book: &Book| match &key {
            Key::Account(name) => book.account(name).map(|account| account.parent.clone()),
            Key::Member(..) | Key::User(_) => None,
        };
        let was_under = parent(&self.book);
        self.book.apply(change);
        let moves = was_under != parent(&self.book);
        let (whose, given) = match key {
            Key::Account(name) => {
                let given = self.book.account(&name).map(|account| account.limits);
                (Whose::Account(name), given)
            }
            Key::Member(name, user) => {
                let given = self.book.member(&name, user).map(|member| member.limits);
                (Whose::Member(name, user), given)
            }
            Key::User(user) => {
                let given = self.book.user(user).map(|value| value.limits);
                (Whose::User(user), given)
            }
        };
        let given = given.filter(|given| !given.limits_nothing());
        let before = match given {
            Some(given) => self.limits.insert(whose, given),
            None => self.limits.remove(&whose),
        };
        if moves || before != given {
            self.recount();
        }
    }

    /// What was counted counts no more.
    fn recount(&mut self) {
        self.counts.take();
        self.forget_kept();
        self.days.recount();
    }

    /// Which limits there are.
    fn named(&self) -> BTreeMap<Whose, Given> {
        let mut limits = BTreeMap::new();
        let mut add = |whose: Whose, given: &Given| {
            if !given.limits_nothing() {
                limits.insert(whose, *given);
            }
        };
        for (name, account) in self.book.accounts() {
            add(Whose::Account(name.clone()), &account.limits);
        }
        for (name, user, member) in self.book.members() {
            add(Whose::Member(name.clone(), user), &member.limits);
        }
        for (user, value) in self.book.users() {
            add(Whose::User(user), &value.limits);
        }
        for (name, qos) in &self.qos {
            add(Whose::Qos(name.clone()), &qos.limits);
        }
        for (name, rules) in &self.queues {
            add(Whose::Queue(Arc::clone(name)), &rules.limits);
        }
        limits
    }

    /// Who has how much of each limit.
    fn counts(&self) -> &Counts {
        self.counts.get_or_init(|| {
            let mut counts = Counts::new();
            if !self.limits_nobody() {
                let all = self.jobs.keys();
                all.for_each(|id| self.add(&mut counts, *id, Step::More));
            }
            counts
        })
    }

    /// Where nobody has asked yet all is counted when somebody does.
    fn count(&mut self, id: JobId, step: Step) {
        self.count_kept(id, step);
        let Some(mut counts) = self.counts.take() else {
            return;
        };
        self.add(&mut counts, id, step);
        self.counts.set(counts).expect("they were just taken");
    }

    fn add(&self, counts: &mut Counts, id: JobId, step: Step) {
        let Some(seen) = self.jobs.get(&id) else {
            return;
        };
        if self.limits_nobody() || is_nobodys(&seen.spec) {
            return;
        }
        let is_through = seen.stage.counts();
        let cost = seen.takes(self.shapes.cost(&seen.spec));
        for whose in self.bound_by(&seen.party, seen.user, &seen.spec) {
            let beyond = self
                .given(&whose)
                .is_some_and(|given| is_beyond(given, &seen.party));
            let count = counts.entry(whose).or_default();
            let go = |own: &mut u64, by: u64| match step {
                Step::More => *own += by,
                Step::Less => *own = own.saturating_sub(by),
            };
            go(&mut count.submitted, 1);
            if is_through {
                go(&mut count.running, 1);
                go(&mut count.begun, u64::from(seen.stage.since.is_some()));
                go(&mut count.suspended, u64::from(seen.is_suspended()));
                go(&mut count.nodes, cost.nodes);
                go(&mut count.cores, cost.cores);
                go(&mut count.gpus, cost.gpus);
                let work = cost.work.filter(|_| !beyond).unwrap_or(0);
                let sums = [
                    (&mut count.memory, u128::from(cost.memory)),
                    (&mut count.work, work),
                ];
                for (own, by) in sums {
                    match step {
                        Step::More => *own += by,
                        Step::Less => *own = own.saturating_sub(by),
                    }
                }
            }
        }
    }

    /// Whether there is no limit at all.
    fn limits_nobody(&self) -> bool {
        self.limits.is_empty() && self.qos.is_empty() && self.queues.is_empty()
    }

    /// What keeps a job from being let through now; `None` lets it through, and [`Excess::Standby`] as
    /// that.
    pub fn binding(&self, now: Time, id: JobId) -> Option<Bound> {
        let seen = self.jobs.get(&id)?;
        self.over(now, seen.user, &seen.party, &seen.spec, Question::Start)
    }

    /// Whose limits count for a job: those there are.
    pub fn whose(&self, id: JobId) -> Vec<Whose> {
        let seen = self.jobs.get(&id);
        seen.map_or_else(Vec::new, |seen| {
            self.bound_by(&seen.party, seen.user, &seen.spec)
        })
    }

    /// When the latest record was.
    pub fn latest(&self) -> Time {
        self.t
    }

    /// Whether any limit would count for a job that is submitted.
    pub fn count_for(&self, submit: &Submit) -> bool {
        let bound = self.bound_by(&submit.party, submit.user, &submit.spec);
        !bound.is_empty()
    }

    /// The same as of the last record.
    pub fn binding_then(&self, id: JobId) -> Option<Bound> {
        self.binding(self.t, id)
    }

    /// What keeps so many jobs like this from being taken at all.
    pub fn refusing(
        &self,
        now: Time,
        user: u32,
        party: &Party,
        spec: &Spec,
        count: u32,
    ) -> Option<Bound> {
        let over = self.over(now, user, party, spec, Question::Submit(count))?;
        over.refuses().then_some(over)
    }

    /// What keeps a job that is there from being that of another party, or from asking for something else. What
    /// it counts for already refuses only what it would be over alone: the job is among those it has.
    pub fn refusing_moved(
        &self,
        now: Time,
        (user, (own, before), (party, spec)): (u32, (&Party, &Spec), (&Party, &Spec)),
    ) -> Option<Bound> {
        let counted = self.bound_by(own, user, before);
        let all = self.bound_by(party, user, spec).into_iter();
        let (there, new): (Vec<_>, Vec<_>) = all.partition(|whose| counted.contains(whose));
        let over = self.over_these(now, new, (party, spec), Question::Submit(1));
        let alone = || self.over_these(now, there, (party, spec), Question::Submit(0));
        over.filter(Bound::refuses)
            .or_else(|| alone().filter(|bound| bound.alone == Alone::Over))
    }
}

#[derive(Clone, Copy)]
enum Step {
    More,
    Less,
}

/// Whether a job takes nothing of anybody: charged to nobody, in no queue.
pub(crate) fn is_nobodys(spec: &Spec) -> bool {
    let declared = matches!(spec.request.work, Work::Instance { name: Some(_) });
    declared || spec.request.takes == Takes::Nothing
}

#[cfg(test)]
mod tests;
