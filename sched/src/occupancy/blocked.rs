//! What is in the way of a request: that there is no such node, or none in service.

use std::sync::Arc;

use eddy_wire::jobspec::Sharing;
use eddy_wire::plan::Reason;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use super::sockets::There;
use super::{Ask, Occupancy, spot};
use crate::placement::{Short, Unplaced, choose, granted, never_beside, not_in_service, place};
use crate::policy::NodeRank;
use crate::rooms::Rooms;
use crate::together::{Field, Placed};
use crate::walk::Blocked;

impl Occupancy {
    pub(super) fn lacks_ranks(&self, ask: &Ask) -> bool {
        let all = self.inventory.all();
        let mut named = ask.each().filter_map(|one| one.want.request.named_ranks());
        named.any(|ranks| all.has_ranks(ranks).is_err())
    }

    /// Why a request is never placed on this inventory, if it is not; or not on what is nobody's of it, or for want of
    /// a pool.
    pub fn never(&self, ask: &Ask) -> Option<Reason> {
        self.never_on_nodes(ask)
            .or_else(|| self.pool_never(ask))
            .or_else(|| self.outlasts(ask, self.now))
    }

    fn never_on_nodes(&self, ask: &Ask) -> Option<Reason> {
        let (all, request) = (self.inventory.all(), &ask.want.request);
        let beside = || {
            let short = self.choose_all(ask, self.inventory.common()).err()?;
            Some(never_beside(&self.inventory, request, short))
        };
        if ask.joint().is_none() {
            return all.feasible(request).err().or_else(beside);
        }
        let named = ask.each().filter_map(|one| one.want.request.named_ranks());
        let lacks = named.filter_map(|ranks| all.has_ranks(ranks).err()).next();
        if lacks.is_some() {
            return lacks;
        }
        if ask.gang.is_none() {
            let short = self.choose_all(ask, all.rooms()).err();
            return short.map(|short| short.never(request)).or_else(beside);
        }
        let mut reason = self
            .choose_all(ask, self.inventory.common())
            .err()?
            .never(request);
        if let Reason::NeverInAll { what, .. } = &mut reason
            && !self.inventory.apart().is_empty()
        {
            what.push_str(" beside instances of a fixed size");
        }
        Some(reason)
    }

    /// What a request would be granted now, whatever is promised to others, or why nothing.
    pub fn placed(&self, ask: &Ask, now: Time) -> Result<ResourceSet, Unplaced> {
        let request = &ask.want.request;
        if ask.joint().is_none() {
            let placed = place(&self.inventory, request, now);
            return match (&placed, self.outlasts(ask, now)) {
                (Err(Unplaced::Never(_)), _) | (_, None) => placed,
                (_, Some(reason)) => Err(Unplaced::Never(reason)),
            };
        }
        if let Some(reason) = self.never(ask) {
            return Err(Unplaced::Never(reason));
        }
        let short = match self.choose_free(ask) {
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
        Err(Unplaced::Wait(match self.choose_all(ask, serving) {
            Err(short) => not_in_service(&self.inventory, request, short),
            Ok(_) => {
                let (what, asked, free) = short.numbers(request);
                Reason::NoRoom { what, asked, free }
            }
        }))
    }

    /// What is in the way of a request that does not fit now.
    pub(super) fn blocked(&self, ask: &Ask) -> Blocked {
        let serving = self.inventory.serving();
        if self.choose_all(ask, self.inventory.common()).is_err() || self.pool_never(ask).is_some()
        {
            return Blocked::Never;
        }
        match self.choose_all(ask, serving) {
            Err(_) => Blocked::NotInService,
            Ok(_) => Blocked::Busy {
                what: "slots",
                asked: ask.need.count(),
                free: 0,
            },
        }
    }

    /// The lowest nodes on which it would be, were nothing held of these.
    pub(super) fn choose_all(&self, ask: &Ask, rooms: &Rooms) -> Result<Placed, Short> {
        let field = Field {
            shared: rooms,
            idle: rooms,
        };
        self.choose(ask, field, There::All(rooms))
    }

    /// The lowest nodes on which it would be, were nothing promised.
    pub(super) fn choose_free(&self, ask: &Ask) -> Result<Placed, Short> {
        let field = Field {
            shared: self.inventory.free(),
            idle: self.inventory.idle(),
        };
        self.choose(ask, field, There::Free)
    }

    fn choose(&self, ask: &Ask, field: Field<'_>, there: There<'_>) -> Result<Placed, Short> {
        if let Some(joint) = ask.joint() {
            return self.place_joint((ask, joint), (field, there), NodeRank::LowId);
        }
        let rooms = match ask.need.sharing {
            Sharing::Shared => field.shared,
            Sharing::Exclusive => field.idle,
        };
        let within = self.inventory.all().within(&ask.want.request);
        choose(rooms, &within, &ask.need).map(Placed::from)
    }

    /// Whether it would fit in the nodes in service if nothing were held.
    pub(super) fn is_possible(&mut self, ask: &Ask) -> bool {
        let mut misses = std::mem::take(&mut self.misses);
        let tried = || self.choose_all(ask, self.inventory.serving()).is_ok();
        let possible = misses.is_possible(ask, tried);
        self.misses = misses;
        possible
    }
}
