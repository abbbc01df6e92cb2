//! What jobs wait for before they are eligible, judged by their jobspecs as they were written.
//!
//! Shares nothing with the manager: it reads schemes and values itself and looks at what is
//! recorded of the jobs they name.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::{Attempt, JobId};
use eddy_wire::job::Job;
use eddy_wire::jobspec::{Dependency, Work};
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::time::Time;

use super::Ledger;

/// What was seen of that for which jobs wait.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Jobs before which none of their name was left when that was recorded.
    pub single: BTreeSet<JobId>,
    /// Jobs in instances, which are jobs here, that are over.
    pub inside: BTreeMap<(JobId, JobId), Vec<End>>,
}

/// A job in an instance that is over.
#[derive(Clone, Debug)]
pub struct End {
    /// In which attempt of its instance.
    pub attempt: Attempt,
    /// How it was then.
    pub job: Job,
    /// Whether that counts.
    pub counts: Counts,
}

/// Whether how a job in an instance ended counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Always,
    /// Its instance was to run again by then: only if it did not.
    IfLast,
}

impl Counts {
    /// Of what ends now in that attempt of an instance.
    pub fn of(instance: Option<&Job>, attempt: Attempt) -> Counts {
        let comes_again = |one: &Job| one.attempt != attempt || one.is_to_be_requeued();
        match instance.is_some_and(comes_again) {
            true => Counts::IfLast,
            false => Counts::Always,
        }
    }
}

/// How far something has come that a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Met,
    Open,
    /// It never will be.
    Lost,
}

/// A job leaves DEPEND only when everything is met.
pub fn may_go(ledger: &Ledger, job: &Job, t: Time) -> Result<(), String> {
    for dependency in dependencies(job) {
        let began = matches!(dependency.scheme.as_str(), "after" | "afterstart")
            && target(dependency).is_some_and(|target| ledger.started.contains(&target));
        let was_single = dependency.scheme == "singleton" && ledger.was_single(job.id);
        if !began && !was_single && standing(ledger, job, dependency, t) != Standing::Met {
            let (id, Dependency { scheme, value, .. }) = (job.id, dependency);
            return Err(format!(
                "job {id} was let go at {t}, and `{scheme}:{value}` was not met"
            ));
        }
    }
    Ok(())
}

/// None of its name is left before a job of which that is recorded.
pub fn may_be_single(ledger: &Ledger, job: &Job, t: Time) -> Result<(), String> {
    let mut needs = dependencies(job).iter();
    let single = needs.find(|one| one.scheme == "singleton");
    match single.map(|single| standing(ledger, job, single, t)) {
        Some(Standing::Open | Standing::Lost) => Err(format!(
            "job {} was let go at {t} by `singleton`, which was not met",
            job.id
        )),
        Some(Standing::Met) | None => Ok(()),
    }
}

/// It ends by what it waits for only if that cannot be met.
pub fn may_fail(ledger: &Ledger, job: &Job, t: Time) -> Result<(), String> {
    let lost = |one: &Dependency| {
        standing(ledger, job, one, t) == Standing::Lost || is_lost_inside(ledger, one)
    };
    match dependencies(job).iter().any(lost) {
        true => Ok(()),
        false => Err(format!(
            "job {} was ended though all it waits for can be met",
            job.id
        )),
    }
}

/// No more of an array hold resources than its throttle says.
pub fn is_throttled(ledger: &Ledger, job: &Job) -> Result<(), String> {
    let Some(most) = throttle(job) else {
        return Ok(());
    };
    let holds = |(other, _): &(&JobId, &Job)| ledger.held.contains_key(other);
    let held = array(ledger, job).filter(holds).count() as u64;
    match held > most {
        true => Err(format!(
            "{held} jobs of the array of job {} run, allowed are {most}",
            job.id
        )),
        false => Ok(()),
    }
}

/// Whether a job in DEPEND has nothing left to wait for.
pub fn is_left_behind(ledger: &Ledger, job: &Job, t: Time) -> bool {
    let met = |one: &Dependency| match inner(one) {
        Some(inner) => {
            inside(ledger, &one.scheme, inner, |attempt, of| attempt == of) != Standing::Open
        }
        None => standing(ledger, job, one, t) != Standing::Open,
    };
    if !dependencies(job).iter().all(met) {
        return false;
    }
    let under_way = |job: &Job| {
        !matches!(
            job.state,
            JobState::New | JobState::Depend | JobState::Inactive
        )
    };
    let Some(most) = throttle(job) else {
        return true;
    };
    let out = array(ledger, job).filter(|(_, job)| under_way(job)).count() as u64;
    job.urgency > 0 && out < most
}

/// What was passed down waits for nothing: its parent has seen to that.
fn dependencies(job: &Job) -> &[Dependency] {
    if job.submit.pass.is_some() {
        return &[];
    }
    &job.submit.spec.jobspec.attributes.system.dependencies
}

fn target(dependency: &Dependency) -> Option<JobId> {
    dependency.value.parse().ok()
}

fn throttle(job: &Job) -> Option<u64> {
    let other = &job.submit.spec.jobspec.attributes.system.other;
    other.get("array")?.get("throttle")?.as_u64()
}

/// The jobs of one submission. An instance's own may have a key that its parent knows for another.
fn array<'a>(ledger: &'a Ledger, job: &'a Job) -> impl Iterator<Item = (&'a JobId, &'a Job)> {
    let of = |job: &Job| {
        let submit = &job.submit;
        (submit.user, submit.key, submit.pass.is_some())
    };
    ledger
        .jobs
        .iter()
        .filter(move |(_, other)| of(other) == of(job))
}

