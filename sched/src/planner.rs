//! The planner: deltas in, verdicts out.
//!
//! Owned by the sched module's driver, which feeds it every change in the order
//! of the records and asks it for verdicts in bounded passes. It never records
//! and never assumes: what it proposes it holds until told how that went. The
//! walk decides, the occupancy finds room; here is who waits and who holds what.

mod charges;

mod claims;

mod closed;

mod evict;

mod explain;

mod gangs;

mod gifts;

mod held;

mod hindsight;
mod moved;

mod nodes;

pub(crate) mod places;

mod preempt;

mod promised;
mod proposals;

mod prospects;

mod reline;

mod rounds;

mod rows;

mod scene;

mod suppose;

mod taking;

mod victims;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Delta, Outcome, Owner, Question, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use crate::beside::Beside;
use crate::occupancy::{Occupancy, Spot};
use crate::placement::{self, place_beside};
use crate::policy::Policy;
use crate::table::Table;
use crate::turns::{Turn, Turns};
use crate::walk::{Agenda, Blocked, LAST, Progress, Rules, Verdict as Found};
use gangs::Gangs;
use hindsight::Hindsight;
use preempt::Among;
use reline::{Lined, Order};
use rows::Rows;
use taking::Taking;

/// Jobs looked at for each verdict that may be given.
const LOOKS: u64 = 64;

/// Plans by a policy over the state its deltas describe. Holds no clock.
pub struct Planner {
    policy: Policy,
    turns: Turns,
    lined: Lined,
    occupancy: Occupancy,
    agenda: Agenda<Turn, Occupancy>,
    /// In the place of the agenda where accounts take turns.
    table: Option<Table>,
    waiting: BTreeMap<JobId, Waiting>,
    /// Those of them that start together.
    gangs: Gangs,
    /// How many of them are of whom.
    owners: BTreeMap<Owner, u64>,
    rows: Rows,
    beside: Beside,
    holdings: BTreeMap<JobId, Holding>,
    /// What others pay for that hold nothing here.
    charged: BTreeMap<JobId, Holding>,
    /// The ranks of instances whose jobs alone may have them.
    grounds: BTreeMap<JobId, Idset>,
    /// Who takes from whom.
    taking: Taking,
    pass: Pass,
    questions: Vec<Question>,
    /// Who asked what each account is due.
    shares: Vec<u64>,
    /// How good what was told of starts has been.
    hindsight: Hindsight,
}

/// Who wants resources.
#[derive(Clone, Debug)]
struct Waiting {
    want: Arc<Want>,
    place: Place,
}

/// Where a waiting job is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It holds something, proposed or of an earlier attempt.
    Aside,
    /// In the agenda or at the table, or below the policy's threshold: as this row says.
    Row(u32),
    /// With its gang, which is not whole, or for which another stands.
    Gathered,
    /// With those that take nothing.
    Beside,
}

/// What a job holds, since when that is certain, and when it is planned to end.
#[derive(Clone, Debug)]
struct Holding {
    set: Arc<ResourceSet>,
    /// Nobody pays for the ground of an instance whose jobs do.
    owner: Option<Owner>,
    /// What it costs in each second.
    rate: f64,
    until: Time,
    certainty: Certainty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    /// A verdict said so; it is not known to be recorded.
    Proposed,
    /// It is recorded.
    Held,
}

/// Whether the pass under way knows all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// None is under way.
    Over,
    /// One is, and nothing came since.
    Current,
    /// Something came since it began: another is to follow.
    Stale,
}

impl Default for Planner {
    fn default() -> Planner {
        Planner::with(Policy::default())
    }
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner")
            .field("policy", &self.policy.preset)
            .field("waiting", &self.waiting.len())
            .field("holdings", &self.holdings.len())
            .finish_non_exhaustive()
    }
}

impl Planner {
    /// A planner of first come, first served that knows nothing: no inventory, no rank in
    /// service, no job.
    pub fn new() -> Planner {
        Planner::default()
    }

    /// The same by another policy.
    pub fn with(policy: Policy) -> Planner {
        let turns = Turns::new(&policy);
        let mut planner = Planner {
            agenda: Agenda::new(Rules::from(&policy.queue)),
            table: Table::new(&policy),
            rows: Rows::new(&turns),
            turns,
            lined: Lined::new(),
            occupancy: Occupancy::new(&policy),
            policy,
            waiting: BTreeMap::new(),
            gangs: Gangs::new(),
            owners: BTreeMap::new(),
            beside: Beside::default(),
            holdings: BTreeMap::new(),
            charged: BTreeMap::new(),
            grounds: BTreeMap::new(),
            taking: Taking::default(),
            pass: Pass::Over,
            questions: Vec::new(),
            shares: Vec::new(),
            hindsight: Hindsight::default(),
        };
        planner.arm(None);
        planner
    }

