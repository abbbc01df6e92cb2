//! Changes people ask for: exceptions, urgency, requeue. Each is checked job
//! by job and proposes one event for each job it can be true of.

use eddy_broker::{Module, Outbox, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Event, Exception, Kind};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::jobspec::Work;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::Service;
use eddy_wire::services::job::{
    self, Changed, JobSet, REFUSED_MAX, REMARKS_MAX, RaiseRequest, ReleaseRequest, RequeueRequest,
    Scope, URGENCY_MAX, UrgencyRequest, Would, is_declared,
};
use eddy_wire::services::sched;
use eddy_wire::time::Time;

use super::Manager;
use super::above::ordered_above;
use crate::named::{self, bounded};

/// Why nothing is done to a job that is not here, or of which its sender may not know.
pub(super) const NO_JOB: &str = "there is no such job, or it is over";

/// Whether something more may be said of a job that could be said without end.
pub(super) fn may_be_remarked(job: &Job) -> Result<(), String> {
    match job.remarks < REMARKS_MAX {
        true => Ok(()),
        false => Err(format!(
            "the limit `remarks` of an attempt is {REMARKS_MAX}, all are made"
        )),
    }
}

/// Whether who asks may have a job that urgent.
pub(super) fn may_be_so_urgent(request: &Request, job: &Job, urgency: u8) -> Result<(), String> {
    // What an administrator has made of it is no less its user's to keep.
    let most = request.sender().urgency_max().max(job.urgency);
    match urgency <= most {
        true => Ok(()),
        false => Err(format!(
            "urgency {urgency} given, its user may ask for 0 to {most}"
        )),
    }
}

impl Manager {
    pub(super) fn change(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        if request.topic == job::Order::TOPIC {
            return self.order(now, request, out);
        }
        if request.topic == job::Update::TOPIC {
            return self.update(now, request, out);
        }
        if request.topic == sched::Bounds::TOPIC {
            return self.bounds(request, out);
        }
        if request.topic == job::WouldRaise::TOPIC {
            out.reply(request.caller, &self.raise(request)?.would());
            return Ok(());
        }
        let proposed = match request.topic.as_str() {
            job::Raise::TOPIC => Some(self.raise(request)?),
            job::Urgency::TOPIC => Some(self.urgency(request)?),
            job::Release::TOPIC => Some(self.release(request)?),
            _ => None,
        };
        if let Some(proposed) = proposed {
            return self.later.begin(now, request.caller, proposed, out);
        }
        let changed = match request.topic.as_str() {
            job::RequeueJob::TOPIC => self.requeue(now, request, out)?,
            job::Suspend::TOPIC => self.suspend(now, request, out)?,
            job::Resume::TOPIC => self.resume(now, request, out)?,
            other => unreachable!("the router sent `{other}` to the manager"),
        };
        out.reply(request.caller, &changed);
        Ok(())
    }

    /// The next part of a change of many jobs that is under way.
    pub(super) fn change_on(&mut self, now: Time, out: &mut Outbox) {
        if let Some((began, asking, jobs)) = self.later.terms() {
            return self.update_on(now, (began, asking, &jobs), out);
        }
        let mut later = std::mem::take(&mut self.later);
        later.part(now, |id, kind| self.may_still(now, id, kind), out);
        self.later = later;
    }

    /// Whether that can be of a job yet, some turns after it was asked for.
    fn may_still(&self, now: Time, id: JobId, kind: &Kind) -> bool {
        let Some(job) = self.jobs.get(&id) else {
            return false;
        };
        let waits = matches!(
            job.state,
            JobState::Depend | JobState::Priority | JobState::Sched
        );
        match kind {
            Kind::Urgency(..) => waits && !self.above.orders(job),
            _ => self.stands(&Event {
                t: now,
                job: Some(id),
                kind: kind.clone(),
            }),
        }
    }

