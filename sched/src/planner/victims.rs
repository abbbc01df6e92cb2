//! Who gives way: the fewest of those who may be taken from, so that a job fits.
//!
//! Asked by `preempt` with the nodes that come into question and with those who may be taken from,
//! who is to go first at the front. It knows no rule by which one may take from another, and
//! changes nothing.
//!
//! Node by node the step is taken that gives most for fewest; then whoever is not needed is
//! spared, the best first. Where a job needs one node, and each victim is on one, no fewer would do
//! but for amounts of several kinds at once. Who is left of those that can go on with fewer nodes gives
//! no more of them than are needed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;

use crate::need::{Need, Spread};
use crate::occupancy::{Found, Left};
use crate::placement::Chosen;
use crate::rooms::Room;

/// Where so many are needed of one node, those of equal size need not be compared.
const COMPARED_MAX: usize = 16;

/// One who may be taken from, and what that gives on each node.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub job: JobId,
    /// How high it stands: those of equal class and QoS are alike.
    pub level: usize,
    pub parts: Vec<Part>,
    /// The nodes of those that it can be without and go on.
    pub spares: BTreeSet<usize>,
}

/// What one who gives way leaves of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub at: usize,
    gives: Room,
    keeps: Keeps,
}

/// Whether one who gives way keeps something of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    Nothing,
    Something,
}

impl Part {
    /// All that he holds there.
    pub fn all(at: usize, gives: Room) -> Part {
        let keeps = Keeps::Nothing;
        Part { at, gives, keeps }
    }

    /// The cores of what he holds there.
    pub fn cores(at: usize, holds: Room) -> Part {
        let gives = Room {
            cores: holds.cores,
            ..Room::default()
        };
        let keeps = match (holds.gpus, holds.memory) {
            (0, 0) => Keeps::Nothing,
            _ => Keeps::Something,
        };
        Part { at, gives, keeps }
    }

    /// As it is found once he gave it.
    pub fn give(&self, found: &mut Found) {
        found.left = found.left.with(&self.gives);
        if self.keeps == Keeps::Nothing {
            found.held = found.held.saturating_sub(1);
        }
    }

    fn keep(&self, found: &mut Found) {
        found.left = found.left.without(&self.gives);
        if self.keeps == Keeps::Nothing {
            found.held += 1;
        }
    }
}

/// A node that comes into question.
#[derive(Clone, Debug)]
pub(super) struct Place {
    found: Found,
    capacity: Room,
    /// Who may be taken from there and was not, by their place among all.
    victims: BTreeMap<usize, Part>,
    units: u64,
    version: u64,
}

/// Who gives way, and where the job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sought {
    pub victims: Vec<Victim>,
    pub chosen: Vec<Chosen>,
}

/// One who gives way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    pub job: JobId,
    pub level: usize,
    pub gives: Given,
}

/// What one who gives way gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// All that he is to give as a whole.
    All,
    /// These nodes, and he goes on.
    Nodes(Vec<usize>),
}

/// The search for one job.
#[derive(Clone)]
pub(super) struct Search<'a> {
    need: &'a Need,
    candidates: &'a [Candidate],
    places: BTreeMap<usize, Place>,
    total: u64,
    taken: BTreeSet<usize>,
    /// What those of them give who go on.
    given: BTreeMap<usize, Vec<usize>>,
    /// By how much more is offered on all nodes together when one gives way alone, as it was at first.
    alone: Vec<u64>,
}

/// A step: whom to take from on a node, and what comes of it.
type Step = (Vec<usize>, u64);
/// The order of steps: what one unit costs, then who would have to go, then the node.
type Key = (u64, usize, usize);

