//! Who has no limit, where the policy assumes one, and nodes that close.
//!
//! What is assumed orders what is planned. It ends nobody: on a node that is reserved for others from some
//! time on, who has no limit of its own does not begin, since it may run on for ever. So searches for one
//! are made over those nodes alone that stay open.

use std::sync::Arc;

use eddy_wire::time::{Span, Time};

use super::ask::spot;
use super::{Ask, Occupancy, Spot};
use crate::joint::Joint;
use crate::together::Placed;

/// Whether there is room now.
pub(crate) enum Now {
    Fits(Spot),
    NoRoom,
    Never,
}

/// On which nodes a request may begin.
enum Open {
    /// As it says.
    All,
    /// The same, on those that stay open.
    Some(Arc<Ask>),
    /// What it had is on one that closes.
    None,
}

impl Occupancy {
    /// Whether it fits now for so long; of what does not, only whether it ever could.
    pub fn fits(&mut self, ask: &Arc<Ask>, now: Time, span: Span) -> Now {
        if self.is_let_in(ask) {
            return self.let_in(ask, |room| room.fits(ask, now, span));
        }
        if self.lacks_ranks(ask) || self.outlasts(ask, now).is_some() {
            return Now::Never;
        }
        if self.pools_fit(ask, now, span)
            && let Some(chosen) = self.fit_open(ask, now, span)
        {
            return Now::Fits(spot(ask, chosen));
        }
        // Who would wait for nodes that are somebody's, or for a pool that is not there, waits for no end.
        match self.choose_all(ask, self.inventory.common()) {
            Ok(_) if self.pool_never(ask).is_none() => Now::NoRoom,
            Ok(_) | Err(_) => Now::Never,
        }
    }

    /// Whether it would fit now if it were over at once; of what does not, only whether it ever could.
    pub fn fits_briefly(&mut self, ask: &Arc<Ask>, now: Time) -> Now {
        let brief = match ask.want.request.duration {
            Some(_) => Arc::clone(ask),
            None => Arc::new(ask.with_limit(Span(1))),
        };
        self.fits(&brief, now, Span(1))
    }

    /// Where it fits now for so long.
    pub(super) fn fit_open(&mut self, ask: &Arc<Ask>, now: Time, span: Span) -> Option<Placed> {
        let until = now.after(span);
        match self.open_to(ask, now, span) {
            Open::All => self.fit_now(ask, until).ok(),
            Open::Some(ask) => self.fit_now(&ask, until).ok(),
            Open::None => None,
        }
    }

    /// The earliest time between two at which it fits for so long.
    pub(super) fn sweep_open(
        &mut self,
        ask: &Arc<Ask>,
        (from, before): (Time, Option<Time>),
        span: Span,
    ) -> Option<(Time, Placed)> {
        let mut best: Option<(Time, Placed)> = None;
        for at in self.openings(ask, (from, before), span) {
            if best.as_ref().is_some_and(|(sooner, _)| *sooner <= at) {
                break;
            }
            let found = match self.open_to(ask, at, span) {
                Open::All => self.sweep(ask, (at, before), span),
                Open::Some(ask) => self.sweep(&ask, (at, before), span),
                Open::None => None,
            };
            best = best.into_iter().chain(found).min_by_key(|(at, _)| *at);
        }
        best
    }

    /// Whether it may run on for ever though it is planned for so long, and some nodes close to it.
    pub(super) fn is_endless(&self, ask: &Ask, span: Span) -> bool {
        let has_limit = |one: &Ask| one.want.request.duration.is_some_and(|limit| limit > 0);
        span < Span(i64::MAX) && !ask.each().all(has_limit) && self.closed_to(ask).next().is_some()
    }

    /// The span in which it is in the way of what closes.
    pub(super) fn span_open(&self, ask: &Ask, span: Span) -> Span {
        match self.is_endless(ask, span) {
            true => Span(i64::MAX),
            false => span,
        }
    }

    /// When there may be more nodes to it than before: at the first of these times, and when others open.
    fn openings(&self, ask: &Ask, (from, before): (Time, Option<Time>), span: Span) -> Vec<Time> {
        let mut times = vec![from];
        if self.is_endless(ask, span) {
            let is_between = |at: &Time| *at > from && before.is_none_or(|before| *at < before);
            times.extend(self.ends().filter(is_between));
            times.sort_unstable();
            times.dedup();
        }
        times
    }

    fn open_to(&self, ask: &Arc<Ask>, from: Time, span: Span) -> Open {
        if !self.is_endless(ask, span) {
            return Open::All;
        }
        let closed = self.closed_after(ask, from);
        match ask.joint() {
            _ if closed.is_empty() => Open::All,
            Some(Joint::Back(cores)) => match cores.keys().any(|rank| closed.contains(rank.0)) {
                true => Open::None,
                false => Open::All,
            },
            Some(Joint::Gang(_) | Joint::Sockets(_)) | None => {
                Open::Some(Arc::new(ask.beside(&closed, self.inventory.all().ranks())))
            }
        }
    }
}
