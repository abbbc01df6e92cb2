//! Who has how much of which pool: what is recorded, and that no verdict takes more than there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::event::{Final, Kind, Submit};
use eddy_wire::id::JobId;
use eddy_wire::plan::Delta;
use eddy_wire::pool::{self, Pool, Takes};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::pool::PoolRow;

/// What a job takes of pools.
pub(super) fn takes(submit: &Submit) -> Takes {
    pool::of(&submit.spec).unwrap_or_default()
}

/// The pools and who has what of them.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pools: Arc<[Pool]>,
    uses: BTreeMap<JobId, (Takes, Arc<ResourceSet>)>,
}

/// How much verdicts of one outcome took.
pub(super) type Taken = BTreeMap<Name, u64>;

impl Pools {
    pub(super) fn new(pools: &[Pool]) -> Pools {
        Pools {
            pools: pools.into(),
            uses: BTreeMap::new(),
        }
    }

    /// A record of a job.
    pub(super) fn apply(&mut self, id: JobId, submit: &Submit, kind: &Kind) {
        match kind {
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                let takes = takes(submit);
                if !takes.is_empty() {
                    self.uses.insert(id, (takes, Arc::clone(&grant.set)));
                }
            }
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => {
                self.uses.remove(&id);
            }
            _ => {}
        }
    }

    /// As a planner is told that a job has something, if it does.
    pub(super) fn delta(&self, id: JobId) -> Option<Delta> {
        let (takes, set) = self.uses.get(&id)?;
        Some(Delta::Uses(id, takes.clone(), Arc::clone(set)))
    }

    /// There is so much of these from now on.
    pub(super) fn configured(&mut self, pools: &[Pool]) {
        self.pools = pools.into();
    }

    /// As a planner is told of how much there is.
    pub(super) fn told(&self) -> Arc<[Pool]> {
        Arc::clone(&self.pools)
    }

    /// As a planner is told of all.
    pub(super) fn all(&self) -> impl Iterator<Item = Delta> + '_ {
        let pools = (!self.pools.is_empty()).then(|| Delta::Pools(Arc::clone(&self.pools)));
        pools.into_iter()
    }

    /// Whether there is so much, beside what was just taken; it is taken then.
    pub(super) fn lets(&self, takes: &Takes, taken: &mut Taken) -> bool {
        let has = |(name, asked): &(Name, u64)| {
            let just = taken.get(name).copied().unwrap_or(0);
            let count = self.pools.iter().find(|pool| pool.name == *name);
            count.is_some_and(|pool| self.used(name).0 + just + asked <= pool.count)
        };
        if !takes.iter().all(has) {
            return false;
        }
        for (name, asked) in takes.iter() {
            *taken.entry(name.clone()).or_default() += asked;
        }
        true
    }

    /// How much of a pool is in use, and by how many jobs.
    fn used(&self, name: &Name) -> (u64, u64) {
        let uses = self.uses.values().flat_map(|(takes, _)| takes.iter());
        let uses = uses.filter(|(of, _)| of == name);
        uses.fold((0, 0), |(sum, jobs), (_, count)| (sum + count, jobs + 1))
    }

    pub(super) fn rows(&self) -> Vec<PoolRow> {
        let row = |pool: &Pool| {
            let (used, running) = self.used(&pool.name);
            PoolRow {
                name: pool.name.clone(),
                count: pool.count,
                used,
                running,
            }
        };
        self.pools.iter().map(row).collect()
    }
}
