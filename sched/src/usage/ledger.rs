//! Who has used how much, and until when that was reckoned.
//!
//! Kept by the planner and saved with its state; read by shares. Reading needs no
//! writing: an entry is brought to any time when it is asked for. It knows no
//! tree: a holder is a name, such as the path of a user in the tree.

use std::collections::BTreeMap;

use eddy_wire::time::Time;

use super::decay::{boundaries, faded};
use crate::policy::Decay;

/// Bins that one holder keeps at most.
const BINS_MAX: usize = 256;

/// The place of a holder in a ledger; stays the same while the ledger lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u32);

/// What one holder has used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// In charged units, faded until `at`; the newest bin where usage is kept in bins.
    pub amount: f64,
    /// Older bins, the newer first, already weighted down; empty without bins.
    pub older: Vec<f64>,
    /// Charged units per second of what runs now.
    pub rate: f64,
    /// Until when this is reckoned.
    pub at: Time,
}

impl Standing {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.amount + self.older.iter().sum::<f64>()
    }

    /// Brings it to `now`. A clock that went back changes no amount, only the time from which is
    /// reckoned on, so that one wrong time does not stop decay until it comes again.
    pub fn advance(&mut self, decay: &Decay, now: Time) {
        match decay {
            Decay::Bins {
                count,
                period,
                factor,
            } => self.roll(*count, period.0, *factor, now),
            Decay::None
            | Decay::Exponential { .. }
            | Decay::TowardCurrent { .. }
            | Decay::Step { .. }
            | Decay::Reset(_) => {
                self.amount = faded(decay, self.amount, self.rate, self.at, now);
            }
        }
        self.at = now;
    }

    /// At the end of each period every bin moves on by one and is weighted by the factor; the last
    /// falls off (flux-accounting).
    fn roll(&mut self, count: u32, period: i64, factor: f64, now: Time) {
        let count = (count.max(1) as usize).min(BINS_MAX);
        self.older.resize(count - 1, 0.0);
        let rolls = boundaries(self.at, now, eddy_wire::time::Span(period));
        // After as many periods as there are bins nothing of the past is left but what ran.
        let skipped = (rolls - count as i64 - 1).max(0);
        let mut from = Time(self.at.0.saturating_add(skipped.saturating_mul(period)));
        for _ in 0..(rolls - skipped).max(0) {
            let end = Time((from.0.div_euclid(period) + 1).saturating_mul(period));
            self.amount = faded(&Decay::None, self.amount, self.rate, from, end);
            self.shift(factor);
            from = end;
        }
        self.amount = faded(&Decay::None, self.amount, self.rate, from, now);
    }

    /// Brings it to `now`, all of it in one bin: what follows fades otherwise.
    pub fn close(&mut self, decay: &Decay, now: Time) {
        self.advance(decay, now);
        self.amount = self.total();
        self.older.clear();
    }

    /// Brings it to `now` and adds another that was brought there.
    fn add(&mut self, decay: &Decay, part: &Standing, now: Time) {
        self.advance(decay, now);
        self.amount += part.amount;
        let most = self.older.len().max(part.older.len());
        self.older.resize(most, 0.0);
        for (bin, more) in self.older.iter_mut().zip(&part.older) {
            *bin += more;
        }
    }

    fn shift(&mut self, factor: f64) {
        self.older.insert(0, self.amount);
        self.older.pop();
        self.older.iter_mut().for_each(|bin| *bin *= factor);
        self.amount = 0.0;
    }
}

/// Of a sum so much is only how numbers are rounded: of what has hardly begun to fade more digits are lost than one
/// would think.
const ROUNDING: f64 = 1e-9;

/// What is left of a sum without one of its parts.
fn without(sum: f64, part: f64) -> f64 {
    let left = sum - part;
    match left > sum * ROUNDING {
        true => left,
        false => 0.0,
    }
}

/// What all holders have used.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    decay: Decay,
    ids: BTreeMap<String, HolderId>,
    standings: Vec<Standing>,
    /// What of each is of those who are over. Nothing is ever taken out of these.
    over: Vec<Standing>,
}

impl Ledger {
    /// Nobody has used anything.
    pub fn new(decay: Decay) -> Ledger {
        Ledger {
            decay,
            ids: BTreeMap::new(),
            standings: Vec::new(),
            over: Vec::new(),
        }
    }

