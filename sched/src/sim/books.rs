//! Who has used what in a replay, and what each is due by the rules of a policy.
//!
//! Told of every submission, start and end; asked for factors when values are made
//! anew. Users and groups have the shares of the workload. It decides nothing.

use std::collections::BTreeMap;

use eddy_wire::time::{Span, Time};

use super::machine::{Machine, cores};
use super::rules::NotSimulated;
use super::workload::{Owner, UNKNOWN, Workload};
use crate::amounts::{Amounts, Kinds};
use crate::policy::{Policy, ShareRules};
use crate::share::{Account, Book, Members, NodeId, Present, Shares, Tree, Usage};
use crate::usage::{Bound, HolderId, Ledger, Meter, Run, Tariff};

/// Usage and shares of the owners of a workload.
pub(super) struct Books {
    rules: ShareRules,
    tree: Tree,
    /// Of each owner.
    nodes: Vec<NodeId>,
    /// Of each node of the tree, its owner.
    owners: Vec<Option<u32>>,
    tariff: Tariff,
    ledger: Ledger,
    holders: Vec<HolderId>,
    held: Vec<u64>,
    waiting: Vec<u64>,
    total: u64,
    kinds: Kinds,
    /// The queue of each place of terms.
    queues: Vec<String>,
}

/// What is charged for a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charged {
    pub(super) owner: u32,
    pub(super) procs: u64,
    pub(super) nodes: u64,
    /// What it asked for.
    pub(super) limit: Option<Span>,
    /// A place in the workload's terms.
    pub(super) terms: u32,
}

impl Charged {
    fn amounts(&self) -> [f64; 2] {
        [self.procs as f64, self.nodes as f64]
    }
}

impl Books {
    pub(super) fn new(
        policy: &Policy,
        workload: &Workload,
        machine: &Machine,
    ) -> Result<Books, NotSimulated> {
        let tree = Tree::new(&accounts(workload))?;
        let nodes: Vec<NodeId> = workload
            .owners
            .iter()
            .map(|owner| tree.find(&path(owner)).unwrap_or(NodeId::ROOT))
            .collect();
        let mut owners = vec![None; tree.len()];
        for (owner, node) in (0..).zip(&nodes) {
            owners[node.0 as usize] = Some(owner);
        }
        let all = machine.nodes().len() as u64;
        let counted = [
            ("cores", machine.procs()),
            ("nodes", if all > 0 { all } else { machine.procs() }),
        ];
        let meters = counted.map(|(name, capacity)| Meter {
            name: name.to_owned(),
            bound: Bound::Node,
            capacity: capacity as f64,
        });
        let tariff = Tariff::new(&policy.usage, &meters)?;
        let mut ledger = Ledger::new(policy.usage.decay.clone());
        let names = workload.owners.iter().map(path);
        let holders = names.map(|name| ledger.holder(&name)).collect();
        Ok(Books {
            rules: policy.share.clone(),
            tree,
            owners,
            tariff,
            ledger,
            holders,
            held: vec![0; nodes.len()],
            waiting: vec![0; nodes.len()],
            nodes,
            total: machine.procs(),
            kinds: Kinds::new(["cores"])?,
            queues: workload
                .terms
                .iter()
                .map(|terms| terms.queue.clone())
                .collect(),
        })
    }

    /// A job waits.
    pub(super) fn came(&mut self, owner: u32) {
        self.waiting[owner as usize] += 1;
    }

    /// It waits no more and runs.
    pub(super) fn started(&mut self, job: Charged, now: Time) {
        let owner = job.owner as usize;
        self.waiting[owner] = self.waiting[owner].saturating_sub(1);
        self.held[owner] = self.held[owner].saturating_add(job.procs);
        let amounts = job.amounts();
        let run = Run {
            amounts: &amounts,
            elapsed: Span::ZERO,
            requested: job.limit,
            queue: self.queue(job),
        };
        let holder = self.holders[owner];
        let at_start = self.tariff.at_start(&run);
        let rate = self.tariff.rate(&amounts, self.queue(job));
        self.ledger.charge(holder, now, at_start);
        self.ledger.using(holder, now, rate);
    }

