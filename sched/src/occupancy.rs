//! The nodes of an instance over time: what is free now, what comes back when,
//! what is promised from when to when. The [`Room`] of a running instance.
//!
//! Owned by the planner, which tells it what jobs hold and until when; searched
//! by the walk. Cores and GPUs of what is held have numbers, what is promised is
//! amounts of nodes: any cores will do by then. Where jobs end later than they
//! said, nothing here is wrong but the times.

mod layers;

mod ready;

mod sweep;

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::plan::{Owner, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use crate::accounts::{Accounts, Gate, Stop};
use crate::amounts::Amounts as Sums;
use crate::inventory::{Inventory, Kept};
use crate::need::Need;
use crate::placement::{Chosen, Order, Short, choose, choose_ranked, granted};
use crate::policy::{NodeRank, Policy};
use crate::rooms::{Room as Amounts, Rooms};
use crate::table::Table;
use crate::walk::{Blocked, Ceiling, Room};
use layers::Layers;

/// What passes between the end of a job's limit and its resources being free: its end is asked
/// for, waited for, forced and recorded.
pub(crate) const CLEANUP: Span = Span::seconds(10);

/// How late an end is counted that should have been before now.
const OVERDUE: Span = Span::seconds(1);

/// Steps of the ceiling: bounds for longer spans are those of the last.
const CEILING_STEPS: usize = 8;

/// A job's request, and what it comes to.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub job: JobId,
    pub want: Arc<Want>,
    pub need: Need,
}

impl Ask {
    pub fn new(job: JobId, want: Arc<Want>) -> Arc<Ask> {
        let need = Need::of(&want.request);
        Arc::new(Ask { job, want, need })
    }
}

impl Ask {
    /// What all asks have in common that no placement can tell apart; none where ranks are named.
    pub fn shape(&self) -> Option<Need> {
        self.want.request.ranks.is_none().then_some(self.need)
    }
}

/// Whether there is room now.
pub(crate) enum Now {
    Fits(Spot),
    NoRoom,
    Never,
}

/// Slots on nodes, held or promised.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    ask: Arc<Ask>,
    chosen: Arc<[Chosen]>,
}

impl Spot {
    /// Whether it is this very one, not one alike.
    fn is(&self, other: &Spot) -> bool {
        Arc::ptr_eq(&self.chosen, &other.chosen)
    }

    fn sharing(&self) -> Sharing {
        self.ask.need.sharing
    }

    /// The nodes, by their places in the inventory.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.chosen.iter().map(|chosen| chosen.at)
    }
}

/// A promise: from then until then.
#[derive(Clone, Debug)]
struct Booked {
    from: Time,
    until: Time,
    spot: Spot,
}

impl Booked {
    fn is_active(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }

    /// What it takes of the node at this place.
    fn takes(&self, inventory: &Inventory, at: usize) -> Option<Amounts> {
        // Nodes are chosen from the lowest up.
        let chosen = &self.spot.chosen;
        let place = chosen.binary_search_by_key(&at, |chosen| chosen.at).ok()?;
        Some(amounts(inventory, &self.spot, &chosen[place]))
    }
}

/// What a set has of each node, by place. A job that takes nothing has no part of its nodes.
fn parts<'s>(
    inventory: &'s Inventory,
    set: &'s ResourceSet,
) -> impl Iterator<Item = (usize, Amounts)> + 's {
    let parts = set.nodes.iter().filter(|(_, part)| !part.is_empty());
    parts.filter_map(|(&rank, part)| {
        let amounts = Amounts {
            cores: part.cores.len(),
            gpus: part.gpus.len(),
            memory: part.memory,
        };
        Some((inventory.place_of(rank)?, amounts))
    })
}

/// What a job gives back of a node, and when.
#[derive(Clone, Copy, Debug)]
struct Return {
    until: Time,
    job: JobId,
    back: Amounts,
}

impl Return {
    fn key(&self) -> (Time, JobId) {
        (self.until, self.job)
    }
}

fn amounts(inventory: &Inventory, spot: &Spot, chosen: &Chosen) -> Amounts {
    match spot.sharing() {
        Sharing::Shared => spot.ask.need.room(chosen.slots),
        Sharing::Exclusive => inventory.capacity(chosen.at),
    }
}

/// The nodes over time.
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    inventory: Inventory,
    /// Which of the nodes that would do are taken.
    rank: NodeRank,
    now: Time,
    /// What comes back when, by the job that holds it.
    ends: BTreeMap<(Time, JobId), Arc<ResourceSet>>,
    /// The same by node, with what of it comes back.
    returns: Vec<Vec<Return>>,
    /// By their beginning.
    bookings: Vec<Booked>,
    layers: Layers,
    /// What each account holds, and how much more may be started.
    accounts: Accounts,
    gate: Gate,
    /// What the walk took for jobs that start, until the planner asks for it.
    fresh: BTreeMap<JobId, (Arc<ResourceSet>, Time)>,
}

