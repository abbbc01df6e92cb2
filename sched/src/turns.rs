//! Whose turn it is: the place of each waiting job, by the policy's formulas.
//!
//! Asked by the planner when a job comes to wait and when values are made anew;
//! told by it who runs what, which is what shares are reckoned from. It knows no
//! room and keeps no job.

mod attempts;

mod dues;

mod parties;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::account::{Change, Name};
use eddy_wire::held::Stay;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{MemoryNeed, Request};
use eddy_wire::plan::{Breakdown, Owner, Term, Used, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Span, Time};

use crate::policy::{Decay, FACTORS, ORDER_MAX, Policy, Share, Source, WaitFrom, WithinPass};
use crate::priority::{Formula, Names, breakdown, factors, held_back};
use crate::usage::{Bound, Ledger, Meter, Tariff};
use attempts::Attempts;
use parties::{Holder, Parties};

/// What counts as all of a job's cost, where neither it nor the policy says how long: it is the
/// most that a start weighs on the next pick.
const UNLIMITED: Span = Span::seconds(3600);

/// The urgency that goes before all values.
const EXPEDITE: u8 = 31;

/// The turn of a job: the lesser is earlier. The job's number decides last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Those of the formulas, behind that of the queue where queues come first; and in the last place, where
    /// no formula has it, when the job was submitted: numbers of those that an instance took may be older.
    values: [i64; ORDER_MAX + 1],
    pub job: JobId,
    /// Where the planner finds who it is.
    row: u32,
}

impl Turn {
    /// By values of which the higher is earlier.
    fn new(values: impl IntoIterator<Item = f64>, (submitted, job): (Time, JobId)) -> Turn {
        let mut keys = [0; ORDER_MAX + 1];
        keys[ORDER_MAX] = submitted.0;
        for (key, value) in keys.iter_mut().zip(values) {
            *key = !rising(value);
        }
        let row = 0;
        Turn {
            values: keys,
            job,
            row,
        }
    }

    /// The same of the job in this row.
    pub fn of_row(self, row: u32) -> Turn {
        Turn { row, ..self }
    }

    pub fn row(&self) -> usize {
        self.row as usize
    }

    /// What decides first.
    pub fn lead(&self) -> i64 {
        self.values[0]
    }
}

impl Ord for Turn {
    /// The first value nearly always decides: it is looked at by itself.
    #[inline]
    fn cmp(&self, other: &Turn) -> Ordering {
        let rest = |turn: &Turn| (turn.values, turn.job, turn.row);
        match self.values[0].cmp(&other.values[0]) {
            Ordering::Equal => rest(self).cmp(&rest(other)),
            decided => decided,
        }
    }
}

impl PartialOrd for Turn {
    #[inline]
    fn partial_cmp(&self, other: &Turn) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn le(&self, other: &Turn) -> bool {
        self.cmp(other) != Ordering::Greater
    }
}

/// A number that rises as the value does, for every value there is.
#[inline]
pub(crate) fn rising(value: f64) -> i64 {
    // 0 and -0 are one value.
    let bits = (value + 0.0).to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// What turns are made of.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    policy: Policy,
    names: Names,
    formulas: Vec<Formula>,
    /// The factors that formulas name, by their place in [`FACTORS`].
    named: Vec<usize>,
    /// Whether a formula names what changes by itself.
    drift: Drift,
    tariff: Tariff,
    ledger: Ledger,
    /// What of that is of jobs whose end is not told.
    attempts: Attempts,
    /// Who is in which account.
    parties: Parties,
    /// What each holder's running and planned jobs may still come to cost.
    committed: BTreeMap<Holder, f64>,
    /// What each holder is due, as of the last settling.
    due: BTreeMap<Holder, f64>,
    /// When that was.
    settled: Time,
    /// Who waited then.
    waiting: BTreeSet<Holder>,
    /// How many nodes and cores there are.
    all: (f64, f64),
    /// All there is of what is metered.
    capacities: [f64; METERS.len()],
    /// What began and ended since the last pass: only a pass knows the time.
    news: Vec<News>,
}

