//! Who waits, in the order of their turn, and what is reserved for whom.
//!
//! The owner says who comes and goes and when something ended early; `pass`
//! makes the verdicts. A job is either in the line or has a booking, never both.
//! It does not know what runs: the room has that.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::time::{Span, Time};

use super::anew::Anew;
use super::line::{Entry, Line};
use super::room::Room;
use super::rules::Rules;
use super::stage::{Heads, Pass};
use crate::policy::{FillOrder, Reservations};

/// So many are promised a start at a time because they have waited too long: each costs a search over time,
/// and behind so many wide ones the next has no place soon.
pub const LATE_MAX: usize = 16;

/// Where something has no end a promise to one who has waited too long begins at the last moment there is:
/// whoever has no end himself does not begin in its place, and whoever has one passes.
pub const LAST: Time = Time(i64::MAX - 1);

/// Who waits and what is reserved, by keys that say the turn; the job's id is the last part of a
/// key, so that no two are alike.
pub struct Agenda<K, R: Room> {
    pub(super) rules: Rules,
    pub(super) line: Line<K, Job<R::Need>>,
    /// The same jobs in the order in which gaps are filled, where that is another.
    pub(super) fillers: Option<Line<(Span, K), ()>>,
    pub(super) booked: BTreeMap<K, Booking<R>>,
    pub(super) due: BTreeSet<(Time, K)>,
    /// When each in the line came; empty where nobody asks.
    pub(super) since: BTreeSet<(Time, K)>,
    /// Whether what is reserved might be had earlier.
    pub(super) news: News,
    pub(super) anew: Anew,
    pub(super) pass: Option<Pass<K>>,
}

/// One who waits.
#[derive(Clone, Debug)]
pub struct Job<N> {
    /// What it asks for.
    pub need: N,
    /// From when its wait is counted.
    pub since: Time,
}

/// What is reserved for one.
pub struct Booking<R: Room> {
    /// When it is to start.
    pub at: Time,
    /// Where.
    pub spot: R::Spot,
    /// For how long.
    pub span: Span,
    /// Who.
    pub job: Job<R::Need>,
}

impl<R: Room> Booking<R>
where
    R::Need: Clone,
    R::Spot: Clone,
{
    fn copy(&self) -> Booking<R> {
        Booking {
            at: self.at,
            spot: self.spot.clone(),
            span: self.span,
            job: self.job.clone(),
        }
    }
}

/// What happened since the last pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// Nothing by which a reservation could be earlier.
    None,
    /// Something was given back before it was said to end.
    Freed,
    /// What is reserved was planned by what was not so.
    Void,
}

impl<K: Ord + Clone, R: Room> Agenda<K, R> {
    /// Nobody waits.
    pub fn new(rules: Rules) -> Agenda<K, R> {
        let fillers = match rules.fill_order {
            FillOrder::Queue => None,
            FillOrder::Shortest => Some(Line::default()),
        };
        Agenda {
            rules,
            line: Line::default(),
            fillers,
            booked: BTreeMap::new(),
            due: BTreeSet::new(),
            since: BTreeSet::new(),
            news: News::None,
            anew: Anew::default(),
            pass: None,
        }
    }

    /// The same once more, between two passes: one that is under way begins anew.
    pub fn copy(&self) -> Agenda<K, R>
    where
        R::Need: Clone,
        R::Spot: Clone,
    {
        let booked = self.booked.iter();
        let booked = booked.map(|(key, booking)| (key.clone(), booking.copy()));
        Agenda {
            rules: self.rules.clone(),
            line: self.line.clone(),
            fillers: self.fillers.clone(),
            booked: booked.collect(),
            due: self.due.clone(),
            since: self.since.clone(),
            news: match &self.pass {
                Some(pass) => self.news.max(pass.news()),
                None => self.news,
            },
            anew: match self.pass {
                Some(_) => Anew::default(),
                None => self.anew.clone(),
            },
            pass: None,
        }
    }

