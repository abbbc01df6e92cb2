//! What each payer was charged, by time: the older, the wider the stretches.
//!
//! Wide enough to be few, narrow enough that a policy that forgets by half in days reads the same
//! from them as from every job. Stretches are aligned to 1970 and the wider are made of the
//! narrower, so nothing is ever divided.

use std::collections::BTreeMap;

use eddy_wire::time::{MICROS, Time};
use eddy_wire::usage::{Account, Amounts, Payer, Stretch};

const MINUTE: i64 = 60 * MICROS;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const LONG: i64 = 30 * DAY;

/// How old a stretch may be, and how wide it is then; anything older is [`LONG`].
const WIDTHS: [(i64, i64); 3] = [(HOUR, MINUTE), (3 * DAY, HOUR), (400 * DAY, DAY)];

/// How wide a stretch is that is so old.
fn width(age: i64) -> i64 {
    let found = WIDTHS.iter().find(|(oldest, _)| age <= *oldest);
    found.map_or(LONG, |(_, width)| *width)
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
            let width = width(to.0 - at);
            let begin = at.div_euclid(width) * width;
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
                let width = width(now.0 - from).max(own.0);
                let begin = from.div_euclid(width) * width;
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
