//! What each account holds, and how much more may be started: the books of limits
//! and of accounts that take turns, in a running instance.
//!
//! Told by the planner of every start and end. It knows no nodes by name and keeps
//! no job.

mod gate;

use std::collections::BTreeMap;

use eddy_wire::account::Name;
use eddy_wire::jobspec::Sharing;
use eddy_wire::plan::Owner;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use crate::amounts::{Amounts, Kinds, UNIT};
use crate::need::{Need, Spread};
use crate::rooms::Room;
pub(crate) use gate::{Gate, Stop};

/// What is counted, in the order in which best fit compares.
pub(crate) const KINDS: [&str; 3] = ["cores", "gpus", "memory"];

const GIB: u128 = 1 << 30;

/// Whose a job is where accounts take turns or have limits.
pub(crate) fn account_of(owner: &Owner) -> String {
    match &owner.account {
        Some(account) => account.to_string(),
        None => owner.user.to_string(),
    }
}

/// What each account holds.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    kinds: Kinds,
    total: Amounts,
    nodes: i64,
    sockets: i64,
    by: BTreeMap<String, Has>,
}

/// What one account holds.
#[derive(Clone, Debug, Default)]
struct Has {
    amounts: Amounts,
    /// By class, as jobs name it.
    classes: BTreeMap<Option<Name>, Amounts>,
    jobs: u64,
}

impl Default for Accounts {
    fn default() -> Accounts {
        Accounts {
            kinds: Kinds::new(KINDS).expect("three names"),
            total: Amounts::NONE,
            nodes: 0,
            sockets: 0,
            by: BTreeMap::new(),
        }
    }
}

impl Accounts {
    /// The instance has these resources.
    pub fn define(&mut self, set: &ResourceSet) {
        self.total = amounts_of(set);
        self.nodes = i64::try_from(set.nodes.len()).unwrap_or(i64::MAX);
        let sockets = |node: &NodeSet| node.sockets.known().map_or(1, <[_]>::len) as i64;
        self.sockets = set.nodes.values().map(sockets).sum();
    }

    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// What all nodes have.
    pub fn total(&self) -> &Amounts {
        &self.total
    }

    /// A job of this owner holds the set.
    pub fn began(&mut self, owner: &Owner, set: &ResourceSet) {
        let has = self.by.entry(account_of(owner)).or_default();
        let amounts = amounts_of(set);
        has.amounts += amounts;
        *has.classes.entry(owner.class.clone()).or_default() += amounts;
        has.jobs += 1;
    }

    /// It holds it no longer.
    pub fn ended(&mut self, owner: &Owner, set: &ResourceSet) {
        let account = account_of(owner);
        if let Some(has) = self.by.get_mut(&account) {
            let amounts = amounts_of(set);
            has.amounts -= amounts;
            *has.classes.entry(owner.class.clone()).or_default() -= amounts;
            has.jobs = has.jobs.saturating_sub(1);
            if has.jobs == 0 {
                self.by.remove(&account);
            }
        }
    }

    /// What an account holds.
    pub fn has(&self, account: &str) -> Amounts {
        self.by
            .get(account)
            .map_or(Amounts::NONE, |has| has.amounts)
    }

    /// What its jobs of one class hold; those that name none are of the default.
    pub fn has_of_class(&self, account: &str, class: &str, default: &str) -> Amounts {
        let is_of = |name: &Option<Name>| name.as_ref().map_or(default, Name::as_str) == class;
        let classes = self
            .by
            .get(account)
            .into_iter()
            .flat_map(|has| &has.classes);
        let of_class = classes.filter(|(name, _)| is_of(name));
        of_class.fold(Amounts::NONE, |sum, (_, amounts)| sum + *amounts)
    }

    /// Who holds anything.
    pub fn holders(&self) -> impl Iterator<Item = &str> {
        self.by.keys().map(String::as_str)
    }

    /// What a job will hold. Of nodes and sockets that it takes whole that is what they have on average,
    /// or what it asks for if that is more.
    pub fn asks(&self, need: &Need) -> Amounts {
        let slot = need.room(1);
        let slots = need.slots();
        let (first, more) = match need.spread {
            Spread::Nodes { nodes, .. } => (nodes, slots.saturating_sub(nodes)),
            Spread::Slots(_) => (1, slots.saturating_sub(1)),
        };
        // What each node gives whatever is on it counts once for each.
        let further = need.room(2).without(&slot);
        let times = |room: &Room, n: u64| Room {
            cores: room.cores.saturating_mul(n),
            gpus: room.gpus.saturating_mul(n),
            memory: room.memory.saturating_mul(n),
        };
        let shared = amounts(&times(&slot, first).with(&times(&further, more)));
        let nodes = match (need.sharing, need.spread) {
            (Sharing::Shared, _) => {
                let whole = i64::try_from(need.whole_sockets()).unwrap_or(i64::MAX);
                return shared.most(&self.of_sockets(whole));
            }
            (Sharing::Exclusive, Spread::Nodes { nodes, .. }) => nodes,
            (Sharing::Exclusive, Spread::Slots(slots)) => slots.div_ceil(self.slots_on_mean(need)),
        };
        let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
        let mut whole = Amounts::NONE;
        for at in 0..KINDS.len() {
            whole[at] = self.mean(at).saturating_mul(nodes);
        }
        shared.most(&whole)
    }

    /// What so many sockets have on average; memory lies in none.
    fn of_sockets(&self, sockets: i64) -> Amounts {
        let mut all = Amounts::NONE;
        for kind in 0..2 {
            let each = self.total[kind] / self.sockets.max(1);
            all[kind] = each.saturating_mul(sockets);
        }
        all
    }

    /// What nodes have of a kind on average.
    fn mean(&self, kind: usize) -> i64 {
        self.total[kind] / self.nodes.max(1)
    }

    /// How many slots go on a node that has what nodes have on average, 1 at least.
    fn slots_on_mean(&self, need: &Need) -> u64 {
        let once = amounts(&need.room(0));
        let slot = amounts(&need.room(1));
        let times = (0..KINDS.len()).filter_map(|at| {
            let each = slot[at] - once[at];
            (each > 0).then(|| (self.mean(at) - once[at]).max(0) / each)
        });
        // What is said of slots is said of groups of them, where they lie in sockets.
        let groups = need.sockets.map(|group| {
            let sockets = self.sockets / self.nodes.max(1);
            sockets / i64::from(group.sockets.max(1))
        });
        let least = times.chain(groups).min().unwrap_or(i64::MAX).max(1);
        least.unsigned_abs()
    }
}

/// What a set comes to.
fn amounts_of(set: &ResourceSet) -> Amounts {
    let none = Room {
        cores: 0,
        gpus: 0,
        memory: 0,
    };
    amounts(&set.nodes.values().fold(none, |all, node| Room {
        cores: all.cores.saturating_add(node.cores.len()),
        gpus: all.gpus.saturating_add(node.gpus.len()),
        memory: all.memory.saturating_add(node.memory),
    }))
}

/// In thousandths of cores, of GPUs and of GiB.
pub(crate) fn amounts(room: &Room) -> Amounts {
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(UNIT);
    let memory = u128::from(room.memory) * UNIT as u128;
    let mut amounts = Amounts::NONE;
    amounts[0] = count(room.cores);
    amounts[1] = count(room.gpus);
    amounts[2] = i64::try_from(memory.div_ceil(GIB)).unwrap_or(i64::MAX);
    amounts
}
