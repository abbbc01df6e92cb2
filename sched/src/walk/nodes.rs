//! Nodes with amounts of several kinds, and pools beside them, as a room: exact
//! per node and over time.
//!
//! Used by the cases of published backfill plans, and by who plans nodes with
//! reservations. Of the nodes that serve those are taken that the policy's rank
//! names, otherwise the lowest. Sums over all nodes rule out most times before any
//! node is looked at; it knows no cores by number.

use std::collections::BTreeMap;
use std::ops::Bound;

use eddy_wire::time::{Span, Time};

use self::node::Node;
use super::ceiling::Ceiling;
use super::room::{Blocked, Room};
use crate::amounts::{Amounts, KINDS_MAX};
use crate::policy::NodeRank;
use crate::timeline::Timeline;

mod node;

/// What a job asks of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesNeed {
    /// How many different nodes.
    pub nodes: usize,
    /// What of each.
    pub each: Amounts,
    /// Whether it has them to itself.
    pub hold: Hold,
    /// How much of which pool, by place; the same pool at most once.
    pub pools: Vec<(usize, u64)>,
}

/// Whether a job has its nodes to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Others may have what it does not ask for.
    #[default]
    Shared,
    /// Nobody else is on them.
    Whole,
}

/// Where a job goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesSpot {
    /// What of which node, in their order.
    pub nodes: Vec<(usize, Amounts)>,
    /// How much of which pool.
    pub pools: Vec<(usize, u64)>,
}

/// Whether a node may be given to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// It may.
    In,
    /// It is down, or drained.
    Out,
}

/// Nodes and pools, over time.
#[derive(Clone, Debug)]
pub struct Nodes {
    rank: NodeRank,
    nodes: Vec<Node>,
    pools: Vec<(u64, Timeline)>,
    /// All nodes together, by kind, in service or not.
    sums: [Timeline; KINDS_MAX],
    /// When something ends, and how many do: only then may a need fit that did not before.
    ends: BTreeMap<Time, u32>,
}

impl Nodes {
    /// All free; pools by how much there is of each.
    pub fn new(capacities: &[Amounts], pools: &[u64]) -> Nodes {
        let mut all = Amounts::NONE;
        for capacity in capacities {
            all += *capacity;
        }
        Nodes {
            rank: NodeRank::LowId,
            nodes: capacities.iter().map(|all| Node::new(*all)).collect(),
            pools: pools.iter().map(|&all| (all, line_of(all))).collect(),
            sums: std::array::from_fn(|kind| Timeline::new(all[kind])),
            ends: BTreeMap::new(),
        }
    }

    /// Takes nodes by this rank from now on.
    #[must_use]
    pub fn ranked(self, rank: NodeRank) -> Nodes {
        Nodes { rank, ..self }
    }

    /// Puts a node in service or out of it; what runs there is not touched.
    pub fn serve(&mut self, node: usize, service: Service) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.service = service;
        }
    }

    /// Nodes that would do if all were free.
    fn able(&self, need: &NodesNeed, counts: impl Fn(&Node) -> bool) -> bool {
        let able = |node: &&Node| counts(node) && node.capacity.holds(&need.each);
        let pools = need.pools.iter();
        self.nodes.iter().filter(able).take(need.nodes).count() == need.nodes
            && pools
                .clone()
                .all(|&(pool, asked)| self.pools.get(pool).is_some_and(|(all, _)| asked <= *all))
    }

    /// Why it can never be, as things are.
    fn possible(&self, need: &NodesNeed) -> Result<(), Blocked> {
        match self.able(need, |node| node.service == Service::In) {
            true => Ok(()),
            false if self.able(need, |_| true) => Err(Blocked::NotInService),
            false => Err(Blocked::Never),
        }
    }

    /// Nodes that have it from `from` until `until`: the first by rank.
    fn place(&self, need: &NodesNeed, from: Time, until: Time) -> Option<NodesSpot> {
        for &(pool, asked) in &need.pools {
            if self.pools[pool].1.least(from, until) < signed(asked) {
                return None;
            }
        }
        let free = self.nodes.iter().enumerate();
        let free = free.filter_map(|(at, node)| Some((at, node.gives(need, from, until)?)));
        let nodes: Vec<(usize, Amounts)> = match self.rank {
            NodeRank::LowId | NodeRank::FirstFit => free.take(need.nodes).collect(),
            NodeRank::HighId => {
                let mut nodes: Vec<(usize, Amounts)> = free.rev().take(need.nodes).collect();
                nodes.reverse();
                nodes
            }
            NodeRank::Pack | NodeRank::Spread | NodeRank::BestFit => {
                self.best(free.collect(), need.nodes, from)
            }
            NodeRank::Locality => nearest(free.collect(), need.nodes),
        };
        (nodes.len() == need.nodes).then(|| NodesSpot {
            nodes,
            pools: need.pools.clone(),
        })
    }

    /// The best so many by what is free of them at a time, in their order.
    fn best(
        &self,
        mut nodes: Vec<(usize, Amounts)>,
        count: usize,
        at: Time,
    ) -> Vec<(usize, Amounts)> {
        let free = |node: usize| self.nodes[node].free(at);
        // Amounts differ in kind: they are compared one kind after the other.
        let key = |&(node, given): &(usize, Amounts)| match self.rank {
            NodeRank::Spread => self.nodes[node].capacity - free(node),
            NodeRank::BestFit => free(node) - given,
            NodeRank::Pack
            | NodeRank::LowId
            | NodeRank::HighId
            | NodeRank::FirstFit
            | NodeRank::Locality => free(node) - self.nodes[node].capacity,
        };
        nodes.sort_by_cached_key(|node| (key(node).iter().collect::<Vec<i64>>(), node.0));
        nodes.truncate(count);
        nodes.sort_unstable_by_key(|(node, _)| *node);
        nodes
    }

    /// When, at or after `from`, the sums stop being in the way; `None` if they are not.
    fn sums_short(&self, need: &NodesNeed, from: Time, until: Time) -> Option<Time> {
        let all = need.each.times(signed(need.nodes as u64));
        let lines = self.sums.iter().zip(all.iter());
        let pools = need.pools.iter();
        let pools = pools.map(|&(pool, asked)| (&self.pools[pool].1, signed(asked)));
        lines
            .filter(|(_, asked)| *asked > 0)
            .chain(pools)
            .filter_map(|(line, asked)| line.below(from, asked))
            .filter(|&short| short < until)
            .max()
    }

    /// Adds to what is free, or takes from it.
    fn change(&mut self, spot: &NodesSpot, (from, until): (Time, Time), sign: i64) {
        let mut all = Amounts::NONE;
        for &(at, amounts) in &spot.nodes {
            self.nodes[at].add(from, until, amounts.times(sign));
            all += amounts;
        }
        for (line, amount) in self.sums.iter_mut().zip(all.iter()) {
            line.add(from, until, amount.saturating_mul(sign));
        }
        for &(pool, amount) in &spot.pools {
            let line = &mut self.pools[pool].1;
            line.add(from, until, signed(amount).saturating_mul(sign));
        }
    }
}

