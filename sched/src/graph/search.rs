//! The search: goals against a stock, depth first, passing by whatever has too
//! little in its summary.
//!
//! Called by `matcher` and `plan`. What is picked is taken from the stock at once,
//! and given back where it leads nowhere. Goals that cannot take from each other
//! are served one after the other, which is exact; where they can, `entangled`
//! looks at all ways. It knows no times and explains no refusals.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;

use super::containment::{Body, Class, Graph, Kind, NONE};
use super::found::{Match, Pick, Share};
use super::stock::Stock;
use super::want::{Arrange, Goal, Hold, Share as PlaceShare, Ties, Want, What};
use crate::policy::NodeRank;

/// One search over one stock.
pub(super) struct Search<'a> {
    pub graph: &'a Graph,
    pub stock: &'a mut Stock,
    pub want: &'a Want,
    /// The nodes that are allowed; `None` is all.
    pub mask: Option<&'a FixedBitSet>,
    pub picks: Vec<Pick>,
    /// Places picked in this search without being held: two goals never have the same.
    pub used: BTreeSet<u32>,
    /// Tries left where all ways are looked at.
    pub tries: u32,
    /// How many of the first goal were found.
    pub count: u64,
    /// What is taken within a place where a count leaves a choice.
    pub choice: Choice,
}

/// The most of one thing that is looked for one by one.
pub(super) const EACH_MAX: u64 = 1 << 20;

/// Tries of one search where all ways are looked at: some milliseconds.
const TRIES: u32 = 20_000;

/// How many are to be taken where a count leaves a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Most,
    Least,
}

impl<'a> Search<'a> {
    /// Looks for what serves a want within some nodes. What is found is taken from the stock.
    pub fn run(
        graph: &'a Graph,
        stock: &'a mut Stock,
        want: &'a Want,
        mask: Option<&'a FixedBitSet>,
    ) -> Option<Match> {
        if !stock.holds(0, &want.least) {
            return None;
        }
        let mut search = Search {
            graph,
            stock,
            want,
            mask,
            picks: Vec::new(),
            used: BTreeSet::new(),
            tries: TRIES,
            count: 0,
            choice: Choice::Most,
        };
        let found = search.list(&want.goals, want.ties, 0, Choice::Most) && search.close_hosts();
        if !found {
            search.undo(0);
            return None;
        }
        let Search { picks, count, .. } = search;
        Some(Match { picks, count })
    }

    /// How many of the first goal a stock serves at most; takes nothing.
    pub fn most(
        graph: &'a Graph,
        stock: &'a mut Stock,
        want: &'a Want,
        mask: Option<&'a FixedBitSet>,
    ) -> u64 {
        let mut search = Search {
            graph,
            stock,
            want,
            mask,
            picks: Vec::new(),
            used: BTreeSet::new(),
            tries: TRIES,
            count: 0,
            choice: Choice::Most,
        };
        let Some(goal) = want.goals.first() else {
            return 0;
        };
        if let What::Some(kind) = goal.what {
            return u64::try_from(search.there(kind, 0)).unwrap_or(0);
        }
        let mut ends = Vec::new();
        search.fill(goal, 0, goal.counts.most().min(EACH_MAX), &mut ends);
        search.undo(0);
        ends.len() as u64
    }

    /// Serves goals beside each other in a scope, or takes nothing.
    pub fn list(&mut self, goals: &[Goal], ties: Ties, scope: u32, choice: Choice) -> bool {
        match ties {
            Ties::Tangled => self.tangled(goals, scope),
            Ties::Apart => {
                let mark = self.picks.len();
                let served = goals.iter().enumerate().all(|(at, goal)| {
                    let count = self.goal(goal, scope, choice);
                    if at == 0 && std::ptr::eq(goals, self.want.goals.as_slice()) {
                        self.count = count.unwrap_or(0);
                    }
                    count.is_some()
                });
                if !served {
                    self.undo(mark);
                }
                served
            }
        }
    }

    /// Serves one goal in a scope and says with how many; takes nothing if it cannot.
    fn goal(&mut self, goal: &Goal, scope: u32, choice: Choice) -> Option<u64> {
        let most = match choice {
            Choice::Most => goal.counts.most(),
            Choice::Least => goal.counts.least(),
        };
        if let What::Some(kind) = goal.what {
            let there = u64::try_from(self.there(kind, scope)).unwrap_or(0);
            let count = goal.counts.best(there.min(most))?;
            self.some(kind, scope, i64::try_from(count).ok()?);
            return Some(count);
        }
        let mark = self.picks.len();
        let mut ends = Vec::new();
        self.fill(goal, scope, most.min(EACH_MAX), &mut ends);
        let Some(count) = goal.counts.best(ends.len() as u64) else {
            self.undo(mark);
            return None;
        };
        if let Some(last) = (count as usize).checked_sub(1) {
            self.undo(ends[last]);
        }
        Some(count)
    }

