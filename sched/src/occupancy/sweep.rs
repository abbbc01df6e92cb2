//! The search for the earliest time: what runs ends, what is promised begins and
//! ends, and after each such moment there may be room.
//!
//! Called by [`super::Occupancy`] for a request that does not fit now. Of each node
//! it is found when a job of that length could begin there; the earliest moment at
//! which enough nodes agree is the answer. No node is looked at for two moments, and
//! none that cannot be of use before the answer.

use eddy_wire::jobspec::Sharing;
use eddy_wire::time::{Span, Time};

use super::firsts::{self, First};
use super::profiles::{self, Profile, Profiles};
use super::promises::Promise;
use super::{Ask, Occupancy};
use crate::need::Spread;
use crate::placement::{Chosen, choose_ranked};
use crate::policy::NodeRank;
use crate::rooms::{Room as Amounts, Rooms};
use crate::together::Placed;
use crate::within::Within;

/// So many gains are put in order at once, and then twice as many; so are nodes looked at.
const SORTED: usize = 64;

/// Where one node in so many may do at a time, they are looked at alone.
const FEW: usize = 8;

/// What one node is good for from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    at: Time,
    /// Nodes, or slots on it.
    good: u64,
}

/// When how many more can begin, or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Gain {
    at: Time,
    more: i64,
}

/// What is looked for.
struct Search<'a> {
    ask: &'a Ask,
    least: Amounts,
    from: Time,
    /// Never nothing.
    span: Span,
    /// A time that is not earlier is no use.
    before: Option<Time>,
}

impl Occupancy {
    /// The first moment from `from` on, and before another, at which the request fits for the span,
    /// and where.
    pub(super) fn sweep(
        &mut self,
        ask: &Ask,
        (from, before): (Time, Option<Time>),
        span: Span,
    ) -> Option<(Time, Placed)> {
        if let Some(joint) = ask.joint() {
            return self.sweep_joint((ask, joint), (from, before), span);
        }
        let search = Search {
            ask,
            least: ask.need.least(),
            from,
            span: span.max(Span(1)),
            before,
        };
        let first = self.first(ask.need.sharing, search.least);
        let within = self.inventory.all().within(&ask.want.request);
        let mut profiles = std::mem::take(&mut self.profiles);
        let at = self.first_moment(&search, &within, &first, &mut profiles);
        self.profiles = profiles;
        let found = at.and_then(|at| {
            let chosen = match self.rank {
                NodeRank::LowId | NodeRank::FirstFit => self.lowest(&search, &within, &first, at),
                NodeRank::HighId
                | NodeRank::Pack
                | NodeRank::Spread
                | NodeRank::BestFit
                | NodeRank::Locality => self.ranked(&search, &within, &first, at)?,
            };
            Some((at, Placed::from(chosen)))
        });
        self.firsts.give(first);
        found
    }

    /// The first moment at which enough nodes agree. Nodes are looked at in the order in which they
    /// may be of use, until none that is left can change the answer.
    fn first_moment(
        &self,
        search: &Search<'_>,
        within: &Within,
        first: &First,
        profiles: &mut Profiles,
    ) -> Option<Time> {
        let (mut gains, mut steps) = (Vec::new(), Vec::new());
        let mut nodes = first
            .order()
            .take_while(|(time, _)| search.has_use(*time))
            .peekable();
        let mut most = SORTED;
        loop {
            for (_, node) in nodes.by_ref().take(most) {
                if within.has(node) {
                    self.steps(search, (node, first), profiles, &mut steps);
                    search.gain(&steps, &mut gains);
                }
            }
            let next = nodes.peek().map(|(time, _)| (*time).max(search.from));
            match (soonest(&mut gains, search.ask.need.count()), next) {
                (Some(at), Some(next)) if at <= next => return Some(at),
                (Some(_) | None, Some(_)) => most *= 2,
                (at, None) => return at,
            }
        }
    }

