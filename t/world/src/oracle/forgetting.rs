//! What a judge knows of jobs that are over, and lets go of where a world goes on for long and nothing goes
//! wrong in it: no leader is lost then, so nobody reads back.

use std::collections::BTreeSet;

use eddy_wire::id::JobId;
use eddy_wire::time::Time;

use super::Oracle;

impl Oracle {
    /// Forgets the jobs that were over before then; which they are.
    pub fn let_go(&mut self, before: Time) -> BTreeSet<JobId> {
        let over = self.durable.over(before);
        self.durable.let_go(&over);
        self.recorded.let_go(&over);
        self.records.durable.let_go(&over);
        self.limited.let_go();
        self.charged.let_go(before);
        self.tasks.let_go(&over);
        self.replies.let_go(&over);
        self.signalled.retain(|job| !over.contains(job));
        self.asked_to_end.retain(|part| !over.contains(&part.job));
        over
    }
}
