//! Where the leader of a declared instance is that holds nodes of its own: on the first of them, or beside what
//! runs on the node of this instance's leader (`leader = "parent"`).
//!
//! There it takes nothing: that node is in its grant with nothing of it, as all are in that of an elastic one.
//! It is the first of the ranks, and so the leader's.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::id::{Epoch, JobId, Rank};
use eddy_wire::jobspec::Leader;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use super::Sched;

/// The node of this instance's leader.
const LEADERS: Rank = Rank(0);

/// What is granted, and the shells that it begins on.
pub(super) type Seated = (Arc<ResourceSet>, BTreeMap<Rank, Epoch>);

impl Sched {
    /// What a job is granted of that set: it and, where its leader is to be beside this one, the seat of that.
    /// `None` where nothing begins there now.
    pub(super) fn seated(
        &self,
        id: JobId,
        set: &Arc<ResourceSet>,
        shells: BTreeMap<Rank, Epoch>,
    ) -> Option<Seated> {
        let spec = self.jobs.get(&id).map(|seen| &seen.submit.spec);
        let leader = spec.map_or(Leader::Node, |spec| spec.jobspec.leader());
        let there = self.inventory.as_ref();
        let host = there.and_then(|all| Some(all.nodes.get(&LEADERS)?.host.clone()));
        let Some(host) = host.filter(|_| leader == Leader::Parent) else {
            return Some((Arc::clone(set), shells));
        };
        // A drained node serves what takes nothing of it.
        let is_up = self.online.contains(LEADERS.0);
        let shell = self.shells.get(&LEADERS).copied().filter(|_| is_up)?;
        let (mut set, mut shells) = (ResourceSet::clone(set), shells);
        set.nodes.entry(LEADERS).or_insert(NodeSet {
            host,
            ..NodeSet::default()
        });
        shells.insert(LEADERS, shell);
        Some((Arc::new(set), shells))
    }
}
