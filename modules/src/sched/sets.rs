//! What there is for jobs of queues that lead to instances. They start by being passed to those.
//!
//! What an instance of a fixed size holds is set aside: a job waits for it in a line apart. An
//! elastic one holds nothing: its jobs wait in the one line of all others, for any of the ranks
//! that they may be given and on which it has ground.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Notice, Outbox, Volatile};
use eddy_sched::Capacity;
use eddy_wire::account::{self, Key};
use eddy_wire::event::{Kind, Submit};
use eddy_wire::grant::{Grant, Seats};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::plan::{Delta, Lent, LineName, Reason, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::Sched;
use super::seen::{Rest, Seen};
use crate::lending::Lending;
use crate::live::{Change, Live};
use crate::requires::Requires;
use crate::settings::{Queue, Settings};

/// How long a job that came back rests before it is planned again, the first time; each time it
/// doubles.
const REST: Span = Span::seconds(5);
/// How often at most it doubles: then it is over five minutes.
const REST_DOUBLINGS: u32 = 6;
/// How long after a node came its instances have ground on it.
const SOON: Span = Span::millis(100);

/// Which instance serves which queue, and what it has for jobs.
#[derive(Debug, Default)]
pub(super) struct Sets {
    leads: BTreeMap<String, Arc<str>>,
    /// What instances of a fixed size hold, each for the jobs of its queues alone.
    held: BTreeMap<Arc<str>, Held>,
    /// Those that hold nothing, by the job that each is: the file may have said something else when that
    /// began, or have it no more. Those without a job are as they are declared.
    elastic: BTreeMap<Arc<str>, Elastic>,
    declared_elastic: BTreeSet<Arc<str>>,
    /// Those that are reached, and have said all that they did while they were not.
    serving: BTreeSet<Arc<str>>,
    pub(super) lending: Lending,
    pub(super) requires: Requires,
    origin: Origin,
    /// Jobs that wait though what their queue requires leaves nothing that they fit on.
    unmet: BTreeSet<JobId>,
    /// Jobs that wait though they fit only on what instances of a fixed size hold.
    pub(super) oversize: BTreeSet<JobId>,
    /// Jobs that leave a choice of what they are given.
    choosing: BTreeSet<JobId>,
}

/// Whether queues were submitted to under what they require now.
#[derive(Debug, Default, PartialEq, Eq)]
enum Origin {
    #[default]
    Start,
    /// It may have been something else.
    Change,
}

/// What an instance of a fixed size holds.
#[derive(Debug)]
struct Held {
    /// The job that it is.
    job: JobId,
    set: Arc<ResourceSet>,
    /// The ranks on which it has ground.
    seats: Idset,
    /// What they are called in it.
    numbers: Seats,
}

/// An instance that holds nothing: its jobs wait in the line of this instance's own.
#[derive(Debug, Default)]
struct Elastic {
    /// The ranks on which it has ground.
    seats: Idset,
    /// What they are called in it.
    numbers: Seats,
}

/// Where a job is passed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct To {
    pub(super) name: Arc<str>,
    standing: Standing,
}

/// Where those wait who are passed to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// In the one line of all others: it is elastic.
    InLine,
    /// In a line of its own.
    Apart,
}

impl To {
    /// The line that it waits in.
    pub(super) fn line(&self) -> LineName {
        match self.standing {
            Standing::InLine => None,
            Standing::Apart => Some(Arc::clone(&self.name)),
        }
    }
}

fn leads(queues: &[Queue]) -> BTreeMap<String, Arc<str>> {
    let leads = queues.iter().filter_map(|queue| {
        let instance = queue.instance.as_deref()?;
        Some((queue.name.clone(), Arc::from(instance)))
    });
    leads.collect()
}

