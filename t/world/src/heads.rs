//! A planner that is watched: whether those who pass delay the first who waits.
//!
//! Owned by each leader's driver in the place of the planner. It notes what the planner is told
//! and reckons each start that passes somebody by planners made anew. It changes nothing.

mod gifts;
mod overdue;

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_sched::Lines;
use eddy_sched::policy::read::read;
use eddy_sched::policy::{Limits, Policy, Reservations, Rung, Source, Walk};
use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Takes;
use eddy_wire::plan::{
    Delta, Gives, Outcome, Owner, Question, Suppose, Unavailable, Verdict, Want,
};
use eddy_wire::preempt::Preempts;
use eddy_wire::reservation::Reservation;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use crate::broken::Rule;
use gifts::Gifts;
use overdue::Overdue;

/// The planner of a leader, and what it was told.
pub struct Watched {
    planner: Lines,
    policy: Option<Arc<str>>,
    inventory: Option<Arc<ResourceSet>>,
    up: Idset,
    wants: BTreeMap<JobId, Want>,
    /// Proposed or recorded.
    held: BTreeMap<JobId, (Owner, Arc<ResourceSet>)>,
    reserved: BTreeMap<Name, Arc<Reservation>>,
    pass: Pass,
    preempts: Arc<Preempts>,
    gifts: Gifts,
    overdue: Overdue,
    /// When it planned last, by its leader's clock.
    pub planned: Time,
}

/// Whether the pass under way began with all that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// None is under way.
    Over,
    /// One is, and nothing came since it began.
    Current,
    /// Something came since.
    Late,
}

impl Watched {
    /// A planner that knows nothing.
    pub fn new() -> Watched {
        Watched {
            planner: Lines::new(),
            policy: None,
            inventory: None,
            up: Idset::new(),
            wants: BTreeMap::new(),
            held: BTreeMap::new(),
            reserved: BTreeMap::new(),
            pass: Pass::Over,
            preempts: Arc::default(),
            gifts: Gifts::default(),
            overdue: Overdue::default(),
            planned: Time(0),
        }
    }

    /// Takes changes in and tells the planner, as far as it hears that by the rules that are broken.
    pub fn apply(&mut self, delta: Delta, breaks: impl Fn(Rule) -> bool) {
        let told = match &delta {
            // It keeps nothing for whoever is first.
            Delta::Policy(text) if breaks(Rule::HeadDelayed) => Some(Delta::Policy(greedy(text))),
            Delta::Policy(text) if breaks(Rule::OverdueUnheard) => {
                Some(Delta::Policy(overdue::patient(text)))
            }
            Delta::Gives(_, Gives::Nodes { .. }) if breaks(Rule::GiftsUnheard) => None,
            _ => Some(delta.clone()),
        };
        if self.pass == Pass::Current {
            self.pass = Pass::Late;
        }
        self.note(&delta);
        told.into_iter().for_each(|told| self.planner.apply(told));
    }

    fn note(&mut self, delta: &Delta) {
        match delta {
            Delta::Inventory(set) => self.inventory = Some(Arc::clone(set)),
            Delta::Up(ranks) => self.up = self.up.union(ranks),
            Delta::Down(ranks, _) => self.up = self.up.difference(ranks),
            // Who waits in a line apart, or for a reservation, waits for other nodes.
            Delta::Want(_, want) if want.owner.line.is_some() || want.reservation.is_some() => {}
            Delta::Held(_, owner, _) if owner.line.is_some() => {}
            Delta::Want(job, want) => {
                self.wants.insert(*job, want.clone());
            }
            Delta::Unwant(job) => {
                // A proposal is withdrawn; what is recorded is said again when it counts.
                if self.wants.remove(job).is_some() {
                    self.held.remove(job);
                }
            }
            // Beside what it has left it may want the rest.
            Delta::Rests(job, _, set) => {
                self.wants.remove(job);
                self.held.remove(job);
                let left = (Owner::default(), Arc::clone(set));
                self.held.insert(resting(*job), left);
            }
            Delta::Held(job, owner, set) => {
                self.held.remove(&resting(*job));
                self.wants.remove(job);
                self.held.insert(*job, (owner.clone(), Arc::clone(set)));
            }
            Delta::Freed(job) => {
                self.gifts.note(delta);
                self.held.remove(job);
                self.held.remove(&resting(*job));
            }
            Delta::Policy(text) => self.policy = Some(Arc::clone(text)),
            Delta::Ground(job, set) => {
                self.wants.remove(job);
                let held = (Owner::default(), Arc::clone(set));
                self.held.insert(*job, held);
            }
            Delta::Reserved(one) => {
                self.reserved.insert(one.name.clone(), Arc::clone(one));
            }
            Delta::Unreserved(name) => drop(self.reserved.remove(name)),
            Delta::Preempts(rules) => self.preempts = Arc::clone(rules),
            Delta::Ending(..) | Delta::Kept(..) | Delta::Spared(_) => {}
            Delta::Shrinks(..) | Delta::Gives(..) => self.gifts.note(delta),
            Delta::Charged(..) | Delta::Line(..) | Delta::Pools(_) | Delta::Uses(..) => {}
            Delta::Account(_) | Delta::Used(_) | Delta::Explain(_) | Delta::Shares(_) => {}
        }
    }

