//! A graph over time: who holds what until when, what is claimed for later, and
//! the earliest time at which a request can be served.
//!
//! Used by whoever plans ahead over a graph. Claims are jobs until their planned
//! end, reservations, advance reservations and maintenance alike. The sum of each
//! type over time says quickly where it is no use to look; a search in what is
//! free for the whole span says exactly. It knows no clock and no order of jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::time::{Span, Time};

use super::containment::{Body, Graph};
use super::draft::State;
use super::found::{Match, Pick, Share, whole};
use super::matcher::{Matcher, Refusal, When, find, give};
use super::stock::Stock;
use super::want::Want;
use crate::timeline::Timeline;

/// The number of a claim; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub u64);

/// What is not to be had by others from a time to before another.
#[derive(Clone, Debug)]
struct Claim {
    picks: Arc<[Pick]>,
    from: Time,
    until: Time,
    adds: Adds,
}

/// Whether a claim is in the sums of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Adds {
    /// Nobody else has any of it at that time.
    Alone,
    /// Others may have some of it: in the sums it would count twice.
    Over,
}

/// A graph and the claims on it.
#[derive(Clone, Debug)]
pub struct Plan {
    matcher: Matcher,
    claims: BTreeMap<ClaimId, Claim>,
    next: u64,
    /// By type: how much is claimed by nobody; never too little.
    sums: Vec<Timeline>,
    window: Window,
}

/// What is free for the whole of a span of time.
#[derive(Clone, Debug)]
struct Window {
    from: Time,
    until: Time,
    stock: Stock,
    /// By bit: how many claims within the window have it.
    cover: Vec<u32>,
    /// By vertex of an amount: how much of it is claimed over time.
    amounts: BTreeMap<u32, Timeline>,
    /// By vertex of an amount: how much of it is taken from `stock`.
    taken: BTreeMap<u32, i64>,
}

