//! How much may be started now: rates as buckets of tokens, the part of everything
//! that is started in one pass, the part of everything that an account holds.
//!
//! Asked before each start and charged by it. A start is one token, however wide
//! the job is.

use std::collections::BTreeMap;

use eddy_wire::account::Name;
use eddy_wire::plan::Owner;
use eddy_wire::time::{MICROS, Span, Time};

use super::{Accounts, account_of};
use crate::amounts::Amounts;
use crate::policy::{Limits, Policy, Rate};
use crate::rounds::{Bucket, Tokens, fractions};

/// Where a pass started as much as one may, there is another after so long.
const AGAIN: Span = Span::seconds(1);

/// The limits of a policy and what is left of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    limits: Limits,
    default_class: String,
    all: Option<Bucket>,
    accounts: BTreeMap<String, Bucket>,
    /// The time of what is asked.
    at: Time,
    /// Started in it.
    started: Amounts,
    again: Option<Time>,
}

/// A limit that holds somebody back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Everybody: as much was started in this pass as may be.
    Pass,
    /// Everybody, until then: the rate of all.
    Rate(Time),
    /// All of the account, until then: its rate.
    AccountRate(Time),
    /// This job: its account would hold more than its part.
    Fraction,
}

impl Gate {
    pub fn new(policy: &Policy) -> Gate {
        Gate {
            limits: policy.queue.limits.clone(),
            default_class: policy.placement.default_class.clone(),
            ..Gate::default()
        }
    }

    /// Other limits from now on. Buckets go on as they are, but hold no more than the new ones.
    pub fn obey(&mut self, policy: &Policy) {
        let before = std::mem::replace(self, Gate::new(policy));
        (self.all, self.accounts, self.at) = (before.all, before.accounts, before.at);
    }

    /// Whether anything is limited.
    pub fn is_open(&self) -> bool {
        self.limits == Limits::default()
    }

    /// It is later, also in a pass that is under way.
    pub fn at(&mut self, now: Time) {
        self.at = now;
    }

    /// A pass begins.
    pub fn begin(&mut self, now: Time) {
        (self.at, self.started, self.again) = (now, Amounts::NONE, None);
        // Who is full again needs no bucket.
        match self.limits.account_rate {
            Some(rate) => self
                .accounts
                .retain(|_, bucket| until(rate, *bucket, f64::from(rate.burst)) > now),
            None => self.accounts.clear(),
        }
    }

    /// When to ask again though nothing happens, if somebody was held back for a time.
    pub fn again(&self) -> Option<Time> {
        self.again
    }

    /// Whether a job that asks for so much may start.
    ///
    /// # Errors
    /// The limit that holds it back.
    pub fn pass(&mut self, books: &Accounts, owner: &Owner, asks: &Amounts) -> Result<(), Stop> {
        let passed = self.look(books, owner, asks);
        let again = passed.err().and_then(|stop| self.ends(stop));
        self.again = self.again.into_iter().chain(again).min();
        passed
    }

    /// When to ask again whoever is held back by that, if time alone lets him pass.
    pub fn ends(&self, stop: Stop) -> Option<Time> {
        match stop {
            Stop::Fraction => None,
            Stop::Pass => Some(self.at.after(AGAIN)),
            Stop::Rate(at) | Stop::AccountRate(at) => Some(at),
        }
    }

    /// Whether a job that asks for so much is more than its account may have at all.
    pub fn is_beyond(&self, books: &Accounts, owner: &Owner, asks: &Amounts) -> bool {
        self.of_account(books, owner)
            .is_some_and(|most| !most.holds(asks))
    }

    /// What an account may have of the class of a job, where that is limited.
    fn of_account(&self, books: &Accounts, owner: &Owner) -> Option<Amounts> {
        let of_class = self.limits.account_fraction.get(self.class_of(owner))?;
        Some(fractions(books.total(), books.kinds(), of_class))
    }

    fn class_of<'a>(&'a self, owner: &'a Owner) -> &'a str {
        let named = owner.class.as_ref().map(Name::as_str);
        named.unwrap_or(&self.default_class)
    }

    /// The same without a note.
    pub fn look(&self, books: &Accounts, owner: &Owner, asks: &Amounts) -> Result<(), Stop> {
        if self.is_open() {
            return Ok(());
        }
        let account = account_of(owner);
        let (total, kinds) = (books.total(), books.kinds());
        let most = fractions(total, kinds, &self.limits.pass_fraction);
        if !most.holds(&self.started) {
            return Err(Stop::Pass);
        }
        if let Some(rate) = self.limits.rate {
            self.tokens(rate, self.all).map_err(Stop::Rate)?;
        }
        if let Some(rate) = self.limits.account_rate {
            let bucket = self.accounts.get(&account).copied();
            self.tokens(rate, bucket).map_err(Stop::AccountRate)?;
        }
        let most = self.of_account(books, owner);
        let class = self.class_of(owner);
        let has = || books.has_of_class(&account, class, &self.default_class);
        match most.is_none_or(|most| most.holds(&(has() + *asks))) {
            true => Ok(()),
            false => Err(Stop::Fraction),
        }
    }

