//! A planner that is watched: whether those who pass delay the first who waits.
//!
//! Owned by each leader's driver in the place of the planner. It notes what the planner is told
//! and reckons each start that passes somebody by planners made anew. It changes nothing.

mod apart;
mod dues;
mod expected;
mod gifts;
mod kept;
mod lesser;
mod overdue;
mod resumed;

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_sched::Lines;
use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_sched::policy::{Limits, Policy, Reservations, Rung, Source, Walk};
use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Takes;
use eddy_wire::plan::{
    Delta, Gives, LineName, Outcome, Owner, Question, Stay, Suppose, Unavailable, Verdict, Want,
};
use eddy_wire::preempt::Preempts;
use eddy_wire::reservation::Reservation;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use crate::broken::Rule;
use apart::{Apart, Holds, Queue};
use dues::Dues;
use gifts::Gifts;
use kept::Kept;
use lesser::Lesser;
use overdue::Overdue;
pub use resumed::Before;

/// The planner of a leader, and what it was told.
pub struct Watched {
    planner: Lines,
    /// None of a text that is no policy.
    policy: Option<(Arc<str>, Policy)>,
    inventory: Option<Arc<ResourceSet>>,
    up: Idset,
    wants: BTreeMap<JobId, Want>,
    /// Proposed or recorded.
    held: Holds,
    apart: Apart,
    reserved: BTreeMap<Name, Arc<Reservation>>,
    /// Until when there are the nodes.
    stay: Arc<Stay>,
    pass: Pass,
    preempts: Arc<Preempts>,
    gifts: Gifts,
    overdue: Overdue,
    kept: Kept,
    lesser: Lesser,
    dues: Dues,
    /// Those who wait for instances that are expected, by what is recorded.
    expected: BTreeMap<JobId, Want>,
    /// What the leader before was told, until that is found again.
    before: Option<Before>,
    tally: Tally,
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

/// How many passes let somebody start while another waited on, and of how many of them the order was known and nothing
/// came meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All.
    pub passes: u64,
    /// Those of them that were judged.
    pub judged: u64,
    /// Promised starts that were held against what was promised before.
    pub promises: u64,
    /// The same, where whoever is due more may take them.
    pub losses: u64,
    /// Passes whose accounts were reckoned anew.
    pub dues: u64,
    /// Pairs of who began and who waited on and asked for the same.
    pub picks: u64,
}

impl Tally {
    /// And these.
    pub fn add(&mut self, other: Tally) {
        self.passes += other.passes;
        self.judged += other.judged;
        self.promises += other.promises;
        self.losses += other.losses;
        self.dues += other.dues;
        self.picks += other.picks;
    }
}

/// Who may start before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passing {
    /// Nobody.
    None,
    /// Those who do not delay him.
    Fillers,
}

impl Watched {
    /// A planner that knows nothing.
    pub fn new() -> Watched {
        Watched {
            planner: Lines::new(),
            // Until it is told of one.
            policy: Some(("preset = \"fcfs\"".into(), Policy::default())),
            inventory: None,
            up: Idset::new(),
            wants: BTreeMap::new(),
            held: BTreeMap::new(),
            apart: Apart::default(),
            reserved: BTreeMap::new(),
            stay: Arc::default(),
            pass: Pass::Over,
            preempts: Arc::default(),
            gifts: Gifts::default(),
            overdue: Overdue::default(),
            kept: Kept::default(),
            lesser: Lesser::default(),
            dues: Dues::default(),
            expected: BTreeMap::new(),
            before: None,
            tally: Tally::default(),
            planned: Time(0),
        }
    }

    /// One of a leader that comes after another.
    pub fn after(before: Option<Before>) -> Watched {
        Watched {
            before,
            ..Watched::new()
        }
    }

