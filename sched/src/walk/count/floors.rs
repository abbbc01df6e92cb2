//! Where a search for a gap need not look again: before the start of one who
//! asked for no more and for no longer.
//!
//! What is taken only makes gaps smaller, so a time before which a need found no
//! gap is a floor for all that are at least as wide and as long. What is given
//! back from some time on may open gaps that reach into it: floors from before
//! are cut to what ends before that time. Only the count asks it; without it a
//! plan of a long queue would try every gap for every job.

use std::collections::BTreeMap;

use eddy_wire::time::{Span, Time};

/// Classes in an octave: neighbours differ by 9 %.
const FINE: usize = 8;

/// Octaves of needs, and of spans in units of [`UNIT_BITS`].
const OCTAVES: usize = 24;

const SIDE: usize = FINE * OCTAVES;

/// Spans are told apart by 2^20 microseconds, about a second.
const UNIT_BITS: u32 = 20;

/// Requests that are remembered exactly; beyond, all are forgotten.
const EXACT: usize = 100_000;

/// Floors of searches since some time.
#[derive(Clone, Debug, Default)]
pub struct Floors {
    /// The latest time from which something that is remembered was searched.
    from: Option<Time>,
    /// Many ask for the very same.
    exact: BTreeMap<(u64, Span), Floor>,
    /// A tree of prefixes over classes of need and of span; empty until the first is noted.
    cells: Vec<Floor>,
    /// Gives, by the number of notes before them; a later one from an earlier time hides those
    /// before it, so times rise.
    gives: Vec<(u64, Time)>,
    notes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Floor {
    at: Time,
    /// How many notes were before it.
    note: u64,
}

/// Says nothing.
const NONE: Floor = Floor {
    at: Time(i64::MIN),
    note: 0,
};

impl Floors {
    /// A time before which, from `from` on, there is no gap for so many for so long.
    pub fn at(&self, need: u64, span: Span, from: Time) -> Time {
        if self.from.is_none_or(|noted| noted > from) {
            return from;
        }
        let exact = self.exact.get(&(need, span));
        let mut best = exact.map_or(from, |&floor| self.holds(floor, span));
        if let (Some(row), Some(column)) = (below(need), below(units(span))) {
            for row in prefixes(row) {
                for column in prefixes(column) {
                    let floor = self.cells[row * SIDE + column];
                    best = best.max(self.holds(floor, span));
                }
            }
        }
        best.max(from)
    }

    /// Searched from `from`, so many for so long found no gap before `at`.
    pub fn note(&mut self, need: u64, span: Span, from: Time, at: Time) {
        self.from = Some(self.from.map_or(from, |noted| noted.max(from)));
        if self.cells.is_empty() {
            self.cells = vec![NONE; SIDE * SIDE];
        }
        if self.exact.len() >= EXACT {
            self.exact.clear();
        }
        self.notes += 1;
        let floor = Floor {
            at,
            note: self.notes,
        };
        self.exact.insert((need, span), floor);
        let units = units(Span(span.0.saturating_add((1 << UNIT_BITS) - 1)));
        if let (Some(row), Some(column)) = (above(need), above(units)) {
            for row in covers(row) {
                for column in covers(column) {
                    let old = self.cells[row * SIDE + column];
                    // The shortest span that reads this cell is not longer than this one.
                    if self.holds(old, span) < at {
                        self.cells[row * SIDE + column] = floor;
                    }
                }
            }
        }
    }

    /// From this time on there may be more.
    pub fn given(&mut self, from: Time) {
        while self.gives.last().is_some_and(|&(_, last)| last >= from) {
            self.gives.pop();
        }
        self.gives.push((self.notes, from));
        if self.gives.len() == 1 {
            self.exact.clear();
        }
    }

    /// What is left of a floor for this span after all that was given since.
    fn holds(&self, floor: Floor, span: Span) -> Time {
        let since = self.gives.partition_point(|&(notes, _)| notes < floor.note);
        match self.gives.get(since) {
            None => floor.at,
            Some(&(_, given)) => floor.at.min(Time(given.0.saturating_sub(span.0))),
        }
    }
}

fn units(span: Span) -> u64 {
    u64::try_from(span.0).unwrap_or(0) >> UNIT_BITS
}

/// The class an amount is in, 0 for none; the last is open above.
fn below(amount: u64) -> Option<usize> {
    let octave = amount.checked_ilog2()?;
    let fine = (u128::from(amount) * FINE as u128) >> octave;
    let class = octave as usize * FINE + (fine as usize - FINE);
    Some(class.min(SIDE - 1))
}

/// The first class all of which is at least this much.
fn above(amount: u64) -> Option<usize> {
    let Some(octave) = amount.checked_ilog2() else {
        return Some(0);
    };
    let class = octave as usize * FINE
        + ((u128::from(amount) * FINE as u128).div_ceil(1 << octave) as usize - FINE);
    (class < SIDE).then_some(class)
}

/// The cells of a prefix tree that together hold all up to an index.
fn prefixes(index: usize) -> impl Iterator<Item = usize> {
    let next = |&at: &usize| (at & (at - 1) != 0).then(|| at & (at - 1));
    std::iter::successors(Some(index + 1), next).map(|at| at - 1)
}

/// The cells of a prefix tree that an index is in.
fn covers(index: usize) -> impl Iterator<Item = usize> {
    let next = |&at: &usize| Some(at + (at & at.wrapping_neg())).filter(|&at| at <= SIDE);
    std::iter::successors(Some(index + 1), next).map(|at| at - 1)
}
