//! Who pays for what is held, here and in other lines.
//!
//! What is held of this planner's nodes is charged as it begins and ends; what is held of others'
//! is only charged.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::held::Stay;
use eddy_wire::id::JobId;
use eddy_wire::plan::{Owner, Used};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::{Certainty, Holding, Planner};
use crate::planner::reline::Order;

impl Planner {
    /// A planner by the same policy for nodes that are set aside: it knows which ranks are in
    /// service, and all that was used and is being used.
    pub(crate) fn set_aside(&self) -> Planner {
        let mut other = Planner::with(self.policy.clone());
        other.turns = self.turns.clone();
        other.weigh();
        other.occupancy.serve(|inventory| {
            inventory.serve_as(self.occupancy.inventory());
        });
        *other.occupancy.accounts_mut() = self.occupancy.accounts().clone();
        other.charged = self.charged.clone();
        other.arm(Some(self.taking.rules()));
        other.stays(self.occupancy.stay());
        let paid = self.holdings.iter().filter(|(_, one)| one.owner.is_some());
        let paid = paid.map(|(job, one)| (*job, one.clone()));
        other.charged.extend(paid);
        other.know_pools(self);
        other
    }

    /// A job elsewhere is charged. Said again it changes nothing but until when.
    pub(super) fn charge(&mut self, job: JobId, owner: Owner, set: Arc<ResourceSet>) {
        let until = self.end_of(&set);
        let known = self.charged.get_mut(&job);
        if let Some(known) = known.filter(|known| known.set.nodes == set.nodes) {
            if known.until != until {
                (known.set, known.until) = (set, until);
                self.lined.moved();
            }
            return;
        }
        // What it held before is charged until the pass that follows.
        self.free(job);
        let rate = self.began(job, &owner, &set);
        let holding = Holding {
            set,
            owner: Some(owner),
            rate,
            until,
            certainty: Certainty::Held,
        };
        self.charged.insert(job, holding);
    }

    /// Charges somebody from when the set is held on, where a job held something else until now from the pass that
    /// follows; what that costs in each second.
    pub(super) fn began(&mut self, job: JobId, owner: &Owner, set: &ResourceSet) -> f64 {
        self.occupancy.accounts_mut().began(owner, set);
        self.lined.moved();
        let since = began(set, self.occupancy.now());
        self.turns.began(job, owner, set, since)
    }

    /// An attempt is over: it is charged what its records tell, and not what was reckoned by the passes that heard of
    /// them. Those come late where a leader was away, and what failed is nobody's.
    pub(super) fn settled(&mut self, job: JobId, owner: &Owner, stays: &[Stay]) {
        self.turns.settled(job, owner, stays);
        self.lined.order = Order::Moved;
    }

    /// What was used weighs and fades by the policy of now, also what was used under another: of those who are over
    /// it is told, and who holds something is charged from when that began.
    pub(super) fn reckon(&mut self, past: &[Used]) {
        self.turns.forget_use();
        let now = self.occupancy.now();
        for (job, owner, set, rate) in paid(&mut self.holdings, &mut self.charged) {
            *rate = self.turns.began(job, owner, set, began(set, now));
        }
        past.iter().for_each(|one| self.turns.used(one));
        self.lined.order = Order::Moved;
    }

    /// When what is held is planned to be given back.
    pub(super) fn end_of(&self, set: &ResourceSet) -> Time {
        let limit = (set.expiration > 0).then(|| set.expiration - set.starttime);
        self.until(Time(set.starttime), limit)
    }

    /// When a job that starts then is planned to have given everything back, by its own limit or by
    /// that of all who name none.
    pub(super) fn until(&self, start: Time, limit: Option<i64>) -> Time {
        let limit = limit.filter(|limit| *limit > 0).map(Span);
        match limit.or(self.policy.queue.default_limit) {
            Some(limit) => start.after(limit).after(self.cleanup()),
            None => Time(i64::MAX),
        }
    }

    pub(super) fn ended(&mut self, job: JobId, owner: &Owner, set: &ResourceSet) {
        self.turns.ended(job, owner, set);
        self.occupancy.accounts_mut().ended(owner, set);
        self.lined.moved();
    }
}

/// Who pays for what, here and elsewhere, and what it costs in each second.
pub(super) fn paid<'a>(
    holdings: &'a mut BTreeMap<JobId, Holding>,
    charged: &'a mut BTreeMap<JobId, Holding>,
) -> impl Iterator<Item = (JobId, &'a Owner, &'a ResourceSet, &'a mut f64)> {
    let all = holdings.iter_mut().chain(charged.iter_mut());
    all.filter_map(|(job, one)| {
        let Holding {
            set, owner, rate, ..
        } = one;
        let set: &Arc<ResourceSet> = set;
        Some((*job, owner.as_ref()?, set.as_ref(), rate))
    })
}

/// Since when a set is held; now where that is not said.
pub(super) fn began(set: &ResourceSet, now: Time) -> Time {
    match set.starttime {
        0 => now,
        start => Time(start),
    }
}