/// A run that began or ended, with whose it is and what it costs in each second.
#[derive(Clone, Debug)]
enum News {
    /// And since when it runs.
    Began(JobId, Holder, f64, Time),
    Ended(JobId, f64),
    /// From when to when it ran.
    Was(Holder, f64, Time, Time),
    /// What it was charged until now it was not.
    Void(JobId),
    /// And nothing more follows of it.
    Over(JobId),
}

/// Why values of waiting jobs change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drift {
    /// They do not.
    None,
    /// Time passes.
    Time,
    /// Jobs start and end; time passes too.
    Usage,
}

impl Turns {
    /// By a policy that was checked; what others of it cannot be read decides nothing.
    pub fn new(policy: &Policy) -> Turns {
        let names = policy.priority.names();
        let order = policy.priority.order.iter().take(ORDER_MAX);
        let formulas: Vec<Formula> = order
            .filter_map(|text| Formula::parse(text, &names).ok())
            .collect();
        let named: BTreeSet<usize> = formulas.iter().flat_map(Formula::uses).collect();
        let uses = |name: &str| {
            let at = FACTORS.iter().position(|factor| *factor == name);
            named.contains(&at.expect("a factor of that name"))
        };
        let drift = if uses("fair_share") && policy.share.algorithm != Share::None {
            Drift::Usage
        } else if uses("wait") || uses("eligible") {
            Drift::Time
        } else {
            Drift::None
        };
        Turns {
            names,
            formulas,
            drift,
            named: named.into_iter().collect(),
            tariff: tariff(policy, [0.0; METERS.len()]),
            capacities: [0.0; METERS.len()],
            ledger: Ledger::new(policy.usage.decay.clone()),
            attempts: Attempts::default(),
            parties: Parties::default(),
            committed: BTreeMap::new(),
            due: BTreeMap::new(),
            settled: Time(0),
            waiting: BTreeSet::new(),
            all: (0.0, 0.0),
            news: Vec::new(),
            policy: policy.clone(),
        }
    }

    /// Another policy from now on; what was used is not forgotten.
    pub fn obey(&mut self, policy: &Policy, now: Time) {
        let mut next = Turns::new(policy);
        std::mem::swap(&mut next.ledger, &mut self.ledger);
        std::mem::swap(&mut next.attempts, &mut self.attempts);
        next.attempts.change(&next.ledger, now);
        next.ledger.change(policy.usage.decay.clone(), now);
        std::mem::swap(&mut next.parties, &mut self.parties);
        // The time of these only the pass that follows knows.
        std::mem::swap(&mut next.news, &mut self.news);
        (next.all, next.capacities) = (self.all, self.capacities);
        next.tariff = tariff(policy, self.capacities);
        *self = next;
    }

    /// An account, or who is in it, is another from now on.
    pub fn regroup(&mut self, change: &Change) {
        self.parties.apply(change);
    }

    /// What each account weighs where accounts take turns.
    pub fn weights(&self) -> BTreeMap<String, f64> {
        self.parties.weights()
    }

    /// Somebody used that before this planner was.
    pub fn used(&mut self, used: &Used) {
        let amounts = [used.nodes, used.cores, used.gpus, used.memory];
        let lasted = (used.to - used.from).0;
        if lasted <= 0 {
            return;
        }
        let seconds = lasted as f64 / MICROS as f64;
        let rate = self.weighed(&amounts.map(|amount| amount / seconds), &used.owner);
        let holder = Parties::holder(&used.owner);
        self.news.push(News::Was(holder, rate, used.from, used.to));
    }

    /// Nobody has used or uses anything: all that is told anew.
    pub fn forget_use(&mut self) {
        self.ledger = Ledger::new(self.policy.usage.decay.clone());
        self.attempts = Attempts::default();
        self.news.clear();
    }

    pub fn drift(&self) -> Drift {
        self.drift
    }

