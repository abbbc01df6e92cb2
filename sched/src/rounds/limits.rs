//! How much may be started: rates, fractions of a round, fractions of an account.
//!
//! A list of checks, each of which lets a gang pass or says what it stops and
//! why. Asked by a round before it places anything new; what was put back for
//! fair share is never limited. It knows no nodes. Replays of one queue keep their
//! rates by the same [`Tokens`].

use std::collections::BTreeMap;

use eddy_wire::time::{MICROS, Span, Time};

use super::outcome::Reason;
use super::state::Bucket;
use crate::amounts::{Amounts, KINDS_MAX, Kinds};
use crate::policy::Rate;

/// The longest that anybody waits for a token, in seconds.
const LONGEST: f64 = 1e9;

/// What a check stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// This gang.
    Gang,
    /// Everything new of its account.
    Account,
    /// Everything new.
    Round,
}

/// A check that did not let a gang pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    pub reason: Reason,
    pub scope: Scope,
}

/// A rate and its bucket as it is now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    left: f64,
    burst: f64,
}

/// What is said at each of the three ways in which a bucket is too small.
pub(super) struct Sayings {
    pub spent: Denial,
    pub burst: Reason,
    pub gang: Reason,
}

/// The sayings of the rate of all.
pub(super) const OF_ALL: Sayings = Sayings {
    spent: Denial {
        reason: Reason::Rate,
        scope: Scope::Round,
    },
    burst: Reason::Burst,
    gang: Reason::RateGang,
};

/// The sayings of the rate of an account.
pub(super) const OF_ACCOUNT: Sayings = Sayings {
    spent: Denial {
        reason: Reason::AccountRate,
        scope: Scope::Account,
    },
    burst: Reason::AccountBurst,
    gang: Reason::AccountRateGang,
};

/// Parts of a token that are told apart.
const GRAINS: f64 = 1e9;

impl Tokens {
    /// The bucket filled up to now; full where there was none.
    pub(crate) fn new(rate: Rate, bucket: Option<Bucket>, now: Time) -> Tokens {
        let burst = f64::from(rate.burst);
        let left = match bucket {
            None => burst,
            Some(bucket) => {
                // A clock that went back brings nothing.
                let seconds = (now - bucket.at).0.max(0) as f64 / MICROS as f64;
                let filled = bucket.tokens + seconds * rate.per_second.max(0.0);
                // So that one filled in parts has what one filled at once has.
                ((filled * GRAINS).round() / GRAINS).min(burst)
            }
        };
        Tokens { left, burst }
    }

    /// The bucket to be kept until the next round.
    pub(crate) fn bucket(&self, now: Time) -> Bucket {
        Bucket {
            tokens: self.left,
            at: now,
        }
    }

    /// Whether less than one token is left.
    pub(crate) fn spent(&self) -> bool {
        self.left < 1.0
    }

    /// How long until there is a token; at most some years, where next to none come.
    pub(crate) fn until_one(&self, rate: Rate) -> Span {
        let seconds = (1.0 - self.left).max(0.0) / rate.per_second.max(f64::MIN_POSITIVE);
        // A microsecond more, so that what is rounded off is there.
        Span((seconds.min(LONGEST) * MICROS as f64).ceil() as i64 + 1)
    }

    /// Takes tokens, more than there are if need be.
    pub(crate) fn charge(&mut self, n: usize) {
        self.left -= n as f64;
    }

    /// Whether a gang of so many may pass.
    pub(super) fn check(&self, n: usize, sayings: &Sayings) -> Result<(), Denial> {
        let gang = |reason| Denial {
            reason,
            scope: Scope::Gang,
        };
        let asked = n as f64;
        if self.left <= 0.0 {
            Err(sayings.spent)
        } else if self.burst < asked {
            Err(gang(sayings.burst))
        } else if self.left < asked {
            Err(gang(sayings.gang))
        } else {
            Ok(())
        }
    }
}

/// Amounts that must not be exceeded: fractions of a total; kinds not named are free.
pub(crate) fn fractions(
    total: &Amounts,
    kinds: &Kinds,
    fractions: &BTreeMap<String, f64>,
) -> Amounts {
    let mut most = Amounts::NONE;
    for at in 0..KINDS_MAX {
        most[at] = i64::MAX;
    }
    for (name, fraction) in fractions {
        if let Some(at) = kinds.position(name) {
            // A cast of what is no number gives 0, of what is too large the largest.
            most[at] = (total[at] as f64 * fraction).round() as i64;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_fill_up_to_the_burst_and_never_by_a_clock_that_went_back() {
        let rate = Rate {
            per_second: 2.0,
            burst: 5,
        };
        let at = |tokens, seconds| {
            let bucket = Bucket {
                tokens,
                at: Time(10 * MICROS),
            };
            Tokens::new(rate, Some(bucket), Time(seconds * MICROS)).left
        };
        assert_eq!(at(-3.0, 12), 1.0);
        assert_eq!(at(4.0, 12), 5.0);
        assert_eq!(at(1.0, 3), 1.0);
        assert_eq!(Tokens::new(rate, None, Time(0)).left, 5.0);
    }

    #[test]
    fn a_gang_waits_for_tokens_and_one_beyond_the_burst_for_ever() {
        let rate = Rate {
            per_second: 1.0,
            burst: 4,
        };
        let mut tokens = Tokens::new(rate, None, Time(0));
        let reason = |tokens: &Tokens, n| tokens.check(n, &OF_ALL).map_err(|no| no.reason);
        assert_eq!(reason(&tokens, 5), Err(Reason::Burst));
        tokens.charge(2);
        assert_eq!(reason(&tokens, 3), Err(Reason::RateGang));
        assert_eq!(reason(&tokens, 2), Ok(()));
        tokens.charge(2);
        assert_eq!(tokens.check(1, &OF_ALL), Err(OF_ALL.spent));
    }
}
