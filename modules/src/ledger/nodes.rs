//! Where the capacity went, node by node: each core is at each moment for exactly one thing.
//!
//! A node is counted when something of it changes, and when somebody asks. The capacity is counted
//! apart, as a whole, so that the sum of the parts can be held against it.

use std::collections::BTreeMap;

use eddy_wire::account::Name;
use eddy_wire::event::Kind;
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::reservation::Kept;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;
use eddy_wire::usage::{Amounts, Spent, Tally};

/// What somebody holds something for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum For {
    Job,
    Instance,
    /// A declared instance, by name.
    Declared(String),
}

/// The nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    since: Option<Time>,
    nodes: BTreeMap<Rank, Node>,
    spent: Spent,
    /// What was held, by what is said of it late, beyond all that had been counted as unused: by a clock that was set
    /// back. So much more is the capacity until it is said when that was given back.
    owed: Amounts,
    /// The capacity until `counted`, and since then.
    capacity: Amounts,
    all: Amounts,
    counted: Time,
}

#[derive(Clone, Debug, Default)]
struct Node {
    has: Amounts,
    /// Until when it is counted.
    counted: Time,
    jobs: Amounts,
    instances: Amounts,
    declared: BTreeMap<String, Amounts>,
    /// What jobs have that were passed to a declared instance, of what it holds.
    passed: BTreeMap<String, Amounts>,
    service: Service,
    shell: Option<Epoch>,
    /// When it is kept, and what for.
    kept: Vec<Window>,
    /// What was held of it beyond what it has: it left the instance while jobs had it still. So much
    /// more was the capacity.
    beyond: Amounts,
}

/// A reservation, as far as a node of it goes.
#[derive(Clone, Debug)]
struct Window {
    name: Name,
    from: Time,
    until: Time,
    keeps: Keeps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    ForJobs,
    ForNobody,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Service {
    #[default]
    In,
    Drained,
}

/// Nodes that others have part of cannot be counted once each; cores can.
fn countable(amounts: Amounts) -> Amounts {
    Amounts {
        nodes: 0,
        ..amounts
    }
}

/// Where what is held for this went.
fn held_for<'s>(spent: &'s mut Spent, purpose: &For) -> &'s mut Amounts {
    match purpose {
        For::Job => &mut spent.jobs,
        For::Instance => &mut spent.instances,
        For::Declared(name) => declared(spent, name),
    }
}

/// A copy of a name only for the first that it is told of.
fn declared<'s>(spent: &'s mut Spent, name: &str) -> &'s mut Amounts {
    if !spent.declared.contains_key(name) {
        spent.declared.insert(name.to_owned(), Amounts::default());
    }
    let declared = spent.declared.get_mut(name);
    declared.expect("it is there by now")
}

impl Node {
    fn count(&mut self, t: Time, spent: &mut Spent) {
        self.beyond = self.beyond.plus(self.uncounted(t, spent));
        self.counted = self.counted.max(t);
    }

    /// Adds where all went since it was counted, and says what was held beyond what it has.
    fn uncounted(&self, t: Time, spent: &mut Spent) -> Amounts {
        let mut beyond = Amounts::default();
        let mut from = self.counted;
        while from < t {
            // What a reservation has of the time is counted apart.
            let to = self.next_turn(from, t).unwrap_or(t);
            beyond = beyond.plus(self.uncounted_even(from, to, spent));
            from = to;
        }
        beyond
    }

    /// When a reservation begins or ends between then and then.
    fn next_turn(&self, from: Time, to: Time) -> Option<Time> {
        let turns = self.kept.iter().flat_map(|one| [one.from, one.until]);
        turns.filter(|turn| from < *turn && *turn < to).min()
    }

    /// What it is kept for then.
    fn keeps(&self, at: Time) -> Option<Keeps> {
        let mut kept = self.kept.iter();
        let on = kept.find(|one| one.from <= at && at < one.until);
        on.map(|one| one.keeps)
    }