    /// Whether there is a token; if not, from when on.
    fn tokens(&self, rate: Rate, bucket: Option<Bucket>) -> Result<(), Time> {
        match Tokens::new(rate, bucket, self.at).spent() {
            false => Ok(()),
            true => Err(bucket.map_or(self.at, |bucket| until(rate, bucket, 1.0))),
        }
    }

    /// A job started.
    pub fn charge(&mut self, owner: &Owner, asks: &Amounts) {
        self.started += *asks;
        let now = self.at;
        let charged = |rate: Rate, bucket: Option<Bucket>| {
            let mut tokens = Tokens::new(rate, bucket, now);
            tokens.charge(1);
            tokens.bucket(now)
        };
        if let Some(rate) = self.limits.rate {
            self.all = Some(charged(rate, self.all));
        }
        if let Some(rate) = self.limits.account_rate {
            let account = account_of(owner);
            let bucket = self.accounts.get(&account).copied();
            self.accounts.insert(account, charged(rate, bucket));
        }
    }
}

/// When a bucket will hold so much.
fn until(rate: Rate, bucket: Bucket, tokens: f64) -> Time {
    let seconds = (tokens - bucket.tokens) / rate.per_second;
    // A cast of what is too large gives the largest.
    let span = (seconds.max(0.0) * MICROS as f64).ceil() as i64;
    bucket.at.after(Span(span.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::read::read;
    use crate::tests::model::inventory as inventory_of;

    fn gate(limits: &str) -> (Gate, Accounts) {
        let policy = read(&format!("[queue.limits]\n{limits}")).expect("a policy");
        let mut books = Accounts::default();
        books.define(&inventory_of(&[(4, 0, 0), (4, 0, 0)]));
        (Gate::new(&policy), books)
    }

    fn cores(n: i64) -> Amounts {
        let mut amounts = Amounts::NONE;
        amounts[0] = n * crate::amounts::UNIT;
        amounts
    }

    fn of(user: u32) -> Owner {
        Owner {
            user,
            ..Owner::default()
        }
    }

    const SECOND: i64 = MICROS;

    #[test]
    fn a_rate_says_when_the_next_may_start_and_lets_it() {
        let (mut gate, books) = gate("rate = { per_second = 2, burst = 2 }");
        let mut now = Time(SECOND);
        gate.begin(now);
        for _ in 0..2 {
            assert_eq!(gate.pass(&books, &of(1), &cores(1)), Ok(()));
            gate.charge(&of(1), &cores(1));
        }
        assert!(matches!(
            gate.pass(&books, &of(2), &cores(1)),
            Err(Stop::Rate(_))
        ));
        let again = gate.again().expect("a time");
        assert!((again - now).0 > SECOND / 2 && (again - now).0 <= SECOND / 2 + 2);
        now = again;
        gate.begin(now);
        assert_eq!(gate.pass(&books, &of(2), &cores(1)), Ok(()));
        gate.charge(&of(2), &cores(1));
        assert!(gate.pass(&books, &of(2), &cores(1)).is_err());
    }

    #[test]
    fn the_rate_of_an_account_holds_back_nobody_else() {
        let (mut gate, books) = gate("account_rate = { per_second = 1, burst = 1 }");
        gate.begin(Time(SECOND));
        gate.charge(&of(1), &cores(1));
        assert!(matches!(
            gate.pass(&books, &of(1), &cores(1)),
            Err(Stop::AccountRate(_))
        ));
        assert_eq!(gate.pass(&books, &of(2), &cores(1)), Ok(()));
        gate.begin(Time(3 * SECOND));
        assert!(gate.accounts.is_empty(), "full again");
    }

    #[test]
    fn a_pass_starts_a_part_and_an_account_holds_a_part() {
        let (mut gate, mut books) = gate("pass_fraction = { cores = 0.25 }");
        gate.begin(Time(SECOND));
        for _ in 0..2 {
            // Looked at before each start.
            assert_eq!(gate.pass(&books, &of(1), &cores(2)), Ok(()));
            gate.charge(&of(1), &cores(2));
        }
        assert_eq!(gate.pass(&books, &of(1), &cores(2)), Err(Stop::Pass));
        assert_eq!(gate.again(), Some(Time(2 * SECOND)));
        let policy =
            read("[queue.limits.account_fraction.default]\ncores = 0.5").expect("a policy");
        gate.obey(&policy);
        books.began(&of(0), &inventory_of(&[(3, 0, 0)]));
        assert_eq!(gate.pass(&books, &of(0), &cores(1)), Ok(()));
        assert_eq!(gate.pass(&books, &of(0), &cores(2)), Err(Stop::Fraction));
        assert_eq!(gate.pass(&books, &of(1), &cores(4)), Ok(()));
    }
}
