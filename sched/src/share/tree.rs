//! The tree of accounts: who is under whom, with how many shares, having used how much.
//!
//! Built once from configuration and checked then; the algorithms beside it only
//! read. Nodes are numbered so that a parent comes before its children. It holds
//! no time and no jobs.

use std::collections::BTreeMap;
use std::ops::Range;

use thiserror::Error;

/// Levels that a tree may have; no site has more than a few.
const DEPTH_MAX: usize = 64;

/// Most shares of one account; sums of millions of these stay exact.
const SHARES_MAX: i64 = 1 << 40;

/// How many shares one has among its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    /// So many.
    Of(i64),
    /// Those of its parent: an account's members compete one level up, a user has what the
    /// account has (Slurm `FairShare=parent`).
    Parent,
}

/// An account or user as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Unlike its siblings' names; without `/`.
    pub name: String,
    /// Among its siblings.
    pub shares: Shares,
    /// Who is under it.
    pub members: Members,
}

/// Who is under an account.
#[derive(Clone, Debug, PartialEq)]
pub enum Members {
    /// Nobody ever: it is a user, which jobs are charged to.
    User,
    /// These, or nobody yet.
    Under(Vec<Account>),
}

/// Why a tree cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// Two siblings of one name.
    #[error("accounts: `{path}` is given twice")]
    Twice {
        /// From the root.
        path: String,
    },
    /// No name, or one that a path could not tell apart.
    #[error("accounts: name `{given}` under `{path}` is given; allowed are names without `/`")]
    Name {
        /// Of the parent.
        path: String,
        /// As given.
        given: String,
    },
    /// Shares out of range.
    #[error("accounts.{path}.shares: {given} is given; allowed are 0 to {SHARES_MAX} and `parent`")]
    Shares {
        /// From the root.
        path: String,
        /// As given.
        given: i64,
    },
    /// Too deep.
    #[error("accounts: `{path}` is {DEPTH_MAX} levels below the root; allowed are fewer")]
    Deep {
        /// From the root.
        path: String,
    },
}

/// A place in the tree; the root is 0, a parent is less than its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root.
    pub const ROOT: NodeId = NodeId(0);

    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
struct Node {
    path: String,
    name_at: usize,
    parent: NodeId,
    /// The nearest ancestor with shares of its own: among whose rivals this one competes.
    level: NodeId,
    shares: Shares,
    user: bool,
    rivals: Range<usize>,
    level_shares: u64,
}

/// A checked tree of accounts.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    rivals: Vec<NodeId>,
    users: Vec<NodeId>,
    paths: BTreeMap<String, NodeId>,
}

impl Tree {
    /// The tree of these accounts under a root.
    ///
    /// # Errors
    /// [`TreeError`] names the first account that is not allowed, in the order given.
    pub fn new(accounts: &[Account]) -> Result<Tree, TreeError> {
        let mut tree = Tree {
            nodes: vec![Node {
                path: String::new(),
                name_at: 0,
                parent: NodeId::ROOT,
                level: NodeId::ROOT,
                shares: Shares::Of(1),
                user: false,
                rivals: 0..0,
                level_shares: 0,
            }],
            rivals: Vec::new(),
            users: Vec::new(),
            paths: BTreeMap::new(),
        };
        tree.add(accounts, NodeId::ROOT, 1)?;
        tree.match_rivals();
        Ok(tree)
    }

    /// Recursion, at most [`DEPTH_MAX`] deep.
    fn add(&mut self, accounts: &[Account], parent: NodeId, depth: usize) -> Result<(), TreeError> {
        for account in accounts {
            let id = self.add_one(account, parent)?;
            match &account.members {
                Members::User => self.users.push(id),
                Members::Under(_) if depth + 1 >= DEPTH_MAX => {
                    let path = self.path(id).to_owned();
                    return Err(TreeError::Deep { path });
                }
                Members::Under(members) => self.add(members, id, depth + 1)?,
            }
        }
        Ok(())
    }

    fn add_one(&mut self, account: &Account, parent: NodeId) -> Result<NodeId, TreeError> {
        let above = self.path(parent);
        if account.name.is_empty() || account.name.contains('/') {
            return Err(TreeError::Name {
                path: above.to_owned(),
                given: account.name.clone(),
            });
        }
        let (path, name_at) = match above {
            "" => (account.name.clone(), 0),
            above => (format!("{above}/{}", account.name), above.len() + 1),
        };
        match account.shares {
            Shares::Of(given) if !(0..=SHARES_MAX).contains(&given) => {
                return Err(TreeError::Shares { path, given });
            }
            Shares::Of(_) | Shares::Parent => {}
        }
        let id = NodeId(self.nodes.len() as u32);
        if self.paths.insert(path.clone(), id).is_some() {
            return Err(TreeError::Twice { path });
        }
        let above = &self.nodes[parent.at()];
        let level = match (parent, above.shares) {
            (NodeId::ROOT, _) | (_, Shares::Of(_)) => parent,
            (_, Shares::Parent) => above.level,
        };
        self.nodes.push(Node {
            path,
            name_at,
            parent,
            level,
            shares: account.shares,
            user: matches!(account.members, Members::User),
            rivals: 0..0,
            level_shares: 0,
        });
        Ok(id)
    }

