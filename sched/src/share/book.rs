//! The book of a pass: all algorithms of fair share behind one interface.
//!
//! Made at the beginning of a pass from the rules, the tree and what was used.
//! Formulas take a factor from it; queues ask who comes first, and charge what they
//! plan, so that the next pick knows it ([`WithinPass::Projected`]). It is thrown
//! away after the pass: the ledger only learns of what really started.

use std::cmp::Ordering;

use thiserror::Error;

use super::among::Among;
use super::drf::{Accounts, Costs, DrfError};
use super::fair_tree::Ranks;
use super::floor::{Unrecorded, effective, inverse_shares};
use super::tree::{NodeId, Shares, Tree, Usage};
use super::{classic, fair_tree, pbs_tree, project, ticket};
use crate::amounts::{Amounts, Kinds};
use crate::policy::{Blend, Shape, Share, ShareRules, WithinPass};

/// What a start would add.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ask {
    /// In charged units: all that the run may come to cost.
    pub charge: f64,
    /// What it holds.
    pub amounts: Amounts,
}

/// Why there can be no book.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum BookError {
    /// The resources of [`Share::Drf`].
    #[error(transparent)]
    Drf(#[from] DrfError),
}

/// What is there to be held, for algorithms that look at the present.
pub struct Present<'a> {
    /// All there is.
    pub total: Amounts,
    /// Which position is which resource.
    pub kinds: &'a Kinds,
    /// What runs of a node hold.
    pub held: &'a dyn Fn(NodeId) -> Amounts,
    /// Whether a user has jobs waiting.
    pub active: &'a dyn Fn(NodeId) -> bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Alike,
    Classic {
        shape: Shape,
        damping: f64,
        /// Who has work waiting, where only those are compared.
        among: Option<Among>,
    },
    Ticket(Vec<f64>),
    FairTree(Ranks),
    Project {
        max: f64,
    },
    Pbs {
        minimum: f64,
    },
    Floor {
        floor: f64,
        shares: Vec<f64>,
    },
    Drf(Accounts),
}

/// Who is due what in this pass.
#[derive(Clone, Debug)]
pub struct Book<'t> {
    tree: &'t Tree,
    usage: Usage,
    due: Vec<f64>,
    within: WithinPass,
    kind: Kind,
}

