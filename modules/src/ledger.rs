//! The ledger: who used how much, and where the capacity went.
//!
//! A fold of the records of jobs, nodes and shells. A job is charged from its grant to its release,
//! node by node, for what it holds, in whole numbers. What is charged to whom outlives the jobs:
//! before a mark is made the ledger records all of it, days that are over once (`usage-day`) and the rest
//! each time (`usage`), so that a restart needs no records of jobs that are over. With it goes how many jobs ended
//! how, which is told when they are forgotten, too. It weighs nothing
//! and forgets nothing: that is the policy's, when it reads.

mod books;
mod nodes;

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::{Endpoint, Input, Module, Notice, Outbox, Reacts, Request};
use eddy_wire::access::Access;
use eddy_wire::account::Party;
use eddy_wire::ending::{Ending, Ends};
use eddy_wire::error::Refusal;
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::held::{Fate, Held, Move};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::jobspec::Work;
use eddy_wire::plan::{Owner, Used};
use eddy_wire::services::Service;
use eddy_wire::services::usage::{Ended, Identity, Report, ReportRequest, UsageReport, UsageRow};
use eddy_wire::time::{MICROS, Time};
use eddy_wire::update;
use eddy_wire::usage::{Amounts, Day, Payer, Stretch, Tally};
use serde_json::{Map, Value};

use crate::jobs::Jobs;
use crate::live;
use crate::settings::Settings;
use books::Books;
use nodes::{For, Nodes};

/// The ledger of an instance.
#[derive(Default)]
pub struct Ledger {
    /// Who is shown what of whom.
    access: Access,
    books: Books,
    nodes: Nodes,
    jobs: Jobs<Open>,
    /// What was held and not charged.
    uncharged: Amounts,
    past: Past,
    /// The summary that stands, if there is one.
    tally: Option<Seq>,
}

impl Ledger {
    /// Nothing is charged yet.
    pub fn new(settings: &Settings) -> Ledger {
        Ledger {
            access: settings.access.clone(),
            ..Ledger::default()
        }
    }
}

/// How jobs ended that are over.
#[derive(Debug, PartialEq, Eq)]
enum Past {
    /// All there ever were.
    Whole(Ends),
    /// An earlier version summed up without counting them.
    Unknown,
}

impl Default for Past {
    fn default() -> Past {
        Past::Whole(Ends::default())
    }
}

impl Past {
    fn whole(&self) -> Option<Ends> {
        match self {
            Past::Whole(ends) => Some(*ends),
            Past::Unknown => None,
        }
    }
}

/// A job that is not over.
struct Open {
    ending: Ending,
    payer: Payer,
    purpose: For,
    held: Held,
    /// The declared instance that this attempt was passed to.
    to: Option<String>,
}

impl Module for Ledger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[Endpoint::of::<Report>(), Endpoint::of::<Ended>()];
        ENDPOINTS
    }

    fn apply(&mut self, record: &Record) {
        let t = record.event.t;
        match (&record.event.kind, record.event.job) {
            (Kind::Usage(tally), None) => {
                self.restore(t, tally);
                self.tally = Some(record.seq);
            }
            (Kind::UsageDay(day), None) => self.books.said(record.seq, day),
            (Kind::Submit(submit), Some(job)) => {
                self.jobs.insert(job, Open::new(submit));
            }
            (Kind::Clean, Some(job)) => {
                if let Some(job) = self.jobs.remove(&job)
                    && let Past::Whole(ends) = &mut self.past
                {
                    ends.count(job.ending.result());
                }
            }
            (kind, Some(job)) => self.apply_job(t, job, kind),
            (Kind::Memo(memo), None) => {
                if let Some(access) = live::admitted(memo) {
                    self.access = access;
                }
            }
            (kind, None) => self.nodes.apply(t, kind),
        }
    }

    fn reacts(&self) -> Reacts {
        Reacts::ToNeither
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) if request.topic == Ended::TOPIC => {
                out.answer(request.caller, &self.ended(request));
            }
            Input::Request(request) => match self.report(now, request) {
                Ok(report) => out.answer(request.caller, &report),
                Err(refusal) => out.refuse(request.caller, &refusal),
            },
            // What is charged by now is kept with the mark.
            Input::Marking => {
                if self.nodes.since().is_some() {
                    let (days, tally) = self.summary(now);
                    for day in days {
                        out.append_own(now, Kind::UsageDay(Arc::new(day)));
                    }
                    out.append_own(now, Kind::Usage(Box::new(tally)));
                }
            }
            Input::Resume(_) => {
                let used = self.used();
                if !used.is_empty() {
                    out.notice(Notice::Used(used.into()));
                }
            }
            Input::Notice(Notice::Reckon) => out.notice(Notice::Past(self.used().into())),
            _ => {}
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.tally);
        seqs.extend(self.books.live());
    }
}

impl Open {
    fn new(submit: &Submit) -> Open {
        let system = &submit.spec.jobspec.attributes.system;
        Open {
            ending: Ending::new(submit),
            payer: Payer {
                account: submit.party.account.clone(),
                user: submit.user,
                qos: submit.party.qos.clone(),
                queue: system.queue.clone(),
            },
            purpose: match &submit.spec.request.work {
                Work::Tasks => For::Job,
                Work::Instance { name: None } | Work::Ground { .. } => For::Instance,
                Work::Instance { name: Some(name) } => For::Declared(name.clone()),
            },
            held: Held::default(),
            to: None,
        }
    }