    /// What a node is good for over time, from the beginning of a search on.
    fn steps<'p>(
        &self,
        search: &Search<'_>,
        (node, first): (usize, &First),
        profiles: &'p mut Profiles,
        steps: &mut Vec<Step>,
    ) {
        steps.clear();
        let promises = self.promises.of(node);
        let profile = |profiles: &'p mut Profiles| {
            let free = self.inventory.free().room(node);
            profiles.of(node, free, &self.returns[node], promises)
        };
        match (search.ask.need.sharing, search.ask.need.spread) {
            (_, Spread::Nodes { .. }) if promises.is_empty() => {
                let good = first
                    .of(node)
                    .map(|time| self.counted(time).max(search.from));
                push(steps, search.from, u64::from(good == Some(search.from)));
                good.into_iter().for_each(|at| push(steps, at, 1));
            }
            (Sharing::Shared, Spread::Slots(_)) if promises.is_empty() => {
                self.steps_freed(search, node, steps);
            }
            (Sharing::Shared, _) => {
                let profile = profile(profiles);
                match self.ends_at(profile.first_end) == profile.first_end {
                    true => search.steps_beside(profile, steps),
                    // Who is late is counted otherwise each time.
                    false => self.steps_late(search, node, steps),
                }
            }
            (Sharing::Exclusive, _) => {
                let profile = profile(profiles);
                self.steps_alone(search, node, profile, steps);
            }
        }
    }

    /// With others on the node, of which nothing is promised: as what is held comes back.
    fn steps_freed(&self, search: &Search<'_>, node: usize, steps: &mut Vec<Step>) {
        let mut back = self.inventory.free().room(node);
        let mut returns = self.returns[node].iter().peekable();
        while let Some(one) = returns.next_if(|one| self.ends_at(one.until) <= search.from) {
            back = back.with(&one.back);
        }
        push(steps, search.from, search.good(&back));
        for one in returns {
            back = back.with(&one.back);
            push(steps, self.ends_at(one.until), search.good(&back));
        }
    }

    /// With others on the node: as what is held comes back, and what is promised comes and goes, where
    /// something should have come back before now.
    fn steps_late(&self, search: &Search<'_>, node: usize, steps: &mut Vec<Step>) {
        let mut back = self.inventory.free().room(node);
        let mut returns = self.returns[node].iter().peekable();
        while let Some(one) = returns.next_if(|one| self.ends_at(one.until) <= search.from) {
            back = back.with(&one.back);
        }
        let mut turns = turns(self.promises.of(node), search.from);
        let mut taken = Amounts::default();
        let mut now = search.from;
        loop {
            while let Some(turn) = turns.next_if(|turn| turn.at <= now) {
                taken = match turn.way {
                    Way::Begins => taken.with(&turn.promise.takes),
                    Way::Ends => taken.less(&turn.promise.takes),
                };
            }
            while let Some(one) = returns.next_if(|one| self.ends_at(one.until) <= now) {
                back = back.with(&one.back);
            }
            push(steps, now, search.good(&back.without(&taken)));
            let next = [
                turns.peek().map(|turn| turn.at),
                returns.peek().map(|one| self.ends_at(one.until)),
            ];
            match next.into_iter().flatten().min() {
                Some(next) => now = next,
                None => return,
            }
        }
    }

    /// With nobody else on the node.
    fn steps_alone(
        &self,
        search: &Search<'_>,
        node: usize,
        profile: &Profile,
        steps: &mut Vec<Step>,
    ) {
        let good = search.good(&self.inventory.capacity(node));
        let returns = &self.returns[node];
        // What is held by records that nobody gives back.
        if good == 0 || self.inventory.node(node).holdings() > returns.len() as u64 {
            return;
        }
        let idle = returns
            .last()
            .map_or(search.from, |one| self.ends_at(one.until).max(search.from));
        if idle > search.from {
            push(steps, search.from, 0);
        }
        let alone = |busy: u64| if busy == 0 { good } else { 0 };
        let (begun, later) = profile
            .promised
            .split_at(profile.promised.partition_point(|(at, _)| *at <= idle));
        push(
            steps,
            idle,
            alone(begun.last().map_or(0, |(_, busy)| *busy)),
        );
        for (at, busy) in later {
            push(steps, *at, alone(*busy));
        }
    }

    /// The lowest nodes that serve the request together from a time on for the span.
    fn lowest(&self, search: &Search<'_>, within: &Within, first: &First, at: Time) -> Vec<Chosen> {
        let most = self.inventory.len() / FEW;
        let mut few: Vec<usize> = first.by(at).take(most + 1).collect();
        if few.len() > most {
            // Those that will do are soon found.
            let nodes = 0..self.inventory.len();
            let nodes = nodes.filter(|node| first.is_by(*node, at) && within.has(*node));
            return self.chosen(search, first, nodes, at);
        }
        few.sort_unstable();
        let few = few.into_iter().filter(|node| within.has(*node));
        self.chosen(search, first, few, at)
    }

    /// The first of these nodes that serve the request together from a time on for the span.
    fn chosen(
        &self,
        search: &Search<'_>,
        first: &First,
        nodes: impl Iterator<Item = usize>,
        at: Time,
    ) -> Vec<Chosen> {
        let need = &search.ask.need;
        let mut left = need.count();
        let mut chosen = Vec::new();
        for node in nodes {
            if left == 0 {
                break;
            }
            let Some(slots) = self.slots_over(search, (node, first), at, left) else {
                continue;
            };
            left -= match need.spread {
                Spread::Nodes { .. } => 1,
                Spread::Slots(_) => slots,
            };
            chosen.push(Chosen { at: node, slots });
        }
        chosen
    }

    /// How many slots of those that are `left` a node has from a time on for the span; none if not one.
    fn slots_over(
        &self,
        search: &Search<'_>,
        (node, first): (usize, &First),
        at: Time,
        left: u64,
    ) -> Option<u64> {
        let (need, until) = (&search.ask.need, at.after(search.span));
        let there = match (need.sharing, need.spread) {
            (_, Spread::Nodes { slots, .. }) if self.promises.of(node).is_empty() => {
                let by = first.of(node).is_some_and(|time| self.counted(time) <= at);
                return by.then_some(slots);
            }
            (Sharing::Shared, _) => self.free_over(node, at, until),
            (Sharing::Exclusive, _) if self.is_idle_over(node, at, until) => {
                self.inventory.capacity(node)
            }
            (Sharing::Exclusive, _) => return None,
        };
        there
            .holds(&search.least)
            .then(|| need.slots_on(&there, left))
    }

    /// The nodes that serve the request together from a time on for the span, by the policy's rank.
    fn ranked(
        &self,
        search: &Search<'_>,
        within: &Within,
        first: &First,
        at: Time,
    ) -> Option<Vec<Chosen>> {
        let until = at.after(search.span);
        let room = |node: usize| {
            let there = match search.ask.need.sharing {
                _ if !first.is_by(node, at) => return None,
                Sharing::Shared => self.free_over(node, at, until),
                Sharing::Exclusive if self.is_idle_over(node, at, until) => {
                    self.inventory.capacity(node)
                }
                Sharing::Exclusive => return None,
            };
            Some(there)
        };
        let rooms = Rooms::new((0..self.inventory.len()).map(room));
        choose_ranked(self.order(self.rank), &rooms, within, &search.ask.need).ok()
    }

    /// What is free of a node all the time from one moment to before another.
    pub(super) fn free_over(&self, node: usize, from: Time, until: Time) -> Amounts {
        if let Some(profile) = self.profiles.known(node)
            && self.ends_at(profile.first_end) == profile.first_end
        {
            return profile.least(from, until);
        }
        let later = self.promises.of(node).iter();
        let later = later.filter(|one| one.from > from && one.from < until);
        let now = self.free_at(node, from);
        later.fold(now, |least, one| least.least(&self.free_at(node, one.from)))
    }

    /// Whether nobody has a part of a node from one moment to before another.
    pub(super) fn is_idle_over(&self, node: usize, from: Time, until: Time) -> bool {
        let returns = &self.returns[node];
        let last = returns.last();
        let is_back = last.is_none_or(|one| self.ends_at(one.until) <= from)
            && self.inventory.node(node).holdings() <= returns.len() as u64;
        let promises = self.promises.of(node).iter();
        let mut there = promises.filter(|one| one.from < until.max(Time(from.0.saturating_add(1))));
        is_back && there.all(|one| one.until <= from)
    }

    /// When what is of use from then on is: at once is before all.
    fn counted(&self, time: Time) -> Time {
        match time {
            firsts::AT_ONCE => time,
            until => self.ends_at(until),
        }
    }
}