    /// Plans, and says who was delayed by whom if somebody was.
    ///
    /// # Errors
    /// The sentence of it, with the outcome that is to be obeyed all the same.
    pub fn plan(&mut self, now: Time, steps: u32) -> (Outcome, Result<(), String>) {
        let outcome = self.planner.plan(now, steps);
        self.planned = now;
        let checked = match self.pass {
            Pass::Over | Pass::Current => self
                .check(&outcome, now)
                .and_then(|()| self.check_overdue(&outcome, now)),
            Pass::Late => Ok(()),
        };
        let checked = checked.and_then(|()| match self.reserved.is_empty() {
            true => self
                .gifts
                .check(&outcome, &self.wants, &self.held, &self.up),
            false => Ok(()),
        });
        for (job, verdict) in &outcome.verdicts {
            match verdict {
                Verdict::Start(set) => {
                    if let Some(want) = self.wants.get(job) {
                        let held = (want.owner.clone(), Arc::clone(set));
                        self.held.insert(*job, held);
                    }
                }
                Verdict::Never(_) => {
                    self.wants.remove(job);
                }
                Verdict::Preempt { .. } => {}
            }
        }
        self.pass = match (outcome.unfinished, self.pass) {
            (false, _) => Pass::Over,
            (true, Pass::Late) => Pass::Late,
            (true, Pass::Over | Pass::Current) => Pass::Current,
        };
        (outcome, checked)
    }

    /// Whoever is first starts as early with those who passed as without them.
    fn check(&self, outcome: &Outcome, now: Time) -> Result<(), String> {
        let Some(text) = &self.policy else {
            return Ok(());
        };
        let Ok(policy) = read(text) else {
            return Ok(());
        };
        // Whoever takes from others is before those who do not, wherever he stands; and what pools are
        // left at a time is not reckoned here.
        let takes_pools = self.wants.values().any(|want| !want.pools.is_empty());
        let mut rules = self.preempts.qos.values();
        let takes = rules.any(|rule| !rule.preempts.is_empty());
        if takes_pools || takes || !is_judged(&policy) {
            return Ok(());
        }
        let starts = outcome
            .verdicts
            .iter()
            .filter_map(|(job, verdict)| match verdict {
                Verdict::Start(set) => Some((*job, set)).filter(|_| self.wants.contains_key(job)),
                Verdict::Never(_) | Verdict::Preempt { .. } => None,
            });
        let starts: BTreeMap<JobId, &Arc<ResourceSet>> = starts.collect();
        let decided = |job: &JobId| outcome.verdicts.iter().any(|(other, _)| other == job);
        let waits = |(job, want): &(&JobId, &Want)| {
            want.request.takes == Takes::Resources && !self.held.contains_key(job) && !decided(job)
        };
        let turn = |(job, want): &(&JobId, &Want)| self.turn(**job, want);
        let Some((head, want)) = self.wants.iter().filter(waits).min_by_key(turn) else {
            return Ok(());
        };
        let passes = |job: &JobId| {
            let started = self.wants.get(job);
            started.is_some_and(|one| {
                one.request.takes == Takes::Resources && turn(&(job, one)) > turn(&(head, want))
            })
        };
        let Some(filler) = starts.keys().find(|job| passes(job)) else {
            return Ok(());
        };
        let ahead = starts.iter().filter(|(job, _)| !passes(job));
        let before = self.start_of(
            text,
            (*head, want),
            ahead.map(|(job, set)| (*job, *set)),
            now,
        );
        let all = starts.iter().map(|(job, set)| (*job, *set));
        let after = self.start_of(text, (*head, want), all, now);
        match (before, after) {
            (Some(before), Some(after)) if after <= before => Ok(()),
            (None, _) => Ok(()),
            (Some(before), after) => Err(format!(
                "job {head} is first and would start at {before}; job {filler} passes it, and it starts at {}",
                after.map_or("no time that is known".to_owned(), |at| at.to_string())
            )),
        }
    }

