//! What may be other of a job: the time limit of one that waits or runs, and name, queue, account and QoS
//! of one that waits. Who may ask for it, and of which jobs.
//!
//! Whether such a job could be had at all ingest knows, as of a submission; it is told and answers
//! (`ingest/update.rs`). What is asked of many jobs is recorded first, and found of each by its turn (`later`).

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::{
    Lent, LimitChange, LimitedJob, LimitsTold, NewLimit, NewLimits, Notice, Outbox, Request,
    Sender, SupposedJob,
};
use eddy_wire::error::Refusal;
use eddy_wire::fsd::{NUMBER_MAX, seconds_of_micros};
use eddy_wire::gang;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::job::Job;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::{LIMIT_MOVED, Scope, UpdateRequest};
use eddy_wire::services::sched::{BoundsRequest, SUPPOSED_MAX};
use eddy_wire::time::{Span, Time};
use eddy_wire::update::{Change, DURATION, Limit, Terms, UNLIMITED};

use serde_json::Number;

use super::Manager;
use super::change::{Named, may_be_so_urgent};
use super::later::{Asking, PART};
use crate::named::{job_name, ranges};

/// No limit is longer, as in a jobspec: some 136 years.
const LIMIT_MAX: Span = Span(NUMBER_MAX);

impl Manager {
    /// Asks for something else of jobs.
    pub(super) fn update(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let body: UpdateRequest = request.parse()?;
        let limit = asked_limit(&body)?;
        let named = Named::of(
            &body.jobs,
            body.job_set.as_deref(),
            (Scope::Named, request.uid),
        )?;
        let sender = request.sender();
        let proposed = self.each(request, named, |job| {
            let asked = Change {
                limit,
                ..Change::default()
            };
            let changes = is_to_change(now, sender, job, (limit, &body))?;
            Ok(changes.then(|| asked.record(Some(sender.uid), None)))
        })?;
        let (events, changed) = proposed.apart();
        let jobs: Vec<JobId> = events.into_iter().map(|(id, _)| id).collect();
        let asking = Asking::new(sender, body);
        if jobs.len() > PART {
            return self
                .later
                .begin_terms(now, request.caller, (asking, jobs), changed, out);
        }
        let told = LimitsTold::Caller(request.caller);
        self.ask_terms(now, (told, &asking), (&jobs, changed.refused), out);
        Ok(())
    }

    /// The next part of a change of many jobs: those that may have it by now.
    pub(super) fn update_on(
        &self,
        now: Time,
        (began, asking, jobs): (Seq, &Asking, &[JobId]),
        out: &mut Outbox,
    ) {
        let limit = asked_limit(&asking.request).ok().flatten();
        let (mut goes, mut refused) = (Vec::new(), Vec::new());
        // Who is over by its turn is not refused: it was not when it was asked for.
        for job in jobs.iter().filter_map(|id| self.jobs.get(id)) {
            match is_to_change(now, asking.sender(), job, (limit, &asking.request)) {
                Ok(true) => goes.push(job.id),
                Ok(false) => {}
                Err(why) => refused.push((job.id, why)),
            }
        }
        let told = LimitsTold::Change(began);
        self.ask_terms(now, (told, asking), (&goes, refused), out);
    }

    /// Asks ingest, which records what of it may be.
    fn ask_terms(
        &self,
        now: Time,
        (told, asking): (LimitsTold, &Asking),
        (jobs, refused): (&[JobId], Vec<(JobId, String)>),
        out: &mut Outbox,
    ) {
        let request = &asking.request;
        let limit = asked_limit(request).ok().flatten();
        let asked = jobs.iter();
        let asked = asked.filter_map(|id| self.asked(now, *id, (limit, &request.set)));
        out.notice(Notice::Limits(Box::new(NewLimits {
            told,
            sender: asking.sender(),
            key: request.reckoned.map(|reckoned| reckoned.key),
            lent: match request.force {
                true => Lent::Longer,
                false => Lent::AsSaid,
            },
            refused,
            asked: asked.collect(),
        })));
    }

