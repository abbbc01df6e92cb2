//! Another time limit for jobs that wait or run: who may ask for it, and of which jobs.
//!
//! Whether such a job could be had at all ingest knows, as of a submission; it is told and answers
//! (`ingest/update.rs`).

use std::sync::Arc;

use eddy_broker::{LimitChange, LimitedJob, NewLimit, NewLimits, Notice, Outbox, Request, Sender};
use eddy_wire::error::Refusal;
use eddy_wire::event::Kind;
use eddy_wire::fsd::{NUMBER_MAX, seconds_of_micros};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::jobspec::Work;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::{LIMIT_MOVED, Scope, UpdateRequest};
use eddy_wire::time::{Span, Time};
use eddy_wire::update::{self, DURATION};

use serde_json::Number;

use super::Manager;
use super::change::Named;

/// No limit is longer, as in a jobspec: some 136 years.
const LIMIT_MAX: Span = Span(NUMBER_MAX);

impl Manager {
    /// Asks for other time limits.
    pub(super) fn update(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: UpdateRequest = request.parse()?;
        if body.duration <= Span::ZERO || body.duration > LIMIT_MAX {
            return Err(Refusal::invalid(format!(
                "{DURATION}: {} s given, allowed is more than 0 and at most {} s",
                seconds(body.duration),
                seconds(LIMIT_MAX)
            )));
        }
        let named = Named::of(
            &body.jobs,
            body.job_set.as_deref(),
            (Scope::Named, request.uid),
        )?;
        let sender = request.sender();
        let proposed = self.each(request, named, |job| {
            let changes = changes(now, sender, job, body.duration)?;
            if let Some(reckoned) = body.reckoned {
                let is_said_again = !changes && job.reckoned == Some(reckoned.key);
                if !is_said_again && limit_of(job) != Some(reckoned.from) {
                    return Err(LIMIT_MOVED.to_owned());
                }
            }
            Ok(changes.then(|| update::to_duration(body.duration, Some(sender.uid), None)))
        })?;
        let asked = proposed.events.iter();
        let asked = asked.filter_map(|(id, kind)| self.asked(now, *id, kind));
        let asked = asked.collect();
        out.notice(Notice::Limits(Box::new(NewLimits {
            caller: request.caller,
            sender,
            key: body.reckoned.map(|reckoned| reckoned.key),
            refused: proposed.refused,
            asked,
        })));
        Ok(())
    }

    /// What ingest is to know of it.
    fn asked(&self, now: Time, id: JobId, kind: &Kind) -> Option<NewLimit> {
        let (Some(job), Kind::JobspecUpdate(map)) = (self.jobs.get(&id), kind) else {
            return None;
        };
        let limit = update::duration(map)?;
        let stage = match job.grant() {
            None => LimitedJob::Waits,
            Some(grant) => LimitedJob::Runs {
                ranks: grant.set.ranks(),
                until: now.after(Span(limit.0 - job.suspension.has_run(now).0)),
            },
        };
        Some(NewLimit {
            job: id,
            submit: Arc::clone(&job.submit),
            limit,
            change: change(limit_of(job), limit),
            stage,
        })
    }
}

/// Whether a job would have another limit than it has, if whoever asks may give it that.
fn changes(now: Time, sender: Sender, job: &Job, limit: Span) -> Result<bool, String> {
    let request = &job.submit.spec.request;
    if let Work::Instance { name: Some(name) } = &request.work {
        return Err(format!(
            "it is queue instance {name}, which has no time limit"
        ));
    }
    if job.submit.pass.is_some() {
        return Err("it was passed down: its time limit is changed in the parent".to_owned());
    }
    let before = limit_of(job);
    match job.state {
        JobState::Inactive => Err("it is over".to_owned()),
        JobState::Cleanup => Err("it is ending".to_owned()),
        JobState::New | JobState::Depend | JobState::Priority | JobState::Sched => {
            Ok(before != Some(limit))
        }
        JobState::Run if before == Some(limit) => Ok(false),
        JobState::Run => may_run(now, sender, job, (before, limit)).map(|()| true),
    }
}

/// Whether one that has begun may have it.
fn may_run(
    now: Time,
    sender: Sender,
    job: &Job,
    (before, limit): (Option<Span>, Span),
) -> Result<(), String> {
    let ran = job.suspension.has_run(now);
    if limit <= ran {
        return Err(format!(
            "{DURATION}: {} s given, it has run for {} s; allowed is more, and `cancel` ends it",
            seconds(limit),
            seconds(ran)
        ));
    }
    if change(before, limit) == LimitChange::Longer && !sender.roles.may_administer() {
        return Err(format!(
            "{DURATION}: {} s given, user {} may make it shorter; the owner and admins give a job more time \
             once it has begun",
            seconds(limit),
            sender.uid
        ));
    }
    Ok(())
}

fn limit_of(job: &Job) -> Option<Span> {
    job.submit.spec.request.duration.map(Span)
}

fn change(before: Option<Span>, limit: Span) -> LimitChange {
    match before {
        Some(before) if before < limit => LimitChange::Longer,
        Some(_) | None => LimitChange::Shorter,
    }
}

fn seconds(span: Span) -> Number {
    seconds_of_micros(span.0)
}
