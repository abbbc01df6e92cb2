//! Whether something comes of what a planner proposes: who is proposed and taken back over and over waits for
//! nothing that anybody could name, and his leader does nothing else.

use std::collections::BTreeMap;

use eddy_wire::id::{JobId, Seq};
use eddy_wire::plan::{Outcome, Verdict};

/// So often one may be proposed while nothing is recorded. Where ground is to come it is ten times a second.
const PROPOSED_MAX: u32 = 1000;

/// How often each was proposed since something was recorded.
#[derive(Default)]
pub(super) struct Proposed {
    since: Seq,
    times: BTreeMap<JobId, u32>,
}

impl Proposed {
    /// The planner has answered when so much was recorded: who was proposed too often.
    pub(super) fn add(&mut self, last: Seq, outcome: &Outcome) -> Result<(), String> {
        if self.since != last {
            (self.since, self.times) = (last, BTreeMap::new());
        }
        for (job, verdict) in &outcome.verdicts {
            if let Verdict::Start(_) = verdict {
                let times = self.times.entry(*job).or_default();
                *times += 1;
                if *times > PROPOSED_MAX {
                    return Err(format!(
                        "job {job} could start by the plan {times} times, and never did"
                    ));
                }
            }
        }
        Ok(())
    }
}
