//! What each payer used on each day, for limits that count over a period.

use std::collections::BTreeMap;

use eddy_wire::account::{Book, Period};
use eddy_wire::held::Stay;
use eddy_wire::time::{MICROS, Time};
use eddy_wire::usage::{Account, Payer};

use super::Whose;

const DAY: i64 = 86_400 * MICROS;
/// Days that are kept: no period is longer than a year, and what the one before left may count.
const DAYS_MAX: i64 = 800;

/// Which period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// The one that is on.
    Now,
    /// The one before it.
    One,
}

/// Core-microseconds by day since 1970.
#[derive(Debug, Default)]
pub(super) struct Days {
    of: BTreeMap<Payer, BTreeMap<i64, u128>>,
}

impl Days {
    /// Those that a summary of the ledger has.
    pub fn of(accounts: &[Account]) -> Days {
        let mut days = Days::default();
        for account in accounts {
            let own = days.of.entry(account.payer.clone()).or_default();
            for stretch in &account.stretches {
                *own.entry(stretch.from.div_euclid(DAY)).or_default() += stretch.used.cores;
            }
        }
        days
    }

    /// Cores were held for a stretch of time.
    pub fn used(&mut self, payer: Payer, stay: &Stay) {
        let (from, to, cores) = (stay.from, stay.to, stay.held.cores);
        if cores == 0 {
            return;
        }
        let own = self.of.entry(payer).or_default();
        let oldest = to.0.div_euclid(DAY) - DAYS_MAX;
        let mut at = from.0.max(oldest * DAY);
        while at < to.0 {
            let day = at.div_euclid(DAY);
            let end = ((day + 1) * DAY).min(to.0);
            *own.entry(day).or_default() += cores * (end - at).unsigned_abs() as u128;
            at = end;
        }
        while own.first_key_value().is_some_and(|(day, _)| *day < oldest) {
            own.pop_first();
        }
    }

    /// What somebody used in a period, by who paid.
    pub fn used_in<'a>(
        &'a self,
        book: &'a Book,
        whose: &'a Whose,
        period: Period,
        (now, back): (Time, Back),
    ) -> impl Iterator<Item = (&'a Payer, u128)> {
        let begin = beginning(period, now.0.div_euclid(DAY));
        let (begin, end) = match back {
            Back::Now => (begin, i64::MAX),
            Back::One => (beginning(period, begin - 1), begin),
        };
        let is_under = move |payer: &Payer, name| {
            let own = payer.account.as_ref();
            own.is_some_and(|own| book.line(own).any(|(above, _)| above == name))
        };
        let is_theirs = move |payer: &Payer| match whose {
            Whose::Account(name) => is_under(payer, name),
            Whose::Member(name, of) => payer.account.as_ref() == Some(name) && payer.user == *of,
            Whose::User(of) => payer.user == *of,
            Whose::Qos(name) => payer.qos.as_ref() == Some(name),
            Whose::QosUser(name, of) => payer.qos.as_ref() == Some(name) && payer.user == *of,
            Whose::Queue(name) => payer.queue.as_deref() == Some(name),
            Whose::QueueUser(name, of) => payer.queue.as_deref() == Some(name) && payer.user == *of,
        };
        let theirs = self.of.iter().filter(move |(payer, _)| is_theirs(payer));
        theirs.map(move |(payer, days)| (payer, days.range(begin..end).map(|(_, used)| used).sum()))
    }
}

/// The first day of the period that a day is in; days since 1970.
pub(super) fn beginning(period: Period, day: i64) -> i64 {
    let months = match period {
        Period::Day => return day,
        // 1970-01-01 was a Thursday, four days after a Sunday.
        Period::Week => return day - (day + 4).rem_euclid(7),
        Period::Month => 1,
        Period::Quarter => 3,
        Period::Year => 12,
    };
    let (year, month) = month_of(day);
    first_of(year, month - month % months)
}

/// The year and the month, from 0, of a day.
fn month_of(day: i64) -> (i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year + i64::from(from_march >= 10);
    (year, month)
}

/// The first day of a month.
fn first_of(year: i64, month: i64) -> i64 {
    // Years from March, so that the leap day is the last of its year.
    let (year, from_march) = match month {
        0 | 1 => (year - 1, month + 10),
        _ => (year, month - 2),
    };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * from_march + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_at_the_calendars_days() {
        // 2026-11-21 is a Saturday.
        let day = 20_778;
        let begins = [
            Period::Day,
            Period::Week,
            Period::Month,
            Period::Quarter,
            Period::Year,
        ]
        .map(|period| day - beginning(period, day));
        assert_eq!(begins, [0, 6, 20, 51, 324]);
        for day in -1_000..60_000 {
            let begin = beginning(Period::Month, day);
            assert!(begin <= day && day - begin < 31);
            assert_eq!(beginning(Period::Month, begin), begin);
            assert!(day - beginning(Period::Year, day) < 366);
        }
    }
}
