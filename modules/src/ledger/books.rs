//! What each payer was charged, by time: the older, the wider the stretches.
//!
//! Wide enough to be few, narrow enough that a policy that forgets by half in days reads the same
//! from them as from every job. Stretches are aligned to 1970, the widest to the months of the calendar, and the
//! wider are made of the narrower, so nothing is ever divided and no year begins within one.
//!
//! What was charged in days that are over is closed: it is in records of its own, one for a day or a month, and a
//! summary has the rest. What is charged to such a day later is open until the next day is closed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::account::Period;
use eddy_wire::id::Seq;
use eddy_wire::time::{MICROS, Time};
use eddy_wire::usage::{Account, Amounts, Day, Payer, Share, Stretch};

use crate::limits::beginning;

const MINUTE: i64 = 60 * MICROS;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// More than any month has days, less than two have.
const BEYOND: i64 = 31;

/// How old a stretch may be, and how wide it is then; anything older is a month.
const WIDTHS: [(i64, i64); 3] = [(HOUR, MINUTE), (OPEN, HOUR), (400 * DAY, DAY)];
/// A day that ended so long ago is closed.
const OPEN: i64 = 3 * DAY;

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

/// Beginning and width, the wider first.
type Key = (i64, Reverse<i64>);
type Stretches = BTreeMap<Key, Amounts>;

/// The stretch that what was used in this one is told by then.
fn widened(key: Key, now: i64) -> Key {
    let (mut from, Reverse(mut width)) = key;
    loop {
        let (begin, wider) = stretch(from, now - from);
        // One of an earlier version may be as wide, and begin anywhere in a month.
        if wider <= width {
            return (from, Reverse(width));
        }
        (from, width) = (begin, wider);
    }
}

fn add(stretches: &mut Stretches, key: Key, used: Amounts) {
    let before = stretches.entry(key).or_default();
    *before = before.plus(used);
}

/// The books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Books {
    of: BTreeMap<Payer, Own>,
    /// The sum of all stretches of all payers.
    total: Amounts,
    /// The stretches that are closed, and the record that each is in.
    closed: BTreeMap<Key, Seq>,
    /// Records of closed stretches since the last summary: they count from the next on.
    said: Vec<(Seq, Arc<Day>)>,
}

/// What one payer was charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    open: Part,
    closed: Part,
    /// In which hour the open stretches were widened last.
    widened: i64,
}

/// Stretches, and their sum, so that nobody adds up a year of them for an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Part {
    stretches: Stretches,
    total: Amounts,
}

impl Part {
    fn add(&mut self, key: Key, used: Amounts) {
        add(&mut self.stretches, key, used);
        self.total = self.total.plus(used);
    }

    fn remove(&mut self, key: Key) {
        if let Some(used) = self.stretches.remove(&key) {
            self.total = self.total.less(used);
        }
    }

    fn since(&self, since: Option<Time>) -> Amounts {
        let Some(since) = since else {
            return self.total;
        };
        let first = (since.0, Reverse(i64::MAX));
        let used = self.stretches.range(first..).map(|(_, used)| *used);
        used.fold(Amounts::default(), Amounts::plus)
    }

    /// The same by then.
    fn widened(&self, now: i64) -> Stretches {
        let mut wider = Stretches::new();
        for (key, used) in &self.stretches {
            add(&mut wider, widened(*key, now), *used);
        }
        wider
    }
}

impl Own {
    fn charge(&mut self, from: Time, to: Time, held: Amounts) {
        // So that minutes and hours are few however long there is no summary.
        let hour = to.0.div_euclid(HOUR);
        if hour > self.widened {
            self.widened = hour;
            self.open.stretches = self.open.widened(to.0);
        }
        // Each turn goes to the end of a stretch, of which few are narrow.
        let mut at = from.0;
        while at < to.0 {
            let (begin, width) = stretch(at, to.0 - at);
            let end = (begin + width).min(to.0);
            let used = held.over(Time(end) - Time(at));
            self.open.add((begin, Reverse(width)), used);
            at = end;
        }
    }

    fn total(&self) -> Amounts {
        self.open.total.plus(self.closed.total)
    }

    /// What was used in stretches that did not begin before then; without a time all of it.
    pub fn since(&self, since: Option<Time>) -> Amounts {
        self.open.since(since).plus(self.closed.since(since))
    }
}

impl Books {
    /// Charges what was held from then to then.
    pub fn charge(&mut self, payer: &Payer, from: Time, to: Time, held: Amounts) {
        if to <= from {
            return;
        }
        let own = match self.of.get_mut(payer) {
            Some(own) => own,
            None => self.of.entry(payer.clone()).or_default(),
        };
        own.charge(from, to, held);
        self.total = self.total.plus(held.over(to - from));
    }

    /// Everything, as a summary of that time keeps it: the days to be said before it, and the rest.
    pub fn summary(&self, now: Time) -> (Vec<Day>, Vec<Account>) {
        let open = self.of.iter().map(|(payer, own)| {
            let stretches = own.open.widened(now.0);
            (payer, stretches)
        });
        let mut open: Vec<(&Payer, Stretches)> = open.collect();
        let days = match self.is_closing(now, &open) {
            true => self.close(now, &mut open),
            false => Vec::new(),
        };
        open.retain(|(_, stretches)| !stretches.is_empty());
        let accounts = open.into_iter().map(|(payer, stretches)| {
            let stretches = stretches.into_iter().map(|(key, used)| told(key, used));
            Account {
                payer: payer.clone(),
                stretches: stretches.collect(),
            }
        });
        (days, accounts.collect())
    }

