//! Who is to pay for what, summed anew from all records, against what the ledger says: every core-second
//! of a job is in one place, that of its payer.
//!
//! Knows what a grant names on each node, from when until when; nothing of books, stretches and marks.
//! Asked once everything is at rest, so that all that was recorded is durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::account::Party;
use eddy_wire::event::{Kind, Record};
use eddy_wire::grant::Grant;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::jobspec::Work;
use eddy_wire::services::usage::UsageReport;
use eddy_wire::time::Time;
use eddy_wire::update;
use eddy_wire::usage::{Amounts, Payer};

/// What ended an attempt that came back.
const RECALLED: &str = "recalled";

/// What is charged by records.
#[derive(Debug, Default)]
pub struct Charges {
    jobs: BTreeMap<JobId, Job>,
    charged: BTreeMap<Payer, Amounts>,
    uncharged: Amounts,
    capacity: Capacity,
}

/// Who has something of a node, or had it in this attempt.
#[derive(Debug)]
struct Job {
    payer: Payer,
    /// A declared instance is nobody's: the jobs in it are charged.
    is_declared: bool,
    holds: BTreeMap<Rank, (Time, Amounts)>,
    had: Amounts,
    /// What ended the attempt: the first that does.
    ended_by: Option<String>,
}

/// What there was until then, as long as nothing was taken away.
#[derive(Debug)]
enum Capacity {
    Grew {
        sum: Amounts,
        has: Option<Has>,
    },
    /// What left may be held by others still, who knows how long.
    Shrank,
}

#[derive(Debug)]
struct Has {
    nodes: BTreeMap<Rank, Amounts>,
    since: Time,
}

impl Default for Capacity {
    fn default() -> Capacity {
        Capacity::Grew {
            sum: Amounts::default(),
            has: None,
        }
    }
}

/// Whether a report says of these records what they come to.
///
/// # Errors
/// A payer, or a sum, that is another.
pub fn agree<'a>(
    records: impl Iterator<Item = &'a Arc<Record>>,
    report: &UsageReport,
) -> Result<(), String> {
    let mut charges = Charges::default();
    for record in records {
        charges.apply(record);
    }
    let running = charges.running(report.to);
    let told = |amounts: fn(&(Amounts, Amounts)) -> Amounts| {
        let rows = report.rows.iter();
        let rows = rows.map(|row| (row.payer.clone(), amounts(&(row.charged, row.running))));
        some(rows.collect())
    };
    same(
        "charged",
        &told(|row| row.0),
        &some(charges.charged.clone()),
    )?;
    same("held so far", &told(|row| row.1), &some(running.clone()))?;
    let all = charges.charged.values().chain(running.values());
    let all = all.copied().fold(Amounts::default(), Amounts::plus);
    let identity = &report.identity;
    equal("charged in all", identity.charged, all)?;
    equal("not charged", identity.uncharged, charges.uncharged)?;
    let spent = identity.spent.jobs.plus(identity.spent.instances);
    let held = countable(all.plus(charges.uncharged));
    equal("held by jobs and instances", spent, held)?;
    match charges.capacity.until(report.to) {
        Some(capacity) => equal("the capacity", identity.capacity, capacity),
        None => Ok(()),
    }
}

/// Those who are charged something.
fn some(all: BTreeMap<Payer, Amounts>) -> BTreeMap<Payer, Amounts> {
    let charged = |(_, amounts): &(Payer, Amounts)| *amounts != Amounts::default();
    all.into_iter().filter(charged).collect()
}

fn same(
    what: &str,
    told: &BTreeMap<Payer, Amounts>,
    right: &BTreeMap<Payer, Amounts>,
) -> Result<(), String> {
    let nothing = Amounts::default();
    let payers = told.keys().chain(right.keys());
    for payer in payers {
        let of = |all: &BTreeMap<Payer, Amounts>| all.get(payer).copied().unwrap_or(nothing);
        equal(&format!("{what} of {payer:?}"), of(told), of(right))?;
    }
    Ok(())
}

fn equal(what: &str, told: Amounts, right: Amounts) -> Result<(), String> {
    match told == right {
        true => Ok(()),
        false => Err(format!(
            "what is {what} is told as {told:?}; the records come to {right:?}"
        )),
    }
}

/// Nodes of which several have something are not counted where the capacity went.
fn countable(amounts: Amounts) -> Amounts {
    Amounts {
        nodes: 0,
        ..amounts
    }
}

impl Charges {
    /// What somebody is charged, perhaps nothing, for an attempt that has given all back by this.
    pub fn apply(&mut self, record: &Record) -> Option<Amounts> {
        let t = record.event.t;
        match (&record.event.kind, record.event.job) {
            (Kind::ResourceDefine(set, _), None) => {
                let amounts = |node| countable(Amounts::of(node));
                let nodes = set.nodes.iter();
                let nodes = nodes.map(|(rank, node)| (*rank, amounts(node)));
                self.capacity.is_now(t, nodes.collect());
            }
            (Kind::Submit(submit), Some(id)) => {
                let work = &submit.spec.request.work;
                let job = Job {
                    payer: Payer {
                        account: submit.party.account.clone(),
                        user: submit.user,
                        qos: submit.party.qos.clone(),
                        queue: submit.spec.jobspec.attributes.system.queue.clone(),
                    },
                    is_declared: matches!(work, Work::Instance { name: Some(_) }),
                    holds: BTreeMap::new(),
                    had: Amounts::default(),
                    ended_by: None,
                };
                self.jobs.insert(id, job);
            }
            (kind, Some(id)) => {
                self.jobs.get_mut(&id)?.apply(t, kind);
                if kind.frees() {
                    return self.settle(id);
                }
            }
            (_, None) => {}
        }
        None
    }

