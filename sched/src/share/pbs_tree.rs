//! The PBS fair-share tree: usage blended down the tree over percentages, and paths
//! compared from the root.
//!
//! Every entity has used at least a minimum (1 in PBS), groups that and what is
//! under them. Asked by the book; the path order moves as planned starts are added.

use std::cmp::Ordering;

use super::fair_tree::parting;
use super::tree::{NodeId, Tree, Usage};

/// What an entity counts as having used: a user at least the minimum, a group and the root the
/// minimum and what their users have recorded.
pub fn counted(tree: &Tree, usage: &Usage, minimum: f64, id: NodeId) -> f64 {
    match tree.is_user(id) {
        true => usage.of[id.at()].max(minimum),
        false => minimum + usage.of[id.at()],
    }
}

/// The tree usage of one node: its part of the root's usage, below the first level moved toward
/// its parent's by its part of the level, `u + (u_parent - u) * part`.
pub fn tree_usage(tree: &Tree, usage: &Usage, minimum: f64, id: NodeId) -> f64 {
    let root = counted(tree, usage, minimum, NodeId::ROOT);
    let own = match root > 0.0 {
        true => counted(tree, usage, minimum, id) / root,
        false => 0.0,
    };
    match (id, tree.level(id)) {
        (NodeId::ROOT, _) | (_, NodeId::ROOT) => own,
        (_, level) => own + (tree_usage(tree, usage, minimum, level) - own) * tree.part(id),
    }
}

/// `2^(-tree usage / percentage)`; 0 for who has no part of the tree.
pub fn factor(tree_usage: f64, percentage: f64) -> f64 {
    match percentage > 0.0 {
        true => (-tree_usage / percentage).exp2(),
        false => 0.0,
    }
}

/// Which of two comes first: the one with less usage over percentage where their paths from the
/// root part; those without a part of the tree last.
pub fn first_of(
    tree: &Tree,
    usage: &Usage,
    minimum: f64,
    due: &[f64],
    a: NodeId,
    b: NodeId,
) -> Ordering {
    let (a, b) = parting(tree, a, b);
    let over = |id: NodeId| match due[id.at()] > 0.0 {
        true => counted(tree, usage, minimum, id) / due[id.at()],
        false => f64::INFINITY,
    };
    over(a).total_cmp(&over(b))
}
