//! What a walk asks of resources: is there room now, when will there be.
//!
//! Implemented by the count of processors and by the nodes of an instance. A
//! room knows what is held until when and what is reserved from when to when; it
//! does not know why.

use eddy_wire::time::{Span, Time};

use super::ceiling::Ceiling;

/// Resources over time, as a walk sees them.
///
/// A `Need` is what a job asks for, a `Spot` where it goes. What is held or
/// reserved ends when it is said to end; a job without a limit ends at
/// [`Time`]`(i64::MAX)`. A span of nothing is taken as the least span there is,
/// so that two jobs never have the same place at the same instant.
///
/// Searches take `&mut self`, so that a room may remember where a search of the
/// same pass need not look again.
pub trait Room {
    /// What a job asks for.
    type Need;
    /// Where a job goes: enough to hold it, give it back and name it.
    type Spot: Clone;

    /// The least of one amount of the room's choice (processors, cores) that the need takes
    /// wherever it goes; 0 where nothing can be said. It never changes for the same need.
    fn least(&self, need: &Self::Need) -> u64;

    /// The most of that amount that is free from `now` for a span, by span. It may say too much,
    /// never too little: what it does not admit is not tried.
    fn ceiling(&mut self, now: Time, ceiling: &mut Ceiling);

    /// Where the need fits from `now` for the whole span, beside all that is held and reserved.
    ///
    /// # Errors
    /// [`Blocked`] with what is in the way.
    fn fit(&mut self, need: &Self::Need, now: Time, span: Span) -> Result<Self::Spot, Blocked>;

    /// Whether one who asks for that holds something already, and wants the rest of it back.
    fn takes_back(&self, _: &Self::Need) -> bool {
        false
    }

    /// Whether what was promised for now may start, limits considered.
    fn admits(&mut self, _: &Self::Need) -> bool {
        true
    }

    /// The earliest time at or after `from` at which it fits for the whole span, and where.
    ///
    /// # Errors
    /// [`Blocked::Never`] if it would not fit even when everything is given back, and
    /// [`Blocked::NotInService`] if only for nodes that are out of service.
    fn earliest(
        &mut self,
        need: &Self::Need,
        from: Time,
        span: Span,
    ) -> Result<(Time, Self::Spot), Blocked>;

    /// Moves what was taken from `old.1` for the span to the earliest time at or after `from` at
    /// which it fits, and says where it went; `None` if it stays because that is not earlier.
    fn sooner(
        &mut self,
        need: &Self::Need,
        from: Time,
        old: (&Self::Spot, Time),
        span: Span,
    ) -> Option<(Time, Self::Spot)> {
        let (spot, at) = old;
        self.give(spot, at, span);
        match self.earliest(need, from, span) {
            Ok((sooner, found)) if sooner < at => {
                self.take(&found, sooner, span);
                Some((sooner, found))
            }
            Ok(_) | Err(_) => {
                self.take(spot, at, span);
                None
            }
        }
    }

    /// Moves what was taken from `old.1` for the span to `now`, and says where it went; `None` if it
    /// stays because there is no room for it now.
    fn at_once(
        &mut self,
        need: &Self::Need,
        now: Time,
        old: (&Self::Spot, Time),
        span: Span,
    ) -> Option<Self::Spot> {
        let (spot, at) = old;
        self.give(spot, at, span);
        let found = self.fit(need, now, span).ok();
        match &found {
            Some(found) => self.take(found, now, span),
            None => self.take(spot, at, span),
        }
        found
    }

    /// From `from` for the span the spot is not to be had by others.
    fn take(&mut self, spot: &Self::Spot, from: Time, span: Span);

    /// Takes back a [`Room::take`] of the same spot, or the last part of it.
    fn give(&mut self, spot: &Self::Spot, from: Time, span: Span);

    /// What was before this time is not asked for any more.
    fn forget(&mut self, before: Time);
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Not before something else ends.
    Busy {
        /// What is short: `cores`, `whole nodes`…
        what: &'static str,
        /// Asked for.
        asked: u64,
        /// Free now, what is reserved not counted.
        free: u64,
    },
    /// It is free now, but others have it reserved before the job would end.
    Reserved,
    /// It would fit if nodes that are out of service came back.
    NotInService,
    /// As much was started as may be for now.
    Limited,
    /// Not even if everything were free.
    Never,
}
