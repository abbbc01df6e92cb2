//! How jobs ended, for whoever keeps no more of them: the result of one from its records, and how many had which.
//!
//! The same results as of [`Job::result`](crate::job::Job::result), for less: the ledger keeps one for each job that
//! is not over, and the sums for all that are.

use serde::{Deserialize, Serialize};

use crate::event::{Exception, Kind, Requeue, Submit};
use crate::lifecycle::JobResult;

/// How many jobs ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// All tasks exited 0.
    pub completed: u64,
    /// A task failed, or the job could not run.
    pub failed: u64,
    /// Somebody ended it.
    pub canceled: u64,
    /// It reached its time limit.
    pub timeout: u64,
}

impl Ends {
    /// One more that ended so.
    pub fn count(&mut self, result: JobResult) {
        *match result {
            JobResult::Completed => &mut self.completed,
            JobResult::Failed => &mut self.failed,
            JobResult::Canceled => &mut self.canceled,
            JobResult::Timeout => &mut self.timeout,
        } += 1;
    }

    /// Those that did not end well.
    pub fn unwell(&self) -> u64 {
        self.failed + self.canceled + self.timeout
    }
}

/// How a job will have ended, as far as its records tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// After what another attempt follows; none where that is its parent's to say.
    requeue: Option<Requeue>,
    by: Option<By>,
    status: Option<i32>,
}

/// What ends an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Cancel,
    Timeout,
    /// Something that another attempt follows, if nobody ends the job before.
    Again,
    Another,
}

impl Ending {
    /// Nothing has ended it yet.
    pub fn new(submit: &Submit) -> Ending {
        Ending {
            requeue: submit.pass.is_none().then_some(submit.requeue),
            by: None,
            status: None,
        }
    }

    /// Folds a record of the job.
    pub fn apply(&mut self, kind: &Kind) {
        match kind {
            Kind::Requeue(_) => (self.by, self.status) = (None, None),
            Kind::Exception(exception) if exception.severity == 0 => self.end_by(exception),
            kind => self.status = kind.finish().or(self.status),
        }
    }

    /// The result, once it is over.
    pub fn result(&self) -> JobResult {
        match (self.by, self.status) {
            (Some(By::Cancel), _) => JobResult::Canceled,
            (Some(By::Timeout), _) => JobResult::Timeout,
            (None, Some(0)) => JobResult::Completed,
            (Some(By::Again | By::Another) | None, _) => JobResult::Failed,
        }
    }

    /// The first stands; only a cancel overrides a requeue.
    fn end_by(&mut self, exception: &Exception) {
        let follows = |requeue: Requeue| requeue.follows(&exception.kind);
        let by = match exception.kind.as_str() {
            "cancel" => By::Cancel,
            "timeout" => By::Timeout,
            _ if self.requeue.is_some_and(follows) => By::Again,
            _ => By::Another,
        };
        match self.by {
            None => self.by = Some(by),
            Some(By::Again) if by == By::Cancel => self.by = Some(by),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
