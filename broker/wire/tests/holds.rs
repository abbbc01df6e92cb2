//! What a job held is the same sum however its nodes came and went.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::event::{Final, Kind};
use eddy_wire::grant::Grant;
use eddy_wire::held::{Fate, Held, Move, Stay};
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::time::Time;

/// So many cores of each of these ranks.
fn grant(nodes: &[(u32, u32)]) -> Arc<Grant> {
    let node = |(rank, cores): &(u32, u32)| {
        let node = NodeSet {
            host: "n".into(),
            cores: Idset::first_ids(*cores),
            ..NodeSet::default()
        };
        (Rank(*rank), node)
    };
    let set = ResourceSet {
        nodes: nodes.iter().map(node).collect(),
        ..ResourceSet::default()
    };
    Arc::new(Grant {
        epoch: Epoch(1),
        set: Arc::new(set),
        shells: BTreeMap::new(),
        beside: BTreeMap::new(),
        passed: None,
    })
}

fn release(ranks: &str, last: Final) -> Kind {
    Kind::Release(ranks.parse().expect("ranks"), last)
}

/// Folds one record a second: each move as `+RANK cores`, and `-RANK cores until`.
fn moves(held: &mut Held, kinds: &[Kind]) -> Vec<String> {
    let mut said = Vec::new();
    for (t, kind) in (1..).zip(kinds) {
        held.apply(Time(t), kind, |one| {
            said.push(match one {
                Move::Took(rank, held) => format!("+{} {}", rank.0, held.cores),
                Move::Gave(rank, held, to) => format!("-{} {} {}", rank.0, held.cores, to.0),
            });
        });
    }
    said
}

#[test]
fn nodes_of_a_job_are_told_in_their_order_whether_one_or_several() {
    let mut held = Held::default();
    let kinds = [
        Kind::Alloc(grant(&[(2, 1)])),
        Kind::GrantChanged(grant(&[(1, 1), (2, 1), (3, 4)])),
        Kind::GrantChanged(grant(&[(1, 2), (2, 1), (3, 4)])),
        release("3,7", Final::No),
        release("3", Final::No),
        release("1-2", Final::Over(Some(0))),
    ];
    let said = moves(&mut held, &kinds);
    assert_eq!(
        said,
        [
            "+2 1", "+1 1", "+3 4", "-1 1 3", "+1 2", "-3 4 4", "-1 2 6", "-2 1 6"
        ]
    );
    let (fate, stays) = held.settle();
    let used = stays.iter().map(|stay| stay.used().cores).sum::<u128>();
    assert_eq!((fate, used), (Fate::Charged, 1 + 4 * 2 + 2 * 3 + 5));
    let together = Stay::together(&stays);
    let sum = together.iter().map(|stay| stay.used().cores).sum::<u128>();
    assert_eq!(sum, used);
    let follows = |pair: &[Stay]| pair[0].to == pair[1].from;
    assert!(together.windows(2).all(follows), "{together:?}");
}

#[test]
fn one_node_is_held_again_after_it_was_given_back() {
    let mut held = Held::default();
    let one = Kind::Alloc(grant(&[(4, 2)]));
    let kinds = [
        one.clone(),
        release("5", Final::No),
        one.clone(),
        release("4", Final::No),
        one,
        Kind::Free,
    ];
    let said = moves(&mut held, &kinds);
    assert_eq!(said, ["+4 2", "-4 2 4", "+4 2", "-4 2 6"]);
    assert_eq!(held.so_far(Time(9)).cores, 2 * 3 + 2);
}