impl<'a> Search<'a> {
    pub fn new(need: &'a Need, candidates: &'a [Candidate]) -> Search<'a> {
        Search {
            need,
            candidates,
            places: BTreeMap::new(),
            total: 0,
            taken: BTreeSet::new(),
            given: BTreeMap::new(),
            alone: Vec::new(),
        }
    }

    /// A node that comes into question. All are told before the search.
    pub fn place(&mut self, at: usize, found: Found, capacity: Room) {
        let mut place = Place {
            found,
            capacity,
            victims: BTreeMap::new(),
            units: 0,
            version: 0,
        };
        place.units = place.offers(self.need);
        self.total += place.units;
        self.places.insert(at, place);
    }

    /// The same search among others, before it has begun.
    pub fn among<'b>(&self, candidates: &'b [Candidate]) -> Search<'b>
    where
        'a: 'b,
    {
        Search {
            candidates,
            ..self.clone()
        }
    }

    /// Whether it fits though nobody is taken from.
    pub fn is_met(&self) -> bool {
        self.total >= self.need.count()
    }

    /// The fewest who must give way; `None` where all would be too few.
    pub fn fewest(mut self) -> Option<Sought> {
        for (index, candidate) in self.candidates.iter().enumerate() {
            for part in &candidate.parts {
                if let Some(place) = self.places.get_mut(&part.at) {
                    place.victims.insert(index, *part);
                }
            }
        }
        let all = 0..self.candidates.len();
        self.alone = all.map(|index| self.gives_alone(index)).collect();
        let mut steps: BinaryHeap<Reverse<(Key, u64)>> = BinaryHeap::new();
        let all: Vec<usize> = self.places.keys().copied().collect();
        for at in all {
            steps.extend(self.key(at).map(Reverse));
        }
        while !self.is_met() {
            let Reverse(((.., at), version)) = steps.pop()?;
            if self.places[&at].version != version {
                continue;
            }
            let (victims, _) = self.step(at)?;
            let mut touched = BTreeSet::new();
            for index in victims {
                self.taken.insert(index);
                self.take(index, &mut touched);
            }
            for at in touched {
                steps.extend(self.key(at).map(Reverse));
            }
        }
        self.spare();
        self.keep_nodes();
        Some(Sought {
            victims: self.taken.iter().map(|at| self.victim(*at)).collect(),
            chosen: self.chosen(),
        })
    }

    fn victim(&self, index: usize) -> Victim {
        let Candidate { job, level, .. } = self.candidates[index];
        let gives = match self.given.get(&index) {
            Some(nodes) => Given::Nodes(nodes.clone()),
            None => Given::All,
        };
        Victim { job, level, gives }
    }

    fn key(&self, at: usize) -> Option<(Key, u64)> {
        const SCALE: u64 = 1 << 20;
        let (victims, gain) = self.step(at)?;
        let gain = match victims[..] {
            [index] => gain.max(self.alone[index]),
            _ => gain,
        };
        let left = self.need.count().saturating_sub(self.total).max(1);
        let cost = victims.len() as u64 * SCALE / gain.min(left).max(1);
        let last = victims.last().copied().unwrap_or(0);
        Some(((cost, last, at), self.places[&at].version))
    }

    fn gives_alone(&self, index: usize) -> u64 {
        let parts = self.candidates[index].parts.iter();
        let more = parts.filter_map(|part| {
            let place = self.places.get(&part.at)?;
            let mut found = place.found.clone();
            part.give(&mut found);
            let offers = offers(self.need, &found, &place.capacity);
            Some(offers.saturating_sub(place.units))
        });
        more.sum()
    }

    /// The fewest on one node by which it offers more, and how much more.
    fn step(&self, at: usize) -> Option<Step> {
        let place = &self.places[&at];
        if place.victims.is_empty() || place.units >= self.need.count() {
            return None;
        }
        let mut victims = match self.need.sharing {
            Sharing::Exclusive => {
                let leaving = place.victims.values();
                let leaving = leaving.filter(|part| part.keeps == Keeps::Nothing).count();
                let all = place.found.held == leaving as u64;
                let is_free = all && !place.found.is_promised;
                is_free.then(|| place.victims.keys().copied().collect())?
            }
            Sharing::Shared => {
                let want = match self.need.spread {
                    Spread::Nodes { .. } => self.need.least(),
                    Spread::Slots(_) => self.need.room(place.units + 1),
                };
                cover(place.found.left, &want, &place.victims)?
            }
        };
        victims.sort_unstable();
        let mut after = place.found.clone();
        for index in &victims {
            place.victims[index].give(&mut after);
        }
        let offers = offers(self.need, &after, &place.capacity);
        let gain = offers.saturating_sub(place.units);
        (gain > 0).then_some((victims, gain))
    }

    fn take(&mut self, index: usize, touched: &mut BTreeSet<usize>) {
        let candidates = self.candidates;
        for part in &candidates[index].parts {
            if self.take_part(index, part) {
                touched.insert(part.at);
            }
        }
    }

    /// Whether that node comes into question.
    fn take_part(&mut self, index: usize, part: &Part) -> bool {
        let Some(place) = self.places.get_mut(&part.at) else {
            return false;
        };
        place.give(index);
        self.total -= place.units;
        place.units = place.offers(self.need);
        self.total += place.units;
        true
    }

    fn put_back(&mut self, index: usize) {
        let candidates = self.candidates;
        for part in &candidates[index].parts {
            self.put_back_part(index, part);
        }
    }

    fn put_back_part(&mut self, index: usize, part: &Part) {
        if let Some(place) = self.places.get_mut(&part.at) {
            place.keep(index, part);
            self.total -= place.units;
            place.units = place.offers(self.need);
            self.total += place.units;
        }
    }

    /// Spares whoever is not needed, the best first.
    fn spare(&mut self) {
        let taken: Vec<usize> = self.taken.iter().rev().copied().collect();
        for index in taken {
            self.put_back(index);
            if self.is_met() {
                self.taken.remove(&index);
            } else {
                self.take(index, &mut BTreeSet::new());
            }
        }
    }

    /// Whoever can go on without some of his nodes keeps those that are not needed, the lowest ranks first,
    /// and the best of them first. One of whom more is needed ends, and gives all.
    fn keep_nodes(&mut self) {
        let candidates = self.candidates;
        for index in self.taken.clone().into_iter().rev() {
            let Candidate { parts, spares, .. } = &candidates[index];
            let (spare, own): (Vec<&Part>, Vec<&Part>) =
                parts.iter().partition(|part| spares.contains(&part.at));
            if spare.is_empty() {
                continue;
            }
            own.iter().for_each(|part| self.put_back_part(index, part));
            if !self.is_met() {
                for part in own {
                    self.take_part(index, part);
                }
                continue;
            }
            let mut given = Vec::new();
            for part in spare {
                self.put_back_part(index, part);
                if !self.is_met() {
                    self.take_part(index, part);
                    given.push(part.at);
                }
            }
            self.given.insert(index, given);
        }
    }

    /// Where it goes: on the nodes of those who give way, then on others.
    fn chosen(&self) -> Vec<Chosen> {
        let parts = self
            .taken
            .iter()
            .flat_map(|index| &self.candidates[*index].parts);
        let touched: BTreeSet<usize> = parts.map(|part| part.at).collect();
        let others = self.places.keys().filter(|at| !touched.contains(at));
        let mut left = self.need.count();
        let mut chosen = Vec::new();
        for at in touched.iter().chain(others) {
            let units = self.places.get(at).map_or(0, |place| place.units).min(left);
            if units == 0 {
                continue;
            }
            let slots = match self.need.spread {
                Spread::Nodes { slots, .. } => slots,
                Spread::Slots(_) => units,
            };
            left -= match self.need.spread {
                Spread::Nodes { .. } => 1,
                Spread::Slots(_) => units,
            };
            chosen.push(Chosen { at: *at, slots });
        }
        chosen.sort_unstable_by_key(|one| one.at);
        chosen
    }
}

