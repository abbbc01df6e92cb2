//! What is in the way of a request: that there is no such node, or none in service.

use super::{Ask, Occupancy};
use crate::placement::choose;
use crate::walk::Blocked;

impl Occupancy {
    pub(super) fn lacks_ranks(&self, ask: &Ask) -> bool {
        let ranks = ask.want.request.ranks.as_ref();
        ranks.is_some_and(|ranks| self.inventory.all().has_ranks(ranks).is_err())
    }

    /// What is in the way of a request that does not fit now.
    pub(super) fn blocked(&self, ask: &Ask) -> Blocked {
        let within = self.inventory.all().within(&ask.want.request);
        if choose(self.inventory.all().rooms(), &within, &ask.need).is_err() {
            return Blocked::Never;
        }
        match choose(self.inventory.serving(), &within, &ask.need) {
            Err(_) => Blocked::NotInService,
            Ok(_) => Blocked::Busy {
                what: "slots",
                asked: ask.need.count(),
                free: 0,
            },
        }
    }
}
