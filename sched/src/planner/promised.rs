//! What is promised to those who wait: by the walk, or where accounts take turns to those who waited too
//! long.
//!
//! Asked by the planner wherever it does not matter which. What others leave to one is no promise here
//! (`claims`).

use eddy_wire::id::JobId;
use eddy_wire::plan::Mover;
use eddy_wire::time::Time;

use super::Planner;
use super::taking::Standing;
use crate::occupancy::Spot;
use crate::turns::Turn;
use crate::walk::LAST;

impl Planner {
    /// Who is promised what from when on; at the end of time where that is not known.
    pub(super) fn promises(&self) -> impl Iterator<Item = (Turn, Time, &Spot)> {
        let booked = self.agenda.bookings();
        let booked = booked.map(|(turn, one)| (*turn, known(one.at), &one.spot));
        let late = self.table.iter().flat_map(|table| table.promises());
        booked.chain(late.map(|(turn, one)| (*turn, one.at(), &one.spot)))
    }

    /// When one begins by what is promised to it.
    pub(super) fn promised_start(&self, turn: &Turn) -> Option<Time> {
        let booked = self.agenda.booking(turn).map(|one| known(one.at));
        let late = self.table.as_ref().and_then(|table| table.promise(turn));
        booked.or(late.map(|one| one.at()))
    }

    /// One is promised nothing any more, nor are those behind it who would keep it waiting.
    pub(super) fn unreserve(&mut self, turn: &Turn, mover: Option<Mover>) {
        let behind = match &mut self.table {
            Some(table) => table.lose(turn, &mut self.occupancy),
            None => self.agenda.lose(turn, &mut self.occupancy),
        };
        if let Some(mover) = mover {
            self.hindsight.moves(turn.job, mover);
            for other in behind {
                self.hindsight.stands_back(other.job, mover);
            }
        }
    }

    /// Whether something is promised to one since it waited too long where accounts take turns.
    pub(super) fn is_late(&self, job: JobId) -> bool {
        let table = self.table.as_ref();
        let promise = table.and_then(|table| table.promise(&self.turn_of(job)?));
        promise.is_some()
    }

    /// Whether one who takes keeps such a promise from no job: by QoS, or by a higher class.
    pub(super) fn displaces(&self, standing: &Standing, other: JobId) -> bool {
        let of_other = self.waiting.get(&other);
        let of_other = of_other.map(|one| Standing::of(&one.want.owner));
        of_other.is_some_and(|other| {
            self.may_take(standing, &other).is_some() || self.rank(standing) > self.rank(&other)
        })
    }
}

/// When that is; the end of time where it is not known.
fn known(at: Time) -> Time {
    match at {
        LAST => Time(i64::MAX),
        at => at,
    }
}