impl Search<'_> {
    /// With others on the node, of which something is promised.
    fn steps_beside(&self, profile: &Profile, steps: &mut Vec<Step>) {
        let first = profiles::at(&profile.shared, self.from);
        let (begun, later) = profile.shared.split_at(first + 1);
        if let Some((_, room)) = begun.last() {
            push(steps, self.from, self.good(room));
        }
        for (at, room) in later {
            push(steps, *at, self.good(room));
        }
    }

    /// How much of what is asked for a node with this room is good for.
    fn good(&self, room: &Amounts) -> u64 {
        match (room.holds(&self.least), self.ask.need.spread) {
            (false, _) => 0,
            (true, Spread::Nodes { .. }) => 1,
            (true, Spread::Slots(count)) => self.ask.need.slots_on(room, count),
        }
    }

    fn has_use(&self, at: Time) -> bool {
        self.before.is_none_or(|before| at < before)
    }

    /// When how much more can begin on a node, or less.
    fn gain(&self, steps: &[Step], gains: &mut Vec<Gain>) {
        let rises = steps.windows(2).all(|pair| pair[0].good < pair[1].good);
        if rises {
            let mut before = 0;
            for step in steps.iter().filter(|step| step.good > 0) {
                self.gained(step.at, signed(step.good - before), gains);
                before = step.good;
            }
            return;
        }
        // Level by level: as long as it is good for so much at least.
        let mut below = 0;
        let goods = || steps.iter().map(|step| step.good);
        while let Some(level) = goods().filter(|good| *good > below).min() {
            self.gain_level(steps, level, signed(level - below), gains);
            below = level;
        }
    }

    fn gain_level(&self, steps: &[Step], least: u64, more: i64, gains: &mut Vec<Gain>) {
        let mut begin = None;
        for step in steps {
            match (begin, step.good >= least) {
                (None, true) => begin = Some(step.at),
                (Some(at), false) => {
                    begin = None;
                    // The last moment to begin is a span before it ends.
                    let last = step.at.0.saturating_sub(self.span.0);
                    if at.0 <= last {
                        self.gained(at, more, gains);
                        self.gained(Time(last + 1), -more, gains);
                    }
                }
                (None, false) | (Some(_), true) => {}
            }
        }
        if let Some(at) = begin {
            self.gained(at, more, gains);
        }
    }

    fn gained(&self, at: Time, more: i64, gains: &mut Vec<Gain>) {
        if self.has_use(at) {
            gains.push(Gain { at, more });
        }
    }
}

