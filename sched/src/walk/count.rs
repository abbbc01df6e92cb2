//! A count of processors as a room: any so many are as good as any others.
//!
//! Used by the simulator of traces, and by who plans a resource in aggregate. It
//! knows no nodes.

mod floors;

use eddy_wire::time::{Span, Time};

use self::floors::Floors;
use super::ceiling::Ceiling;
use super::room::{Blocked, Room};
use crate::timeline::Timeline;

/// So many processors, over time.
#[derive(Clone, Debug)]
pub struct Count {
    total: u64,
    free: Timeline,
    floors: Floors,
}

impl Count {
    /// All of them free; more than `i64::MAX` are that many.
    pub fn new(total: u64) -> Count {
        let free = Timeline::new(amount(total));
        Count {
            total,
            free,
            floors: Floors::default(),
        }
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.total
    }
}

/// Gaps that are tried before the floors are asked: most searches end sooner.
const TRIES: u32 = 8;

impl Count {
    /// The first gap that begins at or after `from` and not after `last`.
    fn search(&mut self, need: u64, from: Time, span: Span, last: Time) -> Option<Time> {
        let least = amount(need);
        let mut at = self.free.reaches(from, least)?;
        let mut tries = 0;
        while at <= last {
            match self.free.below(at, least) {
                Some(short) if short < at.after(whole(span)) => {
                    tries += 1;
                    let next = match tries {
                        TRIES => short.max(self.floors.at(need, span, from)),
                        _ => short,
                    };
                    at = self.free.reaches(next, least)?;
                }
                Some(_) | None => break,
            }
        }
        if tries >= TRIES {
            self.floors.note(need, span, from, at);
        }
        (at <= last).then_some(at)
    }
}

impl Room for Count {
    type Need = u64;
    type Spot = u64;

    fn least(&self, need: &u64) -> u64 {
        *need
    }

    fn ceiling(&mut self, now: Time, ceiling: &mut Ceiling) {
        ceiling.fill(&self.free, now);
    }

    fn fit(&mut self, need: &u64, now: Time, span: Span) -> Result<u64, Blocked> {
        if *need > self.total {
            return Err(Blocked::Never);
        }
        match self.free.below(now, amount(*need)) {
            Some(short) if short <= now => Err(Blocked::Busy {
                what: "processors",
                asked: *need,
                free: u64::try_from(self.free.at(now)).unwrap_or(0),
            }),
            Some(short) if short < now.after(whole(span)) => Err(Blocked::Reserved),
            Some(_) | None => Ok(*need),
        }
    }

    fn earliest(&mut self, need: &u64, from: Time, span: Span) -> Result<(Time, u64), Blocked> {
        if *need > self.total {
            return Err(Blocked::Never);
        }
        let at = self.search(*need, from, span, Time(i64::MAX));
        at.map(|at| (at, *need)).ok_or(Blocked::Never)
    }

    /// What is taken fits, so within its own place there is room for it: an earlier gap either
    /// ends before that place, or leads up to it without a break.
    fn sooner(
        &mut self,
        need: &u64,
        from: Time,
        (spot, at): (&u64, Time),
        span: Span,
    ) -> Option<(Time, u64)> {
        let apart = Time(at.0.saturating_sub(whole(span).0));
        let sooner = match self.search(*need, from, span, apart) {
            Some(found) => found,
            None => self.free.since(at, amount(*need)).max(from),
        };
        if sooner >= at {
            return None;
        }
        self.give(spot, at, span);
        self.take(need, sooner, span);
        Some((sooner, *need))
    }

    fn take(&mut self, spot: &u64, from: Time, span: Span) {
        self.free.add(from, from.after(whole(span)), -amount(*spot));
    }

    fn give(&mut self, spot: &u64, from: Time, span: Span) {
        self.floors.given(from);
        self.free.add(from, from.after(whole(span)), amount(*spot));
    }

    fn forget(&mut self, before: Time) {
        self.free.forget(before);
    }
}

fn amount(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Not even a job without a length shares its place with another.
fn whole(span: Span) -> Span {
    span.max(Span(1))
}