    /// Urgent ones first, then who was submitted earlier: the order of the policies that are judged. A gang is
    /// in the place of its member with the highest number.
    fn turn(&self, job: JobId, want: &Want) -> (i16, Time, JobId) {
        let gang = |want: &Want| Some((want.owner.user, want.gang.as_ref()?.name.clone()));
        let mates = self.wants.iter().rev();
        let mut mates =
            mates.filter(|(_, other)| gang(want).is_some() && gang(other) == gang(want));
        let (job, want) = mates.next().map_or((job, want), |(job, want)| (*job, want));
        (-i16::from(want.urgency), want.submitted, job)
    }

    /// When a job would start by a policy if it alone waited and these started too.
    fn start_of<'s>(
        &self,
        policy: &Arc<str>,
        (job, want): (JobId, &Want),
        starts: impl Iterator<Item = (JobId, &'s Arc<ResourceSet>)>,
        now: Time,
    ) -> Option<Time> {
        let mut planner = Lines::new();
        let inventory = self.inventory.as_ref()?;
        planner.apply(Delta::Policy(Arc::clone(policy)));
        planner.apply(Delta::Preempts(Arc::clone(&self.preempts)));
        planner.apply(Delta::Inventory(Arc::clone(inventory)));
        planner.apply(Delta::Down(inventory.ranks(), Unavailable::Offline));
        planner.apply(Delta::Up(self.up.clone()));
        for one in self.reserved.values() {
            planner.apply(Delta::Reserved(Arc::clone(one)));
        }
        for (holder, (owner, set)) in &self.held {
            planner.apply(Delta::Held(*holder, owner.clone(), Arc::clone(set)));
        }
        for (starter, set) in starts {
            planner.apply(Delta::Held(starter, Owner::default(), Arc::clone(set)));
        }
        planner.apply(Delta::Want(job, want.clone()));
        planner.apply(Delta::Explain(Question {
            tag: 0,
            jobs: None,
            most: 1,
            suppose: Suppose::default(),
            wants: Vec::new(),
        }));
        let outcome = planner.plan(now, 1);
        match outcome.verdicts.first() {
            Some((_, Verdict::Start(_))) => Some(now),
            Some((_, Verdict::Never(_) | Verdict::Preempt { .. })) => None,
            None => outcome.answers.first()?.jobs.first()?.start?.latest,
        }
    }
}

impl Default for Watched {
    fn default() -> Watched {
        Watched::new()
    }
}

/// Where what is promised is planned anew in each pass, and the order is that of urgency: what was
/// kept from another pass, and values that change, only the planner knows.
fn is_judged(policy: &Policy) -> bool {
    matches!(policy.queue.walk, Walk::Reserve { .. })
        && policy.queue.source == Source::Global
        && policy.placement.ladder == [Rung::Free]
        && policy.queue.limits == Limits::default()
        && policy.queue.reservations == Reservations::Replanned
        && policy.queue.replan_every.is_none()
        // Whoever waits too long is before the first.
        && policy.queue.reserve_after.is_none()
        && policy.priority.order == ["urgency"]
}

/// The rule broken: nobody is promised anything.
fn greedy(text: &str) -> Arc<str> {
    match read(text) {
        Ok(policy) if policy.queue.walk != Walk::Stop => {
            "preset = \"fcfs\"\nqueue.walk = \"skip\"".into()
        }
        _ => text.into(),
    }
}

/// What a suspended job has left is noted under a number of no job.
fn resting(job: JobId) -> JobId {
    JobId(job.0 | 1 << 63)
}