impl Sets {
    pub(super) fn new(settings: &Settings) -> Sets {
        let declared_elastic: BTreeSet<Arc<str>> = settings
            .elastic()
            .map(|(name, _)| Arc::from(name))
            .collect();
        let elastic = declared_elastic.iter().cloned();
        Sets {
            leads: leads(&settings.queues),
            held: BTreeMap::new(),
            elastic: elastic.map(|name| (name, Elastic::default())).collect(),
            declared_elastic,
            serving: BTreeSet::new(),
            lending: Lending::new(settings),
            requires: Requires::new(&settings.queues, &ResourceSet::new()),
            origin: Origin::Start,
            unmet: BTreeSet::new(),
            oversize: BTreeSet::new(),
            choosing: BTreeSet::new(),
        }
    }

    /// Queues lead where this says from now on, and require this; and this is lent.
    pub(super) fn configured(&mut self, live: &Live, all: &ResourceSet) {
        self.leads = leads(&live.queues);
        self.lending = Lending::of(live);
        self.requires = Requires::new(&live.queues, all);
        self.origin = Origin::Change;
    }

    /// A job is there: the instance that it is passed to.
    pub(super) fn submitted(&mut self, id: JobId, submit: &Submit) -> Option<To> {
        if submit.spec.request.choice.is_some() {
            self.choosing.insert(id);
        }
        self.of(submit)
    }

    /// An instance holds nothing from now on, or something: whether it was otherwise before.
    fn becomes(&mut self, name: &str, takes: Takes) -> bool {
        match takes {
            Takes::Nothing if !self.elastic.contains_key(name) => {
                self.elastic.insert(Arc::from(name), Elastic::default());
                true
            }
            Takes::Nothing => false,
            Takes::Resources => self.elastic.remove(name).is_some(),
        }
    }

    /// What an instance takes that has no job, as it is declared.
    fn declared(&self, name: &str) -> Takes {
        match self.declared_elastic.contains(name) {
            true => Takes::Nothing,
            false => Takes::Resources,
        }
    }

    /// The instance that a job is passed to.
    pub(super) fn of(&self, submit: &Submit) -> Option<To> {
        let spec = &submit.spec;
        let queue = spec.jobspec.attributes.system.queue.as_ref()?;
        let name = Arc::clone(self.leads.get(queue)?);
        let is_passed = spec.request.takes == Takes::Resources && submit.pass.is_none();
        is_passed.then(|| self.to(name))
    }

    /// To that instance.
    pub(super) fn to(&self, name: Arc<str>) -> To {
        let standing = match self.elastic.contains_key(&name) {
            true => Standing::InLine,
            false => Standing::Apart,
        };
        To { name, standing }
    }

    /// The name of the declared instance that a job is.
    pub(super) fn name(submit: &Submit) -> Option<&str> {
        match &submit.spec.request.work {
            Work::Instance { name } => name.as_deref(),
            Work::Tasks | Work::Ground { .. } => None,
        }
    }

    /// A record of the job that an instance is.
    pub(super) fn apply(&mut self, name: &str, job: JobId, kind: &Kind) {
        let elastic = self.elastic.get_mut(name);
        match (kind, elastic) {
            (Kind::Alloc(grant) | Kind::GrantChanged(grant), Some(elastic)) => {
                elastic.seats = seats(grant);
                elastic.numbers.follow(grant);
            }
            (Kind::Alloc(grant) | Kind::GrantChanged(grant), None) => {
                let known = self.held.remove(name);
                let mut held = Held {
                    job,
                    set: grant.set.of_something(),
                    seats: seats(grant),
                    numbers: known.map_or_else(Seats::default, |held| held.numbers),
                };
                held.numbers.follow(grant);
                self.held.insert(Arc::from(name), held);
            }
            (Kind::Free, Some(elastic)) => *elastic = Elastic::default(),
            (Kind::Free, None) => {
                self.held.remove(name);
            }
            _ => {}
        }
    }

