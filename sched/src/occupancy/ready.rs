//! The first moment at which there can be room: when enough was given back, what
//! is promised left aside.
//!
//! Asked by `sweep`, which begins there and not now: a wide request would else
//! look at the end of every job that runs before there is any chance.

use eddy_wire::jobspec::Sharing;
use eddy_wire::time::Time;

use super::{Ask, Occupancy};
use crate::need::Spread;
use crate::within::Within;

impl Occupancy {
    /// When as much as is asked for will have been given back, if ever.
    pub(super) fn ready(&self, ask: &Ask, within: &Within) -> Option<Time> {
        let serving = |at: &usize| self.inventory.is_serving(*at) && within.has(*at);
        let nodes = (0..self.inventory.len()).filter(serving);
        match (ask.need.spread, ask.need.sharing) {
            (Spread::Nodes { nodes: count, .. }, Sharing::Shared) => {
                soonest(nodes.filter_map(|at| self.holds_from(ask, at)), count)
            }
            (Spread::Nodes { nodes: count, .. }, Sharing::Exclusive) => {
                let whole =
                    nodes.filter(|at| self.inventory.capacity(*at).holds(&ask.need.least()));
                soonest(whole.map(|at| self.idle_from(at)), count)
            }
            (Spread::Slots(count), Sharing::Shared) => {
                gained(nodes.flat_map(|at| self.slots_from(ask, at)), count)
            }
            (Spread::Slots(count), Sharing::Exclusive) => {
                let whole = |at: usize| {
                    let slots = ask.need.slots_on(&self.inventory.capacity(at), u64::MAX);
                    (self.idle_from(at), slots)
                };
                gained(nodes.map(whole), count)
            }
        }
    }

    /// From when a node has room for what each must have.
    fn holds_from(&self, ask: &Ask, at: usize) -> Option<Time> {
        let least = ask.need.least();
        let mut free = self.inventory.free().room(at);
        if free.holds(&least) {
            return Some(self.now);
        }
        self.returns[at].iter().find_map(|one| {
            free = free.with(&one.back);
            free.holds(&least).then(|| self.ends_at(one.until))
        })
    }

    /// From when nobody holds a part of a node.
    fn idle_from(&self, at: usize) -> Time {
        let last = self.returns[at].last();
        last.map_or(self.now, |one| self.ends_at(one.until))
    }

    /// How many slots more there are on a node, and from when.
    fn slots_from(&self, ask: &Ask, at: usize) -> Vec<(Time, u64)> {
        let mut free = self.inventory.free().room(at);
        let mut slots = ask.need.slots_on(&free, u64::MAX);
        let mut gains = vec![(self.now, slots)];
        for one in &self.returns[at] {
            free = free.with(&one.back);
            let more = ask.need.slots_on(&free, u64::MAX);
            if more > slots {
                gains.push((self.ends_at(one.until), more - slots));
                slots = more;
            }
        }
        gains
    }
}

/// When so many of these times have come.
fn soonest(times: impl Iterator<Item = Time>, count: u64) -> Option<Time> {
    let mut times: Vec<Time> = times.collect();
    let last = usize::try_from(count).ok()?.checked_sub(1)?;
    (last < times.len()).then(|| *times.select_nth_unstable(last).1)
}

/// When so many have been gained.
fn gained(gains: impl Iterator<Item = (Time, u64)>, count: u64) -> Option<Time> {
    let mut gains: Vec<(Time, u64)> = gains.filter(|(_, slots)| *slots > 0).collect();
    gains.sort_unstable();
    let mut sum = 0_u64;
    gains.into_iter().find_map(|(time, slots)| {
        sum = sum.saturating_add(slots);
        (sum >= count).then_some(time)
    })
}
