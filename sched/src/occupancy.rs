//! The nodes of an instance over time: what is free now, what comes back when,
//! what is promised from when to when. The [`Room`] of a running instance.
//!
//! Owned by the planner, which tells it what jobs hold and until when; searched
//! by the walk. Cores and GPUs of what is held have numbers, what is promised is
//! amounts of nodes: any cores will do by then. Where jobs end later than they
//! said, nothing here is wrong but the times.

mod allowed;
mod ask;
mod blocked;
mod claims;
mod closed;
mod endless;
mod firsts;
mod gangs;
mod layers;
mod misses;
mod moved;
mod pools;
mod profiles;
mod promises;
mod returns;
mod sockets;
mod stays;
mod sweep;
mod wider;

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Sharing, Work};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use crate::accounts::{Accounts, Gate};
use crate::inventory::{Inventory, Kept, WasHeld};
use crate::need::Need;
use crate::placement::{Chosen, Order, Short, choose_ranked, granted_parts};
use crate::policy::{NodeRank, Policy};
use crate::rooms::{Room as Amounts, Rooms};
use crate::table::Table;
use crate::together::{Field, Placed};
use crate::walk::{Blocked, Ceiling, Room};
pub(crate) use ask::{Ask, Spot, Started};
use ask::{spot, takes, whole};
pub(crate) use claims::{Found, Left};
use closed::Closures;
pub(crate) use closed::{Cause, Closure, Side};
pub(crate) use endless::Now;
use firsts::Firsts;
use layers::Layers;
use misses::Misses;
use pools::Pools;
use profiles::Profiles;
use promises::{Promise, Promises};
use returns::Return;
pub(crate) use returns::parts;
use sockets::There;
use wider::Width;

/// How late an end is counted that should have been before now.
const OVERDUE: Span = Span::seconds(1);

/// Steps of the ceiling: bounds for longer spans are those of the last.
const CEILING_STEPS: usize = 8;

/// A promise: from then on.
#[derive(Clone, Debug)]
struct Booked {
    from: Time,
    until: Time,
    /// Its number among promises.
    number: u64,
    spot: Spot,
}

impl Booked {
    /// Whether it has a part of the node at this place.
    fn has(&self, at: usize) -> bool {
        // Nodes are chosen from the lowest up.
        let chosen = &self.spot.chosen;
        chosen.binary_search_by_key(&at, |chosen| chosen.at).is_ok()
    }
}

/// The nodes over time.
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    inventory: Inventory,
    /// Which of the nodes that would do are taken.
    rank: NodeRank,
    /// What is given to who leaves his number of nodes open.
    width: Width,
    now: Time,
    /// What comes back when, by the job that holds it.
    ends: BTreeMap<(Time, JobId), Arc<ResourceSet>>,
    /// The same by node, with what of it comes back.
    returns: Vec<Vec<Return>>,
    /// By their beginning.
    bookings: Vec<Booked>,
    /// The same by node.
    promises: Promises,
    profiles: Profiles,
    /// How many promises there ever were.
    numbered: u64,
    closures: Closures,
    pools: Pools,
    layers: Layers,
    misses: Misses,
    firsts: Firsts,
    /// What each account holds, and how much more may be started.
    accounts: Accounts,
    gate: Gate,
    /// What the walk took for jobs that start, until the planner asks for it.
    fresh: BTreeMap<JobId, Vec<Started>>,
}

