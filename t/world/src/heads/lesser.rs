//! Whether a start that was promised is lost to nobody who is due less, where turns change while jobs wait.
//!
//! There (`flux`) whoever is due more takes what others were promised, so that a start which moves is no fault by
//! itself. But then somebody who is due as much or more came, begins, or has another start than before: where all of
//! these are told what they were told before, what was lost went to a lesser one. The planner is asked with each pass
//! what it promises and what each is due; whether it reckons that right is judged in `dues`. What else may move a start
//! is told of in the changes or seen by the clock, as in `kept`. Who began is held to have been due what he was told;
//! for whom something ended since then is due more, and nobody was told how much.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_sched::policy::{Limits, Policy, Reservations, Rung, Source, Walk};
use eddy_wire::account::Book;
use eddy_wire::id::JobId;
use eddy_wire::plan::{
    Answer, Basis, Delta, Explained, Outcome, Owner, Question, Suppose, Verdict,
};
use eddy_wire::time::Time;

use super::apart::Queue;
use super::dues::{EXPEDITE, LITTLE};
use super::kept::{MOST, SLACK, is_within};
use super::{Pass, Watched};

/// Whoever asks in a world has numbers of his own.
const TAG: u64 = u64::MAX - 1;

/// By so many times nobody's value is higher than another's.
const MARGIN: f64 = 1000.0;

/// What each who waits was told, in the last pass that was whole.
#[derive(Default)]
pub(super) struct Lesser {
    told: BTreeMap<JobId, Told>,
    /// The starts that were promised then, also where they may have moved since.
    promised: BTreeMap<JobId, Time>,
    judged: u64,
}

/// What one is due, and the start that he is told.
#[derive(Clone, Copy, Debug)]
struct Told {
    value: f64,
    start: Start,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Promised(Time),
    /// By what nobody promised: it may be any other at any time.
    Likely,
    Unknown,
}

impl Told {
    fn of(one: &Explained) -> Told {
        let start = one.start.map(|start| (start.basis, start.latest));
        Told {
            value: one.priority.value,
            start: match start {
                Some((Basis::Promise, Some(at))) => Start::Promised(at),
                Some((_, Some(_))) => Start::Likely,
                Some((_, None)) | None => Start::Unknown,
            },
        }
    }

    /// Whether it is planned as it was.
    fn is_as(self, before: Told) -> bool {
        match (before.start, self.start) {
            (Start::Promised(before), Start::Promised(now)) => {
                now <= before.after(SLACK) && before <= now.after(SLACK)
            }
            (Start::Unknown, Start::Unknown) => true,
            _ => false,
        }
    }
}

/// Whose start is promised, and when that is.
fn promised(one: &Explained) -> Option<(JobId, Time)> {
    match Told::of(one).start {
        Start::Promised(at) => Some((one.job, at)),
        Start::Likely | Start::Unknown => None,
    }
}

/// Where promises are kept, and whoever is due more may take them, however little.
fn is_judged(policy: &Policy) -> bool {
    let queue = &policy.queue;
    queue.source == Source::Global
        && matches!(queue.walk, Walk::Reserve { .. })
        && queue.reservations == Reservations::Kept
        && queue.displace_margin == 0.0
        && queue.limits == Limits::default()
        && queue.replan_every.is_none()
        && queue.reserve_after.is_none()
        && queue.default_limit.is_none()
        && policy.placement.ladder == [Rung::Free]
        && policy.priority.order != ["urgency"]
}

