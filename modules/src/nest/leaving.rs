//! Nodes that a child is to give back while it goes on: which, and in how long.
//!
//! They are said with all else that it has (`granted`), as often as that is; what it does then are its own
//! records. Decides nothing: they go since others need them, since the jobs through which it has them are to
//! end, or since this instance gives them back itself.

use std::collections::BTreeMap;

use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::services::child::Granted;
use eddy_wire::time::{Span, Time};

use super::Nest;
use super::adopt::grace_within;
use super::child::Child;

/// The nodes that this instance is to give back itself.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    ranks: Idset,
    /// When whatever is left there is killed, where the parent has said.
    until: BTreeMap<Rank, Time>,
}

impl Leaving {
    pub fn told(&mut self, now: Time, granted: &Granted) {
        self.ranks.clone_from(&granted.leaving);
        let within = granted.within.iter();
        self.until = within
            .map(|(rank, left)| (*rank, now.after(*left)))
            .collect();
    }
}

impl Nest {
    /// The nodes of a child that it is to give back, as it calls them. Where its leader's is, it ends as a
    /// whole.
    pub(super) fn leaving(&self, child: &Child) -> Idset {
        let leaving = self.leave(child);
        leaving.map(|(_, number)| number.0).collect()
    }

    /// In how long what it has there is to have ended, where that is not its kill grace: a level inside is done before
    /// the one around it sends its own KILL.
    pub(super) fn within(&self, now: Time, child: &Child) -> BTreeMap<Rank, Span> {
        let within = self.leave(child).filter_map(|(rank, number)| {
            let own = child.until_on(rank);
            let above = self.leaving.until.get(&rank).copied();
            if above.is_none() && self.leaving.ranks.contains(rank.0) {
                // Nobody has said, so it is the kill grace.
                return None;
            }
            let until = own.into_iter().chain(above).min()?;
            let left = Span((until - now).0.max(0));
            Some((number, grace_within(left)))
        });
        within.collect()
    }

    fn leave(&self, child: &Child) -> impl Iterator<Item = (Rank, Rank)> {
        let leaving = child.leaving().union(&self.leaving.ranks);
        let leaving = leaving.difference(&self.hosts.kept(child));
        let numbers = child.numbers().into_iter();
        numbers.filter(move |(rank, _)| leaving.contains(rank.0))
    }
}
