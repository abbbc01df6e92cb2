//! When a run ends by its limit, and when it needs attention next.

use eddy_wire::grace;
use eddy_wire::time::{Span, Time};

use super::Run;
use crate::exec::leaving::doubled;

/// Which limit ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Limit {
    /// The job's own.
    Own(Span),
    /// The instance must have ended a little later.
    Instance,
}

impl Run {
    /// When which limit ends it: its own, counted from the start (a start that
    /// was slow is not the job's fault), or `last`, when the last job of the
    /// instance must begin to end.
    pub(in super::super) fn limit(&self, last: Option<Time>) -> Option<(Time, Limit)> {
        let span = self.submit.spec.request.duration.map(Span);
        // The time without cores does not count, and has no end yet where it has none.
        let started = self.started.filter(|_| self.pace.counts());
        let own = started.zip(span);
        let own = own.map(|(started, span)| {
            let at = started.after(span).after(self.pace.lasted());
            (at, Limit::Own(span))
        });
        let last = last.map(|at| (at, Limit::Instance));
        own.into_iter().chain(last).min_by_key(|(at, _)| *at)
    }

    /// Whether it goes on, and its limit is the parent's to say.
    pub(in super::super) fn is_of_parent(&self) -> bool {
        self.submit.pass.is_some() && self.end.is_none()
    }

    /// When this run needs attention: its limit, or the next KILL: a grace
    /// after the end was recorded, or when that was recorded to be, then at
    /// doubling distances from the last.
    pub(in super::super) fn due(&self, grace: Span, last: Option<Time>) -> Option<Time> {
        if self.end_proposed {
            return None;
        }
        match self.end {
            Some(end) if self.kills == 0 => {
                let own = grace::within(&self.submit.spec, grace);
                Some(self.until.unwrap_or(end.after(own)))
            }
            Some(_) => Some(self.last_kill.after(doubled(grace, self.kills))),
            // Over but for its ground.
            None if self.is_without_leader() => None,
            None => self.limit(last).map(|(at, _)| at),
        }
    }
}