    /// Whether a day is over that was not closed, or one that is closed has become so old that it is told as part
    /// of its month. What is charged late to others is no reason: their records are long.
    fn is_closing(&self, now: Time, open: &[(&Payer, Stretches)]) -> bool {
        let mut open = open.iter().flat_map(|(_, stretches)| stretches.keys());
        let is_new = |key: &&Key| is_over(**key, now) && !self.closed.contains_key(*key);
        let mut closed = self.closed.keys();
        open.any(|key| is_new(&key)) || closed.any(|key| widened(*key, now.0) != *key)
    }

    /// What is over of what is open goes with what is closed of the same stretches.
    fn close(&self, now: Time, open: &mut [(&Payer, Stretches)]) -> Vec<Day> {
        let mut until: BTreeMap<Key, i64> = BTreeMap::new();
        for key in self.closed.keys() {
            let wider = widened(*key, now.0);
            if wider != *key {
                let until = until.entry(wider).or_insert(wider.0);
                *until = (*until).max(key.0 + key.1.0);
            }
        }
        let keys = open.iter().flat_map(|(_, stretches)| stretches.keys());
        let over: BTreeSet<Key> = keys.filter(|key| is_over(**key, now)).copied().collect();
        for key in over {
            until.entry(key).or_insert(key.0);
        }
        let mut shares: BTreeMap<Key, Vec<Share>> = BTreeMap::new();
        for (payer, stretches) in open {
            let mut own = Stretches::new();
            for (key, used) in &self.of[*payer].closed.stretches {
                let wider = widened(*key, now.0);
                if until.contains_key(&wider) {
                    add(&mut own, wider, *used);
                }
            }
            stretches.retain(|key, used| {
                let stays = !is_over(*key, now);
                if !stays {
                    add(&mut own, *key, *used);
                }
                stays
            });
            for (key, used) in own {
                let payer = payer.clone();
                shares.entry(key).or_default().push(Share { payer, used });
            }
        }
        let day = |(key, accounts): (Key, Vec<Share>)| Day {
            from: key.0,
            width: key.1.0,
            until: until[&key],
            accounts,
        };
        shares.into_iter().map(day).collect()
    }

    /// A record of a stretch that is closed.
    pub fn said(&mut self, seq: Seq, day: &Arc<Day>) {
        self.said.push((seq, Arc::clone(day)));
    }

    /// As a summary of that time and the days before it say.
    pub fn restore(&mut self, t: Time, accounts: &[Account]) {
        for (seq, day) in std::mem::take(&mut self.said) {
            self.put(seq, &day);
        }
        for own in self.of.values_mut() {
            own.open = Part::default();
        }
        for account in accounts {
            let own = self.of.entry(account.payer.clone()).or_default();
            for Stretch { from, width, used } in &account.stretches {
                own.open.add((*from, Reverse(*width)), *used);
            }
        }
        self.of.retain(|_, own| {
            own.widened = t.0.div_euclid(HOUR);
            !own.open.stretches.is_empty() || !own.closed.stretches.is_empty()
        });
        let totals = self.of.values().map(Own::total);
        self.total = totals.fold(Amounts::default(), Amounts::plus);
    }

    /// Takes a stretch as closed, in place of those that are part of it.
    fn put(&mut self, seq: Seq, day: &Day) {
        let key = (day.from, Reverse(day.width));
        let begun = self.closed.range((day.from, Reverse(i64::MAX))..);
        let begun = begun.map(|(key, _)| *key);
        let parts = begun.take_while(|(from, _)| *from < day.until);
        let parts = parts.filter(|(_, width)| width.0 < day.width);
        let gone: Vec<Key> = parts.chain([key]).collect();
        for own in self.of.values_mut() {
            gone.iter().for_each(|key| own.closed.remove(*key));
        }
        for key in gone {
            self.closed.remove(&key);
        }
        for Share { payer, used } in &day.accounts {
            let own = self.of.entry(payer.clone()).or_default();
            own.closed.add(key, *used);
        }
        self.closed.insert(key, seq);
    }

    /// The records of what is closed.
    pub fn live(&self) -> impl Iterator<Item = Seq> {
        let said = self.said.iter().map(|(seq, _)| *seq);
        self.closed.values().copied().chain(said)
    }

    /// What was charged by stretches: to one that is closed some of it may be open.
    pub fn stretches(&self) -> impl Iterator<Item = (&Payer, Stretch)> {
        self.of.iter().flat_map(|(payer, own)| {
            let all = own.closed.stretches.iter().chain(&own.open.stretches);
            all.map(move |(key, used)| (payer, told(*key, *used)))
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

/// Whether it is of days that are to be closed.
fn is_over((from, width): Key, now: Time) -> bool {
    width.0 >= DAY && from.saturating_add(width.0) <= now.0 - OPEN
}

fn told((from, Reverse(width)): Key, used: Amounts) -> Stretch {
    Stretch { from, width, used }
}

#[cfg(test)]
mod tests;
