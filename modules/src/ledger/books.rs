//! What each payer was charged, by time: the older, the wider the stretches.
//!
//! Wide enough to be few, narrow enough that a policy that forgets by half in days reads the same
//! from them as from every job. Stretches are aligned to 1970, the widest to the months of the calendar, and the
//! wider are made of the narrower, so nothing is ever divided and no year begins within one.

use std::collections::BTreeMap;

use eddy_wire::account::Period;
use eddy_wire::time::{MICROS, Time};
use eddy_wire::usage::{Account, Amounts, Payer, Stretch};

use crate::limits::beginning;

const MINUTE: i64 = 60 * MICROS;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// More than any month has days, less than two have.
const BEYOND: i64 = 31;

/// How old a stretch may be, and how wide it is then; anything older is a month.
const WIDTHS: [(i64, i64); 3] = [(HOUR, MINUTE), (3 * DAY, HOUR), (400 * DAY, DAY)];

/// Where the stretch begins that `at` is in if it is so old, and how wide it is.
fn stretch(at: i64, age: i64) -> (i64, i64) {
    match WIDTHS.iter().find(|(oldest, _)| age <= *oldest) {
        Some((_, width)) => (at.div_euclid(*width) * width, *width),
        None => {
            let first = beginning(Period::Month, at.div_euclid(DAY));
            let next = beginning(Period::Month, first + BEYOND);
            (first * DAY, (next - first) * DAY)
        }
    }
}

/// By beginning, then by width, the wider first.
type Stretches = BTreeMap<(i64, std::cmp::Reverse<i64>), Amounts>;

/// The books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Books {
    of: BTreeMap<Payer, Stretches>,
}

impl Books {
    /// Those that a summary has.
    pub fn of(accounts: &[Account]) -> Books {
        let mut books = Books::default();
        for account in accounts {
            let stretches = books.of.entry(account.payer.clone()).or_default();
            for stretch in &account.stretches {
                add(stretches, stretch.from, stretch.width, stretch.used);
            }
        }
        books
    }

    /// Charges what was held from then to then.
    pub fn charge(&mut self, payer: &Payer, from: Time, to: Time, held: Amounts) {
        if to <= from {
            return;
        }
        let stretches = match self.of.get_mut(payer) {
            Some(stretches) => stretches,
            None => self.of.entry(payer.clone()).or_default(),
        };
        // Each turn goes to the end of a stretch, of which few are narrow.
        let mut at = from.0;
        while at < to.0 {
            let (begin, width) = stretch(at, to.0 - at);
            let end = (begin + width).min(to.0);
            let used = held.over(Time(end) - Time(at));
            add(stretches, begin, width, used);
            at = end;
        }
    }

    /// Everything, as a summary of that time keeps it.
    pub fn accounts(&self, now: Time) -> Vec<Account> {
        let account = |(payer, stretches): (&Payer, &Stretches)| {
            let mut wider = Stretches::new();
            for ((from, own), used) in stretches {
                let (begin, width) = match stretch(*from, now.0 - from) {
                    (begin, width) if width > own.0 => (begin, width),
                    // One of an earlier version may be as wide, and begin anywhere in a month.
                    _ => (*from, own.0),
                };
                add(&mut wider, begin, width, *used);
            }
            let stretches = wider.into_iter().map(|((from, width), used)| Stretch {
                from,
                width: width.0,
                used,
            });
            Account {
                payer: payer.clone(),
                stretches: stretches.collect(),
            }
        };
        self.of.iter().map(account).collect()
    }

    pub fn stretches(&self) -> impl Iterator<Item = (&Payer, Stretch)> {
        self.of.iter().flat_map(|(payer, stretches)| {
            stretches.iter().map(move |((from, width), used)| {
                let stretch = Stretch {
                    from: *from,
                    width: width.0,
                    used: *used,
                };
                (payer, stretch)
            })
        })
    }

    pub fn total(&self) -> Amounts {
        let all = self.stretches().map(|(_, stretch)| stretch.used);
        all.fold(Amounts::default(), Amounts::plus)
    }
}

fn add(stretches: &mut Stretches, from: i64, width: i64, used: Amounts) {
    let key = (from, std::cmp::Reverse(width));
    let before = stretches.entry(key).or_default();
    *before = before.plus(used);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget of a year, a quarter or a month counts by where stretches begin: what was used in one is in a
    /// stretch of that one for ever.
    #[test]
    fn no_period_of_the_calendar_begins_within_an_old_stretch() {
        let payer = Payer {
            account: None,
            user: 1,
            qos: None,
            queue: None,
        };
        let one = Amounts {
            cores: 1,
            ..Amounts::default()
        };
        for day in (15_000..22_000).step_by(5) {
            let (from, to) = (Time(day * DAY), Time((day + 1) * DAY));
            let mut books = Books::default();
            books.charge(&payer, from, to, one);
            for age in [1, 401, 2_000] {
                let now = Time(to.0 + age * DAY);
                let accounts = books.accounts(now);
                for period in [Period::Month, Period::Quarter, Period::Year] {
                    let begin = beginning(period, day) * DAY;
                    let of_it = |stretch: &&Stretch| {
                        beginning(period, stretch.from.div_euclid(DAY)) * DAY == begin
                    };
                    let stretches = accounts[0].stretches.iter().filter(of_it);
                    let used: u128 = stretches.map(|stretch| stretch.used.cores).sum();
                    assert_eq!(used, DAY as u128, "{day} {age} {period:?}");
                }
                // What was summed up once is summed up no further.
                assert_eq!(Books::of(&accounts).accounts(now), accounts);
            }
        }
    }
}
