//! What an instance is told of what it has.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Closed, QueueAbove};
use crate::access::Access;
use crate::grant::Grant;
use crate::id::{JobId, Rank};
use crate::idset::Idset;
use crate::resource_set::ResourceSet;
use crate::time::Span;

/// What an instance has of its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Granted {
    /// The grant of its job, in the parent's ranks; the lowest is the leader's node.
    pub grant: Grant,
    /// What each of these ranks is called in it: 0 is the leader's, and a number stands for the
    /// same node always.
    pub ranks: BTreeMap<Rank, Rank>,
    /// What jobs that are passed to it may be given, in the parent's ranks, if that is not what it
    /// was granted: an elastic instance holds nothing itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Arc<ResourceSet>>,
    /// Those of its nodes, as it calls them, that other jobs of the parent hold for it, by those.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<Rank, JobId>,
    /// Those of its nodes, as it calls them, that the parent takes back: what runs there is to end.
    #[serde(default)]
    pub leaving: Idset,
    /// Of those in how long at the latest, where that is not the kill grace from now on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub within: BTreeMap<Rank, Span>,
    /// Those of the grant's ranks that share the node of its leader, which serves
    /// them itself: its own rank at least. Agents host the others.
    pub local: Idset,
    /// Its path from the root: `905/3`.
    pub path: String,
    /// How deep it is; a child of the root is at 1.
    pub depth: u32,
    /// Time left until its parent ends its job; none without a limit.
    pub remaining: Option<Span>,
    /// How long before that its own jobs are to end, so that it is not its parent
    /// that ends them.
    pub reserve: Span,
    /// From TERM to KILL in it, which is less than its parent has for its job.
    pub kill_grace: Span,
    /// The name it was declared under, for a queue instance.
    pub name: Option<String>,
    /// How long tasks last that are none: what is made up in the parent is in the child.
    pub mock: Option<Span>,
    /// Who besides its owner may connect to a declared instance, and as what.
    #[serde(default)]
    pub access: Access,
    /// The queues that lead to a declared instance, the first being that of jobs which name none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueAbove>,
    /// Where a declared instance is to begin nothing by itself, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<Closed>,
}

impl Granted {
    /// What it has, in its own ranks. Cores and GPUs keep their ids.
    pub fn inventory(&self) -> ResourceSet {
        let set = self.room.as_ref().unwrap_or(&self.grant.set);
        let nodes = self.ranks.iter();
        let nodes =
            nodes.filter_map(|(rank, number)| Some((*number, set.nodes.get(rank)?.clone())));
        let properties = set.properties.iter();
        ResourceSet {
            nodes: nodes.collect(),
            properties: properties
                .map(|(name, ranks)| (name.clone(), self.own(ranks)))
                .filter(|(_, ranks)| !ranks.is_empty())
                .collect(),
            starttime: self.grant.set.starttime,
            expiration: self.grant.set.expiration,
            ..ResourceSet::default()
        }
    }

    /// Who may connect to it, where its parent says that: of a declared instance.
    pub fn admits(&self) -> Option<&Access> {
        self.name.as_ref().map(|_| &self.access)
    }

    /// Those of the parent's ranks that are its own, as they are called in it.
    pub fn own(&self, ranks: &Idset) -> Idset {
        let own = self.ranks.iter();
        let own = own.filter(|(rank, _)| ranks.contains(rank.0));
        own.map(|(_, number)| number.0).collect()
    }
}