    /// Takes one change in. The same again changes nothing.
    ///
    /// - `Inventory` replaces the one before; holdings stay. Until the first, and while it has
    ///   no nodes, every job waits.
    /// - `Up`, `Down`: a rank never named is not in service. Whether it is drained or offline
    ///   makes no difference but to jobs that take nothing, which drained ranks serve. Ranks may
    ///   be named before the inventory has them.
    /// - `Want` of a job whose start is proposed keeps the proposal if it asks for the same,
    ///   else withdraws it. Of a job that still holds what an earlier attempt was given: it
    ///   waits until that is free.
    /// - `Unwant` withdraws a proposal. What is recorded as held stays held.
    /// - `Held` ends the wait and confirms a proposal, or replaces it if it names other resources.
    /// - `Rests` replaces what is held by what is left of it, while the job may want the rest back.
    /// - `Freed` gives back what is held or proposed. A job that still wants waits in its turn.
    /// - `Ending` of a job that holds something: it is taken from no more, and what it leaves is kept
    ///   for the job for which it ends; `Shrinks` of one that goes on without these nodes. `Gives` is what
    ///   that can be. `Kept` takes back a verdict that one is to end, or to give nodes.
    /// - `Preempts` says also how long whoever ignores TERM is there: that counts for the planned ends of
    ///   all that is held, or wanted, from then on, and so is told first.
    /// - `Stay` replaces what was said of it before: whoever would not have ended in time gets `Never` where he could
    ///   be nowhere else.
    /// - `Policy` is obeyed from the next pass on; one that cannot be read changes nothing.
    /// - `Account` counts from the next pass on, `Used` is as if it had been known all the time. So is `Settled`, and
    ///   what was charged for that attempt meanwhile never was; nor was what was for a start that is not recorded.
    /// - `Explain` and `Shares` are answered by the next outcome.
    pub fn apply(&mut self, delta: Delta) {
        if self.pass == Pass::Current {
            self.pass = Pass::Stale;
        }
        self.hear(&delta);
        match (&delta, &mut self.table) {
            (Delta::Explain(_), _) | (_, None) => {}
            (_, Some(table)) => {
                table.stir();
                self.taking.stir();
            }
        }
        match delta {
            Delta::Inventory(set) => self.define(set),
            Delta::Up(ranks) => self.bring(&ranks),
            Delta::Down(ranks, why) => self.withdraw(&ranks, why),
            Delta::Want(job, want) => self.want(job, want),
            Delta::Unwant(job) => {
                self.unwant(job);
                self.take_back(job);
                self.not_elsewhere(job);
            }
            Delta::Held(job, owner, set) => {
                self.rests_no_more(job);
                self.held(job, Some(owner), set);
            }
            Delta::Rests(job, _, set) => self.rests(job, set),
            Delta::Ground(job, set) => self.ground(job, set),
            Delta::Charged(job, owner, set) => self.charge(job, owner, set),
            Delta::Settled(job, owner, stays) => self.settled(job, &owner, &stays),
            Delta::Freed(job) => self.freed(job),
            Delta::Ending(job, by, until) => self.ends(job, by, until, Certainty::Held),
            Delta::Shrinks(job, all) => self.shrinks(job, &all),
            Delta::Kept(job, until) => self.goes_on(job, until),
            // Who holds nothing gives nothing.
            Delta::Spared(job) | Delta::Gives(job, _) if !self.holdings.contains_key(&job) => {}
            Delta::Spared(job) => drop(self.taking.spared.insert(job)),
            Delta::Gives(job, gives) => self.taking.gives(job, gives),
            Delta::Preempts(rules) => self.arm(Some(rules)),
            // What is set aside is another planner's, and so is what is reserved.
            Delta::Pools(pools) => {
                self.occupancy.define_pools(&pools);
                self.agenda.freed();
            }
            Delta::Uses(job, takes, set) => {
                let until = self.end_of(&set);
                self.occupancy.use_pools(job, takes, until);
            }
            Delta::Stay(stay) => self.stays(&stay),
            Delta::Line(..) | Delta::Reserved(_) | Delta::Unreserved(_) => {}
            Delta::Policy(text) => self.obey(&text),
            Delta::Account(change) => {
                self.turns.regroup(&change);
                self.weigh();
                self.lined.order = Order::Moved;
            }
            Delta::Used(used) => {
                used.iter().for_each(|one| self.turns.used(one));
                self.lined.order = Order::Moved;
            }
            Delta::Past(used) => self.reckon(&used),
            Delta::Explain(question) => self.questions.push(question),
            Delta::Shares(tag) => self.shares.push(tag),
        }
    }

