//! Until when an instance has what it has: who would not have ended by then begins nowhere.
//!
//! Asked by every search. On nodes that go some time before the instance who would not have ended is kept
//! off by a closure; whoever cannot be without those nodes is as one who fits nowhere, so that he holds up
//! nobody who still can begin.

use eddy_wire::idset::Idset;
use eddy_wire::plan::{Reason, Stay};
use eddy_wire::time::{Span, Time};

use super::{Ask, Occupancy};

impl Occupancy {
    /// It is told anew.
    pub fn stays(&mut self, stay: &Stay) {
        self.nothing_goes();
        self.closures.stay = stay.clone();
        self.misses.clear();
    }

    /// What was told of it last.
    pub fn stay(&self) -> &Stay {
        &self.closures.stay
    }

    /// Why one that began then would not have ended in time, wherever that were. Who takes what time is left begins
    /// before the end.
    pub(super) fn outlasts(&self, ask: &Ask, from: Time) -> Option<Reason> {
        let Stay { end, goes } = self.stay();
        if end.is_none() && goes.is_empty() {
            return None;
        }
        let over = from.after(ask.lasts().unwrap_or(Span(1)));
        if let Some(end) = end.filter(|end| over > *end) {
            return Some(Reason::Outlasts { at: end });
        }
        let going = goes.iter().filter(|going| over > going.at);
        let at = going.clone().map(|going| going.at).min()?;
        let ranks = going.fold(Idset::new(), |all, going| all.union(&going.ranks));
        let rooms = self.inventory.common();
        let stays = ask.beside(&ranks, self.inventory.all().ranks());
        let lacks = self.choose_all(&stays, rooms).is_err() && self.choose_all(ask, rooms).is_ok();
        lacks.then_some(Reason::Goes { ranks, at })
    }
}
