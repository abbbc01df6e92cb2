//! Which tasks run on which rank of a grant.

use eddy_wire::id::Rank;
use eddy_wire::jobspec::{Request, Takes, Work};
use eddy_wire::resource_set::{NodeSet, ResourceSet};

/// The tasks of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The rank.
    pub rank: Rank,
    /// Its first task.
    pub first_task: u32,
    /// How many.
    pub ntasks: u32,
}

/// How many tasks a job has: an instance has one, its leader.
pub fn tasks(request: &Request) -> u32 {
    match request.work {
        Work::Tasks => request.ntasks,
        Work::Instance { .. } => 1,
        Work::Ground { .. } => 0,
    }
}

/// Spreads the tasks over the ranks in blocks, in rank order. Where nodes were
/// asked for, or nothing of them, each gets as many, the first ones one more if
/// it does not come out even; else each gets what its slots hold. The one task
/// of an instance is on its first rank. Every rank is in the answer, with no
/// task if there are fewer tasks than ranks.
pub fn layout(request: &Request, set: &ResourceSet) -> Vec<Place> {
    let ranks = set.nodes.len().max(1) as u32;
    let all = tasks(request);
    let (even, more) = (all / ranks, all % ranks);
    let mut left = all;
    let mut places = Vec::with_capacity(set.nodes.len());
    let mut first_task = 0;
    for (index, (rank, node)) in set.nodes.iter().enumerate() {
        let share = even + u32::from((index as u32) < more);
        let slots = match (&request.work, request.takes, request.nodes) {
            (Work::Instance { .. } | Work::Ground { .. }, _, _) => left,
            (Work::Tasks, Takes::Nothing, _) | (Work::Tasks, _, Some(_)) => share,
            (Work::Tasks, Takes::Resources, None) => slots_of(request, node),
        };
        let last = index + 1 == set.nodes.len();
        let ntasks = if last { left } else { slots.min(left) };
        places.push(Place {
            rank: *rank,
            first_task,
            ntasks,
        });
        first_task += ntasks;
        left -= ntasks;
    }
    places
}

fn slots_of(request: &Request, node: &NodeSet) -> u32 {
    if let Some(group) = &request.sockets {
        return group.slots_on(node);
    }
    let (cores, gpus) = (node.cores.len(), node.gpus.len());
    let by_cores = cores / u64::from(request.cores_per_slot.max(1));
    let slots = match request.gpus_per_slot {
        0 => by_cores,
        each => by_cores.min(gpus / u64::from(each)),
    };
    u32::try_from(slots).unwrap_or(u32::MAX)
}