    /// Looks at the jobs that take nothing, then at the others by the policy, until all that can
    /// be decided is or about `steps` verdicts are given.
    ///
    /// A `Start` is held from here on, and not said again unless it is given back. A job that
    /// gets `Never` is forgotten. `now` becomes the start of the grants.
    pub fn plan(&mut self, now: Time, steps: u32) -> Outcome {
        let mut outcome = Outcome::default();
        self.catch_up(now);
        self.plan_beside(now, steps, &mut outcome);
        if self.occupancy.inventory().is_empty() {
            // Nobody can be placed.
        } else {
            self.begin_pass(now);
            self.settle_claims(&mut outcome);
            match self.table.is_some() {
                true => self.rounds(now, steps, &mut outcome),
                false => self.walk(now, steps, &mut outcome),
            }
            let among = match outcome.unfinished {
                true => Among::Starts,
                false => Among::All,
            };
            if among == Among::All {
                self.evict(now, &mut outcome);
            }
            self.preempt(now, among, &mut outcome);
        }
        if !outcome.unfinished {
            outcome.head = self.head(now);
            let gate = self.occupancy.gate().again();
            let again = outcome.again.into_iter().chain(gate);
            let again = again.chain(self.occupancy.opens()).chain(self.due(now));
            let again = again.chain(self.expected().map(|(_, at)| at));
            let table = self.table.as_ref().and_then(Table::again);
            outcome.again = again.chain(table).min();
        }
        self.note_moves(&outcome);
        outcome.answers.extend(self.answers(now));
        if !outcome.unfinished {
            self.probe(now);
        }
        if !self.shares.is_empty() {
            outcome.shares = Some(self.told_shares(now));
        }
        outcome
    }

    /// All is as of this time, and nobody has begun. Done again it changes nothing.
    fn catch_up(&mut self, now: Time) {
        self.occupancy.at(now);
        self.turns.at(now);
        self.lapse();
        self.expect_until(now);
        let lined = self.lined.at;
        self.reline(now);
        if self.lined.at != lined && self.pass == Pass::Current {
            // Whom it has not looked at may be ahead of where it is.
            self.pass = Pass::Stale;
        }
    }

    /// What may be started in one pass is counted from here, unless one is under way.
    fn begin_pass(&mut self, now: Time) {
        if self.pass == Pass::Over {
            self.pass = Pass::Current;
            if self.occupancy.gate().again().is_some_and(|at| at <= now) {
                // Who was held back by a limit may have his promise sooner.
                self.agenda.freed();
            }
            self.occupancy.begin(now);
        }
    }

    /// When a promise is due, where starts are limited: where they are not, what it waits for tells. And
    /// when all is to be planned anew.
    fn due(&self, now: Time) -> Option<Time> {
        let is_limited = !self.occupancy.gate().is_open();
        let due = self.agenda.next_due().filter(|_| is_limited);
        // Behind one without an end it is promised for the end of time.
        let due = due.filter(|at| *at > now && *at < LAST);
        // It may have come while a pass of many slices was under way.
        let plan = self.agenda.next(now).map(|at| at.max(now.after(Span(1))));
        let walks = self.table.is_none() && !self.occupancy.inventory().is_empty();
        due.into_iter().chain(plan.filter(|_| walks)).min()
    }

    /// Looks at the jobs that take nothing, each at most once until a rank it waits for comes.
    fn plan_beside(&mut self, now: Time, steps: u32, outcome: &mut Outcome) {
        if self.occupancy.inventory().is_empty() {
            return;
        }
        while let Some(job) = self.beside.first() {
            let request = &self.waiting[&job].want.request;
            let request_limit = request.duration;
            let found = place_beside(self.occupancy.inventory(), request, now);
            if let placement::Beside::WaitFor(rank) = found {
                self.beside.sleep(job, rank);
                continue;
            }
            // Only now, so that nobody hears of more to come when all that is left waits.
            if outcome.verdicts.len() as u64 >= u64::from(steps) {
                outcome.unfinished = true;
                return;
            }
            let verdict = match found {
                placement::Beside::Start(set) => {
                    let set = Arc::new(set);
                    let until = self.until(now, request_limit);
                    self.occupancy.hold(job, &set, until);
                    Verdict::Start(self.propose(job, set, until))
                }
                placement::Beside::Never(reason) => {
                    self.unwant(job);
                    Verdict::Never(reason)
                }
                placement::Beside::WaitFor(_) => unreachable!("handled above"),
            };
            outcome.verdicts.push((job, verdict));
        }
    }

