//! The search for the earliest time against a look at each second.

use std::sync::Arc;

use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing};
use eddy_wire::plan::{Unavailable, Want};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::time::{MICROS, Span, Time};
use proptest::prelude::*;

use super::{Ask, Occupancy};
use crate::policy::Policy;
use crate::tests::model::{inventory, nodes, slots};
use crate::walk::{Blocked, Room as _};

const CORES: u32 = 4;
/// Nothing is held or promised from then on.
const QUIET: usize = 400;
/// The second it is.
const NOW: i64 = 1000;

/// By node and second: cores that are taken, and how many have a part of it.
struct Seconds(Vec<Vec<(u64, u64)>>);

impl Seconds {
    fn take(&mut self, node: usize, from: usize, until: usize, cores: u64) {
        for second in &mut self.0[node][from..until] {
            second.0 += cores;
            second.1 += 1;
        }
    }

    fn give(&mut self, node: usize, from: usize, until: usize, cores: u64) {
        for second in &mut self.0[node][from..until] {
            second.0 -= cores;
            second.1 -= 1;
        }
    }

    /// What each node gives, lowest first, for a job that begins in this second.
    fn gives(&self, request: &Request, from: usize, long: usize) -> Option<Vec<(usize, u64)>> {
        let each = u64::from(request.cores_per_slot);
        let (mut left, per_node) = match request.nodes {
            Some(nodes) => (u64::from(nodes), Some(u64::from(request.slots_per_node))),
            None => (u64::from(request.slots), None),
        };
        let mut found = Vec::new();
        for (node, seconds) in self.0.iter().enumerate() {
            let free = |&(taken, parts): &(u64, u64)| match request.sharing {
                Sharing::Shared => u64::from(CORES) - taken,
                Sharing::Exclusive if parts == 0 => u64::from(CORES),
                Sharing::Exclusive => 0,
            };
            let free = seconds[from..from + long].iter().map(free).min()?;
            let slots = match per_node {
                Some(slots) if slots * each <= free => slots,
                Some(_) => 0,
                None => left.min(free / each),
            };
            if slots > 0 && left > 0 {
                left -= per_node.map_or(slots, |_| 1);
                found.push((node, slots));
            }
        }
        (left == 0).then_some(found)
    }
}

fn request() -> impl Strategy<Value = Request> {
    let shared = prop_oneof![Just(Sharing::Shared), Just(Sharing::Exclusive)];
    let one = (any::<bool>(), 1..4_u32, 1..3_u32, 1..3_u32, shared);
    one.prop_map(|(on_nodes, count, per_node, cores, sharing)| {
        let request = match on_nodes {
            true => nodes(count, per_node, cores),
            false => slots(count, cores),
        };
        Request { sharing, ..request }
    })
}

fn at(second: usize) -> Time {
    Time((NOW + second as i64) * MICROS)
}

/// A room of nodes with these cores and bytes.
fn room(all: &[(u32, u32, u64)]) -> Occupancy {
    let mut room = Occupancy::new(&Policy::default());
    room.define(|of| of.replace(inventory(all), std::iter::empty()));
    room.serve(|of| of.bring(&Idset::first_ids(all.len() as u32)));
    room.at(at(0));
    room
}

fn ask(job: u64, request: Request) -> Arc<Ask> {
    Ask::new(JobId(job), Arc::new(Want::of(16, request)))
}

#[test]
fn memory_of_a_node_is_not_asked_for_by_each_slot() {
    let mut room = room(&[(2, 0, 10)]);
    let of = |memory| Request {
        memory,
        ..slots(2, 1)
    };
    let each = ask(1, of(MemoryNeed::PerCore(10)));
    let together = ask(2, of(MemoryNeed::PerNode(10)));
    assert!(room.fit(&each, at(0), Span::seconds(1)).is_err());
    assert!(room.fit(&together, at(0), Span::seconds(1)).is_ok());
}

#[test]
fn who_waits_for_a_node_out_of_service_is_told_so_again() {
    let mut room = room(&[(2, 0, 0), (2, 0, 0)]);
    room.serve(|of| of.withdraw(&Idset::first_ids(1), Unavailable::Drained));
    for job in 1..4 {
        let both = ask(job, nodes(2, 1, 1));
        let blocked = room.fit(&both, at(0), Span::seconds(1)).err();
        assert_eq!(blocked, Some(Blocked::NotInService));
    }
}

proptest! {
    #[test]
    fn the_earliest_time_is_the_first_second_that_fits(
        // With many nodes few may do, and are looked at alone.
        ranks in prop_oneof![1..5_u32, 16..20_u32],
        held in prop::collection::vec((0..20_u32, 1..5_u32, 2..40_usize), 0..40),
        // One of those that run may end early before.
        asked in prop::collection::vec((request(), 1..20_usize, 0..80_usize), 1..12),
    ) {
        let mut room = room(&vec![(CORES, 0, 0); ranks as usize]);
        let mut seconds = Seconds(vec![vec![(0, 0); 2 * QUIET]; ranks as usize]);
        let mut runs = Vec::new();
        for (job, &(rank, cores, until)) in (1..).zip(&held) {
            let (rank, node) = (Rank(rank % ranks), (rank % ranks) as usize);
            let free = room.inventory().node(node).free.cores.clone();
            let cores = free.lowest(u64::from(cores));
            if cores.is_empty() {
                continue;
            }
            seconds.take(node, 0, until, cores.len());
            let host = format!("node{node}").into();
            let part = NodeSet { host, cores, ..NodeSet::default() };
            let set = ResourceSet { nodes: [(rank, part)].into(), ..ResourceSet::default() };
            let set = Arc::new(set);
            room.hold(JobId(job), &set, at(until));
            runs.push((JobId(job), set, node, until));
        }
        for (job, (request, long, ends)) in (100..).zip(asked) {
            if ends < runs.len() {
                let (job, set, node, until) = runs.swap_remove(ends);
                let cores = set.nodes.values().map(|part| part.cores.len()).sum();
                seconds.give(node, 0, until, cores);
                room.release(job, &set, at(until), std::iter::empty());
            }
            let span = Span::seconds(long as i64);
            let fits = |from: &usize| seconds.gives(&request, *from, long).is_some();
            let first = (0..QUIET).find(fits);
            let ask = ask(job, request.clone());
            let found = room.earliest(&ask, at(0), span);
            prop_assert_eq!(found.as_ref().ok().map(|found| found.0), first.map(at));
            prop_assert_eq!(room.fit(&ask, at(0), span).is_ok(), first == Some(0));
            let (Ok((_, spot)), Some(first)) = (found, first) else { continue };
            let chosen: Vec<(usize, u64)> =
                spot.chosen.iter().map(|chosen| (chosen.at, chosen.slots)).collect();
            prop_assert_eq!(Some(chosen.clone()), seconds.gives(&request, first, long));
            for (node, slots) in chosen {
                let cores = match request.sharing {
                    Sharing::Shared => slots * u64::from(request.cores_per_slot),
                    Sharing::Exclusive => u64::from(CORES),
                };
                seconds.take(node, first, first + long, cores);
            }
            room.take(&spot, at(first), span);
            if first == 0 {
                room.start(&spot, span);
            }
        }
    }
}
