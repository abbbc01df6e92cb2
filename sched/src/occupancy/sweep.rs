//! The search for the earliest time: what runs ends, what is promised begins and
//! ends, and after each such moment there may be room.
//!
//! Called by [`super::Occupancy`] for a request that does not fit now. Between two
//! times at which a promise begins, ends or comes to be in the way, there is
//! never less room than before, so that each such stretch is looked at once and
//! the one that has room is halved until its first moment is found.

use std::collections::BTreeSet;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::time::{Span, Time};

use super::{Ask, Booked, Occupancy};
use crate::placement::{Chosen, choose_ranked};
use crate::policy::NodeRank;
use crate::rooms::{Room as Amounts, Rooms};
use crate::within::Within;

/// The end of all times.
const NEVER: Time = Time(i64::MAX);

/// What is free at a moment to come.
struct Moment {
    free: Rooms,
    idle: Rooms,
}

impl Occupancy {
    /// The first moment from `from` on at which the request fits for the span, and where.
    pub(super) fn sweep(&self, ask: &Ask, from: Time, span: Span) -> Option<(Time, Vec<Chosen>)> {
        let within = self.inventory.all().within(&ask.want.request);
        let mut begin = self.ready(ask, &within)?.max(from);
        for end in self.turns(begin, span) {
            if let Some((time, chosen)) = self.first_in(begin, end, ask, &within, span) {
                // When is known; where is the policy's.
                let ranked = match self.rank {
                    NodeRank::LowId | NodeRank::FirstFit => None,
                    NodeRank::HighId
                    | NodeRank::Pack
                    | NodeRank::Spread
                    | NodeRank::BestFit
                    | NodeRank::Locality => {
                        let moment = self.moment(time);
                        self.fits_at(&moment, ask, &within, (time, span), self.rank)
                    }
                };
                return Some((time, ranked.unwrap_or(chosen)));
            }
            begin = end;
        }
        None
    }

    /// The times after `from` at which a promise begins, ends or comes to be in the way of a job of
    /// that span, and the end of all.
    fn turns(&self, from: Time, span: Span) -> BTreeSet<Time> {
        let of = |booked: &Booked| {
            let in_the_way = Time(booked.from.0.saturating_sub(span.0).saturating_add(1));
            [booked.from, booked.until, in_the_way]
        };
        let turns = self.bookings.iter().flat_map(of);
        turns.filter(|time| *time > from).chain([NEVER]).collect()
    }

    /// The first moment of a stretch, its end not counted, in which nothing promised turns.
    fn first_in(
        &self,
        begin: Time,
        end: Time,
        ask: &Ask,
        within: &Within,
        span: Span,
    ) -> Option<(Time, Vec<Chosen>)> {
        let fits = |time: Time| {
            let moment = self.moment(time);
            self.fits_at(&moment, ask, within, (time, span), NodeRank::LowId)
        };
        if let Some(chosen) = fits(begin) {
            return Some((begin, chosen));
        }
        let mut times = self.ends_between(begin, end);
        let mut found = (*times.last()?, fits(*times.last()?)?);
        times.pop();
        // What is known to fail lies before, what is known to fit behind.
        while !times.is_empty() {
            let middle = times.len() / 2;
            match fits(times[middle]) {
                Some(chosen) => {
                    found = (times[middle], chosen);
                    times.truncate(middle);
                }
                None => drop(times.drain(..=middle)),
            }
        }
        Some(found)
    }

    /// The times at which something that is held comes back, after one and before another.
    fn ends_between(&self, begin: Time, end: Time) -> Vec<Time> {
        let mut times: Vec<Time> = Vec::new();
        let first = match begin >= self.ends_at(Time(0)) {
            true => begin,
            // What is late counts as ending soon.
            false => Time(i64::MIN),
        };
        for ((until, _), _) in self.ends.range((first, JobId(0))..) {
            let time = self.ends_at(*until);
            if time >= end {
                break;
            }
            if time > begin && times.last() != Some(&time) {
                times.push(time);
            }
        }
        if end == NEVER
            && times.last() != Some(&NEVER)
            && self.ends.keys().any(|(u, _)| *u == NEVER)
        {
            times.push(NEVER);
        }
        times
    }

    /// What is free at a time, if all end when they are to.
    fn moment(&self, time: Time) -> Moment {
        let nodes = 0..self.inventory.len();
        let then: Vec<(bool, Amounts, u64)> = nodes
            .map(|at| {
                let (free, held) = self.given_back(at, time);
                (self.inventory.is_serving(at), free, held)
            })
            .collect();
        let free = then.iter().map(|(serves, free, _)| serves.then_some(*free));
        let idle = then.iter().enumerate().map(|(at, (serves, _, held))| {
            (*serves && *held == 0).then(|| self.inventory.capacity(at))
        });
        let mut moment = Moment {
            free: Rooms::new(free),
            idle: Rooms::new(idle),
        };
        for booked in self.bookings.iter().filter(|one| one.is_active(time)) {
            moment.take_all(self, booked);
        }
        moment
    }

    /// Where it fits from this moment for the span, beside what is promised meanwhile.
    fn fits_at(
        &self,
        moment: &Moment,
        ask: &Ask,
        within: &Within,
        (time, span): (Time, Span),
        rank: NodeRank,
    ) -> Option<Vec<Chosen>> {
        let order = self.order(rank);
        let rooms = match ask.need.sharing {
            Sharing::Shared => &moment.free,
            Sharing::Exclusive => &moment.idle,
        };
        let chosen = choose_ranked(order, rooms, within, &ask.need).ok()?;
        let until = time.after(span);
        let mut later = self
            .bookings
            .iter()
            .skip(self.begun_by(time.after(Span(1))));
        let first = later.next().filter(|booked| booked.from < until);
        let Some(first) = first else {
            return Some(chosen);
        };
        let mut rooms = rooms.clone();
        let later = std::iter::once(first).chain(later.take_while(|one| one.from < until));
        for booked in later {
            for node in booked.spot.places().filter(|node| moment.free.has(*node)) {
                let there = match ask.need.sharing {
                    Sharing::Shared => {
                        let then = self.free_at(node, booked.from);
                        Some(rooms.room(node).least(&then))
                    }
                    Sharing::Exclusive => None,
                };
                rooms.set(node, there);
            }
        }
        choose_ranked(order, &rooms, within, &ask.need).ok()
    }
}

impl Moment {
    fn take(&mut self, of: &Occupancy, node: usize, amounts: &Amounts) {
        if !of.inventory.is_serving(node) {
            return;
        }
        let free = self.free.room(node).without(amounts);
        self.free.set(node, Some(free));
        self.idle.set(node, None);
    }

    fn take_all(&mut self, of: &Occupancy, booked: &Booked) {
        for chosen in booked.spot.chosen.iter() {
            let taken = super::amounts(&of.inventory, &booked.spot, chosen);
            self.take(of, chosen.at, &taken);
        }
    }
}