    /// Asks ingest what would be in the way of jobs that wait, as that knows it of a change.
    pub(super) fn bounds(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let BoundsRequest { jobs, suppose } = request.parse()?;
        ranges(&jobs)?;
        suppose
            .check()
            .map_err(|error| Refusal::invalid(error.to_string()))?;
        let only = self.sight.only(request.sender());
        let asked = jobs.ranges.iter().filter(|(first, last)| first <= last);
        let asked = asked.flat_map(|(first, last)| self.jobs.range(*first..=*last));
        let waits = asked.filter(|(_, job)| {
            let is_shown = only.is_none_or(|user| user == job.submit.user);
            job.state.is_pending() && is_shown
        });
        let waits: BTreeMap<JobId, &Job> = waits
            .map(|(id, job)| (*id, job))
            .take(SUPPOSED_MAX)
            .collect();
        let urgency = suppose.urgency;
        let waits = waits.into_iter().map(|(id, job)| SupposedJob {
            job: id,
            submit: Arc::clone(&job.submit),
            denied: urgency.and_then(|urgency| may_be_so_urgent(request, job, urgency).err()),
        });
        let waits = waits.collect();
        out.notice(Notice::Supposed(request.caller, Box::new(suppose), waits));
        Ok(())
    }

    /// What ingest is to know of it.
    fn asked(
        &self,
        now: Time,
        id: JobId,
        (limit, set): (Option<Limit>, &Terms),
    ) -> Option<NewLimit> {
        let job = self.jobs.get(&id)?;
        let before = limit_of(job);
        let stage = match job.grant() {
            None => LimitedJob::Waits,
            Some(grant) => LimitedJob::Runs {
                ranks: grant.set.ranks(),
                until: now.after(Span(limit?.span()?.0 - job.suspension.has_run(now).0)),
            },
        };
        Some(NewLimit {
            job: id,
            submit: Arc::clone(&job.submit),
            limit: limit.filter(|limit| *limit != Limit::of_spec(&job.submit.spec)),
            change: limit.map_or(LimitChange::Shorter, |limit| change(before, limit)),
            set: set.clone(),
            stage,
        })
    }
}

/// The time limit that is asked for, if one is, or none.
fn asked_limit(body: &UpdateRequest) -> Result<Option<Limit>, Refusal> {
    if let Some(name) = &body.set.name {
        job_name(name)?;
    }
    let Some(duration) = body.duration else {
        return match body.set.is_empty() {
            true => Err(Refusal::invalid(
                "set: nothing given; allowed are a duration, and name, queue, account and qos",
            )),
            false => Ok(None),
        };
    };
    if duration < Span::ZERO || duration > LIMIT_MAX {
        return Err(Refusal::invalid(format!(
            "{DURATION}: {} s given, allowed is more than 0 and at most {} s, or 0 for none",
            seconds(duration),
            seconds(LIMIT_MAX)
        )));
    }
    match Limit::of(Some(duration)) {
        limit if !body.unlimited => Ok(Some(limit)),
        Limit::Without | Limit::Unlimited => Ok(Some(Limit::Unlimited)),
        Limit::To(limit) => Err(Refusal::invalid(format!(
            "{UNLIMITED}: true given beside a limit of {} s; allowed is that of 0",
            seconds(limit)
        ))),
    }
}

/// Whether a job is to have something else, if it may.
fn is_to_change(
    now: Time,
    sender: Sender,
    job: &Job,
    (limit, asked): (Option<Limit>, &UpdateRequest),
) -> Result<bool, String> {
    may_change(now, sender, job, (limit, &asked.set))?;
    let changes = differs(job, (limit, &asked.set));
    if let Some(reckoned) = asked.reckoned {
        let is_said_again = !changes && job.reckoned == Some(reckoned.key);
        if !is_said_again && limit_of(job) != Some(reckoned.from) {
            return Err(LIMIT_MOVED.to_owned());
        }
    }
    Ok(changes)
}

