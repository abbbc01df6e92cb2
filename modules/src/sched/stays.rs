//! Until when this instance has its nodes, as the planner is told: its own time, and that of nodes by which it has
//! grown.
//!
//! What the parent says of it is recorded (`queues_above`, the inventory), so that a leader that begins without its
//! parent plans by it. Who would not have ended by then waits; nobody is ended by this.

use std::sync::Arc;

use eddy_broker::{Notice, Outbox, Volatile};
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Takes;
use eddy_wire::plan::{Delta, Going, Lasts, Stay};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::Sched;
use super::seen::{Order, Seen};
use crate::ingest::served;
use crate::queues_above;

impl Sched {
    /// Until when by what is known now. What is passed to a queue's instance its parent places.
    pub(super) fn stay(&self) -> Stay {
        let goes = match self.asked.is_users() {
            true => self.unordered.going(),
            false => Vec::new(),
        };
        Stay {
            end: self.place.end(),
            goes,
        }
    }

    /// Tells the planner, if that is news to it. Those that it has let go of since they would not have ended may be
    /// in time now: it looks at them again.
    pub(super) fn tell_stay(&mut self, out: &mut Outbox) {
        let stay = self.stay();
        if stay == self.stay_told {
            return;
        }
        self.stay_told = stay.clone();
        let again: Vec<JobId> = std::mem::take(&mut self.sets.oversize)
            .into_iter()
            .collect();
        for id in &again {
            out.notice(Notice::Unmet(*id, None));
        }
        let mut deltas = vec![Delta::Stay(Arc::new(stay))];
        deltas.extend(again.into_iter().map(|id| self.want(id)));
        out.volatile(Volatile::Plan(deltas));
    }

    /// A record may say otherwise than the last.
    pub(super) fn stay_changed(&mut self, kind: &Kind, job: Option<JobId>, out: &mut Outbox) {
        let tells = match (kind, job) {
            (Kind::ResourceDefine(..), None) => true,
            (Kind::Memo(memo), None) => queues_above::is_one(memo),
            _ => false,
        };
        if tells {
            self.tell_stay(out);
        }
    }

    /// Whether one that begins now on these nodes has them for all of its limit, or takes what time is left.
    pub(super) fn lasts_on(&self, now: Time, seen: &Seen, set: &ResourceSet) -> bool {
        let request = &seen.submit.spec.request;
        let limit = request.duration.filter(|limit| *limit > 0);
        let is_whole = lasts(seen) == Lasts::Limit && !seen.resumes() && seen.order == Order::Here;
        let Some(limit) = limit.filter(|_| is_whole && request.takes == Takes::Resources) else {
            return true;
        };
        let over = now.after(Span(limit));
        let Stay { end, goes } = &self.stay_told;
        let on = |going: &Going| set.nodes.keys().any(|rank| going.ranks.contains(rank.0));
        let is_in_time = |going: &Going| over <= going.at || !on(going);
        end.is_none_or(|end| over <= end) && goes.iter().all(is_in_time)
    }
}

/// What one does where what it is given goes before its limit is over.
pub(super) fn lasts(seen: &Seen) -> Lasts {
    match served::fits(&seen.submit.spec) {
        true => Lasts::Left,
        false => Lasts::Limit,
    }
}
