//! Ranks by share over usage, level by level (Slurm Fair Tree, flux-accounting).
//!
//! Siblings are sorted by their level factor, share over usage among themselves,
//! and ranked depth first. Equal users have one rank, equal accounts are taken
//! together as one, and a user who is equal to an account comes first and ranks
//! with the best user of it. Factors are compared exactly. Asked by the book.

use std::cmp::Ordering;

use num_rational::BigRational;

use super::tree::{NodeId, Shares, Tree, Usage};

/// Nearer than this (relative) floats may have fallen apart or together, and are compared exactly.
const NEAR: f64 = 1e-12;

/// The ranks of all users.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranks {
    /// Users, the one who is due most first; of equals the smaller shares, then as configured.
    pub order: Vec<NodeId>,
    /// By node: 1 is the worst of as many as there are users; 0 for accounts.
    pub rank: Vec<u32>,
    users: usize,
}

impl Ranks {
    /// Rank over the number of users: 1 is the best.
    pub fn factor(&self, id: NodeId) -> f64 {
        self.rank[id.at()] as f64 / self.users.max(1) as f64
    }

    /// Users of equal rank together, the best first.
    pub fn tiers(&self) -> impl Iterator<Item = &[NodeId]> {
        let rank = |id: &NodeId| self.rank[id.at()];
        self.order.chunk_by(move |a, b| rank(a) == rank(b))
    }
}

/// Shares of `level` and usage of its level that one node is measured by, all of them at least 0:
/// the level factor is `(shares / level_shares) / (used / level_used)`.
#[derive(Clone, Copy)]
struct Measure {
    shares: u64,
    level_shares: u64,
    used: f64,
    level_used: f64,
}

impl Measure {
    fn of(tree: &Tree, usage: &Usage, id: NodeId) -> Measure {
        let level = tree.level(id);
        let level_used = usage.of[level.at()];
        let level_shares = tree.level_shares(level);
        match tree.shares(id) {
            Shares::Of(shares) => Measure {
                shares: shares as u64,
                level_shares,
                used: usage.of[id.at()],
                level_used,
            },
            // It stands for the whole level: all its shares against all its usage.
            Shares::Parent => Measure {
                shares: 1,
                level_shares: 1,
                used: level_used,
                level_used,
            },
        }
    }

    /// No shares are due nothing; who has used nothing is due most.
    fn value(&self) -> f64 {
        match (self.shares, self.used > 0.0) {
            (0, _) => 0.0,
            (_, false) => f64::INFINITY,
            (shares, true) => {
                let part = shares as f64 / self.level_shares as f64;
                part / (self.used / self.level_used)
            }
        }
    }

    /// Compares two finite factors above 0 exactly.
    fn exactly(&self, other: &Measure) -> Ordering {
        let same_level = self.level_shares == other.level_shares
            && self.level_used.to_bits() == other.level_used.to_bits();
        let same = self.shares == other.shares && self.used.to_bits() == other.used.to_bits();
        if same_level && same {
            return Ordering::Equal;
        }
        if let (true, Some((own, others))) = (same_level, self.crossed(other)) {
            return own.cmp(&others);
        }
        match (self.rational(), other.rational()) {
            (Some(own), Some(others)) => own.cmp(&others),
            (own, others) => own.is_some().cmp(&others.is_some()),
        }
    }

    /// Shares of each times usage of the other, where both usages are whole numbers.
    fn crossed(&self, other: &Measure) -> Option<(u128, u128)> {
        let whole = |used: f64| (used.fract() == 0.0 && used < 9e15).then_some(used as u128);
        let own = u128::from(self.shares) * whole(other.used)?;
        Some((own, u128::from(other.shares) * whole(self.used)?))
    }

    fn rational(&self) -> Option<BigRational> {
        let whole = |n: u64| BigRational::from_integer(n.into());
        let part = whole(self.shares) / whole(self.level_shares);
        let used = BigRational::from_float(self.used)?;
        Some(part * BigRational::from_float(self.level_used)? / used)
    }
}

#[derive(Clone, Copy)]
struct Member {
    value: f64,
    id: NodeId,
    /// The same for those of one account, or of several merged, that are level.
    tier: u32,
}

/// Members of one or of several merged accounts, the one who is due most first.
fn sorted(tree: &Tree, usage: &Usage, accounts: &[NodeId]) -> Vec<Member> {
    let under = accounts.iter().flat_map(|&account| tree.rivals(account));
    let member = |&id: &NodeId| Member {
        value: Measure::of(tree, usage, id).value(),
        id,
        tier: 0,
    };
    let mut members: Vec<Member> = under.map(member).collect();
    // Values are never negative nor NaN, so their bits sort as they do: descending by the flipped.
    members.sort_unstable_by_key(|member| (!member.value.to_bits(), member.id));
    // Runs of values that are near each other hold every pair that floats may have turned.
    let (mut start, mut tier) = (0, 0);
    for end in 1..=members.len() {
        if end < members.len() && near(members[end - 1].value, members[end].value) {
            continue;
        }
        tier = settle(tree, usage, &mut members[start..end], tier + 1);
        start = end;
    }
    members
}

