//! How much one user may ask of a rank: connections, unanswered requests, requests a second.
//!
//! Used by [`super::peers`]. The owner and admins are not held to it. Who is over is refused by
//! name and told when to come again; nothing of others waits for it.

use std::collections::HashMap;
use std::time::Instant;

use eddy_wire::message::Roles;

use crate::config::Limits;

/// How many seconds' worth of requests may come at once.
const BURST_SECONDS: u64 = 5;
/// Users who ask nothing are forgotten from so many on.
const KEPT_MAX: usize = 1024;

/// What each user asks.
#[derive(Debug)]
pub struct Rates {
    limits: Limits,
    users: HashMap<u32, Asking>,
}

#[derive(Debug)]
struct Asking {
    clients: u64,
    outstanding: u64,
    /// Requests that may come now, in millionths.
    tokens: u64,
    filled: Instant,
}

const WHOLE: u64 = 1_000_000;

impl Rates {
    /// Nobody asks anything.
    pub fn new(limits: Limits) -> Rates {
        Rates {
            limits,
            users: HashMap::new(),
        }
    }

    /// These limits count from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        let most = limits.user_rate * BURST_SECONDS * WHOLE;
        for asking in self.users.values_mut() {
            asking.tokens = asking.tokens.min(most);
        }
    }

    fn user(&mut self, uid: u32) -> &mut Asking {
        if self.users.len() >= KEPT_MAX {
            self.users.retain(|_, asking| asking.clients > 0);
        }
        let tokens = self.limits.user_rate * BURST_SECONDS * WHOLE;
        self.users.entry(uid).or_insert_with(|| Asking {
            clients: 0,
            outstanding: 0,
            tokens,
            filled: Instant::now(),
        })
    }

    /// A connection of a user; over the limit, why not.
    pub fn connects(&mut self, uid: u32, roles: Roles) -> Result<(), String> {
        let most = self.limits.user_clients;
        let asking = self.user(uid);
        if asking.clients >= most && !roles.may_administer() {
            return Err(format!(
                "limit `user_clients` of {most} connections of user {uid} is reached"
            ));
        }
        asking.clients += 1;
        Ok(())
    }

    /// One of them ended, with so many requests unanswered.
    pub fn leaves(&mut self, uid: u32, outstanding: usize) {
        let asking = self.user(uid);
        asking.clients = asking.clients.saturating_sub(1);
        asking.outstanding = asking.outstanding.saturating_sub(outstanding as u64);
    }

    /// A request of a user; over a limit, why not.
    pub fn asks(&mut self, now: Instant, uid: u32, roles: Roles) -> Result<(), String> {
        let limits = self.limits;
        let asking = self.user(uid);
        if roles.may_administer() {
            asking.outstanding += 1;
            return Ok(());
        }
        let most = limits.user_outstanding;
        if asking.outstanding >= most {
            return Err(format!(
                "limit `user_outstanding` of {most} unanswered requests of user {uid} is reached"
            ));
        }
        let rate = limits.user_rate;
        let passed = now.saturating_duration_since(asking.filled).as_micros();
        // A day fills any bucket.
        let passed = u64::try_from(passed)
            .unwrap_or(u64::MAX)
            .min(86_400 * WHOLE);
        asking.filled = now;
        let full = rate * BURST_SECONDS * WHOLE;
        asking.tokens = asking
            .tokens
            .saturating_add(passed.saturating_mul(rate))
            .min(full);
        if asking.tokens < WHOLE {
            let again = (WHOLE - asking.tokens).div_ceil(rate.max(1) * 1_000);
            return Err(format!(
                "limit `user_rate` of {rate} requests a second of user {uid} is reached; ask again \
                 in {again} ms"
            ));
        }
        asking.tokens -= WHOLE;
        asking.outstanding += 1;
        Ok(())
    }

    /// A request of a user was answered or taken back.
    pub fn answered(&mut self, uid: u32) {
        let asking = self.user(uid);
        asking.outstanding = asking.outstanding.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rates() -> Rates {
        Rates::new(Limits {
            user_clients: 2,
            user_outstanding: 3,
            user_rate: 1,
            ..Limits::default()
        })
    }

    #[test]
    fn who_asks_too_fast_is_told_when_to_come_again_and_others_are_served() {
        let (mut rates, now) = (rates(), Instant::now());
        for _ in 0..5 {
            rates.asks(now, 7, Roles::USER).expect("within the burst");
            rates.answered(7);
        }
        let why = rates.asks(now, 7, Roles::USER).expect_err("over");
        assert!(why.contains("`user_rate` of 1 requests a second"), "{why}");
        assert!(why.ends_with("ask again in 1000 ms"), "{why}");
        rates.asks(now, 8, Roles::USER).expect("another user");
        rates.asks(now, 7, Roles::ADMIN).expect("an admin");
        let later = now + Duration::from_secs(1);
        rates.asks(later, 7, Roles::USER).expect("after a second");
    }

    #[test]
    fn connections_and_unanswered_requests_are_counted_by_user() {
        let (mut rates, now) = (rates(), Instant::now());
        for _ in 0..2 {
            rates.connects(7, Roles::USER).expect("within");
        }
        assert!(rates.connects(7, Roles::USER).is_err());
        assert!(rates.connects(7, Roles::OWNER).is_ok());
        assert!(rates.connects(8, Roles::USER).is_ok());
        for _ in 0..3 {
            rates.asks(now, 7, Roles::USER).expect("within");
        }
        let why = rates.asks(now, 7, Roles::USER).expect_err("over");
        assert!(why.contains("`user_outstanding` of 3"), "{why}");
        rates.leaves(7, 2);
        rates.asks(now, 7, Roles::USER).expect("two are gone");
    }
}