    /// Takes changes in and tells the planner, as far as it hears that by the rules that are broken.
    pub fn apply(&mut self, delta: Delta, breaks: impl Fn(Rule) -> bool) {
        let told = match &delta {
            // It keeps nothing for whoever is first.
            Delta::Policy(text) if breaks(Rule::HeadDelayed) => Some(Delta::Policy(greedy(text))),
            Delta::Policy(text) if breaks(Rule::OrderUnheard) => Some(Delta::Policy(hasty(text))),
            Delta::Policy(text) if breaks(Rule::PromisesAnew) => Some(Delta::Policy(anew(text))),
            Delta::Policy(text) if breaks(Rule::OverdueUnheard) => {
                Some(Delta::Policy(overdue::patient(text)))
            }
            Delta::Policy(text) if breaks(Rule::PromiseDropped) => {
                Some(Delta::Policy(lesser::for_good(text)))
            }
            Delta::Policy(text) if breaks(Rule::PassUnheard) => {
                Some(Delta::Policy(dues::standing_still(text)))
            }
            Delta::Policy(text) if breaks(Rule::IdleHeard) => {
                Some(Delta::Policy(dues::among_all(text)))
            }
            Delta::Gives(_, Gives::Nodes { .. }) if breaks(Rule::GiftsUnheard) => None,
            Delta::Past(_) if breaks(Rule::PastUnheard) => None,
            Delta::Settled(..) if breaks(Rule::SettledUnheard) => None,
            Delta::Held(job, owner, set) if self.before.is_some() && breaks(Rule::LimitUnheard) => {
                Some(Delta::Held(*job, owner.clone(), resumed::longer(set)))
            }
            _ => Some(delta.clone()),
        };
        if self.pass == Pass::Current {
            self.pass = Pass::Late;
        }
        self.note_kept(&delta);
        self.note_lesser(&delta);
        self.dues.note(&delta, &self.wants);
        self.note(&delta);
        told.into_iter().for_each(|told| self.planner.apply(told));
        if matches!(delta, Delta::Want(..)) && breaks(Rule::PromiseDropped) {
            self.drop_promise();
        }
    }

    fn note(&mut self, delta: &Delta) {
        self.gifts.note(delta);
        match delta {
            Delta::Inventory(set) => self.inventory = Some(Arc::clone(set)),
            Delta::Up(ranks) => self.up = self.up.union(ranks),
            Delta::Down(ranks, _) => self.up = self.up.difference(ranks),
            // Who waits for a reservation, or in a line apart, waits for other nodes.
            Delta::Want(_, want) if want.reservation.is_some() => {}
            Delta::Want(job, want) if want.owner.line.is_some() => self.apart.want(*job, want),
            Delta::Held(job, owner, set) if owner.line.is_some() => {
                self.apart.held(*job, owner, set);
            }
            Delta::Rests(job, Some(line), set) => self.apart.rests(*job, line, set),
            Delta::Line(name, nodes) => self.apart.set_aside(name, nodes.as_ref()),
            Delta::Want(job, want) => {
                // What was proposed for another request is withdrawn; where it is recorded all the same, that is news.
                let before = self.wants.get(job);
                if before.is_some_and(|before| before.request != want.request) {
                    self.held.remove(job);
                }
                self.wants.insert(*job, want.clone());
            }
            Delta::Unwant(job) => {
                // A proposal is withdrawn; what is recorded is said again when it counts.
                if self.wants.remove(job).is_some() {
                    self.held.remove(job);
                }
                self.apart.unwant(*job);
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
                self.apart.freed(*job);
                self.held.remove(job);
                self.held.remove(&resting(*job));
            }
            Delta::Policy(text) => {
                let policy = read(text).ok();
                self.policy = policy.map(|policy| (Arc::clone(text), policy));
            }
            Delta::Ground(job, set) => {
                self.wants.remove(job);
                let held = (Owner::default(), Arc::clone(set));
                self.held.insert(*job, held);
            }
            Delta::Reserved(one) => {
                self.reserved.insert(one.name.clone(), Arc::clone(one));
            }
            Delta::Unreserved(name) => drop(self.reserved.remove(name)),
            Delta::Stay(stay) => self.stay = Arc::clone(stay),
            Delta::Preempts(rules) => self.preempts = Arc::clone(rules),
            Delta::Ending(..) | Delta::Kept(..) | Delta::Spared(_) => {}
            Delta::Shrinks(..) | Delta::Gives(..) => {}
            Delta::Charged(..) | Delta::Pools(_) | Delta::Uses(..) | Delta::Settled(..) => {}
            Delta::Account(_) | Delta::Used(_) | Delta::Past(_) => {}
            Delta::Explain(_) | Delta::Shares(_) => {}
        }
    }

