//! Why jobs wait: the first of them after each pass, and those asked about.
//!
//! Called by the planner when it has planned. It changes nothing of the plan: what
//! would start when is tried out on a copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::plan::{self, Answer, Basis, Estimate, Explained, Outcome, Question, Reason, Want};
use eddy_wire::services::sched::SUPPOSED_MAX;
use eddy_wire::time::{Span, Time};

use super::{Place, Planner, Waiting};
use crate::occupancy::{Ask, Occupancy};
use crate::placement::Unplaced;
use crate::policy::{Reservations, Walk};
use crate::turns::Turn;
use crate::walk::{Agenda, Progress, Room, Rules, Verdict};

/// How many that are ahead of a job are planned to say when it would start.
const AHEAD_MAX: u64 = 1000;
/// Where more wait nobody is looked at who is not asked about.
const PROBED_MAX: usize = 1000;
/// Looks of such a plan.
const LOOKS_MAX: u64 = 10_000;

impl Planner {
    /// The first who waits in turn, and why.
    pub(super) fn head(&self, now: Time) -> Option<(JobId, Reason)> {
        let turn = self.first(now)?;
        if let Some(reason) = self.claimed(turn.job, now) {
            return Some((turn.job, reason));
        }
        let why = match self.occupancy.placed(&self.entry_of(turn.job).0.need, now) {
            Err(Unplaced::Never(reason)) => reason,
            Err(Unplaced::Wait(reason)) => self.barred(turn, now, None).unwrap_or(reason),
            Ok(placed) => match self.barred(turn, now, Some(&placed)) {
                Some(reason) => reason,
                None => match self.pool_short(turn) {
                    Some(reason) => reason,
                    None => self.promised_to_others(turn, now),
                },
            },
        };
        Some((turn.job, why))
    }

    /// Nobody will ask when jobs start: nothing is reckoned towards an answer.
    pub(crate) fn unasked(mut self) -> Planner {
        self.hindsight.unasked();
        self
    }

    /// Whether a job asks for more than its account may have at all: no end lets it start.
    pub(crate) fn is_beyond(&self, want: &Want) -> bool {
        let ask = Ask::new(JobId(0), Arc::new(want.clone()));
        self.occupancy.is_beyond(&ask)
    }

    /// How many start by an outcome, which is not carried out yet, whose turn is after that of one who waits
    /// on.
    pub(crate) fn passed(&self, outcome: &Outcome, now: Time) -> u64 {
        let turn = |job: JobId| {
            let waiting = self.waiting.get(&job)?;
            self.turns.turn(job, &waiting.want, now)
        };
        let head = outcome.head.as_ref().and_then(|(job, _)| turn(*job));
        let Some(head) = head.filter(|_| self.table.is_none()) else {
            // Where accounts take turns nobody is before another's.
            return 0;
        };
        let after = |(job, verdict): &&(JobId, plan::Verdict)| match verdict {
            plan::Verdict::Start(_) => turn(*job).is_some_and(|turn| head < turn),
            plan::Verdict::Never(_) | plan::Verdict::Preempt { .. } => false,
        };
        outcome.verdicts.iter().filter(after).count() as u64
    }

    pub(super) fn answer(&self, question: &Question, now: Time) -> Answer {
        if !question.suppose.is_nothing() {
            return self.supposed(question, now);
        }
        let is_asked = |job: JobId| question.names(job);
        let turns = self.turns(now);
        let asked = turns.iter().filter(|(_, turn)| is_asked(turn.job));
        let told: Vec<(u64, Turn)> = asked.clone().take(question.most).copied().collect();
        let starts = match told.last() {
            Some((ahead, _)) => self.forecast(&turns, *ahead, now),
            None => BTreeMap::new(),
        };
        let explain = |(ahead, turn): &(u64, Turn)| self.explain(*turn, *ahead, &starts, now);
        let mut jobs: Vec<Explained> = told.iter().map(explain).collect();
        if question.jobs.is_some() && told.len() <= SUPPOSED_MAX {
            for (one, (ahead, turn)) in jobs.iter_mut().zip(&told) {
                one.advice = self.advice(*turn, *ahead, (question, now));
                self.tell_prospect(*turn, one, now);
            }
        }
        let below = self.waiting.iter().filter(|(_, one)| match one.place {
            Place::Row(row) => self.rows.turn(row).is_none(),
            Place::Aside | Place::Gathered | Place::Beside => false,
        });
        let below: Vec<JobId> = below
            .map(|(job, _)| *job)
            .filter(|job| is_asked(*job))
            .collect();
        let gathered = self.gathered(is_asked);
        let more = (asked.count() + below.len() + gathered.len()) as u64;
        let left = question.most - jobs.len();
        jobs.extend(
            below
                .into_iter()
                .take(left)
                .map(|job| self.below(job, turns.len() as u64, now)),
        );
        let left = question.most - jobs.len();
        let gathered = gathered.into_iter().take(left);
        jobs.extend(self.of_gangs(gathered, &turns, &starts, now));
        Answer {
            tag: question.tag,
            more: more - jobs.len() as u64,
            jobs,
            let_go: self.let_go(question, now),
        }
    }