impl Occupancy {
    /// No nodes yet, and nothing held, by a policy.
    pub fn new(policy: &Policy) -> Occupancy {
        let mut occupancy = Occupancy {
            inventory: Inventory::default(),
            rank: NodeRank::LowId,
            now: Time(0),
            ends: BTreeMap::new(),
            returns: Vec::new(),
            bookings: Vec::new(),
            layers: Layers::default(),
            accounts: Accounts::default(),
            gate: Gate::new(policy),
            fresh: BTreeMap::new(),
        };
        occupancy.obey(policy);
        occupancy
    }

    /// Places and limits by this policy from now on.
    pub fn obey(&mut self, policy: &Policy) {
        self.gate.obey(policy);
        let rank = Table::rank(policy);
        self.rank = rank;
        self.inventory.keep(match rank {
            NodeRank::LowId | NodeRank::FirstFit | NodeRank::HighId | NodeRank::Locality => {
                Kept::ByRank
            }
            NodeRank::Pack | NodeRank::Spread | NodeRank::BestFit => Kept::ByUse,
        });
        self.layers.clear();
    }

    /// What each account holds.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The same, to be told of starts and ends.
    pub fn accounts_mut(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// How much may be started.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// A pass begins.
    pub fn begin(&mut self, now: Time) {
        self.gate.begin(now);
    }

    /// Nothing is limited any more: of a copy on which something is tried.
    pub fn open(&mut self) {
        self.gate = Gate::default();
    }

    /// Whether a job of somebody may start that asks for so much.
    pub fn pass(&mut self, owner: &Owner, asks: &Sums) -> Result<(), Stop> {
        self.gate.pass(&self.accounts, owner, asks)
    }

    /// The limit that would hold it back now.
    pub fn limit(&self, ask: &Ask) -> Option<Stop> {
        let asks = self.accounts.asks(&ask.need);
        self.gate.look(&self.accounts, &ask.want.owner, &asks).err()
    }

    fn is_limited(&mut self, ask: &Ask) -> bool {
        if self.gate.is_open() {
            return false;
        }
        let asks = self.accounts.asks(&ask.need);
        self.pass(&ask.want.owner, &asks).is_err()
    }

    fn charge(&mut self, ask: &Ask) {
        if !self.gate.is_open() {
            let asks = self.accounts.asks(&ask.need);
            self.gate.charge(&ask.want.owner, &asks);
        }
    }

    /// Whether it fits now for so long; of what does not, only whether it ever could.
    pub fn fits(&mut self, ask: &Arc<Ask>, now: Time, span: Span) -> Now {
        if self.lacks_ranks(ask) {
            return Now::Never;
        }
        if let Ok(chosen) = self.fit_now(ask, now.after(span)) {
            return Now::Fits(spot(ask, chosen));
        }
        let within = self.inventory.all().within(&ask.want.request);
        match choose(self.inventory.all().rooms(), &within, &ask.need) {
            Ok(_) => Now::NoRoom,
            Err(_) => Now::Never,
        }
    }

    fn order(&self, rank: NodeRank) -> Order<'_> {
        let totals = self.inventory.all().rooms();
        Order { rank, totals }
    }

    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Other ranks are in service.
    pub fn serve(&mut self, change: impl FnOnce(&mut Inventory)) {
        change(&mut self.inventory);
        self.layers.clear();
    }

    /// Another inventory; nothing may be promised meanwhile.
    pub fn define(&mut self, change: impl FnOnce(&mut Inventory)) {
        change(&mut self.inventory);
        self.returns = vec![Vec::new(); self.inventory.len()];
        for ((until, job), set) in self.ends.clone() {
            self.note_returns(until, job, &set);
        }
        self.layers.clear();
    }

    /// The time it is.
    pub fn now(&self) -> Time {
        self.now
    }

    /// It is now this time.
    pub fn at(&mut self, now: Time) {
        self.now = now;
    }

    /// A job holds this until then.
    pub fn hold(&mut self, job: JobId, set: &Arc<ResourceSet>, until: Time) {
        self.inventory.take(set);
        self.note(job, set, until);
        self.refresh(set);
    }

