//! Who is let through to wait for resources: limits of accounts, users and QoS.
//!
//! Part of the manager, which asks before it gives a job its place in the queue. Whom a limit
//! keeps back is asked about again when somebody of the same limit gave something back, when the
//! limits change, and at the next midnight, when a period may begin. One job is let through at a
//! time: what it takes counts before the next is asked about. After a restart all is found anew.

use std::collections::{BTreeMap, BTreeSet};
use std::ops;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::account::{Excess, STANDBY};
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::gang;
use eddy_wire::id::JobId;
use eddy_wire::time::{MICROS, Time};
use eddy_wire::update;

use crate::limits::{Alone, Bound, Limits, Taken, Turn, Whose};
use crate::live;
use crate::sched::is_policy;
use crate::settings::Settings;

const DAY: i64 = 86_400 * MICROS;
/// So many of those who wait for what is spent are asked about at a time: nobody waits behind another there.
const SPENT_LOOKS: usize = 8;

/// The limits and who is kept back by which.
#[derive(Debug, Default)]
pub(super) struct Gate {
    limits: Limits,
    /// By the limit that binds, in their turn.
    held: BTreeMap<Line, BTreeSet<Turn>>,
    of: BTreeMap<JobId, (Line, Turn)>,
    /// Whom a limit keeps back that is less than he asks for alone: before it changes there is nothing to ask about.
    beyond: BTreeSet<JobId>,
    look: Look,
    /// The lines of limits of which something was given back since those in them were asked.
    due: BTreeSet<Line>,
    /// Members of gangs that are not over, and whether limits changed since those were asked about who have no place.
    gangs: BTreeSet<JobId>,
    asked: Asked,
    /// Those who have no place since they could not begin: their queue is stopped, or their reservation is to begin.
    shut: BTreeSet<JobId>,
    /// When the first of those reservations does that was waited for.
    opens: Option<Time>,
    /// Whose places are to be given back by records that were proposed: what they have counts so long.
    yielding: BTreeSet<JobId>,
    /// What instances are to grow by.
    grounds: BTreeSet<JobId>,
    /// Who was let through and whose place is not recorded yet: what it takes does not count so
    /// long, so nobody else of a limit is let through.
    proposed: Option<JobId>,
    /// The wake-up that was asked for.
    wake: Option<Time>,
}

/// In which order those who are kept back are asked about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    /// No limit counts for them any more: each by itself.
    Free,
    /// In turn, as they come to be within that limit: the first holds up those behind him.
    Of(Whose),
    /// As soon as what is left in the period is enough for them.
    Spent(Whose),
}

impl Bound {
    /// The line of those whom it keeps back.
    fn line(&self) -> Line {
        match self.taken {
            Taken::Held => Line::Of(self.whose.clone()),
            Taken::Spent => Line::Spent(self.whose.clone()),
        }
    }
}

/// Whom to ask about again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    /// Those of the limits that a job counts for.
    #[default]
    Near,
    /// Everybody who is kept back, until nobody more is let through.
    All,
    /// The same, each in the line of a limit that counts for him: limits are others.
    Anew,
}

/// As what a job is let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum As {
    /// As it was submitted.
    ItIs,
    /// As QoS `standby`: its budget is used.
    Standby,
}

impl As {
    /// What is recorded: that place, or first what it goes on as, after which it is asked about again.
    pub fn record(self, place: i64) -> Kind {
        match self {
            As::ItIs => Kind::Priority(place),
            As::Standby => update::to_qos(&STANDBY.parse().expect("it is a name")),
        }
    }
}

/// Whether a limit that came later may count for gangs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Since,
    Before,
}

impl Gate {
    pub fn new(settings: &Settings) -> Gate {
        Gate {
            limits: Limits::new(settings),
            ..Gate::default()
        }
    }

