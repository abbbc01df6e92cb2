//! What a walk asks of resources: is there room now, when will there be.
//!
//! Implemented by the count of processors and by the nodes of an instance. A
//! room knows what is held until when and what is reserved from when to when; it
//! does not know why.

use eddy_wire::time::{Span, Time};

/// Resources over time, as a walk sees them.
///
/// A `Need` is what a job asks for, a `Spot` where it goes. What is held or
/// reserved ends when it is said to end; a job without a limit ends at
/// [`Time`]`(i64::MAX)`.
pub trait Room {
    /// What a job asks for.
    type Need;
    /// Where a job goes: enough to hold it, give it back and name it.
    type Spot: Clone;

    /// Where the need fits from `now` for the whole span, beside all that is held and reserved.
    ///
    /// # Errors
    /// [`Blocked`] with what is in the way.
    fn fit(&self, need: &Self::Need, now: Time, span: Span) -> Result<Self::Spot, Blocked>;

    /// The earliest time at or after `from` at which it fits for the whole span, and where.
    ///
    /// # Errors
    /// [`Blocked::Never`] if it would not fit even when everything is given back, and
    /// [`Blocked::NotInService`] if only for nodes that are out of service.
    fn earliest(
        &self,
        need: &Self::Need,
        from: Time,
        span: Span,
    ) -> Result<(Time, Self::Spot), Blocked>;

    /// From `from` for the span the spot is not to be had by others.
    fn take(&mut self, spot: &Self::Spot, from: Time, span: Span);

    /// Takes back a [`Room::take`] of the same spot and times.
    fn give(&mut self, spot: &Self::Spot, from: Time, span: Span);
}

/// Why there is no room.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Not even if everything were free.
    Never,
}
