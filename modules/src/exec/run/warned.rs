//! The signal by which tasks hear that their time is nearly over.
//!
//! It is sent once for each end that a run came to have: when its limit, or that of its instance, is another
//! than the one it was warned of, it is warned of the new one in its time, or at once where that is past.
//! Nothing of it is recorded: a leader that begins in that time says it again, and a shell that connects in it
//! is told again, since none is worse than two.

use eddy_broker::Outbox;
use eddy_wire::jobspec::Work;
use eddy_wire::time::{Span, Time};
use eddy_wire::warning;

use super::Run;
use crate::exec::shells::Shells;

/// Ends that differ by less are the same: those of instances are told as the time that is left.
const SAME: Span = Span::seconds(1);

/// A warning that is to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Due {
    /// When.
    pub at: Time,
    end: Time,
    signal: i32,
}

impl Run {
    /// The warning that its tasks are to be given yet, if any.
    pub(in super::super) fn warning(&self, last: Option<Time>) -> Option<Due> {
        self.any_warning(last).filter(|due| !self.is_warned(due))
    }

    /// The one that a part is to be given of which it may not have heard, since its shell was not there.
    pub(in super::super) fn warning_again(&self, now: Time, last: Option<Time>) -> Option<i32> {
        let due = self.any_warning(last).filter(|due| due.at <= now);
        due.filter(|due| self.is_warned(due)).map(|due| due.signal)
    }

    fn is_warned(&self, due: &Due) -> bool {
        self.warned
            .is_some_and(|of| (due.end - of).0.abs() <= SAME.0)
    }

    /// Given or not. An instance's program is warned inside.
    fn any_warning(&self, last: Option<Time>) -> Option<Due> {
        let runs = self.started.is_some() && self.pace.counts() && self.end.is_none();
        let runs = runs && !self.end_proposed && self.submit.spec.request.work == Work::Tasks;
        let asked = warning::of(&self.submit.spec.jobspec).ok().flatten();
        let warning = asked.filter(|_| runs)?;
        let (end, _) = self.limit(last)?;
        Some(Due {
            at: Time(end.0 - warning.left.0),
            end,
            signal: warning.signal,
        })
    }

    /// It is given now.
    pub(in super::super) fn warn(&mut self, due: Due, shells: &Shells, out: &mut Outbox) {
        self.warned = Some(due.end);
        self.signal(due.signal, shells, out);
    }
}
