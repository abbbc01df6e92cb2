//! Room on nodes, indexed: finds the lowest node with enough of everything
//! without looking at each.
//!
//! A tree over the nodes in order of rank. Each vertex has the most of each
//! amount on any node below it, so that a search skips whole subtrees, and sums,
//! so that most refusals need no search. Used by the inventory, which keeps one
//! for each question, and by [`crate::Capacity`]. It knows no cores by number.

use std::sync::Arc;

use crate::by_use::ByUse;

/// Amounts on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Room {
    pub cores: u64,
    pub gpus: u64,
    /// Bytes; [`Room::NO_LIMIT`] where nobody knows how much there is.
    pub memory: u64,
}

impl Room {
    /// Memory of a node whose memory is not known: any request fits.
    pub const NO_LIMIT: u64 = u64::MAX;

    /// As much more of everything.
    pub fn with(&self, other: &Room) -> Room {
        Room {
            cores: self.cores.saturating_add(other.cores),
            gpus: self.gpus.saturating_add(other.gpus),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// As much less of everything, down to nothing. Of memory that nobody knows nothing is taken.
    pub fn without(&self, other: &Room) -> Room {
        let memory = match self.memory {
            Room::NO_LIMIT => Room::NO_LIMIT,
            known => known.saturating_sub(other.memory),
        };
        Room {
            cores: self.cores.saturating_sub(other.cores),
            gpus: self.gpus.saturating_sub(other.gpus),
            memory,
        }
    }

    /// What is left of a sum when this is taken out of it again.
    pub fn less(&self, other: &Room) -> Room {
        Room {
            cores: self.cores.saturating_sub(other.cores),
            gpus: self.gpus.saturating_sub(other.gpus),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    /// The lesser of each.
    pub fn least(&self, other: &Room) -> Room {
        Room {
            cores: self.cores.min(other.cores),
            gpus: self.gpus.min(other.gpus),
            memory: self.memory.min(other.memory),
        }
    }

    /// Whether there is as much of everything.
    pub fn holds(&self, need: &Room) -> bool {
        self.cores >= need.cores && self.gpus >= need.gpus && self.memory >= need.memory
    }
}

/// What some nodes have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub nodes: u64,
    pub cores: u64,
    pub gpus: u64,
    /// The most of each amount on one of them; not all need be on the same.
    pub most: Room,
}

impl Totals {
    fn of(room: Option<Room>) -> Totals {
        match room {
            None => Totals::default(),
            Some(room) => Totals {
                nodes: 1,
                cores: room.cores,
                gpus: room.gpus,
                most: room,
            },
        }
    }

    /// With what others have.
    pub fn with(self, other: Totals) -> Totals {
        Totals {
            nodes: self.nodes + other.nodes,
            cores: self.cores + other.cores,
            gpus: self.gpus + other.gpus,
            most: Room {
                cores: self.most.cores.max(other.most.cores),
                gpus: self.most.gpus.max(other.most.gpus),
                memory: self.most.memory.max(other.most.memory),
            },
        }
    }

    fn may_hold(&self, need: &Room) -> bool {
        self.nodes > 0 && self.most.holds(need)
    }
}

/// Leaves of a block: what is copied where two indexes begin to differ.
const BLOCK: usize = 32;

/// The room on each of a fixed number of nodes; some nodes may be missing. A copy shares all blocks
/// in which it has not changed.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    /// How many leaves: the number of nodes, rounded up to a power of two.
    leaves: usize,
    /// The vertices above the blocks. The root of all is at 1, the children of `at` at `2 * at` and
    /// `2 * at + 1`; so they are within a block, where its own root is at 1.
    top: Vec<Totals>,
    /// As many as `top` is long.
    blocks: Vec<Arc<[Totals]>>,
    /// The same nodes by use, where that was asked for.
    by_use: Option<ByUse>,
}

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms::new(std::iter::empty())
    }
}

impl Rooms {
    /// The rooms of nodes in the order of their ranks; `None` is a node that is not to be had.
    pub fn new(rooms: impl ExactSizeIterator<Item = Option<Room>>) -> Rooms {
        let leaves = rooms.len().next_power_of_two();
        let each = leaves.min(BLOCK);
        let count = leaves / each;
        let mut rooms = rooms.fuse();
        let block = |_| {
            let mut block = vec![Totals::default(); 2 * each];
            for (leaf, room) in block[each..].iter_mut().zip(rooms.by_ref()) {
                *leaf = Totals::of(room);
            }
            for at in (1..each).rev() {
                block[at] = block[2 * at].with(block[2 * at + 1]);
            }
            Arc::from(block)
        };
        let mut rooms = Rooms {
            leaves,
            blocks: (0..count).map(block).collect(),
            top: vec![Totals::default(); count],
            by_use: None,
        };
        for at in (1..count).rev() {
            rooms.top[at] = rooms.vertex(2 * at).with(*rooms.vertex(2 * at + 1));
        }
        rooms
    }

