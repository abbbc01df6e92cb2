//! What is in the way of a request: that there is no such node, or none in service.

use std::sync::Arc;

use eddy_wire::plan::Reason;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use super::{Ask, Occupancy, spot};
use crate::placement::{Unplaced, granted, place};
use crate::walk::Blocked;

impl Occupancy {
    pub(super) fn lacks_ranks(&self, ask: &Ask) -> bool {
        let all = self.inventory.all();
        let mut named = ask.each().filter_map(|one| one.want.request.named_ranks());
        named.any(|ranks| all.has_ranks(ranks).is_err())
    }

    /// Why a request is never placed on this inventory, if it is not.
    pub fn never(&self, ask: &Ask) -> Option<Reason> {
        let all = self.inventory.all();
        let alone = |one: &Ask| all.feasible(&one.want.request).err();
        if ask.joint().is_none() {
            return alone(ask);
        }
        let named = ask.each().filter_map(|one| one.want.request.named_ranks());
        let lacks = named.filter_map(|ranks| all.has_ranks(ranks).err()).next();
        let together = || self.choose(ask, all.rooms(), all.rooms()).err();
        lacks.or_else(|| Some(together()?.never(&ask.want.request)))
    }

    /// What a request would be granted now, whatever is promised to others, or why nothing.
    pub fn placed(&self, ask: &Ask, now: Time) -> Result<ResourceSet, Unplaced> {
        let request = &ask.want.request;
        if ask.joint().is_none() {
            return place(&self.inventory, request, now);
        }
        if let Some(reason) = self.never(ask) {
            return Err(Unplaced::Never(reason));
        }
        let short = match self.choose(ask, self.inventory.free(), self.inventory.idle()) {
            Ok(placed) => {
                let spot = spot(&Arc::new(ask.clone()), placed);
                let mut all = ResourceSet::default();
                for (one, chosen) in spot.parts() {
                    let (request, need) = (&one.want.request, &one.need);
                    all.add(&granted(&self.inventory, request, need, chosen, now));
                }
                return Ok(all);
            }
            Err(short) => short,
        };
        let serving = self.inventory.serving();
        Err(Unplaced::Wait(match self.choose(ask, serving, serving) {
            Err(short) => {
                let (what, asked, up) = short.numbers(request);
                let away = self.inventory.away();
                Reason::NotInService {
                    what,
                    asked,
                    up,
                    away,
                }
            }
            Ok(_) => {
                let (what, asked, free) = short.numbers(request);
                Reason::NoRoom { what, asked, free }
            }
        }))
    }

    /// What is in the way of a request that does not fit now.
    pub(super) fn blocked(&self, ask: &Ask) -> Blocked {
        let (all, serving) = (self.inventory.all().rooms(), self.inventory.serving());
        if self.choose(ask, all, all).is_err() {
            return Blocked::Never;
        }
        match self.choose(ask, serving, serving) {
            Err(_) => Blocked::NotInService,
            Ok(_) => Blocked::Busy {
                what: "slots",
                asked: ask.need.count(),
                free: 0,
            },
        }
    }
}
