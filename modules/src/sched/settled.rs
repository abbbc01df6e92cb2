//! What a planner is told when an attempt has given all back: what it is charged.
//!
//! It has reckoned as it heard what was held, and of the end it hears when a leader does. What is charged is
//! what the ledger charges, by the same fold of the same records.

use std::sync::Arc;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::Kind;
use eddy_wire::held::{Fate, Held, Stay};
use eddy_wire::id::JobId;
use eddy_wire::plan::Delta;
use eddy_wire::time::Time;

use super::Sched;
use super::seen::Seen;
use super::sets::Sets;

/// What a job is charged.
#[derive(Clone, Debug, Default)]
pub(super) struct Charges {
    held: Held,
    /// Of the attempt that was over last.
    settled: Vec<Stay>,
}

impl Charges {
    pub(super) fn apply(&mut self, t: Time, kind: &Kind) {
        self.held.apply(t, kind, |_| {});
        if kind.frees() {
            let (fate, stays) = self.held.settle();
            self.settled = match fate {
                Fate::Failed => Vec::new(),
                Fate::Charged | Fate::Ending => stays,
            };
        }
    }
}

impl Seen {
    /// What its last attempt is charged. A declared instance is nobody's.
    fn settled(&self, id: JobId) -> Option<Delta> {
        let stays = Stay::together(&self.charges.settled);
        let is_charged = Sets::name(&self.submit).is_none();
        is_charged.then(|| Delta::Settled(id, self.owner(), Arc::from(stays)))
    }
}

impl Sched {
    /// One has nothing any more. Where the same record says that its tasks are over nobody has said before that it
    /// goes on no more.
    pub(super) fn freed(&self, id: JobId, out: &mut Outbox) {
        let seen = self.jobs.get(&id);
        let paced = seen.filter(|seen| seen.suspension.is_touched());
        let mut deltas: Vec<Delta> = paced.map(|_| Delta::Unwant(id)).into_iter().collect();
        deltas.extend(seen.and_then(|seen| seen.settled(id)));
        deltas.push(Delta::Freed(id));
        out.volatile(Volatile::Plan(deltas));
    }
}
