//! The nodes on which only this instance may have something begin: those that are drained, or kept for
//! somebody or for maintenance.
//!
//! Instances that work on while this one is away are told of theirs, and users' instances of those of their nodes that
//! are out of service, here or further up. Knows nothing of who may use what is kept.

use std::collections::BTreeMap;

use eddy_wire::event::{Kind, Record};
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::plan::Going;
use eddy_wire::reservation::Reservations;
use eddy_wire::services::child::Closed;
use eddy_wire::time::Time;

use crate::queues_above::QueuesAbove;

/// Those of this instance.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    drained: Idset,
    reservations: Reservations,
    /// What the parent has closed.
    above: QueuesAbove,
}

impl Nodes {
    pub(super) fn apply(&mut self, record: &Record) {
        self.above.apply(record);
        match &record.event.kind {
            Kind::Drain(ranks, ..) => self.drained = self.drained.union(ranks),
            Kind::Undrain(ranks, _) => self.drained = self.drained.difference(ranks),
            Kind::Reservation(kept) => self.reservations.apply(kept),
            _ => {}
        }
    }

    pub(super) fn is_drained(&self, rank: Rank) -> bool {
        self.drained.contains(rank.0)
    }

    /// Those of a user's instance in which ranks are called so: what is kept for others it does not have.
    pub(super) fn out_of_service(&self, numbers: &BTreeMap<Rank, Rank>) -> Vec<Closed> {
        let ranks = inside(numbers, &self.all_drained());
        let (from, until) = (None, None);
        let closed = (!ranks.is_empty()).then_some(Closed { ranks, from, until });
        closed.into_iter().collect()
    }

    /// Those that such an instance has until a time: so it has them itself, or so this one has them.
    pub(super) fn going(
        &self,
        numbers: &BTreeMap<Rank, Rank>,
        own: impl Iterator<Item = (Rank, Time)>,
    ) -> Vec<Closed> {
        let above: Vec<Going> = self.above.going().collect();
        let above = above.iter().flat_map(|going| {
            let ranks = going.ranks.iter().map(Rank);
            ranks.map(|rank| (rank, going.at))
        });
        let mut first: BTreeMap<Rank, Time> = BTreeMap::new();
        for (rank, at) in own.chain(above) {
            let known = first.entry(rank).or_insert(at);
            *known = at.min(*known);
        }
        let mut by_time: BTreeMap<Time, Idset> = BTreeMap::new();
        for (rank, at) in first {
            by_time.entry(at).or_default().insert(rank.0);
        }
        let closed = by_time.into_iter().map(|(at, ranks)| Closed {
            ranks: inside(numbers, &ranks),
            from: Some(at),
            until: None,
        });
        closed.filter(|one| !one.ranks.is_empty()).collect()
    }

    fn all_drained(&self) -> Idset {
        self.drained.union(&self.above.drained())
    }

    /// Those of an instance in which ranks are called so.
    pub(super) fn of(&self, numbers: &BTreeMap<Rank, Rank>) -> Vec<Closed> {
        let inside = |ranks: &Idset| inside(numbers, ranks);
        let drained = (inside(&self.all_drained()), None, None);
        let kept = self.reservations.all();
        let kept = kept.map(|one| (inside(&one.ranks), Some(one.from), Some(one.until)));
        let closed = kept
            .chain([drained])
            .filter(|(ranks, ..)| !ranks.is_empty());
        let closed = closed.map(
            |(ranks, from, until): (Idset, Option<Time>, Option<Time>)| Closed {
                ranks,
                from,
                until,
            },
        );
        closed.collect()
    }
}

/// Those of these ranks that an instance has, as they are called in it.
fn inside(numbers: &BTreeMap<Rank, Rank>, ranks: &Idset) -> Idset {
    let numbers = numbers.iter().filter(|(rank, _)| ranks.contains(rank.0));
    numbers.map(|(_, number)| number.0).collect()
}