impl Place {
    fn offers(&self, need: &Need) -> u64 {
        offers(need, &self.found, &self.capacity)
    }

    fn give(&mut self, index: usize) {
        if let Some(part) = self.victims.remove(&index) {
            part.give(&mut self.found);
            self.version += 1;
        }
    }

    fn keep(&mut self, index: usize, part: &Part) {
        if self.victims.insert(index, *part).is_none() {
            part.keep(&mut self.found);
            self.version += 1;
        }
    }
}

/// How many of what is asked for go on a node as it is found.
fn offers(need: &Need, found: &Found, capacity: &Room) -> u64 {
    let room = match need.sharing {
        Sharing::Shared => found.left.room(),
        Sharing::Exclusive if found.held == 0 && !found.is_promised => *capacity,
        Sharing::Exclusive => return 0,
    };
    match (room.holds(&need.least()), need.spread) {
        (false, _) => 0,
        (true, Spread::Nodes { .. }) => 1,
        (true, Spread::Slots(slots)) => need.slots_on(&room, slots),
    }
}

/// The fewest of a node's victims by whom it has that much, and of so few those who are to go first.
fn cover(left: Left, want: &Room, victims: &BTreeMap<usize, Part>) -> Option<Vec<usize>> {
    let lacks = left.lacks(want);
    if lacks == [0; 3] {
        return Some(Vec::new());
    }
    let measure = |room: &Room| {
        let parts = [room.cores, room.gpus, room.memory];
        let kinds = lacks.iter().zip(parts).filter(|(lack, _)| **lack > 0);
        // As much as is of use, in thousandths of what is missing.
        kinds
            .map(|(lack, part)| (part.min(*lack as u64) as u128 * 1000 / *lack as u128) as u64)
            .sum::<u64>()
    };
    let mut largest: Vec<(Reverse<u64>, usize)> = victims
        .iter()
        .map(|(index, part)| (Reverse(measure(&part.gives)), *index))
        .collect();
    largest.sort_unstable();
    let is_enough = |of: &mut dyn Iterator<Item = usize>| {
        let sum = of.fold(left, |sum, index| sum.with(&victims[&index].gives));
        sum.lacks(want) == [0; 3]
    };
    let most = largest.len();
    let count = {
        let mut sum = left;
        let mut count = 0;
        while sum.lacks(want) != [0; 3] {
            let (_, index) = largest.get(count)?;
            sum = sum.with(&victims[index].gives);
            count += 1;
        }
        count
    };
    let greedy = || largest[..count].iter().map(|(_, index)| *index).collect();
    if count == most || count > COMPARED_MAX {
        return Some(greedy());
    }
    // Each in turn is the first to go with whom, and the largest of the others, so few will do.
    let mut chosen: Vec<usize> = Vec::new();
    for more in (0..count).rev() {
        let mut next = victims
            .keys()
            .copied()
            .filter(|index| !chosen.contains(index));
        let fits = |index: &usize| {
            let rest = largest.iter().map(|(_, other)| *other);
            let rest = rest.filter(|other| other != index && !chosen.contains(other));
            let mut all = chosen
                .iter()
                .copied()
                .chain([*index])
                .chain(rest.take(more));
            is_enough(&mut all)
        };
        let Some(index) = next.find(fits) else {
            return Some(greedy());
        };
        chosen.push(index);
    }
    Some(chosen)
}

#[cfg(test)]
mod tests;
