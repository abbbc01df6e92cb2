//! Who may take from whom, and from whom a pass takes.
//!
//! Called by the planner when a pass has decided all that room decides. A job that waits, and that
//! stands above jobs that run, is found the fewest of them (`victims`) so that it fits, those of the
//! lowest class and QoS first and of these who was granted his resources last; never one of its own
//! standing or above, never one within its `exempt`, never one that was taken from as often as may
//! be. An instance that can be without some of its nodes gives those and goes on (`gifts`). What they
//! leave is its claim (`claims`). Before anybody ends, starts of the same outcome are taken back
//! (`proposals`), also those who would be ended as soon as others are exempt no more (`prospects`). Where
//! accounts take turns, classes take from each other in the rounds of `evict`; QoS take here, too.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Sharing;
use eddy_wire::plan::{Outcome, Verdict};
use eddy_wire::preempt::{Cause, Preempts};
use eddy_wire::time::{Span, Time};

use super::gifts::{self, Coming};
use super::proposals::Retracted;
use super::prospects::Expects;
use super::taking::{Armed, Standing, takes_from_others};
use super::victims::{Candidate, Given, Search, Sought, Victim};
use super::{Certainty, Place, Planner};
use crate::need::Need;
use crate::occupancy::Ask;
use crate::policy::{Preference, Reservations, Rung, Walk};
use crate::turns::Turn;
use crate::walk::{Room, Rules};

/// Of each standing so many who wait are looked at, those with the lowest numbers.
const WAITERS_MAX: usize = 4096;
/// So many different needs are tried in a pass.
const TRIED_MAX: usize = 16;
/// So many have claims at a time.
const CLAIMS_MAX: usize = 64;
/// Where nobody passes, so many who are ahead are looked at.
const AHEAD_MAX: usize = 4096;

/// One who holds something and may be taken from, as he is to go: by class and QoS, who gives nodes before who
/// ends, who began last before others.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    /// From when on.
    pub open: Time,
    rank: (i64, f64),
    last: (bool, Reverse<i64>, Reverse<JobId>),
}

impl Holder {
    pub fn job(&self) -> JobId {
        let (.., Reverse(job)) = self.last;
        job
    }

    fn by_rank(&self, other: &Holder) -> Ordering {
        let classes = self.rank.0.cmp(&other.rank.0);
        classes.then(self.rank.1.total_cmp(&other.rank.1))
    }
}

/// Who may be taken from by those of one standing, and when more may be.
struct Pool {
    /// Whose start nobody has been told of; they are the first of the candidates.
    starts: Vec<Candidate>,
    candidates: Vec<Candidate>,
    promises: Promises,
    again: Option<Time>,
}

/// Whom a slice of a pass takes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// All: it is the last, and room is found for nobody else.
    All,
    /// Who begins by it, and nobody who runs: the rest of the pass may still find room for those who wait, but
    /// not where these begin.
    Starts,
}

/// Whether something may be promised to those below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promises {
    None,
    Some,
}

impl Pool {
    fn is_empty(&self) -> bool {
        self.candidates.is_empty() && self.promises == Promises::None
    }
}

impl Planner {
    /// Other rules from now on; none is as before.
    pub(super) fn arm(&mut self, rules: Option<Arc<Preempts>>) {
        if let Some(rules) = rules {
            self.taking.rules = rules;
        }
        let by_qos = self.taking.rules.qos.values();
        let any = by_qos.into_iter().any(|rule| !rule.preempts.is_empty());
        self.taking.armed = match any || self.takes_by_class() {
            true => Armed::Yes,
            false => Armed::No,
        };
        (self.taking.holders, self.taking.waiters) = Default::default();
        for (job, holding) in &self.holdings {
            if let (Certainty::Held, Some(owner)) = (holding.certainty, &holding.owner) {
                self.taking.holds(owner, *job);
            }
        }
        for (job, one) in &self.waiting {
            if let Place::Row(_) = one.place
                && takes_from_others(&one.want)
            {
                self.taking.waits(&one.want.owner, *job);
            }
        }
    }

    /// Whether classes take from lower ones here. Where accounts take turns their rounds do that.
    fn takes_by_class(&self) -> bool {
        self.table.is_none() && self.policy.placement.ladder.contains(&Rung::Urgency)
    }

