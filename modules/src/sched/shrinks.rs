//! Instances that give nodes and go on: which can, which of their nodes, and what is recorded when another
//! is to have those.
//!
//! The planner names the nodes; here is looked whether that is still true. How the instance vacates them
//! is its own matter until the time is over (`nest/leaving.rs`, `exec/leaving.rs`).

use eddy_broker::{Outbox, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::Delta;
use eddy_wire::preempt::{Cause, Shrink};
use eddy_wire::services::resource::{VacateRequest, Vacated};
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
        let wanted = self.rules.shrinks(self.qos_of(seen)) && !self.obeyed.takes_turns();
        self.bound(seen).filter(|_| wanted)
    }

    /// The nodes that an instance cannot be without, whatever its QoS says of what others may take: that is not
    /// asked where nodes are to serve nobody.
    fn bound(&self, seen: &Seen) -> Option<Idset> {
        let request = &seen.submit.spec.request;
        let is_users = request.work == Work::Instance { name: None };
        let runs = seen.state == JobState::Run && seen.suspension.has_begun();
        let can = is_users && request.takes == Takes::Resources && runs;
        if !can || seen.is_in_gang() || seen.is_ending() {
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
        (by, cause): (Option<JobId>, Cause),
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

    /// `resource.vacate`: instances give drained nodes that they can be without. What else is there is another's
    /// to end.
    ///
    /// # Errors
    /// Some of the ranks are in service, or the instance has them of another.
    pub(super) fn vacate(
        &self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let VacateRequest { ranks } = request.parse()?;
        self.asked.is_whole()?;
        let open = ranks.difference(&self.drained);
        if !open.is_empty() {
            let text = format!("ranks: {open} are not drained; allowed are those that are");
            return Err(Refusal::new(Code::Conflict, text));
        }
        let mut vacated = Vec::new();
        for (id, seen) in self.jobs.iter() {
            let has = seen.held.as_ref().map(|set| set.ranks());
            let gives = has.unwrap_or_default().intersect(&ranks);
            let can = self.bound(seen).is_some_and(|but| but.is_disjoint(&gives));
            if gives.is_empty() || !can {
                continue;
            }
            let new = gives.difference(&seen.shrinking.ranks());
            if !new.is_empty() {
                let why = format!("user {} takes ranks {new} out", request.uid);
                let shrink = self.shrink(now, seen, &new, (None, Cause::Drain), &why);
                out.append(now, *id, Kind::Shrink(Box::new(shrink)));
            }
            vacated.push(Vacated {
                job: *id,
                ranks: gives,
            });
        }
        out.reply(request.caller, &vacated);
        Ok(())
    }
}
