//! Who waits, by what is recorded, for an elastic instance that is not reached yet, or not any more, and is expected.
//!
//! Asked by a leader's driver before its planner plans. Knows nothing of what that was told.

use std::collections::BTreeMap;

use eddy_modules::lending::Lending;
use eddy_wire::id::JobId;
use eddy_wire::plan::Want;
use eddy_wire::time::Time;

use super::{leads, waiting};
use crate::instance::Instance;
use crate::oracle::Oracle;

/// What each of them waits for.
pub fn expected(instance: &Instance, judge: &Oracle, now: Time) -> BTreeMap<JobId, Want> {
    let lending = Lending::new(&instance.settings);
    let ledger = judge.recorded();
    let is_expected = |job: &JobId| {
        let job = &ledger.jobs[job];
        // Whose turn it is of those who came another way is another's affair.
        let is_plain = job.submit.taken_in.is_none() && job.preemptions == 0;
        let to = leads(instance, job).filter(|to| lending.elastic(to).is_some());
        is_plain && to.is_some_and(|to| judge.expects(to, now))
    };
    if instance.settings.elastic().next().is_none() {
        return BTreeMap::new();
    }
    let goes_on = |job| ledger.held.contains_key(&job) && ledger.jobs[&job].end.is_none();
    let gang = |job| judge.ganged().starts_with(job, goes_on);
    let all = waiting(instance, ledger, judge.queued().stopped(), gang).into_iter();
    let all = all.filter(|(job, want)| is_expected(job) && want.gang.is_none());
    all.map(|(job, want)| {
        let submitted = ledger.jobs[&job].t_submit;
        (job, Want { submitted, ..want })
    })
    .collect()
}
