//! What each payer used on each day, for limits that count over a period.
//!
//! Part of the limits, which are asked at each place that is given, and know whose budgets a payer's use is of: by
//! those it is summed up as well, when somebody asks first and as it comes from then on, so that nobody walks all
//! payers for an answer. Knows no period that is on: sums are by day.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use eddy_wire::account::{Period, STANDBY};
use eddy_wire::held::Stay;
use eddy_wire::time::{MICROS, Time};
use eddy_wire::usage::{Account, Day, Payer};

use super::Whose;

const DAY: i64 = 86_400 * MICROS;
/// Days that are kept: no period is longer than a year, and what the one before left may count.
const DAYS_MAX: i64 = 800;

/// No period is longer.
const YEAR_DAYS: i64 = 366;

/// Which period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// The one that is on.
    Now,
    /// The one before it.
    One,
}

/// What of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    All,
    /// Nothing of those who go on beyond their budget.
    ButStandby,
}

/// Core-microseconds by day since 1970.
#[derive(Debug, Default)]
pub(super) struct Days {
    /// What is in no record of a day that is closed.
    open: Part,
    closed: Part,
    /// Records of closed days since the last summary: they count from the next on.
    said: Vec<Arc<Day>>,
}

/// Beginning in days and width in microseconds, or none where it is of a summary or counted here.
type Key = (i64, i64);

#[derive(Debug, Default)]
struct Part {
    of: BTreeMap<Payer, BTreeMap<Key, u128>>,
    sums: OnceCell<Sums>,
}

/// The same by whose budgets they are of.
#[derive(Debug, Default)]
struct Sums(BTreeMap<Whose, BTreeMap<i64, Spent>>);

/// Of what is open and of what is closed.
pub(super) struct AllSums<'d>([&'d Sums; 2]);

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    all: u128,
    standby: u128,
}

impl Days {
    /// As a summary of the ledger and the days before it say.
    pub fn restore(&mut self, accounts: &[Account]) {
        self.open = Part::default();
        for account in accounts
            .iter()
            .filter(|account| !account.stretches.is_empty())
        {
            let own = self.open.of.entry(account.payer.clone()).or_default();
            for stretch in &account.stretches {
                let day = (stretch.from.div_euclid(DAY), 0);
                *own.entry(day).or_default() += stretch.used.cores;
            }
        }
        for day in std::mem::take(&mut self.said) {
            self.closed.put(&day);
        }
    }

    /// A record of a day that is closed.
    pub fn said(&mut self, day: &Arc<Day>) {
        self.said.push(Arc::clone(day));
    }

    /// Whose budgets they are of is another matter than before.
    pub fn recount(&mut self) {
        self.open.sums.take();
        self.closed.sums.take();
    }

    /// Cores were held for a stretch of time by one whose use is of these budgets.
    pub fn used(&mut self, payer: &Payer, stay: &Stay, whose: &[Whose]) {
        let (from, to, cores) = (stay.from, stay.to, stay.held.cores);
        if cores == 0 {
            return;
        }
        let Part { of, sums: summed } = &mut self.open;
        // A copy of names only for the first that a payer uses.
        let own = match of.get_mut(payer) {
            Some(own) => own,
            None => of.entry(payer.clone()).or_default(),
        };
        let mut sums = summed.take();
        let oldest = to.0.div_euclid(DAY) - DAYS_MAX;
        let mut at = from.0.max(oldest * DAY);
        while at < to.0 {
            let day = at.div_euclid(DAY);
            let end = ((day + 1) * DAY).min(to.0);
            let used = cores * (end - at).unsigned_abs() as u128;
            *own.entry((day, 0)).or_default() += used;
            if let Some(sums) = &mut sums {
                sums.add(payer, whose, (day, used));
            }
            at = end;
        }
        trim(own, (oldest, 0));
        if own.is_empty() {
            of.remove(payer);
        }
        if let Some(mut sums) = sums {
            whose.iter().for_each(|whose| sums.trim(whose, oldest));
            summed.set(sums).expect("they were just taken");
        }
    }

    /// What was used of budgets, where a payer's use is of these.
    pub fn sums(&self, budgets_of: impl Fn(&Payer) -> Vec<Whose>) -> AllSums<'_> {
        AllSums([self.open.sums(&budgets_of), self.closed.sums(&budgets_of)])
    }
}

