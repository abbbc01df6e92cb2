//! Room on nodes, indexed: finds the lowest node with enough of everything
//! without looking at each.
//!
//! A tree over the nodes in order of rank. Each vertex has the most of each
//! amount on any node below it, so that a search skips whole subtrees, and sums,
//! so that most refusals need no search. Used by the inventory, which keeps one
//! for each question, and by [`crate::Capacity`]. It knows no cores by number.

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

/// The room on each of a fixed number of nodes; some nodes may be missing.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    /// How many leaves: the number of nodes, rounded up to a power of two.
    leaves: usize,
    /// The root is at 1, the children of `at` at `2 * at` and `2 * at + 1`.
    tree: Vec<Totals>,
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
        let mut tree = vec![Totals::default(); 2 * leaves];
        for (at, room) in rooms.enumerate() {
            tree[leaves + at] = Totals::of(room);
        }
        for at in (1..leaves).rev() {
            tree[at] = tree[2 * at].with(tree[2 * at + 1]);
        }
        let by_use = None;
        Rooms {
            leaves,
            tree,
            by_use,
        }
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

    /// What all have together.
    pub fn totals(&self) -> &Totals {
        &self.tree[1]
    }

    /// What the nodes from `from` to before `to` have together.
    pub fn totals_of(&self, from: usize, to: usize) -> Totals {
        let (mut left, mut right) = (self.leaves + from, self.leaves + to.min(self.leaves));
        let mut sum = Totals::default();
        // From the leaves up; a vertex whose parent reaches beyond the run counts by itself.
        while left < right {
            if left % 2 == 1 {
                sum = sum.with(self.tree[left]);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                sum = sum.with(self.tree[right]);
            }
            (left, right) = (left / 2, right / 2);
        }
        sum
    }

    /// The room on node `at`.
    pub fn room(&self, at: usize) -> Room {
        self.tree[self.leaves + at].most
    }

    /// Whether node `at` is to be had.
    pub fn has(&self, at: usize) -> bool {
        self.tree[self.leaves + at].nodes > 0
    }

    /// Node `at` has this room from now on.
    pub fn set(&mut self, at: usize, room: Option<Room>) {
        if let Some(by_use) = &mut self.by_use {
            let before = self.tree[self.leaves + at];
            by_use.change(at, (before.nodes > 0).then_some(before.most), room);
        }
        let mut at = self.leaves + at;
        let mut totals = Totals::of(room);
        while self.tree[at] != totals {
            self.tree[at] = totals;
            if at == 1 {
                return;
            }
            at /= 2;
            totals = self.tree[2 * at].with(self.tree[2 * at + 1]);
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
            if self.tree[at].may_hold(need) {
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
            if self.tree[at].may_hold(need) {
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