/// The first moment at which so many can begin. Losses go before gains of the same moment.
fn soonest(gains: &mut [Gain], count: u64) -> Option<Time> {
    let asked = signed(count);
    let (mut rest, mut sum, mut most) = (gains, 0_i64, SORTED);
    while !rest.is_empty() {
        let here = most.min(rest.len());
        if here < rest.len() {
            rest.select_nth_unstable(here);
        }
        let (sorted, later) = rest.split_at_mut(here);
        sorted.sort_unstable();
        for gain in sorted {
            sum += gain.more;
            if sum >= asked {
                return Some(gain.at);
            }
        }
        (rest, most) = (later, most * 2);
    }
    None
}

/// Equal steps are one.
fn push(steps: &mut Vec<Step>, at: Time, good: u64) {
    match steps.last_mut() {
        Some(last) if last.good == good => {}
        Some(last) if last.at == at => {
            last.good = good;
            let (_, before) = steps.split_last().expect("it has a last one");
            if before.last().is_some_and(|before| before.good == good) {
                steps.pop();
            }
        }
        Some(_) | None => steps.push(Step { at, good }),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Begins,
    Ends,
}

/// A promise begins or ends.
#[derive(Clone, Copy)]
struct Turn<'p> {
    at: Time,
    way: Way,
    promise: &'p Promise,
}

/// The turns of promises from a time on, in order; what has begun by then turns at that time.
fn turns<'p>(
    promises: &'p [Promise],
    from: Time,
) -> std::iter::Peekable<std::vec::IntoIter<Turn<'p>>> {
    let mut turns = Vec::with_capacity(2 * promises.len());
    for promise in promises.iter().filter(|one| one.until > from) {
        for (at, way) in [(promise.from, Way::Begins), (promise.until, Way::Ends)] {
            turns.push(Turn { at, way, promise });
        }
    }
    turns.sort_by_key(|turn| turn.at);
    turns.into_iter().peekable()
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