    /// Plans, and says who was delayed by whom if somebody was.
    ///
    /// # Errors
    /// The sentence of it, with the outcome that is to be obeyed all the same.
    pub fn plan(&mut self, now: Time, steps: u32) -> (Outcome, Result<(), String>) {
        self.resume(now);
        self.ask_kept();
        self.ask_lesser();
        self.ask_dues();
        let mut outcome = self.planner.plan(now, steps);
        self.planned = now;
        let kept = self.check_kept(&mut outcome, now);
        // By what was promised before this pass.
        let hastened = self.hastened(&outcome, now);
        let lesser = self.check_lesser(&mut outcome, now);
        let dues = self.check_dues(&mut outcome, &hastened, now);
        let passes = self.queues().filter(|queue| {
            let waits = |(job, want): (&JobId, &Want)| waits(*queue, &outcome, *job, want);
            !starts(*queue, &outcome).is_empty() && queue.wants.iter().any(waits)
        });
        self.tally.passes += passes.count() as u64;
        let checked = match self.pass {
            Pass::Over | Pass::Current => self
                .check(&outcome, now)
                .and_then(|()| self.check_overdue(&outcome, now))
                .and_then(|()| self.check_expected(&outcome, now)),
            Pass::Late => Ok(()),
        };
        let checked = kept
            .and(lesser)
            .and(dues)
            .and(checked)
            .and_then(|()| match self.closes() {
                false => self
                    .gifts
                    .check(&outcome, &self.wants, &self.held, &self.up),
                true => Ok(()),
            });
        for (job, verdict) in &outcome.verdicts {
            match verdict {
                Verdict::Start(set) => {
                    if let Some(want) = self.wants.get(job) {
                        let held = (want.owner.clone(), Arc::clone(set));
                        self.held.insert(*job, held);
                    }
                    self.apart.begins(*job, set);
                }
                Verdict::Never(_) => {
                    self.wants.remove(job);
                    self.apart.never(*job);
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

    /// Whether some nodes are not there for all at all times.
    fn closes(&self) -> bool {
        !self.reserved.is_empty() || !self.stay.goes.is_empty()
    }

    /// In each line whoever is first starts as early with those who passed as without them; or nobody passes.
    fn check(&mut self, outcome: &Outcome, now: Time) -> Result<(), String> {
        let mut tally = Tally::default();
        let checked = self
            .queues()
            .try_for_each(|queue| self.check_in(queue, (outcome, now), &mut tally));
        self.tally.judged += tally.judged;
        checked
    }

    /// Those who wait for what is not set aside, and those of each line apart.
    fn queues(&self) -> impl Iterator<Item = Queue<'_>> {
        self.main().into_iter().chain(self.apart.queues())
    }

    /// Those who wait in that line.
    fn queue_of(&self, line: &LineName) -> Option<Queue<'_>> {
        match line {
            None => self.main(),
            Some(name) => self.apart.queue(name),
        }
    }

    /// Those who wait for what is not set aside.
    fn main(&self) -> Option<Queue<'_>> {
        Some(Queue {
            name: None,
            wants: &self.wants,
            held: &self.held,
            nodes: self.inventory.as_ref()?,
        })
    }

    fn check_in(
        &self,
        queue: Queue<'_>,
        (outcome, now): (&Outcome, Time),
        tally: &mut Tally,
    ) -> Result<(), String> {
        let policy = self.policy.as_ref();
        let judged = policy.and_then(|(text, policy)| Some((text, passing(policy)?)));
        let Some((text, passing)) = judged else {
            return Ok(());
        };
        // Whoever takes from others is before those who do not, wherever he stands; and what pools are
        // left at a time is not reckoned here.
        let takes_pools = queue.wants.values().any(|want| !want.pools.is_empty());
        let is_given = queue.wants.keys().any(|job| self.gifts.is_given(*job));
        if takes_pools || is_given || self.takes(queue.wants) {
            return Ok(());
        }
        let starts = starts(queue, outcome);
        let waits = |(job, want): &(&JobId, &Want)| waits(queue, outcome, **job, want);
        let turn = |(job, want): &(&JobId, &Want)| self.turn(queue.wants, **job, want);
        let Some((head, want)) = queue.wants.iter().filter(waits).min_by_key(turn) else {
            return Ok(());
        };
        tally.judged += u64::from(!starts.is_empty());
        let passes = |job: &JobId| {
            let started = queue.wants.get(job);
            started.is_some_and(|one| {
                one.request.takes == Takes::Resources && turn(&(job, one)) > turn(&(head, want))
            })
        };
        let Some(filler) = starts.keys().find(|job| passes(job)) else {
            return Ok(());
        };
        let ahead = starts.iter().filter(|(job, _)| !passes(job));
        let ahead = ahead.map(|(job, set)| (*job, *set));
        let before = self.start_in(queue, text, (*head, want), ahead, now);
        let Some(before) = before else {
            return Ok(());
        };
        if passing == Passing::None {
            return Err(format!(
                "job {head} is first and would start at {before}; job {filler} passes it, and nobody may"
            ));
        }
        let all = starts.iter().map(|(job, set)| (*job, *set));
        match self.start_in(queue, text, (*head, want), all, now) {
            Some(after) if after <= before => Ok(()),
            after => Err(format!(
                "job {head} is first and would start at {before}; job {filler} passes it, and it starts at {}",
                after.map_or("no time that is known".to_owned(), |at| at.to_string())
            )),
        }
    }

    /// Whether any of those who wait may take from others.
    fn takes(&self, wants: &BTreeMap<JobId, Want>) -> bool {
        wants.values().any(|want| {
            let rule = want
                .owner
                .qos
                .as_ref()
                .and_then(|qos| self.preempts.qos.get(qos));
            rule.is_some_and(|rule| !rule.preempts.is_empty())
        })
    }

    /// What was judged since the last time.
    pub fn tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Urgent ones first, then who was submitted earlier: the order of the policies that are judged. A gang is
    /// in the place of its member with the highest number.
    fn turn(&self, wants: &BTreeMap<JobId, Want>, job: JobId, want: &Want) -> (i16, Time, JobId) {
        fn gang(want: &Want) -> Option<(u32, &str)> {
            Some((want.owner.user, want.gang.as_ref()?.name.as_str()))
        }
        // Of those who are in none there are thousands, and this is asked for each.
        let last = gang(want).and_then(|own| {
            let mut mates = wants.iter().rev();
            mates.find(|(_, other)| gang(other) == Some(own))
        });
        let (job, want) = last.map_or((job, want), |(job, want)| (*job, want));
        (-i16::from(want.urgency), want.submitted, job)
    }

    /// When a job would start by a policy if in its line it alone waited and these started too.
    fn start_in<'s>(
        &self,
        queue: Queue<'_>,
        policy: &Arc<str>,
        (job, want): (JobId, &Want),
        starts: impl Iterator<Item = (JobId, &'s Arc<ResourceSet>)>,
        now: Time,
    ) -> Option<Time> {
        let mut planner = Lines::new();
        let inventory = queue.nodes;
        planner.apply(Delta::Policy(Arc::clone(policy)));
        planner.apply(Delta::Preempts(Arc::clone(&self.preempts)));
        planner.apply(Delta::Inventory(Arc::clone(inventory)));
        planner.apply(Delta::Down(inventory.ranks(), Unavailable::Offline));
        planner.apply(Delta::Up(self.up.clone()));
        planner.apply(Delta::Stay(Arc::clone(&self.stay)));
        for one in self.reserved.values() {
            planner.apply(Delta::Reserved(Arc::clone(one)));
        }
        // Each line is one of its own here.
        let here = |owner: &Owner| Owner {
            line: None,
            ..owner.clone()
        };
        for (holder, (owner, set)) in queue.held {
            planner.apply(Delta::Held(*holder, here(owner), Arc::clone(set)));
        }
        for (starter, set) in starts {
            planner.apply(Delta::Held(starter, Owner::default(), Arc::clone(set)));
        }
        let want = Want {
            owner: here(&want.owner),
            ..want.clone()
        };
        planner.apply(Delta::Want(job, want));
        planner.apply(Delta::Explain(Question {
            tag: 0,
            jobs: None,
            most: 1,
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
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

/// Who may pass the first, where what is promised is planned anew in each pass, and the order is that of urgency: what
/// was kept from another pass, and values that change, only the planner knows.
fn passing(policy: &Policy) -> Option<Passing> {
    match policy.queue.walk {
        _ if !is_in_order(policy) || policy.queue.reservations != Reservations::Replanned => None,
        Walk::Reserve { .. } => Some(Passing::Fillers),
        Walk::Stop => Some(Passing::None),
        Walk::Skip => None,
    }
}

/// Whether turns are those of urgency and submission, and nothing else keeps anybody back.
fn is_in_order(policy: &Policy) -> bool {
    policy.queue.source == Source::Global
        && policy.placement.ladder == [Rung::Free]
        && policy.queue.limits == Limits::default()
        && policy.queue.replan_every.is_none()
        // Whoever waits too long is before the first.
        && policy.queue.reserve_after.is_none()
        && policy.priority.order == ["urgency"]
}

/// Those of a line who begin.
fn starts<'o>(queue: Queue<'_>, outcome: &'o Outcome) -> BTreeMap<JobId, &'o Arc<ResourceSet>> {
    let verdicts = outcome.verdicts.iter();
    let starts = verdicts.filter_map(|(job, verdict)| match verdict {
        Verdict::Start(set) => Some((*job, set)).filter(|_| queue.wants.contains_key(job)),
        Verdict::Never(_) | Verdict::Preempt { .. } => None,
    });
    starts.collect()
}

/// Whether one of a line waits on.
fn waits(queue: Queue<'_>, outcome: &Outcome, job: JobId, want: &Want) -> bool {
    let decided = outcome.verdicts.iter().any(|(other, _)| *other == job);
    want.request.takes == Takes::Resources && !queue.held.contains_key(&job) && !decided
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

/// The rule broken: where nobody may pass the first, whoever fits does.
fn hasty(text: &Arc<str>) -> Arc<str> {
    match read(text) {
        Ok(policy) if policy.queue.walk == Walk::Stop => {
            "preset = \"fcfs\"\nqueue.walk = \"skip\"".into()
        }
        _ => Arc::clone(text),
    }
}

/// The rule broken: what is promised is promised anew in each pass.
fn anew(text: &Arc<str>) -> Arc<str> {
    match read(text) {
        Ok(mut policy) if policy.queue.reservations == Reservations::Kept => {
            policy.queue.reservations = Reservations::Replanned;
            print(&policy).into()
        }
        _ => Arc::clone(text),
    }
}

/// What a suspended job has left is noted under a number of no job.
fn resting(job: JobId) -> JobId {
    JobId(job.0 | 1 << 63)
}
