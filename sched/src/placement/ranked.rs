//! The nodes that serve a need in the order of a policy's placement.
//!
//! Called by the occupancy for what starts and what is promised. Whether a need is
//! served at all does not depend on the order, so that refusals and searches for a
//! time need not ask here. It changes nothing.

use eddy_wire::jobspec::Sharing;

use super::{Chosen, Short, choose, short_in_sum};
use crate::by_use::By;
use crate::need::{Need, Spread};
use crate::policy::NodeRank;
use crate::rooms::{Room, Rooms};
use crate::within::Within;

/// Which of the nodes that would do are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'o> {
    pub rank: NodeRank,
    /// What the nodes have in all.
    pub totals: &'o Rooms,
}

/// The nodes that serve the need together, first in the order; told from the lowest up.
pub(crate) fn choose_ranked(
    order: Order<'_>,
    rooms: &Rooms,
    within: &Within,
    need: &Need,
) -> Result<Vec<Chosen>, Short> {
    let search = Search {
        order,
        rooms,
        within,
        need,
        least: need.least(),
    };
    let by = match order.rank {
        NodeRank::LowId | NodeRank::FirstFit => return choose(rooms, within, need),
        NodeRank::HighId | NodeRank::Locality => None,
        NodeRank::Pack => Some(By::MostUsed),
        NodeRank::Spread => Some(By::LeastUsed),
        NodeRank::BestFit => Some(By::LeastFree),
    };
    short_in_sum(&within.totals(rooms), need)?;
    let found = match (by, order.rank, need.spread) {
        (None, NodeRank::Locality, _) => search.near(),
        (None, _, _) => search.fill(search.downward()),
        // Whole nodes are not shared: to spread over more of them than need be helps nobody.
        (Some(by), NodeRank::Spread, Spread::Slots(_)) if need.sharing == Sharing::Shared => {
            search.deal(search.by_use(by))
        }
        (Some(by), _, _) => search.fill(search.by_use(by)),
    };
    match found {
        Some(mut chosen) => {
            chosen.sort_unstable_by_key(|one| one.at);
            Ok(chosen)
        }
        // What is missing is missing in every order.
        None => choose(rooms, within, need),
    }
}

struct Search<'s> {
    order: Order<'s>,
    rooms: &'s Rooms,
    within: &'s Within,
    need: &'s Need,
    least: Room,
}

impl Search<'_> {
    /// As many slots on each node as go there, until all are placed.
    fn fill(&self, nodes: impl Iterator<Item = usize>) -> Option<Vec<Chosen>> {
        let mut chosen = Vec::new();
        let mut left = self.need.count();
        for at in nodes {
            let slots = self.need.slots_on(&self.rooms.room(at), left);
            left -= match self.need.spread {
                Spread::Nodes { .. } => 1,
                Spread::Slots(_) => slots,
            };
            chosen.push(Chosen { at, slots });
            if left == 0 {
                return Some(chosen);
            }
        }
        None
    }

    /// A slot on each node, and those that are left again round the nodes that have room.
    fn deal(&self, nodes: impl Iterator<Item = usize>) -> Option<Vec<Chosen>> {
        let mut left = self.need.count();
        let first = usize::try_from(left).unwrap_or(usize::MAX);
        let mut chosen: Vec<(Chosen, u64)> = nodes
            .take(first)
            .map(|at| {
                let most = self.need.slots_on(&self.rooms.room(at), left);
                (Chosen { at, slots: 0 }, most)
            })
            .collect();
        while left > 0 {
            let open = chosen.iter_mut().filter(|(one, most)| one.slots < *most);
            let mut open: Vec<&mut (Chosen, u64)> = open.collect();
            let least = open.iter().map(|(one, most)| most - one.slots).min()?;
            // Whole rounds at once.
            let rounds = (left / open.len() as u64).min(least);
            for (one, _) in &mut open {
                let more = rounds.max(1).min(left);
                one.slots += more;
                left -= more;
            }
        }
        let chosen = chosen.into_iter().map(|(one, _)| one);
        Some(chosen.filter(|one| one.slots > 0).collect())
    }

    /// The nodes of the shortest run of ranks that serves, the lowest of such. Where the first run
    /// is as short as can be nothing more is looked at.
    fn near(&self) -> Option<Vec<Chosen>> {
        let count = self.need.count();
        let (shortest, all_on_one) = match self.need.spread {
            Spread::Nodes { nodes, .. } => (nodes.saturating_sub(1), None),
            Spread::Slots(slots) => (1, self.next(0, &self.need.room(slots))),
        };
        if let Some(at) = all_on_one {
            return self.fill(std::iter::once(at));
        }
        let (mut nodes, mut first, mut have) = (Vec::new(), 0, 0_u64);
        let mut best: Option<(u64, usize, usize)> = None;
        while let Some(at) = self.next(nodes.last().map_or(0, |(at, _)| at + 1), &self.least) {
            let there = match self.need.spread {
                Spread::Nodes { .. } => 1,
                Spread::Slots(_) => self.need.slots_on(&self.rooms.room(at), count),
            };
            nodes.push((at, there));
            have += there;
            while have - nodes[first].1 >= count {
                have -= nodes[first].1;
                first += 1;
            }
            let long = (at - nodes[first].0) as u64;
            if have >= count && best.is_none_or(|(best, ..)| long < best) {
                best = Some((long, first, nodes.len()));
                if long <= shortest {
                    break;
                }
            }
        }
        let (_, from, to) = best?;
        self.fill(nodes[from..to].iter().map(|(at, _)| *at))
    }

    fn next(&self, from: usize, room: &Room) -> Option<usize> {
        self.within.next(self.rooms, from, room)
    }

    /// The nodes with room, the highest first.
    fn downward(&self) -> impl Iterator<Item = usize> {
        let mut until = usize::MAX;
        std::iter::from_fn(move || {
            until = self.within.last(self.rooms, until, &self.least)?;
            Some(until)
        })
    }

    /// The nodes with room by their use: by the index, or sorted where there is none, or where
    /// only some will do.
    fn by_use(&self, by: By) -> Box<dyn Iterator<Item = usize> + '_> {
        if let (Within::All, Some(by_use)) = (self.within, self.rooms.by_use()) {
            return Box::new(by_use.nodes(by, &self.least));
        }
        let mut nodes = Vec::new();
        let mut from = 0;
        while let Some(at) = self.next(from, &self.least) {
            let key = by.key(&self.order.totals.room(at), &self.rooms.room(at));
            nodes.push((key, at));
            from = at + 1;
        }
        nodes.sort_unstable();
        Box::new(nodes.into_iter().map(|(_, at)| at))
    }
}