    fn walk(&mut self, now: Time, steps: u32, outcome: &mut Outcome) {
        let mut found = Vec::new();
        let mut looks = LOOKS * u64::from(steps.max(1));
        while looks > 0 {
            // As many looks as verdicts are left, so that no more are given.
            let given = outcome.verdicts.len() as u64;
            let left = match u64::from(steps).saturating_sub(given) {
                // Nobody is left either: the pass ends without another verdict.
                0 if self.agenda.is_empty() => 1,
                0 => break,
                // Each start may change who is next, or how much more may be started.
                _ if self.turns.is_projected() || !self.occupancy.gate().is_open() => 1,
                left => left.min(looks),
            };
            looks -= left;
            self.begin_pass(now);
            let room = &mut self.occupancy;
            let progress = self.agenda.pass(room, now, left, &mut found);
            for verdict in found.drain(..) {
                self.take(verdict, outcome);
            }
            if self.turns.is_projected() && self.lined.order == Order::Moved {
                self.reline(now);
                if self.lined.order == Order::True {
                    self.agenda.restart();
                    continue;
                }
            }
            if progress == Progress::Done {
                match std::mem::replace(&mut self.pass, Pass::Over) {
                    Pass::Over | Pass::Current if !self.agenda.has_news() => return,
                    // Nobody else says when what a late one left may be had.
                    Pass::Over | Pass::Current | Pass::Stale => {}
                }
            }
        }
        outcome.unfinished = true;
    }

    /// Makes a verdict of what the walk found.
    fn take(&mut self, found: Found<Turn, Spot>, outcome: &mut Outcome) {
        match found {
            Found::Start { key, spot, span } => self.start(key.job, &spot, span, outcome),
            Found::Wait {
                key,
                why: Blocked::Never,
            } => {
                // A walk that fills by length looks at the heads twice, and it may be gone by then.
                if !self.waiting.contains_key(&key.job) {
                    return;
                }
                let (entry, _) = self.entry_of(key.job);
                if let Some(reason) = self.occupancy.never(&entry.need) {
                    match entry.need.gang {
                        Some(_) => self.never_gang(key.job, &reason, outcome),
                        None => {
                            self.unwant(key.job);
                            outcome.verdicts.push((key.job, Verdict::Never(reason)));
                        }
                    }
                    // Whom it held up may go.
                    self.pass = Pass::Stale;
                }
            }
            Found::Wait { .. } | Found::Reserve { .. } => {}
        }
    }

    fn start(&mut self, job: JobId, spot: &Spot, span: Span, outcome: &mut Outcome) {
        match self.occupancy.start(spot, span) {
            Some(started) if spot.is_of_gang() => self.start_gang(spot, started, outcome),
            Some(started) => {
                for (job, set, until) in started {
                    let set = self.propose(job, set, until);
                    outcome.verdicts.push((job, Verdict::Start(set)));
                }
            }
            // What it was promised is late: it is planned again, in a pass that follows.
            None => {
                self.enter(job);
                self.agenda.freed();
                self.agenda.plan_soon();
            }
        }
    }

    fn propose(&mut self, job: JobId, set: Arc<ResourceSet>, until: Time) -> Arc<ResourceSet> {
        let owner = self.waiting[&job].want.owner.clone();
        let held = Arc::clone(&set);
        self.hold((job, Some(owner)), (held, until), Certainty::Proposed);
        self.aside(job);
        set
    }

    fn hold(
        &mut self,
        (job, owner): (JobId, Option<Owner>),
        (set, until): (Arc<ResourceSet>, Time),
        certainty: Certainty,
    ) {
        let rate = owner
            .as_ref()
            .map_or(0.0, |owner| self.began(job, owner, &set));
        if let (Some(owner), Certainty::Held) = (&owner, certainty) {
            self.taking.holds(owner, job);
        }
        let holding = Holding {
            set,
            owner,
            rate,
            until,
            certainty,
        };
        self.holdings.insert(job, holding);
    }

    fn want(&mut self, job: JobId, want: Want) {
        let before = self.waiting.get(&job);
        if before.is_some_and(|before| before.want.request != want.request) {
            self.take_back(job);
        }
        let turn = self.turn_of(job);
        let promised = turn.and_then(|turn| self.promised_start(&turn)).is_some();
        self.unwant(job);
        let waiting = self.owners.entry(want.owner.clone()).or_default();
        if *waiting == 0 {
            // What each is due may depend on who else waits.
            self.lined.order = Order::Moved;
        }
        *waiting += 1;
        let (want, place) = (Arc::new(want), Place::Aside);
        self.waiting.insert(job, Waiting { want, place });
        if !self.holdings.contains_key(&job) {
            self.enter(job);
        }
        if promised {
            // Nobody is to have meanwhile what it was promised.
            self.agenda.plan_soon();
        }
    }

    /// It wants nothing any more.
    fn unwant(&mut self, job: JobId) {
        self.hindsight.gone(job);
        self.aside(job);
        let Some(waiting) = self.waiting.remove(&job) else {
            return;
        };
        let owner = &waiting.want.owner;
        if let Some(count) = self.owners.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(owner);
                // What each is due may depend on who else waits.
                self.lined.order = Order::Moved;
            }
        }
    }
}
