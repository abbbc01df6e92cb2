//! Jobs that people stop for a while, and let go on.

use eddy_broker::{Outbox, Request};
use eddy_wire::error::Refusal;
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::{Changed, SuspendRequest};
use eddy_wire::suspension::Standing;
use eddy_wire::time::Time;

use super::Manager;
use super::change::{Named, may_be_remarked};

impl Manager {
    pub(super) fn suspend(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<Changed, Refusal> {
        let body: SuspendRequest = request.parse()?;
        let all = body.jobs.is_empty();
        let named = Named::of(
            &body.jobs,
            body.job_set.as_deref(),
            (body.scope, request.uid),
        )?;
        self.each(request, named, |job| match can_stop(job) {
            Err(_) if all => Ok(None),
            Err(why) => Err(why),
            Ok(()) => match job.suspension.standing() {
                // For another job it is stopped until there is room, for a person until he says so.
                Standing::Stopping | Standing::Suspended if job.suspension.is_wanted() => Ok(None),
                Standing::Runs | Standing::Resuming | Standing::Stopping | Standing::Suspended => {
                    may_be_remarked(job)?;
                    Ok(Some(Kind::Suspend(Some(request.uid))))
                }
            },
        })
        .map(|proposed| proposed.append(now, out))
    }

    pub(super) fn resume(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<Changed, Refusal> {
        let body: SuspendRequest = request.parse()?;
        let all = body.jobs.is_empty();
        let named = Named::of(
            &body.jobs,
            body.job_set.as_deref(),
            (body.scope, request.uid),
        )?;
        self.each(request, named, |job| {
            match (runs(job), job.suspension.standing()) {
                (Err(_), _) if all => Ok(None),
                (Err(why), _) => Err(why),
                (Ok(()), Standing::Stopping) if let Some(preemption) = job.preemption() => {
                    match all {
                        // It is stopped for another alone, and goes on by itself.
                        _ if job.suspension.is_wanted() => Ok(Some(Kind::Suspend(None))),
                        true => Ok(None),
                        false => Err(format!(
                            "it gives its cores to {}, and goes on when it has some again",
                            self.shown(request, preemption.by)
                        )),
                    }
                }
                (Ok(()), Standing::Stopping | Standing::Suspended) => {
                    Ok(Some(Kind::Resume(Some(request.uid))))
                }
                // Whoever is not suspended needs nothing.
                (Ok(()), Standing::Runs | Standing::Resuming) => Ok(None),
            }
        })
        .map(|proposed| proposed.append(now, out))
    }

    /// A job as it is told of to a sender, who may not know of it.
    fn shown(&self, request: &Request, id: JobId) -> String {
        let user = self.jobs.get(&id).map(|job| job.submit.user);
        match user.is_some_and(|user| self.sight.hides(request.sender(), user)) {
            true => "another one".to_owned(),
            false => format!("job {}", id.f58_ascii()),
        }
    }
}

fn runs(job: &Job) -> Result<(), String> {
    match job.state {
        _ if job.submit.pass.is_some() => {
            Err("it was passed down: it is stopped and let go on in the parent".to_owned())
        }
        JobState::Run if job.started.is_some() => Ok(()),
        JobState::Run => Err("it is about to start".to_owned()),
        JobState::Cleanup => Err("it is ending".to_owned()),
        JobState::Inactive => Err("it is over".to_owned()),
        JobState::New | JobState::Depend | JobState::Priority | JobState::Sched => {
            Err("it is not running; `hold` keeps it waiting".to_owned())
        }
    }
}

/// Whether a job that runs can be stopped.
fn can_stop(job: &Job) -> Result<(), String> {
    runs(job)?;
    let request = &job.submit.spec.request;
    let why = match (&request.work, request.takes) {
        (Work::Instance { .. } | Work::Ground { .. }, _) => {
            "it is an instance: jobs in it can be suspended, by `--at`"
        }
        (Work::Tasks, Takes::Nothing) => "it takes nothing that it could give back",
        (Work::Tasks, Takes::Resources) if request.sockets.is_some() => {
            "its cores lie in sockets, which might not be free together again"
        }
        (Work::Tasks, Takes::Resources) => return Ok(()),
    };
    Err(why.to_owned())
}
