//! What there is to plan over, as it changes: the inventory, and which of it is in service.
//!
//! Whoever was promised what is there no more waits on.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Mover, Unavailable};
use eddy_wire::resource_set::ResourceSet;

use super::{Order, Place, Planner};
use crate::occupancy::{Occupancy, Spot};
use crate::turns::Turn;

impl Planner {
    pub(super) fn define(&mut self, set: Arc<ResourceSet>) {
        // What runs costs by what there is from now on.
        self.recharge(|planner| planner.turns.define(&set));
        self.occupancy.accounts_mut().define(&set);
        self.lined.order = Order::Moved;
        let now = self.occupancy.now();
        for one in self.waiting.values() {
            if let Place::Row(row) = one.place {
                self.rows.describe(row, &self.turns, &one.want, now);
            }
        }
        self.drop_promises(None, |_, _| true);
        let holdings: Vec<Arc<ResourceSet>> =
            self.holdings.values().map(|one| one.set.clone()).collect();
        self.occupancy
            .define(|inventory| inventory.replace(set, holdings.iter().map(Arc::as_ref)));
        self.beside.wake_all();
        self.agenda.freed();
    }

    pub(super) fn bring(&mut self, ranks: &Idset) {
        self.occupancy.serve(|inventory| inventory.bring(ranks));
        self.beside.wake(ranks);
        self.agenda.freed();
    }

    pub(super) fn withdraw(&mut self, ranks: &Idset, why: Unavailable) {
        self.occupancy
            .serve(|inventory| inventory.withdraw(ranks, why));
        self.drop_promises(Some(Mover::Nodes), |occupancy, spot| {
            !occupancy.serves(spot)
        });
        self.beside.wake(ranks);
    }

    /// An instance holds this for its own jobs for as long as it is there: nobody else has a node in
    /// service there, and who would need one waits for no end.
    pub(super) fn ground(&mut self, job: JobId, set: Arc<ResourceSet>) {
        let ranks = set.ranks();
        self.held(job, None, set);
        if self.grounds.insert(job, ranks.clone()) != Some(ranks) {
            self.set_apart();
        }
    }

    /// What an instance held is for everybody again.
    pub(super) fn no_ground(&mut self, job: JobId) {
        if self.grounds.remove(&job).is_some() {
            self.set_apart();
            self.agenda.freed();
        }
    }

    fn set_apart(&mut self) {
        let grounds = self.grounds.values();
        let apart = grounds.fold(Idset::new(), |all, one| all.union(one));
        self.occupancy.serve(|inventory| inventory.set_apart(apart));
        self.drop_promises(None, |occupancy, spot| !occupancy.serves(spot));
    }

    /// What was promised there is promised no more, for that; who it was promised to waits on.
    pub(super) fn drop_promises(
        &mut self,
        mover: Option<Mover>,
        whose: impl Fn(&Occupancy, &Spot) -> bool,
    ) {
        let lost = self.promises();
        let lost = lost.filter(|(_, _, spot)| whose(&self.occupancy, spot));
        let lost: Vec<Turn> = lost.map(|(turn, ..)| turn).collect();
        for turn in lost {
            self.unreserve(&turn, mover);
        }
        self.drop_claims(|planner, spot| whose(&planner.occupancy, spot));
    }
}