    fn raise(&self, request: &Request) -> Result<Proposed, Refusal> {
        let body: RaiseRequest = request.parse()?;
        if body.severity > 7 {
            let text = format!("severity: {} given, allowed are 0 to 7", body.severity);
            return Err(Refusal::invalid(text));
        }
        word(&body.kind)?;
        bounded("note", &body.note)?;
        let (all, is_alone) = (body.jobs.is_empty(), body.jobs.len() == 1);
        let named = Named::of(
            &body.jobs,
            body.job_set.as_deref(),
            (body.scope, request.uid),
        )?;
        self.each(request, named, |job| {
            let wanted = body.states.is_empty() || body.states.contains(&job.state);
            if all && !wanted {
                return Ok(None);
            }
            if !wanted {
                return Err(format!("it is in state {}", job.state.name()));
            }
            if matches!(job.state, JobState::New | JobState::Inactive) {
                return if all {
                    Ok(None)
                } else {
                    Err("it is over".to_owned())
                };
            }
            match body.severity {
                0 if is_alone => is_meant(job, body.declared.as_deref(), "cancel")?,
                0 => {}
                _ => may_be_remarked(job)?,
            }
            Ok(Some(Kind::Exception(Box::new(Exception {
                kind: body.kind.clone(),
                severity: body.severity,
                note: body.note.clone(),
                userid: Some(request.uid),
                until: None,
            }))))
        })
    }

    fn urgency(&self, request: &Request) -> Result<Proposed, Refusal> {
        let body: UrgencyRequest = request.parse()?;
        if body.urgency > URGENCY_MAX {
            let text = format!("urgency: {} given, allowed are 0 to 31", body.urgency);
            return Err(Refusal::invalid(text));
        }
        let all = body.jobs.is_empty();
        let named = Named::of(
            &body.jobs,
            body.job_set.as_deref(),
            (body.scope, request.uid),
        )?;
        self.each(request, named, |job| match job.state {
            _ if self.above.orders(job) && all => Ok(None),
            _ if self.above.orders(job) => Err(ordered_above()),
            JobState::Depend | JobState::Priority | JobState::Sched => {
                may_be_so_urgent(request, job, body.urgency)?;
                // Nobody stays held because too much was said.
                if job.urgency > 0 || body.urgency == 0 {
                    may_be_remarked(job)?;
                }
                Ok(Some(Kind::Urgency(body.urgency, request.uid)))
            }
            // A group are those of it that wait.
            _ if !body.jobs.names(job.id) => Ok(None),
            state => Err(past(state)),
        })
    }

    fn release(&self, request: &Request) -> Result<Proposed, Refusal> {
        let body: ReleaseRequest = request.parse()?;
        let all = body.jobs.is_empty();
        let named = Named::of(
            &body.jobs,
            body.job_set.as_deref(),
            (body.scope, request.uid),
        )?;
        self.each(request, named, |job| match job.state {
            _ if self.above.orders(job) && all => Ok(None),
            _ if self.above.orders(job) => Err(ordered_above()),
            // Whoever is not held needs nothing.
            JobState::Depend | JobState::Priority | JobState::Sched if job.urgency > 0 => Ok(None),
            JobState::Depend | JobState::Priority | JobState::Sched => {
                Ok(Some(Kind::Urgency(job.urgency_before, request.uid)))
            }
            // A group are those of it that wait.
            _ if !body.jobs.names(job.id) => Ok(None),
            state => Err(past(state)),
        })
    }

    fn requeue(
        &mut self,
        now: Time,
        request: &Request,
        out: &mut Outbox,
    ) -> Result<Changed, Refusal> {
        let body: RequeueRequest = request.parse()?;
        bounded("note", &body.note)?;
        let (attempts_max, is_alone) = (self.attempts_max, body.jobs.len() == 1);
        self.each(request, Named::by_number(&body.jobs)?, |job| {
            let named = body.attempt.unwrap_or(job.attempt);
            match job.state {
                // A repeated request: that attempt has ended, or is ending so.
                _ if named < job.attempt => Ok(None),
                JobState::Cleanup if job.is_to_be_requeued() => Ok(None),
                _ if named > job.attempt => Err(format!("it is in attempt {}", job.attempt)),
                JobState::Run if job.attempt.0 < attempts_max => {
                    if is_alone {
                        is_meant(job, body.declared.as_deref(), "job requeue")?;
                    }
                    Ok(Some(requeued(request, &body)))
                }
                JobState::Run => Err(format!("it has had its {attempts_max} attempts")),
                JobState::Inactive => Err("it is over".to_owned()),
                JobState::Cleanup => Err("it is ending".to_owned()),
                JobState::New | JobState::Depend | JobState::Priority | JobState::Sched => {
                    Err("it is not running".to_owned())
                }
            }
        })
        .map(|proposed| proposed.append(now, out))
    }

