//! What jobs in DEPEND wait for, and whether it is met: other jobs, here and in
//! instances, times, names, the throttle of an array.
//!
//! Told by the manager of every record that can meet something; it looks only at
//! the jobs that wait for just that, so a job with many dependants and a chain of
//! many cost each dependency once. All of it is derived: what is met is proposed
//! as `dependency-remove`, and a restart derives the rest from the records. A
//! need that was proposed as met is taken out here at once, so that nothing is
//! proposed twice before its record is folded.

mod array;
mod names;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::{Answer, Inner, Inside, Notice, Outbox, Query, Volatile};
use eddy_wire::event::{Exception, Kind};
use eddy_wire::id::JobId;
use eddy_wire::job::Job;
use eddy_wire::jobspec::{After, Need};
use eddy_wire::lifecycle::JobState;
use eddy_wire::time::{Span, Time};

use crate::ended::Ended;
use crate::timers::Timers;
use array::Arrays;
use names::Names;
use verdict::{End, Met, judged};

/// The jobs of the instance that are not done with.
pub(super) type Jobs = crate::jobs::Jobs<Job>;

/// When a question that the journal could not answer is asked again.
const AGAIN: Span = Span::seconds(1);

/// What jobs in DEPEND wait for.
#[derive(Default)]
pub(super) struct Waits {
    /// What each of them still waits for.
    left: BTreeMap<JobId, Vec<Need>>,
    /// Who waits for something of which job.
    dependants: BTreeMap<JobId, BTreeSet<JobId>>,
    /// What is waited for in instances: by whom, and what is known of it.
    inside: BTreeMap<Inner, (BTreeSet<JobId>, Option<Inside>)>,
    /// The next begin time of each that has one to come.
    timers: Timers,
    names: Names,
    arrays: Arrays,
    ended: Ended<End>,
    /// Jobs that the journal was asked for.
    asked: BTreeSet<JobId>,
    /// Those that it could not answer about, and when to ask again.
    unanswered: BTreeSet<JobId>,
}

impl Waits {
    /// A leader begins: all of it anew.
    pub(super) fn resume(&mut self, now: Time, jobs: &Jobs, out: &mut Outbox) {
        *self = Waits::default();
        for job in jobs.values() {
            self.arrays.resume(job);
        }
        for job in jobs.values().filter(|job| job.state == JobState::Depend) {
            self.enter(now, jobs, job, out);
        }
        self.wake(now, out);
    }

    /// A record of this job was folded.
    pub(super) fn applied(
        &mut self,
        now: Time,
        jobs: &Jobs,
        job: &Job,
        kind: &Kind,
        out: &mut Outbox,
    ) {
        match kind {
            Kind::Submit(_) => self.names.insert(job),
            Kind::Validate => {
                self.enter(now, jobs, job, out);
                self.wake(now, out);
            }
            Kind::JobspecUpdate(_) => self.renamed(now, jobs, job, out),
            Kind::Start => self.target_moved(now, jobs, job.id, out),
            Kind::Urgency(..) => {
                if self.left.contains_key(&job.id) {
                    self.offer(job);
                    self.pump(now, job, out);
                }
            }
            Kind::Exception(exception) if exception.severity == 0 => self.leave(job),
            Kind::Clean => self.over(now, jobs, job, out),
            _ => {}
        }
    }

    /// The end of this job is durable.
    pub(super) fn durable(&mut self, job: JobId) {
        self.ended.durable(job);
    }

    /// Begin times that have come, questions that are to be asked again.
    pub(super) fn tick(&mut self, now: Time, jobs: &Jobs, out: &mut Outbox) {
        for target in std::mem::take(&mut self.unanswered) {
            self.ask(target, out);
        }
        while let Some(id) = self.timers.pop(now) {
            self.look(now, jobs, id, |need| matches!(need, Need::Begin(_)), out);
        }
        self.wake(now, out);
    }

    /// The journal's answer about a job that had left memory.
    pub(super) fn answered(
        &mut self,
        now: Time,
        jobs: &Jobs,
        tag: u64,
        answer: &Answer,
        out: &mut Outbox,
    ) {
        let target = JobId(tag);
        if !self.asked.remove(&target) {
            return;
        }
        let end = match answer {
            Answer::Finished(Some(found)) => End::of_row(&found.0),
            Answer::Finished(None) => End::Forgotten,
            Answer::Failed(_) => {
                self.unanswered.insert(target);
                return out.volatile(Volatile::Wake(now.after(AGAIN)));
            }
            other => panic!("job {target} was asked for, the answer is {other:?}"),
        };
        self.ended.note(target, end);
        self.ended.durable(target);
        self.target_moved(now, jobs, target, out);
    }

