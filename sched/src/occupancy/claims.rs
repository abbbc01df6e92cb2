//! What jobs that are to end leave to the one they end for: a promise from now on.
//!
//! Asked by the planner where it looks for whom to take from. A claim is a promise like others,
//! but it begins at once, while what it is of is still held: nobody else is given what is free of
//! it meanwhile.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::time::Time;

use super::{Ask, Occupancy, Spot, spot};
use crate::placement::Chosen;
use crate::rooms::Room as Amounts;

/// What may be had of a node, perhaps less than nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    cores: i64,
    gpus: i64,
    memory: i64,
}

/// Memory of a node that nobody knows.
const UNKNOWN: i64 = i64::MAX / 4;

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(UNKNOWN).min(UNKNOWN)
}

impl Left {
    fn of(room: &Amounts) -> Left {
        Left {
            cores: signed(room.cores),
            gpus: signed(room.gpus),
            memory: signed(room.memory),
        }
    }

    /// As much more.
    pub fn with(self, room: &Amounts) -> Left {
        let more = Left::of(room);
        Left {
            cores: self.cores + more.cores,
            gpus: self.gpus + more.gpus,
            memory: self.memory.saturating_add(more.memory),
        }
    }

    /// As much less.
    pub fn without(self, room: &Amounts) -> Left {
        let less = Left::of(room);
        Left {
            cores: self.cores - less.cores,
            gpus: self.gpus - less.gpus,
            memory: match self.memory >= UNKNOWN {
                true => self.memory,
                false => self.memory - less.memory,
            },
        }
    }

    fn least(self, other: Left) -> Left {
        Left {
            cores: self.cores.min(other.cores),
            gpus: self.gpus.min(other.gpus),
            memory: self.memory.min(other.memory),
        }
    }

    /// As an amount; what is less than nothing is nothing.
    pub fn room(self) -> Amounts {
        let amount = |left: i64| u64::try_from(left).unwrap_or(0);
        Amounts {
            cores: amount(self.cores),
            gpus: amount(self.gpus),
            memory: match self.memory >= UNKNOWN {
                true => Amounts::NO_LIMIT,
                false => amount(self.memory),
            },
        }
    }

    /// What is missing of each to have that much.
    pub fn lacks(self, want: &Amounts) -> [i64; 3] {
        let want = Left::of(want);
        let lack = |left: i64, want: i64| (want - left).max(0);
        [
            lack(self.cores, want.cores),
            lack(self.gpus, want.gpus),
            lack(self.memory, want.memory),
        ]
    }
}

/// A node as one finds it who may take from others.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The least that is left of it all the way, but for what comes back of those who are counted
    /// apart.
    pub left: Left,
    /// How many jobs hold a part of it.
    pub held: u64,
    /// Whether a part of it is promised to somebody else meanwhile.
    pub is_promised: bool,
}

impl Occupancy {
    /// To whom a part of a node is promised.
    pub fn promised_on(&self, at: usize) -> impl Iterator<Item = JobId> + '_ {
        self.promises.of(at).iter().map(|one| one.job)
    }

    /// What may be had of a node from a time until another, beside what is promised to those who are to
    /// be heeded. What those give back who are `apart` is not counted.
    pub fn to_be_had(
        &self,
        at: usize,
        (from, until): (Time, Time),
        heeds: impl Fn(JobId) -> bool,
        apart: impl Fn(JobId) -> bool,
    ) -> Found {
        let free = Left::of(&self.inventory.free().room(at));
        let back = |time: Time| {
            let returns = self.returns[at].iter();
            let over = returns.take_while(move |one| self.ends_at(one.until) <= time);
            over.filter(|one| !apart(one.job()))
        };
        let held = self.inventory.node(at).holdings();
        let promises = self.promises.of(at).iter();
        let meanwhile = promises.filter(|one| one.from < until && one.until > from);
        let heeded: Vec<_> = meanwhile.filter(|one| heeds(one.job)).collect();
        let then = |time: Time| {
            let left = back(time).fold(free, |left, one| left.with(&one.back));
            let active = heeded.iter().filter(|one| one.is_active(time));
            active.fold(left, |left, one| left.without(&one.takes))
        };
        let begins = heeded.iter().map(|one| one.from.max(from));
        let left = begins.fold(then(from), |left, time| left.least(then(time)));
        Found {
            left,
            held: held.saturating_sub(back(from).count() as u64),
            is_promised: !heeded.is_empty(),
        }
    }

    /// The nodes of which something comes back by then.
    pub fn returned_by(&self, time: Time) -> impl Iterator<Item = usize> + '_ {
        let over = self.ends.range(..=(time, JobId(u64::MAX)));
        over.flat_map(|(_, set)| super::parts(&self.inventory, set).map(|(at, _)| at))
    }

    /// Promises these slots from a time until another.
    pub fn claim(
        &mut self,
        ask: &Arc<Ask>,
        chosen: Vec<Chosen>,
        (from, until): (Time, Time),
    ) -> Spot {
        let spot = spot(ask, chosen.into());
        let until = Time(until.0.max(from.0.saturating_add(1)));
        self.book(spot.clone(), from, until);
        spot
    }

    /// What a spot takes of each of its nodes.
    pub fn takes<'s>(&'s self, spot: &'s Spot) -> impl Iterator<Item = (usize, Amounts)> + 's {
        super::takes(&self.inventory, spot)
    }

    /// They are not promised any more.
    pub fn unclaim(&mut self, spot: &Spot) {
        self.unbook(spot);
    }
}
