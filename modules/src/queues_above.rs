//! The queues of a parent that lead to this instance, and the nodes that it has closed, as it told of them last.
//!
//! Kept by ingest (what is taken while the parent is away), by sched (what begins then, and in a user's instance
//! always), by nest (what it tells its own) and by resource (what is in service). It is recorded, so that a leader
//! that is started again without its parent goes by it, too. Knows no limits that are counted: those are the parent's.

use std::collections::BTreeSet;

use eddy_wire::access::Access;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::Seq;
use eddy_wire::idset::Idset;
use eddy_wire::plan::Going;
use eddy_wire::services::child::{Closed, Counted, Granted, QueueAbove};
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const KEY: &str = "queues-above";

/// What the parent told last.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueuesAbove {
    told: Told,
    seq: Option<Seq>,
}

/// As it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Told {
    queues: Vec<QueueAbove>,
    holds: Holds,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    closed: Vec<Closed>,
    /// Who else may connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    access: Option<Access>,
}

/// Whether a memo tells what the parent said.
pub fn is_one(memo: &Map<String, Value>) -> bool {
    memo.contains_key(KEY)
}

/// Who may connect to this instance from then on, if a memo tells what its parent said.
pub fn admitted(memo: &Map<String, Value>) -> Option<Access> {
    let told: Told = serde_json::from_value(memo.get(KEY)?.clone()).ok()?;
    told.access
}

/// Whether this instance has nodes of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Holds {
    /// It is elastic: what its jobs have the parent gave to each.
    #[default]
    Nothing,
    /// Those of its grant.
    Nodes,
}

impl QueuesAbove {
    pub fn apply(&mut self, record: &Record) {
        if let (Kind::Memo(memo), None) = (&record.event.kind, record.event.job)
            && let Some(told) = memo.get(KEY)
            && let Ok(told) = serde_json::from_value(told.clone())
        {
            (self.told, self.seq) = (told, Some(record.seq));
        }
    }

    pub fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.seq);
    }

    /// What is to be recorded of what the parent says now, if that is news.
    pub fn note(&self, granted: &Granted) -> Option<Kind> {
        let of_queues = || Told {
            queues: granted.queues.clone(),
            holds: match granted.room {
                Some(_) => Holds::Nothing,
                None => Holds::Nodes,
            },
            closed: granted.closed.clone(),
            access: granted.admits().cloned(),
        };
        // A user's own instance has no queues above it: it is told of nodes that are out of service.
        let told = match granted.name {
            Some(_) => of_queues(),
            None => Told {
                closed: granted.closed.clone(),
                ..Told::default()
            },
        };
        if told == self.told {
            return None;
        }
        let told = serde_json::to_value(&told).expect("wire types are JSON");
        let memo: Map<String, Value> = [(KEY.to_owned(), told)].into_iter().collect();
        Some(Kind::Memo(memo))
    }

    /// The queue of a job that names none.
    pub fn unnamed(&self) -> Option<&str> {
        self.told.queues.first().map(|queue| queue.name.as_str())
    }

    /// That of this job.
    pub fn of(&self, spec: &Spec) -> Option<&QueueAbove> {
        let name = spec.jobspec.attributes.system.queue.as_deref();
        let name = name.or_else(|| self.unnamed())?;
        self.told.queues.iter().find(|queue| queue.name == name)
    }

    pub fn names(&self) -> BTreeSet<&str> {
        self.told.queues.iter().map(|queue| &*queue.name).collect()
    }

    /// The nodes on which nothing is to begin that may run between these times, however long after where
    /// there is no end.
    pub fn closed(&self, from: Time, until: Option<Time>) -> Idset {
        let closed = self.told.closed.iter().filter(|one| {
            let is_later = one
                .from
                .zip(until)
                .is_some_and(|(begins, until)| until <= begins);
            let is_over = one.until.is_some_and(|over| over <= from);
            !is_later && !is_over
        });
        closed.fold(Idset::new(), |all, one| all.union(&one.ranks))
    }

    /// The nodes that are drained there.
    pub fn drained(&self) -> Idset {
        let drained = self.told.closed.iter().filter(|one| one.from.is_none());
        drained.fold(Idset::new(), |all, one| all.union(&one.ranks))
    }

    /// The nodes that a user's instance has until a time.
    pub fn going(&self) -> impl Iterator<Item = Going> + '_ {
        let going = |one: &Closed| match (one.from, one.until) {
            (Some(at), None) => {
                let ranks = one.ranks.clone();
                Some(Going { ranks, at })
            }
            (None, _) | (Some(_), Some(_)) => None,
        };
        self.told.closed.iter().filter_map(going)
    }

    /// Whether jobs of this queue may begin without the parent: this instance has nodes, the queue starts
    /// jobs, and nothing is counted that only the parent sees.
    pub fn may_begin(&self, spec: &Spec) -> bool {
        let Some(queue) = self.of(spec) else {
            return false;
        };
        let rules = &queue.rules;
        let is_above =
            rules.accounts.is_some() || rules.qos.is_some() || !rules.requires.is_empty();
        self.told.holds == Holds::Nodes
            && queue.counted == Counted::Nowhere
            && queue.gate.stopped.is_none()
            && !is_above
    }
}
