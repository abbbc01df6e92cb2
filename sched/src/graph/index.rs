//! The most that any node of a block has free, by type: finds the next node with
//! room without looking at all.
//!
//! Kept by a stock over its summaries of nodes. It knows places in the order of
//! nodes and numbers, no types and no holders.

/// Nodes in a block, and blocks in the next larger block.
const FANOUT: usize = 16;

/// The most of blocks over blocks.
#[derive(Clone, Debug)]
pub(super) struct Index {
    kinds: usize,
    hosts: usize,
    /// Level 0 has what each node has; level `n` blocks of `FANOUT^n` nodes.
    levels: Vec<Vec<i64>>,
}

/// How much of which type, by number, one thing needs at least.
pub(super) type Need = [(usize, i64)];

impl Index {
    /// Of nodes that have nothing free.
    pub fn new(hosts: usize, kinds: usize) -> Index {
        let mut levels = vec![vec![0; hosts * kinds]];
        let mut blocks = hosts;
        while blocks > 1 {
            blocks = blocks.div_ceil(FANOUT);
            levels.push(vec![0; blocks * kinds]);
        }
        Index {
            kinds,
            hosts,
            levels,
        }
    }

    /// What a node has.
    pub fn row(&self, host: usize) -> &[i64] {
        &self.levels[0][host * self.kinds..][..self.kinds]
    }

    /// Says what a node has of a type.
    pub fn set(&mut self, host: usize, kind: usize, amount: i64) {
        let mut at = host;
        let before = std::mem::replace(&mut self.levels[0][host * self.kinds + kind], amount);
        if before == amount {
            return;
        }
        let mut most = amount;
        let mut old = before;
        for level in 1..self.levels.len() {
            let (lower, upper) = self.levels.split_at_mut(level);
            let lower = &lower[level - 1];
            at /= FANOUT;
            let known = &mut upper[0][at * self.kinds + kind];
            if most <= *known && old < *known {
                return;
            }
            if most < *known {
                // What had the most has less now: look at its neighbours.
                let end = ((at + 1) * FANOUT).min(lower.len() / self.kinds);
                most = i64::MIN;
                for below in at * FANOUT..end {
                    most = most.max(lower[below * self.kinds + kind]);
                }
            }
            old = std::mem::replace(known, most);
            if old == most {
                return;
            }
        }
    }

    /// Whether a node has at least this.
    pub fn holds(&self, host: usize, need: &Need) -> bool {
        self.block_holds(0, host, need)
    }

    /// The first node from `from` to before `until` that has at least this.
    pub fn next(&self, from: usize, until: usize, need: &Need) -> Option<usize> {
        let until = until.min(self.hosts);
        let mut at = from;
        let mut fresh = true;
        'nodes: while at < until {
            if fresh || at.is_multiple_of(FANOUT) {
                fresh = false;
                for level in (1..self.levels.len()).rev() {
                    let wide = FANOUT.pow(level as u32);
                    let block = at / wide;
                    if !self.block_holds(level, block, need) {
                        at = (block + 1) * wide;
                        continue 'nodes;
                    }
                }
            }
            if self.block_holds(0, at, need) {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    /// The last node from `from` to before `until` that has at least this.
    pub fn last(&self, from: usize, until: usize, need: &Need) -> Option<usize> {
        let mut behind = until.min(self.hosts);
        let mut fresh = true;
        'nodes: while behind > from {
            let at = behind - 1;
            if fresh || behind.is_multiple_of(FANOUT) {
                fresh = false;
                for level in (1..self.levels.len()).rev() {
                    let wide = FANOUT.pow(level as u32);
                    let block = at / wide;
                    if !self.block_holds(level, block, need) {
                        behind = block * wide;
                        continue 'nodes;
                    }
                }
            }
            if self.block_holds(0, at, need) {
                return Some(at);
            }
            behind = at;
        }
        None
    }

    fn block_holds(&self, level: usize, block: usize, need: &Need) -> bool {
        let row = &self.levels[level][block * self.kinds..][..self.kinds];
        need.iter().all(|&(kind, amount)| row[kind] >= amount)
    }
}