    /// Asks `change` for each job that is named and that the sender may act on.
    pub(super) fn each(
        &self,
        request: &Request,
        named: Named<'_>,
        change: impl Fn(&Job) -> Result<Option<Kind>, String>,
    ) -> Result<Proposed, Refusal> {
        let jobs = match named {
            Named::All => return Ok(self.every(request, |_| true, change)),
            Named::User(user) => {
                if !request.sender().may_act_for(user) {
                    let text = format!("scope: user {user} given, whose jobs are not yours");
                    return Err(Refusal::new(Code::Denied, text));
                }
                let of_him = |job: &Job| job.submit.user == user;
                return Ok(self.every(request, of_him, change));
            }
            Named::Set(set) => {
                let of_it = |job: &Job| job.submit.spec.set.as_deref() == Some(set);
                return Ok(self.every(request, of_it, change));
            }
            Named::Jobs(jobs) => jobs,
        };
        named::ranges(jobs)?;
        let mut proposed = Proposed::default();
        let is_seen = |job: &Job| !self.sight.hides(request.sender(), job.submit.user);
        let is_alone = jobs.len() == 1;
        let mut one = |job: &Job| {
            if !may_change(request, job) {
                return proposed.refuse(job.id, "it is another user's".to_owned());
            }
            match (change(job), declared(job)) {
                (Ok(Some(kind)), Some(name)) if !is_alone && stops(&kind) => {
                    proposed.spared.push((job.id, name.to_owned()));
                }
                (Ok(Some(kind)), _) => proposed.events.push((job.id, kind)),
                (Ok(None), _) => {}
                (Err(why), _) => proposed.refuse(job.id, why),
            }
        };
        for (first, last) in &jobs.ranges {
            self.jobs
                .range(*first..=*last)
                .filter(|(_, job)| is_seen(job))
                .for_each(|(_, job)| one(job));
        }
        for (first, last) in &jobs.ranges {
            let mut named = self.jobs.range(*first..=*last);
            if named.any(|(_, job)| is_seen(job)) {
                continue;
            }
            let why = match first == last {
                true => NO_JOB.to_owned(),
                false => format!("there is no such job, nor any up to {last}, or they are over"),
            };
            proposed.refuse(*first, why);
        }
        Ok(proposed)
    }

    /// The same for all on which the sender may act that `which` takes.
    fn every(
        &self,
        request: &Request,
        which: impl Fn(&Job) -> bool,
        change: impl Fn(&Job) -> Result<Option<Kind>, String>,
    ) -> Proposed {
        let mut proposed = Proposed::default();
        // A declared instance has the jobs of others in it: no group means it.
        for job in self.jobs.values().filter(|job| which(job)) {
            if !may_change(request, job) {
                let is_seen = !self.sight.hides(request.sender(), job.submit.user);
                proposed.others += u64::from(is_seen && matches!(change(job), Ok(Some(_))));
                continue;
            }
            match (change(job), declared(job)) {
                (Ok(Some(_)), Some(name)) => proposed.spared.push((job.id, name.to_owned())),
                (Ok(Some(kind)), None) => proposed.events.push((job.id, kind)),
                (Ok(None), _) => {}
                (Err(why), _) => proposed.refuse(job.id, why),
            }
        }
        proposed
    }
}