    /// Serves a goal as often as it can be in a scope, at most so often; notes how many picks
    /// there were after each.
    pub fn fill(&mut self, goal: &Goal, scope: u32, most: u64, ends: &mut Vec<usize>) {
        let on_host = self.graph.host_of[scope as usize] != NONE;
        match goal.what {
            What::Some(_) => unreachable!("amounts are not filled one by one"),
            What::Place(kind, _) if !on_host && self.graph.kind("node") == Some(kind) => {
                self.hosts(goal, scope, most, ends);
            }
            What::Slot if !on_host => self.hosts(goal, scope, most, ends),
            What::Place(kind, _) => {
                for at in self.places(kind, scope) {
                    if ends.len() as u64 >= most {
                        return;
                    }
                    if self.one(goal, at, self.choice) {
                        ends.push(self.picks.len());
                    }
                }
            }
            What::Slot | What::Bundle => {
                self.bundles(goal, scope, most, ends);
            }
        }
    }

    /// Serves all within a slot in a scope, as often as it can be.
    pub fn bundles(&mut self, goal: &Goal, scope: u32, most: u64, ends: &mut Vec<usize>) {
        let start = ends.len() as u64;
        let amounts =
            |inner: &Goal| matches!(inner.what, What::Some(_)) && !inner.counts.has_choice();
        // Slots of mere amounts are taken all at once.
        if goal.inner.iter().all(amounts) && goal.ties == Ties::Apart && !goal.counts.has_choice() {
            let mut times = most.saturating_sub(start);
            for inner in &goal.inner {
                let What::Some(kind) = inner.what else {
                    continue;
                };
                let there = u64::try_from(self.there(kind, scope)).unwrap_or(0);
                times = times.min(there / inner.counts.least().max(1));
            }
            if times == 0 {
                return;
            }
            for inner in &goal.inner {
                let What::Some(kind) = inner.what else {
                    continue;
                };
                let count =
                    i64::try_from(inner.counts.least().saturating_mul(times)).unwrap_or(i64::MAX);
                self.some(kind, scope, count);
            }
            ends.extend((0..times).map(|_| self.picks.len()));
            return;
        }
        let before = self.choice;
        self.choice = if most > 1 { Choice::Least } else { before };
        while (ends.len() as u64) < most && self.list(&goal.inner, goal.ties, scope, self.choice) {
            ends.push(self.picks.len());
            if goal.inner.is_empty() {
                break;
            }
        }
        self.choice = before;
    }

    /// Picks a place if it is free for it and has what is sought in it.
    pub fn one(&mut self, goal: &Goal, at: u32, choice: Choice) -> bool {
        let What::Place(_, hold) = goal.what else {
            return false;
        };
        let mark = self.picks.len();
        match hold {
            Hold::Through => {
                let open =
                    self.stock.left(at) == 1 && self.stock.in_service(at) && self.allowed(at);
                if !open || self.used.contains(&at) || !self.stock.holds(at, &goal.need) {
                    return false;
                }
                self.pick(at, Share::Through);
                let served = self.list(&goal.inner, goal.ties, at, choice);
                if !served {
                    self.undo(mark);
                }
                served
            }
            Hold::Whole => {
                if !self.is_open_whole(at) || !self.stock.holds(at, &goal.need) {
                    return false;
                }
                // What is asked for within must be there; then all of it is taken.
                let simple = goal
                    .inner
                    .iter()
                    .all(|inner| matches!(inner.what, What::Some(_)));
                if !(simple && goal.ties == Ties::Apart) {
                    if !self.list(&goal.inner, goal.ties, at, Choice::Least) {
                        return false;
                    }
                    self.undo(mark);
                }
                self.pick(at, Share::Whole);
                true
            }
        }
    }

    /// Whether a place can be had whole: nothing in it is held or picked, all of it is allowed.
    pub fn is_open_whole(&self, at: u32) -> bool {
        let end = self.graph.end[at as usize];
        self.stock.is_idle(at)
            && self.stock.in_service(at)
            && self.used.range(at..end).next().is_none()
            && self.all_allowed(at)
    }

    /// Whether a vertex on a node is on an allowed one; what is on none is.
    pub fn allowed(&self, at: u32) -> bool {
        let host = self.graph.host_of[at as usize];
        host == NONE || self.mask.is_none_or(|mask| mask.contains(host as usize))
    }

    fn all_allowed(&self, at: u32) -> bool {
        let (from, to) = self.graph.hosts_within(at);
        self.allowed(at)
            && self
                .mask
                .is_none_or(|mask| (from..to).all(|host| mask.contains(host)))
    }

    /// The places of a type in a scope, in the order of the placement.
    pub fn places(&self, kind: Kind, scope: u32) -> Vec<u32> {
        let mut places = self.graph.within(scope, kind).to_vec();
        let free = |at: &u32| self.graph.main.map_or(0, |main| self.stock.free(*at, main));
        match self.want.place.rank {
            NodeRank::LowId | NodeRank::FirstFit => {}
            NodeRank::HighId => places.reverse(),
            NodeRank::Pack | NodeRank::BestFit | NodeRank::Locality => {
                places.sort_by_key(|at| (free(at), *at))
            }
            NodeRank::Spread => places.sort_by_key(|at| (-free(at), *at)),
        }
        places
    }

