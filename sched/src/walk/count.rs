//! A count of processors as a room: any so many are as good as any others.
//!
//! Used by the simulator of traces, and by who plans a resource in aggregate. It
//! knows no nodes.

use eddy_wire::time::{Span, Time};

use super::ceiling::Ceiling;
use super::room::{Blocked, Room};
use crate::timeline::Timeline;

/// So many processors, over time.
#[derive(Clone, Debug)]
pub struct Count {
    total: u64,
    free: Timeline,
}

impl Count {
    /// All of them free; more than `i64::MAX` are that many.
    pub fn new(total: u64) -> Count {
        let free = Timeline::new(amount(total));
        Count { total, free }
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl Room for Count {
    type Need = u64;
    type Spot = u64;

    fn least(&self, need: &u64) -> u64 {
        *need
    }

    fn ceiling(&self, now: Time, ceiling: &mut Ceiling) {
        ceiling.clear();
        let mut free = self.free.at(now);
        while !ceiling.is_full() {
            let most = u64::try_from(free).unwrap_or(0);
            match self.free.below(now, free) {
                Some(less) => {
                    ceiling.step(less - now, most);
                    free = self.free.at(less);
                }
                None => ceiling.step(Span(i64::MAX), most),
            }
        }
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
        let at = self.free.earliest(from, amount(*need), whole(span));
        at.map(|at| (at, *need)).ok_or(Blocked::Never)
    }

    fn take(&mut self, spot: &u64, from: Time, span: Span) {
        self.free.add(from, from.after(whole(span)), -amount(*spot));
    }

    fn give(&mut self, spot: &u64, from: Time, span: Span) {
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