    /// Answers all who asked. What is told of when jobs start is held against when they do.
    pub(super) fn answers(&mut self, now: Time) -> Vec<Answer> {
        let questions = std::mem::take(&mut self.questions);
        let answer = |question: &Question| {
            let mut answer = self.answer(question, now);
            if question.suppose.is_nothing() {
                answer.jobs.iter_mut().for_each(|one| self.told(one, now));
            }
            answer
        };
        questions.iter().map(answer).collect()
    }

    fn told(&mut self, one: &mut Explained, now: Time) {
        self.tell_moved(one);
        let Some(start) = &mut one.start else { return };
        let Some(latest) = start.latest else { return };
        // How soon others began says nothing of a reservation that keeps this one out.
        let likely = self.hindsight.tell(one.job, start.basis, now, latest);
        start.likely = likely.and_then(|likely| likely.not_before(start.earliest));
    }

    /// Where nobody asks: reckons when the last who came would start, so that there is something to
    /// say to whoever asks next.
    pub(super) fn probe(&mut self, now: Time) {
        if self.waiting.len() > PROBED_MAX || !self.hindsight.probes(now) {
            return;
        }
        let waits = |(_, one): &(&JobId, &Waiting)| matches!(one.place, Place::Row(_));
        let last = self.waiting.iter().rev().find(waits).map(|(job, _)| *job);
        let Some(job) = last.filter(|job| !self.hindsight.knows(*job)) else {
            return;
        };
        let turns = self.turns(now);
        let found = turns.iter().find(|(_, turn)| turn.job == job);
        let Some((ahead, turn)) = found.copied() else {
            return;
        };
        let starts = self.forecast(&turns, ahead, now);
        let mut told = self.explain(turn, ahead, &starts, now);
        self.told(&mut told, now);
    }

    /// Why one waits that the policy does not run at all.
    fn below(&self, job: JobId, ahead: u64, now: Time) -> Explained {
        let priority = self.turns.breakdown(&self.waiting[&job].want, now);
        let threshold = self.policy.priority.threshold.unwrap_or_default();
        Explained {
            job,
            reason: Reason::BelowThreshold {
                value: priority.value.to_string(),
                threshold: threshold.to_string(),
            },
            ahead,
            start: None,
            priority,
            moved: None,
            sharing: Sharing::default(),
            advice: Vec::new(),
            lent: Vec::new(),
        }
    }

    pub(super) fn explain(
        &self,
        turn: Turn,
        ahead: u64,
        starts: &BTreeMap<JobId, Time>,
        now: Time,
    ) -> Explained {
        let at = match self.promised_start(&turn) {
            Some(at) => Some(at),
            None if let Some(at) = self.claimed_start(turn.job) => Some(at),
            None if let Some(at) = self.expected_start(turn.job) => Some(at),
            None => starts.get(&turn.job).copied(),
        };
        Explained {
            job: turn.job,
            reason: self.reason(turn, ahead, now),
            ahead,
            start: at.map(|at| Estimate {
                earliest: self.let_in(turn, now).min(at),
                latest: (at < Time(i64::MAX)).then_some(at),
                basis: self.basis(&turn),
                likely: None,
            }),
            priority: self.breakdown(turn, now),
            moved: None,
            sharing: self.waiting[&turn.job].want.request.sharing,
            advice: Vec::new(),
            lent: Vec::new(),
        }
    }

    /// Whether what one is told of is promised to it.
    fn basis(&self, turn: &Turn) -> Basis {
        match self.promised_start(turn) {
            Some(_) => Basis::Promise,
            None => Basis::Forecast,
        }
    }

    /// Whether a reservation of one stays as it is, whoever comes.
    fn is_kept(&self, turn: &Turn) -> bool {
        match self.policy.queue.reservations {
            Reservations::Kept => true,
            Reservations::Replanned => self.waits_too_long(turn.job),
        }
    }