    /// In which nothing begins or ends.
    fn uncounted_even(&self, from: Time, to: Time, spent: &mut Spent) -> Amounts {
        let time = to - from;
        let keeps = self.keeps(from);
        spent.jobs = spent.jobs.plus(self.jobs.over(time));
        spent.instances = spent.instances.plus(self.instances.over(time));
        let mut held = self.jobs.plus(self.instances);
        for (name, amounts) in &self.declared {
            let passed = self.passed.get(name).copied().unwrap_or_default();
            let left = amounts.less(passed);
            held = held.plus(left);
            let of = match keeps {
                Some(Keeps::ForJobs) => &mut spent.reserved,
                Some(Keeps::ForNobody) => &mut spent.maintenance,
                None => declared(spent, name),
            };
            *of = of.plus(left.over(time));
        }
        let left = self.has.less(held).over(time);
        let of = match (keeps, self.shell, self.service) {
            (Some(Keeps::ForNobody), ..) => &mut spent.maintenance,
            (_, _, Service::Drained) => &mut spent.drained,
            (_, None, Service::In) => &mut spent.down,
            (Some(Keeps::ForJobs), Some(_), Service::In) => &mut spent.reserved,
            (None, Some(_), Service::In) => &mut spent.idle,
        };
        *of = of.plus(left);
        held.less(self.has).over(time)
    }

    /// Whether that declared instance holds something of it.
    fn has_of_its_own(&self, name: &str) -> bool {
        let held = self.declared.get(name);
        held.is_some_and(|held| *held != Amounts::default())
    }

    fn holds(&mut self, purpose: &For) -> &mut Amounts {
        match purpose {
            For::Job => &mut self.jobs,
            For::Instance => &mut self.instances,
            For::Declared(name) => self.declared.entry(name.clone()).or_default(),
        }
    }
}

impl Nodes {
    /// When counting began.
    pub fn since(&self) -> Option<Time> {
        self.since
    }

    /// One of the instance's own records.
    pub fn apply(&mut self, t: Time, kind: &Kind) {
        match kind {
            Kind::ResourceDefine(set, _) => self.define(t, set),
            Kind::ShellStart(ranks, epoch) => {
                for rank in ranks.iter() {
                    self.node(t, Rank(rank)).shell = Some(*epoch);
                }
            }
            Kind::ShellLost(epoch, _) => {
                for node in self.nodes.values_mut() {
                    if node.shell == Some(*epoch) {
                        node.count(t, &mut self.spent);
                        node.shell = None;
                    }
                }
            }
            Kind::Drain(ranks, ..) => {
                for rank in ranks.iter() {
                    self.node(t, Rank(rank)).service = Service::Drained;
                }
            }
            Kind::Undrain(ranks, _) => {
                for rank in ranks.iter() {
                    self.node(t, Rank(rank)).service = Service::In;
                }
            }
            Kind::Reservation(kept) => self.kept(t, kept),
            _ => {}
        }
    }

    /// Something of what a declared instance has was held since `t` and is heard of only now: what was
    /// counted as idle in it since then was not.
    pub fn took(&mut self, (t, rank): (Time, Rank), purpose: &For, name: &str, held: Amounts) {
        let Some(node) = self.nodes.get(&rank) else {
            return;
        };
        let was = countable(held).over(node.counted - t);
        let spent = &mut self.spent;
        let own = held_for(spent, purpose);
        *own = own.plus(was);
        let declared = spent.declared.entry(name.to_owned()).or_default();
        let left = was.less(*declared);
        *declared = declared.less(was);
        self.owed = self.owed.plus(left.less(spent.idle));
        spent.idle = spent.idle.less(left);
    }

    /// It was given back at `t`, which is heard of only now: by an instance that it was passed to, or by a
    /// shell whose leader was away. What was counted as held since then was idle, there or here.
    pub fn gave(
        &mut self,
        (t, rank): (Time, Rank),
        purpose: &For,
        passed_to: Option<&str>,
        held: Amounts,
    ) {
        let Some(node) = self.nodes.get(&rank) else {
            return;
        };
        let was = countable(held).over(node.counted - t);
        if was == Amounts::default() {
            return;
        }
        let own = held_for(&mut self.spent, purpose);
        *own = own.less(was);
        let freed = was.less(self.owed);
        self.owed = self.owed.less(was);
        let idle = match passed_to.filter(|name| node.has_of_its_own(name)) {
            Some(name) => self.spent.declared.entry(name.to_owned()).or_default(),
            None => &mut self.spent.idle,
        };
        *idle = idle.plus(freed);
    }