/// Which jobs a change is of.
pub(super) enum Named<'a> {
    /// All on which the sender may act.
    All,
    /// All of this user.
    User(u32),
    /// Those of a set of jobs.
    Set(&'a str),
    /// Those with these numbers.
    Jobs(&'a JobSet),
}

impl<'a> Named<'a> {
    pub(super) fn of(
        jobs: &'a JobSet,
        set: Option<&'a str>,
        (scope, sender): (Scope, u32),
    ) -> Result<Named<'a>, Refusal> {
        match (jobs.is_empty(), set, scope) {
            (true, None, Scope::All) => Ok(Named::User(sender)),
            (true, None, Scope::User(user)) => Ok(Named::User(user)),
            (true, None, Scope::Everybody) => Ok(Named::All),
            (true, Some(set), Scope::Named) => Ok(Named::Set(set)),
            (false, None, Scope::Named) => Ok(Named::Jobs(jobs)),
            (true, None, Scope::Named) => Err(Refusal::invalid(
                "jobs: none given; allowed are ranges of them, a job_set, or a scope of `all`",
            )),
            (false, Some(_), _) => Err(Refusal::invalid(
                "job_set: given beside jobs; allowed is one of them",
            )),
            (_, _, Scope::All | Scope::User(_) | Scope::Everybody) => Err(Refusal::invalid(
                "scope: given beside jobs or a job_set; allowed is one of them",
            )),
        }
    }

    /// Of a change that is never of all.
    fn by_number(jobs: &'a JobSet) -> Result<Named<'a>, Refusal> {
        match jobs.is_empty() {
            true => Err(Refusal::invalid("jobs: none given, at least one is needed")),
            false => Ok(Named::Jobs(jobs)),
        }
    }
}

/// Why the urgency of a job that does not wait is not changed.
fn past(state: JobState) -> String {
    match state {
        JobState::Inactive => "it is over".to_owned(),
        _ => "it is running: its place in the queue is past".to_owned(),
    }
}

/// Events for some jobs, refusals for others.
#[derive(Default)]
pub(super) struct Proposed {
    pub(super) events: Vec<(JobId, Kind)>,
    pub(super) refused: Vec<(JobId, String)>,
    spared: Vec<(JobId, String)>,
    /// So many more are meant that are other users'.
    others: u64,
}

impl Proposed {
    fn refuse(&mut self, job: JobId, why: String) {
        if self.refused.len() < REFUSED_MAX {
            self.refused.push((job, why));
        }
    }

    pub(super) fn append(self, now: Time, out: &mut Outbox) -> Changed {
        let (events, mut changed) = self.apart();
        changed.count = events.len() as u64;
        for (job, kind) in events {
            out.append(now, job, kind);
        }
        changed
    }

    /// What is told who only asks.
    fn would(self) -> Would {
        let others = self.others;
        let (events, changed) = self.apart();
        Would {
            jobs: JobSet::of(events.into_iter().map(|(job, _)| job)),
            others,
            changed,
        }
    }

    /// The events, and what is told of the others.
    pub(super) fn apart(self) -> (Vec<(JobId, Kind)>, Changed) {
        let changed = Changed {
            count: 0,
            refused: self.refused,
            spared: self.spared,
        };
        (self.events, changed)
    }
}

fn requeued(request: &Request, body: &RequeueRequest) -> Kind {
    Kind::Exception(Box::new(Exception {
        kind: "requeue".to_owned(),
        severity: 0,
        note: body.note.clone(),
        userid: Some(request.uid),
        until: None,
    }))
}

/// Whether that ends a job, or keeps it from going on.
fn stops(kind: &Kind) -> bool {
    matches!(kind, Kind::Exception(_) | Kind::Suspend(_))
}

/// The name under which a job that is an instance was declared.
fn declared(job: &Job) -> Option<&str> {
    match &job.submit.spec.request.work {
        Work::Instance { name } => name.as_deref(),
        Work::Tasks | Work::Ground { .. } => None,
    }
}

/// Whether who ends this one job knows what it is: the jobs of others end with a declared instance, and its number
/// looks like that of any job. It is its name that says so, not a word such as `force`, which would be in a script
/// before anybody had read of what.
fn is_meant(job: &Job, named: Option<&str>, verb: &str) -> Result<(), String> {
    match (declared(job), named) {
        (Some(name), Some(named)) if name == named => Ok(()),
        (Some(name), _) => Err(format!(
            "{}; `eddy {verb} --instance={name}` means it",
            is_declared(name)
        )),
        (None, None) => Ok(()),
        (None, Some(named)) => Err(format!("it is not the declared instance {named}")),
    }
}

fn may_change(request: &Request, job: &Job) -> bool {
    request.sender().may_act_for(job.submit.user)
}

/// What eddy itself raises with a meaning of its own: a job that ended by it is not charged, say, or begins again.
const OWN_WORDS: [&str; 6] = [
    "bounce",
    "dependency",
    "hung",
    "node-failure",
    "requeue",
    "timeout",
];

/// An exception's type is one word; eddy's own are not for users.
fn word(kind: &str) -> Result<(), Refusal> {
    let is_word = !kind.is_empty() && !kind.contains(|c: char| c.is_whitespace() || c.is_control());
    if !is_word || kind.len() > 64 {
        let text = format!("type: `{}` given, one word is allowed", kind.escape_debug());
        return Err(Refusal::invalid(text));
    }
    if OWN_WORDS.contains(&kind) {
        let text = format!("type: `{kind}` is eddy's own; any other word is allowed");
        return Err(Refusal::invalid(text));
    }
    Ok(())
}
