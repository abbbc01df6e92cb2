//! Where those who wait are kept: in a row of their own, with their gang, beside, or aside.
//!
//! Called by the planner as they come and go, and where what they hold or are promised changes.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Takes;
use eddy_wire::plan::Want;
use eddy_wire::time::Span;

use super::taking::takes_from_others;
use super::{Place, Planner};
use crate::cleanup::cleanup;
use crate::occupancy::Ask;
use crate::walk::Job;

impl Planner {
    /// It wants what it wants, but not now.
    pub(super) fn aside(&mut self, job: JobId) {
        let Some(waiting) = self.waiting.get_mut(&job) else {
            return;
        };
        match std::mem::replace(&mut waiting.place, Place::Aside) {
            Place::Aside => {}
            Place::Row(row) => self.unrow(job, row),
            Place::Gathered => {}
            Place::Beside => self.beside.remove(job),
        }
        self.scatter(job);
    }

    /// It was in this row.
    pub(super) fn unrow(&mut self, job: JobId, row: u32) {
        let Some(waiting) = self.waiting.get(&job) else {
            return;
        };
        let owner = &waiting.want.owner;
        self.taking.waits_no_more(owner, job);
        match (self.rows.turn(row), &mut self.table) {
            (Some(turn), Some(table)) => table.leave(&turn, owner, &mut self.occupancy),
            (Some(turn), None) => {
                self.agenda.leave(&turn, &mut self.occupancy);
            }
            (None, _) => {}
        }
        self.rows.leave(row);
        self.unclaim(job);
        self.expects_no_more(job);
    }

    /// It is no longer aside; a job that wants nothing stays out.
    pub(super) fn enter(&mut self, job: JobId) {
        self.aside(job);
        let Some(waiting) = self.waiting.get_mut(&job) else {
            return;
        };
        match (waiting.want.request.takes, &waiting.want.gang) {
            (Takes::Nothing, _) => {
                self.beside.add(job);
                waiting.place = Place::Beside;
            }
            (Takes::Resources, Some(_)) => self.gather(job),
            (Takes::Resources, None) => self.seat(job),
        }
    }

    /// It is one of those who wait for resources, and whoever else it stands for.
    pub(super) fn seat(&mut self, job: JobId) {
        let now = self.occupancy.now();
        let (entry, limit) = self.entry_of(job);
        let Some(waiting) = self.waiting.get_mut(&job) else {
            return;
        };
        let want = &waiting.want;
        let row = self.rows.seat(&self.turns, job, want, now);
        waiting.place = Place::Row(row);
        if takes_from_others(want) {
            self.taking.waits(&want.owner, job);
        }
        if let Some(turn) = self.rows.turn(row) {
            match &mut self.table {
                Some(table) => {
                    let asks = self.occupancy.asks(&entry.need);
                    table.enter(turn, entry.need, limit, asks);
                }
                None => self.agenda.enter(turn, entry, limit, &self.occupancy),
            }
        }
    }

    /// What passes between the end of a job's limit and its resources being free.
    pub(super) fn cleanup(&self) -> Span {
        cleanup(self.taking.rules.grace)
    }

    /// For how long a job is planned if it says.
    pub(crate) fn limit_of(&self, want: &Want) -> Option<Span> {
        let limit = want.request.duration.filter(|limit| *limit > 0);
        limit.map(|limit| Span(limit.saturating_add(self.cleanup().0)))
    }

    /// A job as the agenda has it, without its gang, and for how long it is planned if it says.
    pub(super) fn alone(&self, job: JobId, want: &Arc<Want>) -> (Job<Arc<Ask>>, Option<Span>) {
        let entry = Job {
            need: Ask::new(job, Arc::clone(want)),
            since: want.eligible,
        };
        (entry, self.limit_of(want))
    }
}
