//! Nodes with room by how much of them is used: the most used, the least used, or
//! the one on which least is left, without looking at each.
//!
//! Kept by [`crate::rooms::Rooms`] where the policy places so. Nodes alike in size
//! are a class; within one the order by use and the order by what is left are the
//! same, so that each class is one sorted map whatever is asked. Amounts are
//! compared one after the other: cores, then GPUs, then memory. It chooses nothing.

use std::cmp::Reverse;
use std::collections::btree_set::Iter;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;
use std::sync::Arc;

use crate::rooms::Room;

/// Which nodes come first; of those that are level the lower place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Those of which most is used.
    MostUsed,
    /// Those of which least is used.
    LeastUsed,
    /// Those with the least free.
    LeastFree,
}

impl By {
    /// Rises in the order wanted.
    pub fn key(self, total: &Room, free: &Room) -> Key {
        let used = Room {
            cores: total.cores.saturating_sub(free.cores),
            gpus: total.gpus.saturating_sub(free.gpus),
            // Of memory that nobody knows nothing is used.
            memory: total.memory.saturating_sub(free.memory),
        };
        let key = |room: &Room| [room.cores, room.gpus, room.memory];
        match self {
            By::MostUsed => key(&used).map(|amount| !amount),
            By::LeastUsed => key(&used),
            By::LeastFree => key(free),
        }
    }
}

pub(crate) type Key = [u64; 3];

/// The nodes that are to be had, by what is free of them.
#[derive(Clone, Debug)]
pub(crate) struct ByUse {
    sizes: Arc<Sizes>,
    /// By class: the places of the nodes of which so much is free.
    classes: Vec<BTreeMap<Room, BTreeSet<u32>>>,
}

/// What nodes have in all.
#[derive(Debug)]
struct Sizes {
    /// Of each node its class.
    class: Vec<u32>,
    totals: Vec<Room>,
}

impl ByUse {
    /// Of nodes with these totals, none of which is to be had yet.
    pub fn new(totals: impl Iterator<Item = Room>) -> ByUse {
        let mut known: BTreeMap<Room, u32> = BTreeMap::new();
        let mut sizes = Sizes {
            class: Vec::new(),
            totals: Vec::new(),
        };
        for total in totals {
            let class = *known.entry(total).or_insert_with(|| {
                sizes.totals.push(total);
                sizes.totals.len() as u32 - 1
            });
            sizes.class.push(class);
        }
        ByUse {
            classes: vec![BTreeMap::new(); sizes.totals.len()],
            sizes: Arc::new(sizes),
        }
    }

    /// What is free of a node was this, and is that.
    pub fn change(&mut self, at: usize, before: Option<Room>, after: Option<Room>) {
        let Some(class) = self.sizes.class.get(at) else {
            return;
        };
        let nodes = &mut self.classes[*class as usize];
        let node = at as u32;
        if let Some(before) = before
            && let Some(alike) = nodes.get_mut(&before)
        {
            alike.remove(&node);
            if alike.is_empty() {
                nodes.remove(&before);
            }
        }
        if let Some(after) = after {
            nodes.entry(after).or_default().insert(node);
        }
    }

    /// The places of the nodes with room for `need`, in order.
    pub fn nodes<'n>(&'n self, by: By, need: &'n Room) -> impl Iterator<Item = usize> + 'n {
        let mut runs: Vec<Run<'n>> = Vec::new();
        let mut heads = BinaryHeap::new();
        for (class, nodes) in self.classes.iter().enumerate() {
            let mut run = Run {
                nodes,
                by,
                need,
                free: None,
                alike: None,
            };
            if let Some((free, node)) = run.next() {
                let key = by.key(&self.sizes.totals[class], &free);
                heads.push(Reverse((key, node, class)));
            }
            runs.push(run);
        }
        std::iter::from_fn(move || {
            let Reverse((_, node, class)) = heads.pop()?;
            if let Some((free, next)) = runs[class].next() {
                let key = by.key(&self.sizes.totals[class], &free);
                heads.push(Reverse((key, next, class)));
            }
            Some(node as usize)
        })
    }
}

/// A look over one class.
struct Run<'n> {
    nodes: &'n BTreeMap<Room, BTreeSet<u32>>,
    by: By,
    need: &'n Room,
    /// What is free of those it is at.
    free: Option<Room>,
    alike: Option<Iter<'n, u32>>,
}

impl<'n> Run<'n> {
    fn next(&mut self) -> Option<(Room, u32)> {
        loop {
            if let (Some(free), Some(alike)) = (self.free, &mut self.alike)
                && let Some(node) = alike.next()
            {
                return Some((free, *node));
            }
            let (free, nodes) = match self.by {
                By::MostUsed | By::LeastFree => self.fuller(),
                By::LeastUsed => self.emptier(),
            }?;
            (self.free, self.alike) = (Some(free), Some(nodes.iter()));
        }
    }

    /// The next amount upward that holds the need; what is too small in one amount is leapt over.
    fn fuller(&self) -> Option<(Room, &'n BTreeSet<u32>)> {
        let need = *self.need;
        let mut from = match self.free {
            None => Bound::Included(need),
            Some(free) => Bound::Excluded(free),
        };
        loop {
            let (&free, nodes) = self.nodes.range((from, Bound::Unbounded)).next()?;
            from = Bound::Included(if free.cores < need.cores {
                need
            } else if free.gpus < need.gpus {
                Room {
                    cores: free.cores,
                    ..need
                }
            } else if free.memory < need.memory {
                Room {
                    memory: need.memory,
                    ..free
                }
            } else {
                return Some((free, nodes));
            });
        }
    }

    /// The next amount downward that holds the need.
    fn emptier(&self) -> Option<(Room, &'n BTreeSet<u32>)> {
        let need = self.need;
        let mut until = match self.free {
            None => Bound::Unbounded,
            Some(free) => Bound::Excluded(free),
        };
        loop {
            let (&free, nodes) = self.nodes.range((Bound::Unbounded, until)).next_back()?;
            until = Bound::Excluded(if free.cores < need.cores {
                return None;
            } else if free.gpus < need.gpus {
                Room {
                    cores: free.cores,
                    ..Room::default()
                }
            } else if free.memory < need.memory {
                Room { memory: 0, ..free }
            } else {
                return Some((free, nodes));
            });
        }
    }
}