impl Plan {
    /// All of a graph free at all times, in the states that were read.
    pub fn new(graph: Arc<Graph>) -> Plan {
        let matcher = Matcher::new(graph.clone());
        Plan {
            sums: graph
                .totals_of(0)
                .iter()
                .map(|&total| Timeline::new(total))
                .collect(),
            window: Window {
                from: Time(0),
                until: Time(0),
                stock: matcher.stock().clone(),
                cover: vec![0; graph.bits],
                amounts: BTreeMap::new(),
                taken: BTreeMap::new(),
            },
            matcher,
            claims: BTreeMap::new(),
            next: 0,
        }
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<Graph> {
        self.matcher.graph()
    }

    /// Says whether a vertex is in service, from now on at all times.
    pub fn set_state(&mut self, vertex: u32, state: State) {
        let graph = self.matcher.graph().clone();
        self.matcher.set_state(vertex, state);
        self.window.stock.set_state(&graph, vertex, state);
    }

    /// Claims what [`Plan::earliest`] found, from then until an end.
    pub fn hold(&mut self, found: &Match, from: Time, until: Time) -> ClaimId {
        self.insert(found.picks.clone().into(), from, until, Adds::Alone)
    }

    /// Takes whole vertices from all for a time, whoever has claims there: maintenance, an advance
    /// reservation. Who has a claim keeps it.
    pub fn block(&mut self, vertices: &[u32], from: Time, until: Time) -> ClaimId {
        let pick = |&vertex: &u32| Pick {
            vertex,
            share: whole(self.graph(), vertex),
        };
        let picks = vertices.iter().map(pick).collect();
        self.insert(picks, from, until, Adds::Over)
    }

    /// Forgets a claim altogether, begun or not.
    pub fn release(&mut self, claim: ClaimId) {
        let Some(claim) = self.claims.remove(&claim) else {
            return;
        };
        self.add_sums(&claim, 1);
        let graph = self.matcher.graph().clone();
        self.window.add_amounts(&graph, &claim, -1);
        if claim.overlaps(self.window.from, self.window.until) {
            self.window.leave(&graph, &claim);
        }
    }

    /// How many claims there are.
    pub fn claims(&self) -> usize {
        self.claims.len()
    }

    /// Forgets claims that ended before a time.
    pub fn forget(&mut self, before: Time) {
        let ended = |(&id, claim): (&ClaimId, &Claim)| (claim.until <= before).then_some(id);
        let ended: Vec<ClaimId> = self.claims.iter().filter_map(ended).collect();
        ended.into_iter().for_each(|id| self.release(id));
        self.sums.iter_mut().for_each(|sum| sum.forget(before));
        self.window
            .amounts
            .values_mut()
            .for_each(|sum| sum.forget(before));
    }

    /// What serves a request from a time for a span, beside all claims. It is not held.
    ///
    /// # Errors
    /// [`Refusal`] with what is short.
    pub fn fit(&mut self, want: &Want, from: Time, span: Span) -> Result<Match, Refusal> {
        self.try_at(want, from, span)
            .ok_or_else(|| self.matcher.refusal(want))
    }

    /// The earliest time at or after `from` from which a request can be served for a span, and
    /// with what. It is not held.
    ///
    /// # Errors
    /// [`Refusal`] where it cannot even when all claims have ended.
    pub fn earliest(
        &mut self,
        want: &Want,
        from: Time,
        span: Span,
    ) -> Result<(Time, Match), Refusal> {
        self.matcher.feasible(want)?;
        // It begins to fit only where a claim ends.
        let mut ends: Vec<Time> = self.claims.values().map(|claim| claim.until).collect();
        ends.retain(|&end| end > from && end.0 < i64::MAX);
        ends.sort_unstable();
        ends.dedup();
        let mut at = from;
        let mut next = 0;
        loop {
            if self.sums_allow(want, at, span)
                && let Some(found) = self.try_at(want, at, span)
            {
                return Ok((at, found));
            }
            let hint = self.sums_reach(want, at, span);
            while next < ends.len()
                && (ends[next] <= at || hint.is_none_or(|hint| ends[next] < hint))
            {
                next += 1;
            }
            match ends.get(next) {
                Some(&end) => at = end,
                None => {
                    let refusal = self.matcher.refusal(want);
                    return Err(Refusal {
                        when: When::Later,
                        ..refusal
                    });
                }
            }
        }
    }

    fn sums_allow(&self, want: &Want, at: Time, span: Span) -> bool {
        let until = window_end(at, span);
        want.least
            .iter()
            .all(|&(kind, amount)| self.sums[kind].least(at, until) >= amount)
    }

    /// A time at or after `at` before which no type is there in sum; `None` is never.
    fn sums_reach(&self, want: &Want, at: Time, span: Span) -> Option<Time> {
        let reach = |&(kind, amount): &(usize, i64)| self.sums[kind].earliest(at, amount, span);
        want.least
            .iter()
            .try_fold(at, |latest, need| reach(need).map(|time| latest.max(time)))
    }

    fn try_at(&mut self, want: &Want, at: Time, span: Span) -> Option<Match> {
        let graph = self.matcher.graph().clone();
        self.window
            .slide(&graph, &self.claims, at, window_end(at, span));
        let found = find(&graph, &mut self.window.stock, want)?;
        give(&graph, &mut self.window.stock, &found);
        Some(found)
    }

    fn insert(&mut self, picks: Arc<[Pick]>, from: Time, until: Time, adds: Adds) -> ClaimId {
        let id = ClaimId(self.next);
        self.next += 1;
        let claim = Claim {
            picks,
            from,
            until,
            adds,
        };
        self.add_sums(&claim, -1);
        let graph = self.matcher.graph().clone();
        self.window.add_amounts(&graph, &claim, 1);
        if claim.overlaps(self.window.from, self.window.until) {
            self.window.enter(&graph, &claim);
        }
        self.claims.insert(id, claim);
        id
    }

    fn add_sums(&mut self, claim: &Claim, sign: i64) {
        if claim.adds == Adds::Over {
            return;
        }
        let graph = self.matcher.graph();
        for pick in claim.picks.iter() {
            let kind = graph.vertex(pick.vertex).kind.at();
            match &pick.share {
                Share::Through => {}
                Share::Units(positions) => {
                    self.sums[kind].add(claim.from, claim.until, sign * positions.len() as i64);
                }
                Share::Amount(amount) => {
                    self.sums[kind].add(claim.from, claim.until, sign * amount)
                }
                Share::Whole => {
                    for (kind, &total) in graph.totals_of(pick.vertex).iter().enumerate() {
                        self.sums[kind].add(claim.from, claim.until, sign * total);
                    }
                }
            }
        }
    }
}

/// A span of nothing is the least there is.
fn window_end(from: Time, span: Span) -> Time {
    from.after(Span(span.0.max(1)))
}

impl Claim {
    fn overlaps(&self, from: Time, until: Time) -> bool {
        self.from < until && from < self.until
    }
}

impl Window {
    /// Moves on to another span of time: claims that are left behind or come in change it.
    fn slide(&mut self, graph: &Graph, claims: &BTreeMap<ClaimId, Claim>, from: Time, until: Time) {
        let before = (self.from, self.until);
        (self.from, self.until) = (from, until);
        for claim in claims.values() {
            match (
                claim.overlaps(before.0, before.1),
                claim.overlaps(from, until),
            ) {
                (true, false) => self.leave(graph, claim),
                (false, true) => self.enter(graph, claim),
                (true, true) => self.settle_amounts(graph, claim),
                (false, false) => {}
            }
        }
    }

