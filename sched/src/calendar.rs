//! A planner and its reservations: one more planner for each, over the nodes that are kept.
//!
//! The planner of all others goes around what is reserved: it is closed to them for that time, and
//! who would not have ended before does not begin. The planner of a reservation has its nodes, closed
//! before and after; only jobs that name it wait there, so that they hold up nobody else. Both know
//! what runs, since it may run on into a reservation that ignores it. Owned by [`crate::Lines`], in
//! the place of a planner.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::plan::{Answer, Delta, Explained, Outcome, Question, Reason, Verdict, Want};
use eddy_wire::reservation::Reservation;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use crate::occupancy::{Cause, Closure, Side};
use crate::planner::Planner;

/// The planners, fed as one.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    planner: Planner,
    kept: BTreeMap<Name, Kept>,
    /// Who waits for a reservation that is not there.
    lost: BTreeMap<JobId, Want>,
    /// Asked since the last plan.
    questions: Vec<Question>,
}

/// A reservation.
#[derive(Debug)]
struct Kept {
    reservation: Arc<Reservation>,
    /// None where it is for no jobs.
    planner: Option<Planner>,
    /// Who waits for it.
    wants: BTreeMap<JobId, Want>,
    /// Those of them that do not fit it as it is.
    misfits: BTreeMap<JobId, Misfit>,
}

/// Why one does not fit a reservation.
#[derive(Debug)]
enum Misfit {
    /// Its nodes will not do.
    For(Reason),
    /// It would not end in time.
    Late,
}

impl Calendar {
    /// Takes one change in, as [`Planner::apply`] does.
    ///
    /// - `Reserved` keeps nodes; the same again changes nothing, another of its name replaces it.
    /// - `Unreserved` gives them back, and ends the wait of who names it.
    /// - `Want` of a job that names a reservation is for its nodes and its time alone.
    pub fn apply(&mut self, delta: Delta) {
        match delta {
            Delta::Reserved(reservation) => self.reserve(reservation),
            Delta::Unreserved(name) => self.unreserve(&name),
            Delta::Want(job, want) => self.want(job, want),
            Delta::Inventory(set) => self.define(set),
            Delta::Shares(_) | Delta::Line(..) => self.planner.apply(delta),
            Delta::Unwant(job) | Delta::Held(job, ..) => {
                self.forget(job);
                self.tell_all(delta);
            }
            Delta::Up(_)
            | Delta::Down(..)
            | Delta::Ground(..)
            | Delta::Rests(..)
            | Delta::Charged(..)
            | Delta::Settled(..)
            | Delta::Freed(_)
            | Delta::Ending(..)
            | Delta::Shrinks(..)
            | Delta::Kept(..)
            | Delta::Spared(_)
            | Delta::Gives(..)
            | Delta::Preempts(_)
            | Delta::Stay(_)
            | Delta::Pools(_)
            | Delta::Uses(..)
            | Delta::Policy(_)
            | Delta::Account(_)
            | Delta::Used(_)
            | Delta::Past(_) => self.tell_all(delta),
            Delta::Explain(question) => self.explain(question),
        }
    }

    /// Looks at those who name no reservation, then at those of each in turn, by
    /// [`Planner::plan`]. Who waits for one that is over is told so.
    pub fn plan(&mut self, now: Time, steps: u32) -> Outcome {
        let mut all = self.planner.plan(now, steps);
        let mut uses = self.planner.uses(&all);
        let over = self.kept.values().map(|one| &one.reservation);
        let over = over.filter(|one| one.until <= now);
        let over: Vec<Name> = over.map(|one| one.name.clone()).collect();
        over.iter().for_each(|name| self.unreserve(name));
        for (name, kept) in &mut self.kept {
            kept.tell(&uses);
            let mut outcome = kept.plan(name, now, steps);
            let new = kept.planner.as_ref().map(|planner| planner.uses(&outcome));
            uses.extend(new.into_iter().flatten());
            let asked = self.questions.iter();
            outcome
                .answers
                .extend(asked.map(|one| kept.answer(one, now)));
            add(&mut all, outcome);
            all.again = all.again.into_iter().chain([kept.reservation.until]).min();
        }
        self.tell(&uses);
        self.questions.clear();
        for (job, want) in std::mem::take(&mut self.lost) {
            if let Some(name) = want.reservation {
                let never = Verdict::Never(Reason::NoReservation { name });
                all.verdicts.push((job, never));
            }
        }
        all
    }

    /// A calendar by the same policy for nodes that are set aside, with the same reservations.
    pub fn set_aside(&self) -> Calendar {
        let mut other = Calendar {
            planner: self.planner.set_aside(),
            ..Calendar::default()
        };
        for kept in self.kept.values() {
            other.reserve(Arc::clone(&kept.reservation));
        }
        other
    }

