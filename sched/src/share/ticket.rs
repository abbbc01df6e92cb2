//! Tickets split down the tree among those who have jobs waiting (Slurm's ticket algorithm).
//!
//! Asked by the book. It does not keep the promise that users of under-served
//! accounts always come first: an account's tickets are split among its active
//! users, so the one with many of them gives each few.

use super::tree::{NodeId, Shares, Tree, Usage};
use crate::policy::TicketFloor;

/// The least usage counted is this much of a share.
const FLOOR: f64 = 0.01;

/// The usage that tickets are reckoned with: at least 1 % of the share, of the whole or among the
/// siblings. Not the blended usage of the classic algorithm.
pub fn floored_usage(tree: &Tree, usage: &Usage, floor: TicketFloor) -> Vec<f64> {
    let due = tree.normalized_shares();
    let of = |id: NodeId| {
        let least = match floor {
            TicketFloor::Overall => due[id.at()],
            TicketFloor::Siblings => tree.part(id),
        };
        used_by(tree, usage, id).max(FLOOR * least)
    };
    (0..tree.len() as u32).map(|id| of(NodeId(id))).collect()
}

/// Who has its parent's shares has its parent's usage too.
fn used_by(tree: &Tree, usage: &Usage, id: NodeId) -> f64 {
    match tree.shares(id) {
        Shares::Of(_) => usage.part(id),
        Shares::Parent => usage.part(tree.level(id)),
    }
}

/// Share over floored usage of every node, at most 100 with the floor over all; 0 without shares.
pub fn factors(tree: &Tree, usage: &Usage, floor: TicketFloor) -> Vec<f64> {
    let due = tree.normalized_shares();
    let used = floored_usage(tree, usage, floor);
    let over = |(&due, &used): (&f64, &f64)| if due > 0.0 { due / used } else { 0.0 };
    due.iter().zip(&used).map(over).collect()
}

/// The tickets of every node, from `tickets` at the root: split in proportion to share times
/// factor among those that are active, which is a user for whom `active` says so and every
/// account above one. `None` is who is not active.
pub fn distribute(
    tree: &Tree,
    usage: &Usage,
    floor: TicketFloor,
    tickets: f64,
    mut active: impl FnMut(NodeId) -> bool,
) -> Vec<Option<f64>> {
    let due = tree.normalized_shares();
    let factor = factors(tree, usage, floor);
    let mut counts = vec![false; tree.len()];
    for &id in tree.users() {
        counts[id.at()] = active(id);
    }
    for id in tree.nodes().collect::<Vec<_>>().into_iter().rev() {
        if counts[id.at()] {
            counts[tree.level(id).at()] = true;
            counts[tree.parent(id).at()] = true;
        }
    }
    let mut held = vec![None; tree.len()];
    held[0] = counts[0].then_some(tickets);
    let weight = |id: NodeId| due[id.at()] * factor[id.at()];
    for account in (0..tree.len() as u32).map(NodeId) {
        let Some(split) = held[account.at()] else {
            continue;
        };
        let among = || {
            tree.rivals(account)
                .iter()
                .copied()
                .filter(|id| counts[id.at()])
        };
        let sum: f64 = among().map(weight).sum();
        for id in among() {
            let tickets = if sum > 0.0 {
                split * weight(id) / sum
            } else {
                0.0
            };
            held[id.at()] = Some(tickets);
        }
    }
    held
}

/// The priority factor of every user: its tickets over the most that any user has; 0 for who is not
/// active. By node.
pub fn priorities(tree: &Tree, tickets: &[Option<f64>]) -> Vec<f64> {
    let of = |id: NodeId| tickets[id.at()].unwrap_or(0.0);
    let most = tree.users().iter().map(|&id| of(id)).fold(0.0, f64::max);
    let mut priorities = vec![0.0; tree.len()];
    for &id in tree.users().iter().filter(|_| most > 0.0) {
        priorities[id.at()] = of(id) / most;
    }
    priorities
}
