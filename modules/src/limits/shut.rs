//! What keeps a job from beginning whatever is free: its queue is stopped, or its reservation is still to begin.
//!
//! Part of the limits: such a job has no use for a place, which somebody else may have meanwhile.

use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::queue::Gates;
use eddy_wire::reservation::{self, Reservation, Reservations};
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;

use super::Limits;
use crate::ingest::queues;

/// Which queues are stopped, and when reservations begin.
#[derive(Debug, Default)]
pub(super) struct Shut {
    gates: Gates,
    reservations: Reservations,
}

impl Shut {
    /// Takes a record in that may be of that.
    pub fn apply(&mut self, record: &Record) {
        match &record.event.kind {
            Kind::Queue(turned) => self.gates.apply(record.event.t, turned),
            Kind::Reservation(kept) => self.reservations.apply(kept),
            _ => {}
        }
    }

    fn is_stopped(&self, spec: &Spec) -> bool {
        queues::of(spec).is_some_and(|queue| self.gates.stopped(queue).is_some())
    }

    fn reservation(&self, spec: &Spec) -> Option<&Reservation> {
        let named = self.reservations.get(reservation::of(spec)?)?;
        Some(named)
    }

    /// Whether a job like this may be kept from beginning, at some time from now on.
    pub fn may_shut(&self, spec: &Spec) -> bool {
        self.is_stopped(spec) || self.reservation(spec).is_some()
    }
}

impl Limits {
    /// Whether a job cannot begin now, whatever is free.
    pub fn is_shut(&self, now: Time, id: JobId) -> bool {
        let Some(seen) = self.jobs.get(&id) else {
            return false;
        };
        self.shut.is_stopped(&seen.spec) || self.opens(id).is_some_and(|at| now < at)
    }

    /// When the reservation begins that a job is for.
    pub fn opens(&self, id: JobId) -> Option<Time> {
        let seen = self.jobs.get(&id)?;
        self.shut.reservation(&seen.spec).map(|one| one.from)
    }
}