impl Occupancy {
    /// No nodes yet, and nothing held, by a policy.
    pub fn new(policy: &Policy) -> Occupancy {
        let mut occupancy = Occupancy {
            inventory: Inventory::default(),
            rank: NodeRank::LowId,
            width: Width::Most,
            now: Time(0),
            ends: BTreeMap::new(),
            returns: Vec::new(),
            bookings: Vec::new(),
            promises: Promises::default(),
            profiles: Profiles::default(),
            numbered: 0,
            closures: Closures::default(),
            pools: Pools::default(),
            layers: Layers::default(),
            misses: Misses::default(),
            firsts: Firsts::default(),
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
        self.width = Width::of(policy);
        self.inventory.keep(match rank {
            NodeRank::LowId | NodeRank::FirstFit | NodeRank::HighId | NodeRank::Locality => {
                Kept::ByRank
            }
            NodeRank::Pack | NodeRank::Spread | NodeRank::BestFit => Kept::ByUse,
        });
        self.layers.clear();
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
        self.profiles.forget_all();
        self.layers.clear();
        self.misses.forget();
        self.firsts.clear();
    }

    /// Another inventory; nothing may be promised meanwhile.
    pub fn define(&mut self, change: impl FnOnce(&mut Inventory)) {
        self.without_closures(|room| room.redefine(change));
    }

    fn redefine(&mut self, change: impl FnOnce(&mut Inventory)) {
        change(&mut self.inventory);
        self.returns = vec![Vec::new(); self.inventory.len()];
        self.promises = Promises::none(self.inventory.len());
        self.profiles = Profiles::none(self.inventory.len());
        for ((until, job), set) in self.ends.clone() {
            self.note_returns(until, job, &set);
        }
        self.layers.clear();
        self.misses.forget();
        self.firsts.clear();
    }

    /// The time it is.
    pub fn now(&self) -> Time {
        self.now
    }

    /// It is now this time.
    pub fn at(&mut self, now: Time) {
        self.now = now;
        self.gate.at(now);
        self.misses.clear();
    }

    /// A job holds this until then.
    pub fn hold(&mut self, job: JobId, set: &Arc<ResourceSet>, until: Time) {
        self.inventory.take(set);
        self.note(job, set, until);
    }

    /// What a job held is free, as far as it is in nothing of what is `left`. What is promised of a node
    /// that was held twice cannot be relied on: it seemed to come back twice.
    pub fn release<'h>(
        &mut self,
        job: JobId,
        set: &ResourceSet,
        until: Time,
        left: impl Iterator<Item = &'h ResourceSet> + Clone,
    ) -> WasHeld {
        self.pools.give(job);
        let was = self.inventory.give(set, left);
        self.forget_return(job, set, until);
        self.refresh(set);
        was
    }

    /// The grant of a job that the walk starts and when it is planned to be given back, or those of
    /// its gang, if what it was promised is there; it is held from here on, as by [`Occupancy::hold`].
    pub fn start(&mut self, spot: &Spot, span: Span) -> Option<Vec<Started>> {
        if let Some(fresh) = self.fresh.remove(&spot.ask.job) {
            return Some(fresh);
        }
        // It was promised for now.
        self.unbook(spot);
        if !self.pools_have(&spot.ask) {
            return None;
        }
        let granted = self.grant(spot, self.now, span);
        granted.filter(|started| !started.is_empty())
    }

    /// Whether there is too little for a spot as long as this is kept of its nodes; for sockets there may be.
    pub fn lacks(&self, spot: &Spot, kept: &ResourceSet) -> bool {
        let kept: BTreeMap<usize, Amounts> = parts(&self.inventory, kept).collect();
        takes(&self.inventory, spot).any(|(at, takes)| {
            let left = kept
                .get(&at)
                .map(|kept| self.inventory.capacity(at).without(kept));
            left.is_some_and(|left| spot.ask.need.sockets.is_some() || !left.holds(&takes))
        })
    }

    /// Whether these nodes are all in service.
    pub fn serves(&self, spot: &Spot) -> bool {
        spot.places().all(|at| self.inventory.is_serving(at))
    }

    /// Takes it of what is free now, if all of it is there, as grants from the time of the pass on: a
    /// pass of many slices promised by its own time.
    fn grant(&mut self, spot: &Spot, from: Time, span: Span) -> Option<Vec<Started>> {
        let wider = self.wider(spot, from.after(span));
        let spot = wider.as_ref().unwrap_or(spot);
        let mut sets = Vec::new();
        for (ask, chosen) in spot.parts() {
            let Some(set) = self.grant_one(ask, chosen, (from, span)) else {
                let none = std::iter::empty();
                for (_, set) in &sets {
                    self.inventory.give(set, none.clone());
                }
                return None;
            };
            sets.push((ask, set));
        }
        let mut started = Vec::new();
        for (ask, set) in sets {
            let set = Arc::new(set);
            let until = from.after(spot.ask.span_of(ask.job, span));
            self.use_pools(ask.job, ask.want.pools.clone(), until);
            self.note(ask.job, &set, until);
            self.charge(ask);
            started.push((ask.job, set, until));
        }
        Some(started)
    }

