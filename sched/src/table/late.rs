//! Those who have waited longer than `reserve_after` where accounts take turns: a start is promised to them.
//!
//! A round looks at them first, in the order in which they began to wait, whatever their accounts cost:
//! that order never changes, so that whoever is wide comes to be the first of them. A promise stays
//! until its job starts, and is only moved earlier, but for one that is due and cannot be kept. Asked by
//! the table; how long that is and what there is it is told.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use eddy_wire::time::{Span, Time};

use super::{Next, Table, Verdicts};
use crate::occupancy::{Ask, Occupancy, Spot};
use crate::turns::Turn;
use crate::walk::{Blocked, LAST, LATE_MAX, Room, Verdict};

/// So many of those who have waited longest are looked at for that: some may be held back by a limit.
const LOOKED_MAX: usize = 1024;

/// What is promised to one.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    at: Time,
    pub spot: Spot,
    pub span: Span,
}

impl Promise {
    /// From when on it is; the end of time where that is not known.
    pub fn at(&self) -> Time {
        match self.at {
            LAST => Time(i64::MAX),
            at => at,
        }
    }

    /// For whom nobody is to have it.
    pub fn give_back(&self, room: &mut Occupancy) {
        room.give(&self.spot, self.at, self.span);
    }
}

/// One who waits, by since when.
type Since = (Time, Turn);

/// Who waits since when, and what is promised to whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Late {
    /// None where nobody is ever promised anything.
    after: Option<Span>,
    waits: BTreeMap<Time, BTreeMap<Turn, (Arc<Ask>, Span)>>,
    promised: BTreeMap<Turn, (Time, Promise)>,
    /// How many of those who wait hold something already, and want the rest of it back.
    back: usize,
}

/// What is found for one.
enum Found {
    Now(Spot, Span),
    Then(Promise),
    Nothing,
}

impl Late {
    pub fn new(after: Option<Span>) -> Late {
        Late {
            after,
            ..Late::default()
        }
    }

    pub fn enter(&mut self, turn: Turn, ask: &Arc<Ask>, span: Span) {
        if self.after.is_some() {
            let since = self.waits.entry(ask.want.eligible).or_default();
            since.insert(turn, (Arc::clone(ask), span));
            self.back += usize::from(ask.want.back.is_some());
        }
    }

    pub fn leave(&mut self, turn: &Turn, ask: &Ask, room: &mut Occupancy) {
        let since = ask.want.eligible;
        if let Some(jobs) = self.waits.get_mut(&since) {
            if jobs.remove(turn).is_some() {
                self.back -= usize::from(ask.want.back.is_some());
            }
            if jobs.is_empty() {
                self.waits.remove(&since);
            }
        }
        self.unpromise(turn, room);
    }

    pub fn unpromise(&mut self, turn: &Turn, room: &mut Occupancy) {
        if let Some((_, promise)) = self.promised.remove(turn) {
            promise.give_back(room);
        }
    }

    /// What one counts on is gone. Those who have waited for less stand back: they would keep it waiting by
    /// what they have, and be moved into what it had. Says who they are.
    pub fn lose(&mut self, turn: &Turn, room: &mut Occupancy) -> Vec<Turn> {
        let Some((since, _)) = self.promised.get(turn) else {
            return Vec::new();
        };
        let one = (*since, *turn);
        self.unpromise(turn, room);
        self.stand_back(one, room)
    }

    fn stand_back(&mut self, of: Since, room: &mut Occupancy) -> Vec<Turn> {
        let promised = self.promised.iter();
        let behind = promised.filter(|(turn, (since, _))| (*since, **turn) > of);
        let behind: Vec<Turn> = behind.map(|(turn, _)| *turn).collect();
        behind.iter().for_each(|turn| self.unpromise(turn, room));
        behind
    }

    pub fn promise(&self, turn: &Turn) -> Option<&Promise> {
        self.promised.get(turn).map(|(_, promise)| promise)
    }

    pub fn promises(&self) -> impl Iterator<Item = (&Turn, &Promise)> {
        let promised = self.promised.iter();
        promised.map(|(turn, (_, promise))| (turn, promise))
    }

    /// Those who are looked at in a round.
    pub fn overdue(&self, now: Time) -> VecDeque<Since> {
        let Some(after) = self.after else {
            return VecDeque::new();
        };
        let late = self.waits.iter();
        let late = late.take_while(|(since, _)| now - **since >= after);
        let late = late.flat_map(|(since, jobs)| jobs.keys().map(|turn| (*since, *turn)));
        let promised = self
            .promised
            .iter()
            .map(|(turn, (since, _))| (*since, *turn));
        let mut all: Vec<Since> = late.take(LOOKED_MAX).chain(promised).collect();
        all.sort_unstable();
        all.dedup();
        all.into()
    }