    /// An attempt has given all back: its payer pays for it, unless a node failed under it.
    fn settle(&mut self, id: JobId) -> Option<Amounts> {
        let job = self.jobs.get_mut(&id)?;
        let had = std::mem::take(&mut job.had);
        let (of, charged) = match job.ended_by.as_deref() {
            _ if job.is_declared => return None,
            Some("node-failure" | RECALLED) => (&mut self.uncharged, Amounts::default()),
            _ => (self.charged.entry(job.payer.clone()).or_default(), had),
        };
        *of = of.plus(had);
        Some(charged)
    }

    /// What is held, and was in the attempts that hold something.
    fn running(&self, now: Time) -> BTreeMap<Payer, Amounts> {
        let mut running: BTreeMap<Payer, Amounts> = BTreeMap::new();
        for job in self.jobs.values().filter(|job| !job.is_declared) {
            let holds = job.holds.values();
            let holds = holds.map(|(from, amounts)| amounts.over(now - *from));
            let of = running.entry(job.payer.clone()).or_default();
            *of = holds.fold(of.plus(job.had), Amounts::plus);
        }
        running
    }
}

impl Job {
    fn apply(&mut self, t: Time, kind: &Kind) {
        match kind {
            Kind::Alloc(grant) => self.takes(t, grant),
            Kind::GrantChanged(grant) => {
                // What is held on a node as before is held on: of the others a new stretch begins.
                let other: Vec<Rank> = self.holds.keys().copied().collect();
                let same = |rank: &Rank| {
                    let node = grant.set.nodes.get(rank).map(Amounts::of);
                    node == self.holds.get(rank).map(|(_, held)| *held)
                };
                let other: Vec<Rank> = other.into_iter().filter(|rank| !same(rank)).collect();
                self.gives(t, other);
                self.takes(t, grant);
            }
            Kind::Exception(exception) if exception.severity == 0 => {
                let by = || exception.kind.clone();
                self.ended_by.get_or_insert_with(by);
            }
            // It came back from where it was passed to, and never began.
            Kind::Recalled(_) => {
                self.ended_by.get_or_insert_with(|| RECALLED.to_owned());
            }
            Kind::Requeue(_) => self.ended_by = None,
            // Who is to pay is changed before anything is held.
            Kind::JobspecUpdate(map) => {
                let mut party = Party {
                    account: self.payer.account.take(),
                    qos: self.payer.qos.take(),
                    class: None,
                };
                update::party(&mut party, map);
                (self.payer.account, self.payer.qos) = (party.account, party.qos);
                if let Some(queue) = update::queue(map) {
                    self.payer.queue = Some(queue.to_owned());
                }
            }
            // What is given back last is in the record with all the rest.
            Kind::Release(ranks, _) if !kind.frees() => {
                self.gives(t, ranks.iter().map(Rank).collect());
            }
            kind if kind.frees() => self.gives(t, self.holds.keys().copied().collect()),
            _ => {}
        }
    }

    fn takes(&mut self, t: Time, grant: &Grant) {
        for (rank, node) in &grant.set.nodes {
            let amounts = Amounts::of(node);
            if amounts != Amounts::default() {
                self.holds.entry(*rank).or_insert((t, amounts));
            }
        }
    }

    fn gives(&mut self, t: Time, ranks: Vec<Rank>) {
        for rank in ranks {
            if let Some((from, amounts)) = self.holds.remove(&rank) {
                self.had = self.had.plus(amounts.over(t - from));
            }
        }
    }
}

impl Capacity {
    fn is_now(&mut self, t: Time, nodes: BTreeMap<Rank, Amounts>) {
        let Capacity::Grew { has, .. } = self else {
            return;
        };
        let stays = |(rank, own): (&Rank, &Amounts)| nodes.get(rank) == Some(own);
        let grows = has.as_ref().is_none_or(|has| has.nodes.iter().all(stays));
        let sum = self.until(t);
        *self = match sum.filter(|_| grows) {
            Some(sum) => Capacity::Grew {
                sum,
                has: Some(Has { nodes, since: t }),
            },
            None => Capacity::Shrank,
        };
    }

    fn until(&self, now: Time) -> Option<Amounts> {
        match self {
            Capacity::Grew { sum, has: None } => Some(*sum),
            Capacity::Grew {
                sum,
                has: Some(has),
            } => {
                let nodes = has.nodes.values().copied();
                let all = nodes.fold(Amounts::default(), Amounts::plus);
                Some(sum.plus(all.over(now - has.since)))
            }
            Capacity::Shrank => None,
        }
    }
}