    /// What starts of an outcome of this calendar took of pools.
    pub fn uses(&self, outcome: &Outcome) -> Vec<Delta> {
        let inside = self.kept.values().filter_map(|one| one.planner.as_ref());
        let planners = [&self.planner].into_iter().chain(inside);
        planners.flat_map(|planner| planner.uses(outcome)).collect()
    }

    /// What was taken of pools just now, so that nobody else takes it.
    pub fn tell(&mut self, uses: &[Delta]) {
        uses.iter().for_each(|one| self.tell_all(one.clone()));
    }

    fn tell_all(&mut self, delta: Delta) {
        for planner in self
            .kept
            .values_mut()
            .filter_map(|one| one.planner.as_mut())
        {
            planner.apply(delta.clone());
        }
        self.planner.apply(delta);
    }

    /// Each planner is asked of those who would wait for what it plans.
    fn explain(&mut self, question: Question) {
        for (name, kept) in &mut self.kept {
            if let Some(planner) = &mut kept.planner {
                let asked = question.with(|want| want.reservation.as_ref() == Some(name));
                planner.apply(Delta::Explain(asked));
            }
        }
        let asked = question.with(|want| want.reservation.is_none());
        self.planner.apply(Delta::Explain(asked));
        self.questions.push(question);
    }

    fn reserve(&mut self, reservation: Arc<Reservation>) {
        let name = reservation.name.clone();
        if self
            .kept
            .get(&name)
            .is_some_and(|one| one.reservation == reservation)
        {
            return;
        }
        self.unreserve(&name);
        self.planner.close(closure(&reservation, Side::Others));
        let planner = match reservation.is_maintenance() {
            true => None,
            false => Some(self.planner_of(&reservation)),
        };
        let kept = Kept {
            reservation,
            planner,
            wants: BTreeMap::new(),
            misfits: BTreeMap::new(),
        };
        self.kept.insert(name, kept);
        // Whose wait is not said to be over yet.
        for (job, want) in std::mem::take(&mut self.lost) {
            self.want(job, want);
        }
    }

    fn planner_of(&self, reservation: &Reservation) -> Planner {
        let mut planner = self.planner.set_aside();
        let set = self.planner.inventory().restrict(&reservation.ranks);
        planner.apply(Delta::Inventory(Arc::new(set)));
        self.planner
            .recorded()
            .chain(self.planner.standings())
            .for_each(|delta| planner.apply(delta));
        planner.know_pools(&self.planner);
        planner.close(closure(reservation, Side::Before));
        planner.close(closure(reservation, Side::After));
        planner
    }

    fn unreserve(&mut self, name: &Name) {
        let Some(kept) = self.kept.remove(name) else {
            return;
        };
        self.planner.reopen(name);
        self.lost.extend(kept.wants);
    }

    fn want(&mut self, job: JobId, want: Want) {
        self.lost.remove(&job);
        let named = want.reservation.as_ref();
        for (name, kept) in &mut self.kept {
            if named != Some(name) && kept.wants.contains_key(&job) {
                kept.unwant(job);
            }
        }
        let Some(name) = want.reservation.clone() else {
            return self.planner.apply(Delta::Want(job, want));
        };
        // It may have named none before.
        self.planner.apply(Delta::Unwant(job));
        match self.kept.get_mut(&name) {
            Some(kept) if kept.planner.is_some() => kept.want(job, want),
            Some(_) | None => drop(self.lost.insert(job, want)),
        }
    }

    fn define(&mut self, set: Arc<ResourceSet>) {
        for kept in self.kept.values_mut() {
            kept.define(&set);
        }
        self.planner.apply(Delta::Inventory(set));
    }

    fn forget(&mut self, job: JobId) {
        self.lost.remove(&job);
        for kept in self.kept.values_mut() {
            kept.forget(job);
        }
    }
}

impl Kept {
    fn tell(&mut self, uses: &[Delta]) {
        if let Some(planner) = &mut self.planner {
            uses.iter().for_each(|one| planner.apply(one.clone()));
        }
    }

    fn want(&mut self, job: JobId, mut want: Want) {
        // It could not have started before.
        want.eligible = want.eligible.max(self.reservation.from);
        self.misfits.remove(&job);
        self.wants.insert(job, want.clone());
        if let Some(gang) = &want.gang {
            // One more may stand for another that did not fit, and with him all of them did not.
            self.try_mates(want.owner.user, &gang.name);
        }
        if let Some(planner) = &mut self.planner {
            planner.apply(Delta::Want(job, want));
        }
    }

    /// Those of a gang that did not fit want again.
    fn try_mates(&mut self, user: u32, gang: &Name) {
        let Some(planner) = &mut self.planner else {
            return;
        };
        let wants = &self.wants;
        self.misfits.retain(|job, _| {
            let want = wants.get(job).filter(|want| {
                let own = want.gang.as_ref().is_some_and(|own| own.name == *gang);
                own && want.owner.user == user
            });
            if let Some(want) = want {
                planner.apply(Delta::Want(*job, want.clone()));
            }
            want.is_none()
        });
    }

