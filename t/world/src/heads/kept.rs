//! Whether a start that was promised stays, as long as nothing is told by which it may move.
//!
//! The planner is asked with each pass what it promises. What was told is void when somebody comes who is before, a
//! node goes, something that runs is given more time or ends late, nodes are reserved, or what is asked for changes:
//! all that is told of in the changes, or is seen by the clock. Those who come behind, begin or end are no reason. What
//! was promised by a leader that is gone is not judged: a plan is no record.

use std::collections::BTreeMap;

use eddy_sched::cleanup;
use eddy_sched::policy::{Reservations, Walk};
use eddy_wire::id::JobId;
use eddy_wire::plan::{Delta, Outcome, Question, Suppose};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::{Pass, Watched, is_in_order};

/// Whoever asks in a world has numbers of his own.
const TAG: u64 = u64::MAX;
/// No world has so many who wait.
const MOST: usize = 1000;
/// What ends late is planned to end in a second, so that much is no other time.
const SLACK: Span = Span::seconds(1);

/// What was promised to whom.
#[derive(Default)]
pub(super) struct Kept {
    told: BTreeMap<JobId, Time>,
}

/// To whom something is promised for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promised {
    First,
    All,
}

/// Whether what is held is what was known to be, and ends no later.
fn is_within(set: &ResourceSet, known: &ResourceSet) -> bool {
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
            Delta::Want(_, want) if want.owner.line.is_some() || want.reservation.is_some() => {}
            Delta::Want(job, want) if want.gang.is_none() && want.back.is_none() => {
                let turn = self.turn(&self.wants, *job, want);
                let mut told = std::mem::take(&mut self.kept.told);
                told.retain(|other, _| {
                    let waits = self.wants.get(other);
                    other != job
                        && waits.is_some_and(|want| self.turn(&self.wants, *other, want) < turn)
                });
                self.kept.told = told;
            }
            Delta::Held(job, owner, set) if owner.line.is_none() => {
                let known = self.held.get(job);
                if known.is_none_or(|(_, known)| !is_within(set, known)) {
                    self.kept.told.clear();
                }
            }
            // What was proposed for it is void, and so is what was planned by that.
            Delta::Unwant(job) if self.held.contains_key(job) => self.kept.told.clear(),
            Delta::Unwant(job) => drop(self.kept.told.remove(job)),
            Delta::Freed(_) | Delta::Charged(..) | Delta::Used(_) | Delta::Account(_) => {}
            Delta::Explain(_) | Delta::Shares(_) | Delta::Up(_) | Delta::Held(..) => {}
            // Nobody takes from anybody, and there is nothing of pools, where it is judged.
            Delta::Uses(..) | Delta::Gives(..) | Delta::Spared(_) | Delta::Ending(..) => {}
            _ => self.kept.told.clear(),
        }
    }

    /// With the pass that begins the planner is asked what it promises, where that can be judged.
    pub(super) fn ask_kept(&mut self) {
        if self.pass == Pass::Over && self.promised().is_some() {
            self.planner.apply(Delta::Explain(Question {
                tag: TAG,
                jobs: None,
                most: MOST,
                suppose: Suppose::default(),
                wants: Vec::new(),
            }));
        }
    }

    /// Who was promised a start is promised none that is later. Takes its own answer out of the outcome.
    pub(super) fn check_kept(&mut self, outcome: &mut Outcome, now: Time) -> Result<(), String> {
        let answered = outcome.answers.iter().position(|answer| answer.tag == TAG);
        let answer = answered.map(|at| outcome.answers.remove(at));
        let Some(promised) = self.promised() else {
            self.kept.told.clear();
            return Ok(());
        };
        let cleanup = cleanup(self.preempts.grace);
        let is_late = |expiration: i64| expiration != 0 && Time(expiration).after(cleanup) <= now;
        if self.held.values().any(|(_, set)| is_late(set.expiration)) {
            self.kept.told.clear();
        }
        let is_whole = self.pass == Pass::Over && !outcome.unfinished;
        let Some(answer) = answer.filter(|_| is_whole) else {
            return Ok(());
        };
        let told = std::mem::take(&mut self.kept.told);
        let decided = |job: &JobId| outcome.verdicts.iter().any(|(other, _)| other == job);
        let mut waiting = answer.jobs.iter();
        let waiting = waiting.by_ref().filter(|one| {
            let waits = self.wants.contains_key(&one.job);
            waits && !decided(&one.job)
        });
        let most = match promised {
            Promised::First => 1,
            Promised::All => MOST,
        };
        for one in waiting.take(most) {
            let at = one.start.and_then(|start| start.latest);
            let before = told.get(&one.job).copied();
            self.tally.promises += u64::from(before.is_some());
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
            let is_promise = one
                .start
                .is_some_and(|start| start.basis == eddy_wire::plan::Basis::Promise);
            if let Some(at) = at.filter(|_| is_promise) {
                let at = before.map_or(at, |before| at.min(before));
                self.kept.told.insert(one.job, at);
            }
        }
        Ok(())
    }

    /// To whom a promise stands, where the order is known and nobody takes from others.
    fn promised(&self) -> Option<Promised> {
        let (_, policy) = self.policy.as_ref()?;
        let plain = is_in_order(policy) && policy.queue.default_limit.is_none();
        let takes_pools = self.wants.values().any(|want| !want.pools.is_empty());
        let gangs = self.wants.values().any(|want| want.gang.is_some());
        if !plain || takes_pools || gangs || self.takes(&self.wants) || self.closes() {
            return None;
        }
        match (policy.queue.walk, policy.queue.reservations) {
            (Walk::Reserve { .. }, Reservations::Kept) => Some(Promised::All),
            (Walk::Reserve { .. }, Reservations::Replanned) => Some(Promised::First),
            (Walk::Stop | Walk::Skip, _) => None,
        }
    }
}