impl Part {
    /// Takes a stretch in place of those that are part of it.
    fn put(&mut self, day: &Day) {
        self.sums.take();
        let (key, until) = (
            (day.from.div_euclid(DAY), day.width),
            day.until.div_euclid(DAY),
        );
        let is_part = |of: &Key| (key.0..until).contains(&of.0) && of.1 < key.1;
        for own in self.of.values_mut() {
            own.remove(&key);
            if until > key.0 {
                own.retain(|of, _| !is_part(of));
            }
            trim(own, (key.0 - DAYS_MAX, 0));
        }
        for share in day.accounts.iter().filter(|share| share.used.cores > 0) {
            let own = self.of.entry(share.payer.clone()).or_default();
            own.insert(key, share.used.cores);
        }
        self.of.retain(|_, own| !own.is_empty());
    }

    fn sums(&self, budgets_of: impl Fn(&Payer) -> Vec<Whose>) -> &Sums {
        self.sums.get_or_init(|| {
            let mut sums = Sums::default();
            for (payer, days) in &self.of {
                let whose = budgets_of(payer);
                for ((day, _), used) in days {
                    sums.add(payer, &whose, (*day, *used));
                }
            }
            sums
        })
    }
}

impl AllSums<'_> {
    /// What was used of a budget in a period.
    pub fn used_in(
        &self,
        whose: &Whose,
        counted: Counted,
        period: Period,
        (now, back): (Time, Back),
    ) -> u128 {
        let begin = beginning(period, now.0.div_euclid(DAY));
        let days = match back {
            Back::Now => begin..i64::MAX,
            Back::One => beginning(period, begin - 1)..begin,
        };
        let parts = self.0.iter();
        parts
            .map(|sums| sums.used_on(whose, counted, days.clone()))
            .sum()
    }
}

impl Sums {
    fn add(&mut self, payer: &Payer, whose: &[Whose], (day, used): (i64, u128)) {
        let stands_by = payer
            .qos
            .as_ref()
            .is_some_and(|own| own.as_str() == STANDBY);
        for whose in whose {
            // A copy of a name only for the first that is used of a budget.
            if !self.0.contains_key(whose) {
                self.0.insert(whose.clone(), BTreeMap::new());
            }
            let days = self.0.get_mut(whose).expect("it is there by now");
            let spent = days.entry(day).or_default();
            spent.all += used;
            if stands_by {
                spent.standby += used;
            }
        }
    }

    fn trim(&mut self, whose: &Whose, oldest: i64) {
        if let Some(days) = self.0.get_mut(whose) {
            trim(days, oldest);
        }
    }

    fn used_on(&self, whose: &Whose, counted: Counted, days: Range<i64>) -> u128 {
        let own = self.0.get(whose);
        let spent = own.into_iter().flat_map(|own| own.range(days.clone()));
        spent
            .map(|(_, spent)| match counted {
                Counted::All => spent.all,
                Counted::ButStandby => spent.all - spent.standby,
            })
            .sum()
    }
}

fn trim<K: Ord, T>(days: &mut BTreeMap<K, T>, oldest: K) {
    while days.first_key_value().is_some_and(|(day, _)| *day < oldest) {
        days.pop_first();
    }
}