    fn reason(&self, turn: Turn, ahead: u64, now: Time) -> Reason {
        if let Some(reason) = self.claimed(turn.job, now) {
            return reason;
        }
        let why = match self.occupancy.placed(&self.entry_of(turn.job).0.need, now) {
            Err(Unplaced::Never(reason)) => return reason,
            Err(Unplaced::Wait(reason)) => self.barred(turn, now, None).unwrap_or(reason),
            Ok(placed) => match self.barred(turn, now, Some(&placed)) {
                Some(reason) => reason,
                None => match self.pool_short(turn) {
                    Some(reason) => reason,
                    None => return self.promised_to_others(turn, now),
                },
            },
        };
        match (self.policy.queue.walk, ahead) {
            (Walk::Stop, 1..) if self.table.is_none() => self.behind(now),
            (Walk::Stop | Walk::Skip | Walk::Reserve { .. }, _) => why,
        }
    }

    /// Why one waits for which there is room now.
    fn promised_to_others(&self, turn: Turn, now: Time) -> Reason {
        if let Some(reason) = self.held_back(turn, now) {
            return reason;
        }
        if self.policy.queue.walk == Walk::Stop && self.first(now) != Some(turn) {
            return self.behind(now);
        }
        let booked = self.promises().map(|(other, at, _)| (other.job, at));
        let starts = self
            .expected()
            .map(|(other, at)| (other, self.taken_by(at)));
        let first = booked.chain(starts).filter(|(other, _)| *other != turn.job);
        match first.min_by_key(|(_, at)| *at) {
            Some((job, at)) => Reason::WouldDelay {
                job,
                within: Span((at - now).0.max(0)),
            },
            None => Reason::New,
        }
    }

    fn behind(&self, now: Time) -> Reason {
        match self.head(now) {
            Some((head, why)) => Reason::Behind {
                head,
                why: why.to_string(),
            },
            None => Reason::New,
        }
    }

    /// When all up to so many in turn would start if nothing else came, and all that runs and is
    /// ahead ran to its limit. Nothing where too many are ahead.
    fn forecast(&self, turns: &[(u64, Turn)], last: u64, now: Time) -> BTreeMap<JobId, Time> {
        if last > AHEAD_MAX {
            return BTreeMap::new();
        }
        let mut room = self.occupancy.clone();
        room.open();
        let replanned = self.agenda.bookings();
        for (_, booking) in replanned.filter(|(turn, _)| !self.is_kept(turn)) {
            room.give(&booking.spot, booking.at, booking.span);
        }
        // Whoever has a promise that stays starts by it, also one behind.
        let stays = |turn: &Turn| {
            let by_walk = self.is_kept(turn) && self.agenda.booking(turn).is_some();
            by_walk || self.is_late(turn.job) || self.taking.is_out_of_line(turn.job)
        };
        let turns = turns.iter().take_while(|(ahead, _)| *ahead <= last);
        let turns = turns.filter(|(_, turn)| !stays(turn));
        match self.policy.queue.walk {
            Walk::Stop => self.one_by_one(turns, &mut room, now),
            Walk::Skip | Walk::Reserve { .. } => self.each_its_gap(turns, &mut room, now),
        }
    }

    /// Where nobody passes those ahead.
    fn one_by_one<'t>(
        &self,
        turns: impl Iterator<Item = &'t (u64, Turn)>,
        room: &mut Occupancy,
        now: Time,
    ) -> BTreeMap<JobId, Time> {
        let rules = Rules::from(&self.policy.queue);
        let mut starts = BTreeMap::new();
        let mut from = now;
        for (_, turn) in turns {
            let (job, limit) = self.entry_of(turn.job);
            let span = rules.span(limit);
            let Ok((at, spot)) = room.earliest(&job.need, from, span) else {
                break;
            };
            room.take(&spot, at, span);
            starts.insert(turn.job, at);
            from = at;
        }
        starts
    }

    /// Where whoever is behind may start before those ahead, if he delays none of them.
    fn each_its_gap<'t>(
        &self,
        turns: impl Iterator<Item = &'t (u64, Turn)>,
        room: &mut Occupancy,
        now: Time,
    ) -> BTreeMap<JobId, Time> {
        let mut rules = Rules::from(&self.policy.queue);
        (rules.walk, rules.lookback) = (Walk::Reserve { depth: Walk::ALL }, None);
        (rules.reservations, rules.window) = (Reservations::Kept, None);
        let mut agenda = Agenda::new(rules);
        for (ahead, turn) in turns {
            let (job, limit) = self.entry_of(turn.job);
            agenda.enter((*ahead, turn.job), job, limit, room);
        }
        let mut found = Vec::new();
        if agenda.pass(room, now, LOOKS_MAX, &mut found) == Progress::More {
            return BTreeMap::new();
        }
        let start = |verdict: Verdict<(u64, JobId), _>| match verdict {
            Verdict::Start { key, .. } => Some((key.1, now)),
            Verdict::Reserve { key, at, .. } => Some((key.1, at)),
            Verdict::Wait { .. } => None,
        };
        found.into_iter().filter_map(start).collect()
    }
}