    /// What a job held is free, as far as it is in nothing of what is `left`.
    pub fn release<'h>(
        &mut self,
        job: JobId,
        set: &ResourceSet,
        until: Time,
        left: impl Iterator<Item = &'h ResourceSet> + Clone,
    ) {
        self.inventory.give(set, left);
        self.ends.remove(&(until, job));
        for (at, _) in parts(&self.inventory, set) {
            let returns = &mut self.returns[at];
            if let Ok(place) = returns.binary_search_by_key(&(until, job), Return::key) {
                returns.remove(place);
            }
        }
        self.refresh(set);
    }

    /// The grant of a job that the walk starts and when it is planned to be given back, if what it
    /// was promised is there; it is held from here on, as by [`Occupancy::hold`].
    pub fn start(&mut self, spot: &Spot, span: Span) -> Option<(Arc<ResourceSet>, Time)> {
        if let Some(fresh) = self.fresh.remove(&spot.ask.job) {
            return Some(fresh);
        }
        // It was promised for now.
        self.unbook(spot);
        let set = Arc::new(self.grant(spot, self.now)?);
        self.charge(&spot.ask);
        let until = self.now.after(span);
        self.note(spot.ask.job, &set, until);
        self.refresh(&set);
        Some((set, until))
    }

    /// Whether these nodes are all in service.
    pub fn serves(&self, spot: &Spot) -> bool {
        spot.places().all(|at| self.inventory.is_serving(at))
    }

    fn note(&mut self, job: JobId, set: &Arc<ResourceSet>, until: Time) {
        self.ends.insert((until, job), Arc::clone(set));
        self.note_returns(until, job, set);
    }

    fn note_returns(&mut self, until: Time, job: JobId, set: &ResourceSet) {
        for (at, back) in parts(&self.inventory, set) {
            let returns = &mut self.returns[at];
            let back = Return { until, job, back };
            match returns.binary_search_by_key(&(until, job), Return::key) {
                Ok(place) => returns[place] = back,
                Err(place) => returns.insert(place, back),
            }
        }
    }

    /// Takes it of what is free now, if it is there, as a grant from the time of the pass on: a pass
    /// of many slices promised by its own time. When it ends is to be noted before what rests on it
    /// is refreshed.
    fn grant(&mut self, spot: &Spot, from: Time) -> Option<ResourceSet> {
        let Ask { want, need, .. } = &*spot.ask;
        let rooms = self.rooms(need.sharing);
        let there = |chosen: &Chosen| match need.sharing {
            Sharing::Shared => rooms.room(chosen.at).holds(&need.room(chosen.slots)),
            Sharing::Exclusive => rooms.has(chosen.at),
        };
        if !spot.chosen.iter().all(there) {
            return None;
        }
        let set = granted(&self.inventory, &want.request, need, &spot.chosen, from);
        self.inventory.take(&set);
        Some(set)
    }

    fn rooms(&self, sharing: Sharing) -> &Rooms {
        match sharing {
            Sharing::Shared => self.inventory.free(),
            Sharing::Exclusive => self.inventory.idle(),
        }
    }

    /// How many bookings begin before this time.
    fn begun_by(&self, until: Time) -> usize {
        self.bookings.partition_point(|booked| booked.from < until)
    }

    /// What is free of a node at a time from now on, if all end when they are to.
    fn free_at(&self, at: usize, time: Time) -> Amounts {
        let (mut free, _) = self.given_back(at, time);
        for booked in self.bookings.iter().filter(|one| one.is_active(time)) {
            if let Some(taken) = booked.takes(&self.inventory, at) {
                free = free.without(&taken);
            }
        }
        free
    }

    /// What is free of a node by a time, promises aside, and how many still hold a part of it.
    fn given_back(&self, at: usize, time: Time) -> (Amounts, u64) {
        let mut free = self.inventory.free().room(at);
        let mut held = self.inventory.node(at).holdings();
        let returns = self.returns[at].iter();
        for one in returns.take_while(|one| self.ends_at(one.until) <= time) {
            free = free.with(&one.back);
            held = held.saturating_sub(1);
        }
        (free, held)
    }

    /// When what is to end then is counted as free.
    fn ends_at(&self, until: Time) -> Time {
        until.max(self.now + OVERDUE)
    }

    /// Where it fits now, all the way to a time. Its ranks are all there.
    fn fit_now(&mut self, ask: &Ask, until: Time) -> Result<Vec<Chosen>, Short> {
        let within = self.inventory.all().within(&ask.want.request);
        // What is free for spans that reach beyond so many bookings.
        let last = self.begun_by(until).checked_sub(1);
        if let Some(last) = last {
            self.build(last);
        }
        let rooms = match last {
            None => self.rooms(ask.need.sharing),
            Some(last) => self.layers.rooms(last, ask.need.sharing),
        };
        choose_ranked(self.order(self.rank), rooms, &within, &ask.need)
    }

    fn unbook(&mut self, spot: &Spot) {
        if let Some(at) = self.bookings.iter().position(|one| one.spot.is(spot)) {
            self.bookings.remove(at);
            self.layers.cut(at);
        }
    }
}

