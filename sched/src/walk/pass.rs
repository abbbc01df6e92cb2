//! One walk over an agenda, in steps that may be taken a few at a time.
//!
//! 1. What is reserved is put in order: kept reservations move earlier if
//!    something was freed, replanned ones are dropped if the plan would change.
//!    Where that is not due yet, 3 comes first, for those alone who are before all
//!    that have one; then who has one and can start at once does.
//! 2. What is due starts.
//! 3. Who has waited too long starts, or is given a reservation: the longest first, whatever the order.
//! 4. From the head: each starts, or is given a reservation, or blocks, until
//!    there are as many others as the rules allow.
//! 5. All others fill gaps: only those that the ceiling of the room admits are
//!    looked at.

use std::collections::VecDeque;
use std::ops::Bound;

use eddy_wire::time::{Span, Time};

use super::agenda::{Agenda, Booking, LAST, LATE_MAX, News};
use super::anew::Anew;
use super::ceiling::Ceiling;
use super::room::{Blocked, Room};
use super::stage::{Heads, Pass, Reach, Stage};
use crate::policy::{Reservations, Walk};

/// What a pass decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<K, S> {
    /// It starts now; the room holds it already.
    Start {
        /// Who.
        key: K,
        /// Where.
        spot: S,
        /// For how long it is planned.
        span: Span,
    },
    /// It is planned for later, or was moved.
    Reserve {
        /// Who.
        key: K,
        /// When it is to start.
        at: Time,
        /// Where.
        spot: S,
    },
    /// It was looked at and cannot be planned.
    Wait {
        /// Who.
        key: K,
        /// Why.
        why: Blocked,
    },
}

/// Whether a pass is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All that can be decided now is.
    Done,
    /// The steps were used up; the next call goes on.
    More,
}

/// Between two plans so many are looked at who are before all that have a reservation.
const LEADS_MAX: usize = 8;

/// So many of those who have waited longest are looked at for that: some may be held back by a limit.
const LATE_LOOKED_MAX: usize = 1024;

type Verdicts<K, R> = Vec<Verdict<K, <R as Room>::Spot>>;

impl<K: Ord + Clone, R: Room> Agenda<K, R> {
    /// Decides who starts now and who when, in at most so many steps (a step looks at one job).
    ///
    /// A pass that was not over is taken up where it was, at its own time: what came since is
    /// looked at by the next.
    pub fn pass(
        &mut self,
        room: &mut R,
        now: Time,
        steps: u64,
        out: &mut Verdicts<K, R>,
    ) -> Progress {
        let mut pass = match self.pass.take() {
            Some(pass) => pass,
            None => self.begin(now),
        };
        for _ in 0..steps {
            let stage = std::mem::replace(&mut pass.stage, Stage::Over);
            pass.stage = self.step(stage, room, &mut pass, out);
            if let Stage::Over = pass.stage {
                return Progress::Done;
            }
        }
        self.pass = Some(pass);
        Progress::More
    }

    fn begin(&mut self, now: Time) -> Pass<K> {
        let news = std::mem::replace(&mut self.news, News::None);
        let stage = match (self.rules.reservations, news) {
            (Reservations::Kept, News::Freed) => Stage::Compress(None),
            (Reservations::Kept, News::None) => Stage::Due,
            (Reservations::Kept, News::Void) => Stage::Drop(None),
            (Reservations::Replanned, news) => return self.begin_replanned(news, now),
        };
        self.begin_plan(now);
        Pass::new(now, stage, Heads::Planned)
    }

    /// All who wait are planned from here on.
    fn begin_plan(&mut self, now: Time) {
        match self.is_empty() {
            true => self.anew = Anew::default(),
            false => self.anew.made(now),
        }
    }

