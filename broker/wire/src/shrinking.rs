//! The nodes that an instance which goes on is to give: the fold of `shrink` and of its grants.
//!
//! Everybody who folds records of jobs and has to do with its nodes has one. It decides nothing.

use crate::event::{Final, Kind};
use crate::id::Rank;
use crate::idset::Idset;
use crate::preempt::Shrink;
use crate::time::Time;

/// The fold: of the present attempt of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shrinking {
    /// Each with those of its ranks that the job has yet.
    open: Vec<Shrink>,
}

impl Shrinking {
    /// Folds a record of the job.
    pub fn apply(&mut self, kind: &Kind) {
        match kind {
            Kind::Shrink(shrink) => {
                let ranks = shrink.ranks.difference(&self.ranks());
                if !ranks.is_empty() {
                    self.open.push(Shrink {
                        ranks,
                        ..(**shrink).clone()
                    });
                }
            }
            Kind::GrantChanged(grant) => {
                let has = grant.set.ranks();
                for shrink in &mut self.open {
                    shrink.ranks = shrink.ranks.intersect(&has);
                }
                self.open.retain(|shrink| !shrink.ranks.is_empty());
            }
            Kind::Alloc(_)
            | Kind::Free
            | Kind::Release(_, Final::Free(_) | Final::Over(_))
            | Kind::Requeue(_) => {
                self.open.clear();
            }
            _ => {}
        }
    }

    /// What is still to be given, as it was recorded but for the nodes that have gone.
    pub fn open(&self) -> &[Shrink] {
        &self.open
    }

    /// All nodes that are still to be given.
    pub fn ranks(&self) -> Idset {
        let ranks = self.open.iter().map(|shrink| &shrink.ranks);
        ranks.fold(Idset::new(), |all, ranks| all.union(ranks))
    }

    /// When whatever is left on that node is killed, if it is to be given.
    pub fn until(&self, rank: Rank) -> Option<Time> {
        let mut open = self.open.iter();
        let shrink = open.find(|shrink| shrink.ranks.contains(rank.0))?;
        Some(shrink.until)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::grant::Grant;
    use crate::id::{Epoch, JobId};
    use crate::preempt::Cause;
    use crate::resource_set::{NodeSet, ResourceSet};

    fn shrink(ranks: &str, by: u64) -> Kind {
        Kind::Shrink(Box::new(Shrink {
            ranks: ranks.parse().unwrap(),
            by: Some(JobId(by)),
            until: Time(by as i64),
            cause: Cause::Urgency,
            grace: 0,
            why: String::new(),
        }))
    }

    fn changed(ranks: &[u32]) -> Kind {
        let mut set = ResourceSet::new();
        for rank in ranks {
            set.nodes.insert(Rank(*rank), NodeSet::default());
        }
        Kind::GrantChanged(Arc::new(Grant {
            epoch: Epoch(2),
            set: Arc::new(set),
            shells: BTreeMap::new(),
            beside: BTreeMap::new(),
            passed: None,
        }))
    }

    #[test]
    fn a_node_is_given_once_and_by_its_first_record() {
        let mut shrinking = Shrinking::default();
        shrinking.apply(&shrink("1-2", 7));
        shrinking.apply(&shrink("2-3", 8));
        assert_eq!(shrinking.ranks(), "1-3".parse().unwrap());
        assert_eq!(shrinking.until(Rank(2)), Some(Time(7)));
        assert_eq!(shrinking.until(Rank(3)), Some(Time(8)));
        shrinking.apply(&changed(&[0, 1, 3]));
        let left = shrinking.open().iter();
        let left = left.map(|one| (one.by.map_or(0, |by| by.0), &one.ranks));
        let left: Vec<(u64, String)> = left.map(|(by, ranks)| (by, ranks.to_string())).collect();
        assert_eq!(left, [(7, "1".to_owned()), (8, "3".to_owned())]);
        assert_eq!(shrinking.until(Rank(2)), None);
        shrinking.apply(&changed(&[0]));
        assert_eq!(shrinking.open(), []);
    }
}
