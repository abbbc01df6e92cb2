//! Instances that give nodes and go on: which can, which of their nodes, and what is recorded when another
//! is to have those.
//!
//! The planner names the nodes; here is looked whether that is still true. How the instance vacates them
//! is its own matter until the time is over (`nest/leaving.rs`, `exec/leaving.rs`).

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::Delta;
use eddy_wire::preempt::{Cause, Shrink};
use eddy_wire::time::Time;

use super::Sched;
use super::seen::Seen;

/// What it is giving, as a planner is told, if it is.
pub(super) fn shrinking(id: JobId, seen: &Seen) -> Option<Delta> {
    let open = seen.shrinking.open();
    (!open.is_empty()).then(|| Delta::Shrinks(id, open.to_vec()))
}

impl Sched {
    /// The nodes that a job cannot be without, of one that gives others: a user's instance whose QoS says so,
    /// once it runs, which has nodes that are not its leader's. Not one of a gang, which is to be as it was
    /// asked for; nor where accounts take turns, since what they take is all of a job.
    pub(super) fn keeps(&self, seen: &Seen) -> Option<Idset> {
        let request = &seen.submit.spec.request;
        let is_users = request.work == Work::Instance { name: None };
        let runs = seen.state == JobState::Run && seen.suspension.has_begun();
        let can = is_users && request.takes == Takes::Resources && runs;
        let wanted = can && self.rules.shrinks(self.qos_of(seen)) && !self.obeyed.takes_turns();
        let is_bound = seen.is_in_gang();
        if !wanted || is_bound || seen.is_ending() {
            return None;
        }
        let ranks = seen.held.as_ref()?.ranks();
        let leader = self.sets.first(seen.to.as_ref(), &ranks)?;
        let but = self.grounds.served_with(leader).intersect(&ranks);
        (but != ranks).then_some(but)
    }

    /// Whether it has begun, and may be asked for nodes from now on.
    pub(super) fn gives_nodes(&self, id: JobId) -> bool {
        let seen = self.jobs.get(&id);
        seen.is_some_and(|seen| self.keeps(seen).is_some())
    }

    /// Whether it can give those.
    pub(super) fn may_shrink(&self, id: JobId, ranks: &Idset) -> bool {
        let Some(seen) = self.jobs.get(&id) else {
            return false;
        };
        let has = seen.held.as_ref().map(|set| set.ranks());
        let goes = seen.shrinking.ranks();
        let has = has.is_some_and(|has| has.difference(&goes).contains_all(ranks));
        has && self.keeps(seen).is_some_and(|but| but.is_disjoint(ranks))
    }

    pub(super) fn shrink(
        &self,
        now: Time,
        seen: &Seen,
        ranks: &Idset,
        (by, cause): (JobId, Cause),
        why: &str,
    ) -> Shrink {
        let grace = self.rules.end(self.qos_of(seen)).grace;
        Shrink {
            ranks: ranks.clone(),
            by,
            until: now.after(grace),
            cause,
            grace: grace.0,
            why: why.to_owned(),
        }
    }
}
