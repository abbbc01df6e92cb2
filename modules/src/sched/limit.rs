//! Time limits that change: how long is held what jobs hold, and what the planner is told of it.
//!
//! A grant says until when it was made for. What is planned by is the limit that the job has by now.

use std::sync::Arc;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::plan::Delta;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;
use eddy_wire::update::{self, Limit};

use super::Sched;
use super::seen::Seen;

/// The time limit that one has, where it was changed in this attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed(Option<Limit>);

impl Changed {
    pub(super) fn apply(&mut self, kind: &Kind) {
        match kind {
            Kind::JobspecUpdate(map) => self.0 = update::limit(map).or(self.0),
            Kind::Requeue(_) => self.0 = None,
            _ => {}
        }
    }
}

/// When all that the instance has ends, if it does.
pub(super) fn last(inventory: Option<&ResourceSet>) -> Option<i64> {
    inventory.map(|all| all.expiration).filter(|end| *end > 0)
}

impl Seen {
    /// What it holds it holds for as long as its limit says by now, but not beyond `last`, when all that
    /// the instance has ends. A grant says what was so when it was made.
    pub(super) fn lasts(&mut self, kind: &Kind, last: Option<i64>) {
        let may_differ = matches!(kind, Kind::JobspecUpdate(_) | Kind::GrantChanged(_));
        if !may_differ || self.suspension.standing().is_without_cores() {
            return;
        }
        let start = self.held.as_ref().map(|held| Time(held.starttime));
        let end = start.and_then(|start| self.ends_at(start, last));
        if let Some((end, held)) = end.zip(self.held.as_mut()) {
            Arc::make_mut(held).expiration = end;
        }
    }

    /// Whether a set was chosen for the limit that it has by now: the verdict may have been on its way when
    /// that was changed.
    pub(super) fn is_timely(&self, set: &ResourceSet, last: Option<i64>) -> bool {
        let end = self.ends_at(Time(set.starttime), last);
        end.is_none_or(|end| end == set.expiration)
    }

    /// When what it has from then on ends, where its limit was changed; 0 is never.
    fn ends_at(&self, start: Time, last: Option<i64>) -> Option<i64> {
        let Limit::To(limit) = self.limit.0? else {
            return Some(last.unwrap_or(0));
        };
        let left = (limit.0 - self.suspension.has_run(start).0).max(1);
        let own = start.0.saturating_add(left);
        Some(
            last.map_or(own, |last| own.min(last))
                .max(start.0.saturating_add(1)),
        )
    }
}

impl Sched {
    /// What one asks for is other than it was: who waits is planned again when it has its place, who
    /// holds something holds it for another time.
    pub(super) fn updated(&self, id: JobId, out: &mut Outbox) {
        match self.jobs.get(&id).and_then(|seen| seen.holding(id)) {
            Some(held @ Delta::Held(..)) => {
                self.tell_standing(id, Some(held), out);
                // Whoever waits for it may be planned otherwise.
                out.volatile(Volatile::Plan(Vec::new()));
            }
            Some(_) => out.volatile(Volatile::Plan(vec![self.want(id)])),
            None => out.volatile(Volatile::Plan(vec![Delta::Unwant(id)])),
        }
    }
}
