//! Starts of an outcome that nobody has been told of: they are taken back where somebody who waits would
//! end them at once.
//!
//! Asked by `preempt`, as long as the outcome is the planner's. What an earlier one said is recorded, or
//! about to be, and can only end.

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Work;
use eddy_wire::plan::{Outcome, Verdict, Want};
use eddy_wire::preempt::PREEMPTIONS_MAX;

use super::taking::Standing;
use super::{Certainty, Planner};

/// Whether a start was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retracted {
    Yes,
    /// It is no start of this outcome.
    No,
}

impl Planner {
    /// Who starts by an outcome and may be taken from then, the last first.
    pub(super) fn proposed<'o>(
        &'o self,
        outcome: &'o Outcome,
    ) -> impl Iterator<Item = (JobId, Standing)> + 'o {
        let starts = outcome.verdicts.iter().rev();
        let starts = starts.filter(|(_, verdict)| matches!(verdict, Verdict::Start(_)));
        starts.filter_map(|(job, _)| {
            let want = self.waiting.get(job).map(|one| &one.want);
            let want = want.filter(|want| gives_way(want))?;
            Some((*job, Standing::of(&want.owner)))
        })
    }

    /// Those of them whom this standing would take from at once, who is to go first at the front.
    pub(super) fn retractable(&self, standing: &Standing, outcome: &Outcome) -> Vec<JobId> {
        let now = self.occupancy.now();
        let mut found: Vec<(i64, f64, JobId)> = Vec::new();
        for (job, of) in self.proposed(outcome) {
            let qos = self.qos_of(&of);
            let is_open = self.exempt_until(job, qos) <= now;
            if is_open && self.may_take(standing, &of).is_some() {
                found.push((self.rank(&of), self.worth(qos), job));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        found.into_iter().map(|(.., job)| job).collect()
    }

    /// One does not begin if it is a start of this outcome, and waits on in its place.
    pub(super) fn retract(&mut self, job: JobId, outcome: &mut Outcome) -> Retracted {
        let holding = self.holdings.get(&job);
        if holding.is_none_or(|holding| holding.certainty == Certainty::Held) {
            return Retracted::No;
        }
        outcome.verdicts.retain(|(other, _)| *other != job);
        self.take_back(job);
        Retracted::Yes
    }
}

/// Whether one could be taken from as soon as it runs. A gang begins whole, or not.
fn gives_way(want: &Want) -> bool {
    let is_ground = matches!(&want.request.work, Work::Instance { name: Some(_) });
    !is_ground && want.gang.is_none() && want.preemptions < PREEMPTIONS_MAX
}
