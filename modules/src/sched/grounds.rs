//! Jobs that are ground for an instance: where they may be placed, and when.
//!
//! An instance has one part on a node. So what it is to grow by lies on nodes where it has nothing
//! yet, and is looked for only while it runs.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::Delta;
use eddy_wire::resource_set::ResourceSet;

use super::Sched;
use super::present::JustTaken;
use super::seen::Seen;

/// The jobs that are ground for each instance.
#[derive(Debug, Default)]
pub(super) struct Grounds {
    of: BTreeMap<JobId, BTreeSet<JobId>>,
}

impl Grounds {
    /// Whether there are some for that instance.
    pub(super) fn are_for(&self, instance: JobId) -> bool {
        self.of.contains_key(&instance)
    }

    /// Folds a record of a job.
    pub(super) fn apply(&mut self, job: JobId, kind: &Kind, work: &Work) {
        let Work::Ground { of } = work else { return };
        match kind {
            Kind::Submit(_) => {
                self.of.entry(*of).or_default().insert(job);
            }
            Kind::Clean => {
                if let Some(grounds) = self.of.get_mut(of) {
                    grounds.remove(&job);
                }
                self.of.retain(|_, grounds| !grounds.is_empty());
            }
            _ => {}
        }
    }
}

impl Seen {
    /// The instance that it is ground for, if it is nothing else.
    pub(super) fn grows(&self) -> Option<JobId> {
        self.submit.spec.request.grows()
    }
}

impl Sched {
    /// Whether the instance is there that a job is to be ground for, if it is.
    pub(super) fn may_grow(&self, seen: &Seen) -> bool {
        let Some(of) = seen.grows() else { return true };
        let instance = self.jobs.get(&of);
        instance.is_some_and(|of| of.state == JobState::Run && of.held.is_some())
    }

    /// The ranks where an instance has something.
    fn ground_of(&self, instance: JobId) -> Idset {
        let grounds = self.grounds.of.get(&instance).into_iter().flatten();
        let all = grounds.chain([&instance]);
        let held = all.filter_map(|job| self.jobs.get(job)?.held.as_ref());
        held.fold(Idset::new(), |ranks, set| ranks.union(&set.ranks()))
    }

    /// Of these ranks, all when `None`, those where the instance has nothing that a job is to be
    /// ground for.
    pub(super) fn apart_from_ground(&self, seen: &Seen, ranks: Option<Idset>) -> Option<Idset> {
        let Some(of) = seen.grows() else { return ranks };
        let aside = self.sets.aside(seen.to.as_ref());
        let all = aside.map_or_else(|| self.ranks.clone(), ResourceSet::ranks);
        let ranks = ranks.unwrap_or(all);
        Some(ranks.difference(&self.ground_of(of)))
    }

    /// Whether that set lies where the instance has nothing that a job is to be ground for.
    pub(super) fn is_apart(&self, seen: &Seen, set: &ResourceSet, taken: &JustTaken) -> bool {
        let Some(of) = seen.grows() else { return true };
        let ranks = set.ranks();
        let just = taken.ground_of(of);
        self.ground_of(of).is_disjoint(&ranks) && just.is_none_or(|just| just.is_disjoint(&ranks))
    }

    /// What an instance holds has changed: those that are to be ground for it are looked at anew.
    pub(super) fn ground_changed(&self, job: JobId, out: &mut Outbox) {
        let Some(seen) = self.jobs.get(&job) else {
            return;
        };
        let instance = seen.grows().unwrap_or(job);
        let grounds = self.grounds.of.get(&instance).into_iter().flatten();
        let waiting = grounds.filter(|ground| {
            let waits = |seen: &Seen| seen.wants() && !self.resting.contains_key(ground);
            **ground != job && self.jobs.get(ground).is_some_and(waits)
        });
        let deltas: Vec<Delta> = waiting.map(|ground| self.want(*ground)).collect();
        if !deltas.is_empty() {
            out.volatile(Volatile::Plan(deltas));
        }
    }
}