fn standing(ledger: &Ledger, job: &Job, dependency: &Dependency, t: Time) -> Standing {
    let met = |met: bool| if met { Standing::Met } else { Standing::Open };
    match dependency.scheme.as_str() {
        "begin-time" => {
            let seconds = dependency.value.parse().ok().and_then(Time::from_seconds);
            met(seconds.is_some_and(|begin| t >= begin))
        }
        "singleton" => {
            let alike =
                |other: &Job| other.submit.user == job.submit.user && called(other) == called(job);
            let mut earlier = ledger.jobs.range(..job.id);
            met(!earlier.any(|(_, other)| other.state != JobState::Inactive && alike(other)))
        }
        scheme => match inner(dependency) {
            None => after(ledger, scheme, target(dependency)),
            Some(inner) => inside(ledger, scheme, inner, |_, _| true),
        },
    }
}

/// The job in an instance that is named, and the instance.
fn inner(dependency: &Dependency) -> Option<(JobId, JobId)> {
    let (instance, job) = dependency.value.split_once('/')?;
    instance.parse().ok().zip(job.parse().ok())
}

/// By what is known of the attempts that count, told that of the end and that of the instance; the best of it.
fn inside(
    ledger: &Ledger,
    scheme: &str,
    inner: (JobId, JobId),
    counts: impl Fn(Attempt, Attempt) -> bool,
) -> Standing {
    let instance = ledger.jobs.get(&inner.0);
    let ended = ended(ledger, inner);
    let ended = ended.filter(|(of, _)| instance.is_none_or(|one| counts(*of, one.attempt)));
    let met: Vec<bool> = ended.map(|(_, job)| is_met(scheme, Some(job))).collect();
    let is_over = instance.is_none_or(|instance| instance.state == JobState::Inactive);
    match (met.contains(&true), met.is_empty()) {
        (true, _) => Standing::Met,
        (false, false) => Standing::Lost,
        (false, true) if !is_over => Standing::Open,
        (false, true) if is_met(scheme, None) => Standing::Met,
        (false, true) => Standing::Lost,
    }
}

/// The ends of a job in an instance that count, each with the attempt of that.
fn ended(ledger: &Ledger, inner: (JobId, JobId)) -> impl Iterator<Item = (Attempt, &Job)> {
    let instance = ledger.jobs.get(&inner.0);
    let is_last = move |of: Attempt| {
        instance.is_none_or(|one| one.state == JobState::Inactive && one.attempt == of)
    };
    let ended = ledger.waits.inside.get(&inner).into_iter().flatten();
    let counts = move |end: &&End| end.counts == Counts::Always || is_last(end.attempt);
    ended.filter(counts).map(|end| (end.attempt, &end.job))
}

/// That its instance is over, and left no end of it, is only an end.
fn is_met(scheme: &str, ended: Option<&Job>) -> bool {
    let well = |job: &Job| job.result() == Some(JobResult::Completed);
    match (scheme, ended) {
        ("afterany", _) => true,
        ("afterok", Some(job)) => well(job),
        ("afternotok", Some(job)) => !well(job),
        ("afterexcept", Some(job)) => job.end.is_some(),
        _ => false,
    }
}

/// Whether it is of a job in an instance that did not end so in any of its attempts, or of an instance that is
/// over and in whose last attempt none ended so: what was not heard before it was over was read of what it left.
fn is_lost_inside(ledger: &Ledger, dependency: &Dependency) -> bool {
    let Some(inner) = inner(dependency) else {
        return false;
    };
    let Some(instance) = ledger.jobs.get(&inner.0) else {
        return true;
    };
    let ended: Vec<_> = ended(ledger, inner).collect();
    let is_met = |job: &Job| is_met(&dependency.scheme, Some(job));
    let mut last = ended.iter().filter(|(of, _)| *of == instance.attempt);
    let is_over = instance.state == JobState::Inactive;
    let is_lost = ended.iter().any(|(_, job)| !is_met(job));
    let is_unread = || went_with_its_queue(ledger, instance);
    is_lost || (is_over && (!last.any(|(_, job)| is_met(job)) || is_unread()))
}

/// Whether the queue instance that one was passed to ended while it held it: where it was only that one knew.
fn went_with_its_queue(ledger: &Ledger, instance: &Job) -> bool {
    let Some(queue) = ledger.away.get(&instance.id) else {
        return false;
    };
    let is_it = |one: &&Job| {
        let work = &one.submit.spec.request.work;
        matches!(work, Work::Instance { name: Some(name) } if name == queue)
    };
    let mut queues = ledger.jobs.values().filter(is_it);
    queues.any(|one| {
        let is_over = one.t_inactive.is_some() && one.t_inactive >= instance.t_alloc;
        // Or it is there in another attempt, which began since, or is to begin.
        let is_anew = one.attempt > Attempt(1);
        is_over || is_anew && one.t_alloc.is_none_or(|at| Some(at) >= instance.t_alloc)
    })
}

fn called(job: &Job) -> String {
    eddy_modules::row::name(&job.submit)
}

fn after(ledger: &Ledger, scheme: &str, target: Option<JobId>) -> Standing {
    let Some(job) = target.and_then(|target| ledger.jobs.get(&target)) else {
        return Standing::Lost;
    };
    let started = matches!(scheme, "after" | "afterstart") && job.started.is_some();
    if job.state != JobState::Inactive {
        return if started {
            Standing::Met
        } else {
            Standing::Open
        };
    }
    let well = job.result() == Some(JobResult::Completed);
    let is_met = match scheme {
        "afterany" => true,
        _ if job.t_alloc.is_none() => false,
        "afterok" => well,
        "afternotok" => !well,
        "afterexcept" => job.end.is_some(),
        _ => started,
    };
    if is_met {
        Standing::Met
    } else {
        Standing::Lost
    }
}