    fn enter(&mut self, now: Time, jobs: &Jobs, job: &Job, out: &mut Outbox) {
        if job.dependencies.is_empty() {
            return;
        }
        let needs = job.submit.spec.needs.iter();
        let left = needs.filter(|need| job.dependencies.contains(&need.description()));
        let left: Vec<Need> = left.copied().collect();
        for need in &left {
            match need {
                Need::After(_, target) => {
                    self.dependants.entry(*target).or_default().insert(job.id);
                }
                Need::Within(_, instance, inner) => {
                    let inner = within(*instance, *inner, job.submit.user);
                    self.inside.entry(inner).or_default().0.insert(job.id);
                }
                Need::Begin(_) | Need::Singleton | Need::Throttle(_) => {}
            }
        }
        self.left.insert(job.id, left);
        self.look(now, jobs, job.id, |_| true, out);
    }

    /// Something happened to this job, or is known of it now.
    fn target_moved(&mut self, now: Time, jobs: &Jobs, target: JobId, out: &mut Outbox) {
        let waiting = self.dependants.get(&target).cloned().unwrap_or_default();
        for id in waiting {
            let of_it = |need: &Need| matches!(need, Need::After(_, of) if *of == target);
            self.look(now, jobs, id, of_it, out);
        }
    }

    /// Looks whether these of a job's needs are met.
    fn look(
        &mut self,
        now: Time,
        jobs: &Jobs,
        id: JobId,
        which: impl Fn(&Need) -> bool,
        out: &mut Outbox,
    ) {
        let (Some(needs), Some(job)) = (self.left.remove(&id), jobs.get(&id)) else {
            return;
        };
        let mut left = Vec::with_capacity(needs.len());
        let mut met = Vec::new();
        for (at, need) in needs.iter().enumerate() {
            let found = match which(need) {
                true => self.met(now, jobs, job, need, out),
                false => Met::Open,
            };
            match found {
                Met::Yes => {
                    met.push(*need);
                    remove(now, id, need, out);
                }
                Met::Open => left.push(*need),
                Met::Never(why) => {
                    let others = met.iter().chain(&left).chain(&needs[at..]);
                    others.for_each(|need| self.unhook(id, need));
                    return never(now, id, need, &why, out);
                }
            }
        }
        // It may wait for something else of the same job.
        for need in met {
            if !left.iter().any(|other| of_same(&need, other)) {
                self.unhook(id, &need);
            }
        }
        if left.is_empty() {
            return;
        }
        self.set_timer(id, &left);
        self.left.insert(id, left);
        self.offer(job);
        self.pump(now, job, out);
    }

    fn met(&mut self, now: Time, jobs: &Jobs, job: &Job, need: &Need, out: &mut Outbox) -> Met {
        match need {
            Need::After(after, target) => self.after(jobs, *after, *target, out),
            Need::Within(after, instance, inner) => {
                self.inside(*after, within(*instance, *inner, job.submit.user), out)
            }
            Need::Begin(t) if *t <= now => Met::Yes,
            Need::Begin(_) => Met::Open,
            Need::Singleton if self.names.is_first(jobs, job) => Met::Yes,
            // A place in the array is given by `pump`.
            Need::Singleton | Need::Throttle(_) => Met::Open,
        }
    }

    fn after(&mut self, jobs: &Jobs, after: After, target: JobId, out: &mut Outbox) -> Met {
        let end = match jobs.get(&target) {
            Some(job) if job.state != JobState::Inactive => {
                return match (after, job.started) {
                    (After::Start, Some(_)) => Met::Yes,
                    (_, _) => Met::Open,
                };
            }
            Some(job) => Some(End::of_job(job)),
            None => self.ended.get(target).copied(),
        };
        match end {
            Some(end) => judged(after, end),
            None => {
                self.ask(target, out);
                Met::Open
            }
        }
    }

    fn inside(&mut self, after: After, inner: Inner, out: &mut Outbox) -> Met {
        let heard = self.inside.get(&inner).and_then(|(_, heard)| *heard);
        let Some(heard) = heard else {
            out.notice(Notice::AskInside(inner));
            return Met::Open;
        };
        match (heard, after) {
            (Inside::Ended(result, by), _) => judged(after, End::heard(result, by)),
            (Inside::Unknown, _) => Met::Never("which its instance does not know".to_owned()),
            (Inside::Over, After::Any) => Met::Yes,
            (Inside::Over, _) => Met::Never(format!(
                "and job {} is no instance that is there, of which that could be heard",
                inner.instance.f58_ascii()
            )),
        }
    }

    /// What became of a job in an instance.
    pub(super) fn heard(
        &mut self,
        now: Time,
        jobs: &Jobs,
        (inner, heard): (Inner, Inside),
        out: &mut Outbox,
    ) {
        let Some((waiting, known)) = self.inside.get_mut(&inner) else {
            return;
        };
        *known = Some(heard);
        for id in waiting.clone() {
            let of_it = |need: &Need| match need {
                Need::Within(_, instance, job) => (*instance, *job) == (inner.instance, inner.job),
                Need::After(..) | Need::Begin(_) | Need::Singleton | Need::Throttle(_) => false,
            };
            self.look(now, jobs, id, of_it, out);
        }
    }

