//! Which parts of an attempt may begin.
//!
//! Files that a job names for output are made anew by its first part, and what another had written there by then
//! would be lost. So the others of such a job begin once the first runs; those of any other job all at once.

use eddy_wire::id::Rank;
use eddy_wire::jobspec::Work;
use eddy_wire::shell::Start;
use eddy_wire::shell_options;

use super::{PartView, Run};

impl Run {
    /// The starts of the parts nothing was heard of, as far as they may begin.
    pub(in crate::exec) fn starts(&mut self) -> Vec<Start> {
        let asked = self.parts.iter();
        let asked = asked.filter(|(_, view)| **view == PartView::Asked);
        let may_begin = asked.filter(|(rank, _)| self.may_begin(**rank));
        let ranks: Vec<Rank> = may_begin.map(|(rank, _)| *rank).collect();
        let starts = ranks.into_iter().map(|rank| self.start_of(rank));
        starts.flatten().collect()
    }

    /// Whether the part on this rank need not wait for the first.
    pub(in crate::exec) fn may_begin(&self, rank: Rank) -> bool {
        let first = self.parts.keys().next();
        first == Some(&rank) || !self.holds_back()
    }

    /// Whether parts wait for the first of them.
    pub(in crate::exec) fn holds_back(&self) -> bool {
        let first = self.parts.values().next();
        first == Some(&PartView::Asked)
            && self.parts.len() > 1
            && self.submit.spec.request.work == Work::Tasks
            && shell_options::names_output(&self.submit.spec.jobspec)
    }

    /// Whether those that waited are to begin: nothing ends the attempt, nor is about to.
    pub(in crate::exec) fn goes_ahead(&self) -> bool {
        !self.holds_back() && self.end.is_none() && self.failure().is_none()
    }
}
