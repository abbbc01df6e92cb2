//! Nodes that are closed from a time to a time: reserved for others, or out of the time of a
//! reservation; or from a time on, at which they go.
//!
//! A closure is kept among what is promised, on all of its nodes, so that every search goes around it.
//! It is nobody's, never starts, and ends by itself when its time is over. The instances that the
//! configuration declares are not kept out by reservations: what runs in them is. Of nodes that go whoever
//! takes what time is left is not kept off.

use std::collections::BTreeSet;
use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, Takes, Work};
use eddy_wire::plan::{Bar, Reason, Stay, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::{Ask, Occupancy, Spot};
use crate::joint::Joint;
use crate::placement::Chosen;

/// Nodes that nobody may have from a time to a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closure {
    pub cause: Cause,
    pub from: Time,
    pub until: Time,
    pub ranks: Idset,
}

/// Why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The reservation of this name.
    Reserved(Name, Side),
    /// They go: jobs are to be over there by then.
    Goes(Time),
}

/// Who is kept out, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Others, while it is on.
    Others,
    /// Those it is for, before it.
    Before,
    /// Those it is for, after it.
    After,
}

impl Closure {
    fn overlaps(&self, now: Time, span: Span) -> bool {
        self.from < now.after(span.max(Span(1))) && now < self.until
    }

    fn name(&self) -> Option<&Name> {
        match &self.cause {
            Cause::Reserved(name, _) => Some(name),
            Cause::Goes(_) => None,
        }
    }

    /// Whether it is closed to that request.
    fn concerns(&self, ask: &Ask) -> bool {
        match self.cause {
            Cause::Reserved(..) => {
                !matches!(&ask.want.request.work, Work::Instance { name: Some(_) })
            }
            Cause::Goes(_) => ask.lasts().is_some(),
        }
    }

    /// Why who is kept out by it does not start.
    pub(crate) fn reason(&self, now: Time) -> Reason {
        let (name, side) = match &self.cause {
            Cause::Reserved(name, side) => (name, side),
            Cause::Goes(at) => {
                let (ranks, at) = (self.ranks.clone(), *at);
                return Reason::Goes { ranks, at };
            }
        };
        let (bar, changes) = match side {
            Side::Others if self.from > now => (Bar::Ahead, self.from),
            Side::Others => (Bar::On, self.until),
            Side::Before => (Bar::Early, self.until),
            Side::After => (Bar::Late, self.from),
        };
        Reason::Reservation {
            name: name.clone(),
            bar,
            within: Span((changes - now).0.max(0)),
        }
    }
}

/// A closure, and where it is among what is promised.
#[derive(Clone, Debug)]
struct Closed {
    closure: Closure,
    spot: Spot,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Closures {
    all: Vec<Closed>,
    /// Those of nodes that go come from it.
    pub(super) stay: Stay,
}

impl Occupancy {
    /// Closes nodes. What was promised on them meanwhile is to be taken back before.
    pub fn close(&mut self, closure: Closure) {
        let places = closure.ranks.iter();
        let places = places.filter_map(|rank| self.inventory.place_of(eddy_wire::id::Rank(rank)));
        let chosen: Vec<Chosen> = places.map(|at| Chosen { at, slots: 1 }).collect();
        let spot = Spot {
            ask: nobodys(chosen.len()),
            chosen: chosen.into(),
            shares: Arc::default(),
        };
        if !spot.chosen.is_empty() {
            self.book(spot.clone(), closure.from, closure.until);
            self.misses.clear();
        }
        self.closures.all.push(Closed { closure, spot });
    }

    /// A reservation is no more: nothing is closed for it.
    pub fn reopen(&mut self, name: &Name) {
        self.reopen_where(|closure| matches!(&closure.cause, Cause::Reserved(of, _) if of == name));
    }

    /// What is known of nodes that go is told anew.
    pub fn nothing_goes(&mut self) {
        self.reopen_where(|closure| matches!(closure.cause, Cause::Goes(_)));
    }

