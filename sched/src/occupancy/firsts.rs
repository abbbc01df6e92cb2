//! When each node may first be good for what is asked of it, by what is held alone.
//!
//! Kept for [`super::Occupancy`] by what is asked of each node, from search to search: a
//! search over time looks at nodes in this order and at none behind its answer. What is
//! promised is not known here; it can only make a node later.

use std::collections::BTreeSet;

use eddy_wire::jobspec::Sharing;
use eddy_wire::time::Time;

use super::Occupancy;
use crate::rooms::Room as Amounts;

/// So many things asked of nodes are kept; the one not asked for longest goes.
const MOST: usize = 8;

/// Where more than one node in so many changed, all are looked at anew.
const CHANGED_MOST: usize = 4;

/// The time of a node that is good now.
pub(super) const AT_ONCE: Time = Time(i64::MIN);

/// By what is asked, what was asked last at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Firsts(Vec<First>);

/// The times of all nodes for one thing asked.
#[derive(Clone, Debug)]
pub(super) struct First {
    sharing: Sharing,
    least: Amounts,
    /// By node; none of those that never will be.
    times: Vec<Option<Time>>,
    order: BTreeSet<(Time, usize)>,
    /// Nodes that changed since.
    changed: Vec<usize>,
}

impl Firsts {
    /// Other nodes are there.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is held of a node changed.
    pub fn change(&mut self, node: usize) {
        for first in &mut self.0 {
            first.changed.push(node);
        }
        self.0
            .retain(|first| first.changed.len() * CHANGED_MOST <= first.times.len());
    }

    /// To be given back when the search is over.
    fn take(&mut self, sharing: Sharing, least: Amounts) -> Option<First> {
        let alike = |first: &First| first.sharing == sharing && first.least == least;
        let at = self.0.iter().position(alike)?;
        Some(self.0.remove(at))
    }

    pub fn give(&mut self, first: First) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(first);
    }
}

impl First {
    /// Nodes and their times, the earliest first.
    pub fn order(&self) -> impl Iterator<Item = (Time, usize)> + '_ {
        self.order.iter().copied()
    }

    /// Those that may be good by then, in no order.
    pub fn by(&self, at: Time) -> impl Iterator<Item = usize> + '_ {
        let range = self.order.range(..=(at, usize::MAX));
        range.map(|(_, node)| *node)
    }

    /// When a node may be good, promises aside; none if never.
    pub fn of(&self, node: usize) -> Option<Time> {
        self.times[node]
    }

    /// Whether a node may be good by then.
    pub fn is_by(&self, node: usize, at: Time) -> bool {
        self.times[node].is_some_and(|time| time <= at)
    }
}

impl Occupancy {
    /// The times for what is asked of each node, as of now.
    pub(super) fn first(&mut self, sharing: Sharing, least: Amounts) -> First {
        let Some(mut first) = self.firsts.take(sharing, least) else {
            let all = 0..self.inventory.len();
            let times: Vec<Option<Time>> = all
                .map(|node| self.first_of(node, sharing, &least))
                .collect();
            let there = |(node, time): (usize, &Option<Time>)| Some(((*time)?, node));
            let order = times.iter().enumerate().filter_map(there).collect();
            return First {
                sharing,
                least,
                times,
                order,
                changed: Vec::new(),
            };
        };
        for node in std::mem::take(&mut first.changed) {
            let time = self.first_of(node, sharing, &least);
            let before = std::mem::replace(&mut first.times[node], time);
            if before == time {
                continue;
            }
            if let Some(before) = before {
                first.order.remove(&(before, node));
            }
            first.order.extend(time.map(|time| (time, node)));
        }
        first
    }

    fn first_of(&self, node: usize, sharing: Sharing, least: &Amounts) -> Option<Time> {
        if !self.inventory.is_serving(node) {
            return None;
        }
        let returns = &self.returns[node];
        match sharing {
            Sharing::Shared => {
                let mut back = self.inventory.free().room(node);
                if back.holds(least) {
                    return Some(AT_ONCE);
                }
                let enough = returns.iter().find(|one| {
                    back = back.with(&one.back);
                    back.holds(least)
                });
                enough.map(|one| one.until)
            }
            Sharing::Exclusive => {
                let held = self.inventory.node(node).holdings();
                // What is held by records that nobody gives back is in the way for ever.
                let ever = held <= returns.len() as u64;
                let there = ever && self.inventory.capacity(node).holds(least);
                there.then(|| returns.last().map_or(AT_ONCE, |one| one.until))
            }
        }
    }
}
