//! Which nodes may serve a request: all, or those of the ranks that it names.
//!
//! Made by placement and feasibility for one look; asks [`Rooms`] the same
//! questions of the part as of the whole. It knows places in an index, no ranks.

use eddy_wire::idset::Idset;

use crate::rooms::{Room, Rooms, Totals};

/// Places in an index that may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    All,
    /// First place and the one behind the last of each run, ascending.
    Runs(Vec<(usize, usize)>),
}

impl Within {
    /// The places of these ranks, where place `n` is that of `all[n]`; of every rank if none
    /// are named.
    pub fn of(ranks: Option<&Idset>, all: &[u32]) -> Within {
        let Some(ranks) = ranks else {
            return Within::All;
        };
        let runs = ranks.ranges().iter().map(|&(first, last)| {
            let from = all.partition_point(|rank| *rank < first);
            let to = all.partition_point(|rank| *rank <= last);
            (from, to)
        });
        Within::Runs(runs.filter(|(from, to)| from < to).collect())
    }

    /// Whether a place is one of them.
    pub fn has(&self, at: usize) -> bool {
        match self {
            Within::All => true,
            Within::Runs(runs) => {
                let run = runs.get(runs.partition_point(|(_, to)| *to <= at));
                run.is_some_and(|(from, _)| *from <= at)
            }
        }
    }

    /// The first place at or after `from` that has room for `need`.
    pub fn next(&self, rooms: &Rooms, from: usize, need: &Room) -> Option<usize> {
        let runs = match self {
            Within::All => return rooms.next(from, need),
            Within::Runs(runs) => runs,
        };
        let mut from = from;
        loop {
            // 1. On to the run that has `from` or is the next. 2. The first room from there on,
            // wherever it is: if it lies behind the run, the search goes on from it.
            let (first, last) = runs.get(runs.partition_point(|(_, to)| *to <= from))?;
            let at = rooms.next(from.max(*first), need)?;
            if at < *last {
                return Some(at);
            }
            from = at;
        }
    }

    /// The last place before `until` that has room for `need`.
    pub fn last(&self, rooms: &Rooms, until: usize, need: &Room) -> Option<usize> {
        let runs = match self {
            Within::All => return rooms.last(until, need),
            Within::Runs(runs) => runs,
        };
        let before = runs.partition_point(|(from, _)| *from < until);
        runs[..before].iter().rev().find_map(|(from, to)| {
            let at = rooms.last(until.min(*to), need)?;
            (*from <= at).then_some(at)
        })
    }

    /// What these places have together.
    pub fn totals(&self, rooms: &Rooms) -> Totals {
        match self {
            Within::All => *rooms.totals(),
            Within::Runs(runs) => runs.iter().fold(Totals::default(), |sum, (from, to)| {
                sum.with(rooms.totals_of(*from, *to))
            }),
        }
    }
}
