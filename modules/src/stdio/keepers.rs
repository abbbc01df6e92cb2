//! Which shell has what a job wrote: the one on the host where it ran.
//!
//! The rank that a job had may be another host's by now, where the instance is a queue's: its nodes come and go,
//! and are numbered anew for each job that it is. A host that is not in the instance tells nothing, which who
//! reads is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::Outbox;
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::resource_set::ResourceSet;

use super::{Call, Read, Stdio};

/// The ranks of a set with their hosts.
pub(super) fn hosts(set: &ResourceSet) -> Vec<(Rank, Arc<str>)> {
    let nodes = set.nodes.iter();
    nodes
        .map(|(rank, node)| (*rank, Arc::clone(&node.host)))
        .collect()
}

/// The rank that is on the host now that had that rank.
pub(super) fn keeper(hosts: &BTreeMap<Rank, Arc<str>>, rank: Rank, host: &str) -> Option<Rank> {
    if hosts.get(&rank).is_some_and(|of| **of == *host) {
        return Some(rank);
    }
    let other = hosts.iter().find(|(_, of)| ***of == *host);
    other.map(|(rank, _)| *rank)
}

/// Nothing can be told of that host.
pub(super) fn miss(call: &mut Call, host: &str) {
    // The hosts of one grant are as many as a list may have, or fewer.
    let _ = call.missing.push(host);
}

impl Stdio {
    /// The shell that a read is asked of.
    pub(super) fn shell(&self, read: &Read) -> Option<Epoch> {
        let rank = keeper(&self.hosts, read.part.rank, &read.host)?;
        self.shells.get(&rank).copied()
    }

    /// Nothing more will come from hosts that have left the instance.
    pub(super) fn end_missing(&mut self, out: &mut Outbox) {
        let is_gone = |read: &Read| keeper(&self.hosts, read.part.rank, &read.host).is_none();
        let reads = self.reads.iter().filter(|(_, read)| is_gone(read));
        let gone: Vec<u64> = reads.map(|(id, _)| *id).collect();
        for id in gone {
            let read = &self.reads[&id];
            if let Some(call) = self.calls.get_mut(&read.call) {
                miss(call, &read.host);
            }
            self.end(id, out);
        }
    }
}