    fn forget(&mut self, job: JobId) {
        self.wants.remove(&job);
        self.misfits.remove(&job);
    }

    fn unwant(&mut self, job: JobId) {
        self.forget(job);
        if let Some(planner) = &mut self.planner {
            planner.apply(Delta::Unwant(job));
        }
    }

    fn define(&mut self, all: &ResourceSet) {
        let Some(planner) = &mut self.planner else {
            return;
        };
        let set = all.restrict(&self.reservation.ranks);
        planner.apply(Delta::Inventory(Arc::new(set)));
        // Who did not fit may now.
        for job in std::mem::take(&mut self.misfits).into_keys() {
            if let Some(want) = self.wants.get(&job) {
                planner.apply(Delta::Want(job, want.clone()));
            }
        }
    }

    fn plan(&mut self, name: &Name, now: Time, steps: u32) -> Outcome {
        let late = self.late(now);
        let Some(planner) = &mut self.planner else {
            return Outcome::default();
        };
        // They would hold up those behind them who still end in time.
        for job in late {
            planner.apply(Delta::Unwant(job));
            self.misfits.insert(job, Misfit::Late);
        }
        let mut outcome = planner.plan(now, steps);
        // Nodes may move: what does not fit today is not refused.
        outcome.verdicts.retain(|(job, verdict)| match verdict {
            Verdict::Start(_)
            | Verdict::Preempt { .. }
            | Verdict::Never(
                Reason::LeftOut { .. } | Reason::NeverBeside { .. } | Reason::NeverPool { .. },
            ) => true,
            Verdict::Never(reason) => {
                let reason = Reason::NotInReservation {
                    name: name.clone(),
                    why: reason.to_string(),
                };
                self.misfits.insert(*job, Misfit::For(reason));
                false
            }
        });
        outcome
    }

    /// Who wants to start, and would not have ended when it does.
    fn late(&self, now: Time) -> Vec<JobId> {
        let begins = now.max(self.reservation.from);
        let is_late = |want: &Want| {
            let span = self.planner.as_ref().and_then(|one| one.limit_of(want));
            span.is_some_and(|span| begins.after(span) > self.reservation.until)
        };
        let wants = self.wants.iter();
        let late = wants.filter(|(job, want)| !self.misfits.contains_key(job) && is_late(want));
        late.map(|(job, _)| *job).collect()
    }

    /// Why those wait that do not fit.
    fn answer(&self, question: &Question, now: Time) -> Answer {
        let explained = |(job, misfit): (&JobId, &Misfit)| {
            let want = self.wants.get(job)?;
            let reason = match misfit {
                Misfit::For(reason) => reason.clone(),
                Misfit::Late => closure(&self.reservation, Side::After).reason(now),
            };
            Some(Explained {
                job: *job,
                reason,
                ahead: 0,
                start: None,
                priority: self.planner.as_ref()?.priority_of(want, now),
                moved: None,
                sharing: Sharing::default(),
                advice: Vec::new(),
                lent: Vec::new(),
            })
        };
        let is_supposed = |job: &JobId| question.wants.iter().any(|(of, _)| of == job);
        let asked = self.misfits.iter().filter(|(job, _)| question.names(**job));
        // Whoever is to want something else its planner tells of.
        let asked = asked.filter(|(job, _)| !is_supposed(job));
        Answer {
            tag: question.tag,
            jobs: asked.filter_map(explained).take(question.most).collect(),
            more: 0,
            let_go: Vec::new(),
        }
    }
}

fn closure(reservation: &Reservation, side: Side) -> Closure {
    let Reservation { from, until, .. } = *reservation;
    let (from, until) = match side {
        Side::Others => (from, until),
        Side::Before => (Time(i64::MIN), from),
        Side::After => (until, Time(i64::MAX)),
    };
    Closure {
        cause: Cause::Reserved(reservation.name.clone(), side),
        from,
        until,
        ranks: reservation.ranks.clone(),
    }
}

/// Adds what another planner came to.
fn add(all: &mut Outcome, outcome: Outcome) {
    all.verdicts.extend(outcome.verdicts);
    all.together.extend(outcome.together);
    all.unfinished |= outcome.unfinished;
    all.again = all.again.into_iter().chain(outcome.again).min();
    for answer in outcome.answers {
        match all.answers.iter_mut().find(|one| one.tag == answer.tag) {
            Some(one) => {
                one.jobs.extend(answer.jobs);
                one.let_go.extend(answer.let_go);
                one.more += answer.more;
            }
            None => all.answers.push(answer),
        }
    }
}
