//! Whether a start that was promised stays, as long as nothing is told by which it may move.
//!
//! The planner is asked with each pass what it promises in each line. What was told is void when somebody comes who is
//! before, a node goes, something that runs is given more time or ends late, nodes are reserved, or what is asked for
//! changes: all that is told of in the changes, or is seen by the clock. Those who come behind, begin or end are no
//! reason. What was promised by a leader that is gone is judged where `resumed` finds all as it was. Where turns
//! change while jobs wait, as under `flux`, whoever is due more takes what others were promised: that is judged in
//! `lesser`.

use std::collections::BTreeMap;

use eddy_sched::cleanup;
use eddy_sched::policy::{Reservations, Walk};
use eddy_wire::id::JobId;
use eddy_wire::plan::{Answer, Basis, Delta, LineName, Outcome, Question, Suppose, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::apart::Queue;
use super::{Pass, Watched, is_in_order};

/// Whoever asks in a world has numbers of his own.
const TAG: u64 = u64::MAX;
/// No world has so many who wait.
pub(super) const MOST: usize = 1000;
/// What ends late is planned to end in a second, so that much is no other time.
pub(super) const SLACK: Span = Span::seconds(1);

/// What was promised to whom.
#[derive(Default)]
pub(super) struct Kept {
    pub told: BTreeMap<JobId, Time>,
    judged: u64,
}

/// To whom something is promised for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promised {
    First,
    All,
}

impl Promised {
    fn most(self) -> usize {
        match self {
            Promised::First => 1,
            Promised::All => MOST,
        }
    }
}

/// Whether what is held is what was known to be, and ends no later.
pub(super) fn is_within(set: &ResourceSet, known: &ResourceSet) -> bool {
    let ends = |set: &ResourceSet| match set.expiration {
        0 => i64::MAX,
        end => end,
    };
    set.nodes == known.nodes && ends(set) <= ends(known)
}

impl Watched {
    /// Something changes: what it may move is told no more.
    pub(super) fn note_kept(&mut self, delta: &Delta) {
        match delta {
            Delta::Want(_, want) if want.reservation.is_some() => {}
            Delta::Want(job, want) if want.gang.is_none() && want.back.is_none() => {
                self.note_want(*job, want);
            }
            Delta::Held(job, owner, set) => {
                let queue = self.queue_of(&owner.line);
                let known = queue.and_then(|queue| queue.held.get(job));
                if known.is_none_or(|(_, known)| !is_within(set, known)) {
                    self.void_in(&owner.line);
                }
            }
            // What was proposed for it is void, and so is what was planned by that.
            Delta::Unwant(job) if self.queues().any(|queue| queue.held.contains_key(job)) => {
                self.kept.told.clear();
            }
            Delta::Unwant(job) => drop(self.kept.told.remove(job)),
            Delta::Line(name, _) => self.void_in(&Some(name.clone())),
            Delta::Freed(_) | Delta::Charged(..) | Delta::Settled(..) => {}
            Delta::Used(_) | Delta::Account(_) => {}
            Delta::Explain(_) | Delta::Shares(_) | Delta::Up(_) => {}
            // Nobody takes from anybody, and there is nothing of pools, where it is judged.
            Delta::Uses(..) | Delta::Gives(..) | Delta::Spared(_) | Delta::Ending(..) => {}
            _ => self.kept.told.clear(),
        }
    }

    /// One waits, or asks for something else than it did: those behind it are promised nothing.
    fn note_want(&mut self, job: JobId, want: &Want) {
        self.kept.told.remove(&job);
        let mut told = std::mem::take(&mut self.kept.told);
        if let Some(queue) = self.queue_of(&want.owner.line) {
            let turn = self.turn(queue.wants, job, want);
            told.retain(|other, _| match queue.wants.get(other) {
                None => true,
                Some(theirs) => self.turn(queue.wants, *other, theirs) < turn,
            });
        }
        self.kept.told = told;
    }

    /// What was promised in a line is void.
    fn void_in(&mut self, line: &LineName) {
        let mut told = std::mem::take(&mut self.kept.told);
        if let Some(queue) = self.queue_of(line) {
            told.retain(|job, _| !queue.wants.contains_key(job));
        }
        self.kept.told = told;
    }

