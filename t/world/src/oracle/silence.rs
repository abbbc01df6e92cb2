//! Whether an instance that has not heard its parent for its lease begins nothing, and before that what
//! the parent has not ordered in its time and its turn only.
//!
//! Told by the driver when the channel is lost and when the parent is heard.

use std::collections::BTreeSet;

use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::job::Job;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::child::{Closed, Counted, QueueAbove};
use eddy_wire::time::{MICROS, Span, Time};
use serde_json::Value;

use super::Ledger;

/// Since when the parent of an instance is silent, and what begins all the same.
#[derive(Debug, Default)]
pub struct Silent {
    since: Option<(Time, Terms)>,
    /// Where nothing is to begin but what the parent says, as it was recorded last that it said so.
    closed: Vec<Closed>,
    /// The queues whose jobs may begin though it says nothing, as was recorded then.
    queues: BTreeSet<String>,
}

/// How long jobs begin though the parent is silent, and from when on those that it has not ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Nothing begins when it was silent for so long.
    pub lease: Span,
    /// What was taken without it begins when it was silent for so long, if ever.
    pub alone: Option<Span>,
}

impl Silent {
    /// The channel is lost, by the clock of the instance.
    pub fn begins(&mut self, now: Time, terms: Terms) {
        self.since.get_or_insert((now, terms));
    }

    /// The parent is heard, or another leader begins.
    pub fn ends(&mut self) {
        self.since = None;
    }

    /// The same of a leader that is gone; what it was told is in records.
    pub fn forget(&mut self) {
        *self = Silent::default();
    }

    /// One more record, of which nothing is to be found.
    pub fn told(&mut self, record: &Record) {
        if let (Kind::Memo(memo), None) = (&record.event.kind, record.event.job)
            && let Some(told) = memo.get("queues-above")
        {
            let closed = told.get("closed").cloned();
            let closed = closed.unwrap_or_else(|| Value::Array(Vec::new()));
            self.closed = serde_json::from_value(closed).unwrap_or_default();
            let queues = told.get("queues").cloned().map(serde_json::from_value);
            let queues: Vec<QueueAbove> = queues.and_then(Result::ok).unwrap_or_default();
            let begins = |queue: &QueueAbove| {
                let rules = &queue.rules;
                let is_said = rules.accounts.is_some() || rules.qos.is_some();
                let is_counted = queue.counted == Counted::Above || !rules.requires.is_empty();
                !is_said && !is_counted && queue.gate.stopped.is_none()
            };
            let begin = queues.into_iter().filter(begins);
            self.queues = begin.map(|queue| queue.name).collect();
        }
    }

    /// One more record.
    ///
    /// # Errors
    /// A job begins after the lease, or one that the parent has not ordered too early or out of turn. What
    /// a parent passed down it has said to begin.
    pub fn apply(&mut self, ledger: &Ledger, record: &Record) -> Result<(), String> {
        self.told(record);
        match (&record.event.kind, record.event.job) {
            (Kind::Alloc(grant), Some(id)) if ledger.is_unordered(id) => {
                self.began_alone(record.event.t, id)?;
                self.may_begin(ledger, id, &grant.set.ranks())?;
                self.in_turn(ledger, id)?;
                self.began(record.event.t, id)
            }
            (Kind::Alloc(_), Some(id)) if !is_passed(ledger, id) => self.began(record.event.t, id),
            _ => Ok(()),
        }
    }

    fn began(&self, t: Time, id: JobId) -> Result<(), String> {
        match self
            .since
            .filter(|(since, terms)| t > since.after(terms.lease))
        {
            Some((since, terms)) => Err(format!(
                "job {id} begins {} s after the parent was heard last, the lease is {} s",
                (t - since).0 / MICROS,
                terms.lease.0 / MICROS,
            )),
            None => Ok(()),
        }
    }

    fn began_alone(&self, t: Time, id: JobId) -> Result<(), String> {
        let Some((since, terms)) = self.since else {
            return Err(format!(
                "job {id} begins without the parent, which is heard"
            ));
        };
        match terms.alone.filter(|alone| t >= since.after(*alone)) {
            Some(_) => Ok(()),
            None => Err(format!(
                "job {id} begins without the parent, which is silent for {} s alone",
                t - since
            )),
        }
    }

    /// Nothing begins without the parent of which it might have to say something, nor where it has
    /// closed nodes.
    fn may_begin(&self, ledger: &Ledger, id: JobId, ranks: &Idset) -> Result<(), String> {
        let job = &ledger.jobs[&id];
        let queue = job.submit.spec.jobspec.attributes.system.queue.as_ref();
        if asks_above(job) || !queue.is_some_and(|queue| self.queues.contains(queue)) {
            return Err(format!(
                "job {id} begins without the parent, which may have to say something of it"
            ));
        }
        let open = self.open(ledger, job.submit.spec.request.duration);
        match ranks.difference(&open) {
            none if none.is_empty() => Ok(()),
            closed => Err(format!(
                "job {id} begins without the parent on the ranks {closed}, which that has closed"
            )),
        }
    }

    /// Of what begins without the parent the first who came is the first, in each queue: of those who ask
    /// for nothing that the parent might have to say, and fit where it has not closed nodes.
    fn in_turn(&self, ledger: &Ledger, id: JobId) -> Result<(), String> {
        let submit = &ledger.jobs[&id].submit;
        let queue = |submit: &Submit| submit.spec.jobspec.attributes.system.queue.clone();
        let mut before = ledger.jobs.range(..id);
        let passed_over = before.find(|(other, job)| {
            ledger.is_unordered(**other)
                && waits_for_nothing(job)
                && queue(&job.submit) == queue(submit)
                && self.fits(ledger, &job.submit.spec.request)
        });
        match passed_over {
            Some((other, _)) => Err(format!(
                "job {id} begins without the parent before job {other}, which came first"
            )),
            None => Ok(()),
        }
    }