    fn enter(&mut self, graph: &Graph, claim: &Claim) {
        for part in claim.picks.iter().flat_map(|pick| parts(graph, pick)) {
            let (vertex, first) = (part.vertex, graph.first_bit[part.vertex as usize]);
            match part.share {
                Share::Units(positions) => {
                    let mut fresh = positions.clone();
                    for at in positions.iter() {
                        let cover = &mut self.cover[(first + at) as usize];
                        *cover += 1;
                        if *cover > 1 {
                            fresh.remove(at);
                        }
                    }
                    self.stock.take_units(graph, vertex, &fresh);
                }
                Share::Whole => {
                    let cover = &mut self.cover[first as usize];
                    *cover += 1;
                    if *cover == 1 {
                        self.stock.take_place(graph, vertex);
                    }
                }
                Share::Amount(_) => self.settle(graph, vertex),
                Share::Through => {}
            }
        }
    }

    fn leave(&mut self, graph: &Graph, claim: &Claim) {
        for part in claim.picks.iter().flat_map(|pick| parts(graph, pick)) {
            let (vertex, first) = (part.vertex, graph.first_bit[part.vertex as usize]);
            match part.share {
                Share::Units(positions) => {
                    let mut last = positions.clone();
                    for at in positions.iter() {
                        let cover = &mut self.cover[(first + at) as usize];
                        *cover -= 1;
                        if *cover > 0 {
                            last.remove(at);
                        }
                    }
                    self.stock.give_units(graph, vertex, &last);
                }
                Share::Whole => {
                    let cover = &mut self.cover[first as usize];
                    *cover -= 1;
                    if *cover == 0 {
                        self.stock.give_place(graph, vertex);
                    }
                }
                Share::Amount(_) => self.settle(graph, vertex),
                Share::Through => {}
            }
        }
    }

    fn settle_amounts(&mut self, graph: &Graph, claim: &Claim) {
        for part in claim.picks.iter().flat_map(|pick| amounts(graph, pick)) {
            self.settle(graph, part.0);
        }
    }

    /// Makes what is free of an amount the least that is free within the window.
    fn settle(&mut self, graph: &Graph, vertex: u32) {
        let claimed = self.amounts.get(&vertex);
        // Claimed is kept below nothing, so that the least is the most claimed at once.
        let most = claimed.map_or(0, |sum| -sum.least(self.from, self.until));
        let most = most.clamp(0, graph.vertex(vertex).size());
        let before = self.taken.insert(vertex, most).unwrap_or(0);
        match most - before {
            more if more > 0 => self.stock.take_amount(graph, vertex, more),
            less if less < 0 => self.stock.give_amount(graph, vertex, -less),
            _ => {}
        }
    }

    fn add_amounts(&mut self, graph: &Graph, claim: &Claim, sign: i64) {
        for (vertex, amount) in claim.picks.iter().flat_map(|pick| amounts(graph, pick)) {
            let sum = self
                .amounts
                .entry(vertex)
                .or_insert_with(|| Timeline::new(0));
            sum.add(claim.from, claim.until, -sign * amount);
        }
    }
}

/// A pick vertex by vertex; whole is then the place alone.
fn parts(graph: &Graph, pick: &Pick) -> Vec<Pick> {
    match &pick.share {
        Share::Whole => {
            let inner = pick.vertex..graph.end[pick.vertex as usize];
            inner
                .map(|vertex| Pick {
                    vertex,
                    share: whole(graph, vertex),
                })
                .collect()
        }
        Share::Through | Share::Units(_) | Share::Amount(_) => vec![pick.clone()],
    }
}

/// The amounts of a pick by vertex.
fn amounts(graph: &Graph, pick: &Pick) -> Vec<(u32, i64)> {
    let of = |part: Pick| match (part.share, &graph.vertex(part.vertex).body) {
        (Share::Amount(amount), Body::Amount(_)) => Some((part.vertex, amount)),
        (Share::Through | Share::Whole | Share::Units(_) | Share::Amount(_), _) => None,
    };
    parts(graph, pick).into_iter().filter_map(of).collect()
}