    fn begin_replanned(&mut self, news: News, now: Time) -> Pass<K> {
        if !self.anew.may(now, self.rules.replan_every) {
            self.anew.passed();
            return Pass::new(now, Stage::Heads(None), Heads::First(news));
        }
        let is_same = news == News::None
            && self.plans_the_same(now)
            && !self.anew.is_behind()
            && !self.is_unknown_too_long(now);
        self.begin_plan(now);
        let stage = match is_same {
            true => Stage::Due,
            false => Stage::Drop(None),
        };
        Pass::new(now, stage, Heads::Planned)
    }

    /// Who is tried in this pass: who has a reservation was.
    fn reach(&self) -> Reach<K> {
        let Some(most) = self.rules.lookback else {
            return Reach::All;
        };
        let Some(left) = (most as usize).checked_sub(self.booked.len() + 1) else {
            return Reach::Nobody;
        };
        match self.line.nth(left) {
            Some(last) => Reach::UpTo(last.key.clone()),
            None => Reach::All,
        }
    }

    /// Whether planning anew would plan what is planned: nothing ended early, nobody new is ahead
    /// of one who has a reservation, and none is overdue. What started since took only what
    /// was left, so each would find the same gap.
    fn plans_the_same(&self, now: Time) -> bool {
        let ahead = match (self.line.first(), self.booked.keys().next_back()) {
            (Some(first), Some(last)) => first.key < *last,
            _ => false,
        };
        !ahead && self.next_due().is_none_or(|due| due >= now)
    }

    fn step(
        &mut self,
        stage: Stage<K>,
        room: &mut R,
        pass: &mut Pass<K>,
        out: &mut Verdicts<K, R>,
    ) -> Stage<K> {
        match stage {
            Stage::Drop(ahead) => self.drop_last(ahead, room),
            Stage::Compress(after) => self.compress(after, room, pass, out),
            Stage::Hasten(after) => self.hasten(after, room, pass.now, out),
            Stage::Due => self.due(room, pass, out),
            Stage::Begin => {
                pass.reach = self.reach();
                self.begin_overdue(pass)
            }
            Stage::Heads(after) => self.head(after, room, pass, out),
            Stage::Overdue(keys) => self.overdue(keys, room, pass, out),
            Stage::Fill { after, ceiling } => self.fill(after, ceiling, room, pass, out),
            Stage::FillShortest { after, ceiling } => {
                self.fill_shortest(after, ceiling, room, pass, out)
            }
            Stage::Over => Stage::Over,
        }
    }

    fn drop_last(&mut self, ahead: Option<K>, room: &mut R) -> Stage<K> {
        let last = self.booked.last_entry();
        let Some(last) = last.filter(|last| ahead.as_ref().is_none_or(|ahead| last.key() > ahead))
        else {
            return Stage::Due;
        };
        let (key, booking) = last.remove_entry();
        self.drop_booking(key, booking, room);
        Stage::Drop(ahead)
    }

    fn compress(
        &mut self,
        after: Option<K>,
        room: &mut R,
        pass: &Pass<K>,
        out: &mut Verdicts<K, R>,
    ) -> Stage<K> {
        let Some((key, booking)) = self.booked_after(after) else {
            return Stage::Due;
        };
        let old = (&booking.spot, booking.at);
        if let Some((at, spot)) = room.sooner(&booking.job.need, pass.now, old, booking.span) {
            self.rebook(&key, (at, spot.clone()));
            if at > pass.now {
                let key = key.clone();
                out.push(Verdict::Reserve { key, at, spot });
            }
        }
        match pass.heads {
            Heads::Planned => Stage::Compress(Some(key)),
            // Whom nobody may delay; the others are as late as they were.
            Heads::First(_) | Heads::Over => Stage::Hasten(key),
        }
    }

    fn hasten(&mut self, after: K, room: &mut R, now: Time, out: &mut Verdicts<K, R>) -> Stage<K> {
        let Some((key, booking)) = self.booked_after(Some(after)) else {
            return Stage::Due;
        };
        let (old, span) = ((&booking.spot, booking.at), booking.span);
        if booking.at > now
            && let Some(spot) = room.at_once(&booking.job.need, now, old, span)
        {
            self.unbook(&key);
            let key = key.clone();
            out.push(Verdict::Start { key, spot, span });
        }
        Stage::Hasten(key)
    }