impl<'t> Book<'t> {
    /// The book for rules at the beginning of a pass.
    ///
    /// # Errors
    /// [`BookError`] where the rules name resources that are not counted.
    pub fn new(
        rules: &ShareRules,
        tree: &'t Tree,
        usage: Usage,
        present: &Present<'_>,
    ) -> Result<Book<'t>, BookError> {
        let kind = match &rules.algorithm {
            Share::None => Kind::Alike,
            Share::Classic {
                shape,
                damping,
                blend,
            } => Kind::Classic {
                shape: *shape,
                damping: *damping,
                among: match blend {
                    Blend::Part => None,
                    Blend::Active => Some(Among::new(tree, &usage, present.active)),
                },
            },
            Share::Ticket { floor, tickets } => {
                let held = ticket::distribute(tree, &usage, *floor, *tickets, present.active);
                Kind::Ticket(ticket::priorities(tree, &held))
            }
            Share::FairTree => Kind::FairTree(fair_tree::ranks(tree, &usage)),
            Share::ProjectRatio { max } => Kind::Project { max: *max },
            Share::PbsTree { minimum_usage } => Kind::Pbs {
                minimum: *minimum_usage,
            },
            Share::PriorityFloor { floor } => Kind::Floor {
                floor: *floor,
                shares: floor_shares(tree, &usage, *floor),
            },
            Share::Drf { resources, .. } => {
                let costs = Costs::new(present.total, present.kinds, resources)?;
                Kind::Drf(accounts(tree, costs, present.held))
            }
        };
        Ok(Book {
            due: tree.normalized_shares(),
            tree,
            usage,
            within: rules.within_pass,
            kind,
        })
    }

    /// How much a node is due, greater is more: 0 to 1, but for a project ratio 0 to its maximum.
    pub fn factor(&self, id: NodeId) -> f64 {
        let (tree, usage) = (self.tree, &self.usage);
        match &self.kind {
            Kind::Alike => 1.0,
            Kind::Classic {
                shape,
                damping,
                among,
            } => {
                let used = match among {
                    None => classic::effective_usage_of(tree, usage, id),
                    Some(among) => among.effective_usage_of(tree, usage, id),
                };
                classic::shaped(*shape, self.due[id.at()], used, *damping)
            }
            Kind::Ticket(priorities) => priorities[id.at()],
            Kind::FairTree(ranks) => ranks.factor(id),
            Kind::Project { max } => project::left_over(*max, usage.of[id.at()], usage.machine),
            Kind::Pbs { minimum } => {
                let used = pbs_tree::tree_usage(tree, usage, *minimum, id);
                pbs_tree::factor(used, self.due[id.at()])
            }
            Kind::Floor { shares, .. } => shares[id.at()],
            Kind::Drf(accounts) => 1.0 / (1.0 + accounts.cost(id.at())),
        }
    }

    /// The usage of every node with that of those above it blended in, as classic fair share of these
    /// rules does; as Slurm does where it is another algorithm.
    pub fn effective_usage(&self) -> Vec<f64> {
        match &self.kind {
            Kind::Classic {
                among: Some(among), ..
            } => among.effective_usage(self.tree, &self.usage),
            _ => classic::effective_usage(self.tree, &self.usage),
        }
    }

    /// What it would cost to serve a node this next: the least is next. For trees that compare
    /// paths this is only a listing's number; ask [`Book::first_of`].
    pub fn key(&self, id: NodeId, ask: &Ask) -> f64 {
        match &self.kind {
            Kind::Drf(accounts) => accounts.cost_with(id.at(), &ask.amounts),
            Kind::Floor { floor, .. } => priority(self.tree, &self.usage, *floor, id).max(0.0),
            Kind::Alike
            | Kind::Classic { .. }
            | Kind::Ticket(_)
            | Kind::FairTree(_)
            | Kind::Project { .. }
            | Kind::Pbs { .. } => -self.factor(id),
        }
    }

    /// Which of two is served first, each with what it asks; the lower node of equals.
    pub fn first_of(&self, a: (NodeId, &Ask), b: (NodeId, &Ask)) -> Ordering {
        self.order(a, b).then(a.0.cmp(&b.0))
    }

    fn order(&self, (a, ask_a): (NodeId, &Ask), (b, ask_b): (NodeId, &Ask)) -> Ordering {
        let (tree, usage) = (self.tree, &self.usage);
        match &self.kind {
            Kind::FairTree(ranks) => match self.within {
                WithinPass::Projected => fair_tree::first_of(tree, usage, a, b),
                WithinPass::Static => ranks.rank[b.at()].cmp(&ranks.rank[a.at()]),
            },
            Kind::Pbs { minimum } => pbs_tree::first_of(tree, usage, *minimum, &self.due, a, b),
            Kind::Alike
            | Kind::Classic { .. }
            | Kind::Ticket(_)
            | Kind::Project { .. }
            | Kind::Floor { .. }
            | Kind::Drf(_) => self.key(a, ask_a).total_cmp(&self.key(b, ask_b)),
        }
    }

    /// Whether two are due alike, so that something else must decide: none asks for anything.
    pub fn level(&self, a: NodeId, b: NodeId) -> bool {
        let ask = Ask::default();
        a == b || self.order((a, &ask), (b, &ask)) == Ordering::Equal
    }

    /// A start is planned. Tickets and the ranks of formulas stay those of the beginning; all else
    /// moves, unless the order within a pass is static.
    pub fn charge(&mut self, id: NodeId, ask: &Ask) {
        self.moved(id, ask.charge, |accounts| {
            accounts.charge(id.at(), &ask.amounts)
        });
    }

    /// A start is not planned after all.
    pub fn uncharge(&mut self, id: NodeId, ask: &Ask) {
        self.moved(id, -ask.charge, |accounts| {
            accounts.uncharge(id.at(), &ask.amounts)
        });
    }

    fn moved(&mut self, id: NodeId, charge: f64, held: impl FnOnce(&mut Accounts)) {
        match (self.within, &mut self.kind) {
            (WithinPass::Static, _) | (_, Kind::Alike | Kind::Ticket(_)) => {}
            (WithinPass::Projected, Kind::Drf(accounts)) => held(accounts),
            (
                WithinPass::Projected,
                Kind::Classic { .. }
                | Kind::FairTree(_)
                | Kind::Project { .. }
                | Kind::Pbs { .. }
                | Kind::Floor { .. },
            ) => {
                if let Kind::Classic {
                    among: Some(among), ..
                } = &mut self.kind
                {
                    among.add(self.tree, id, charge);
                }
                self.usage.add(self.tree, id, charge);
            }
        }
    }
}

/// The weight of a node where only its own shares count.
fn weight(tree: &Tree, id: NodeId) -> f64 {
    match tree.shares(id) {
        Shares::Of(own) => own as f64,
        Shares::Parent => 1.0,
    }
}

/// The effective priority, a cost: usage with a floor, over shares.
fn priority(tree: &Tree, usage: &Usage, floor: f64, id: NodeId) -> f64 {
    let factor = 1.0 / weight(tree, id);
    let recorded = Some(usage.of[id.at()]);
    effective(recorded, factor, floor, Unrecorded::FloorTimesFactor)
}

/// Shares of users in inverse proportion to their priorities.
fn floor_shares(tree: &Tree, usage: &Usage, floor: f64) -> Vec<f64> {
    let of = |&id: &NodeId| priority(tree, usage, floor, id);
    let priorities: Vec<f64> = tree.users().iter().map(of).collect();
    let mut shares = vec![0.0; tree.len()];
    for (id, share) in tree.users().iter().zip(inverse_shares(&priorities)) {
        shares[id.at()] = share;
    }
    shares
}

fn accounts(tree: &Tree, costs: Costs, held: &dyn Fn(NodeId) -> Amounts) -> Accounts {
    let ids = || (0..tree.len() as u32).map(NodeId);
    let weights = ids().map(|id| weight(tree, id)).collect();
    let mut accounts = Accounts::new(costs, weights);
    ids().for_each(|id| accounts.charge(id.at(), &held(id)));
    accounts
}
