//! The row a listing shows of a job: derived from the fold, never stored as
//! truth.

use std::borrow::Cow;

use eddy_wire::account::Name;
use eddy_wire::event::Submit;
use eddy_wire::job::Job;
use eddy_wire::jobspec::Work;
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::services::job::{Ended, JobEnd, JobRow};
use eddy_wire::suspension::Standing;

/// The row of `job`; `reason` says why it waits, or is empty.
pub fn row(job: &Job, reason: String) -> JobRow {
    let spec = &job.submit.spec;
    let placed = job.placed().map(|grant| &grant.set);
    let request = match placed {
        Some(set) => spec.request.granted(set),
        None => Cow::Borrowed(&spec.request),
    };
    let asked = |each: u32| request.slots.saturating_mul(each);
    JobRow {
        id: job.id,
        name: name(&job.submit),
        userid: job.submit.user,
        state: job.state,
        result: job.result(),
        returncode: job.returncode(),
        status: job.status,
        attempt: job.attempt,
        queue: spec
            .jobspec
            .attributes
            .system
            .queue
            .as_deref()
            .unwrap_or_default()
            .to_owned(),
        account: named(&job.submit.party.account),
        qos: named(&job.submit.party.qos),
        class: named(&job.submit.party.class),
        job_set: spec.set.as_deref().unwrap_or_default().to_owned(),
        urgency: job.urgency,
        priority: job.priority,
        reason: exception(job).or_else(|| paced(job)).unwrap_or(reason),
        standing: job.suspension.standing(),
        suspended: job.suspension.lasted().0 as f64 / 1e6,
        t_suspend: job.suspension.since(),
        nnodes: placed.map_or(request.nodes.unwrap_or(1), |set| set.nnodes() as u32),
        ncores: placed.map_or(asked(request.cores_per_slot), |set| set.ncores() as u32),
        ngpus: placed.map_or(asked(request.gpus_per_slot), |set| set.ngpus() as u32),
        ntasks: request.ntasks,
        nodelist: placed.map_or_else(String::new, |set| set.nodelist()),
        duration: request.duration.map(|micros| micros as f64 / 1e6),
        t_submit: job.t_submit,
        t_alloc: job.t_alloc,
        t_run: job.started,
        t_finish: job.t_finish,
        t_inactive: job.t_inactive,
        t_unended: None,
        preemptions: job.preemptions,
        preempted: job.preempted.clone(),
        gives: job.shrinking.open().to_vec(),
        is_instance: matches!(spec.request.work, Work::Instance { .. }),
        exception: job.end.as_ref().map(|end| Ended {
            kind: end.exception.kind.clone(),
            severity: end.exception.severity,
            note: end.exception.note.clone(),
        }),
        dependencies: job.dependencies.iter().cloned().collect(),
        key: Some(job.submit.key).filter(|key| !key.is_nil()),
        cwd: spec.jobspec.attributes.system.cwd.clone(),
    }
}

/// How a job ended that is over: what its row says of that.
pub fn end(job: &Job) -> JobEnd {
    JobEnd {
        id: job.id,
        result: job.result().unwrap_or(JobResult::Failed),
        returncode: job.returncode().unwrap_or(1),
        exception: exception(job),
    }
}

/// The same by the row of a job that is over.
pub fn end_of_row(row: &JobRow) -> JobEnd {
    JobEnd {
        id: row.id,
        result: row.result.unwrap_or(JobResult::Failed),
        returncode: row.returncode.unwrap_or(1),
        exception: Some(row.reason.clone()).filter(|reason| !reason.is_empty()),
    }
}

/// The exception that ended it, or is to, in words.
fn exception(job: &Job) -> Option<String> {
    let exception = &job.end.as_ref()?.exception;
    let separator = if exception.note.is_empty() { "" } else { ": " };
    Some(format!("{}{separator}{}", exception.kind, exception.note))
}

/// What keeps one from running that has begun.
fn paced(job: &Job) -> Option<String> {
    let lacks = || {
        let lacks = job.suspension.lacks().unwrap_or_default();
        lacks.values().map(|cores| u64::from(*cores)).sum::<u64>()
    };
    match (job.state, job.suspension.standing()) {
        (JobState::Run, Standing::Stopping) => Some("its tasks are being stopped".to_owned()),
        // Who gave his cores to another goes on by himself.
        (JobState::Run, Standing::Suspended) => Some(format!(
            "it is suspended (`eddy resume {}` lets it go on)",
            job.id.f58_ascii()
        )),
        (JobState::Run, Standing::Resuming) => Some(format!(
            "suspended: waits for its {} cores to go on",
            lacks()
        )),
        _ => None,
    }
}

/// The name of a job, `{cc}` replaced.
pub fn name(submit: &Submit) -> String {
    let name = submit.spec.jobspec.name();
    match submit.cc {
        Some(cc) => name.replace("{cc}", &cc.to_string()),
        None => name.to_owned(),
    }
}

fn named(name: &Option<Name>) -> String {
    name.as_ref().map_or_else(String::new, Name::to_string)
}