    pub fn apply(&mut self, record: &Record) {
        if let (Kind::JobspecUpdate(_), Some(job)) = (&record.event.kind, record.event.job) {
            // It may count for other limits from now on.
            self.gives_back(job);
        }
        self.limits.apply(record);
        if let Some(job) = &record.event.job {
            self.yielding.remove(job);
        }
        match (&record.event.kind, record.event.job) {
            (Kind::Submit(submit), Some(job)) => {
                if gang::of(&submit.spec).is_ok_and(|gang| gang.is_some()) {
                    self.gangs.insert(job);
                }
                if submit.spec.request.grows().is_some() {
                    self.grounds.insert(job);
                }
            }
            (Kind::Account(_), _) => self.limits_changed(),
            (Kind::Queue(_) | Kind::Reservation(_), _) => self.asked = Asked::Before,
            (Kind::Memo(memo), None) if live::Change::told(memo).is_some() => self.limits_changed(),
            // Those who are kept back have another order.
            (Kind::Memo(memo), None) if is_policy(memo) => self.limits_changed(),
            // What is no more than a remark changes nothing of what is on its way.
            (Kind::Exception(exception), _) if exception.severity > 0 => {}
            (
                Kind::Priority(_) | Kind::JobspecUpdate(_) | Kind::Exception(_) | Kind::Clean,
                Some(job),
            ) => {
                if matches!(record.event.kind, Kind::Clean) {
                    self.gangs.remove(&job);
                    self.grounds.remove(&job);
                }
                self.forget(job);
                self.shut.remove(&job);
                self.proposed = self.proposed.filter(|proposed| *proposed != job);
            }
            _ => {}
        }
    }

    /// When the latest record was.
    pub fn latest(&self) -> Time {
        self.limits.latest()
    }

    /// Whether such a job may have to wait for its place, or may never have one.
    pub fn asks_about(&self, submit: &Submit) -> bool {
        let is_one = !gang::of(&submit.spec).is_ok_and(|gang| gang.is_none());
        is_one || self.limits.count_for(submit)
    }

    /// Whether a member of a gang has no place as long as there are such limits: others of it that were let
    /// through would wait for it, and it for what they keep of the limit.
    pub fn bars(&self, job: JobId) -> bool {
        self.gangs.contains(&job) && self.limits.bars_gang(job).is_some()
    }

    /// Whether a job for which limits count has no place since it could not begin with it: it is asked about
    /// when it may.
    pub fn shuts(&mut self, now: Time, job: JobId, out: &mut Outbox) -> bool {
        if !self.limits.is_shut(now, job) || !self.counts(job) {
            self.shut.remove(&job);
            return false;
        }
        self.forget(job);
        self.shut.insert(job);
        let opens = self.limits.opens(job).filter(|at| now < *at);
        if let Some(at) = opens.filter(|at| self.opens.is_none_or(|before| *at < before)) {
            self.opens = Some(at);
            out.volatile(Volatile::Wake(at));
        }
        true
    }

    /// What instances are to grow by.
    pub fn grounds(&self) -> Vec<JobId> {
        self.grounds.iter().copied().collect()
    }

    /// Whether a job counts for any limit.
    pub fn counts(&self, job: JobId) -> bool {
        !self.limits.whose(job).is_empty()
    }

    /// Whether a job stands among those who are asked about in turn.
    pub fn is_kept(&self, job: JobId) -> bool {
        self.of.contains_key(&job)
    }

    /// Those of gangs, and those who could not begin, who are to be asked about because that changed: together
    /// with all who are kept back, once they stand among them.
    pub fn barred_before(&mut self) -> Vec<JobId> {
        match std::mem::take(&mut self.asked) {
            Asked::Since => Vec::new(),
            Asked::Before => {
                self.look = self.look.max(Look::All);
                self.gangs.union(&self.shut).copied().collect()
            }
        }
    }

    /// Whether some who were barred are to stand among those who are kept back before anybody is let through.
    fn is_to_open(&self) -> bool {
        self.asked == Asked::Before && !(self.gangs.is_empty() && self.shut.is_empty())
    }

    /// Whether and as what a job may have its place now; else it is kept back.
    pub fn admits(&mut self, now: Time, job: JobId, urgency: u8, out: &mut Outbox) -> Option<As> {
        self.forget(job);
        let turn = self.limits.turn(job, urgency);
        let whose = self.limits.whose(job);
        let Some(first) = whose.into_iter().next() else {
            return Some(As::ItIs);
        };
        if self.proposed.is_some() {
            self.keep(Line::Of(first), turn);
            self.look = self.look.max(Look::All);
            return None;
        }
        // Who is before it, and by which limit that one waits, is to be found first.
        if self.is_to_open() || self.look == Look::Anew && !self.of.is_empty() {
            self.keep(Line::Of(first), turn);
            out.volatile(Volatile::Wake(now));
            return None;
        }
        match (self.asked(now, job), self.line_before(turn)) {
            (Ok(goes), None) => {
                self.proposed = Some(job);
                return Some(goes);
            }
            (Ok(_), Some(line)) => self.keep(line, turn),
            (Err(bound), before) => {
                self.keep_by(bound, turn);
                if before.is_none() {
                    self.ask_to_yield(now, job, out);
                }
            }
        }
        self.wake(now, out);
        None
    }