    /// It ended after so long.
    pub(super) fn ended(&mut self, job: Charged, now: Time, elapsed: Span) {
        let owner = job.owner as usize;
        self.held[owner] = self.held[owner].saturating_sub(job.procs);
        let amounts = job.amounts();
        let run = Run {
            amounts: &amounts,
            elapsed,
            requested: job.limit,
            queue: self.queue(job),
        };
        let holder = self.holders[owner];
        let rate = self.tariff.rate(&amounts, self.queue(job));
        let at_end = self.tariff.at_end(&run);
        self.ledger.using(holder, now, -rate);
        self.ledger.charge(holder, now, at_end);
    }

    fn queue(&self, job: Charged) -> &str {
        self.queues
            .get(job.terms as usize)
            .map_or("", String::as_str)
    }

    /// What an owner has used and not been forgiven, in charged units.
    pub(super) fn usage(&self, owner: u32, now: Time) -> f64 {
        self.ledger.usage(self.holders[owner as usize], now)
    }

    /// The factor of fair share of each owner.
    pub(super) fn factors(&self, now: Time) -> Result<Vec<f64>, NotSimulated> {
        let of = |node: NodeId| self.owners[node.0 as usize];
        let used = |node| of(node).map_or(0.0, |owner| self.usage(owner, now));
        let usage = Usage::new(&self.tree, used, None);
        let held = |node| of(node).map_or(Amounts::NONE, |at| cores(self.held[at as usize]));
        let active = |node| of(node).is_some_and(|at| self.waiting[at as usize] > 0);
        let present = Present {
            total: cores(self.total),
            kinds: &self.kinds,
            held: &held,
            active: &active,
        };
        let book = Book::new(&self.rules, &self.tree, usage, &present)?;
        Ok(self.nodes.iter().map(|node| book.factor(*node)).collect())
    }
}

/// Where an owner is in the tree: groups are a level only where the trace names some.
pub(super) fn path(owner: &Owner) -> String {
    match owner.group.as_str() {
        UNKNOWN => format!("user {}", owner.user),
        group => format!("group {group}/user {}", owner.user),
    }
}

/// What part of the whole each owner is due where all want more than there is.
pub(super) fn parts(workload: &Workload) -> Vec<f64> {
    let top = |owner: &Owner| match owner.group.as_str() {
        UNKNOWN => owner.name(),
        group => format!("{group}/"),
    };
    let mut tops: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for owner in &workload.owners {
        let own = workload.shares_of(&owner.name()) as f64;
        let of_top = match owner.group.as_str() {
            UNKNOWN => own,
            group => workload.shares_of(group) as f64,
        };
        let (_, within) = tops.entry(top(owner)).or_insert((of_top, 0.0));
        *within += own;
    }
    let all: f64 = tops.values().map(|(shares, _)| shares).sum();
    let part = |owner: &Owner| {
        let (shares, within) = tops[&top(owner)];
        // Each part by itself, so that all shares times k are the same to the last digit.
        (shares / all) * (workload.shares_of(&owner.name()) as f64 / within)
    };
    workload.owners.iter().map(part).collect()
}

fn accounts(workload: &Workload) -> Vec<Account> {
    let account = |name: String, shares: u64, members| Account {
        name,
        shares: Shares::Of(i64::try_from(shares).unwrap_or(i64::MAX)),
        members,
    };
    let mut sorted: Vec<&Owner> = workload.owners.iter().collect();
    sorted.sort_unstable();
    let groups = sorted.chunk_by(|a, b| a.group == b.group);
    let mut accounts = Vec::new();
    for group in groups {
        let user = |owner: &&Owner| {
            let shares = workload.shares_of(&owner.name());
            account(format!("user {}", owner.user), shares, Members::User)
        };
        let users: Vec<Account> = group.iter().map(user).collect();
        match group[0].group.as_str() {
            UNKNOWN => accounts.extend(users),
            name => accounts.push(account(
                format!("group {name}"),
                workload.shares_of(name),
                Members::Under(users),
            )),
        }
    }
    accounts
}