    /// Whether a job that is passed there can wait for resources at all.
    pub(super) fn is_there(&self, to: Option<&To>) -> bool {
        let Some(to) = to else { return true };
        let has = self.elastic.contains_key(&to.name) || self.held.contains_key(&to.name);
        has && self.serving.contains(&to.name)
    }

    /// The elastic ones that are not reached.
    pub(super) fn elastic_away(&self) -> BTreeSet<Arc<str>> {
        let known = self.elastic.keys();
        known
            .filter(|name| !self.serving.contains(*name))
            .cloned()
            .collect()
    }

    /// What is set aside for that instance, if it is of a fixed size.
    pub(super) fn aside(&self, to: Option<&To>) -> Option<&ResourceSet> {
        self.held.get(&to?.name).map(|held| &*held.set)
    }

    /// Of all ranks those that some job of a queue can have, or of none.
    pub(super) fn reach(&self, queue: Option<&Queue>, all: &Idset) -> Idset {
        let to = queue.and_then(|queue| queue.instance.as_deref());
        let ground = match to {
            Some(name) if !self.elastic.contains_key(name) => {
                let held = self.held.get(name);
                held.map(|held| held.set.ranks()).unwrap_or_default()
            }
            to => {
                let aside = self.held.values().map(|held| held.set.ranks());
                let shared = self.lending.reach(to, all);
                aside.fold(shared, |shared, aside| shared.difference(&aside))
            }
        };
        let required = queue.and_then(|queue| self.requires.ranks(Some(&queue.name)));
        match required {
            Some(required) => ground.intersect(required),
            None => ground,
        }
    }

    /// The first of these ranks as who runs there counts them: where an instance on them has its leader.
    pub(super) fn first(&self, to: Option<&To>, ranks: &Idset) -> Option<Rank> {
        let Some(to) = to else {
            return ranks.iter().next().map(Rank);
        };
        let elastic = self.elastic.get(&to.name).map(|elastic| &elastic.numbers);
        let held = self.held.get(&to.name).map(|held| &held.numbers);
        let numbers = elastic.or(held)?;
        let all = ranks
            .iter()
            .map(Rank)
            .filter_map(|rank| Some((numbers.number(rank)?, rank)));
        all.min().map(|(_, rank)| rank)
    }

    /// Whether a set is of what that instance has, or of nothing that is set aside.
    pub(super) fn has(&self, to: Option<&To>, set: &ResourceSet) -> bool {
        let mut aside = self.held.values();
        let mut is_aside = || aside.any(|held| !set.is_disjoint(&held.set));
        let Some(to) = to else { return !is_aside() };
        match (self.elastic.get(&to.name), self.held.get(&to.name)) {
            (Some(elastic), _) => elastic.seats.contains_all(&set.ranks()) && !is_aside(),
            (None, Some(held)) => held.set.contains(set) && held.seats.contains_all(&set.ranks()),
            (None, None) => false,
        }
    }

    /// Whether it is only that the instance has no ground there yet.
    pub(super) fn is_to_come(&self, to: Option<&To>, set: &ResourceSet) -> bool {
        let Some(to) = to else { return false };
        let elastic = self.elastic.get(&to.name).map(|elastic| &elastic.seats);
        let held = self.held.get(&to.name).map(|held| &held.seats);
        let seats = elastic.or(held);
        seats.is_some_and(|seats| !seats.contains_all(&set.ranks()))
    }

    /// As a planner is told of them.
    pub(super) fn all(&self) -> impl Iterator<Item = Delta> + '_ {
        self.held.iter().flat_map(|(name, held)| {
            [
                Delta::Ground(held.job, Arc::clone(&held.set)),
                Delta::Line(Arc::clone(name), Some(Arc::clone(&held.set))),
            ]
        })
    }

    /// The channels that stand are these; whose have changed.
    pub(super) fn serving(&mut self, serving: &BTreeSet<String>) -> BTreeSet<Arc<str>> {
        let serving = serving.iter().map(|name| Arc::from(name.as_str()));
        let before = std::mem::replace(&mut self.serving, serving.collect());
        &before ^ &self.serving
    }
}

