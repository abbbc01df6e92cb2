//! Nodes that are closed from a time to a time: reserved for others, or out of the time of a
//! reservation.
//!
//! A closure is kept among what is promised, on all of its nodes, so that every search goes around it.
//! It is nobody's, never starts, and ends by itself when its time is over. The instances that the
//! configuration declares are not kept out: what runs in them is.

use std::collections::BTreeSet;
use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, Takes, Work};
use eddy_wire::plan::{Bar, Reason, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::{Ask, Occupancy, Spot};
use crate::joint::Joint;
use crate::placement::Chosen;

/// Nodes that nobody may have from a time to a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closure {
    /// The reservation that it comes from.
    pub name: Name,
    pub side: Side,
    pub from: Time,
    pub until: Time,
    pub ranks: Idset,
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

    /// Why who is kept out by it does not start.
    pub(crate) fn reason(&self, now: Time) -> Reason {
        let (bar, changes) = match self.side {
            Side::Others if self.from > now => (Bar::Ahead, self.from),
            Side::Others => (Bar::On, self.until),
            Side::Before => (Bar::Early, self.until),
            Side::After => (Bar::Late, self.from),
        };
        Reason::Reservation {
            name: self.name.clone(),
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
pub(super) struct Closures(Vec<Closed>);

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
        self.closures.0.push(Closed { closure, spot });
    }

    /// A reservation is no more: nothing is closed for it.
    pub fn reopen(&mut self, name: &Name) {
        self.reopen_where(|closure| closure.name == *name);
    }

    /// What was closed until now or before is not any more; whether anything was.
    pub fn lapse(&mut self) -> bool {
        let now = self.now;
        self.reopen_where(|closure| closure.until <= now)
    }

    fn reopen_where(&mut self, is_over: impl Fn(&Closure) -> bool) -> bool {
        let (over, kept) = std::mem::take(&mut self.closures.0)
            .into_iter()
            .partition(|one| is_over(&one.closure));
        let over: Vec<Closed> = over;
        self.closures.0 = kept;
        over.iter().for_each(|one| self.unbook(&one.spot));
        !over.is_empty()
    }

    /// When something closed opens next.
    pub fn opens(&self) -> Option<Time> {
        let ends = self.closures.0.iter().map(|one| one.closure.until);
        ends.filter(|until| *until < Time(i64::MAX)).min()
    }

    /// When something closes that is open now.
    pub fn closings(&self) -> impl Iterator<Item = Time> + '_ {
        let begins = self.closures.0.iter().map(|one| one.closure.from);
        begins.filter(|from| *from > self.now)
    }

    /// Whether anything closes, or is closed.
    pub fn closes(&self) -> bool {
        !self.closures.0.is_empty()
    }

    /// When what is closed is open again, in no order.
    pub(super) fn ends(&self) -> impl Iterator<Item = Time> + '_ {
        self.closures.0.iter().map(|one| one.closure.until)
    }

    /// The nodes that are closed at some time from then on.
    pub(super) fn closed_after(&self, from: Time) -> Idset {
        let all = self.closures.0.iter().map(|one| &one.closure);
        let later = all.filter(|one| one.until > from);
        later.fold(Idset::new(), |all, one| all.union(&one.ranks))
    }

    /// All closures are out of the way while something is done.
    pub(super) fn without_closures<T>(&mut self, act: impl FnOnce(&mut Occupancy) -> T) -> T {
        let closed = std::mem::take(&mut self.closures.0);
        closed.iter().for_each(|one| self.unbook(&one.spot));
        let done = act(self);
        for one in closed {
            self.close(one.closure);
        }
        done
    }

    /// Whether a request is one that closures do not concern, and there are any.
    pub(super) fn is_let_in(&self, ask: &Ask) -> bool {
        let is_declared = matches!(&ask.want.request.work, Work::Instance { name: Some(_) });
        is_declared && !self.closures.0.is_empty()
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
        if self.closures.0.is_empty() || self.is_let_in(ask) {
            return None;
        }
        let span = self.span_open(ask, span);
        let in_the_way = self.closures.0.iter().map(|one| &one.closure);
        let in_the_way: Vec<&Closure> = in_the_way.filter(|one| one.overlaps(now, span)).collect();
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
        let order =
            |one: &&Closure, two: &&Closure| (one.until, &one.name).cmp(&(two.until, &two.name));
        // The first that it could go without; where several keep it, the last of them to be over.
        let first = in_the_way.iter().copied().filter(lets).min_by(order);
        let waits_for = first.or_else(|| in_the_way.iter().copied().filter(has).max_by(order));
        waits_for.map(|closure| closure.reason(now))
    }

    /// From when on it is not for reservations alone that a request cannot start for the span: it could if
    /// nothing were held. That is now where it never could.
    pub fn let_in(&self, ask: &Ask, now: Time, span: Span) -> Time {
        if self.closures.0.is_empty() || self.is_let_in(ask) {
            return now;
        }
        let span = self.span_open(ask, span);
        let closures = self.closures.0.iter().map(|one| &one.closure);
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
