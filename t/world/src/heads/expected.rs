//! Whether who waits for an instance that is expected keeps his turn though the planner is not told of him.
//!
//! Who waits so is told by records. Those of them that the planner was told of are judged as all others are.

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::plan::{Outcome, Want};
use eddy_wire::time::Time;

use super::{Queue, Tally, Watched};

impl Watched {
    /// These wait for instances that are expected.
    pub fn expect(&mut self, expected: BTreeMap<JobId, Want>) {
        self.expected = expected;
    }

    /// With those of them that the planner does not know nobody who passes delays the first.
    pub(super) fn check_expected(&self, outcome: &Outcome, now: Time) -> Result<(), String> {
        let is_known = |job: &JobId| self.wants.contains_key(job) || self.held.contains_key(job);
        let expected = self.expected.iter();
        let left: Vec<_> = expected.filter(|(job, _)| !is_known(job)).collect();
        let nodes = self.inventory.as_ref().filter(|_| !left.is_empty());
        let Some(nodes) = nodes.filter(|_| !self.closes()) else {
            return Ok(());
        };
        let mut wants = self.wants.clone();
        wants.extend(left.iter().map(|(job, want)| (**job, (*want).clone())));
        let queue = Queue {
            name: None,
            wants: &wants,
            held: &self.held,
            nodes,
        };
        self.check_in(queue, (outcome, now), &mut Tally::default())
            .map_err(|sentence| format!("an instance is expected: {sentence}"))
    }
}