    /// Who competes with whom: all of one level but the accounts whose members stand in for them.
    fn match_rivals(&mut self) {
        let mut counts = vec![0_usize; self.nodes.len()];
        for id in 1..self.nodes.len() {
            if self.competes(id) {
                counts[self.nodes[id].level.at()] += 1;
            }
        }
        let mut start = 0;
        for (node, count) in self.nodes.iter_mut().zip(&counts) {
            node.rivals = start..start;
            start += count;
        }
        self.rivals = vec![NodeId::ROOT; start];
        for id in 1..self.nodes.len() {
            if self.competes(id) {
                let own = match self.nodes[id].shares {
                    Shares::Of(own) => own as u64,
                    Shares::Parent => 0,
                };
                let level = self.nodes[id].level.at();
                let level = &mut self.nodes[level];
                self.rivals[level.rivals.end] = NodeId(id as u32);
                level.rivals.end += 1;
                level.level_shares += own;
            }
        }
    }

    fn competes(&self, id: usize) -> bool {
        let node = &self.nodes[id];
        node.user || node.shares != Shares::Parent
    }

    /// How many nodes there are, the root among them.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is nobody but the root.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// All but the root, parents before children.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..self.nodes.len() as u32).map(NodeId)
    }

    /// The users in the order given.
    pub fn users(&self) -> &[NodeId] {
        &self.users
    }

    /// Whether it is a user.
    pub fn is_user(&self, id: NodeId) -> bool {
        self.nodes[id.at()].user
    }

    /// Its name; empty for the root.
    pub fn name(&self, id: NodeId) -> &str {
        let node = &self.nodes[id.at()];
        &node.path[node.name_at..]
    }

    /// The names from the root with `/` between; what a ledger calls it.
    pub fn path(&self, id: NodeId) -> &str {
        &self.nodes[id.at()].path
    }

    /// The node at a path.
    pub fn find(&self, path: &str) -> Option<NodeId> {
        self.paths.get(path).copied()
    }

    /// The account it is under; the root is under itself.
    pub fn parent(&self, id: NodeId) -> NodeId {
        self.nodes[id.at()].parent
    }

    /// The account among whose rivals it competes: its parent, or farther up where that has
    /// [`Shares::Parent`].
    pub fn level(&self, id: NodeId) -> NodeId {
        self.nodes[id.at()].level
    }

    /// Its shares.
    pub fn shares(&self, id: NodeId) -> Shares {
        self.nodes[id.at()].shares
    }

    /// Those that compete under an account.
    pub fn rivals(&self, account: NodeId) -> &[NodeId] {
        &self.rivals[self.nodes[account.at()].rivals.clone()]
    }

    /// The sum of the shares of those.
    pub fn level_shares(&self, account: NodeId) -> u64 {
        self.nodes[account.at()].level_shares
    }

    /// Its part of its level, 0 to 1; 0 where nobody has shares, 1 for the root and for
    /// [`Shares::Parent`].
    pub fn part(&self, id: NodeId) -> f64 {
        match (id, self.shares(id)) {
            (NodeId::ROOT, _) | (_, Shares::Parent) => 1.0,
            (_, Shares::Of(own)) => match self.level_shares(self.level(id)) {
                0 => 0.0,
                all => own as f64 / all as f64,
            },
        }
    }

    /// The part of the whole that each node is due: the product of the parts from the root.
    pub fn normalized_shares(&self) -> Vec<f64> {
        let mut due = vec![1.0; self.nodes.len()];
        for id in self.nodes() {
            due[id.at()] = due[self.level(id).at()] * self.part(id);
        }
        due
    }
}

/// What each node has used: its own and that of all under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// By node.
    pub of: Vec<f64>,
    /// What 1.0 of the machine is: the root's, or more where not all is charged to somebody.
    pub machine: f64,
}

impl Usage {
    /// From the usage of the users; negative amounts and what is no number count as none. With
    /// `machine` what all used is told, where the users' sum is not it.
    pub fn new(tree: &Tree, mut user: impl FnMut(NodeId) -> f64, machine: Option<f64>) -> Usage {
        let mut of = vec![0.0; tree.len()];
        for &id in tree.users() {
            let used = user(id);
            of[id.at()] = if used.is_finite() { used.max(0.0) } else { 0.0 };
        }
        for id in (1..tree.len()).rev() {
            of[tree.nodes[id].parent.at()] += of[id];
        }
        let machine = machine.unwrap_or(of[0]);
        Usage { of, machine }
    }

    /// What one has used of the whole, 0 to 1; 0 while nobody has used anything.
    pub fn part(&self, id: NodeId) -> f64 {
        match self.machine > 0.0 {
            true => (self.of[id.at()] / self.machine).min(1.0),
            false => 0.0,
        }
    }

    /// Adds to a node and all above it; below 0 takes back.
    pub fn add(&mut self, tree: &Tree, id: NodeId, amount: f64) {
        let mut at = id;
        loop {
            self.of[at.at()] = (self.of[at.at()] + amount).max(0.0);
            if at == NodeId::ROOT {
                break;
            }
            at = tree.parent(at);
        }
        self.machine = (self.machine + amount).max(0.0);
    }
}