    /// What was closed until now or before is not any more; whether anything was.
    pub fn lapse(&mut self) -> bool {
        let now = self.now;
        self.reopen_where(|closure| closure.until <= now)
    }

    fn reopen_where(&mut self, is_over: impl Fn(&Closure) -> bool) -> bool {
        let (over, kept) = std::mem::take(&mut self.closures.all)
            .into_iter()
            .partition(|one| is_over(&one.closure));
        let over: Vec<Closed> = over;
        self.closures.all = kept;
        over.iter().for_each(|one| self.unbook(&one.spot));
        !over.is_empty()
    }

    /// When something closed opens next.
    pub fn opens(&self) -> Option<Time> {
        let ends = self.closures.all.iter().map(|one| one.closure.until);
        ends.filter(|until| *until < Time(i64::MAX)).min()
    }

    /// When something closes that is open now.
    pub fn closings(&self) -> impl Iterator<Item = Time> + '_ {
        let begins = self.closures.all.iter().map(|one| one.closure.from);
        begins.filter(|from| *from > self.now)
    }

    /// Whether anything closes, or is closed.
    pub fn closes(&self) -> bool {
        !self.closures.all.is_empty()
    }

    /// When what is closed is open again, in no order.
    pub(super) fn ends(&self) -> impl Iterator<Item = Time> + '_ {
        self.closures.all.iter().map(|one| one.closure.until)
    }

    /// The nodes that are closed to a request at some time from then on.
    pub(super) fn closed_after(&self, ask: &Ask, from: Time) -> Idset {
        let later = self.closed_to(ask).filter(|one| one.until > from);
        later.fold(Idset::new(), |all, one| all.union(&one.ranks))
    }

    /// All closures are out of the way while something is done.
    pub(super) fn without_closures<T>(&mut self, act: impl FnOnce(&mut Occupancy) -> T) -> T {
        self.without(|_| true, act)
    }

    /// Those that do not concern a request are.
    pub(super) fn let_in<T>(&mut self, ask: &Ask, act: impl FnOnce(&mut Occupancy) -> T) -> T {
        self.without(|closure| !closure.concerns(ask), act)
    }

    fn without<T>(
        &mut self,
        is_out: impl Fn(&Closure) -> bool,
        act: impl FnOnce(&mut Occupancy) -> T,
    ) -> T {
        let (out, kept): (Vec<Closed>, Vec<Closed>) = std::mem::take(&mut self.closures.all)
            .into_iter()
            .partition(|one| is_out(&one.closure));
        self.closures.all = kept;
        out.iter().for_each(|one| self.unbook(&one.spot));
        let done = act(self);
        for one in out {
            self.close(one.closure);
        }
        done
    }

    /// Whether there are closures that do not concern a request.
    pub(super) fn is_let_in(&self, ask: &Ask) -> bool {
        let mut all = self.closures.all.iter();
        all.any(|one| !one.closure.concerns(ask))
    }

    /// Those that do.
    pub(super) fn closed_to(&self, ask: &Ask) -> impl Iterator<Item = &Closure> + Clone {
        let all = self.closures.all.iter().map(|one| &one.closure);
        all.filter(move |one| one.concerns(ask))
    }

    /// The reservation without which a request would have been `placed` now; or, where what is held keeps
    /// it from that, without which it could start for the span if nothing were held. It would have nodes of
    /// it.
    pub fn barred(
        &self,
        ask: &Ask,
        now: Time,
        span: Span,
        placed: Option<&ResourceSet>,
    ) -> Option<Reason> {
        let span = self.span_open(ask, span);
        let in_the_way = self.closed_to(ask);
        let in_the_way: Vec<&Closure> = in_the_way.filter(|one| one.overlaps(now, span)).collect();
        if in_the_way.is_empty() {
            return None;
        }
        let closed = in_the_way
            .iter()
            .fold(Idset::new(), |all, one| all.union(&one.ranks));
        let fits = |ask: &Ask| match placed {
            Some(_) => self.choose_free(ask).is_ok(),
            None => self.choose_all(ask, self.inventory.serving()).is_ok(),
        };
        // Where it goes beside them, or not even with them, something else keeps it.
        if self.goes_beside(ask, &closed, fits) || !fits(ask) {
            return None;
        }
        let has = |closure: &&Closure| match placed {
            Some(set) => set.nodes.keys().any(|rank| closure.ranks.contains(rank.0)),
            None => self.could_use(ask, &closure.ranks),
        };
        let lets = |closure: &&Closure| {
            let others = in_the_way
                .iter()
                .filter(|one| !std::ptr::eq(**one, *closure));
            let others = others.fold(Idset::new(), |all, one| all.union(&one.ranks));
            self.goes_beside(ask, &others, fits)
        };
        let order = |one: &&Closure, two: &&Closure| {
            (one.until, one.name(), one.from).cmp(&(two.until, two.name(), two.from))
        };
        // The first that it could go without; where several keep it, the last of them to be over.
        let first = in_the_way.iter().copied().filter(lets).min_by(order);
        let waits_for = first.or_else(|| in_the_way.iter().copied().filter(has).max_by(order));
        waits_for.map(|closure| closure.reason(now))
    }

    /// From when on it is not for reservations alone that a request cannot start for the span: it could if
    /// nothing were held. That is now where it never could.
    pub fn opens_to(&self, ask: &Ask, now: Time, span: Span) -> Time {
        let closures = self.closed_to(ask);
        if closures.clone().next().is_none() {
            return now;
        }
        let span = self.span_open(ask, span);
        let ends = closures.clone().map(|one| one.until);
        let times: BTreeSet<Time> = ends.filter(|end| *end > now).chain([now]).collect();
        let fits = |ask: &Ask| self.choose_all(ask, self.inventory.serving()).is_ok();
        let mut open = times.into_iter().filter(|at| {
            let closed = closures.clone().filter(|one| one.overlaps(*at, span));
            let closed = closed.fold(Idset::new(), |all, one| all.union(&one.ranks));
            self.goes_beside(ask, &closed, fits)
        });
        open.next().unwrap_or(now)
    }

    /// Whether it goes on other nodes than these.
    fn goes_beside(&self, ask: &Ask, ranks: &Idset, fits: impl Fn(&Ask) -> bool) -> bool {
        match ask.joint() {
            // Its nodes are those where it is.
            Some(Joint::Back(cores)) => !cores.keys().any(|rank| ranks.contains(rank.0)),
            Some(Joint::Gang(_) | Joint::Sockets(_)) | None => {
                fits(&ask.beside(ranks, self.inventory.all().ranks()))
            }
        }
    }

    /// Whether a part of it could be on one of these nodes, were nothing held.
    fn could_use(&self, ask: &Ask, ranks: &Idset) -> bool {
        let serving = self.inventory.serving();
        let places = ranks.iter().map(eddy_wire::id::Rank);
        let places = places.filter_map(|rank| self.inventory.place_of(rank));
        let mut there = places.filter(|at| serving.has(*at));
        there.any(|at| {
            ask.each().any(|one| {
                let within = self.inventory.all().within(&one.want.request);
                within.has(at) && serving.room(at).holds(&one.need.least())
            })
        })
    }
}

/// So many whole nodes, for nobody.
fn nobodys(nodes: usize) -> Arc<Ask> {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    let request = Request {
        nodes: Some(nodes),
        choice: None,
        slots: nodes,
        slots_per_node: 1,
        cores_per_slot: 0,
        gpus_per_slot: 0,
        memory: MemoryNeed::None,
        sharing: Sharing::Exclusive,
        takes: Takes::Resources,
        ranks: None,
        constraint: None,
        work: Work::Tasks,
        ntasks: nodes,
        duration: None,
        sockets: None,
    };
    Ask::new(JobId(0), Arc::new(Want::of(0, request)))
}