    /// How many wait, with a reservation or without.
    pub fn len(&self) -> usize {
        self.line.len() + self.booked.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first in order of all who wait.
    pub fn first(&self) -> Option<&K> {
        let booked = self.booked.keys().next();
        let line = self.line.first().map(|entry| &entry.key);
        booked.into_iter().chain(line).min()
    }

    /// What is reserved, in order of turn.
    pub fn bookings(&self) -> impl DoubleEndedIterator<Item = (&K, &Booking<R>)> {
        self.booked.iter()
    }

    /// What is reserved for one.
    pub fn booking(&self, key: &K) -> Option<&Booking<R>> {
        self.booked.get(key)
    }

    /// When the first reservation is due: the next pass must not be later.
    pub fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// When a pass would plan what none could so far: the next must not be later.
    pub fn next_plan(&self) -> Option<Time> {
        let every = match self.rules.reservations {
            Reservations::Kept => None,
            Reservations::Replanned => self.rules.replan_every,
        };
        let at = self.anew.next(every);
        at.filter(|_| !self.is_empty())
    }

    /// The same, or when the next will have waited too long.
    pub fn next(&self, now: Time) -> Option<Time> {
        let late = self.rules.reserve_after.and_then(|wait| {
            let mut since = self.since.iter().map(|(since, _)| since.after(wait));
            since.find(|at| *at > now)
        });
        self.next_plan().into_iter().chain(late).min()
    }

    /// One more waits. Jobs that can never fit are to be kept elsewhere, lest they use up the
    /// lookback. A key that is there already is not taken again.
    pub fn enter(&mut self, key: K, job: Job<R::Need>, limit: Option<Span>, room: &R) {
        if self.booked.contains_key(&key) {
            return;
        }
        let span = self.rules.span(limit);
        self.line_up(key, job, span, room);
    }

    /// One does not wait any more; what was reserved for it is free. Says whether it waited.
    pub fn leave(&mut self, key: &K, room: &mut R) -> bool {
        if self.unline(key).is_some() {
            return true;
        }
        let Some(booking) = self.unbook(key) else {
            return false;
        };
        room.give(&booking.spot, booking.at, booking.span);
        self.freed();
        true
    }

    /// Takes the reservation of one away, as when another must have it; it waits on.
    pub fn unreserve(&mut self, key: &K, room: &mut R) {
        if let Some(booking) = self.unbook(key) {
            room.give(&booking.spot, booking.at, booking.span);
            self.line_up(key.clone(), booking.job, booking.span, room);
            self.freed();
            // Nobody is to have meanwhile what it had.
            self.plan_soon();
        }
    }

    /// What one counts on is gone, and so is its reservation; it waits on. Where reservations are kept those
    /// behind it stand back, and all of them are planned again in their order: they would keep it waiting by
    /// what they have, and be moved into what it had. Says who they are.
    pub fn lose(&mut self, key: &K, room: &mut R) -> Vec<K> {
        if !self.booked.contains_key(key) {
            return Vec::new();
        }
        self.unreserve(key, room);
        // Who has nothing any more is looked at before gaps are filled.
        self.restart();
        let mut behind = Vec::new();
        while self.rules.reservations == Reservations::Kept
            && let Some(last) = self.stand_back(key, room)
        {
            behind.push(last);
        }
        behind
    }

    /// The last of those who have a reservation waits on without, if it is behind this one.
    pub(super) fn stand_back(&mut self, of: &K, room: &mut R) -> Option<K> {
        let last = self.booked.last_entry()?;
        if last.key() <= of {
            return None;
        }
        let (key, booking) = last.remove_entry();
        self.drop_booking(key.clone(), booking, room);
        Some(key)
    }

    /// One that is not among those who have a reservation any more is in the line again.
    pub(super) fn drop_booking(&mut self, key: K, booking: Booking<R>, room: &mut R) {
        self.due.remove(&(booking.at, key.clone()));
        room.give(&booking.spot, booking.at, booking.span);
        self.line_up(key, booking.job, booking.span, room);
    }

    /// Whether one waits too long now to whom a time that nobody knows was promised in its turn.
    pub(super) fn is_unknown_too_long(&self, now: Time) -> bool {
        let is_late = |since: Time| {
            self.rules
                .reserve_after
                .is_some_and(|wait| now - since >= wait)
        };
        let mut booked = self.booked.values();
        booked.any(|one| one.at > LAST && is_late(one.job.since))
    }

    /// Whether the last moment may be promised. Two that have it would wait for each other, and so would one that
    /// is kept and cannot be put in another order; and who is to go on would wait for one who waits for what he
    /// holds.
    pub(super) fn may_be_last(&self, room: &R) -> bool {
        let mut booked = self.booked.values();
        self.rules.reservations == Reservations::Replanned
            && booked.all(|one| one.at.after(one.span) < LAST && !room.takes_back(&one.job.need))
            && !self.line.iter().any(|one| room.takes_back(&one.value.need))
    }

    /// The pass under way is over; the next begins with the first, whose order is another.
    pub fn restart(&mut self) {
        // What it had not put in order yet the next one does.
        if let Some(pass) = self.pass.take() {
            self.news = self.news.max(pass.news());
            if let Heads::Planned = pass.heads {
                self.plan_soon();
            }
        }
    }

    /// All is planned anew in the next pass, where that is what replanned means.
    pub fn plan_soon(&mut self) {
        self.anew = Anew::default();
    }

    /// The first in order of those who have no reservation.
    pub fn first_in_line(&self) -> Option<&K> {
        self.line.first().map(|entry| &entry.key)
    }

    /// One has another turn from now on; what is reserved for it stays until the next pass, which
    /// plans anew if that is the rule. Not to be called while a pass is not over.
    pub fn turn(&mut self, old: &K, new: K) {
        if let Some(entry) = self.unline(old) {
            self.insert(Entry { key: new, ..entry });
        } else if let Some(booking) = self.unbook(old) {
            // Nobody is to delay who is first now, it or another.
            let others = self.booked.keys().next();
            let moved = others.is_some_and(|other| (old < other) != (new < *other));
            self.book(new, booking);
            self.freed();
            if moved {
                self.plan_soon();
            }
        }
    }

    /// Everyone in the line has another turn from now on, who is given none does not wait any more.
    /// What a turn is made of is fetched first. A pass under way is to [`Agenda::follow`].
    pub fn rekey<T: Copy + Default>(
        &mut self,
        fetch: impl Fn(&K) -> T,
        anew: impl FnMut(&K, T) -> Option<K>,
    ) {
        self.line.rekey(fetch, anew);
        if self.fillers.is_some() {
            let filler = |entry: &Entry<K, Job<R::Need>>| Entry {
                key: (entry.span, entry.key.clone()),
                least: entry.least,
                span: entry.span,
                value: (),
            };
            self.fillers = Some(Line::new(self.line.iter().map(filler).collect()));
        }
        if self.rules.reserve_after.is_some() {
            let since = |entry: &Entry<K, Job<R::Need>>| (entry.value.since, entry.key.clone());
            self.since = self.line.iter().map(since).collect();
        }
    }

    /// The same of those who have a reservation. What is reserved stays as long as their order is
    /// the same.
    pub fn rekey_booked(&mut self, room: &mut R, mut anew: impl FnMut(&K) -> Option<K>) {
        let (mut first, mut last): (Option<K>, Option<K>) = (None, None);
        for (key, booking) in std::mem::take(&mut self.booked) {
            self.due.remove(&(booking.at, key.clone()));
            match anew(&key) {
                Some(key) => {
                    if last.as_ref().is_some_and(|last| *last >= key) {
                        self.freed();
                    }
                    first.get_or_insert_with(|| key.clone());
                    last = Some(key.clone());
                    self.book(key, booking);
                }
                None => {
                    room.give(&booking.spot, booking.at, booking.span);
                    self.freed();
                }
            }
        }
        if self.booked.keys().next() != first.as_ref() {
            // Nobody is to delay who is first now.
            self.plan_soon();
        }
    }

    /// The pass under way goes on behind who has this turn now, and to whom it was to go. Who is
    /// gone, or was promised something meanwhile, has the turn he had: another pass is to look at
    /// those who came before him.
    pub fn follow(&mut self, turn: impl Fn(&K) -> K) {
        if let Some(pass) = &mut self.pass {
            pass.follow(turn);
        }
    }

    /// The same where reservations have other turns as well.
    pub fn follow_booked(&mut self, turn: impl Fn(&K) -> K) {
        if let Some(pass) = &mut self.pass {
            pass.follow_booked(turn);
        }
    }

    /// Those who wait without a reservation, in order of turn.
    pub fn lined(&self) -> impl Iterator<Item = &K> {
        self.line.iter().map(|entry| &entry.key)
    }

    /// Something was given back before it was said to end: what is reserved may be had earlier.
    pub fn freed(&mut self) {
        self.news = self.news.max(News::Freed);
    }

    /// What is reserved was planned by what was not so: all is planned anew in the next pass, also where
    /// reservations are kept.
    pub fn void(&mut self) {
        self.news = News::Void;
        self.plan_soon();
    }

    /// Whether something was, that no pass has looked at.
    pub fn has_news(&self) -> bool {
        self.news > News::None
    }

    pub(super) fn line_up(&mut self, key: K, job: Job<R::Need>, span: Span, room: &R) {
        let least = room.least(&job.need);
        self.insert(Entry {
            key,
            least,
            span,
            value: job,
        });
    }

    fn insert(&mut self, entry: Entry<K, Job<R::Need>>) {
        if let Some(fillers) = &mut self.fillers {
            fillers.insert(Entry {
                key: (entry.span, entry.key.clone()),
                least: entry.least,
                span: entry.span,
                value: (),
            });
        }
        if self.rules.reserve_after.is_some() {
            self.since.insert((entry.value.since, entry.key.clone()));
        }
        self.line.insert(entry);
    }

    pub(super) fn unline(&mut self, key: &K) -> Option<Entry<K, Job<R::Need>>> {
        let entry = self.line.remove(key)?;
        if let Some(fillers) = &mut self.fillers {
            fillers.remove(&(entry.span, key.clone()));
        }
        if self.rules.reserve_after.is_some() {
            self.since.remove(&(entry.value.since, key.clone()));
        }
        Some(entry)
    }

    pub(super) fn book(&mut self, key: K, booking: Booking<R>) {
        self.due.insert((booking.at, key.clone()));
        self.booked.insert(key, booking);
    }

    /// What is reserved for one is elsewhere, at another time.
    pub(super) fn rebook(&mut self, key: &K, (at, spot): (Time, R::Spot)) {
        if let Some(booking) = self.booked.get_mut(key) {
            self.due.remove(&(booking.at, key.clone()));
            self.due.insert((at, key.clone()));
            (booking.at, booking.spot) = (at, spot);
        }
    }

    pub(super) fn unbook(&mut self, key: &K) -> Option<Booking<R>> {
        let booking = self.booked.remove(key)?;
        self.due.remove(&(booking.at, key.clone()));
        Some(booking)
    }
}