    /// Whether each planned start weighs on the next pick.
    pub fn is_projected(&self) -> bool {
        self.drift == Drift::Usage && self.policy.share.within_pass == WithinPass::Projected
    }

    /// The instance has these resources.
    pub fn define(&mut self, set: &ResourceSet) {
        let cores: u64 = set.nodes.values().map(|node| node.cores.len()).sum();
        self.all = (set.nodes.len() as f64, cores as f64);
        self.capacities = metered(set);
        self.tariff = tariff(&self.policy, self.capacities);
    }

    /// A job runs since then, or since the pass that follows where its attempt is known; what that costs in each
    /// second.
    pub fn began(&mut self, job: JobId, owner: &Owner, set: &ResourceSet, since: Time) -> f64 {
        let rate = self.rate(owner, set);
        let holder = Parties::holder(owner);
        self.news.push(News::Began(job, holder, rate, since));
        rate
    }

    /// It runs no longer.
    pub fn ended(&mut self, job: JobId, owner: &Owner, set: &ResourceSet) {
        let rate = self.rate(owner, set);
        self.news.push(News::Ended(job, rate));
    }

    /// All that its attempt is charged, in place of what it was until now.
    pub fn settled(&mut self, job: JobId, owner: &Owner, stays: &[Stay]) {
        self.news.push(News::Void(job));
        let charged = stays.iter().map(|stay| {
            let rate = self.weighed(&amounts(stay), owner);
            News::Was(Parties::holder(owner), rate, stay.from, stay.to)
        });
        let charged: Vec<News> = charged.collect();
        self.news.extend(charged);
    }

    /// Its attempt is over: what runs from now on is another.
    pub fn over(&mut self, job: JobId) {
        self.news.push(News::Over(job));
    }

    /// It is now this time, until which all that runs is charged.
    pub fn at(&mut self, now: Time) {
        let (attempts, ledger) = (&mut self.attempts, &mut self.ledger);
        for news in std::mem::take(&mut self.news) {
            match news {
                News::Began(job, holder, rate, since) => {
                    let id = ledger.holder(&parties::path(&holder));
                    attempts.began(ledger, (job, id), (rate, since), now);
                }
                News::Ended(job, rate) => attempts.ended(ledger, job, rate, now),
                News::Was(holder, rate, from, to) => {
                    let id = ledger.holder(&parties::path(&holder));
                    ledger.settle(id, rate, (from, to), now);
                }
                News::Void(job) => attempts.void(ledger, job, now),
                News::Over(job) => attempts.over(ledger, job, now),
            }
        }
    }

    /// For how long ahead a start weighs at most: what is forgotten by half needs no longer view.
    fn horizon(&self) -> Span {
        match self.policy.usage.decay {
            Decay::Exponential { half } | Decay::TowardCurrent { half } => half,
            Decay::Step { interval, .. } => interval,
            Decay::Bins { period, .. } => period,
            Decay::None | Decay::Reset(_) => UNLIMITED,
        }
    }

    /// The turn of a job as of now; `None` if its first value is at or below the threshold.
    pub fn turn(&self, job: JobId, want: &Want, now: Time) -> Option<Turn> {
        if want.urgency >= EXPEDITE {
            return Some(Turn::new([f64::INFINITY], (want.submitted, job)));
        }
        let variables = self.variables(want, now);
        let value = |formula: &Formula| formula.value(&variables).unwrap_or(0.0);
        let values = self.formulas.iter().map(value);
        self.of_values(self.lead(want), values, (want.submitted, job))
    }

    /// What decides before all values.
    pub fn lead(&self, want: &Want) -> Option<f64> {
        match self.policy.queue.source {
            Source::ByQueue => Some(self.queue_of(want)),
            Source::Global | Source::PerAccountCost | Source::PerAccountSlices { .. } => None,
        }
    }