    /// When the next will have waited too long.
    pub fn next(&self, now: Time) -> Option<Time> {
        let after = self.after?;
        let from = Bound::Excluded(Time(now.0.saturating_sub(after.0)));
        let (since, _) = self.waits.range((from, Bound::Unbounded)).next()?;
        Some(since.after(after))
    }

    /// Whether the last moment may be promised. Two that have it would wait for each other; and who is to go on
    /// would wait for one who waits for what he holds.
    fn may_be_last(&self) -> bool {
        let mut all = self.promised.values();
        self.back == 0 && all.all(|(_, one)| one.at.after(one.span) < LAST)
    }

    /// What one who waited too long is to have, which nobody else has from here on.
    fn find(&mut self, (since, turn): Since, room: &mut Occupancy, now: Time) -> Found {
        let jobs = self.waits.get(&since);
        let Some((ask, span)) = jobs.and_then(|jobs| jobs.get(&turn)).cloned() else {
            // It went meanwhile.
            return Found::Nothing;
        };
        let known = self.promised.remove(&turn).map(|(_, promise)| promise);
        if let Some(promise) = known {
            if promise.at == LAST && self.back > 0 {
                promise.give_back(room);
                return Found::Nothing;
            }
            if promise.at > now {
                let moved = room.sooner(&ask, now, (&promise.spot, promise.at), span);
                return match moved {
                    Some(moved) => taken(moved, span, now),
                    None => Found::Then(promise),
                };
            }
            // It is due. Where a limit holds it back its place is kept.
            if !room.admits(&ask) {
                return Found::Then(promise);
            }
            promise.give_back(room);
            let found = room.earliest(&ask, now, span);
            if found.is_ok_and(|(at, _)| at > now) {
                // It is late: nobody behind it is to keep it waiting for longer.
                self.stand_back((since, turn), room);
            }
        } else if self.promised.len() >= LATE_MAX {
            return Found::Nothing;
        }
        self.find_anew((&ask, span), room, now)
    }

    /// The same of one that is promised nothing.
    fn find_anew(&self, (ask, span): (&Arc<Ask>, Span), room: &mut Occupancy, now: Time) -> Found {
        match room.earliest(ask, now, span) {
            Ok((at, _)) if at > LAST && !self.may_be_last() => Found::Nothing,
            Ok((at, spot)) => {
                let at = at.min(LAST);
                room.take(&spot, at, span);
                taken((at, spot), span, now)
            }
            // What can never be is told in its turn.
            Err(
                Blocked::Busy { .. }
                | Blocked::Reserved
                | Blocked::NotInService
                | Blocked::Limited
                | Blocked::Never,
            ) => Found::Nothing,
        }
    }
}

fn taken((at, spot): (Time, Spot), span: Span, now: Time) -> Found {
    match at <= now {
        true => Found::Now(spot, span),
        false => Found::Then(Promise { at, spot, span }),
    }
}

impl Table {
    /// Looks at one of those who waited too long.
    pub(super) fn late_step(
        &mut self,
        one: Since,
        room: &mut Occupancy,
        now: Time,
        out: &mut Verdicts,
    ) -> Next {
        let (since, turn) = one;
        match self.late.find(one, room, now) {
            Found::Now(spot, span) => {
                out.push(Verdict::Start {
                    key: turn,
                    spot,
                    span,
                });
                Next::Started
            }
            Found::Then(promise) => {
                self.late.promised.insert(turn, (since, promise));
                Next::More
            }
            Found::Nothing => Next::More,
        }
    }

    /// What is promised to one.
    pub fn promise(&self, turn: &Turn) -> Option<&Promise> {
        self.late.promise(turn)
    }

    /// What is promised to whom.
    pub fn promises(&self) -> impl Iterator<Item = (&Turn, &Promise)> {
        self.late.promises()
    }

    /// It is promised nothing any more, nor is anybody behind it: the next round looks for something else.
    pub fn lose(&mut self, turn: &Turn, room: &mut Occupancy) -> Vec<Turn> {
        self.stir();
        // They are first in a round, and this one is past them.
        self.round = None;
        self.late.lose(turn, room)
    }
}
