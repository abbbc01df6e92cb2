//! Jobs that are ground for an instance: where they may be placed, and when.
//!
//! An instance has one part on a node. So what it is to grow by lies on nodes where it has nothing
//! yet, and is looked for only while it runs.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::Kind;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::Delta;
use eddy_wire::resource_set::ResourceSet;

use super::Sched;
use super::present::JustTaken;
use super::seen::Seen;
use crate::settings::Settings;

/// The jobs that are ground for each instance.
#[derive(Debug, Default)]
pub(super) struct Grounds {
    of: BTreeMap<JobId, Ground>,
    /// Ranks that no agent serves, since the leader does: nothing grows there.
    unserved: Idset,
}

/// What is to be ground for one instance; ingest bounds how many there are.
#[derive(Debug, Default)]
struct Ground {
    jobs: BTreeSet<JobId>,
    /// Where the instance has something, by whatever job.
    ranks: Idset,
}

impl Grounds {
    pub(super) fn new(settings: &Settings) -> Grounds {
        Grounds {
            of: BTreeMap::new(),
            unserved: unserved(&settings.local),
        }
    }

    /// Whether there are some for that instance.
    pub(super) fn are_for(&self, instance: JobId) -> bool {
        self.of.contains_key(&instance)
    }

    /// The ranks that the leader of an instance serves itself, if it is on that one.
    pub(super) fn served_with(&self, leader: Rank) -> Idset {
        match self.unserved.contains(leader.0) {
            true => self.unserved.clone(),
            false => Idset::one(leader.0),
        }
    }

    fn ranks(&self, instance: JobId) -> Option<&Idset> {
        self.of.get(&instance).map(|ground| &ground.ranks)
    }
}

/// Ranks that have no agent to host ranks of instances: those that share the leader's node, where it
/// is more than one.
pub(crate) fn unserved(local: &Idset) -> Idset {
    match local.len() {
        0 | 1 => Idset::new(),
        _ => local.clone(),
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

    /// Folds a record of a job that is ground, or of the instance that it is for.
    pub(super) fn fold_ground(&mut self, job: JobId, kind: &Kind) {
        let of = match kind {
            Kind::Submit(submit) => {
                let Some(of) = submit.spec.request.grows() else {
                    return;
                };
                self.grounds.of.entry(of).or_default().jobs.insert(job);
                of
            }
            Kind::Alloc(_) | Kind::GrantChanged(_) | Kind::Free => {
                let Some(seen) = self.jobs.get(&job) else {
                    return;
                };
                seen.grows().unwrap_or(job)
            }
            _ => return,
        };
        let Some(ground) = self.grounds.of.get(&of) else {
            return;
        };
        let all = ground.jobs.iter().chain([&of]);
        let held = all.filter_map(|job| self.jobs.get(job)?.held.as_ref());
        let ranks = held.fold(Idset::new(), |ranks, set| ranks.union(&set.ranks()));
        self.grounds.of.entry(of).or_default().ranks = ranks;
    }

    /// A job that was ground is over.
    pub(super) fn forget_ground(&mut self, job: JobId, seen: &Seen) {
        let Some(of) = seen.grows() else { return };
        if let Some(ground) = self.grounds.of.get_mut(&of) {
            ground.jobs.remove(&job);
            if ground.jobs.is_empty() {
                self.grounds.of.remove(&of);
            }
        }
    }

    /// Of these ranks, all when `None`, those where the instance has nothing that a job is to be
    /// ground for.
    pub(super) fn apart_from_ground(&self, seen: &Seen, ranks: Option<Idset>) -> Option<Idset> {
        let Some(of) = seen.grows() else { return ranks };
        let aside = self.sets.aside(seen.to.as_ref());
        let all = aside.map_or_else(|| self.ranks.clone(), ResourceSet::ranks);
        let ranks = ranks.unwrap_or(all).difference(&self.grounds.unserved);
        Some(match self.grounds.ranks(of) {
            Some(ground) => ranks.difference(ground),
            None => ranks,
        })
    }

    /// Whether that set lies where the instance has nothing that a job is to be ground for.
    pub(super) fn is_apart(&self, seen: &Seen, set: &ResourceSet, taken: &JustTaken) -> bool {
        let Some(of) = seen.grows() else { return true };
        let ranks = set.ranks();
        let mut ground = self
            .grounds
            .ranks(of)
            .into_iter()
            .chain(taken.ground_of(of));
        ground.all(|ground| ground.is_disjoint(&ranks))
    }

    /// What an instance holds has changed: those that are to be ground for it are looked at anew.
    pub(super) fn ground_changed(&mut self, kind: &Kind, job: Option<JobId>, out: &mut Outbox) {
        self.seats_changed(kind, job, out);
        let is_change = matches!(
            kind,
            Kind::Alloc(_) | Kind::GrantChanged(_) | Kind::Start | Kind::Free
        );
        let Some(job) = job.filter(|_| is_change) else {
            return;
        };
        let Some(seen) = self.jobs.get(&job) else {
            return;
        };
        let instance = seen.grows().unwrap_or(job);
        let grounds = self.grounds.of.get(&instance);
        let grounds = grounds.into_iter().flat_map(|ground| &ground.jobs);
        let waiting = grounds.filter(|ground| {
            let waits = |seen: &Seen| seen.wants() && !self.resting.contains_key(ground);
            **ground != job && self.jobs.get(ground).is_some_and(waits)
        });
        let waiting: Vec<JobId> = waiting.copied().collect();
        self.unsaid(waiting.iter(), out);
        let deltas: Vec<Delta> = waiting.iter().map(|ground| self.want(*ground)).collect();
        if !deltas.is_empty() {
            out.volatile(Volatile::Plan(deltas));
        }
    }
}