    /// The turn of a job with these values, submitted then.
    pub fn of_values(
        &self,
        lead: Option<f64>,
        values: impl Iterator<Item = f64>,
        job: (Time, JobId),
    ) -> Option<Turn> {
        let mut values = values.peekable();
        let first = values.peek().copied().unwrap_or(0.0);
        let held_back = held_back(first, self.policy.priority.threshold);
        (!held_back).then(|| Turn::new(lead.into_iter().chain(values), job))
    }

    /// A turn with these values instead of those it has.
    pub fn with_values(&self, turn: Turn, values: impl Iterator<Item = f64>) -> Option<Turn> {
        let ahead = match self.policy.queue.source {
            Source::ByQueue => 1,
            Source::Global | Source::PerAccountCost | Source::PerAccountSlices { .. } => 0,
        };
        let (mut anew, mut is_held_back) = (turn, false);
        for (at, value) in values.enumerate() {
            anew.values[ahead + at] = !rising(value);
            is_held_back |= at == 0 && held_back(value, self.policy.priority.threshold);
        }
        (!is_held_back).then_some(anew)
    }

    /// Whether the turn of a job is the same whatever its values.
    pub fn is_fixed(&self, want: &Want) -> bool {
        want.urgency >= EXPEDITE
    }

    /// Whether there are values that have no turn.
    pub fn has_threshold(&self) -> bool {
        self.policy.priority.threshold.is_some()
    }

    /// By what turns are made.
    pub fn formulas(&self) -> &[Formula] {
        &self.formulas
    }

    /// From when the wait of a job is counted.
    pub fn since(&self, want: &Want) -> Time {
        match self.policy.priority.factors.wait_from {
            WaitFrom::Submit => want.submitted,
            WaitFrom::Eligible => want.eligible,
        }
    }

    /// The wait that counts as all there is.
    pub fn max_wait(&self) -> Span {
        self.policy.priority.factors.max_wait
    }

    /// Where the first value of a job comes from.
    pub fn breakdown(&self, want: &Want, now: Time) -> Breakdown {
        let variables = self.variables(want, now);
        let formula = self.formulas.first();
        let terms = formula.map(|formula| breakdown(formula, &self.names, &variables));
        let term = |term: crate::priority::Term| Term {
            name: term.name,
            factor: term.factor,
            weight: term.weight,
            contribution: term.contribution,
        };
        Breakdown {
            policy: self.policy.preset.clone(),
            value: self.first_value(want, now),
            terms: terms.unwrap_or_default().into_iter().map(term).collect(),
        }
    }

    /// The first value of a job as of now.
    pub fn first_value(&self, want: &Want, now: Time) -> f64 {
        let variables = self.variables(want, now);
        let value = self.formulas.first().and_then(|one| one.value(&variables));
        value.unwrap_or(0.0)
    }

    /// In the order of [`FACTORS`], those that a formula names. What jobs cannot name yet is what a job has that
    /// names none.
    pub fn variables(&self, want: &Want, now: Time) -> [f64; FACTORS.len()] {
        let rules = &self.policy.priority.factors;
        let request = &want.request;
        let (nodes, cores) = size_of(request);
        let seconds = |span: Span| span.0.max(0) as f64 / MICROS as f64;
        let of = |name: &str| match name {
            "wait" => factors::wait(now - self.since(want), rules.max_wait),
            "fair_share" => self.factor_of(&want.owner),
            "qos" => factors::qos(rules, want.owner.qos.as_ref().map(Name::as_str)),
            "size" => factors::size(&[(nodes, self.all.0), (cores, self.all.1)], rules.size),
            "user" => factors::user(Some(want.place.factor())),
            "queue" => self.queue_of(want),
            "urgency" => f64::from(want.urgency),
            "class" => factors::class(&self.policy, want.owner.class.as_ref().map(Name::as_str)),
            "nodes" => nodes,
            "cores" => cores,
            "gpus" => f64::from(request.gpus_per_slot) * f64::from(request.slots),
            "memory" => memory_of(request) as f64 / f64::from(1 << 30),
            "walltime" => request.duration.map_or(0.0, |limit| seconds(Span(limit))),
            "eligible" => seconds(now - want.eligible),
            "submit" => want.submitted.0 as f64 / MICROS as f64,
            _ => 0.0,
        };
        let mut all = [0.0; FACTORS.len()];
        self.named.iter().for_each(|at| all[*at] = of(FACTORS[*at]));
        all
    }