    pub fn take(&mut self, t: Time, rank: Rank, purpose: &For, held: Amounts) {
        let of = self.node(t, rank).holds(purpose);
        *of = of.plus(countable(held));
    }

    pub fn give_back(&mut self, t: Time, rank: Rank, purpose: &For, held: Amounts) {
        let of = self.node(t, rank).holds(purpose);
        *of = of.less(countable(held));
    }

    /// What a job takes that was passed to that instance it takes of what that has.
    pub fn take_of(&mut self, t: Time, rank: Rank, name: &str, held: Amounts) {
        let of = self.node(t, rank).passed.entry(name.to_owned());
        let of = of.or_default();
        *of = of.plus(countable(held));
    }

    pub fn give_back_to(&mut self, t: Time, rank: Rank, name: &str, held: Amounts) {
        if let Some(of) = self.node(t, rank).passed.get_mut(name) {
            *of = of.less(countable(held));
        }
    }

    /// Where all went until then, and how much that is.
    pub fn spent(&self, now: Time) -> (Spent, Amounts) {
        let mut spent = self.spent.clone();
        let counted = self.capacity.plus(self.all.over(now - self.counted));
        let mut capacity = counted.plus(self.owed);
        for node in self.nodes.values() {
            let beyond = node.uncounted(now, &mut spent);
            capacity = capacity.plus(node.beyond).plus(beyond);
        }
        (spent, capacity)
    }

    /// How much of that is capacity only until it is said when it was given back.
    pub fn owed(&self) -> Amounts {
        self.owed
    }

    /// As a summary of that time says.
    pub fn restore(&mut self, t: Time, tally: &Tally) {
        self.since = Some(tally.since);
        self.spent = tally.spent.clone();
        (self.capacity, self.owed) = (tally.capacity, tally.owed);
        self.counted = t;
        for node in self.nodes.values_mut() {
            (node.counted, node.beyond) = (t, Amounts::default());
        }
    }

    /// A node, counted until then. One that the inventory does not have yet has nothing.
    fn node(&mut self, t: Time, rank: Rank) -> &mut Node {
        let node = self.nodes.entry(rank).or_insert_with(|| Node {
            counted: t,
            ..Node::default()
        });
        node.count(t, &mut self.spent);
        node
    }

    fn kept(&mut self, t: Time, kept: &Kept) {
        match kept {
            Kept::Made(one) => {
                for rank in one.ranks.iter() {
                    let window = Window {
                        name: one.name.clone(),
                        from: one.from,
                        until: one.until,
                        keeps: match one.is_maintenance() {
                            true => Keeps::ForNobody,
                            false => Keeps::ForJobs,
                        },
                    };
                    self.node(t, Rank(rank)).kept.push(window);
                }
            }
            Kept::Deleted { name, .. } | Kept::Over { name } => {
                let is_its = |window: &Window| window.name == *name;
                let nodes = self.nodes.values_mut();
                for node in nodes.filter(|node| node.kept.iter().any(is_its)) {
                    node.count(t, &mut self.spent);
                    node.kept.retain(|window| !is_its(window));
                }
            }
        }
    }

    fn define(&mut self, t: Time, set: &ResourceSet) {
        self.since.get_or_insert(t);
        self.capacity = self.capacity.plus(self.all.over(t - self.counted));
        self.counted = self.counted.max(t);
        for node in self.nodes.values_mut() {
            node.count(t, &mut self.spent);
            node.has = Amounts::default();
        }
        self.all = Amounts::default();
        for (rank, node) in &set.nodes {
            let has = countable(Amounts::of(node));
            self.all = self.all.plus(has);
            self.node(t, *rank).has = has;
        }
    }
}
