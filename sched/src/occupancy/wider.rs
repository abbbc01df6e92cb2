//! A job that leaves its number of nodes open: planned and promised as its least, started on the most
//! that are free for all its time.
//!
//! Asked as it starts. What others are promised it leaves alone; who waits behind it has no claim on what
//! it takes more, as on anything that somebody ahead of him takes.

use std::sync::Arc;

use eddy_wire::plan::Want;
use eddy_wire::time::Time;

use super::Occupancy;
use super::ask::{Ask, Spot, spot};
use crate::policy::{Policy, Reservations, Source, Walk};

/// How many nodes a job is given that leaves their number open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// As many as there are.
    Most,
    /// The fewest that will do.
    Least,
}

impl Width {
    /// The fewest where what one takes is due to another: accounts that take turns, so much for a pass,
    /// and several promises that are all made anew after the first has started.
    pub(super) fn of(policy: &Policy) -> Width {
        let queue = &policy.queue;
        let is_shared = match queue.source {
            Source::Global | Source::ByQueue => false,
            Source::PerAccountCost | Source::PerAccountSlices { .. } => true,
        };
        let depth = match queue.walk {
            Walk::Stop | Walk::Skip => 0,
            Walk::Reserve { depth } => depth,
        };
        let promises_anew = queue.reservations == Reservations::Replanned && depth > 1;
        match is_shared || promises_anew || !queue.limits.pass_fraction.is_empty() {
            true => Width::Least,
            false => Width::Most,
        }
    }
}

impl Occupancy {
    /// Where a job starts instead that would take more nodes than at this spot: on as many as there are for
    /// it until then. None where it has no choice, or there are no more.
    pub(super) fn wider(&mut self, at: &Spot, until: Time) -> Option<Spot> {
        let request = &at.ask.want.request;
        if request.choice.is_none() || at.is_of_gang() || self.width == Width::Least {
            return None;
        }
        let counts = request.wider(u32::try_from(self.inventory.len()).unwrap_or(u32::MAX));
        let (mut found, mut rest) = (None, counts.as_slice());
        // Where fewer do not fit more do not either.
        while let Some((below, [middle, above @ ..])) = rest.split_at_checked(rest.len() / 2) {
            match self.on_nodes(&at.ask, *middle, until) {
                Some(spot) => (found, rest) = (Some(spot), above),
                None => rest = below,
            }
        }
        found
    }

    fn on_nodes(&mut self, ask: &Ask, nodes: u32, until: Time) -> Option<Spot> {
        let want = Want {
            request: ask.want.request.on_nodes(nodes),
            ..Want::clone(&ask.want)
        };
        let wider = Ask::new(ask.job, Arc::new(want));
        if self.is_limited(&wider) {
            return None;
        }
        let placed = self.fit_now(&wider, until).ok()?;
        Some(spot(&wider, placed))
    }
}
