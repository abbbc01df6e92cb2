//! What each payer was charged, by time: the older, the wider the stretches.
//!
//! Wide enough to be few, narrow enough that a policy that forgets by half in days reads the same
//! from them as from every job. Stretches are aligned to 1970, the widest to the months of the calendar, and the
//! wider are made of the narrower, so nothing is ever divided and no year begins within one.

use std::cmp::Reverse;
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
type Stretches = BTreeMap<(i64, Reverse<i64>), Amounts>;

/// The books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Books {
    of: BTreeMap<Payer, Own>,
    /// The sum of all stretches of all payers.
    total: Amounts,
}

/// What one payer was charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    stretches: Stretches,
    /// Their sum, so that nobody adds up a year of them for an answer.
    total: Amounts,
}

impl Own {
    fn add(&mut self, from: i64, width: i64, used: Amounts) {
        add(&mut self.stretches, from, width, used);
        self.total = self.total.plus(used);
    }

    /// What was used in stretches that did not begin before then; without a time all of it.
    pub fn since(&self, since: Option<Time>) -> Amounts {
        let Some(since) = since else {
            return self.total;
        };
        let first = (since.0, Reverse(i64::MAX));
        let used = self.stretches.range(first..).map(|(_, used)| *used);
        used.fold(Amounts::default(), Amounts::plus)
    }
}

impl Books {
    /// Those that a summary has.
    pub fn of(accounts: &[Account]) -> Books {
        let mut books = Books::default();
        for account in accounts {
            let own = books.of.entry(account.payer.clone()).or_default();
            for stretch in &account.stretches {
                own.add(stretch.from, stretch.width, stretch.used);
                books.total = books.total.plus(stretch.used);
            }
        }
        books
    }

    /// Charges what was held from then to then.
    pub fn charge(&mut self, payer: &Payer, from: Time, to: Time, held: Amounts) {
        if to <= from {
            return;
        }
        let own = match self.of.get_mut(payer) {
            Some(own) => own,
            None => self.of.entry(payer.clone()).or_default(),
        };
        // Each turn goes to the end of a stretch, of which few are narrow.
        let mut at = from.0;
        while at < to.0 {
            let (begin, width) = stretch(at, to.0 - at);
            let end = (begin + width).min(to.0);
            let used = held.over(Time(end) - Time(at));
            own.add(begin, width, used);
            self.total = self.total.plus(used);
            at = end;
        }
    }

    /// Everything, as a summary of that time keeps it.
    pub fn accounts(&self, now: Time) -> Vec<Account> {
        let account = |(payer, own): (&Payer, &Own)| {
            let mut wider = Stretches::new();
            for ((from, own), used) in &own.stretches {
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
        self.of.iter().flat_map(|(payer, own)| {
            own.stretches.iter().map(move |((from, width), used)| {
                let stretch = Stretch {
                    from: *from,
                    width: width.0,
                    used: *used,
                };
                (payer, stretch)
            })
        })
    }

    /// What each payer was charged.
    pub fn payers(&self) -> impl Iterator<Item = (&Payer, &Own)> {
        self.of.iter()
    }

    /// What all were charged.
    pub fn total(&self) -> Amounts {
        self.total
    }
}

fn add(stretches: &mut Stretches, from: i64, width: i64, used: Amounts) {
    let key = (from, Reverse(width));
    let before = stretches.entry(key).or_default();
    *before = before.plus(used);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told by sums that are kept is what adding all up gives.
    #[test]
    fn sums_that_are_kept_are_those_of_all_stretches() {
        let sum = |books: &Books, user: Option<u32>, since: i64| {
            let of_it = |(payer, stretch): &(&Payer, Stretch)| {
                stretch.from >= since && user.is_none_or(|user| payer.user == user)
            };
            let all = books.stretches().filter(of_it);
            let used = all.map(|(_, stretch)| stretch.used);
            used.fold(Amounts::default(), Amounts::plus)
        };
        let held = Amounts {
            cores: 3,
            memory: 5,
            ..Amounts::default()
        };
        let mut books = Books::default();
        for at in 0..300_i64 {
            let payer = Payer {
                user: (at % 3) as u32,
                ..Payer::default()
            };
            let (from, to) = (Time(at * 7 * HOUR), Time(at * 7 * HOUR + at * 400 * MINUTE));
            books.charge(&payer, from, to, held);
        }
        for books in [Books::of(&books.accounts(Time(90 * DAY))), books] {
            assert_eq!(books.total(), sum(&books, None, i64::MIN));
            for (payer, own) in books.payers() {
                let user = Some(payer.user);
                assert_eq!(own.since(None), sum(&books, user, i64::MIN));
                for hour in [0, 1, 500, 1_000, 2_099] {
                    let since = hour * HOUR;
                    assert_eq!(own.since(Some(Time(since))), sum(&books, user, since));
                }
            }
        }
    }

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