    /// The ranks that are not closed for one that may run for so long.
    fn open(&self, ledger: &Ledger, limit: Option<i64>) -> Idset {
        let all = ledger.inventory.ranks();
        let Some((since, terms)) = self.since else {
            return all;
        };
        let until = limit.map(|limit| since.after(terms.lease).after(Span(limit)));
        let closed = self.closed.iter().filter(|one| {
            let is_later = matches!((one.from, until), (Some(from), Some(until)) if from >= until);
            let is_over = one.until.is_some_and(|over| over <= since);
            !is_later && !is_over
        });
        closed.fold(all, |open, one| open.difference(&one.ranks))
    }

    /// Whether one would fit there if all were free. Of what asks for more than cores that is not judged
    /// where any rank is closed.
    fn fits(&self, ledger: &Ledger, request: &Request) -> bool {
        let open = self.open(ledger, request.duration);
        let is_simple = request.cores_per_slot > 0
            && request.gpus_per_slot == 0
            && request.sockets.is_none()
            && request.memory == MemoryNeed::None
            && request.sharing == Sharing::Shared;
        if !is_simple {
            return open == ledger.inventory.ranks();
        }
        let nodes = ledger.inventory.restrict(&open).nodes;
        let slots = nodes
            .values()
            .map(|node| node.cores.len() / u64::from(request.cores_per_slot));
        match request.nodes {
            None => slots.sum::<u64>() >= u64::from(request.slots),
            Some(count) => {
                let fit = slots.filter(|slots| *slots >= u64::from(request.slots_per_node));
                fit.count() as u64 >= u64::from(count)
            }
        }
    }
}

/// Whether one waits that asks for nothing that a parent might have to say.
fn waits_for_nothing(job: &Job) -> bool {
    let is_plain = job.submit.spec.jobspec.attributes.system.other.is_empty();
    job.state == JobState::Sched && job.urgency > 0 && is_plain && !asks_above(job)
}

/// Whether it asks for something that only a parent has.
fn asks_above(job: &Job) -> bool {
    const ABOVE: [&str; 3] = ["pools", "reservation", "gang"];
    let spec = &job.submit.spec;
    let system = &spec.jobspec.attributes.system;
    let is_above = ABOVE.iter().any(|key| system.other.contains_key(*key));
    let is_plain = !is_above && system.qos.is_none() && system.class.is_none();
    let request = &spec.request;
    let is_simple = request.constraint.is_none()
        && request.ranks.is_none()
        && request.choice.is_none()
        && request.work == Work::Tasks
        && spec.needs.is_empty();
    !is_plain || !is_simple
}

fn is_passed(ledger: &Ledger, id: JobId) -> bool {
    let job = ledger.jobs.get(&id);
    job.is_some_and(|job| job.submit.pass.is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use eddy_wire::id::Rank;
    use eddy_wire::resource_set::{NodeSet, ResourceSet};

    use super::*;

    fn at(seconds: i64) -> Time {
        Time(0).after(Span::seconds(seconds))
    }

    #[test]
    fn what_is_closed_while_one_may_run_is_not_open_to_it() {
        let nodes = (0..4).map(|rank| (Rank(rank), NodeSet::default()));
        let mut ledger = Ledger::default();
        ledger.inventory = Arc::new(ResourceSet {
            nodes: nodes.collect(),
            ..ResourceSet::default()
        });
        let closed = |ranks, from: Option<i64>, until: Option<i64>| Closed {
            ranks: Idset::one(ranks),
            from: from.map(at),
            until: until.map(at),
        };
        let mut silent = Silent {
            since: None,
            closed: vec![
                closed(0, None, None),
                closed(1, Some(170), None),
                closed(2, Some(50), Some(100)),
            ],
            queues: BTreeSet::new(),
        };
        let open = |silent: &Silent, limit| silent.open(&ledger, limit).to_string();
        assert_eq!(open(&silent, None), "0-3");
        let (lease, alone) = (Span::seconds(60), None);
        silent.begins(at(100), Terms { lease, alone });
        assert_eq!(open(&silent, None), "2-3");
        assert_eq!(open(&silent, Some(Span::seconds(11).0)), "2-3");
        assert_eq!(open(&silent, Some(Span::seconds(10).0)), "1-3");
    }

    #[test]
    fn only_what_begins_between_the_lease_and_the_next_word_is_found() {
        let mut silent = Silent::default();
        assert_eq!(silent.began(at(100), JobId(1)), Ok(()));
        let terms = Terms {
            lease: Span::seconds(5),
            alone: Some(Span::seconds(2)),
        };
        let early = silent.began_alone(at(100), JobId(1));
        assert!(early.is_err_and(|why| why.contains("which is heard")));
        silent.begins(at(100), terms);
        let early = silent.began_alone(at(101), JobId(1));
        assert!(early.is_err_and(|why| why.contains("silent for 1.0")));
        assert_eq!(silent.began_alone(at(102), JobId(1)), Ok(()));
        // A channel that is lost once more was not heard in between.
        silent.begins(at(104), terms);
        assert_eq!(silent.began(at(105), JobId(1)), Ok(()));
        let found = silent.began(at(106), JobId(2)).expect_err("it is late");
        assert!(found.contains("job 2 begins 6 s after"), "{found}");
        silent.ends();
        assert_eq!(silent.began(at(107), JobId(3)), Ok(()));
    }
}