/// Where an instance has ground.
fn seats(grant: &Grant) -> Idset {
    grant.shells.keys().map(|rank| rank.0).collect()
}

impl Sched {
    /// A job is there. Where it is an instance that is of another kind than the last of its name, or than is declared,
    /// those who wait for it wait elsewhere.
    pub(super) fn submitted(&mut self, t: Time, id: JobId, submit: &Arc<Submit>) {
        let takes = submit.spec.request.takes;
        let is_other = Sets::name(submit).is_some_and(|name| self.sets.becomes(name, takes));
        let seen = Seen::new(t, submit, self.sets.submitted(id, submit));
        self.jobs.insert(id, seen);
        if is_other {
            self.lead();
        }
    }

    /// It is over: an instance of its name that begins anew is as it is declared.
    pub(super) fn over(&mut self, id: JobId, seen: &Seen) {
        self.sets.choosing.remove(&id);
        if let Some(name) = Sets::name(&seen.submit)
            && self.sets.becomes(name, self.sets.declared(name))
        {
            self.lead();
        }
    }

    /// What a planner is told when an instance has come to hold something else, where that is aside.
    pub(super) fn set_changed(&self, job: JobId, kind: &Kind) -> Option<Vec<Delta>> {
        let name = Sets::name(&self.jobs.get(&job)?.submit)?;
        if self.sets.elastic.contains_key(name) {
            // It is as any job that takes nothing.
            return None;
        }
        match kind {
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                let name: Arc<str> = Arc::from(name);
                let set = grant.set.of_something();
                let mut deltas = vec![
                    Delta::Ground(job, Arc::clone(&set)),
                    Delta::Line(Arc::clone(&name), Some(set)),
                ];
                let waiting = self.jobs.iter().filter(|(id, seen)| {
                    seen.to.as_ref().is_some_and(|to| to.name == name)
                        && self.wants(seen)
                        && !self.resting.contains_key(id)
                });
                deltas.extend(waiting.map(|(id, _)| self.want(*id)));
                Some(deltas)
            }
            Kind::Free => Some(vec![Delta::Freed(job), Delta::Line(Arc::from(name), None)]),
            _ => None,
        }
    }

    /// What a job asks a planner for, of the ranks that it may be given.
    pub(super) fn asks(&self, id: JobId, seen: &Seen) -> Want {
        if let Some(want) = seen.want_back(&self.gates) {
            return want;
        }
        self.placed(id, seen, seen.want(&self.gates))
    }

    /// The same of one that would ask for this.
    pub(super) fn placed(&self, id: JobId, seen: &Seen, mut want: Want) -> Want {
        want.gang = self.starts_with(id);
        let to = seen.to.as_ref().map(|to| &*to.name);
        let all = self.inventory.clone().unwrap_or_default();
        let constraint = want.request.constraint.as_ref();
        let like = constraint.map(|constraint| self.alike.ranks(constraint, &all));
        let ranks = self.sets.lending.ranks_of(to, &want.request, like, &all);
        let ranks = self.apart_from_ground(seen, ranks);
        let ranks = self.open_to(seen, ranks);
        let requires = &self.sets.requires;
        want.request = requires.within(seen.queue(), want.request, ranks);
        // Limits of size let jobs through one by one, by what each will hold.
        let Submit {
            user, party, spec, ..
        } = &*seen.submit;
        if want.request.choice.is_some() && self.limits.is_of_size(*user, party, spec) {
            want.request.choice = None;
        }
        want
    }

    /// The homes of others of which one is given nothing by its limit, as far as they are what it asks for.
    pub(super) fn withheld_from(&self, seen: &Seen) -> Vec<Lent> {
        let request = &seen.submit.spec.request;
        let to = seen.to.as_ref().map(|to| &*to.name);
        let all = self.inventory.clone().unwrap_or_default();
        let like = request.constraint.as_ref();
        let like = like.map(|constraint| self.alike.ranks(constraint, &all));
        let required = self.sets.requires.ranks(seen.queue()).cloned();
        let asked = request.ranks.iter().cloned().chain(like).chain(required);
        let might = asked.fold(all.ranks(), |some, others| some.intersect(&others));
        let mut lent = self.sets.lending.withheld(to, request.duration.map(Span));
        for one in &mut lent {
            one.ranks = one.ranks.intersect(&might);
        }
        lent.retain(|one| !one.ranks.is_empty());
        lent
    }

    /// An account is other than before: so may be the choice of those who are charged to it and wait with one,
    /// which is none where limits count for them.
    pub(super) fn account_changed(&self, change: &account::Change, out: &mut Outbox) {
        let key = change.key();
        let is_of = |seen: &Seen| {
            let (user, charged) = (seen.submit.user, seen.submit.party.account.as_ref());
            match &key {
                Key::User(of) => *of == user,
                Key::Member(name, of) => *of == user && charged == Some(name),
                Key::Account(name) => charged
                    .is_some_and(|charged| self.book.line(charged).any(|(above, _)| above == name)),
            }
        };
        let choosing = self.sets.choosing.iter();
        let waiting = choosing.filter(|id| {
            let seen = self.jobs.get(id);
            let waits = |seen: &Seen| is_of(seen) && self.wants(seen);
            seen.is_some_and(waits) && !self.resting.contains_key(id)
        });
        let deltas = waiting.map(|id| self.want(*id));
        let first = std::iter::once(Delta::Account(Box::new(change.clone())));
        out.volatile(Volatile::Plan(first.chain(deltas).collect()));
    }

    /// Other ranks are there than were: those that jobs may be given are others, too.
    pub(super) fn ranks_changed(&self) -> Vec<Delta> {
        let is_bound = self.sets.lending.is_bound();
        let waiting = self.jobs.iter().filter(|(id, seen)| {
            let is_like = seen.submit.spec.request.constraint.is_some();
            let is_like = is_like || self.sets.requires.ranks(seen.queue()).is_some();
            let is_told = is_bound || is_like || seen.grows().is_some();
            (is_told || self.sets.unmet.contains(id))
                && self.wants(seen)
                && !self.resting.contains_key(id)
        });
        waiting.map(|(id, _)| self.want(*id)).collect()
    }

    /// Whether a job that never fits waits all the same, and says this: its queue, or that of one of its
    /// gang, may have come to require what leaves it nothing, or an instance to lend less of its home, and either
    /// may come to be something else.
    pub(super) fn waits_for_queue(&mut self, id: JobId, reason: &Reason, out: &mut Outbox) -> bool {
        let mates = self.mates(id);
        let gang = std::iter::once(&id).chain(&mates);
        let mut gang = gang.filter_map(|id| Some((*id, self.jobs.get(id)?)));
        let explained = gang.find_map(|(id, seen)| {
            let requires = &self.sets.requires;
            let by_queue = match self.sets.origin {
                Origin::Start => None,
                Origin::Change => requires.explain(seen.queue(), reason),
            };
            by_queue.or_else(|| self.not_lent(id, seen, reason))
        });
        let Some(reason) = explained else {
            return false;
        };
        self.sets.unmet.insert(id);
        out.notice(Notice::Unmet(id, Some(reason)));
        true
    }

    /// That it does not fit since instances lend it nothing of their homes, where they do not: since that changed, or
    /// since nodes that it would fit on beside them are gone.
    fn not_lent(&self, id: JobId, seen: &Seen, why: &Reason) -> Option<Reason> {
        let withheld = self.withheld_from(seen);
        // What all there is would take is not asked where nothing is withheld.
        let first = withheld.first()?.clone();
        if self.sets.origin == Origin::Start && !self.would_fit(id, seen, &withheld) {
            return None;
        }
        Some(Reason::NotLent {
            instance: first.instance,
            most: first.most,
            ranks: first.ranks,
            why: why.to_string(),
        })
    }

    /// Whether it would, were all free and these lent to it.
    fn would_fit(&self, id: JobId, seen: &Seen, withheld: &[Lent]) -> bool {
        let mut request = self.asks(id, seen).request;
        let lent = withheld.iter().map(|one| &one.ranks);
        request.ranks = request
            .ranks
            .map(|own| lent.fold(own, |all, more| all.union(more)));
        let all = self.inventory.as_deref().map(Capacity::of);
        all.is_some_and(|all| all.feasible(&request).is_ok())
    }

    /// What such jobs wait for may be there now: the planner looks again, and says so anew if not.
    pub(super) fn looks_again(&mut self, kind: &Kind, job: Option<JobId>, out: &mut Outbox) {
        if self.sets.unmet.is_empty() {
            return;
        }
        let unmet = self.sets.unmet.iter().copied();
        let met: Vec<JobId> = match (kind, job) {
            (Kind::Memo(memo), None) if Change::told(memo).is_some() => unmet.collect(),
            (Kind::ResourceDefine(..), None) => unmet.collect(),
            (Kind::JobspecUpdate(_) | Kind::Clean, Some(job)) => {
                unmet.filter(|id| *id == job).collect()
            }
            (Kind::Alloc(_) | Kind::GrantChanged(_) | Kind::Free, Some(job)) => {
                let seen = self.jobs.get(&job);
                let Some(name) = seen.and_then(|seen| Sets::name(&seen.submit)) else {
                    return;
                };
                // The planner is not asked again for that of which jobs have nothing: it would say nothing anew.
                if self.sets.elastic.contains_key(name) {
                    return;
                }
                let to = |id: &JobId| self.jobs.get(id)?.to.as_ref();
                unmet
                    .filter(|id| to(id).is_some_and(|to| &*to.name == name))
                    .collect()
            }
            _ => return,
        };
        for id in met {
            self.sets.unmet.remove(&id);
            out.notice(Notice::Unmet(id, None));
        }
    }

    /// Plans a job again a little later: its instance is to get ground where it was placed.
    pub(super) fn soon(&mut self, now: Time, id: JobId, out: &mut Outbox) {
        let until = now.after(SOON);
        self.resting.insert(id, until);
        out.volatile(Volatile::Wake(until));
    }

    /// Whether a job that came back is not to be planned yet.
    pub(super) fn rests(&mut self, now: Time, id: JobId, out: &mut Outbox) -> bool {
        let seen = self.jobs.get_mut(&id);
        let Some(seen) = seen.filter(|seen| seen.rest == Rest::Due) else {
            return false;
        };
        seen.rest = Rest::Had;
        let doublings = (seen.recalls - 1).min(REST_DOUBLINGS);
        let until = now.after(Span(REST.0 << doublings));
        let instance = seen.to.as_ref().map(|to| to.name.to_string());
        let reason = Reason::CameBack {
            instance: instance.unwrap_or_default(),
            recalls: seen.recalls,
        };
        self.resting.insert(id, until);
        out.volatile(Volatile::Wake(until));
        out.notice(Notice::Unmet(id, Some(reason)));
        true
    }

    /// Those who have rested are planned again.
    pub(super) fn try_again(&mut self, now: Time, out: &mut Outbox) {
        let rested: Vec<JobId> = self
            .resting
            .extract_if(.., |_, until| *until <= now)
            .map(|(job, _)| job)
            .collect();
        for job in &rested {
            out.notice(Notice::Unmet(*job, None));
        }
        if !rested.is_empty() {
            let wants = rested.into_iter().map(|job| self.want(job)).collect();
            out.volatile(Volatile::Plan(wants));
        }
    }
}