    fn grant_one(
        &mut self,
        ask: &Ask,
        chosen: &[Chosen],
        (from, span): (Time, Span),
    ) -> Option<ResourceSet> {
        let Ask { want, need, .. } = ask;
        let rooms = self.rooms(need.sharing);
        let there = |chosen: &Chosen| match need.sharing {
            Sharing::Shared => rooms.room(chosen.at).holds(&need.room(chosen.slots)),
            Sharing::Exclusive => rooms.has(chosen.at),
        };
        if !chosen.iter().all(there) {
            return None;
        }
        let until = self.now.max(from).after(span);
        let mut nodes = BTreeMap::new();
        for one in chosen {
            let part = self.part(ask, one, until)?;
            nodes.insert(self.inventory.node(one.at).rank, part);
        }
        let set = granted_parts(&self.inventory, &want.request, nodes, from);
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

    /// Where it fits now, all the way to a time. Its ranks are all there.
    fn fit_now(&mut self, ask: &Ask, until: Time) -> Result<Placed, Short> {
        let within = self.inventory.all().within(&ask.want.request);
        // What is free for spans that reach beyond so many bookings.
        let last = self.begun_by(until).checked_sub(1);
        if let Some(last) = last {
            self.build(last);
        }
        let rooms = |sharing| match last {
            None => self.rooms(sharing),
            Some(last) => self.layers.rooms(last, sharing),
        };
        if let Some(joint) = ask.joint() {
            let (shared, idle) = (rooms(Sharing::Shared), rooms(Sharing::Exclusive));
            let there = There::Over(self.now, until);
            let field = Field { shared, idle };
            return self.place_joint((ask, joint), (field, there), self.rank);
        }
        let rooms = rooms(ask.need.sharing);
        choose_ranked(self.order(self.rank), rooms, &within, &ask.need).map(Placed::from)
    }

    fn book(&mut self, spot: Spot, from: Time, until: Time) {
        self.numbered += 1;
        let of = self.numbered;
        let pins = self.pins(&spot, from, until);
        for (at, takes) in takes(&self.inventory, &spot) {
            let pin = pins.get(&at).cloned();
            let promise = Promise {
                from,
                until,
                of,
                job: spot.ask.job,
                takes: match pin {
                    None => takes,
                    Some(_) => whole(&self.inventory, at),
                },
                pin,
            };
            self.promises.add(at, promise);
            self.profiles.forget(at);
        }
        self.pools.promise(of, &spot.ask.want.pools, from, until);
        let at = self.bookings.partition_point(|one| one.from <= from);
        let booked = Booked {
            from,
            until,
            number: of,
            spot,
        };
        self.bookings.insert(at, booked);
        self.layers.cut(at);
    }

    fn unbook(&mut self, spot: &Spot) {
        if let Some(at) = self.bookings.iter().position(|one| one.spot.is(spot)) {
            let Booked {
                from, number, spot, ..
            } = self.bookings.remove(at);
            for node in spot.places() {
                self.promises.remove(node, from, number);
                self.profiles.forget(node);
            }
            self.pools.unpromise(number);
            self.layers.cut(at);
            self.misses.clear();
        }
    }
}

impl Room for Occupancy {
    type Need = Arc<Ask>;
    type Spot = Spot;

    /// Cores. What closures do not concern may fit where none are free to others.
    fn least(&self, ask: &Arc<Ask>) -> u64 {
        // Nor do those know each other's sockets by what is left to others.
        let declared = matches!(&ask.want.request.work, Work::Instance { name: Some(_) });
        if declared || ask.need.sockets.is_some() {
            return 0;
        }
        let least = |need: &Need| {
            let each = need.least().cores;
            match need.sharing {
                Sharing::Shared => each.saturating_mul(need.count()),
                Sharing::Exclusive => each.max(1).saturating_mul(need.count()),
            }
        };
        match &ask.gang {
            None => least(&ask.need),
            Some(gang) => gang.least(|member| least(&member.need)),
        }
    }

    fn ceiling(&mut self, now: Time, ceiling: &mut Ceiling) {
        *ceiling = Ceiling::default();
        let steps = self.bookings.len().min(CEILING_STEPS);
        if let Some(last) = steps.checked_sub(1) {
            self.build(last);
        }
        let mut most = self.inventory.free().totals().cores;
        for (at, booked) in self.bookings.iter().enumerate().take(steps) {
            if booked.from > now {
                ceiling.step(booked.from - now, most);
            }
            most = self.layers.cores(at);
        }
        if !ceiling.is_full() {
            ceiling.step(Span(i64::MAX), most);
        }
    }