    /// Those who have no use for their places give them up for one who is first of those kept back: their own records
    /// bring it about.
    fn ask_to_yield(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        if !self.yielding.is_empty() {
            return;
        }
        for (other, kind) in self.limits.yielding(now, job) {
            self.yielding.insert(other);
            out.append(now, other, kind);
        }
    }

    /// The line of a limit that counts for a job, in which somebody is before it: what is left there is his.
    fn line_before(&self, turn: Turn) -> Option<Line> {
        let is_first = |line: &Line| {
            let first = self.held.get(line).and_then(BTreeSet::first);
            first.is_none_or(|first| *first >= turn)
        };
        let mut lines = self.limits.whose(turn.job).into_iter().map(Line::Of);
        lines.find(|line| !is_first(line))
    }

    /// A job waits again: in its turn among those who are kept back, of whom the first is asked about then.
    /// Where no limit counts for it, it has its place.
    pub fn lines_up(&mut self, now: Time, job: JobId, urgency: u8, out: &mut Outbox) -> Option<As> {
        self.forget(job);
        let Some(first) = self.limits.whose(job).into_iter().next() else {
            return Some(As::ItIs);
        };
        self.keep(Line::Of(first), self.limits.turn(job, urgency));
        self.wake(now, out);
        None
    }

    /// As what a job may go on now, or what keeps it back.
    fn asked(&self, now: Time, job: JobId) -> Result<As, Bound> {
        match self.limits.binding(now, job) {
            None => Ok(As::ItIs),
            Some(bound) if bound.excess == Excess::Standby => Ok(As::Standby),
            Some(bound) => Err(bound),
        }
    }

    /// Keeps a job back without asking: somebody will.
    pub fn keep_all(&mut self, jobs: impl Iterator<Item = (JobId, u8)>) {
        for (job, urgency) in jobs {
            self.keep(Line::Free, self.limits.turn(job, urgency));
        }
        (self.look, self.asked) = (Look::Anew, Asked::Since);
    }

    /// Somebody gave something back, or the limits are others: who may have a place now.
    pub fn next(
        &mut self,
        now: Time,
        after: Option<JobId>,
        out: &mut Outbox,
    ) -> Option<(JobId, As)> {
        if self.of.is_empty() {
            (self.look, self.due) = (Look::Near, BTreeSet::new());
            return None;
        }
        after.into_iter().for_each(|job| self.gives_back(job));
        // Its own record brings the next.
        if self.proposed.is_some() {
            return None;
        }
        if self.is_to_open() {
            out.volatile(Volatile::Wake(now));
            return None;
        }
        if self.look == Look::Anew {
            self.line_up_anew();
            self.look = Look::All;
        }
        let near: Vec<Line> = match self.look {
            Look::Near => self.due.iter().cloned().collect(),
            Look::All | Look::Anew => self.held.keys().cloned().collect(),
        };
        for line in near {
            if let Some((job, goes)) = self.first_of(now, &line, out) {
                self.forget(job);
                return Some((job, goes));
            }
            self.due.remove(&line);
        }
        (self.look, self.due) = (Look::Near, BTreeSet::new());
        None
    }

    /// Who is kept back by a limit that this job counts for is to be asked about. It is let through one at a time,
    /// and whom one limit lets through need not count for the others.
    fn gives_back(&mut self, job: JobId) {
        let whose = self.limits.whose(job).into_iter();
        let lines = whose.flat_map(|whose| [Line::Of(whose.clone()), Line::Spent(whose)]);
        let kept = lines.filter(|line| self.held.contains_key(line));
        self.due.extend(kept);
    }

    /// Limits were changed, maybe with others that are not folded yet: who is kept back is asked
    /// about in a turn of its own.
    pub fn changed(&self, now: Time, out: &mut Outbox) {
        if !self.of.is_empty() || !self.gangs.is_empty() || !self.shut.is_empty() {
            out.volatile(Volatile::Wake(now));
        }
    }

    /// The place of a job is proposed.
    pub fn propose(&mut self, job: JobId) {
        self.proposed = Some(job);
    }

