//! Which jobs of an instance its parent orders: what was passed down, and what was taken here for the parent
//! from the moment on when that can have heard of it. What is said here of when they begin would not count.
//!
//! Kept by the manager. That a parent has taken one is recorded; whether it is heard is of this leader's life.

use std::collections::BTreeSet;

use eddy_broker::ParentWord;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::lifecycle::JobState;

use crate::jobs::Jobs;
use crate::passed::taken::is_ordered_above;

/// What its parent knows of.
#[derive(Debug, Default)]
pub(super) struct Above {
    channel: Channel,
    /// Jobs that this instance took, and that the parent has taken since.
    ordered: BTreeSet<JobId>,
}

/// Whether what was taken here is handed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Channel {
    #[default]
    Away,
    Stands,
}

impl Above {
    /// A record, before the jobs fold it.
    pub(super) fn apply(&mut self, record: &Record, jobs: &Jobs<Job>) {
        match (&record.event.kind, record.event.job) {
            (Kind::Memo(memo), Some(id)) if is_ordered_above(memo) => {
                let is_over = |job: &Job| job.state == JobState::Inactive;
                if jobs.get(&id).is_some_and(|job| !is_over(job)) {
                    self.ordered.insert(id);
                }
            }
            (Kind::Clean, Some(job)) => {
                self.ordered.remove(&job);
            }
            _ => {}
        }
    }

    pub(super) fn parent(&mut self, word: &ParentWord) {
        match word {
            ParentWord::Granted(_) => self.channel = Channel::Stands,
            ParentWord::Away => self.channel = Channel::Away,
            _ => {}
        }
    }

    /// Whether the parent says when it begins.
    pub(super) fn orders(&self, job: &Job) -> bool {
        match job.submit.is_taken_here() {
            true => self.channel == Channel::Stands || self.ordered.contains(&job.id),
            false => job.submit.pass.is_some(),
        }
    }
}

/// Why a change is refused of one that the parent orders.
pub(super) fn ordered_above() -> String {
    "it is the parent's, which says when it begins: say it there".to_owned()
}
