//! Whether anything begins in an instance that is ending: whose jobs are being ended, by its limit or since its leader
//! was told to end.
//!
//! Knows what a leader was told of its end, and its records. That what begins before then would be over by then says
//! `staying`.

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Takes;
use eddy_wire::time::{Span, Time};

use super::Oracle;

/// What the leader that lives was told of the end of its instance.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// When its jobs are ended by its limit.
    last: Option<Time>,
    course: Course,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Course {
    #[default]
    On,
    Ends,
}

impl Ending {
    /// The leader is gone, and what it was told: whoever comes after it is told anew.
    pub fn forget(&mut self) {
        *self = Ending::default();
    }
}

impl Oracle {
    /// The instance must have ended then, by the limit of the job that it is, and its jobs so long before.
    pub fn set_until(&mut self, until: Option<Time>, reserve: Span) {
        self.until = until;
        self.ending.last = until.map(|until| Time(until.0.saturating_sub(reserve.0)));
    }

    /// The leader is told to end.
    pub fn told_to_end(&mut self) {
        self.ending.course = Course::Ends;
    }

    /// A job is granted something at that time. What goes on after it was suspended has begun before, and what an
    /// instance below began by itself it began by what it had heard.
    pub(super) fn may_begin(&self, job: JobId, t: Time) -> Result<(), String> {
        let found = self.recorded.jobs.get(&job);
        let takes = found.is_some_and(|one| one.submit.spec.request.takes == Takes::Resources);
        if !takes || self.recorded.has_begun_below(job) {
            return Ok(());
        }
        if self.ending.course == Course::Ends {
            return Err(format!(
                "job {job} begins at {t} in an instance that is ending, since its leader was told to"
            ));
        }
        match self.ending.last.filter(|last| t >= *last) {
            Some(last) => Err(format!(
                "job {job} begins at {t} in an instance that is ending, whose jobs end from {last} on"
            )),
            None => Ok(()),
        }
    }
}