/// Whether what ends for one changes by itself what the other is due.
fn is_kin(book: &Book, one: &Owner, other: &Owner) -> bool {
    match (&one.account, &other.account) {
        (Some(own), Some(theirs)) => {
            let mut line = book.line(own);
            line.any(|(name, _)| book.line(theirs).any(|(other, _)| name == other))
        }
        (None, None) => one.user == other.user,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The rule broken: nobody takes from others what is promised to them.
pub(super) fn for_good(text: &Arc<str>) -> Arc<str> {
    match read(text) {
        Ok(mut policy) if is_judged(&policy) => {
            policy.queue.displace_margin = MARGIN;
            print(&policy).into()
        }
        Ok(_) | Err(_) => Arc::clone(text),
    }
}

impl Lesser {
    /// The start that one was promised in the last pass that was whole.
    pub fn promised(&self, job: JobId) -> Option<Time> {
        self.promised.get(&job).copied()
    }
}

impl Watched {
    /// The rule broken: whoever is due most is taken for one who may run for ever, so that others, who are due less,
    /// keep him from what he was promised. Merely to come anew costs him nothing: he is the first to be planned.
    pub(super) fn drop_promise(&mut self) {
        let promised = self.lesser.told.iter();
        let promised = promised.filter(|(_, told)| matches!(told.start, Start::Promised(_)));
        let first = promised.max_by(|(_, one), (_, other)| one.value.total_cmp(&other.value));
        let want = first.and_then(|(job, _)| {
            let mut queues = self.queues();
            queues.find_map(|queue| Some((*job, queue.wants.get(job)?.clone())))
        });
        if let Some((job, mut want)) = want {
            want.request.duration = None;
            self.planner.apply(Delta::Unwant(job));
            self.planner.apply(Delta::Want(job, want));
        }
    }

    fn judges_lesser(&self) -> bool {
        let policy = self.policy.as_ref().map(|(_, policy)| policy);
        policy.is_some_and(is_judged) && !self.closes()
    }

    /// Something changes: what it may move is told no more.
    pub(super) fn note_lesser(&mut self, delta: &Delta) {
        match delta {
            Delta::Want(_, want) if want.reservation.is_some() => {}
            Delta::Want(job, _) => drop(self.lesser.told.remove(job)),
            Delta::Held(job, owner, set) => {
                let queue = self.queue_of(&owner.line);
                let known = queue.and_then(|queue| queue.held.get(job));
                if known.is_none_or(|(_, known)| !is_within(set, known)) {
                    self.lesser.told.clear();
                }
            }
            Delta::Freed(job) => self.relieve(*job),
            Delta::Account(_) => {
                let told = self.lesser.told.values_mut();
                told.for_each(|told| told.value = f64::INFINITY);
            }
            // What was proposed for it is void, and so is what was planned by that.
            Delta::Unwant(job) if self.queues().any(|queue| queue.held.contains_key(job)) => {
                self.lesser.told.clear();
            }
            Delta::Unwant(job) => drop(self.lesser.told.remove(job)),
            Delta::Charged(..) | Delta::Settled(..) | Delta::Used(_) => {}
            Delta::Explain(_) | Delta::Shares(_) | Delta::Up(_) => {}
            _ => self.lesser.told.clear(),
        }
    }

    /// A job ends: whoever is charged with it, or is in an account with who is, may be due anything more.
    fn relieve(&mut self, job: JobId) {
        let mut told = std::mem::take(&mut self.lesser.told);
        if let Some(owner) = self.dues.payer(job) {
            for queue in self.queues() {
                let wants = queue.wants.iter();
                let kin = wants.filter(|(_, want)| is_kin(self.dues.book(), owner, &want.owner));
                for (other, _) in kin {
                    if let Some(told) = told.get_mut(other) {
                        told.value = f64::INFINITY;
                    }
                }
            }
        }
        self.lesser.told = told;
    }

    /// With the pass that begins the planner is asked what it promises, where that can be judged.
    pub(super) fn ask_lesser(&mut self) {
        if self.pass == Pass::Over && self.judges_lesser() {
            self.planner.apply(Delta::Explain(Question {
                tag: TAG,
                jobs: None,
                most: MOST,
                suppose: Suppose::default(),
                wants: Vec::new(),
                lent: Vec::new(),
            }));
        }
    }

    /// Nobody loses a promise to who is due less. Takes its own answer out of the outcome.
    pub(super) fn check_lesser(&mut self, outcome: &mut Outcome, now: Time) -> Result<(), String> {
        let answered = outcome.answers.iter().position(|answer| answer.tag == TAG);
        let answer = answered.map(|at| outcome.answers.remove(at));
        if !self.judges_lesser() {
            self.lesser.told.clear();
            return Ok(());
        }
        let is_whole = self.pass == Pass::Over && !outcome.unfinished;
        let Some(answer) = answer.filter(|_| is_whole) else {
            return Ok(());
        };
        let known = std::mem::take(&mut self.lesser.told);
        let mut lesser = Lesser::default();
        let checked = self.queues().try_for_each(|queue| {
            let all = (queue, now);
            self.check_lesser_in(all, (&answer, outcome), (&known, &mut lesser))
        });
        self.tally.losses += lesser.judged;
        let promised = answer.jobs.iter().filter_map(promised);
        lesser.promised = promised.collect();
        self.lesser = lesser;
        checked
    }

    fn check_lesser_in(
        &self,
        (queue, now): (Queue<'_>, Time),
        (answer, outcome): (&Answer, &Outcome),
        (known, lesser): (&BTreeMap<JobId, Told>, &mut Lesser),
    ) -> Result<(), String> {
        let is_plain = queue
            .wants
            .values()
            .all(|want| want.urgency < EXPEDITE && want.back.is_none());
        if !is_plain || !self.is_promised(queue) || self.is_late(queue, now) {
            return Ok(());
        }
        let decided = |job: &JobId| outcome.verdicts.iter().any(|(other, _)| other == job);
        let waiting = answer.jobs.iter();
        let waiting =
            waiting.filter(|one| queue.wants.contains_key(&one.job) && !decided(&one.job));
        let all: BTreeMap<JobId, Told> = waiting.map(|one| (one.job, Told::of(one))).collect();
        // Who began since, or begins, may have been given anything.
        let begun = known.iter().filter(|(job, _)| !all.contains_key(job));
        let begun = begun.map(|(_, told)| told.value);
        let starts = outcome
            .verdicts
            .iter()
            .filter_map(|(job, verdict)| match verdict {
                Verdict::Start(_) if !known.contains_key(job) => Some(f64::INFINITY),
                Verdict::Start(_) | Verdict::Never(_) | Verdict::Preempt { .. } => None,
            });
        let moved = all
            .iter()
            .filter(|(job, told)| known.get(job).is_none_or(|before| !told.is_as(*before)));
        let mut by: Vec<(Option<JobId>, f64)> =
            begun.chain(starts).map(|value| (None, value)).collect();
        by.extend(moved.map(|(job, told)| (Some(*job), told.value)));
        for (job, told) in &all {
            let Some(Start::Promised(before)) = known.get(job).map(|told| told.start) else {
                continue;
            };
            lesser.judged += 1;
            let is_later = match told.start {
                Start::Promised(at) => at > before.after(SLACK),
                Start::Likely | Start::Unknown => true,
            };
            let is_due = |(other, value): &(Option<JobId>, f64)| {
                *other != Some(*job) && *value + LITTLE >= told.value
            };
            if is_later && !by.iter().any(is_due) {
                return Err(format!(
                    "job {job} is due {} and was promised a start at {before}, and now {:?}, though nobody who is due as \
                     much begins or has another start",
                    told.value, told.start
                ));
            }
        }
        lesser.told.extend(all);
        Ok(())
    }
}
