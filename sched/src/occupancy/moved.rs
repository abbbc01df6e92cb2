//! What is promised is moved: to the earliest time it can be had, or to now.
//!
//! Called by the walk when something was freed, promise by promise in the order of their turns.

use std::sync::Arc;

use eddy_wire::time::{Span, Time};

use super::Occupancy;
use super::ask::{Ask, Spot, spot};
use crate::need::Spread;
use crate::walk::Room;

impl Occupancy {
    /// Moves a promise between two times, of which the later is not after the time it is for; `None` if it
    /// stays because there is no room for it there.
    pub(super) fn move_between(
        &mut self,
        ask: &Arc<Ask>,
        (from, before): (Time, Time),
        (old, at): (&Spot, Time),
        span: Span,
    ) -> Option<(Time, Spot)> {
        if at <= from || self.is_limited(ask) {
            return None;
        }
        if self.is_let_in(ask) {
            return self.let_in(ask, |room| {
                room.move_between(ask, (from, before), (old, at), span)
            });
        }
        self.give(old, at, span);
        let found = self.with_pools(ask, (from, Some(before)), span, |room, from| {
            room.sweep_open(ask, (from, Some(before)), span)
        });
        match found {
            Some((sooner, chosen)) => {
                let found = spot(ask, chosen);
                self.take(&found, sooner, span);
                Some((sooner, found))
            }
            None => {
                self.take(old, at, span);
                None
            }
        }
    }

    /// Whether nodes have enough now, whatever is promised of them. It may say too much, never too little.
    pub(super) fn may_begin(&self, ask: &Ask) -> bool {
        if ask.joint().is_some() || self.is_let_in(ask) {
            return true;
        }
        let need = &ask.need;
        let rooms = self.rooms(need.sharing);
        let within = self.inventory.all().within(&ask.want.request);
        let (mut left, mut from) = (need.count(), 0);
        while let Some(at) = within.next(rooms, from, &need.least()) {
            left -= match need.spread {
                Spread::Nodes { .. } => 1,
                Spread::Slots(_) => need.slots_on(&rooms.room(at), left),
            };
            if left == 0 {
                return true;
            }
            from = at + 1;
        }
        false
    }
}
