//! The search for the earliest time: what runs ends, what is promised begins and
//! ends, and after each such moment there may be room.
//!
//! Called by [`super::Occupancy`] for a request that does not fit now. It looks
//! at no moment in which the sums already say no.

use std::collections::BTreeMap;

use eddy_wire::jobspec::Sharing;
use eddy_wire::time::{Span, Time};

use super::{Ask, Booked, Occupancy, parts};
use crate::placement::{Chosen, choose};
use crate::rooms::{Room as Amounts, Rooms};
use crate::within::Within;

/// What is free at a moment to come.
struct Moment {
    free: Rooms,
    idle: Rooms,
    /// How many hold or are promised a part of a node, where that changed since now.
    parts: BTreeMap<usize, u64>,
}

impl Occupancy {
    /// The first moment after `from` at which the request fits for the span, and where.
    pub(super) fn sweep(&self, ask: &Ask, from: Time, span: Span) -> Option<(Time, Vec<Chosen>)> {
        let within = self.inventory.all().within(&ask.request);
        let mut moment = self.moment(from);
        for (time, events) in self.events(from) {
            for event in events {
                match event {
                    Event::Back(node, amounts) => moment.give(self, node, &amounts),
                    Event::Begins(booked) => moment.take_all(self, booked),
                    Event::Ends(booked) => moment.give_all(self, booked),
                }
            }
            if let Some(chosen) = self.fits_at(&moment, ask, &within, time, span) {
                return Some((time, chosen));
            }
        }
        None
    }

    fn moment(&self, from: Time) -> Moment {
        let mut moment = Moment {
            free: self.inventory.free().clone(),
            idle: self.inventory.idle().clone(),
            parts: BTreeMap::new(),
        };
        for booked in self.bookings.iter().filter(|one| one.is_active(from)) {
            moment.take_all(self, booked);
        }
        moment
    }

    /// What happens after a time, by time; at each, what comes back before what is taken.
    fn events(&self, from: Time) -> impl Iterator<Item = (Time, Vec<Event<'_>>)> {
        let mut promised: BTreeMap<Time, (Vec<&Booked>, Vec<&Booked>)> = BTreeMap::new();
        for booked in &self.bookings {
            if booked.until > from {
                promised.entry(booked.until).or_default().0.push(booked);
            }
            if booked.from > from {
                promised.entry(booked.from).or_default().1.push(booked);
            }
        }
        let mut held = self.ends.iter().peekable();
        let mut promised = promised.into_iter().peekable();
        std::iter::from_fn(move || {
            let back = held.peek().map(|((until, _), _)| self.ends_at(*until));
            let turn = promised.peek().map(|(time, _)| *time);
            let time = back.into_iter().chain(turn).min()?;
            let mut events = Vec::new();
            while let Some((_, set)) = held.next_if(|((until, _), _)| self.ends_at(*until) <= time)
            {
                let parts = parts(&self.inventory, set);
                events.extend(parts.map(|(node, amounts)| Event::Back(node, amounts)));
            }
            if let Some((_, (ends, begins))) = promised.next_if(|(turn, _)| *turn == time) {
                events.extend(ends.into_iter().map(Event::Ends));
                events.extend(begins.into_iter().map(Event::Begins));
            }
            Some((time, events))
        })
    }

    /// Where it fits from this moment for the span, beside what is promised meanwhile.
    fn fits_at(
        &self,
        moment: &Moment,
        ask: &Ask,
        within: &Within,
        time: Time,
        span: Span,
    ) -> Option<Vec<Chosen>> {
        let rooms = match ask.need.sharing {
            Sharing::Shared => &moment.free,
            Sharing::Exclusive => &moment.idle,
        };
        let chosen = choose(rooms, within, &ask.need).ok()?;
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
        choose(&rooms, within, &ask.need).ok()
    }
}

enum Event<'o> {
    /// Something held comes back.
    Back(usize, Amounts),
    Begins(&'o Booked),
    Ends(&'o Booked),
}

impl Moment {
    fn give(&mut self, of: &Occupancy, node: usize, amounts: &Amounts) {
        if !of.inventory.is_serving(node) {
            return;
        }
        let free = self.free.room(node).with(amounts);
        self.free.set(node, Some(free));
        let parts = self.parts(of, node);
        *parts = parts.saturating_sub(1);
        if *parts == 0 {
            self.idle.set(node, Some(of.inventory.capacity(node)));
        }
    }

    fn take(&mut self, of: &Occupancy, node: usize, amounts: &Amounts) {
        if !of.inventory.is_serving(node) {
            return;
        }
        let free = self.free.room(node).without(amounts);
        self.free.set(node, Some(free));
        *self.parts(of, node) += 1;
        self.idle.set(node, None);
    }

    fn take_all(&mut self, of: &Occupancy, booked: &Booked) {
        for chosen in booked.spot.chosen.iter() {
            let taken = super::amounts(&of.inventory, &booked.spot, chosen);
            self.take(of, chosen.at, &taken);
        }
    }

    fn give_all(&mut self, of: &Occupancy, booked: &Booked) {
        for chosen in booked.spot.chosen.iter() {
            let taken = super::amounts(&of.inventory, &booked.spot, chosen);
            self.give(of, chosen.at, &taken);
        }
    }

    fn parts(&mut self, of: &Occupancy, node: usize) -> &mut u64 {
        let held = || of.inventory.node(node).holdings();
        self.parts.entry(node).or_insert_with(held)
    }
}
