//! What is there when all is quiet: instances that are declared, and what a parent cannot take.

use std::collections::BTreeSet;

use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::jobspec::{Need, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::CollectRequest;

use crate::call::{About, Call};
use crate::nature::InstanceId;
use crate::oracle::Ledger;
use crate::world::World;

/// Whether a job is a declared instance, that is there as long as its parent is; or one that a filter of
/// the parent does not answer for, which is handed up again and again, or that waits for such a one.
pub(super) fn lasts(ledger: &Ledger, job: &Job) -> bool {
    let is_declared = matches!(
        &job.submit.spec.request.work,
        Work::Instance { name: Some(_) }
    );
    let waits = job.submit.spec.needs.iter().any(|need| match need {
        Need::After(_, other) => {
            let other = ledger.jobs.get(other);
            // It was there before.
            let other = other.filter(|other| other.id < job.id);
            other.is_some_and(|other| {
                is_unheard(ledger, other) || other.t_inactive.is_none() && lasts(ledger, other)
            })
        }
        Need::Within(..) | Need::Begin(_) | Need::Singleton | Need::Throttle(_) => false,
    });
    is_declared || is_unheard(ledger, job) || waits
}

/// Whether an instance took it, and its parent cannot take it, or another that it waits for.
pub(super) fn is_unheard(ledger: &Ledger, job: &Job) -> bool {
    let mut unheard: BTreeSet<JobId> = BTreeSet::new();
    for (id, job) in ledger.jobs.range(..=job.id) {
        let name = job.submit.spec.jobspec.name();
        let is_alike = |other: &JobId| ledger.jobs[other].submit.spec.jobspec.name() == name;
        let waits = |need: &Need| match need {
            Need::After(_, other) => unheard.contains(other),
            Need::Singleton => unheard.iter().any(is_alike),
            Need::Within(..) | Need::Begin(_) | Need::Throttle(_) => false,
        };
        let is_named = name.contains(":dies") || name.contains(":late");
        let is_so = is_named || job.submit.spec.needs.iter().any(waits);
        if is_so && job.submit.is_taken_here() && job.t_alloc.is_none() {
            unheard.insert(*id);
        }
    }
    unheard.contains(&job.id)
}

/// Whether a call of a client of that instance waits for the end of what lasts, there, in the one that it was
/// referred to, or in an instance of either that took it.
pub(super) fn waits_for_what_lasts(world: &World, id: InstanceId, call: &Call) -> bool {
    let own = &world.instances[id.place()];
    let above = own.nested.as_ref().filter(|_| own.is_queue());
    let above = above.map(|nested| nested.parent);
    let inside = world.instances.iter().filter(|one| {
        let parent = one.nested.as_ref().map(|nested| nested.parent);
        parent == Some(id) || parent.is_some() && parent == above
    });
    let mut all = inside.map(|one| one.id).chain([id]).chain(above);
    all.any(|one| waits_in(world, one, call))
}

fn waits_in(world: &World, id: InstanceId, call: &Call) -> bool {
    let ledger = world.nature.judge(id).durable();
    let jobs = &ledger.jobs;
    let lasting = |job: &JobId| {
        let found = jobs.get(job);
        found.is_some_and(|job| lasts(ledger, job) && job.state != JobState::Inactive)
    };
    match &call.about {
        About::Events(job) => lasting(job),
        About::Wait(set) => jobs.keys().filter(|job| set.contains(**job)).any(lasting),
        About::Collect => match collected(call) {
            Some(job) => lasting(&job),
            None => jobs.keys().any(lasting),
        },
        _ => false,
    }
}

/// The job whose result is to be collected; none is any.
fn collected(call: &Call) -> Option<JobId> {
    let request: CollectRequest = serde_json::from_slice(&call.body).ok()?;
    request.id
}
