//! What a round is a function of: nodes, jobs, what runs, accounts, buckets, seed.
//!
//! Made by whoever schedules (an instance, the simulator, the runner of vectors)
//! and read by [`super::schedule`]. The order of its lists means nothing: what
//! must have an order carries a number. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::JobId;
use eddy_wire::time::{Span, Time};

use crate::amounts::{Amounts, Kinds};

/// Everything a round looks at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// When it is.
    pub now: Time,
    /// Where draws begin; comes back advanced.
    pub seed: u64,
    /// What is counted. Best fit compares what is left in this order.
    pub kinds: Kinds,
    /// Where jobs go.
    pub nodes: Vec<Node>,
    /// Jobs that wait.
    pub jobs: Vec<Job>,
    /// Jobs that have a node.
    pub runs: Vec<Run>,
    /// Who jobs belong to. What belongs to nobody listed here is left alone.
    pub accounts: Vec<Account>,
    /// Where else jobs of a class may go, and how weakly; tried in order, by class name.
    pub away: BTreeMap<String, Vec<Away>>,
    /// Labels that gangs may be kept together by; `None` is all.
    pub together: Option<BTreeSet<String>>,
    /// What is left of the rates.
    pub buckets: Buckets,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its place in the order of nodes; each once.
    pub rank: u32,
    /// What it has.
    pub capacity: Amounts,
    /// What is said of it, by name.
    pub labels: BTreeMap<String, String>,
    /// What a job must tolerate.
    pub taints: Vec<Taint>,
    /// Whether it takes jobs.
    pub service: Service,
}

/// Whether a node takes jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// It does.
    #[default]
    Up,
    /// No new ones; those it has stay, and may be preempted.
    Cordoned,
    /// Nothing is started there and nothing there is touched.
    Down,
}

/// What keeps jobs off a node that do not tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// What a job tolerates.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// Of the taint; `None` is every taint.
    pub key: Option<String>,
    /// Of the taint; `None` is every value.
    pub value: Option<String>,
}

impl Toleration {
    /// Whether it covers this taint.
    pub fn covers(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self
                .value
                .as_ref()
                .is_none_or(|value| *value == taint.value)
    }
}

/// What is asked of one label of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// It has one of these values.
    In(String, Vec<String>),
    /// It is absent or has none of these.
    NotIn(String, Vec<String>),
    /// It is there.
    Exists(String),
    /// It is absent.
    Absent(String),
    /// It is a number above this.
    Above(String, i64),
    /// It is a number below this.
    Below(String, i64),
}

impl Wish {
    /// The label it is about.
    pub fn label(&self) -> &str {
        match self {
            Wish::In(label, _)
            | Wish::NotIn(label, _)
            | Wish::Exists(label)
            | Wish::Absent(label)
            | Wish::Above(label, _)
            | Wish::Below(label, _) => label,
        }
    }

    /// Whether a node with these labels has it.
    pub fn met(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(self.label());
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Wish::In(_, any) => value.is_some_and(|value| any.contains(value)),
            Wish::NotIn(_, none) => value.is_none_or(|value| !none.contains(value)),
            Wish::Exists(_) => value.is_some(),
            Wish::Absent(_) => value.is_none(),
            Wish::Above(_, bound) => number().is_some_and(|number| number > *bound),
            Wish::Below(_, bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// What a job asks of its node beside room.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// Labels and their values, all of them.
    pub selector: BTreeMap<String, String>,
    /// Alternatives of wishes, of which one must be met in full; empty asks nothing.
    pub affinity: Vec<Vec<Wish>>,
    /// What is tolerated.
    pub tolerations: Vec<Toleration>,
}

/// A job on one node. More nodes are a gang.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// The last key of every order.
    pub id: JobId,
    /// Whose it is.
    pub account: String,
    /// Its class in the policy; empty is the default class.
    pub class: String,
    /// Within its account; smaller is first.
    pub priority: i64,
    /// When it was submitted.
    pub submit: Time,
    /// What it needs on its node.
    pub request: Amounts,
    /// What else it asks of its node.
    pub setting: Setting,
    /// Those it starts with.
    pub gang: Option<Gang>,
    /// How long it is given to end when it is preempted.
    pub grace: Span,
}

/// Jobs that start together, of one account and class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gang {
    /// Its name within the account.
    pub id: String,
    /// How many they are.
    pub cardinality: u32,
    /// How many must start; the others then fail.
    pub minimum: u32,
    /// A label that all their nodes have the same value of.
    pub uniform: Option<String>,
}

/// A job that has a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// As it was submitted.
    pub job: Job,
    /// The rank of its node.
    pub node: u32,
    /// Since when.
    pub start: Time,
    /// The class priority at which it runs; lower than its own when away. `None` is its own.
    pub priority: Option<i64>,
}

/// Another kind of node that a class may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Away {
    /// The class priority of jobs there: home jobs of higher priority push them out.
    pub priority: i64,
    /// Tolerated there beside what the job tolerates.
    pub tolerations: Vec<Toleration>,
}

/// Who jobs belong to.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Each once; decides between those that are level.
    pub name: String,
    /// Priority factor, above 0: its weight is the inverse.
    pub factor: f64,
    /// Decayed use as one number, for slices; never negative.
    pub usage: f64,
    /// What it asks for altogether; `None` is what waits and runs here.
    pub demand: Option<Amounts>,
    /// What it has beside the runs here, by class.
    pub held: BTreeMap<String, Amounts>,
    /// Fractions of everything it may have, by class and resource, in place of those of the policy.
    pub fractions: BTreeMap<String, BTreeMap<String, f64>>,
    /// The most it is given in this round; `None` is any amount, as is `i64::MAX` of a kind.
    pub round_most: Option<Amounts>,
    /// Whether it may start anything.
    pub service: Service,
}

impl Account {
    /// An account of factor 1 without anything.
    pub fn new(name: impl Into<String>) -> Account {
        Account {
            name: name.into(),
            factor: 1.0,
            usage: 0.0,
            demand: None,
            held: BTreeMap::new(),
            fractions: BTreeMap::new(),
            round_most: None,
            service: Service::Up,
        }
    }

    /// The inverse of the factor; a factor that cannot be inverted counts as 1.
    pub fn weight(&self) -> f64 {
        match self.factor.is_finite() && self.factor > 0.0 {
            true => 1.0 / self.factor,
            false => 1.0,
        }
    }
}

/// What is left of the rates; one that is absent is full.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// Of starts of all.
    pub all: Option<Bucket>,
    /// Of starts of each account, by name.
    pub accounts: BTreeMap<String, Bucket>,
    /// Of preemptions for fair share.
    pub preempt: Option<Bucket>,
}

/// Tokens at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// May be below 0.
    pub tokens: f64,
    /// When they were that many.
    pub at: Time,
}