    fn fit(&mut self, ask: &Arc<Ask>, now: Time, span: Span) -> Result<Spot, Blocked> {
        if self.is_let_in(ask) {
            return self.let_in(ask, |room| Room::fit(room, ask, now, span));
        }
        if self.lacks_ranks(ask) || self.outlasts(ask, now).is_some() {
            return Err(Blocked::Never);
        }
        if self.is_limited(ask) {
            return Err(Blocked::Limited);
        }
        if !self.pools_fit(ask, now, span) {
            let never = self.pool_never(ask);
            return Err(never.map_or(Blocked::Reserved, |_| Blocked::Never));
        }
        if self.misses.has(ask, now, span) {
            return Err(match self.is_possible(ask) {
                true => Blocked::Reserved,
                false => self.blocked(ask),
            });
        }
        match self.fit_open(ask, now, span) {
            Some(chosen) => Ok(spot(ask, chosen)),
            None => {
                // Whoever has a limit may fit all the same.
                if !self.is_endless(ask, span) {
                    self.misses.note(ask, now, span);
                }
                match self.choose_free(ask) {
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
        if self.is_let_in(ask) {
            return self.let_in(ask, |room| room.earliest(ask, from, span));
        }
        if self.lacks_ranks(ask) || self.outlasts(ask, from).is_some() {
            return Err(Blocked::Never);
        }
        if self.is_limited(ask) {
            return Err(Blocked::Limited);
        }
        let found = self.with_pools(ask, (from, None), span, |room, from| {
            // With promises in the way of it the search over time says more for less.
            if room.begun_by(from.after(span)) == 0
                && from <= room.now
                && let Some(chosen) = room.fit_open(ask, from, span)
            {
                return Some((from, chosen));
            }
            room.sweep_open(ask, (from, None), span)
        });
        match found {
            // What runs may be over sooner than it says.
            Some((at, _)) if self.outlasts(ask, at).is_some() => Err(Blocked::NotInService),
            Some((at, chosen)) => Ok((at, spot(ask, chosen))),
            None => match self.blocked(ask) {
                Blocked::Busy { .. } | Blocked::Reserved => Err(Blocked::NotInService),
                why @ (Blocked::NotInService | Blocked::Limited | Blocked::Never) => Err(why),
            },
        }
    }

    fn sooner(
        &mut self,
        ask: &Arc<Ask>,
        from: Time,
        (old, at): (&Spot, Time),
        span: Span,
    ) -> Option<(Time, Spot)> {
        self.move_between(ask, (from, at), (old, at), span)
    }

    fn at_once(
        &mut self,
        ask: &Arc<Ask>,
        now: Time,
        (old, at): (&Spot, Time),
        span: Span,
    ) -> Option<Spot> {
        if !self.may_begin(ask) {
            return None;
        }
        let before = Time(now.0.saturating_add(1));
        let moved = self.move_between(ask, (now, before), (old, at), span);
        moved.map(|(_, spot)| spot)
    }

    fn takes_back(&self, ask: &Arc<Ask>) -> bool {
        ask.want.back.is_some()
    }

    fn admits(&mut self, ask: &Arc<Ask>) -> bool {
        // What was granted just now has been charged already.
        self.fresh.contains_key(&ask.job) || !self.is_limited(ask)
    }

    fn take(&mut self, spot: &Spot, from: Time, span: Span) {
        // What is due and not there, since somebody ends late, stays a promise.
        if from <= self.now
            && self.pools_have(&spot.ask)
            && let Some(started) = self.grant(spot, from, span)
        {
            self.fresh.insert(spot.ask.job, started);
            return;
        }
        self.book(spot.clone(), from, from.after(span.max(Span(1))));
    }

    fn give(&mut self, spot: &Spot, _: Time, _: Span) {
        let job = spot.ask.job;
        match self.fresh.remove(&job) {
            // It was to start, and nobody asked for its grant: whose cores those are nobody knows yet.
            Some(started) => {
                for (job, set, until) in started {
                    self.release(job, &set, until, std::iter::empty());
                }
            }
            None => self.unbook(spot),
        }
    }

    fn forget(&mut self, _: Time) {}
}

#[cfg(test)]
mod tests;