/// The first day of the period that a day is in; days since 1970.
pub(crate) fn beginning(period: Period, day: i64) -> i64 {
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

/// When the period ends that is on.
pub(super) fn end(period: Period, now: Time) -> Time {
    let today = now.0.div_euclid(DAY);
    let days = today + 1..=today + YEAR_DAYS;
    let mut begins = days.filter(|day| beginning(period, *day) == *day);
    Time(begins.next().unwrap_or(today).saturating_mul(DAY))
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
    use eddy_wire::account::Name;
    use eddy_wire::usage::{Amounts, Share, Stretch};
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    /// Accounts of which one is under the other, with and without the QoS that stands by.
    fn payer((account, user, standby): (bool, u32, bool)) -> Payer {
        Payer {
            account: Some(name(["in", "out"][usize::from(account)])),
            user,
            qos: standby.then(|| name(STANDBY)),
            queue: None,
        }
    }

    fn budgets_of(payer: &Payer) -> Vec<Whose> {
        let own = payer.account.clone().expect("each has one");
        let is_in = own == name("in");
        let out = Whose::Account(name("out"));
        let all = [Some(Whose::Account(own)), is_in.then_some(out)];
        let user = Whose::User(payer.user);
        all.into_iter().flatten().chain([user]).collect()
    }

    /// By a walk over all payers.
    fn anew(days: &Days, whose: &Whose, counted: Counted, span: Range<i64>) -> u128 {
        let theirs = days.open.of.iter().filter(|(payer, _)| {
            let stands_by = payer.qos.is_some();
            let counts = counted == Counted::All || !stands_by;
            counts && budgets_of(payer).contains(whose)
        });
        theirs
            .flat_map(|(_, days)| days.range((span.start, 0)..(span.end, 0)))
            .map(|(_, used)| used)
            .sum()
    }

    proptest! {
        #[test]
        fn the_sum_of_a_budget_is_that_of_all_who_paid(
            all in prop::collection::vec(
                ((any::<bool>(), 0_u32..3, any::<bool>()), 0_i64..1_000, 1_i64..90_000, 0_u64..5, any::<bool>()),
                0..40,
            ),
            later in 0_i64..400,
        ) {
            let mut days = Days::default();
            let mut all = all;
            all.sort_by_key(|(_, from, ..)| *from);
            let now = all.last().map_or(0, |(_, from, ..)| *from) + later;
            for (whom, from, long, cores, is_asked) in all {
                let payer = payer(whom);
                if is_asked {
                    days.sums(budgets_of);
                }
                let (from, to) = (from * DAY + 40_000 * MICROS, from * DAY + (40_000 + long) * MICROS);
                let held = Amounts {
                    cores: u128::from(cores),
                    ..Amounts::default()
                };
                let stay = Stay {
                    from: Time(from),
                    to: Time(to),
                    held,
                };
                days.used(&payer, &stay, &budgets_of(&payer));
            }
            let sums = days.sums(budgets_of);
            let periods = [Period::Day, Period::Week, Period::Month, Period::Quarter, Period::Year];
            let whose = [Whose::Account(name("in")), Whose::Account(name("out")), Whose::User(1)];
            for (period, whose) in periods.iter().flat_map(|period| whose.iter().map(move |whose| (*period, whose))) {
                let begin = beginning(period, now);
                let before = beginning(period, begin - 1)..begin;
                for counted in [Counted::All, Counted::ButStandby] {
                    let at = Time(now * DAY + 7);
                    let sum = |back| sums.used_in(whose, counted, period, (at, back));
                    prop_assert_eq!(sum(Back::Now), anew(&days, whose, counted, begin..i64::MAX));
                    prop_assert_eq!(sum(Back::One), anew(&days, whose, counted, before.clone()));
                }
            }
        }
    }

    /// Closed days, of which some was charged late, and a month of them.
    #[test]
    fn what_is_closed_counts_as_what_is_open() {
        let whom = payer((true, 1, false));
        let used = |cores: u64| Amounts {
            cores: u128::from(cores),
            ..Amounts::default()
        };
        let closed = |from: i64, days: i64, until: i64, cores: u64| {
            Arc::new(Day {
                from: from * DAY,
                width: days * DAY,
                until: until * DAY,
                accounts: vec![Share {
                    payer: whom.clone(),
                    used: used(cores),
                }],
            })
        };
        let open = |day: i64, cores: u64| Account {
            payer: whom.clone(),
            stretches: vec![Stretch {
                from: day * DAY,
                width: DAY,
                used: used(cores),
            }],
        };
        // 2026-11-26, and days of that month and of October.
        let now = 20_783;
        let mut days = Days::default();
        for day in [
            closed(now - 5, 1, now - 4, 7),
            closed(now - 40, 1, now - 39, 100),
        ] {
            days.said(&day);
        }
        let month = |days: &Days, back| {
            let whose = Whose::User(1);
            let at = (Time(now * DAY), back);
            days.sums(budgets_of)
                .used_in(&whose, Counted::All, Period::Month, at)
        };
        assert_eq!(month(&days, Back::Now), 0, "no summary leaves it out yet");
        days.restore(&[open(now - 5, 1), open(now, 2)]);
        assert_eq!(
            [Back::Now, Back::One].map(|back| month(&days, back)),
            [10, 100]
        );
        // The day again with what came late, and October as one, with what was that one's.
        let october = beginning(Period::Month, now - 40);
        days.said(&closed(now - 5, 1, now - 5, 8));
        days.said(&closed(october, 31, october + 31, 103));
        days.restore(&[open(now, 2)]);
        assert_eq!(
            [Back::Now, Back::One].map(|back| month(&days, back)),
            [10, 103]
        );
    }

    #[test]
    fn a_period_ends_where_the_next_begins() {
        // 2026-11-26T12:00:00Z, a Thursday.
        let now = Time((20_783 * DAY) + DAY / 2);
        let ends = [
            (Period::Day, "2026-11-27T00:00:00Z"),
            (Period::Week, "2026-11-29T00:00:00Z"),
            (Period::Month, "2026-12-01T00:00:00Z"),
            (Period::Quarter, "2027-01-01T00:00:00Z"),
            (Period::Year, "2027-01-01T00:00:00Z"),
        ];
        for (period, at) in ends {
            assert_eq!(end(period, now).utc(), at);
        }
    }

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