    /// The priority of the queue of a job.
    fn queue_of(&self, want: &Want) -> f64 {
        factors::queue(&self.policy, want.owner.queue.as_deref())
    }

    /// What each account has used, as of now; who is in none is one by himself.
    pub fn used_by_accounts(&self, now: Time) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for (name, _) in self.ledger.entries() {
            let id = self.ledger.find(name);
            if let (Some((account, user)), Some(id)) = (parties::of_path(name), id) {
                let account = account.map_or_else(|| user.to_string(), |name| name.to_string());
                *all.entry(account).or_insert(0.0) += self.ledger.usage(id, now);
            }
        }
        all
    }

    /// What these resources cost in each second.
    pub fn rate(&self, owner: &Owner, set: &ResourceSet) -> f64 {
        self.weighed(&metered(set), owner)
    }

    fn weighed(&self, amounts: &[f64; METERS.len()], owner: &Owner) -> f64 {
        let qos = owner.qos.as_ref().map(Name::as_str);
        let qos = qos.unwrap_or(&self.policy.priority.factors.default_qos);
        let queue = owner.queue.as_deref().unwrap_or_default();
        self.tariff.weigh(amounts) * self.tariff.factor(queue) * self.tariff.factor_of_qos(qos)
    }
}

/// What is metered.
const METERS: [&str; 4] = ["nodes", "cores", "gpus", "memory"];

/// How much of each was held; memory in GiB.
fn amounts(stay: &Stay) -> [f64; METERS.len()] {
    let held = stay.held;
    let memory = held.memory as f64 / 1024.0;
    [
        held.nodes as f64,
        held.cores as f64,
        held.gpus as f64,
        memory,
    ]
}

/// How much of each a set has; memory in GiB.
fn metered(set: &ResourceSet) -> [f64; METERS.len()] {
    let mut all = [0.0; METERS.len()];
    for node in set.nodes.values() {
        let amounts = [
            f64::from(u8::from(!node.is_empty())),
            node.cores.len() as f64,
            node.gpus.len() as f64,
            node.memory as f64 / f64::from(1 << 30),
        ];
        all.iter_mut()
            .zip(amounts)
            .for_each(|(all, amount)| *all += amount);
    }
    all
}

/// What running costs by a policy that was checked, where there is so much of what is metered.
fn tariff(policy: &Policy, capacities: [f64; METERS.len()]) -> Tariff {
    let meter = |(name, capacity): (&str, f64)| Meter {
        name: name.to_owned(),
        bound: Bound::Node,
        capacity,
    };
    let meters: Vec<Meter> = METERS.into_iter().zip(capacities).map(meter).collect();
    Tariff::new(&policy.usage, &meters).expect("its usage was checked")
}

/// Nodes and cores asked for. Slots anywhere are counted as one node at least.
fn size_of(request: &Request) -> (f64, f64) {
    let cores = f64::from(request.cores_per_slot) * f64::from(request.slots);
    (f64::from(request.nodes.unwrap_or(1)), cores)
}

fn memory_of(request: &Request) -> u64 {
    let slots = u64::from(request.slots);
    match request.memory {
        MemoryNeed::None => 0,
        MemoryNeed::PerNode(bytes) => bytes.saturating_mul(u64::from(request.nodes.unwrap_or(1))),
        MemoryNeed::PerCore(bytes) => {
            let cores = slots.saturating_mul(u64::from(request.cores_per_slot));
            bytes.saturating_mul(cores)
        }
        MemoryNeed::PerTask(bytes) => bytes.saturating_mul(u64::from(request.ntasks)),
    }
}
