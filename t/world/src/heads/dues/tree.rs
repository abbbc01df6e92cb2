//! The tree of accounts and who is in them, and what each is due by what was used and who has something that waits.
//!
//! The factor `fair_share` of the preset `flux`, told independently of the planner's.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::account::{Book, Name, Shares};

use super::Holder;

/// An account or somebody in one, and what all in it used and may use.
struct Node {
    above: usize,
    shares: f64,
    used: f64,
    active: bool,
    holder: Option<Holder>,
}

/// All of them, each behind the one it is under.
pub(super) struct Tree(Vec<Node>);

const ROOT: usize = 0;

impl Tree {
    /// With all members and these. None where somebody has the shares of who is above.
    pub fn new(book: &Book, all: BTreeSet<Holder>) -> Option<Tree> {
        let root = Node {
            above: ROOT,
            shares: 1.0,
            used: 0.0,
            active: false,
            holder: None,
        };
        let mut tree = Tree(vec![root]);
        if book.is_empty() {
            for holder in all {
                tree.add(ROOT, 1.0, Some(holder));
            }
            return Some(tree);
        }
        let mut left = all;
        tree.grow(book, None, ROOT, &mut left)?;
        if !left.is_empty() {
            let nowhere = tree.add(ROOT, 0.0, None);
            for holder in left {
                tree.add(nowhere, 1.0, Some(holder));
            }
        }
        Some(tree)
    }

    fn add(&mut self, above: usize, shares: f64, holder: Option<Holder>) -> usize {
        self.0.push(Node {
            above,
            shares,
            used: 0.0,
            active: false,
            holder,
        });
        self.0.len() - 1
    }

    /// Recursion, no deeper than accounts may be.
    fn grow(
        &mut self,
        book: &Book,
        above: Option<&Name>,
        at: usize,
        left: &mut BTreeSet<Holder>,
    ) -> Option<()> {
        let of = |shares: Shares| match shares {
            Shares::Of(count) => Some(f64::from(count)),
            Shares::Parent => None,
        };
        for name in book.under(above) {
            let account = self.add(at, of(book.account(name)?.shares)?, None);
            for (user, member) in book.members_of(name) {
                let holder = (Some(name.clone()), user);
                left.remove(&holder);
                self.add(account, of(member.shares)?, Some(holder));
            }
            let range = (Some(name.clone()), 0)..=(Some(name.clone()), u32::MAX);
            let others: Vec<Holder> = left.range(range).cloned().collect();
            for holder in others {
                left.remove(&holder);
                self.add(account, 0.0, Some(holder));
            }
            self.grow(book, Some(name), account, left)?;
        }
        Some(())
    }

    /// The factor of each.
    pub fn factors(
        &mut self,
        used: impl Fn(&Holder) -> f64,
        waits: impl Fn(&Holder) -> bool,
    ) -> BTreeMap<Holder, f64> {
        for at in (1..self.0.len()).rev() {
            if let Some(holder) = &self.0[at].holder {
                (self.0[at].used, self.0[at].active) = (used(holder), waits(holder));
            }
            let (above, used, active) = (self.0[at].above, self.0[at].used, self.0[at].active);
            self.0[above].used += used;
            self.0[above].active |= active;
        }
        let mut told: Vec<(f64, f64)> = vec![(1.0, 1.0)];
        for at in 1..self.0.len() {
            told.push(self.of(at, told[self.0[at].above]));
        }
        let told = self.0.iter().zip(told);
        let told = told.filter_map(|(node, (due, used))| {
            let factor = match due > 0.0 {
                true => (-used / due).exp2(),
                false => 0.0,
            };
            Some((node.holder.clone()?, factor))
        });
        told.collect()
    }

    /// What it is due and counts as having used, from that of the one above.
    fn of(&self, at: usize, (due, used): (f64, f64)) -> (f64, f64) {
        let node = &self.0[at];
        let beside = || {
            let all = self.0.iter().enumerate().skip(1);
            all.filter(|(_, other)| other.above == node.above)
        };
        let part = match beside().map(|(_, other)| other.shares).sum::<f64>() {
            0.0 => 0.0,
            all => node.shares / all,
        };
        if node.above == ROOT {
            let part_used = match self.0[ROOT].used {
                0.0 => 0.0,
                all => node.used / all,
            };
            return (due * part, part_used);
        }
        if node.shares == 0.0 {
            return (0.0, used);
        }
        let rivals = || beside().filter(|(other_at, other)| other.active || *other_at == at);
        let all: f64 = rivals().map(|(_, other)| other.used).sum();
        let shares: f64 = rivals().map(|(_, other)| other.shares).sum();
        let service = match all > 0.0 {
            true => node.used / all * shares / node.shares,
            false => 1.0,
        };
        let behind = 1.0 + (service - 1.0).max(0.0) / 2.0;
        (due * part, used * part * behind)
    }
}
