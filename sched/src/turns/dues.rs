//! What each account and user is due: made anew where usage changed, and told to who asks.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::account::Shares as Given;
use eddy_wire::plan::{Owner, ShareRow};
use eddy_wire::time::{MICROS, Span, Time};

use super::Turns;
use super::parties::{Grown, Holder, Parties, of_path, path};
use crate::amounts::{Amounts, Kinds};
use crate::share::{Book, NodeId, Present, Shares, Usage};

impl Turns {
    /// Makes what each is due anew, by what was used and by what `held` may still cost.
    pub fn settle<'h>(
        &mut self,
        owners: impl Iterator<Item = &'h Owner>,
        held: impl Iterator<Item = (&'h Owner, f64, Time)>,
        now: Time,
    ) {
        self.settled = now;
        self.committed.clear();
        if self.is_projected() {
            for (owner, rate, until) in held {
                let left = Span((until - now).0.clamp(0, self.horizon().0));
                let cost = rate * left.0 as f64 / MICROS as f64;
                *self.committed.entry(Parties::holder(owner)).or_default() += cost;
            }
        }
        let waiting: BTreeSet<Holder> = owners.map(Parties::holder).collect();
        let mut all = waiting.clone();
        all.extend(self.committed.keys().cloned());
        let known = self.ledger.entries().filter_map(|(name, _)| of_path(name));
        all.extend(known);
        self.parties.grown(all);
        let due = self.with_book(&waiting, |grown, book, _| {
            let users = grown.tree.users().iter();
            let factors = users.map(|id| book.factor(*id));
            grown.holders.iter().cloned().zip(factors).collect()
        });
        self.due = due.unwrap_or_default();
        self.waiting = waiting;
    }

    /// The factor of who pays for a job.
    pub fn factor_of(&self, owner: &Owner) -> f64 {
        let due = self.due.get(&Parties::holder(owner));
        due.copied().unwrap_or(1.0)
    }

    /// What each is due, as of the last settling.
    pub fn shares(&self) -> Vec<ShareRow> {
        let rows = self.with_book(&self.waiting, |grown, book, usage| {
            let rows = Rows::new(self, grown, book, usage);
            let ids = (0..grown.tree.len() as u32).map(NodeId);
            ids.map(|id| rows.row(id)).collect()
        });
        rows.unwrap_or_default()
    }

    /// What a holder has used and may still come to use.
    fn standing(&self, holder: &Holder) -> (f64, f64) {
        let found = self.ledger.find(&path(holder));
        let used = found.map_or(0.0, |id| self.ledger.usage(id, self.settled));
        let planned = self.committed.get(holder).copied().unwrap_or(0.0);
        (used, planned)
    }

    fn with_book<T>(
        &self,
        waiting: &BTreeSet<Holder>,
        tell: impl FnOnce(&Grown, &Book<'_>, &Usage) -> T,
    ) -> Option<T> {
        let grown = self.parties.last()?;
        let at: BTreeMap<NodeId, &Holder> = grown
            .tree
            .users()
            .iter()
            .copied()
            .zip(&grown.holders)
            .collect();
        let of = |id: NodeId| {
            at.get(&id).map_or(0.0, |holder| {
                let (used, planned) = self.standing(holder);
                used + planned
            })
        };
        let usage = Usage::new(&grown.tree, of, None);
        let kinds = Kinds::default();
        let present = Present {
            total: Amounts::NONE,
            kinds: &kinds,
            held: &|_| Amounts::NONE,
            active: &|id| at.get(&id).is_some_and(|holder| waiting.contains(*holder)),
        };
        let book = Book::new(&self.policy.share, &grown.tree, usage.clone(), &present);
        book.ok().map(|book| tell(grown, &book, &usage))
    }
}

/// What rows are made of.
struct Rows<'r> {
    grown: &'r Grown,
    book: &'r Book<'r>,
    usage: &'r Usage,
    normalized: Vec<f64>,
    effective: Vec<f64>,
    /// By node: what was used, and what may still be.
    parts: Vec<(f64, f64)>,
    holders: BTreeMap<NodeId, &'r Holder>,
}

impl<'r> Rows<'r> {
    fn new(turns: &Turns, grown: &'r Grown, book: &'r Book<'r>, usage: &'r Usage) -> Rows<'r> {
        let tree = &grown.tree;
        let users = tree.users().iter().copied();
        let holders: BTreeMap<NodeId, &Holder> = users.zip(&grown.holders).collect();
        let mut parts = vec![(0.0, 0.0); tree.len()];
        for (id, holder) in &holders {
            let (used, planned) = turns.standing(holder);
            let mut at = *id;
            loop {
                parts[at.0 as usize].0 += used;
                parts[at.0 as usize].1 += planned;
                if at == NodeId::ROOT {
                    break;
                }
                at = tree.parent(at);
            }
        }
        Rows {
            normalized: tree.normalized_shares(),
            effective: book.effective_usage(),
            grown,
            book,
            usage,
            parts,
            holders,
        }
    }

    fn row(&self, id: NodeId) -> ShareRow {
        let (tree, at) = (&self.grown.tree, id.0 as usize);
        let holder = self.holders.get(&id);
        let name = |id: NodeId| tree.name(id).parse().ok();
        ShareRow {
            account: match holder {
                Some((account, _)) => account.clone(),
                None => name(id),
            },
            user: holder.map(|(_, user)| *user),
            depth: self.depth(id),
            shares: match tree.shares(id) {
                Shares::Of(count) => Given::Of(u32::try_from(count).unwrap_or(u32::MAX)),
                Shares::Parent => Given::Parent,
            },
            normalized: self.normalized[at],
            usage: self.parts[at].0,
            planned: self.parts[at].1,
            part: self.usage.part(id),
            effective: self.effective[at],
            factor: self.book.factor(id),
        }
    }

    fn depth(&self, id: NodeId) -> u32 {
        let tree = &self.grown.tree;
        let above = |id: &NodeId| (*id != NodeId::ROOT).then(|| tree.parent(*id));
        std::iter::successors(Some(id), above).count() as u32 - 1
    }
}