    pub(super) fn qos_of<'a>(&'a self, standing: &'a Standing) -> &'a str {
        let default = &self.policy.priority.factors.default_qos;
        standing.qos.as_ref().map_or(default, Name::as_str)
    }

    fn class_of<'a>(&'a self, standing: &'a Standing) -> (&'a str, i64, Preference) {
        let placement = &self.policy.placement;
        let named = standing.class.as_ref().map(Name::as_str);
        let name = named.unwrap_or(&placement.default_class);
        match placement.classes.get(name) {
            Some(class) => (name, class.priority, class.urgency_preemptible),
            None => (name, 0, Preference::Off),
        }
    }

    /// The priority of its class.
    pub(super) fn rank(&self, standing: &Standing) -> i64 {
        self.class_of(standing).1
    }

    pub(super) fn preempts(&self, taker: &str, holder: &str) -> bool {
        let rule = self
            .taking
            .rules
            .qos
            .iter()
            .find(|(name, _)| name.as_str() == taker);
        rule.is_some_and(|(_, rule)| rule.preempts.iter().any(|one| one.as_str() == holder))
    }

    /// By which rule one may take from the other, if he may: never from an equal, nor from whom the
    /// other rule puts above him.
    pub(super) fn may_take(&self, taker: &Standing, holder: &Standing) -> Option<String> {
        let (qos, other) = (self.qos_of(taker), self.qos_of(holder));
        let (class, priority, _) = self.class_of(taker);
        let (lower, its, preemptible) = self.class_of(holder);
        if qos != other && self.preempts(qos, other) && priority >= its {
            return Some(format!("QoS {qos} preempts QoS {other}"));
        }
        let by_class = self.takes_by_class() && preemptible == Preference::On;
        let above = priority > its && !self.preempts(other, qos);
        (by_class && above).then(|| format!("class {class} stands above class {lower}"))
    }

    /// The factor of a QoS.
    pub(super) fn worth(&self, qos: &str) -> f64 {
        let known = self.policy.priority.factors.qos.get(qos);
        known.copied().unwrap_or(0.0)
    }

    /// Names who gives way so that those who stand above them can start.
    pub(super) fn preempt(&mut self, now: Time, among: Among, outcome: &mut Outcome) {
        if self.taking.armed == Armed::No {
            return;
        }
        let mut pools: BTreeMap<Standing, Pool> = BTreeMap::new();
        let mut last = None;
        let mut tried: BTreeSet<(Standing, Need, Span, Option<Idset>)> = BTreeSet::new();
        for (turn, standing) in self.takers_in_turn(among, outcome) {
            if self.taking.claims.len() >= CLAIMS_MAX {
                break;
            }
            if tried.len() >= TRIED_MAX {
                // Those who come behind so many have their turn, too.
                self.taking.looked = last;
                break;
            }
            last = Some(turn);
            let job = turn.job;
            let (ask, span) = self.ask_of(job);
            let ranks = ask.want.request.ranks.clone();
            let key = (standing.clone(), ask.need, span, ranks);
            if tried.contains(&key) || !self.may_pass(&turn, &standing) {
                continue;
            }
            // What others leave in sum may lie in no socket.
            if ask.need.sockets.is_some() {
                continue;
            }
            // Nodes alone would not help who waits for a pool.
            if !self.occupancy.admits(&ask) || self.occupancy.pool_short(&ask).is_some() {
                continue;
            }
            if !pools.contains_key(&standing) {
                pools.insert(standing.clone(), self.pool(&standing, now, outcome));
            }
            let pool = &pools[&standing];
            if pool.is_empty() && self.awaited(job).next().is_none() {
                outcome.again = outcome.again.into_iter().chain(pool.again).min();
                continue;
            }
            match self.seek_in((&turn, &standing), (&ask, span), (pool, among)) {
                Some(sought) => {
                    self.take_from((turn, &standing), (&ask, span), sought, outcome);
                    // Who gave nodes stands elsewhere among his equals by what he has left.
                    pools.clear();
                }
                None => {
                    let again = pool.again.into_iter().chain(self.patience());
                    outcome.again = outcome.again.into_iter().chain(again).min();
                    let starts = !pool.starts.is_empty() && pool.again.is_some();
                    match starts.then(|| self.expect((turn, &standing), (&ask, span), outcome)) {
                        Some(Expects::Something) => pools.clear(),
                        Some(Expects::Nothing) | None => drop(tried.insert(key)),
                    }
                }
            }
        }
    }

    pub(super) fn ask_of(&self, job: JobId) -> (Arc<Ask>, Span) {
        let (job, limit) = self.entry_of(job);
        (job.need, Rules::from(&self.policy.queue).span(limit))
    }

    /// Those who wait, have no claim and no prospect, and stand above somebody who holds something, or is to, or may be
    /// promised something, in turn.
    fn takers(&self, among: Among, outcome: &Outcome) -> Vec<(Turn, Standing)> {
        let mut takers = Vec::new();
        let begin: BTreeSet<Standing> = self.proposed(outcome).map(|(_, one)| one).collect();
        for (standing, jobs) in &self.taking.waiters {
            let is_above = |other| self.may_take(standing, other).is_some();
            let takes = match among {
                Among::Starts => begin.iter().any(is_above),
                Among::All => {
                    let others = self.taking.holders.keys();
                    others.chain(&begin).any(is_above)
                        || self.promises_below(standing) == Promises::Some
                }
            };
            if !takes {
                continue;
            }
            let open = jobs.iter().filter(|job| !self.taking.is_out_of_line(**job));
            for job in open.take(WAITERS_MAX) {
                takers.extend(self.turn_of(*job).map(|turn| (turn, standing.clone())));
            }
        }
        takers.sort_unstable();
        takers
    }

    /// The same, those first whom the last pass did not come to.
    fn takers_in_turn(&mut self, among: Among, outcome: &Outcome) -> Vec<(Turn, Standing)> {
        let mut takers = self.takers(among, outcome);
        if let Some(looked) = self.taking.looked.take() {
            let at = takers.partition_point(|(turn, _)| *turn <= looked);
            takers.rotate_left(at);
        }
        takers
    }

    /// The turn of one who waits for resources.
    pub(super) fn turn_of(&self, job: JobId) -> Option<Turn> {
        match self.waiting.get(&job)?.place {
            Place::Row(row) => self.rows.turn(row),
            Place::Aside | Place::Gathered | Place::Beside => None,
        }
    }

    /// Where nobody passes who is ahead: whether all ahead are such as it stands above.
    fn may_pass(&self, turn: &Turn, standing: &Standing) -> bool {
        if self.policy.queue.walk != Walk::Stop || self.table.is_some() {
            return true;
        }
        let mut ahead = self.agenda.lined().take_while(|other| *other < turn);
        let below = |other: &Turn| self.stands_above(standing, other.job);
        let looked = ahead.by_ref().take(AHEAD_MAX);
        looked.into_iter().all(below) && ahead.next().is_none()
    }

    /// Whether it stands above another who waits.
    fn stands_above(&self, standing: &Standing, other: JobId) -> bool {
        let other = self.waiting.get(&other);
        let other = other.map(|one| Standing::of(&one.want.owner));
        other.is_some_and(|other| self.may_take(standing, &other).is_some())
    }

    /// Whether something may be promised to those whom this standing is above.
    fn promises_below(&self, standing: &Standing) -> Promises {
        let mut waiters = self.taking.waiters.keys();
        let are_any = self.promises().next().is_some()
            && waiters.any(|other| self.may_take(standing, other).is_some());
        match are_any {
            true => Promises::Some,
            false => Promises::None,
        }
    }

    /// Who holds something that this standing may take, now or later.
    pub(super) fn holders_below(&self, standing: &Standing) -> Vec<Holder> {
        let mut found = Vec::new();
        for (holder, jobs) in &self.taking.holders {
            if self.may_take(standing, holder).is_none() {
                continue;
            }
            let (_, class, _) = self.class_of(holder);
            let qos = self.qos_of(holder);
            let worth = self.worth(qos);
            for job in jobs {
                if self.taking.spared.contains(job) {
                    continue;
                }
                let start = self.holdings[job].set.starttime;
                let ends = self.spares(*job).is_empty();
                found.push(Holder {
                    open: self.exempt_until(*job, qos),
                    rank: (class, worth),
                    last: (ends, Reverse(start), Reverse(*job)),
                });
            }
        }
        found
    }

    /// They may be taken from, who is to go first at the front.
    pub(super) fn lined_up(&self, mut open: Vec<Holder>) -> Vec<Candidate> {
        open.sort_by(|a, b| a.by_rank(b).then(a.last.cmp(&b.last)));
        let levels = open.chunk_by(|a, b| a.by_rank(b).is_eq()).enumerate();
        let candidates = levels.flat_map(|(level, alike)| {
            let jobs = alike.iter().map(Holder::job);
            jobs.map(move |job| self.candidate(job, level + 1))
        });
        candidates.collect()
    }

    /// Who may be taken from by this standing now, who is to go first at the front.
    fn pool(&self, standing: &Standing, now: Time, outcome: &Outcome) -> Pool {
        let below = self.holders_below(standing).into_iter();
        let (open, exempt): (Vec<Holder>, Vec<Holder>) = below.partition(|one| one.open <= now);
        let candidates = self.lined_up(open).into_iter();
        let starts = self.retractable(standing, outcome);
        let starts = starts.into_iter().map(|job| self.candidate(job, 0));
        // Who takes nothing gives nothing.
        let gives = |one: &Candidate| !one.parts.is_empty();
        let starts: Vec<Candidate> = starts.filter(gives).collect();
        Pool {
            candidates: starts
                .iter()
                .cloned()
                .chain(candidates.filter(gives))
                .collect(),
            starts,
            promises: self.promises_below(standing),
            again: exempt.iter().map(|one| one.open).min(),
        }
    }

    pub(super) fn candidate(&self, job: JobId, level: usize) -> Candidate {
        let inventory = self.occupancy.inventory();
        let set = &self.holdings[&job].set;
        let mut parts = self.taking.parts(inventory, job, set);
        self.without_leaving(job, &mut parts);
        Candidate {
            job,
            level,
            parts,
            spares: self.spares(job),
        }
    }

    /// From when on a job of that QoS may be taken from.
    pub(super) fn exempt_until(&self, job: JobId, qos: &str) -> Time {
        let rules = self.taking.rules.qos.iter();
        let mut rule = rules.filter(|(name, _)| name.as_str() == qos);
        let exempt = rule.next().map_or(Span::ZERO, |(_, rule)| rule.exempt);
        let start = self.holdings.get(&job).map_or(0, |one| one.set.starttime);
        let kept = self.taking.kept.get(&job).copied();
        Time(start).after(exempt).max(kept.unwrap_or(Time(0)))
    }

    /// Who of a pool gives way so that it fits: nobody ends where it is enough that others do not begin.
    fn seek_in(
        &self,
        who: (&Turn, &Standing),
        what: (&Arc<Ask>, Span),
        (pool, among): (&Pool, Among),
    ) -> Option<Sought> {
        let starts = (!pool.starts.is_empty()).then(|| self.seek(who, what, &pool.starts));
        match among {
            Among::All => {
                let all = || self.seek(who, what, &pool.candidates);
                starts.flatten().or_else(all)
            }
            Among::Starts => starts.flatten().filter(|one| !one.victims.is_empty()),
        }
    }

    /// Who gives way so that it fits, and where it goes: what ends for it already is its own.
    pub(super) fn seek(
        &self,
        (turn, standing): (&Turn, &Standing),
        (ask, span): (&Arc<Ask>, Span),
        candidates: &[Candidate],
    ) -> Option<Sought> {
        let now = self.occupancy.now();
        let own = self.coming_for(turn.job);
        let search = self.search((turn, standing), (ask, span), candidates, (now, &own));
        if search.is_met() {
            return search.fewest();
        }
        let mut all = self.coming_anyway();
        if !all.is_empty() {
            all.extend(own);
            // What ends anyway will do: nobody is to end for it.
            if self
                .search((turn, standing), (ask, span), candidates, (now, &all))
                .is_met()
            {
                return None;
            }
        }
        gifts::least(search, candidates)
    }

    /// The search for who gives way from a time on, where what is to come `back` is its own, and what jobs give
    /// back by then.
    pub(super) fn search<'a>(
        &self,
        (turn, standing): (&Turn, &Standing),
        (ask, span): (&'a Arc<Ask>, Span),
        candidates: &'a [Candidate],
        (from, back): (Time, &[Coming]),
    ) -> Search<'a> {
        let is_later = from > self.occupancy.now();
        let inventory = self.occupancy.inventory();
        let need = &ask.need;
        let within = inventory.all().within(&ask.want.request);
        let rooms = match need.sharing {
            Sharing::Shared => inventory.free(),
            Sharing::Exclusive => inventory.idle(),
        };
        let (mut places, mut next) = (BTreeSet::new(), 0);
        while let Some(at) = within.next(rooms, next, &need.least()) {
            places.insert(at);
            next = at + 1;
        }
        let all = candidates.iter().flat_map(|one| &one.parts);
        let all = all.chain(back.iter().flat_map(|one| &one.parts));
        let there = all.map(|part| part.at);
        let later = is_later.then(|| self.occupancy.returned_by(from));
        let there = there.chain(later.into_iter().flatten());
        places.extend(there.filter(|at| inventory.is_serving(*at) && within.has(*at)));
        let counts_back = is_later || places.iter().any(|at| self.is_promised(*at));
        let apart: BTreeSet<JobId> = match counts_back {
            true => {
                let jobs = candidates.iter().map(|one| one.job);
                jobs.chain(back.iter().map(|one| one.job)).collect()
            }
            false => BTreeSet::new(),
        };
        let until = self.had_until(from, span);
        let mut search = Search::new(need, candidates);
        for at in places {
            let heeds = |job| match is_later {
                true => self.heeds_then(turn, standing, job),
                false => self.heeds(turn, standing, job),
            };
            let mut found = self
                .occupancy
                .to_be_had(at, (from, until), heeds, |job| apart.contains(&job));
            let parts = back.iter().flat_map(|one| &one.parts);
            parts
                .filter(|part| part.at == at)
                .for_each(|part| part.give(&mut found));
            search.place(at, found, inventory.capacity(at));
        }
        search
    }

    fn is_promised(&self, at: usize) -> bool {
        self.occupancy.promised_on(at).next().is_some()
    }

    /// Whether one who takes keeps off what is promised to another: not to whom he stands above,
    /// nor, where nothing promised stays, to those behind.
    pub(super) fn heeds(&self, turn: &Turn, standing: &Standing, other: JobId) -> bool {
        if other == turn.job {
            return false;
        }
        if self.taking.claims.contains_key(&other) {
            return true;
        }
        if self.is_late(other) {
            return !self.displaces(standing, other);
        }
        let behind = match self.policy.queue.reservations {
            Reservations::Kept => false,
            Reservations::Replanned => self.turn_of(other).is_some_and(|other| other > *turn),
        };
        !behind && !self.stands_above(standing, other)
    }

    /// They are to end, and what they leave is its claim.
    fn take_from(
        &mut self,
        (turn, standing): (Turn, &Standing),
        (ask, span): (&Arc<Ask>, Span),
        sought: Sought,
        outcome: &mut Outcome,
    ) {
        let mut named = 0;
        for Victim { job, gives, .. } in &sought.victims {
            if self.retract(*job, outcome) == Retracted::Yes {
                continue;
            }
            named += 1;
            let owner = self.holdings[job].owner.clone().unwrap_or_default();
            let why = self.may_take(standing, &Standing::of(&owner));
            let (why, to) = (why.unwrap_or_default(), (turn.job, Cause::Urgency));
            match gives {
                Given::All => self.name(*job, to, why, outcome),
                Given::Nodes(nodes) => self.shrink(*job, nodes, to, why, outcome),
            }
        }
        self.claim(turn, (ask, span), sought.chosen);
        if named < sought.victims.len() || sought.victims.is_empty() {
            // All it takes is there or on its way, or there may be room elsewhere for who did not begin.
            outcome.unfinished = true;
        }
    }

    /// One who runs is to end for another.
    pub(super) fn name(
        &mut self,
        victim: JobId,
        (by, cause): (JobId, Cause),
        why: String,
        outcome: &mut Outcome,
    ) {
        let until = self.occupancy.now().after(self.taking.grace());
        self.ends(victim, Some(by), until, Certainty::Proposed);
        outcome.verdicts.push((
            victim,
            Verdict::Preempt {
                ranks: None,
                by,
                cause,
                why,
            },
        ));
    }
}
