//! A grant: resources held by one attempt of a job until given back.
//!
//! Made by the scheduler's verdict, recorded by `alloc`, ended by `free`. It
//! is not a request (that is the jobspec) and not a free-standing set of
//! resources (that is a [`ResourceSet`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::PassedTo;
use crate::id::{Epoch, JobId, Rank};
use crate::idset::Idset;
use crate::resource_set::ResourceSet;

/// Resources held by a job, which change only by records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Number of changes of this grant, from 1; made by the granting instance only.
    pub epoch: Epoch,
    /// What is held.
    #[serde(rename = "R")]
    pub set: Arc<ResourceSet>,
    /// The epoch of the shell on each rank at the time of the grant: a start
    /// is good for that life of the shell only. A node of an instance whose ground there was lost
    /// has none, until it has ground there again.
    pub shells: BTreeMap<Rank, Epoch>,
    /// Nodes that an instance has besides what it holds, each by the job that holds it for the
    /// instance (`attributes.system.grows`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<Rank, JobId>,
    /// Which queue instance the job is passed to, to start there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Arc<PassedTo>>,
}

/// What the nodes of an instance are called in it: the ranks of its grant, counted from 0 in the
/// order in which they came.
///
/// A fold of its grants, made by its parent alone. A rank that comes again is another, so that
/// nothing of what was there before is taken for it; the number that it had stays known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seats {
    /// The number that each rank had last.
    of: BTreeMap<Rank, Rank>,
    /// The rank of each number there ever was, in their order.
    ranks: Vec<Rank>,
    /// The ranks that are there.
    here: BTreeSet<Rank>,
}

impl Seats {
    /// Takes the next grant in: those without ground go, the new ones come last.
    pub fn follow(&mut self, grant: &Grant) {
        let there: BTreeSet<Rank> = grant
            .shells
            .keys()
            .chain(grant.beside.keys())
            .copied()
            .collect();
        self.here.retain(|rank| there.contains(rank));
        for rank in &there {
            if self.here.insert(*rank) {
                self.of.insert(*rank, Rank(self.ranks.len() as u32));
                self.ranks.push(*rank);
            }
        }
    }

    /// What the ranks that are there are called inside.
    pub fn numbers(&self) -> BTreeMap<Rank, Rank> {
        let here = self.here.iter();
        here.map(|rank| (*rank, self.of[rank])).collect()
    }

    /// All numbers there ever were.
    pub fn all(&self) -> Idset {
        Idset::first_ids(self.ranks.len() as u32)
    }

    /// The rank that has a number inside, or had it.
    pub fn rank(&self, number: Rank) -> Option<Rank> {
        self.ranks.get(number.0 as usize).copied()
    }

    /// What a rank is called inside, or was called last.
    pub fn number(&self, rank: Rank) -> Option<Rank> {
        self.of.get(&rank).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(ranks: &[u32]) -> Grant {
        Grant {
            epoch: Epoch(1),
            set: Arc::default(),
            shells: ranks.iter().map(|rank| (Rank(*rank), Epoch(1))).collect(),
            beside: BTreeMap::new(),
            passed: None,
        }
    }

    #[test]
    fn what_is_held_by_another_job_is_counted_as_it_comes() {
        let mut seats = Seats::default();
        seats.follow(&grant(&[3, 7]));
        let mut more = grant(&[3, 7]);
        more.beside.insert(Rank(1), JobId(9));
        seats.follow(&more);
        assert_eq!(seats.number(Rank(1)), Some(Rank(2)));
        assert_eq!(seats.number(Rank(3)), Some(Rank(0)));
        seats.follow(&grant(&[3, 7]));
        more.beside.insert(Rank(5), JobId(10));
        seats.follow(&more);
        let numbers = seats.numbers();
        assert_eq!(numbers[&Rank(1)], Rank(3), "it came again");
        assert_eq!(numbers[&Rank(5)], Rank(4));
    }

    #[test]
    fn a_node_that_comes_again_is_another() {
        let mut seats = Seats::default();
        let numbers = |seats: &Seats| -> Vec<(u32, u32)> {
            let numbers = seats.numbers().into_iter();
            numbers.map(|(rank, number)| (rank.0, number.0)).collect()
        };
        seats.follow(&grant(&[3, 7]));
        assert_eq!(numbers(&seats), [(3, 0), (7, 1)]);
        seats.follow(&grant(&[3, 5, 7]));
        assert_eq!(numbers(&seats), [(3, 0), (5, 2), (7, 1)]);
        seats.follow(&grant(&[3, 5]));
        assert_eq!(numbers(&seats), [(3, 0), (5, 2)]);
        assert_eq!(seats.number(Rank(7)), Some(Rank(1)), "as it was called");
        seats.follow(&grant(&[3, 7]));
        assert_eq!(numbers(&seats), [(3, 0), (7, 3)]);
        assert_eq!(seats.number(Rank(9)), None);
        let of = |number| seats.rank(Rank(number));
        assert_eq!((of(1), of(3)), (Some(Rank(7)), Some(Rank(7))));
        assert_eq!(of(4), None);
    }
}