    /// Whom it is charged to changes.
    fn recharged(&mut self, map: &Map<String, Value>) {
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

    fn is_charged(&self) -> bool {
        !matches!(self.purpose, For::Declared(_))
    }
}

impl Ledger {
    fn apply_job(&mut self, t: Time, id: JobId, kind: &Kind) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.ending.apply(kind);
        if let Some(to) = kind.passed_to() {
            job.to = Some(to.instance.clone());
        }
        match kind {
            Kind::Requeue(_) => job.to = None,
            Kind::JobspecUpdate(map) => job.recharged(map),
            _ => {}
        }
        let (nodes, to) = (&mut self.nodes, job.to.as_deref());
        job.held.apply(t, kind, |change| match change {
            Move::Took(rank, held) => {
                if let Some(to) = to {
                    nodes.took((t, rank), &job.purpose, to, held);
                    nodes.take_of(t, rank, to, held);
                }
                nodes.take(t, rank, &job.purpose, held);
            }
            Move::Gave(rank, held, at) => {
                nodes.gave((at, rank), &job.purpose, to, held);
                if let Some(to) = to {
                    nodes.give_back_to(t, rank, to, held);
                }
                nodes.give_back(t, rank, &job.purpose, held);
            }
        });
        if kind.frees() {
            self.freed(id);
        }
    }

    /// An attempt has given everything back: it is charged.
    fn freed(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let (fate, stays) = job.held.settle();
        if !job.is_charged() {
            return;
        }
        for stay in stays {
            match fate {
                Fate::Failed => self.uncharged = self.uncharged.plus(stay.used()),
                Fate::Charged | Fate::Ending => {
                    self.books.charge(&job.payer, stay.from, stay.to, stay.held);
                }
            }
        }
    }

    /// All that is charged by now, and the days that are closed with it.
    fn summary(&self, now: Time) -> (Vec<Day>, Tally) {
        let (spent, capacity) = self.nodes.spent(now);
        let (days, accounts) = self.books.summary(now);
        let tally = Tally {
            since: self.nodes.since().unwrap_or(now),
            accounts,
            uncharged: self.uncharged,
            spent,
            capacity: capacity.less(self.nodes.owed()),
            owed: self.nodes.owed(),
            ends: self.past.whole(),
        };
        (days, tally)
    }

    fn restore(&mut self, t: Time, tally: &Tally) {
        self.books.restore(t, &tally.accounts);
        self.uncharged = tally.uncharged;
        self.past = tally.ends.map_or(Past::Unknown, Past::Whole);
        self.nodes.restore(t, tally);
    }

    /// What was charged until now, for a planner that was not there.
    fn used(&self) -> Vec<Used> {
        let used = |(payer, stretch): (&Payer, Stretch)| {
            let seconds = |amount: u128| amount as f64 / MICROS as f64;
            Used {
                owner: Owner {
                    user: payer.user,
                    account: payer.account.clone(),
                    qos: payer.qos.clone(),
                    class: None,
                    queue: payer.queue.as_deref().map(Into::into),
                    line: None,
                },
                from: Time(stretch.from),
                to: Time(stretch.from.saturating_add(stretch.width)),
                nodes: seconds(stretch.used.nodes),
                cores: seconds(stretch.used.cores),
                gpus: seconds(stretch.used.gpus),
                memory: seconds(stretch.used.memory) / 1024.0,
            }
        };
        self.books.stretches().map(used).collect()
    }

    /// How jobs ended, for who may know of all.
    fn ended(&self, request: &Request) -> Option<Ends> {
        match self.access.only(request.uid, request.roles) {
            Some(_) => None,
            None => self.past.whole(),
        }
    }

    fn report(&self, now: Time, request: &Request) -> Result<UsageReport, Refusal> {
        let body: ReportRequest = request.parse()?;
        let only = self.access.only(request.uid, request.roles);
        let is_asked = |payer: &Payer| {
            let account = payer.account.as_ref().map(|name| name.as_str());
            body.account
                .as_deref()
                .is_none_or(|asked| account == Some(asked))
                && body.user.is_none_or(|asked| payer.user == asked)
                && only.is_none_or(|user| payer.user == user)
        };
        let asked = self.books.payers().filter(|(payer, _)| is_asked(payer));
        let mut rows: BTreeMap<&Payer, (Amounts, Amounts)> = asked
            .map(|(payer, own)| (payer, (own.since(body.since), Amounts::default())))
            .collect();
        let open = self.jobs.values().filter(|job| job.is_charged());
        let mut running = Amounts::default();
        for job in open {
            let so_far = job.held.so_far(now);
            running = running.plus(so_far);
            if is_asked(&job.payer) && so_far != Amounts::default() {
                let row = rows.entry(&job.payer).or_default();
                row.1 = row.1.plus(so_far);
            }
        }
        let rows = rows
            .into_iter()
            .map(|(payer, (charged, running))| UsageRow {
                payer: payer.clone(),
                charged,
                running,
            });
        let (spent, capacity) = self.nodes.spent(now);
        Ok(UsageReport {
            from: self.nodes.since(),
            to: now,
            rows: rows.collect(),
            identity: Identity {
                capacity,
                spent,
                charged: self.books.total().plus(running),
                uncharged: self.uncharged,
            },
        })
    }
}

#[cfg(test)]
mod tests;
