//! Usage blended down the tree among those who want something now.
//!
//! The other blend of classic fair share. At the top an account's usage is its own over its shares.
//! Below, everybody stands where the account above does, but who had more of what is used there than
//! his part of the shares, both of those only who have work waiting: he stands behind by half of that.
//! So whoever is idle takes nothing from those beside him, siblings of unlike shares are level where
//! each has had its own, and an account has what it is due, whoever of it works and however many
//! names it has: nobody is before his account. Asked by the book.

use super::tree::{NodeId, Shares, Tree, Usage};

/// How much of what one had too much counts.
const OWN: f64 = 0.5;

/// Who wants something, and what all of each level have and used.
#[derive(Clone, Debug)]
pub(super) struct Among {
    active: Vec<bool>,
    /// By account: the shares of its active rivals.
    shares: Vec<f64>,
    /// By account: what they used.
    used: Vec<f64>,
}

impl Among {
    /// Those users, and the accounts they are under.
    pub fn new(tree: &Tree, usage: &Usage, wants: impl Fn(NodeId) -> bool) -> Among {
        let mut active = vec![false; tree.len()];
        for &user in tree.users() {
            let mut at = user;
            let is_news = |active: &[bool], at: NodeId| at != NodeId::ROOT && !active[at.at()];
            if !wants(user) {
                continue;
            }
            while is_news(&active, at) {
                active[at.at()] = true;
                at = tree.parent(at);
            }
        }
        let mut among = Among {
            shares: vec![0.0; tree.len()],
            used: vec![0.0; tree.len()],
            active,
        };
        for id in tree.nodes().filter(|id| among.active[id.at()]) {
            if let Some(own) = own(tree, id) {
                let level = tree.level(id).at();
                among.shares[level] += own;
                among.used[level] += usage.of[id.at()];
            }
        }
        among
    }

    /// Somebody is to have used so much more, or less.
    pub fn add(&mut self, tree: &Tree, id: NodeId, amount: f64) {
        let mut at = id;
        while at != NodeId::ROOT {
            if self.active[at.at()] && own(tree, at).is_some() {
                let used = &mut self.used[tree.level(at).at()];
                *used = (*used + amount).max(0.0);
            }
            at = tree.parent(at);
        }
    }

    /// The effective usage of every node.
    pub fn effective_usage(&self, tree: &Tree, usage: &Usage) -> Vec<f64> {
        let mut effective = vec![0.0; tree.len()];
        effective[0] = usage.part(NodeId::ROOT);
        for id in tree.nodes() {
            effective[id.at()] = self.blended(tree, usage, id, effective[tree.level(id).at()]);
        }
        effective
    }

    /// The same for one node, walking up.
    pub fn effective_usage_of(&self, tree: &Tree, usage: &Usage, id: NodeId) -> f64 {
        let mut path = vec![id];
        while let Some(&at) = path.last().filter(|&&at| at != NodeId::ROOT) {
            path.push(tree.level(at));
        }
        let top = usage.part(NodeId::ROOT);
        let down = path.iter().rev().skip(1);
        down.fold(top, |above, &at| self.blended(tree, usage, at, above))
    }

    fn blended(&self, tree: &Tree, usage: &Usage, id: NodeId, above: f64) -> f64 {
        let level = tree.level(id);
        match own(tree, id) {
            None => above,
            Some(_) if level == NodeId::ROOT => usage.part(id),
            // Nothing is due to it, whatever it used.
            Some(0.0) => above,
            Some(own) => {
                let service = self.service(usage, id, level, own);
                above * tree.part(id) * (1.0 + OWN * (service - 1.0).max(0.0))
            }
        }
    }

    /// Its part of what is used beside it over its part of the shares: 1 is what it is due.
    fn service(&self, usage: &Usage, id: NodeId, level: NodeId, own: f64) -> f64 {
        let (mut shares, mut all) = (self.shares[level.at()], self.used[level.at()]);
        let used = usage.of[id.at()];
        if !self.active[id.at()] {
            (shares, all) = (shares + own, all + used);
        }
        match all > 0.0 {
            true => (used / all) / (own / shares),
            false => 1.0,
        }
    }
}

/// Its shares, if it has shares of its own.
fn own(tree: &Tree, id: NodeId) -> Option<f64> {
    match tree.shares(id) {
        Shares::Of(own) => Some(own as f64),
        Shares::Parent => None,
    }
}