/// Sorts members whose values are near each other by exact factors, equals by [`Rival`], and
/// numbers those that are level from `tier` on; the last number.
fn settle(tree: &Tree, usage: &Usage, members: &mut [Member], mut tier: u32) -> u32 {
    if let [alone] = members {
        alone.tier = tier;
        return tier;
    }
    let mut run: Vec<(Measure, Rival, Member)> = members
        .iter()
        .map(|&member| {
            let measure = Measure::of(tree, usage, member.id);
            (measure, Rival::of(tree, member.id), member)
        })
        .collect();
    let settled = |member: &Member| member.value == 0.0 || member.value.is_infinite();
    let order = |a: &(Measure, Rival, Member), b: &(Measure, Rival, Member)| match settled(&a.2)
        || settled(&b.2)
    {
        true => b.2.value.total_cmp(&a.2.value),
        false => b.0.exactly(&a.0),
    };
    run.sort_unstable_by(|a, b| order(a, b).then_with(|| a.1.cmp(&b.1)));
    for at in 0..run.len() {
        if at > 0 && order(&run[at - 1], &run[at]) != Ordering::Equal {
            tier += 1;
        }
        members[at] = Member { tier, ..run[at].2 };
    }
    tier
}

/// The order of equals: users before accounts, smaller shares first, then as configured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rival {
    account: bool,
    shares: i64,
    id: NodeId,
}

impl Rival {
    fn of(tree: &Tree, id: NodeId) -> Rival {
        let shares = match tree.shares(id) {
            Shares::Of(own) => own,
            Shares::Parent => i64::MAX,
        };
        let account = !tree.is_user(id);
        Rival {
            account,
            shares,
            id,
        }
    }
}

fn near(a: f64, b: f64) -> bool {
    a == b || (a.is_finite() && b.is_finite() && (a - b).abs() <= NEAR * a.max(b))
}

/// The level factor of a node as a number, for listings: 1 is as due; infinite without usage.
pub fn level_factor(tree: &Tree, usage: &Usage, id: NodeId) -> f64 {
    Measure::of(tree, usage, id).value()
}

/// Which of two users comes first while usage moves: by the exact factors where their paths part.
/// The order of [`ranks`] but for accounts that are level, which this does not take together.
pub fn first_of(tree: &Tree, usage: &Usage, a: NodeId, b: NodeId) -> Ordering {
    let (a, b) = parting(tree, a, b);
    let (one, other) = (Measure::of(tree, usage, a), Measure::of(tree, usage, b));
    let (value, others) = (one.value(), other.value());
    let settled = |value: f64| value == 0.0 || value.is_infinite();
    match settled(value) || settled(others) || !near(value, others) {
        true => others.total_cmp(&value),
        false => other.exactly(&one),
    }
}

/// The ancestors, or they themselves, that compete with each other.
pub(super) fn parting(tree: &Tree, a: NodeId, b: NodeId) -> (NodeId, NodeId) {
    let path = |mut id: NodeId| {
        let mut path = vec![id];
        while id != NodeId::ROOT {
            id = tree.level(id);
            path.push(id);
        }
        path.reverse();
        path
    };
    let (one, other) = (path(a), path(b));
    let parted = one.iter().zip(&other).find(|(x, y)| x != y);
    parted.map_or((a, b), |(&x, &y)| (x, y))
}

/// The ranks of all users.
pub fn ranks(tree: &Tree, usage: &Usage) -> Ranks {
    let users = tree.users().len();
    let mut walk = Walk {
        tree,
        usage,
        left: users as u32,
        current: users as u32,
        ranks: Ranks {
            order: Vec::with_capacity(users),
            rank: vec![0; tree.len()],
            users,
        },
    };
    walk.descend(&[NodeId::ROOT], Tie::No);
    walk.ranks
}

/// Whether what comes next ranks with what came before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tie {
    No,
    Yes,
}

struct Walk<'a> {
    tree: &'a Tree,
    usage: &'a Usage,
    /// Users not yet ranked: the rank of the next who is not tied.
    left: u32,
    current: u32,
    ranks: Ranks,
}

impl Walk<'_> {
    /// Recursion, no deeper than the tree.
    fn descend(&mut self, accounts: &[NodeId], tied: Tie) {
        let members = sorted(self.tree, self.usage, accounts);
        let mut tied = tied;
        for equals in members.chunk_by(|a, b| a.tier == b.tier) {
            let users = equals.partition_point(|member| self.tree.is_user(member.id));
            for member in &equals[..users] {
                self.rank(member.id, tied);
                tied = Tie::Yes;
            }
            let accounts: Vec<NodeId> = equals[users..].iter().map(|member| member.id).collect();
            let before = self.left;
            if !accounts.is_empty() {
                self.descend(&accounts, tied);
            }
            // Accounts without users rank nobody, so what was tied waits for the next.
            let ranked = users > 0 || self.left < before;
            tied = if ranked { Tie::No } else { tied };
        }
    }

    fn rank(&mut self, id: NodeId, tied: Tie) {
        if tied == Tie::No {
            self.current = self.left;
        }
        self.ranks.rank[id.at()] = self.current;
        self.ranks.order.push(id);
        self.left -= 1;
    }
}