    /// The place of a holder, made if there is none.
    pub fn holder(&mut self, name: &str) -> HolderId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = HolderId(self.standings.len() as u32);
        self.ids.insert(name.to_owned(), id);
        self.standings.push(Standing::default());
        self.over.push(Standing::default());
        id
    }

    /// The place of a holder that there is.
    pub fn find(&self, name: &str) -> Option<HolderId> {
        self.ids.get(name).copied()
    }

    /// Adds an amount at once, beside what running jobs add.
    pub fn charge(&mut self, id: HolderId, now: Time, amount: f64) {
        let decay = &self.decay;
        if let Some(standing) = self.standings.get_mut(id.0 as usize) {
            standing.advance(decay, now);
            standing.amount += amount;
        }
    }

    /// Adds what was used at this rate from then to then, as faded by `now` as if it had been
    /// known all the time, for one who runs on.
    pub fn backdate(&mut self, id: HolderId, rate: f64, span: (Time, Time), now: Time) {
        let run = self.run(rate, span, now);
        if let Some(standing) = self.standings.get_mut(id.0 as usize) {
            standing.add(&self.decay, &run, now);
        }
    }

    /// Adds the same for one who is over.
    pub fn settle(&mut self, id: HolderId, rate: f64, span: (Time, Time), now: Time) {
        let run = self.run(rate, span, now);
        for all in [&mut self.standings, &mut self.over] {
            if let Some(standing) = all.get_mut(id.0 as usize) {
                standing.add(&self.decay, &run, now);
            }
        }
    }

    fn run(&self, rate: f64, (from, to): (Time, Time), now: Time) -> Standing {
        let mut run = Standing {
            rate,
            at: from.min(to),
            ..Standing::default()
        };
        run.advance(&self.decay, to);
        run.rate = 0.0;
        run.advance(&self.decay, now.max(to));
        run
    }

    /// What is part of what a holder has used is of one who is over.
    pub fn keep(&mut self, id: HolderId, mut part: Standing, now: Time) {
        part.advance(&self.decay, now);
        if let Some(over) = self.over.get_mut(id.0 as usize) {
            over.add(&self.decay, &part, now);
        }
    }

    /// All of a holder's are over. A sum out of which something was taken is seldom what it would be without that, and
    /// who is left with next to nothing would be due half of who has used nothing.
    pub fn rest(&mut self, id: HolderId) {
        let at = id.0 as usize;
        if let (Some(standing), Some(over)) = (self.standings.get_mut(at), self.over.get(at)) {
            standing.clone_from(over);
        }
    }

    /// Takes out again what is part of what a holder has used, as if it had never been charged. What uses it still
    /// stays.
    pub fn take_out(&mut self, id: HolderId, part: &Standing, now: Time) {
        let decay = &self.decay;
        let mut part = part.clone();
        part.advance(decay, now);
        let Some(standing) = self.standings.get_mut(id.0 as usize) else {
            return;
        };
        standing.advance(decay, now);
        standing.amount = without(standing.amount, part.amount);
        for (bin, less) in standing.older.iter_mut().zip(&part.older) {
            *bin = without(*bin, *less);
        }
    }

    /// How usage is forgotten.
    pub fn decay(&self) -> &Decay {
        &self.decay
    }

    /// Changes what the holder uses from now on: by [`super::Tariff::rate`] at a start, by less
    /// that at an end.
    pub fn using(&mut self, id: HolderId, now: Time, change: f64) {
        let decay = &self.decay;
        if let Some(standing) = self.standings.get_mut(id.0 as usize) {
            standing.advance(decay, now);
            standing.rate += change;
        }
    }

    /// What the holder has used, as of `now`; nothing for one it does not know.
    pub fn usage(&self, id: HolderId, now: Time) -> f64 {
        let Some(standing) = self.standings.get(id.0 as usize) else {
            return 0.0;
        };
        match standing.older.is_empty() && !matches!(self.decay, Decay::Bins { .. }) {
            true => faded(
                &self.decay,
                standing.amount,
                standing.rate,
                standing.at,
                now,
            ),
            false => {
                let mut standing = standing.clone();
                standing.advance(&self.decay, now);
                standing.total()
            }
        }
    }

    /// Forgets by other rules from `now` on; what was used until then is reckoned by the old ones.
    pub fn change(&mut self, decay: Decay, now: Time) {
        for standing in self.standings.iter_mut().chain(&mut self.over) {
            standing.close(&self.decay, now);
        }
        self.decay = decay;
    }

    /// Each holder by name with its standing, to be saved.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Standing)> {
        let standing = |id: HolderId| &self.standings[id.0 as usize];
        self.ids
            .iter()
            .map(move |(name, &id)| (name.as_str(), standing(id)))
    }

    /// Takes a saved standing back.
    pub fn restore(&mut self, name: &str, standing: Standing) -> HolderId {
        let id = self.holder(name);
        self.over[id.0 as usize] = Standing {
            rate: 0.0,
            ..standing.clone()
        };
        self.standings[id.0 as usize] = standing;
        id
    }
}
