//! Where what is no number of slots fits, and the search for the earliest time at which it does: a gang, what
//! comes back to a suspended job, slots in sockets.
//!
//! Called by the sweep in the place of its own search. The moments at which more is free than before
//! are few; those that could be first are tried, not all: a promise that begins in between may so make
//! the answer later than it could be, never earlier than it is true.

use std::collections::BTreeSet;

use eddy_wire::time::{Span, Time};

use super::sockets::There;
use super::{Ask, Occupancy};
use crate::joint::{Joint, back};
use crate::placement::Short;
use crate::policy::NodeRank;
use crate::rooms::Rooms;
use crate::together::{Field, Placed};

impl Occupancy {
    /// The first moment found from `from` on, and before another, at which it fits for the span,
    /// and where.
    pub(super) fn sweep_joint(
        &mut self,
        (ask, joint): (&Ask, Joint<'_>),
        (from, before): (Time, Option<Time>),
        span: Span,
    ) -> Option<(Time, Placed)> {
        let span = span.max(Span(1));
        let moments = self.moments(ask, from, before);
        // 1. Twice as far each time, until one will do. 2. Between that and the last that would not.
        let (mut low, mut step) = (0, 1);
        let mut at = 0;
        let (mut high, mut found) = loop {
            let moment = *moments.get(at)?;
            if let Some(placed) = self.fits_from((ask, joint), moment, span) {
                break (at, placed);
            }
            if at + 1 == moments.len() {
                return None;
            }
            low = at + 1;
            at = (at + step).min(moments.len() - 1);
            step *= 2;
        };
        while low < high {
            let middle = low + (high - low) / 2;
            match self.fits_from((ask, joint), moments[middle], span) {
                Some(placed) => (high, found) = (middle, placed),
                None => low = middle + 1,
            }
        }
        Some((moments[high], found))
    }

    /// When something is given back or a promise is over, the first being the beginning.
    fn moments(&self, ask: &Ask, from: Time, before: Option<Time>) -> Vec<Time> {
        let ends = self.ends.keys().map(|(until, _)| self.ends_at(*until));
        let others = self.bookings.iter();
        let others = others.filter(|one| one.spot.ask.job != ask.job);
        let over = others.map(|one| one.until);
        let later = ends.chain(over).filter(|at| *at > from);
        let moments: BTreeSet<Time> = later.chain([from]).collect();
        let in_time = |at: &Time| *at < Time(i64::MAX) && before.is_none_or(|before| *at < before);
        moments.into_iter().filter(in_time).collect()
    }

    fn fits_from(&self, (ask, joint): (&Ask, Joint<'_>), at: Time, span: Span) -> Option<Placed> {
        let until = at.after(span);
        if let Joint::Sockets(group) = joint {
            let there = There::Over(at, until);
            return self.place_in_sockets((ask, group), there, self.rank).ok();
        }
        let nodes = || 0..self.inventory.len();
        let serves = |node: usize| self.inventory.is_serving(node);
        let shared = nodes().map(|node| serves(node).then(|| self.free_over(node, at, until)));
        let shared = Rooms::new(shared);
        let idle = nodes().map(|node| {
            let idle = serves(node) && self.is_idle_over(node, at, until);
            idle.then(|| self.inventory.capacity(node))
        });
        let idle = Rooms::new(idle);
        let (shared, idle) = (&shared, &idle);
        let field = Field { shared, idle };
        self.place_joint((ask, joint), (field, There::Free), self.rank)
            .ok()
    }

    /// Where all of it goes at once, by these rooms; of sockets only what is there counts beside them.
    pub(super) fn place_joint(
        &self,
        (ask, joint): (&Ask, Joint<'_>),
        (field, there): (Field<'_>, There<'_>),
        rank: NodeRank,
    ) -> Result<Placed, Short> {
        match joint {
            Joint::Gang(gang) => gang.place(field, rank, &self.inventory),
            Joint::Back(cores) => back(cores, field.shared, &self.inventory),
            Joint::Sockets(group) => self.place_in_sockets((ask, group), there, rank),
        }
    }
}