/// Whether a job may have something else, by who asks and how far it is.
fn may_change(
    now: Time,
    sender: Sender,
    job: &Job,
    (limit, set): (Option<Limit>, &Terms),
) -> Result<(), String> {
    let request = &job.submit.spec.request;
    if let Work::Instance { name: Some(name) } = &request.work {
        return Err(match set.first_key() {
            None => format!("it is queue instance {name}, which has no time limit"),
            Some(key) => format!("{key}: it is queue instance {name}, which is as it is declared"),
        });
    }
    if job.submit.pass.is_some() {
        return Err("it was passed down: it is changed in the parent".to_owned());
    }
    match job.state {
        JobState::Inactive => Err("it is over".to_owned()),
        JobState::Cleanup => Err("it is ending".to_owned()),
        JobState::New | JobState::Depend | JobState::Priority | JobState::Sched => {
            may_move(job, set)
        }
        JobState::Run => match (set.first_key(), limit) {
            (Some(key), _) => Err(format!(
                "{key}: it has begun; only the time limit of one that runs may be changed"
            )),
            (None, Some(Limit::Without | Limit::Unlimited)) => Err(format!(
                "{DURATION}: none given, it has begun; allowed is a time"
            )),
            (None, Some(Limit::To(limit))) => match limit_of(job) {
                before if before == Some(limit) => Ok(()),
                before => may_run(now, sender, job, (before, limit)),
            },
            (None, None) => Ok(()),
        },
    }
}

/// Whether one that waits may be with others.
fn may_move(job: &Job, set: &Terms) -> Result<(), String> {
    let Some(key) = set.first_key().filter(|_| set.moves()) else {
        return Ok(());
    };
    let spec = &job.submit.spec;
    if let Some(name) = &job.submit.taken_in {
        return Err(format!(
            "{key}: instance `{name}` took it while this one was away, as it was"
        ));
    }
    if let Ok(Some(gang)) = gang::of(spec) {
        return Err(format!(
            "{key}: it is of gang `{}`, of which all are in one queue and charged alike",
            gang.name
        ));
    }
    match (&spec.request.work, spec.request.takes) {
        (Work::Ground { of }, _) => Err(format!(
            "{key}: job {of} is to grow by it, and it goes with that"
        )),
        (_, Takes::Nothing) => Err(format!(
            "{key}: it takes nothing, so it is in no queue and charged to nobody"
        )),
        (Work::Tasks | Work::Instance { .. }, Takes::Resources) => Ok(()),
    }
}

/// Whether a job is not like that already, as far as can be seen without its defaults.
fn differs(job: &Job, (limit, set): (Option<Limit>, &Terms)) -> bool {
    let submit = &job.submit;
    let system = &submit.spec.jobspec.attributes.system;
    let other = |asked: &Option<String>, has: Option<&str>| {
        asked.as_deref().is_some_and(|asked| Some(asked) != has)
    };
    let party = &submit.party;
    limit.is_some_and(|limit| limit != Limit::of_spec(&submit.spec))
        || other(&set.name, Some(submit.spec.jobspec.name()))
        || other(&set.queue, system.queue.as_deref())
        || other(
            &set.account,
            party.account.as_ref().map(|name| name.as_str()),
        )
        || other(&set.qos, party.qos.as_ref().map(|name| name.as_str()))
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
    if change(before, Limit::To(limit)) == LimitChange::Longer && !sender.roles.may_administer() {
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

fn change(before: Option<Span>, limit: Limit) -> LimitChange {
    match (before, limit) {
        (Some(before), Limit::To(limit)) if before >= limit => LimitChange::Shorter,
        (Some(_), Limit::To(_) | Limit::Without | Limit::Unlimited) => LimitChange::Longer,
        (None, _) => LimitChange::Shorter,
    }
}

fn seconds(span: Span) -> Number {
    seconds_of_micros(span.0)
}
