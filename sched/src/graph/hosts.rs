//! The search over nodes: which node is next, by placement.
//!
//! Part of `search`; it goes over the indexes of a stock instead of over the
//! graph, so that nodes without room cost nothing. It looks into no node itself.

use std::collections::BTreeSet;

use super::containment::Kind;
use super::search::{Choice, Search};
use super::usage::{By, Cursor, larger_first};
use super::want::{Goal, Hold, What};
use crate::policy::NodeRank;

/// How far a look over nodes has got.
enum At {
    /// Before this node, upward.
    Up(usize),
    /// Behind this node, downward.
    Down(usize),
    /// By use, behind this.
    By(By, Option<Cursor>),
}

impl Search<'_> {
    /// Serves a goal on the nodes of a scope as often as it can be, in the order of the placement.
    pub fn hosts(&mut self, goal: &Goal, scope: u32, most: u64, ends: &mut Vec<usize>) {
        if self.want.place.rank == NodeRank::Locality {
            return self.near(goal, scope, most, ends);
        }
        let (from, to) = self.graph.hosts_within(scope);
        let start = self.start(goal, from, to);
        self.over(goal, (from, to), start, most, ends);
    }

    fn start(&self, goal: &Goal, from: usize, to: usize) -> At {
        // Of wholly free nodes all are used alike.
        let whole = matches!(goal.what, What::Place(_, Hold::Whole)) || self.closes_hosts();
        match self.want.place.rank {
            NodeRank::LowId | NodeRank::FirstFit | NodeRank::Locality => At::Up(from),
            NodeRank::HighId => At::Down(to),
            NodeRank::Pack | NodeRank::Spread if whole => At::Up(from),
            NodeRank::Pack => At::By(By::MostUsed, None),
            NodeRank::Spread => At::By(By::LeastUsed, None),
            NodeRank::BestFit if whole => At::By(By::Smallest, None),
            NodeRank::BestFit => At::By(By::LeastFree, None),
        }
    }

    fn over(
        &mut self,
        goal: &Goal,
        range: (usize, usize),
        start: At,
        most: u64,
        ends: &mut Vec<usize>,
    ) {
        let need = self.host_need(goal);
        let spread = self.want.place.rank == NodeRank::Spread && goal.what == What::Slot;
        let mut at = start;
        let mut seen = BTreeSet::new();
        let mut had = Vec::new();
        while (ends.len() as u64) < most
            && let Some(host) = self.next(&mut at, range, &need)
        {
            // A node that was taken from moves in the order by use and may come again.
            if matches!(at, At::By(By::LeastUsed, _)) && !seen.insert(host) {
                continue;
            }
            let most_here = if spread { ends.len() as u64 + 1 } else { most };
            let before = ends.len();
            self.on_host(goal, host, most_here, ends);
            if spread && ends.len() > before {
                had.push(host);
            }
        }
        // Slots that are left go round again over the nodes that had room before.
        while (ends.len() as u64) < most && !had.is_empty() {
            let round = std::mem::take(&mut had);
            for host in round {
                let before = ends.len();
                if before as u64 >= most {
                    return;
                }
                self.again(goal, host, before as u64 + 1, ends);
                if ends.len() > before {
                    had.push(host);
                }
            }
        }
    }

    /// What a node must have at least for one.
    fn host_need(&self, goal: &Goal) -> Vec<(usize, i64)> {
        let mut need = goal.need.clone();
        if let Some(node) = self.graph.kind("node").filter(|_| self.closes_hosts())
            && goal.what == What::Slot
        {
            need.push((node.at(), 1));
        }
        need
    }

    /// Serves a goal on one node: the node itself, or slots on it, at most up to so many in all.
    fn on_host(&mut self, goal: &Goal, host: usize, most: u64, ends: &mut Vec<usize>) {
        let at = self.graph.host(host);
        if goal.what != What::Slot {
            if self.one(goal, at, self.choice) {
                ends.push(self.picks.len());
            }
            return;
        }
        if !self.stock.in_service(at) || self.stock.left(at) == 0 {
            return;
        }
        let mark = self.picks.len();
        let want = self.want;
        let ties = super::want::Ties::Apart;
        if !self.list(&want.per_host, ties, at, Choice::Most) {
            return;
        }
        let before = ends.len();
        self.bundles(goal, at, most, ends);
        if ends.len() == before {
            self.undo(mark);
        }
    }

    fn again(&mut self, goal: &Goal, host: usize, most: u64, ends: &mut Vec<usize>) {
        self.bundles(goal, self.graph.host(host), most, ends);
    }

    /// The next node of a range with room, that is allowed.
    fn next(&mut self, at: &mut At, range: (usize, usize), need: &[(usize, i64)]) -> Option<usize> {
        let (from, to) = range;
        let mask = self.mask;
        let allowed = |host: usize| mask.is_none_or(|mask| mask.contains(host));
        match at {
            At::Up(next) => loop {
                let host = self.stock.index().next(*next, to, need)?;
                *next = host + 1;
                if allowed(host) {
                    return Some(host);
                }
                // On to the next that is allowed, however far.
                *next = mask.map_or(host + 1, |mask| next_allowed(mask, host + 1));
            },
            At::Down(behind) => loop {
                let host = self.stock.index().last(from, *behind, need)?;
                *behind = host;
                if allowed(host) {
                    return Some(host);
                }
            },
            At::By(by, cursor) => {
                let main = self.graph.main?.at();
                let least = need
                    .iter()
                    .find(|(kind, _)| *kind == main)
                    .map_or(0, |need| need.1);
                self.stock.usage(self.graph);
                let stock = &*self.stock;
                let fits = |host: usize| {
                    (from..to).contains(&host) && allowed(host) && stock.index().holds(host, need)
                };
                let usage = stock.made_usage()?;
                let (host, behind) = usage.next(*by, least, *cursor, fits)?;
                *cursor = Some(behind);
                Some(host)
            }
        }
    }

    /// Near each other: in the one part that is just large enough, else in as few as possible.
    fn near(&mut self, goal: &Goal, scope: u32, most: u64, ends: &mut Vec<usize>) {
        let (from, to) = self.graph.hosts_within(scope);
        let free = |at: u32| self.graph.main.map_or(0, |main| self.stock.free(at, main));
        let parts = self.graph.parts(scope).iter();
        let mut parts: Vec<(i64, u32)> = parts.map(|&at| (free(at), at)).collect();
        if parts.is_empty() {
            return self.over(goal, (from, to), At::Up(from), most, ends);
        }
        let left = i64::try_from(most.saturating_sub(ends.len() as u64)).unwrap_or(i64::MAX);
        let room = |search: &Self, at: u32| {
            let fits = |&(kind, amount): &(usize, i64)| {
                let free = search.stock.free(at, Kind(kind as u8));
                free / amount.max(1)
            };
            goal.need.iter().map(fits).min().unwrap_or(i64::MAX)
        };
        // 1. The part with the least free that serves all.
        parts.sort_unstable();
        let mut served: Vec<(i64, u32)> = Vec::new();
        let (mark, before) = (self.picks.len(), ends.len());
        for &(_, at) in &parts {
            let bound = room(self, at).min(left);
            if bound < left {
                served.push((bound, at));
                continue;
            }
            self.near(goal, at, most, ends);
            let got = (ends.len() - before) as i64;
            if got >= left {
                return;
            }
            self.undo(mark);
            ends.truncate(before);
            served.push((got, at));
        }
        // 2. The parts that serve most, until all is served.
        larger_first(&mut served);
        for (_, at) in served {
            if ends.len() as u64 >= most {
                return;
            }
            self.near(goal, at, most, ends);
        }
    }
}

fn next_allowed(mask: &fixedbitset::FixedBitSet, from: usize) -> usize {
    const BITS: usize = usize::BITS as usize;
    let words = mask.as_slice();
    let mut word = from / BITS;
    let mut bits = words
        .get(word)
        .map_or(0, |bits| bits & (usize::MAX << (from % BITS)));
    while bits == 0 {
        word += 1;
        match words.get(word) {
            Some(&next) => bits = next,
            None => return mask.len(),
        }
    }
    word * BITS + bits.trailing_zeros() as usize
}