    /// How much of a type is free in a scope on allowed nodes.
    pub fn there(&self, kind: Kind, scope: u32) -> i64 {
        match self.mask {
            Some(_) if self.graph.host_of[scope as usize] == NONE && !self.graph.is_pool(kind) => {
                let runs = self.graph.within(scope, kind).iter();
                let allowed = runs.filter(|&&run| self.allowed(run));
                allowed.map(|&run| self.stock.free(run, kind)).sum()
            }
            Some(_) | None => self.stock.free(scope, kind),
        }
    }

    /// Takes so many of runs or amounts in a scope, which must be there.
    pub fn some(&mut self, kind: Kind, scope: u32, count: i64) {
        let mut left = count;
        match self.want.place.rank {
            NodeRank::LowId | NodeRank::FirstFit | NodeRank::Spread | NodeRank::HighId => {
                self.some_of(kind, scope, &mut left);
            }
            NodeRank::Pack | NodeRank::BestFit | NodeRank::Locality => {
                self.some_near(kind, scope, &mut left)
            }
        }
        assert!(
            left == 0,
            "there must be {count} in vertex {scope}; {left} are missing"
        );
    }

    /// From as few parts as possible, and of these from the one with the least.
    fn some_near(&mut self, kind: Kind, scope: u32, left: &mut i64) {
        let there = |search: &Self, at: u32| search.there(kind, at);
        let children = self
            .graph
            .children(scope)
            .filter(|&at| self.stock.free(at, kind) > 0 && self.allowed(at));
        let mut parts: Vec<(i64, u32)> = children.map(|at| (there(self, at), at)).collect();
        if parts.is_empty() {
            return self.some_of(kind, scope, left);
        }
        let whole = parts.iter().filter(|(there, _)| there >= left).min();
        if let Some(&(_, at)) = whole {
            return self.some_near(kind, at, left);
        }
        super::usage::larger_first(&mut parts);
        for (_, at) in parts {
            if *left == 0 {
                return;
            }
            self.some_near(kind, at, left);
        }
    }

    /// From runs and amounts in their order.
    fn some_of(&mut self, kind: Kind, scope: u32, left: &mut i64) {
        let graph = self.graph;
        let runs = graph.within(scope, kind);
        let backward = self.want.place.rank == NodeRank::HighId;
        for at in 0..runs.len() {
            if *left == 0 {
                return;
            }
            let run = runs[if backward { runs.len() - 1 - at } else { at }];
            let there = self.stock.free(run, kind).min(*left);
            if there <= 0 || !self.allowed(run) {
                continue;
            }
            let share = match &graph.vertex(run).body {
                Body::Units(_) if backward => Share::Units(self.stock.highest(graph, run, there)),
                Body::Units(_) => Share::Units(self.stock.lowest(graph, run, there)),
                Body::Amount(_) => Share::Amount(there),
                Body::Place => continue,
            };
            self.pick(run, share);
            *left -= there;
        }
    }

    pub fn pick(&mut self, vertex: u32, share: Share) {
        let pick = Pick { vertex, share };
        self.stock.take(self.graph, &pick);
        if pick.share == Share::Through {
            self.used.insert(vertex);
        }
        self.picks.push(pick);
    }

    /// Gives back all picks behind the first so many.
    pub fn undo(&mut self, to: usize) {
        while self.picks.len() > to {
            let Some(pick) = self.picks.pop() else { return };
            self.stock.give(self.graph, &pick);
            if pick.share == Share::Through {
                self.used.remove(&pick.vertex);
            }
        }
    }

    /// Takes the nodes that slots lie on whole, where nobody else may be there.
    fn close_hosts(&mut self) -> bool {
        let vnodes = self
            .graph
            .kind("vnode")
            .is_some_and(|kind| self.graph.class(kind) == Class::Place);
        match self.want.place.share {
            PlaceShare::Shared => return true,
            PlaceShare::Excl if vnodes => return true,
            PlaceShare::Excl | PlaceShare::ExclHost => {}
        }
        let mut hosts = BTreeSet::new();
        let mut others = Vec::new();
        for pick in &self.picks {
            match self.graph.host_of[pick.vertex as usize] {
                NONE => others.push(pick.clone()),
                host => drop(hosts.insert(host)),
            }
        }
        self.undo(0);
        for pick in others {
            self.pick(pick.vertex, pick.share);
        }
        for host in hosts {
            let at = self.graph.host(host as usize);
            if !self.is_open_whole(at) {
                return false;
            }
            self.pick(at, Share::Whole);
        }
        true
    }

    /// Whether slots take the nodes they are on whole.
    pub fn closes_hosts(&self) -> bool {
        let free = matches!(self.want.place.arrange, Arrange::Free);
        let vnodes = self
            .graph
            .kind("vnode")
            .is_some_and(|kind| self.graph.class(kind) == Class::Place);
        match self.want.place.share {
            PlaceShare::Shared => false,
            PlaceShare::Excl => free && !vnodes,
            PlaceShare::ExclHost => free,
        }
    }
}
