//! The search for the fewest, by hand.

use std::collections::BTreeSet;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing};

use super::{Candidate, Part, Search, Sought};
use crate::need::Need;
use crate::occupancy::{Found, Left};
use crate::rooms::Room;
use crate::tests::model::{nodes, slots};

fn cores(cores: u64) -> Room {
    Room {
        cores,
        ..Room::default()
    }
}

/// Nodes with so many free cores, and jobs with so many of a node each; who is first is to go first.
fn sought(
    request: &Request,
    free: &[u64],
    jobs: &[&[(usize, u64)]],
) -> Option<(Vec<u64>, Vec<usize>)> {
    let need = Need::of(request);
    let candidates: Vec<Candidate> = (1..)
        .zip(jobs)
        .map(|(job, parts)| Candidate {
            job: JobId(job),
            level: 0,
            spares: BTreeSet::new(),
            parts: parts
                .iter()
                .map(|(at, n)| Part::all(*at, cores(*n)))
                .collect(),
        })
        .collect();
    let mut search = Search::new(&need, &candidates);
    for (at, free) in free.iter().enumerate() {
        let on = |parts: &&&[(usize, u64)]| parts.iter().any(|(node, _)| *node == at);
        let found = Found {
            left: Left::default().with(&cores(*free)),
            held: jobs.iter().filter(on).count() as u64,
            is_promised: false,
        };
        search.place(at, found, cores(64));
    }
    let Sought { victims, chosen } = search.fewest()?;
    let places = chosen.iter().map(|one| one.at).collect();
    Some((victims.iter().map(|one| one.job.0).collect(), places))
}

#[test]
fn one_large_one_rather_than_two_small_ones() {
    let jobs: [&[(usize, u64)]; 3] = [&[(0, 1)], &[(0, 1)], &[(0, 2)]];
    assert_eq!(sought(&slots(1, 2), &[0], &jobs), Some((vec![3], vec![0])));
}

#[test]
fn of_equal_numbers_those_who_are_to_go_first() {
    let jobs: [&[(usize, u64)]; 4] = [&[(0, 2)], &[(0, 1)], &[(0, 3)], &[(0, 2)]];
    // Two are needed for 4: the first with the third, which has 3, or with the fourth, 2.
    assert_eq!(
        sought(&slots(1, 4), &[0], &jobs),
        Some((vec![1, 3], vec![0]))
    );
    // One core is free: the first and the second make up 4, and so they go.
    assert_eq!(sought(&slots(1, 4), &[1], &jobs), Some((vec![3], vec![0])));
    assert_eq!(
        sought(&slots(1, 5), &[1], &jobs),
        Some((vec![1, 3], vec![0]))
    );
}

#[test]
fn the_node_on_which_fewest_go() {
    let jobs: [&[(usize, u64)]; 3] = [&[(0, 1)], &[(0, 1)], &[(1, 1)]];
    assert_eq!(
        sought(&slots(1, 2), &[0, 1], &jobs),
        Some((vec![3], vec![1]))
    );
}

#[test]
fn one_who_is_on_both_nodes_is_counted_once() {
    let jobs: [&[(usize, u64)]; 3] = [&[(0, 4)], &[(1, 4)], &[(1, 4), (2, 4)]];
    let request = nodes(2, 1, 4);
    assert_eq!(
        sought(&request, &[0, 0, 0], &jobs),
        Some((vec![3], vec![1, 2]))
    );
}

#[test]
fn slots_anywhere_take_from_where_a_victim_gives_most() {
    let jobs: [&[(usize, u64)]; 3] = [&[(0, 1)], &[(1, 3)], &[(2, 1)]];
    // Two of five slots are free: three more, and the second gives them alone.
    assert_eq!(
        sought(&slots(5, 1), &[1, 1, 0], &jobs),
        Some((vec![2], vec![0, 1]))
    );
}

#[test]
fn too_few_are_nobody() {
    let jobs: [&[(usize, u64)]; 2] = [&[(0, 1)], &[(0, 1)]];
    assert_eq!(sought(&slots(1, 3), &[0], &jobs), None);
}

#[test]
fn who_is_not_needed_in_the_end_is_spared() {
    // The first step takes the best for one slot; the last alone would do for all.
    let jobs: [&[(usize, u64)]; 2] = [&[(0, 4)], &[(0, 4), (1, 4)]];
    let request = nodes(2, 1, 4);
    assert_eq!(
        sought(&request, &[0, 0], &jobs),
        Some((vec![2], vec![0, 1]))
    );
}

#[test]
fn a_whole_node_is_cleared() {
    let whole = Request {
        sharing: Sharing::Exclusive,
        memory: MemoryNeed::None,
        ..nodes(1, 1, 1)
    };
    let jobs: [&[(usize, u64)]; 3] = [&[(0, 1)], &[(0, 1)], &[(1, 1)]];
    assert_eq!(sought(&whole, &[60, 60], &jobs), Some((vec![3], vec![1])));
}
