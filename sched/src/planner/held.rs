//! What jobs hold, once that is recorded, and when they give it back.
//!
//! Called by the planner as it is told. What it only proposed it holds the same way.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::plan::{Mover, Owner};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use super::{Certainty, Holding, Planner};
use crate::inventory::WasHeld;
use crate::turns::Turn;

/// The number under which is held what a suspended job has left: that of no job.
pub(super) fn resting(job: JobId) -> JobId {
    JobId(job.0 | 1 << 63)
}

/// The job of which that is held under such a number.
pub(super) fn rested(job: JobId) -> Option<JobId> {
    (job.0 >> 63 == 1).then_some(JobId(job.0 & !(1 << 63)))
}

impl Planner {
    /// It is recorded that a job has only this left, and who waits may have what it gave back. It is
    /// charged for nothing here: what the order counts is cores. Nobody knows for how long; what is
    /// promised to others from a guessed end on could keep the job itself from going on.
    pub(super) fn rests(&mut self, job: JobId, set: Arc<ResourceSet>) {
        self.free(job);
        let turns = self.promises().filter_map(|(turn, _, spot)| {
            let lacks = self.occupancy.lacks(spot, &set);
            lacks.then_some(turn)
        });
        // What was promised from its end on nobody can keep.
        let turns: Vec<Turn> = turns.collect();
        for turn in turns {
            self.unreserve(&turn, None);
        }
        if !set.is_empty() {
            self.held_until(resting(job), None, set, Time(i64::MAX));
        }
    }

    /// What a job had left while it was suspended is held in another way, or not any more.
    pub(super) fn rests_no_more(&mut self, job: JobId) {
        // Their numbers are the last. Asked of each job that holds something or gives it back.
        let last = self.holdings.last_key_value();
        if last.is_some_and(|(last, _)| rested(*last).is_some()) {
            self.free(resting(job));
        }
    }

    /// It is recorded that a job holds this.
    pub(super) fn held(&mut self, job: JobId, owner: Option<Owner>, set: Arc<ResourceSet>) {
        let until = self.end_of(&set);
        self.held_until(job, owner, set, until);
    }

    fn held_until(&mut self, job: JobId, owner: Option<Owner>, set: Arc<ResourceSet>, until: Time) {
        let began = Time(set.starttime);
        match self.holdings.get_mut(&job) {
            Some(holding) if holding.set.nodes == set.nodes && holding.owner == owner => {
                let known = std::mem::replace(&mut holding.certainty, Certainty::Held);
                let moves = holding.until != until;
                if let (Some(owner), Certainty::Proposed) = (&holding.owner, known) {
                    self.taking.holds(owner, job);
                }
                // It may end sooner than was proposed: with the instance.
                if moves {
                    self.ends_then(job, set, until);
                }
                if known == Certainty::Held {
                    // Said again: a want that came since then is the next attempt's.
                    return;
                }
            }
            _ => {
                // What it held is charged until the pass that follows; it goes on with something else.
                let ending = self.taking.ending.get(&job).copied();
                let leaving = self.taking.leaving.get(&job).cloned();
                self.free(job);
                self.occupancy.hold(job, &set, until);
                self.hold((job, owner), (set, until), Certainty::Held);
                if let Some(ending) = ending {
                    self.ends(job, ending.by, ending.until, ending.certainty);
                }
                self.leaves(job, leaving.unwrap_or_default());
            }
        }
        self.hindsight.began(job, began);
        self.unwant(job);
    }

    /// The limit of one who holds something was changed: whoever counts on the end before is to be
    /// planned anew.
    fn ends_then(&mut self, job: JobId, set: Arc<ResourceSet>, until: Time) {
        let Some(holding) = self.holdings.get_mut(&job) else {
            return;
        };
        let before = std::mem::replace(&mut holding.until, until);
        holding.set = Arc::clone(&set);
        if holding.owner.is_some() {
            // What it may still use is charged, too.
            self.lined.moved();
        }
        let counts = self.promises().filter(|(_, at, spot)| {
            let is_between = before <= *at && *at < until;
            is_between && self.occupancy.lacks(spot, &set)
        });
        let counts: Vec<Turn> = counts.map(|(turn, ..)| turn).collect();
        for turn in counts {
            self.unreserve(&turn, Some(Mover::Extension { job }));
        }
        self.occupancy.ends_then(job, &set, before, until);
        self.agenda.freed();
    }

    /// Gives back what is only proposed: nobody ever had it.
    pub(super) fn take_back(&mut self, job: JobId) {
        let holding = self.holdings.get(&job);
        let proposed = holding.filter(|holding| holding.certainty == Certainty::Proposed);
        if let Some(owner) = proposed.map(|holding| holding.owner.clone()) {
            if let Some(owner) = owner {
                self.turns.settled(job, &owner, &[]);
            }
            self.free(job);
            self.turns.over(job);
        }
    }

    /// It is recorded that an attempt has nothing any more, or a start is not to be recorded.
    pub(super) fn freed(&mut self, job: JobId) {
        self.rests_no_more(job);
        self.take_back(job);
        self.free(job);
        self.turns.over(job);
        self.no_ground(job);
    }

    /// What it held or was charged for is free.
    pub(super) fn free(&mut self, job: JobId) {
        if self.occupancy.give_pools(job) {
            self.agenda.freed();
        }
        if let Some(Holding {
            owner: Some(owner),
            set,
            ..
        }) = self.charged.remove(&job)
        {
            self.ended(job, &owner, &set);
        }
        if let Some(holding) = self.holdings.remove(&job) {
            let Holding {
                set, owner, until, ..
            } = holding;
            self.ended_for(job);
            if let Some(owner) = &owner {
                self.taking.holds_no_more(owner, job);
                self.ended(job, owner, &set);
            }
            let left = self.holdings.values().map(|one| one.set.as_ref());
            match self.occupancy.release(job, &set, until, left) {
                WasHeld::Once => self.agenda.freed(),
                WasHeld::Twice => self.agenda.void(),
            }
            self.enter(job);
        }
    }
}