    /// Keeps the nodes by use from now on; `totals` are those of all nodes.
    pub fn sort(&mut self, totals: &Rooms) {
        let all = (0..totals.leaves).map(|at| totals.room(at));
        let mut by_use = ByUse::new(all);
        for at in (0..self.leaves).filter(|at| self.has(*at)) {
            by_use.change(at, None, Some(self.room(at)));
        }
        self.by_use = Some(by_use);
    }

    /// Keeps them by rank alone.
    pub fn unsort(&mut self) {
        self.by_use = None;
    }

    /// The nodes by use, if they are kept so.
    pub fn by_use(&self) -> Option<&ByUse> {
        self.by_use.as_ref()
    }

    /// A vertex of the whole tree: the root at 1, the children of `at` at `2 * at` and `2 * at + 1`.
    fn vertex(&self, at: usize) -> &Totals {
        let count = self.blocks.len();
        if at < count {
            return &self.top[at];
        }
        let below = at.ilog2() - count.ilog2();
        let first = 1 << below;
        &self.blocks[(at >> below) - count][first | (at & (first - 1))]
    }

    /// What all have together.
    pub fn totals(&self) -> &Totals {
        self.vertex(1)
    }

    /// What the nodes from `from` to before `to` have together.
    pub fn totals_of(&self, from: usize, to: usize) -> Totals {
        let (mut left, mut right) = (self.leaves + from, self.leaves + to.min(self.leaves));
        let mut sum = Totals::default();
        // From the leaves up; a vertex whose parent reaches beyond the run counts by itself.
        while left < right {
            if left % 2 == 1 {
                sum = sum.with(*self.vertex(left));
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                sum = sum.with(*self.vertex(right));
            }
            (left, right) = (left / 2, right / 2);
        }
        sum
    }

    /// The room on node `at`.
    pub fn room(&self, at: usize) -> Room {
        self.vertex(self.leaves + at).most
    }

    /// Whether node `at` is to be had.
    pub fn has(&self, at: usize) -> bool {
        self.vertex(self.leaves + at).nodes > 0
    }

    /// Node `at` has this room from now on.
    pub fn set(&mut self, at: usize, room: Option<Room>) {
        let totals = Totals::of(room);
        let before = *self.vertex(self.leaves + at);
        if before == totals {
            return;
        }
        if let Some(by_use) = &mut self.by_use {
            by_use.change(at, (before.nodes > 0).then_some(before.most), room);
        }
        let each = self.leaves / self.blocks.len();
        let block = Arc::make_mut(&mut self.blocks[at / each]);
        let mut inner = each + at % each;
        block[inner] = totals;
        while inner > 1 {
            inner /= 2;
            let totals = block[2 * inner].with(block[2 * inner + 1]);
            if block[inner] == totals {
                return;
            }
            block[inner] = totals;
        }
        let mut up = (self.blocks.len() + at / each) / 2;
        while up > 0 {
            let totals = self.vertex(2 * up).with(*self.vertex(2 * up + 1));
            if self.top[up] == totals {
                return;
            }
            self.top[up] = totals;
            up /= 2;
        }
    }

    /// The first node at or after `from` with room for `need`.
    pub fn next(&self, from: usize, need: &Room) -> Option<usize> {
        if from >= self.leaves {
            return None;
        }
        // 1. Go down to the left where there may be room, else on to the subtree to the right.
        // 2. The maxima of a subtree may be of different nodes: then both its halves fail
        //    further down, and the search goes on to the right of it. No vertex is seen twice.
        let mut at = self.leaves + from;
        loop {
            if self.vertex(at).may_hold(need) {
                if at >= self.leaves {
                    return Some(at - self.leaves);
                }
                at *= 2;
                continue;
            }
            while at % 2 == 1 {
                at /= 2;
            }
            if at == 0 {
                return None;
            }
            at += 1;
        }
    }

    /// The last node before `until` with room for `need`.
    pub fn last(&self, until: usize, need: &Room) -> Option<usize> {
        // As above, from the right.
        let mut at = self.leaves + until.min(self.leaves).checked_sub(1)?;
        loop {
            if self.vertex(at).may_hold(need) {
                if at >= self.leaves {
                    return Some(at - self.leaves);
                }
                at = 2 * at + 1;
                continue;
            }
            while at.is_multiple_of(2) {
                at /= 2;
            }
            if at == 1 {
                return None;
            }
            at -= 1;
        }
    }
}
