//! What is free on each node at each level of urgency, kept so that the best fit
//! is a lookup.
//!
//! Level 0 counts everything, also jobs put back for fair share; level `i + 1`
//! counts what runs at the `i`-th class priority or above, for at that priority
//! the rest could be taken. For each level the nodes are sorted by group and by
//! what is free in the order of the resources. Used by placement; knows no jobs.

use std::collections::BTreeSet;

use crate::amounts::Amounts;

/// A place in the index: group, what is free, node.
type Entry = (u32, Amounts, u32);

/// The free amounts of all nodes at all levels.
#[derive(Debug)]
pub(super) struct Field {
    levels: usize,
    groups: Vec<Option<u32>>,
    /// By node, then level.
    free: Vec<Amounts>,
    /// What the index has of each, to find it again.
    indexed: Vec<Amounts>,
    index: Vec<BTreeSet<Entry>>,
    /// Nodes whose free amounts are no longer what the index has: many changes of one node
    /// between two lookups cost one.
    stale: Vec<u32>,
    is_stale: Vec<bool>,
}

impl Field {
    /// Nodes with these groups and capacities, all free, at so many levels.
    pub(super) fn new(levels: usize, nodes: impl Iterator<Item = (Option<u32>, Amounts)>) -> Field {
        let (groups, capacities): (Vec<_>, Vec<_>) = nodes.unzip();
        let free: Vec<Amounts> = capacities
            .iter()
            .flat_map(|&capacity| std::iter::repeat_n(capacity, levels))
            .collect();
        Field {
            levels,
            indexed: free.clone(),
            index: (0..levels).map(|_| BTreeSet::new()).collect(),
            stale: Vec::new(),
            is_stale: vec![false; groups.len()],
            groups,
            free,
        }
    }

    /// Sorts all nodes as they are now. Called once, after what runs is on them.
    pub(super) fn sort(&mut self) {
        self.indexed.clone_from(&self.free);
        self.stale.clear();
        self.is_stale.fill(false);
        for level in 0..self.levels {
            let mut entries: Vec<Entry> = self
                .groups
                .iter()
                .enumerate()
                .filter_map(|(node, group)| {
                    Some((
                        (*group)?,
                        self.free[node * self.levels + level],
                        node as u32,
                    ))
                })
                .collect();
            entries.sort_unstable();
            self.index[level] = entries.into_iter().collect();
        }
    }

    /// How many levels there are.
    pub(super) fn levels(&self) -> usize {
        self.levels
    }

    /// What is free on a node at a level; below 0 of a kind where it is oversubscribed.
    pub(super) fn free(&self, node: u32, level: usize) -> &Amounts {
        &self.free[node as usize * self.levels + level]
    }

    /// Takes an amount at the levels from one to another, both included.
    pub(super) fn take(&mut self, node: u32, levels: (usize, usize), amount: &Amounts) {
        let at = node as usize * self.levels;
        for free in &mut self.free[at + levels.0..=at + levels.1] {
            *free -= *amount;
        }
        self.touch(node);
    }

    /// Gives back what was taken at these levels.
    pub(super) fn give(&mut self, node: u32, levels: (usize, usize), amount: &Amounts) {
        let at = node as usize * self.levels;
        for free in &mut self.free[at + levels.0..=at + levels.1] {
            *free += *amount;
        }
        self.touch(node);
    }

    fn touch(&mut self, node: u32) {
        if !self.is_stale[node as usize] {
            self.is_stale[node as usize] = true;
            self.stale.push(node);
        }
    }

    /// The node of these groups with the least left, in the order of the resources and then of
    /// the nodes, that has room for the need at the level.
    pub(super) fn best(&mut self, level: usize, groups: &[u32], need: &Amounts) -> Option<u32> {
        self.refresh();
        let index = &self.index[level];
        let mut best: Option<(Amounts, u32)> = None;
        for &group in groups {
            let Some(found) = first_with_room(index, group, need) else {
                continue;
            };
            if best.is_none_or(|best| found < best) {
                best = Some(found);
            }
        }
        best.map(|(_, node)| node)
    }

    fn refresh(&mut self) {
        for node in std::mem::take(&mut self.stale) {
            self.is_stale[node as usize] = false;
            let Some(group) = self.groups[node as usize] else {
                continue;
            };
            for level in 0..self.levels {
                let at = node as usize * self.levels + level;
                if self.indexed[at] != self.free[at] {
                    self.index[level].remove(&(group, self.indexed[at], node));
                    self.index[level].insert((group, self.free[at], node));
                    self.indexed[at] = self.free[at];
                }
            }
        }
    }
}

/// Walks the sorted nodes of a group, leaping over all that are too small in a resource: as many
/// steps as there are different amounts of the earlier resources among nodes too small in a
/// later one.
fn first_with_room(index: &BTreeSet<Entry>, group: u32, need: &Amounts) -> Option<(Amounts, u32)> {
    let end = (group + 1, lowest(), 0);
    let mut from = (group, *need, 0);
    loop {
        let &(_, free, node) = index.range(from..end).next()?;
        match free
            .iter()
            .zip(need.iter())
            .position(|(have, want)| have < want)
        {
            None => return Some((free, node)),
            Some(short) => {
                let mut next = free;
                for (at, want) in need.iter().enumerate().skip(short) {
                    next[at] = want;
                }
                from = (group, next, 0);
            }
        }
    }
}

fn lowest() -> Amounts {
    let mut lowest = Amounts::NONE;
    for at in 0..crate::amounts::KINDS_MAX {
        lowest[at] = i64::MIN;
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(cores: i64, memory: i64) -> Amounts {
        let mut amounts = Amounts::NONE;
        (amounts[0], amounts[1]) = (cores, memory);
        amounts
    }

    #[test]
    fn best_fit_leaps_over_nodes_too_small_in_a_later_resource() {
        let nodes = [(4, 1), (4, 2), (6, 1), (8, 9), (8, 3)];
        let nodes = nodes.iter().map(|&(c, m)| (Some(0), amounts(c, m)));
        let mut field = Field::new(2, nodes);
        field.sort();
        assert_eq!(field.best(0, &[0], &amounts(3, 2)), Some(1));
        assert_eq!(field.best(0, &[0], &amounts(3, 3)), Some(4));
        assert_eq!(field.best(0, &[0], &amounts(8, 10)), None);
        field.take(4, (0, 0), &amounts(1, 1));
        assert_eq!(field.best(0, &[0], &amounts(3, 3)), Some(3));
        assert_eq!(field.best(1, &[0], &amounts(3, 3)), Some(4));
        field.give(4, (0, 0), &amounts(1, 1));
        assert_eq!(field.best(0, &[0], &amounts(3, 3)), Some(4));
        assert_eq!(field.best(0, &[1], &amounts(1, 1)), None);
    }
}
