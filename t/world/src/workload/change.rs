//! What is asked for of one job that is there.

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Work;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::InfoKey;
use eddy_wire::time::Span;

use super::Act;
use crate::call::Call;

use crate::client::Client;
use crate::nature::Nature;

pub(super) fn change(nature: &mut Nature, client: &Client, job: JobId, act: Act) -> Call {
    // Administrators are among those who ask: they mean what they name.
    let declared = declared(nature, client, job);
    let random = &mut nature.random;
    match act {
        Act::Events => Call::events(job),
        Act::Raise => Call::raise_of(job, ("odd", *random.pick(&[0, 3, 7])), declared),
        Act::Kill => {
            let signal = *random.pick(&[10, 15, 9]);
            nature
                .oracle(client.instance)
                .signalled_by(job, client.user);
            Call::kill(job, signal)
        }
        Act::Urgency => Call::urgency(job, *random.pick(&[0, 1, 16, 17, 31])),
        Act::Requeue => Call::requeue_of(job, declared),
        Act::Suspend => Call::suspend(job),
        Act::Resume => Call::resume(job),
        Act::Info => {
            let keys = [InfoKey::Jobspec, InfoKey::Resources, InfoKey::Eventlog];
            Call::info(job, *random.pick(&keys))
        }
        _ => Call::raise_of(job, ("cancel", 0), declared),
    }
}

/// The name of a job that is a declared instance.
fn declared(nature: &Nature, client: &Client, job: JobId) -> Option<String> {
    let jobs = &nature.judge(client.instance).recorded().jobs;
    match &jobs.get(&job)?.submit.spec.request.work {
        Work::Instance { name } => name.as_ref().map(ToString::to_string),
        Work::Tasks | Work::Ground { .. } => None,
    }
}

/// Another limit for one that is not over: of others nothing would come.
pub(super) fn update(nature: &mut Nature, client: &Client) -> Option<Call> {
    let jobs = &nature.judge(client.instance).recorded().jobs;
    let active = jobs.values().filter(|job| job.state != JobState::Inactive);
    let active: Vec<JobId> = active.map(|job| job.id).collect();
    if active.is_empty() {
        return None;
    }
    let job = *nature.random.pick(&active);
    let limit = Span::seconds(nature.random.between(1, 60));
    Some(Call::update(job, limit))
}
