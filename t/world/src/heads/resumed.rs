//! Whether whoever is first in a line is promised no later a start by a leader than by the one before it, where all
//! that is known to its planner is as it was.
//!
//! A plan is no record: it is made anew of what is recorded. Where that is the same the first of a line has the
//! earliest start that there is, as before. Those behind him may be promised another: what is kept of an earlier plan
//! is kept against those who came later and are before them by now.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Request;
use eddy_wire::plan::Want;
use eddy_wire::preempt::Preempts;
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::time::{MICROS, Time};

use super::apart::Queue;
use super::{Pass, Watched};

/// What the planner of a leader knew when that was gone, and what it had promised to those who were first.
#[derive(Clone, Debug)]
pub struct Before {
    policy: Arc<str>,
    preempts: Arc<Preempts>,
    up: Idset,
    lines: Vec<Line>,
    told: BTreeMap<JobId, Time>,
}

/// What is known of those who wait in one line, and of what is held there.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    wants: BTreeMap<JobId, (u8, Time, Request)>,
    held: BTreeMap<JobId, (BTreeMap<Rank, NodeSet>, i64)>,
    nodes: BTreeMap<Rank, NodeSet>,
}

impl Line {
    fn of(queue: Queue<'_>) -> Line {
        let held = queue.held.iter();
        let held = held.map(|(job, (_, set))| (*job, (set.nodes.clone(), set.expiration)));
        let waits = |(job, _): &(&JobId, &Want)| !queue.held.contains_key(job);
        let wants = queue.wants.iter().filter(waits);
        let wants = wants.map(|(job, want)| {
            let asks = (want.urgency, want.submitted, want.request.clone());
            (*job, asks)
        });
        Line {
            wants: wants.collect(),
            held: held.collect(),
            nodes: queue.nodes.nodes.clone(),
        }
    }
}

/// The rule broken: what runs is given more time, of which nobody hears.
pub(super) fn longer(set: &Arc<ResourceSet>) -> Arc<ResourceSet> {
    let mut set = Arc::clone(set);
    if set.expiration > 0 {
        Arc::make_mut(&mut set).expiration += 60 * MICROS;
    }
    set
}

impl Watched {
    /// What is left of it to whoever comes after its leader.
    pub fn left(&self) -> Option<Before> {
        let (policy, _) = self.policy.as_ref()?;
        let firsts = self.queues().filter_map(|queue| {
            let waits = |(job, _): &(&JobId, &Want)| !queue.held.contains_key(job);
            let waiting = queue.wants.iter().filter(waits);
            let turn = |(job, want): &(&JobId, &Want)| self.turn(queue.wants, **job, want);
            waiting.min_by_key(turn).map(|(job, _)| *job)
        });
        let told = firsts.filter_map(|job| Some((job, *self.kept.told.get(&job)?)));
        let told: BTreeMap<_, _> = told.collect();
        (!told.is_empty()).then(|| Before {
            policy: Arc::clone(policy),
            preempts: Arc::clone(&self.preempts),
            up: self.up.clone(),
            lines: self.queues().map(Line::of).collect(),
            told,
        })
    }

    /// With the pass that begins: what was promised before counts again once all is as it was.
    pub(super) fn resume(&mut self, now: Time) {
        let is_found = self.pass == Pass::Over
            && self
                .before
                .as_ref()
                .is_some_and(|before| self.is_as(before));
        if let Some(before) = self.before.take_if(|_| is_found) {
            let told = before.told.into_iter();
            self.kept.told.extend(told.filter(|(_, at)| *at > now));
        }
    }

    fn is_as(&self, before: &Before) -> bool {
        let policy = self.policy.as_ref().map(|(text, _)| text);
        policy == Some(&before.policy)
            && self.preempts == before.preempts
            && before.up.difference(&self.up).is_empty()
            && self.queues().map(Line::of).eq(before.lines.iter().cloned())
    }
}
