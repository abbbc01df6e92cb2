//! Classic fair share: usage blended down the tree, over shares, through a curve.
//!
//! Slurm's classic algorithm, which also is the hierarchical share of the Flux
//! six-factor design. Asked by the book and by listings.

use super::tree::{NodeId, Shares, Tree, Usage};
use crate::policy::Shape;

/// A factor from shares `due` and usage `used`, both of the whole: 0 over-served, 0.5 as due, 1
/// under-served. Nobody without shares is due anything (0). Damping counts usage for `1/damping`.
pub fn shaped(shape: Shape, due: f64, used: f64, damping: f64) -> f64 {
    if due.is_nan() || due <= 0.0 {
        return 0.0;
    }
    let used = used / damping;
    let factor = match shape {
        Shape::Exp2 => (-used / due).exp2(),
        Shape::Linear => (due - used + 1.0) / 2.0,
        Shape::Ratio => due / (due + used),
    };
    if factor.is_nan() {
        0.0
    } else {
        factor.clamp(0.0, 1.0)
    }
}

/// The effective usage of every node: its own, moved toward its parent's by its part of the level,
/// `U + (U_parent - U) * part`. At the top it is its own; one with its parent's shares has its
/// parent's; where nobody of a level has shares, too (Slurm classic).
pub fn effective_usage(tree: &Tree, usage: &Usage) -> Vec<f64> {
    let mut effective = vec![0.0; tree.len()];
    effective[0] = usage.part(NodeId::ROOT);
    for id in tree.nodes() {
        effective[id.at()] = blended(tree, usage, id, effective[tree.level(id).at()]);
    }
    effective
}

/// The same for one node, walking up: what a pass asks while usage moves.
pub fn effective_usage_of(tree: &Tree, usage: &Usage, id: NodeId) -> f64 {
    let mut path = vec![id];
    while let Some(&at) = path.last().filter(|&&at| at != NodeId::ROOT) {
        path.push(tree.level(at));
    }
    let top = usage.part(NodeId::ROOT);
    let down = path.iter().rev().skip(1);
    down.fold(top, |above, &at| blended(tree, usage, at, above))
}

fn blended(tree: &Tree, usage: &Usage, id: NodeId, above: f64) -> f64 {
    let own = usage.part(id);
    let level = tree.level(id);
    match tree.shares(id) {
        Shares::Parent => above,
        Shares::Of(_) if level == NodeId::ROOT => own,
        Shares::Of(_) if tree.level_shares(level) == 0 => above,
        Shares::Of(_) => own + (above - own) * tree.part(id),
    }
}

/// The factor of every node.
pub fn factors(tree: &Tree, usage: &Usage, shape: Shape, damping: f64) -> Vec<f64> {
    let due = tree.normalized_shares();
    let effective = effective_usage(tree, usage);
    let both = due.iter().zip(&effective);
    both.map(|(&due, &used)| shaped(shape, due, used, damping))
        .collect()
}
