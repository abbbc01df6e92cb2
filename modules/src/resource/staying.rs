//! On which nodes jobs are that take something of them, also while they are suspended and have it not.

use std::collections::BTreeMap;

use eddy_wire::grant::Grant;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;

use crate::jobs::Jobs;

/// The fold of grants.
#[derive(Debug, Default)]
pub(super) struct Staying {
    jobs: Jobs<Idset>,
    /// How many jobs stay on a node, where any does: asked at each end, whoever else there is.
    on: BTreeMap<Rank, u32>,
}

impl Staying {
    /// A job was granted this, or holds something else than it did; before and now it stays there.
    pub(super) fn granted(&mut self, job: JobId, grant: &Grant) -> (Idset, Idset) {
        let before = self.free(job);
        let held = grant.set.nodes.iter().filter(|(_, node)| !node.is_empty());
        let held: Idset = held.map(|(rank, _)| rank.0).collect();
        // What takes nothing never had anything there. Who gave his cores is to have them again.
        let now = held.union(&before.intersect(&grant.set.ranks()));
        if !now.is_empty() {
            self.jobs.insert(job, now.clone());
        }
        for rank in now.iter() {
            *self.on.entry(Rank(rank)).or_default() += 1;
        }
        (before, now)
    }

    /// What it held is free; there it was.
    pub(super) fn free(&mut self, job: JobId) -> Idset {
        let was = self.jobs.remove(&job).unwrap_or_default();
        for rank in was.iter().map(Rank) {
            if let Some(count) = self.on.get_mut(&rank) {
                *count -= 1;
                if *count == 0 {
                    self.on.remove(&rank);
                }
            }
        }
        was
    }

    /// One who stays on one of these nodes, and on which.
    pub(super) fn on(&self, ranks: &Idset) -> Option<(JobId, Rank)> {
        let mut stays = self.jobs.iter().filter_map(|(job, stays)| {
            let rank = stays.intersect(ranks).first()?;
            Some((*job, Rank(rank)))
        });
        stays.next()
    }

    /// Whether anybody stays on this node.
    pub(super) fn is_on(&self, rank: Rank) -> bool {
        self.on.contains_key(&rank)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use eddy_wire::id::Epoch;
    use eddy_wire::resource_set::{NodeSet, ResourceSet};

    use super::*;

    fn grant(nodes: &[(u32, u32)]) -> Grant {
        let node = |(rank, cores): &(u32, u32)| {
            let node = NodeSet {
                host: "n".into(),
                cores: Idset::first_ids(*cores),
                gpus: Idset::new(),
                memory: 0,
                ..NodeSet::default()
            };
            (Rank(*rank), node)
        };
        let set = ResourceSet {
            nodes: nodes.iter().map(node).collect(),
            ..ResourceSet::default()
        };
        Grant {
            epoch: Epoch(1),
            set: Arc::new(set),
            shells: BTreeMap::new(),
            beside: BTreeMap::new(),
            passed: None,
        }
    }

    fn ids(ids: &str) -> Idset {
        ids.parse().expect("ids")
    }

    #[test]
    fn who_is_suspended_stays_and_what_takes_nothing_never_does() {
        let mut staying = Staying::default();
        let (job, other) = (JobId(1), JobId(2));
        staying.granted(job, &grant(&[(1, 2), (2, 2)]));
        staying.granted(other, &grant(&[(3, 0)]));
        let suspended = staying.granted(job, &grant(&[(1, 0), (2, 0)]));
        assert_eq!(suspended, (ids("1-2"), ids("1-2")));
        let on = |staying: &Staying| {
            (0..9)
                .filter(|rank| staying.is_on(Rank(*rank)))
                .collect::<Idset>()
        };
        assert_eq!(on(&staying), ids("1-2"));
        staying.granted(other, &grant(&[(2, 1), (3, 0)]));
        staying.free(other);
        assert_eq!(on(&staying), ids("1-2"), "another is still on 2");
        // A node that leaves an instance is left.
        assert_eq!(staying.granted(job, &grant(&[(1, 2)])).1, ids("1"));
        assert_eq!(on(&staying), ids("1"));
        assert_eq!(staying.free(job), ids("1"));
        assert!(on(&staying).is_empty());
    }
}
