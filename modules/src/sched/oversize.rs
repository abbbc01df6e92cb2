//! Jobs that fit only on what instances of a fixed size hold, since nodes were taken out or such an instance came,
//! or take of a pool that the configuration does not have any more; those that would not have ended when the nodes go
//! that they need, or the instance does; and what an instance is to grow by that has a part
//! of all those nodes.
//!
//! Called by the sched module where its planner has let such a job go. It waits, holds up nobody, and is told
//! what is the most; when that may be something else the planner looks again. It is not ended, as one is that
//! is larger than the machine: the nodes are there, and a next configuration may give them back.

use eddy_broker::{Notice, Outbox, Volatile};
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::plan::{Delta, Reason};

use super::Sched;
use super::sets::Sets;
use crate::live::Change;

impl Sched {
    /// Whether a job that never fits is such a one; then it waits on, and says so.
    pub(super) fn waits_oversize(&mut self, id: JobId, reason: &Reason, out: &mut Outbox) -> bool {
        if !matches!(
            reason,
            Reason::NeverBeside { .. }
                | Reason::NeverPool { .. }
                | Reason::Goes { .. }
                | Reason::Outlasts { .. }
        ) {
            return false;
        }
        self.sets.oversize.insert(id);
        out.notice(Notice::Unmet(id, Some(reason.clone())));
        true
    }

    /// Whether a job that never fits is what an instance is to grow by: it waits for as long as that has the nodes that
    /// it would fit on, and says so.
    pub(super) fn waits_to_grow(&mut self, id: JobId, out: &mut Outbox) -> bool {
        let Some(seen) = self.jobs.get(&id) else {
            return false;
        };
        let Some(of) = seen.grows() else {
            return false;
        };
        if seen.is_queued() && seen.wants() {
            let left = self.apart_from_ground(seen, None).unwrap_or_default();
            let left = left.len();
            self.sets.oversize.insert(id);
            out.notice(Notice::Unmet(id, Some(Reason::GrownThere { of, left })));
        }
        true
    }

    /// Others are planned again for a cause of their own: what was said of them may be so no more.
    pub(super) fn unsaid<'j>(&mut self, jobs: impl Iterator<Item = &'j JobId>, out: &mut Outbox) {
        for id in jobs {
            if self.sets.oversize.remove(id) {
                out.notice(Notice::Unmet(*id, None));
            }
        }
    }

    /// What there is for such jobs may be something else now: the planner looks, and says so anew if not. Told
    /// after what the planner is told of the record itself.
    pub(super) fn oversize_again(&mut self, kind: &Kind, job: Option<JobId>, out: &mut Outbox) {
        if self.sets.oversize.is_empty() {
            return;
        }
        let looks_at_all = match (kind, job) {
            (Kind::ResourceDefine(..), None) => true,
            (Kind::Memo(memo), None) => Change::told(memo).is_some(),
            (Kind::Alloc(_) | Kind::GrantChanged(_) | Kind::Free, Some(job)) => {
                let seen = self.jobs.get(&job);
                seen.is_some_and(|seen| Sets::name(&seen.submit).is_some())
            }
            _ => false,
        };
        let again: Vec<JobId> = match (looks_at_all, kind, job) {
            (true, ..) => std::mem::take(&mut self.sets.oversize)
                .into_iter()
                .collect(),
            (false, Kind::JobspecUpdate(_) | Kind::Clean, Some(job)) => {
                self.sets.oversize.take(&job).into_iter().collect()
            }
            (false, ..) => return,
        };
        for id in &again {
            out.notice(Notice::Unmet(*id, None));
        }
        let wants: Vec<Delta> = again.into_iter().map(|id| self.want(id)).collect();
        if !wants.is_empty() {
            out.volatile(Volatile::Plan(wants));
        }
    }
}