impl Room for Occupancy {
    type Need = Arc<Ask>;
    type Spot = Spot;

    /// Cores.
    fn least(&self, ask: &Arc<Ask>) -> u64 {
        let each = ask.need.least().cores;
        match ask.need.sharing {
            Sharing::Shared => each.saturating_mul(ask.need.count()),
            Sharing::Exclusive => each.max(1).saturating_mul(ask.need.count()),
        }
    }

    fn ceiling(&self, now: Time, ceiling: &mut Ceiling) {
        *ceiling = Ceiling::default();
        let mut most = self.inventory.free().totals().cores;
        for (at, booked) in self.bookings.iter().enumerate().take(CEILING_STEPS) {
            if booked.from > now {
                ceiling.step(booked.from - now, most);
            }
            match self.layers.built(at) {
                Some(cores) => most = cores,
                None => break,
            }
        }
        if !ceiling.is_full() {
            ceiling.step(Span(i64::MAX), most);
        }
    }

    fn fit(&mut self, ask: &Arc<Ask>, now: Time, span: Span) -> Result<Spot, Blocked> {
        if self.lacks_ranks(ask) {
            return Err(Blocked::Never);
        }
        if self.is_limited(ask) {
            return Err(Blocked::Limited);
        }
        match self.fit_now(ask, now.after(span)) {
            Ok(chosen) => Ok(spot(ask, chosen)),
            Err(_) => {
                let within = self.inventory.all().within(&ask.want.request);
                match choose(self.rooms(ask.need.sharing), &within, &ask.need) {
                    Ok(_) => Err(Blocked::Reserved),
                    Err(_) => Err(self.blocked(ask)),
                }
            }
        }
    }

    fn earliest(
        &mut self,
        ask: &Arc<Ask>,
        from: Time,
        span: Span,
    ) -> Result<(Time, Spot), Blocked> {
        if self.lacks_ranks(ask) {
            return Err(Blocked::Never);
        }
        if self.is_limited(ask) {
            return Err(Blocked::Limited);
        }
        if let Ok(chosen) = self.fit_now(ask, from.after(span)) {
            return Ok((from, spot(ask, chosen)));
        }
        match self.blocked(ask) {
            Blocked::Busy { .. } | Blocked::Reserved => {}
            why @ (Blocked::NotInService | Blocked::Limited | Blocked::Never) => return Err(why),
        }
        let (at, chosen) = self.sweep(ask, from, span).ok_or(Blocked::NotInService)?;
        Ok((at, spot(ask, chosen)))
    }

    fn admits(&mut self, ask: &Arc<Ask>) -> bool {
        !self.is_limited(ask)
    }

    fn take(&mut self, spot: &Spot, from: Time, span: Span) {
        // What is due and not there, since somebody ends late, stays a promise.
        if from <= self.now
            && let Some(set) = self.grant(spot, from)
        {
            let (set, until) = (Arc::new(set), from.after(span));
            self.note(spot.ask.job, &set, until);
            self.refresh(&set);
            self.charge(&spot.ask);
            self.fresh.insert(spot.ask.job, (set, until));
            return;
        }
        let until = from.after(span.max(Span(1)));
        let spot = spot.clone();
        let at = self.bookings.partition_point(|one| one.from <= from);
        self.bookings.insert(at, Booked { from, until, spot });
        self.layers.cut(at);
    }

    fn give(&mut self, spot: &Spot, _: Time, _: Span) {
        let job = spot.ask.job;
        match self.fresh.remove(&job) {
            // It was to start, and nobody asked for its grant: whose cores those are nobody knows yet.
            Some((set, until)) => self.release(job, &set, until, std::iter::empty()),
            None => self.unbook(spot),
        }
    }

    fn forget(&mut self, _: Time) {}
}

impl Occupancy {
    fn lacks_ranks(&self, ask: &Ask) -> bool {
        let ranks = ask.want.request.ranks.as_ref();
        ranks.is_some_and(|ranks| self.inventory.all().has_ranks(ranks).is_err())
    }

    /// What is in the way of a request that does not fit now.
    fn blocked(&self, ask: &Ask) -> Blocked {
        let within = self.inventory.all().within(&ask.want.request);
        if choose(self.inventory.all().rooms(), &within, &ask.need).is_err() {
            return Blocked::Never;
        }
        match choose(self.inventory.serving(), &within, &ask.need) {
            Err(_) => Blocked::NotInService,
            Ok(_) => Blocked::Busy {
                what: "slots",
                asked: ask.need.count(),
                free: 0,
            },
        }
    }
}

fn spot(ask: &Arc<Ask>, chosen: Vec<Chosen>) -> Spot {
    Spot {
        ask: Arc::clone(ask),
        chosen: chosen.into(),
    }
}