    fn ask(&mut self, target: JobId, out: &mut Outbox) {
        if self.asked.insert(target) {
            out.volatile(Volatile::Query(target.0, Query::Finished(target)));
        }
    }

    /// A job is over: who waited for it or its place, and what it waited for itself.
    fn over(&mut self, now: Time, jobs: &Jobs, job: &Job, out: &mut Outbox) {
        self.leave(job);
        self.ended.note(job.id, End::of_job(job));
        self.target_moved(now, jobs, job.id, out);
        if let Some(first) = self.names.remove(job.id) {
            self.look_alone(now, jobs, first, out);
        }
        self.arrays.over(job);
        self.pump(now, job, out);
    }

    /// It may have another name now: who waited for the old one, and whether it waits for the new one itself.
    fn renamed(&mut self, now: Time, jobs: &Jobs, job: &Job, out: &mut Outbox) {
        let Some(first) = self.names.renamed(job) else {
            return;
        };
        for id in first.into_iter().chain([job.id]) {
            self.look_alone(now, jobs, id, out);
        }
    }

    /// Looks whether it is the first of its name.
    fn look_alone(&mut self, now: Time, jobs: &Jobs, id: JobId, out: &mut Outbox) {
        self.look(now, jobs, id, |need| *need == Need::Singleton, out);
    }

    /// It waits no longer, whatever comes.
    fn leave(&mut self, job: &Job) {
        for need in self.left.remove(&job.id).unwrap_or_default() {
            self.unhook(job.id, &need);
        }
        self.arrays.leave(job);
    }

    fn unhook(&mut self, id: JobId, need: &Need) {
        match need {
            Need::After(_, target) => {
                if let Some(waiting) = self.dependants.get_mut(target) {
                    waiting.remove(&id);
                    if waiting.is_empty() {
                        self.dependants.remove(target);
                    }
                }
            }
            Need::Within(_, instance, inner) => {
                let (first, last) = (
                    within(*instance, *inner, 0),
                    within(*instance, *inner, u32::MAX),
                );
                for (_, (waiting, _)) in self.inside.range_mut(first..=last) {
                    waiting.remove(&id);
                }
                let left = |_: &Inner, (waiting, _): &mut (BTreeSet<JobId>, _)| waiting.is_empty();
                self.inside.extract_if(first..=last, left).for_each(drop);
            }
            Need::Begin(_) => self.timers.forget(id),
            Need::Singleton | Need::Throttle(_) => {}
        }
    }

    fn set_timer(&mut self, id: JobId, left: &[Need]) {
        let next = left.iter().filter_map(|need| match need {
            Need::Begin(t) => Some(*t),
            _ => None,
        });
        self.timers.set(id, next.min());
    }

    fn wake(&mut self, now: Time, out: &mut Outbox) {
        if let Some(at) = self.timers.wake(now) {
            out.volatile(Volatile::Wake(at));
        }
    }

    /// Says whether it could take a place of its array: when nothing else is left, and nobody holds it.
    fn offer(&mut self, job: &Job) {
        let left = self.left.get(&job.id);
        let is_last =
            left.is_some_and(|left| left.iter().all(|need| matches!(need, Need::Throttle(_))));
        match is_last && job.urgency > 0 {
            true => self.arrays.ready(job),
            false => self.arrays.leave(job),
        }
    }

    /// Gives places in this job's array to who is ready for one.
    fn pump(&mut self, now: Time, job: &Job, out: &mut Outbox) {
        while let Some((id, need)) = self.arrays.next(job) {
            self.left.remove(&id);
            remove(now, id, &need, out);
        }
    }
}

fn within(instance: JobId, job: JobId, user: u32) -> Inner {
    Inner {
        instance,
        job,
        user,
    }
}

/// Whether both wait for something of one job.
fn of_same(one: &Need, other: &Need) -> bool {
    match (one, other) {
        (Need::After(_, one), Need::After(_, other)) => one == other,
        (Need::Within(_, one, inner), Need::Within(_, other, of_other)) => {
            (one, inner) == (other, of_other)
        }
        (Need::Begin(_), Need::Begin(_)) => true,
        (_, _) => false,
    }
}

fn remove(now: Time, id: JobId, need: &Need, out: &mut Outbox) {
    out.append(now, id, Kind::DependencyRemove(need.description()));
}

/// It can never start: it ends, and says why.
fn never(now: Time, id: JobId, need: &Need, why: &str, out: &mut Outbox) {
    let exception = Exception {
        kind: "dependency".to_owned(),
        severity: 0,
        note: format!("it waited for {need}, {why}"),
        userid: None,
        until: None,
    };
    out.append(now, id, Kind::Exception(Box::new(exception)));
}