    /// The time has come that was asked for.
    pub fn tick(&mut self, now: Time) {
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
            self.reconsider();
        }
        if self.opens.is_some_and(|at| at <= now) {
            self.opens = None;
            self.asked = Asked::Before;
        }
    }

    /// The first of those that one limit keeps back who may go; who is kept back by another
    /// limit now, or behind somebody there, is with that.
    fn first_of(&mut self, now: Time, line: &Line, out: &mut Outbox) -> Option<(JobId, As)> {
        let (mut passed, mut looks) = (None, 0);
        loop {
            let turn = self.turn_after(line, passed)?;
            let job = turn.job;
            match (self.asked(now, job), self.line_before(turn)) {
                (Ok(goes), None) => return Some((job, goes)),
                (Ok(_), Some(before)) => {
                    self.forget(job);
                    self.keep(before, turn);
                }
                (Err(bound), _) if bound.line() == *line && bound.alone == Alone::Within => {
                    looks += 1;
                    self.ask_to_yield(now, job, out);
                    if bound.holds_up() || looks == SPENT_LOOKS {
                        return None;
                    }
                    passed = Some(turn);
                }
                (Err(bound), _) => {
                    self.forget(job);
                    self.keep_by(bound, turn);
                }
            }
        }
    }

    /// The first in a line, or the first behind one.
    fn turn_after(&self, line: &Line, turn: Option<Turn>) -> Option<Turn> {
        let from = turn.map_or(ops::Bound::Unbounded, ops::Bound::Excluded);
        let mut behind = self.held.get(line)?.range((from, ops::Bound::Unbounded));
        behind.next().copied()
    }

    /// Keeps a job back by what binds it: in the line of that limit, unless it would stand in it for ever and
    /// hold up those behind it.
    fn keep_by(&mut self, bound: Bound, turn: Turn) {
        match bound.alone {
            Alone::Within => self.keep(bound.line(), turn),
            Alone::Over => {
                self.of.insert(turn.job, (bound.line(), turn));
                self.beyond.insert(turn.job);
            }
        }
    }

    fn limits_changed(&mut self) {
        self.asked = Asked::Before;
        self.reconsider();
    }

    /// Limits may be others: everybody is asked about, and who was beyond one stands in its line again.
    fn reconsider(&mut self) {
        self.look = Look::Anew;
        for job in std::mem::take(&mut self.beyond) {
            if let Some((line, turn)) = self.of.get(&job).cloned() {
                self.keep(line, turn);
            }
        }
    }

    /// Nobody stands in the line of a limit that does not count for him: the first of it may wait long. Nor in
    /// another turn than the policy says by now.
    fn line_up_anew(&mut self) {
        let mut moves = Vec::new();
        for (job, (line, turn)) in &self.of {
            let whose = self.limits.whose(*job);
            let counts = |of: &Whose| whose.contains(of);
            let stays = match line {
                Line::Free => false,
                Line::Of(of) => counts(of),
                // Where nothing that is spent is limited any more he waits in turn.
                Line::Spent(of) => counts(of) && self.limits.has_budget(of),
            };
            let to = match stays {
                true => line.clone(),
                false => whose.into_iter().next().map_or(Line::Free, Line::Of),
            };
            let now = self.limits.turn(*job, turn.urgency());
            if to != *line || now != *turn {
                moves.push((to, now));
            }
        }
        for (line, turn) in moves {
            self.forget(turn.job);
            self.keep(line, turn);
        }
    }

    fn keep(&mut self, line: Line, turn: Turn) {
        self.held.entry(line.clone()).or_default().insert(turn);
        self.of.insert(turn.job, (line, turn));
    }

    /// Nobody asks about a job any more until it is to have its place.
    pub fn forget(&mut self, job: JobId) {
        let Some((line, turn)) = self.of.remove(&job) else {
            return;
        };
        self.beyond.remove(&job);
        if let Some(held) = self.held.get_mut(&line) {
            held.remove(&turn);
            if held.is_empty() {
                self.held.remove(&line);
            }
        }
    }

    fn wake(&mut self, now: Time, out: &mut Outbox) {
        let midnight = Time((now.0.div_euclid(DAY) + 1).saturating_mul(DAY));
        if self.wake != Some(midnight) {
            self.wake = Some(midnight);
            out.volatile(Volatile::Wake(midnight));
        }
    }
}