    fn booked_after(&self, after: Option<K>) -> Option<(K, &Booking<R>)> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.booked.range((after, Bound::Unbounded));
        rest.next().map(|(key, booking)| (key.clone(), booking))
    }

    /// Starts the first that is due.
    fn due(&mut self, room: &mut R, pass: &mut Pass<K>, out: &mut Verdicts<K, R>) -> Stage<K> {
        let now = pass.now;
        let due = self.due.first().filter(|(at, _)| *at <= now);
        let Some((at, key)) = due.cloned() else {
            return Stage::Begin;
        };
        let booking = self.unbook(&key).expect("who is due has a booking");
        if !room.admits(&booking.job.need) {
            room.give(&booking.spot, at, booking.span);
            self.line_up(key, booking.job, booking.span, room);
            self.plan_soon();
            return Stage::Due;
        }
        if at < now {
            return self.late(key, booking, room, pass, out);
        }
        let Booking { spot, span, .. } = booking;
        out.push(Verdict::Start { key, spot, span });
        Stage::Due
    }

    /// Starts one who should have started before, if there is room for as long as that now takes.
    /// Else those behind it stand back: all are planned again, in their order.
    fn late(
        &mut self,
        key: K,
        booking: Booking<R>,
        room: &mut R,
        pass: &mut Pass<K>,
        out: &mut Verdicts<K, R>,
    ) -> Stage<K> {
        let now = pass.now;
        let Booking {
            at,
            spot,
            span,
            job,
        } = booking;
        room.give(&spot, at, span);
        match room.earliest(&job.need, now, span) {
            Ok((soonest, spot)) if soonest == now => {
                room.take(&spot, now, span);
                out.push(Verdict::Start { key, spot, span });
                Stage::Due
            }
            Ok(_) | Err(_) => {
                self.line_up(key.clone(), job, span, room);
                // What it leaves is also for those ahead of it, whose promises are later still.
                self.freed();
                pass.heads = Heads::Planned;
                Stage::Drop(Some(key))
            }
        }
    }

    fn head(
        &mut self,
        after: Option<K>,
        room: &mut R,
        pass: &mut Pass<K>,
        out: &mut Verdicts<K, R>,
    ) -> Stage<K> {
        if self.rules.walk == Walk::Skip {
            return self.after_heads(room, after, pass);
        }
        let entry = self.line.after(after.as_ref());
        let reserves = match pass.heads {
            Heads::Planned => {
                self.booked.len() + pass.beyond < self.rules.depth().saturating_add(pass.late)
            }
            Heads::First(_) => {
                let booked = self.booked.keys().next();
                let leads = |key: &K| booked.is_none_or(|booked| key < booked);
                pass.beyond < LEADS_MAX && entry.is_some_and(|entry| leads(&entry.key))
            }
            Heads::Over => false,
        };
        if !reserves && self.rules.walk != Walk::Stop {
            return self.after_heads(room, after, pass);
        }
        let Some(entry) = entry else {
            return Stage::Over;
        };
        if pass.is_beyond(&entry.key) {
            return Stage::Over;
        }
        let key = entry.key.clone();
        match self.rules.walk {
            Walk::Stop => match self.try_now(&key, room, pass.now, out) {
                Tried::Started => Stage::Heads(after),
                Tried::Waits | Tried::Cannot => Stage::Over,
            },
            Walk::Skip | Walk::Reserve { .. } => {
                let alone = self.booked.is_empty();
                match self.plan(&key, (room, pass.now), Whose::InTurn, out) {
                    Planned::Cannot => pass.cannot(&self.line),
                    Planned::Beyond => pass.beyond += 1,
                    Planned::Later if alone => {}
                    Planned::Later => return self.plan_behind(key, pass),
                    Planned::No => pass.passes_over(),
                    Planned::Now => {}
                }
                Stage::Heads(Some(key))
            }
        }
    }

    /// Goes on behind one who has a reservation now. If he is before all others who had one, nobody is to
    /// delay him: all is planned anew.
    fn plan_behind(&mut self, key: K, pass: &mut Pass<K>) -> Stage<K> {
        match pass.heads {
            Heads::Planned | Heads::Over => Stage::Heads(Some(key)),
            Heads::First(_) => {
                pass.heads = Heads::Planned;
                self.anew.made(pass.now);
                Stage::Drop(None)
            }
        }
    }

    fn after_heads(&mut self, room: &mut R, after: Option<K>, pass: &mut Pass<K>) -> Stage<K> {
        if let Heads::First(news) = pass.heads {
            pass.heads = Heads::Over;
            return match news {
                News::Void => Stage::Drop(None),
                News::Freed => Stage::Compress(None),
                News::None => Stage::Due,
            };
        }
        self.begin_fill(room, after, pass.now)
    }

    /// Those who have waited too long: who never passes anybody needs no reservation.
    fn begin_overdue(&self, pass: &mut Pass<K>) -> Stage<K> {
        let wait = self.rules.reserve_after;
        let Some(wait) = wait.filter(|_| self.rules.walk != Walk::Stop) else {
            return Stage::Overdue(VecDeque::new());
        };
        let is_late = |since: Time| pass.now - since >= wait;
        let booked = self.booked.values();
        pass.late = booked.filter(|one| is_late(one.job.since)).count();
        let late = self.since.iter().take_while(|(since, _)| is_late(*since));
        let late = late.take(LATE_LOOKED_MAX);
        Stage::Overdue(late.map(|(_, key)| key.clone()).collect())
    }

    fn overdue(
        &mut self,
        mut keys: VecDeque<K>,
        room: &mut R,
        pass: &mut Pass<K>,
        out: &mut Verdicts<K, R>,
    ) -> Stage<K> {
        let key = keys.pop_front().filter(|_| pass.late < LATE_MAX);
        let Some(key) = key else {
            return match pass.heads {
                Heads::Planned => Stage::Heads(None),
                Heads::First(_) | Heads::Over => self.after_heads(room, None, pass),
            };
        };
        if let Planned::Later = self.plan(&key, (room, pass.now), Whose::Late, out) {
            pass.late += 1;
        }
        Stage::Overdue(keys)
    }

    fn begin_fill(&mut self, room: &mut R, after: Option<K>, now: Time) -> Stage<K> {
        let mut ceiling = Ceiling::default();
        room.ceiling(now, &mut ceiling);
        match self.fillers {
            None => Stage::Fill { after, ceiling },
            Some(_) => Stage::FillShortest {
                after: None,
                ceiling,
            },
        }
    }

    fn fill(
        &mut self,
        after: Option<K>,
        mut ceiling: Ceiling,
        room: &mut R,
        pass: &mut Pass<K>,
        out: &mut Verdicts<K, R>,
    ) -> Stage<K> {
        let Some(entry) = self.line.next(after.as_ref(), &ceiling) else {
            return Stage::Over;
        };
        if pass.is_beyond(&entry.key) {
            return Stage::Over;
        }
        let key = entry.key.clone();
        match self.try_now(&key, room, pass.now, out) {
            Tried::Started => room.ceiling(pass.now, &mut ceiling),
            Tried::Cannot => pass.look_further(&self.line),
            Tried::Waits => {}
        }
        let after = Some(key);
        Stage::Fill { after, ceiling }
    }

    fn fill_shortest(
        &mut self,
        after: Option<(Span, K)>,
        mut ceiling: Ceiling,
        room: &mut R,
        pass: &Pass<K>,
        out: &mut Verdicts<K, R>,
    ) -> Stage<K> {
        let fillers = self.fillers.as_ref().expect("gaps are filled by length");
        let Some(entry) = fillers.next(after.as_ref(), &ceiling) else {
            return Stage::Over;
        };
        let at = entry.key.clone();
        if !pass.is_beyond(&at.1) {
            match self.try_now(&at.1, room, pass.now, out) {
                Tried::Started => room.ceiling(pass.now, &mut ceiling),
                // Those ahead of it by turn may have been passed already.
                Tried::Waits | Tried::Cannot => {}
            }
        }
        let after = Some(at);
        Stage::FillShortest { after, ceiling }
    }

    /// Starts one in the line if it fits now.
    fn try_now(&mut self, key: &K, room: &mut R, now: Time, out: &mut Verdicts<K, R>) -> Tried {
        let Some(entry) = self.line.get(key) else {
            return Tried::Waits;
        };
        let span = entry.span;
        match room.fit(&entry.value.need, now, span) {
            Ok(spot) => {
                room.take(&spot, now, span);
                self.unline(key);
                let key = key.clone();
                out.push(Verdict::Start { key, spot, span });
                Tried::Started
            }
            Err(why) => {
                let key = key.clone();
                out.push(Verdict::Wait { key, why });
                match why {
                    Blocked::Never | Blocked::NotInService => Tried::Cannot,
                    Blocked::Busy { .. } | Blocked::Reserved | Blocked::Limited => Tried::Waits,
                }
            }
        }
    }

    /// Starts one in the line, or reserves the earliest gap for it; one that can have none stays
    /// in the line and uses up nothing.
    fn plan(
        &mut self,
        key: &K,
        (room, now): (&mut R, Time),
        whose: Whose,
        out: &mut Verdicts<K, R>,
    ) -> Planned {
        let Some(entry) = self.line.get(key) else {
            return Planned::Now;
        };
        let span = entry.span;
        let key = key.clone();
        match room.earliest(&entry.value.need, now, span) {
            Ok((at, spot)) if at <= now => {
                room.take(&spot, now, span);
                self.unline(&key);
                out.push(Verdict::Start { key, spot, span });
                Planned::Now
            }
            Ok((at, spot)) => {
                let window = self.rules.window.filter(|_| whose == Whose::InTurn);
                if let Some(window) = window.filter(|window| at - now > *window) {
                    // Behind one without an end nobody knows when.
                    if at < Time(i64::MAX) {
                        self.anew.beyond(Time(at.0.saturating_sub(window.0)));
                    }
                    let why = Blocked::Reserved;
                    out.push(Verdict::Wait { key, why });
                    return Planned::Beyond;
                }
                let at = match whose {
                    Whose::Late if at > LAST && self.may_be_last(room) => LAST,
                    Whose::InTurn | Whose::Late => at,
                };
                room.take(&spot, at, span);
                let job = self.unline(&key).expect("it was in the line").value;
                out.push(Verdict::Reserve {
                    key: key.clone(),
                    at,
                    spot: spot.clone(),
                });
                self.book(
                    key,
                    Booking {
                        at,
                        spot,
                        span,
                        job,
                    },
                );
                Planned::Later
            }
            Err(why) => {
                out.push(Verdict::Wait { key, why });
                match why {
                    Blocked::Never | Blocked::NotInService => Planned::Cannot,
                    Blocked::Busy { .. } | Blocked::Reserved | Blocked::Limited => Planned::No,
                }
            }
        }
    }
}

/// Why a job is planned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// It is its turn.
    InTurn,
    /// It has waited too long.
    Late,
}

/// Whether a job can be given a time, now or later.
enum Planned {
    /// It started, or waits no more.
    Now,
    /// It has a reservation.
    Later,
    /// Not in this pass.
    No,
    /// Not within the window.
    Beyond,
    /// Not as things are: it takes nobody's place in the lookback.
    Cannot,
}

enum Tried {
    Started,
    Waits,
    /// It waits for what is not there: it takes nobody's place in the lookback.
    Cannot,
}
