//! What was used in the period that is on, and in the one before it: by whole days, of which each is reckoned
//! by itself.

use std::collections::BTreeMap;

use eddy_wire::account::{Excess, Limits, Period, STANDBY};
use eddy_wire::time::{MICROS, Time};
use eddy_wire::usage::Payer;

use super::whose::{Rules, Whose};

const DAY: i64 = 86_400 * MICROS;

/// Core-microseconds by payer and day since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct Periods {
    used: BTreeMap<(Payer, i64), u128>,
}

impl Periods {
    /// So many cores were held from then to then.
    pub fn add(&mut self, payer: &Payer, (from, to): (Time, Time), cores: u128) {
        // No run of the world lasts for many days.
        for day in from.0.div_euclid(DAY)..=to.0.div_euclid(DAY) {
            let (begin, end) = (from.0.max(day * DAY), to.0.min((day + 1) * DAY));
            let time = (end - begin).max(0).unsigned_abs();
            let used = self.used.entry((payer.clone(), day)).or_default();
            *used += cores * u128::from(time);
        }
    }

    /// What was used of a limit in its period, and in the one before.
    pub fn of(&self, rules: &Rules, whose: &Whose, limits: &Limits, now: Time) -> (u128, u128) {
        let beyond = |payer: &Payer| {
            let qos = payer.qos.as_ref();
            limits.excess == Excess::Standby && qos.is_some_and(|own| own.as_str() == STANDBY)
        };
        let today = now.0.div_euclid(DAY);
        let now = numbered(limits.period, today);
        let (mut used, mut before) = (0, 0);
        for ((payer, day), cores) in &self.used {
            if beyond(payer) || !rules.pays(whose, payer) {
                continue;
            }
            match now - numbered(limits.period, *day) {
                ..=0 => used += cores,
                1 => before += cores,
                _ => {}
            }
        }
        (used, before)
    }
}

/// The number of the period that a day is in.
fn numbered(period: Period, day: i64) -> i64 {
    let (year, month) = month_of(day);
    match period {
        Period::Day => day,
        // 1970-01-01 was a Thursday, four days after a Sunday.
        Period::Week => (day + 4).div_euclid(7),
        Period::Month => year * 12 + month,
        Period::Quarter => year * 4 + month / 3,
        Period::Year => year,
    }
}

/// The year and the month, from 0, of a day since 1970: counted, since no world is far from there.
fn month_of(mut day: i64) -> (i64, i64) {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    let length = |year| 365 + i64::from(is_leap(year));
    while day >= length(year) {
        day -= length(year);
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    for (at, days) in months.into_iter().enumerate() {
        month = at as i64;
        if day < days {
            break;
        }
        day -= days;
    }
    (year, month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_days_around_a_new_year_are_in_other_periods() {
        // 2026-12-31 is a Thursday.
        let (last, first) = (20_818, 20_819);
        let all = [Period::Day, Period::Month, Period::Quarter, Period::Year];
        for period in all {
            let (last, first) = (numbered(period, last), numbered(period, first));
            assert_eq!(first - last, 1, "{period:?}");
        }
        assert_eq!(month_of(last), (2026, 11));
        assert_eq!(numbered(Period::Week, last), numbered(Period::Week, first));
        assert_eq!(
            numbered(Period::Week, first + 2) - numbered(Period::Week, first + 1),
            1
        );
    }
}