    /// With the pass that begins the planner is asked what it promises, where that can be judged.
    pub(super) fn ask_kept(&mut self) {
        let Some(promised) = self.promised().filter(|_| self.pass == Pass::Over) else {
            return;
        };
        self.planner.apply(Delta::Explain(Question {
            tag: TAG,
            jobs: None,
            most: promised.most(),
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        }));
    }

    /// Who was promised a start is promised none that is later. Takes its own answer out of the outcome.
    pub(super) fn check_kept(&mut self, outcome: &mut Outcome, now: Time) -> Result<(), String> {
        let answered = outcome.answers.iter().position(|answer| answer.tag == TAG);
        let answer = answered.map(|at| outcome.answers.remove(at));
        let Some(promised) = self.promised() else {
            self.kept.told.clear();
            return Ok(());
        };
        let mut known = std::mem::take(&mut self.kept.told);
        for queue in self.queues() {
            self.void_late(queue, now, &mut known);
        }
        let is_whole = self.pass == Pass::Over && !outcome.unfinished;
        let Some(answer) = answer.filter(|_| is_whole) else {
            self.kept.told = known;
            return Ok(());
        };
        let mut kept = Kept::default();
        let checked = self.queues().try_for_each(|queue| {
            self.check_kept_in(queue, promised, (&answer, outcome), (&known, &mut kept))
        });
        self.tally.promises += kept.judged;
        self.kept = kept;
        checked
    }

    /// What ends late may move all that is promised in its line, and so may what is not reckoned here.
    fn void_late(&self, queue: Queue<'_>, now: Time, known: &mut BTreeMap<JobId, Time>) {
        if !self.is_promised(queue) || self.is_late(queue, now) {
            known.retain(|job, _| !queue.wants.contains_key(job));
        }
    }

    /// Whether something that runs in a line should have ended.
    pub(super) fn is_late(&self, queue: Queue<'_>, now: Time) -> bool {
        let cleanup = cleanup(self.preempts.grace);
        let is_late = |expiration: i64| expiration != 0 && Time(expiration).after(cleanup) <= now;
        let mut held = queue.held.values();
        held.any(|(_, set)| is_late(set.expiration))
    }

    fn check_kept_in(
        &self,
        queue: Queue<'_>,
        promised: Promised,
        (answer, outcome): (&Answer, &Outcome),
        (known, kept): (&BTreeMap<JobId, Time>, &mut Kept),
    ) -> Result<(), String> {
        if !self.is_promised(queue) {
            return Ok(());
        }
        let decided = |job: &JobId| outcome.verdicts.iter().any(|(other, _)| other == job);
        let waiting = answer.jobs.iter();
        let waiting =
            waiting.filter(|one| queue.wants.contains_key(&one.job) && !decided(&one.job));
        for one in waiting.take(promised.most()) {
            let at = one.start.and_then(|start| start.latest);
            let before = known.get(&one.job).copied();
            kept.judged += u64::from(before.is_some());
            if let Some(before) = before
                && at.is_none_or(|at| at > before.after(SLACK))
            {
                let at = at.map_or("no time that is known".to_owned(), |at| at.to_string());
                return Err(format!(
                    "job {} was promised a start at {before}, and now {at}, though nobody came before it and nothing \
                     was lost",
                    one.job
                ));
            }
            let is_promise = one.start.is_some_and(|start| start.basis == Basis::Promise);
            if let Some(at) = at.filter(|_| is_promise) {
                let at = before.map_or(at, |before| at.min(before));
                kept.told.insert(one.job, at);
            }
        }
        Ok(())
    }

    /// To whom a promise stands by the policy.
    fn promised(&self) -> Option<Promised> {
        let (_, policy) = self.policy.as_ref()?;
        let queue = &policy.queue;
        if !is_in_order(policy) || queue.default_limit.is_some() || self.closes() {
            return None;
        }
        match (queue.walk, queue.reservations) {
            (Walk::Reserve { .. }, Reservations::Kept) => Some(Promised::All),
            (Walk::Reserve { .. }, Reservations::Replanned) => Some(Promised::First),
            (Walk::Stop | Walk::Skip, _) => None,
        }
    }

    /// Whether nobody takes from others in a line, and those who wait do so each by itself and for nodes alone.
    pub(super) fn is_promised(&self, queue: Queue<'_>) -> bool {
        let mut wants = queue.wants.values();
        let is_other = |want: &Want| !want.pools.is_empty() || want.gang.is_some();
        !wants.any(is_other) && !self.takes(queue.wants)
    }
}