impl Room for Nodes {
    type Need = NodesNeed;
    type Spot = NodesSpot;

    /// In thousandths of the first kind.
    fn least(&self, need: &NodesNeed) -> u64 {
        let all = need.each.times(signed(need.nodes as u64));
        u64::try_from(all[0]).unwrap_or(0)
    }

    fn ceiling(&mut self, now: Time, ceiling: &mut Ceiling) {
        ceiling.fill(&self.sums[0], now);
    }

    fn fit(&mut self, need: &NodesNeed, now: Time, span: Span) -> Result<NodesSpot, Blocked> {
        self.possible(need)?;
        if let Some(spot) = self.place(need, now, until(now, span)) {
            return Ok(spot);
        }
        for &(pool, asked) in &need.pools {
            let free = self.pools[pool].1.at(now);
            if free < signed(asked) {
                let free = u64::try_from(free).unwrap_or(0);
                let what = "pool";
                return Err(Blocked::Busy { what, asked, free });
            }
        }
        let instant = until(now, Span::ZERO);
        let free = self.nodes.iter();
        let free = free.filter(|node| node.gives(need, now, instant).is_some());
        let (asked, free) = (need.nodes as u64, free.count() as u64);
        match free < asked {
            true => Err(Blocked::Busy {
                what: "nodes",
                asked,
                free,
            }),
            false => Err(Blocked::Reserved),
        }
    }

    fn earliest(
        &mut self,
        need: &NodesNeed,
        from: Time,
        span: Span,
    ) -> Result<(Time, NodesSpot), Blocked> {
        self.possible(need)?;
        let mut at = from;
        loop {
            let until = until(at, span);
            let short = self.sums_short(need, at, until);
            if short.is_none() {
                if let Some(spot) = self.place(need, at, until) {
                    return Ok((at, spot));
                }
            }
            let after = short.unwrap_or(at).max(at);
            let later = (Bound::Excluded(after), Bound::Unbounded);
            let next = self.ends.range(later).next();
            at = *next.ok_or(Blocked::Never)?.0;
        }
    }

    fn take(&mut self, spot: &NodesSpot, from: Time, span: Span) {
        let until = until(from, span);
        self.change(spot, (from, until), -1);
        *self.ends.entry(until).or_insert(0) += 1;
    }

    fn give(&mut self, spot: &NodesSpot, from: Time, span: Span) {
        let until = until(from, span);
        self.change(spot, (from, until), 1);
        if let Some(count) = self.ends.get_mut(&until) {
            *count -= 1;
            if *count == 0 {
                self.ends.remove(&until);
            }
        }
    }

    fn forget(&mut self, before: Time) {
        self.ends = self.ends.split_off(&before);
        for node in &mut self.nodes {
            node.forget(before);
        }
        for line in &mut self.sums {
            line.forget(before);
        }
        for (_, line) in &mut self.pools {
            line.forget(before);
        }
    }
}

/// So many that follow each other most closely; the lowest of such.
fn nearest(nodes: Vec<(usize, Amounts)>, count: usize) -> Vec<(usize, Amounts)> {
    let spread = |group: &&[(usize, Amounts)]| group[count - 1].0 - group[0].0;
    match count {
        0 => Vec::new(),
        _ => {
            let best = nodes.windows(count).min_by_key(spread);
            best.map_or(Vec::new(), <[(usize, Amounts)]>::to_vec)
        }
    }
}

fn line_of(amount: u64) -> Timeline {
    Timeline::new(signed(amount))
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// Even a span of nothing has an instant to itself.
fn until(from: Time, span: Span) -> Time {
    from.after(span.max(Span(1)))
}

#[cfg(test)]
mod tests;
