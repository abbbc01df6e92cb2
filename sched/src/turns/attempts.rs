//! What was charged for attempts that are not known to be over.
//!
//! While a job holds something it is charged as passes hear of that. What it is charged in the end its records tell
//! alone: until then it is kept apart how much of what a holder has used is of which job, so that this can be taken
//! out again. Told by the turns in the order in which they hear of it; it holds nothing of who is over.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use eddy_wire::id::JobId;
use eddy_wire::time::Time;

use crate::usage::{HolderId, Ledger, Standing};

/// By job, each a part of its holder's standing.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    all: BTreeMap<JobId, Attempt>,
    /// How many of these a holder has, where he has any.
    of: BTreeMap<HolderId, usize>,
}

#[derive(Clone, Debug)]
struct Attempt {
    holder: HolderId,
    had: Standing,
}

impl Attempts {
    /// One runs since then. One that is known runs on at this rate from then, if nothing was heard of it since, as who
    /// was suspended and goes on; else from now.
    pub fn began(
        &mut self,
        ledger: &mut Ledger,
        (job, holder): (JobId, HolderId),
        (rate, since): (f64, Time),
        now: Time,
    ) {
        self.leave_to(ledger, (job, holder), now);
        match self.all.entry(job) {
            Entry::Occupied(mut known) => {
                let had = &mut known.get_mut().had;
                let from = match had.at <= since {
                    true => since.min(now),
                    false => now,
                };
                had.advance(ledger.decay(), from);
                had.rate += rate;
                ledger.backdate(holder, rate, (from, now), now);
            }
            Entry::Vacant(new) => {
                ledger.backdate(holder, rate, (since, now), now);
                let at = since.min(now);
                let had = Standing {
                    rate,
                    at,
                    ..Standing::default()
                };
                new.insert(Attempt { holder, had });
                *self.of.entry(holder).or_default() += 1;
            }
        }
        ledger.using(holder, now, rate);
    }

    /// Whoever else was to pay for an attempt is not: it was charged to him by what was proposed, and is recorded as
    /// this one's.
    fn leave_to(&mut self, ledger: &mut Ledger, (job, holder): (JobId, HolderId), now: Time) {
        let known = self.all.get(&job);
        if known.is_some_and(|known| known.holder != holder) {
            self.void(ledger, job, now);
            self.over(ledger, job, now);
        }
    }

    /// It uses less from now on.
    pub fn ended(&mut self, ledger: &mut Ledger, job: JobId, rate: f64, now: Time) {
        if let Some(attempt) = self.all.get_mut(&job) {
            attempt.had.advance(ledger.decay(), now);
            attempt.had.rate -= rate;
            ledger.using(attempt.holder, now, -rate);
        }
    }

    /// It was charged nothing until now.
    pub fn void(&mut self, ledger: &mut Ledger, job: JobId, now: Time) {
        if let Some(attempt) = self.all.get_mut(&job) {
            let had = &mut attempt.had;
            ledger.take_out(attempt.holder, had, now);
            *had = Standing {
                rate: had.rate,
                at: now,
                ..Standing::default()
            };
        }
    }

    /// What it was charged by now stays.
    pub fn over(&mut self, ledger: &mut Ledger, job: JobId, now: Time) {
        let Some(Attempt { holder, had }) = self.all.remove(&job) else {
            return;
        };
        ledger.keep(holder, had, now);
        if let Entry::Occupied(mut left) = self.of.entry(holder) {
            *left.get_mut() -= 1;
            if *left.get() == 0 {
                left.remove();
                ledger.rest(holder);
            }
        }
    }

    /// Another decay follows that of the ledger.
    pub fn change(&mut self, ledger: &Ledger, now: Time) {
        let attempts = self.all.values_mut();
        attempts.for_each(|attempt| attempt.had.close(ledger.decay(), now));
    }
}
