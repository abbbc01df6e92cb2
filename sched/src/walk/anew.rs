//! When all was planned anew, and when it is to be again.
//!
//! Where a pass plans hundreds of jobs, doing so whenever one ends would cost more than it gains:
//! a policy may say how often. Passes between keep what is planned, but for what can start at once, and
//! plan nobody else than who is first of all.

use eddy_wire::time::{Span, Time};

/// Two looks at who is beyond the window are apart by that at least.
const REST: Span = Span::seconds(1);

/// What an agenda knows of its last plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Anew {
    /// When the last was made; nothing if none was, or not to its end.
    at: Option<Time>,
    /// What happened since.
    since: Since,
    /// When the first of those for whom the window had no time is within it.
    enters: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Since {
    /// Nothing that a pass has looked at.
    #[default]
    Nothing,
    /// There were passes that kept what was planned.
    Passes,
}

impl Anew {
    /// Whether one may be made that so long is to be between any two.
    pub fn may(&self, now: Time, every: Option<Span>) -> bool {
        self.not_before(every).is_none_or(|at| at <= now)
    }

    /// Whether passes since then kept what was planned.
    pub fn is_behind(&self) -> bool {
        self.since == Since::Passes
    }

    /// One is made.
    pub fn made(&mut self, now: Time) {
        *self = Anew {
            at: Some(now),
            ..Anew::default()
        };
    }

    /// A pass leaves it at what is planned.
    pub fn passed(&mut self) {
        self.since = Since::Passes;
    }

    /// One is beyond the window until then.
    pub fn beyond(&mut self, until: Time) {
        self.enters = self.enters.into_iter().chain([until]).min();
    }

    /// When the next is to be made.
    pub fn next(&self, every: Option<Span>) -> Option<Time> {
        let soonest = self.not_before(every);
        let outdated = soonest.filter(|_| self.is_behind());
        // Behind one who is late the window may reach it no sooner each time that is looked.
        let rest = self.at.map(|at| at.after(REST));
        let least = soonest.into_iter().chain(rest).max();
        let enters = self
            .enters
            .map(|at| least.map_or(at, |least| at.max(least)));
        outdated.into_iter().chain(enters).min()
    }

    fn not_before(&self, every: Option<Span>) -> Option<Time> {
        Some(self.at?.after(every?))
    }
}
