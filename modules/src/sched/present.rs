//! Whether a verdict still holds when it comes: what is free now, and whose shells serve.

use std::collections::BTreeMap;

use eddy_broker::Outbox;
use eddy_wire::event::{Exception, Kind};
use eddy_wire::id::{Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Takes;
use eddy_wire::plan::Reason;
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::time::Time;

use super::seen::Seen;
use super::{Sched, pools};

/// What verdicts take that are recorded together, of which no record tells yet.
#[derive(Clone, Debug, Default)]
pub(super) struct JustTaken {
    set: ResourceSet,
    pub(super) pools: pools::Taken,
    /// By the instance that it is ground for.
    grounds: BTreeMap<JobId, Idset>,
}

impl JustTaken {
    pub(super) fn add(&mut self, set: &ResourceSet, grows: Option<JobId>) {
        self.set.add(set);
        if let Some(of) = grows {
            let ranks = self.grounds.entry(of).or_default();
            *ranks = ranks.union(&set.ranks());
        }
    }

    /// Where ground was just given to that instance.
    pub(super) fn ground_of(&self, instance: JobId) -> Option<&Idset> {
        self.grounds.get(&instance)
    }
}

impl Sched {
    /// Whether nobody holds any of the set, nor has just `taken` it. Somebody may: a verdict that was
    /// on its way while its job was given another urgency is of a want that
    /// the planner has let go of since.
    pub(super) fn is_free(&self, set: &ResourceSet, taken: &JustTaken) -> bool {
        let taken = &taken.set;
        let total = |rank: &Rank| {
            let nodes = self.inventory.as_ref().map(|inventory| &inventory.nodes);
            nodes
                .and_then(|nodes| nodes.get(rank))
                .map_or(0, |node| node.memory)
        };
        let has_memory = |(rank, node): (&Rank, &NodeSet)| {
            let memory = |of: &ResourceSet| of.nodes.get(rank).map_or(0, |node| node.memory);
            let used = memory(&self.used).saturating_add(memory(taken));
            // Of memory that nobody knows nothing is given.
            node.memory == 0 || used.saturating_add(node.memory) <= total(rank)
        };
        set.is_disjoint(&self.used) && set.is_disjoint(taken) && set.nodes.iter().all(has_memory)
    }

    /// Whether the nodes of a set are what that job asks of nodes, and its queue requires.
    pub(super) fn is_like(&self, seen: &Seen, set: &ResourceSet) -> bool {
        let (ranks, all) = (set.ranks(), self.inventory.as_ref());
        let constraint = seen.submit.spec.request.constraint.as_ref();
        let is_like = constraint.is_none_or(|constraint| {
            all.is_some_and(|all| self.alike.ranks(constraint, all).contains_all(&ranks))
        });
        // Who goes on is where it began, whatever its queue requires since.
        let required = self.sets.requires.ranks(seen.queue());
        let required = required.filter(|_| !seen.resumes());
        is_like
            && self.is_sized(seen, set)
            && required.is_none_or(|required| required.contains_all(&ranks))
    }

    /// Whether there are no more nodes than limits of size were told of, where any counts.
    fn is_sized(&self, seen: &Seen, set: &ResourceSet) -> bool {
        let submit = &seen.submit;
        let request = &submit.spec.request;
        let is_wider = request.choice.is_some() && request.nodes != Some(set.nodes.len() as u32);
        let limited = || {
            self.limits
                .is_of_size(submit.user, &submit.party, &submit.spec)
        };
        !is_wider || seen.resumes() || !limited()
    }

    /// The shell of each rank of the set, if all are in service; drained ranks
    /// serve what takes nothing of them.
    pub(super) fn shells_of(
        &self,
        set: &ResourceSet,
        takes: Takes,
    ) -> Option<BTreeMap<Rank, Epoch>> {
        let closed = self.closed();
        set.nodes
            .keys()
            .map(|rank| {
                let serves = match takes {
                    Takes::Resources => !closed.contains(rank.0),
                    Takes::Nothing => true,
                };
                let up = self.online.contains(rank.0) && serves;
                self.shells
                    .get(rank)
                    .filter(|_| up)
                    .map(|epoch| (*rank, *epoch))
            })
            .collect()
    }

    pub(super) fn never(&mut self, now: Time, id: JobId, reason: &Reason, out: &mut Outbox) {
        if self.unordered.fits_above(id) {
            return;
        }
        let waits = |seen: &Seen| seen.is_queued() && seen.wants();
        if self.jobs.get(&id).is_some_and(waits) && self.waits_oversize(id, reason, out) {
            return;
        }
        let lacks_room = matches!(
            reason,
            Reason::NeverOnOneNode { .. }
                | Reason::NeverInAll { .. }
                | Reason::NoSuchRanks { .. }
                | Reason::NoSuchNodes { .. }
        );
        if lacks_room && self.waits_to_grow(id, out) {
            return;
        }
        // Where a suspended job cannot go on now it stays.
        let fails = self.jobs.get(&id).is_some_and(waits);
        if fails && !(lacks_room && self.waits_for_queue(id, reason, out)) {
            let exception = Exception {
                kind: "alloc".to_owned(),
                severity: 0,
                note: reason.to_string(),
                userid: None,
                until: None,
            };
            out.append(now, id, Kind::Exception(Box::new(exception)));
        }
    }
}
