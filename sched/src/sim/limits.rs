//! What a policy lets start, where one queue is walked: rates of all and of each
//! account, how much a pass starts, how much an account has.
//!
//! A [`Limited`] room stands between a walk and the room it gives out: it denies
//! what a limit is in the way of, and has seen to it that what is reserved for an
//! account counts as had. The replay says what started. Knows no turns.

use std::collections::BTreeMap;

use eddy_wire::time::{Span, Time};

use super::machine::Machine;
use super::workload::{SimJob, Workload};
use crate::policy::{Limits, Policy, Rate};
use crate::rounds::Bucket;
use crate::rounds::limits::Tokens;
use crate::walk::{Blocked, Ceiling, Room};

/// Amounts of a trace are processors, by this name in limits.
const CORES: &str = "cores";

/// After so long there is another pass where one has started all that it may.
const AGAIN: Span = Span::seconds(1);

/// Whose a job is, and how much of what limits are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    owner: u32,
    /// A place in the classes of the limits; `None` is one that no limit is about.
    class: Option<u32>,
    procs: u64,
}

/// What a job asks of a limited room.
pub(super) struct Asked<N> {
    pub(super) need: N,
    pub(super) claim: Claim,
}

/// Where a job goes in a limited room.
#[derive(Clone)]
pub(super) struct Granted<S> {
    pub(super) spot: S,
    pub(super) claim: Claim,
}

/// A room in which not all that would fit may start.
pub(super) struct Limited<R> {
    room: R,
    /// `None` where everything may.
    bounds: Option<Bounds>,
}

/// Limits and what is left of them.
struct Bounds {
    rate: Option<Pail>,
    account_rate: Option<Rate>,
    /// By owner.
    accounts: BTreeMap<u32, Pail>,
    /// A pass that has started more starts nothing more.
    pass_most: u64,
    started: u64,
    /// What an account may have, by class.
    most: Vec<u64>,
    /// What runs and what is reserved, by owner and class.
    has: BTreeMap<(u32, u32), u64>,
    now: Time,
    /// When a limit that was in the way is not any more.
    again: Option<Time>,
}

/// A rate and its bucket.
#[derive(Clone, Copy, Debug)]
struct Pail {
    rate: Rate,
    bucket: Option<Bucket>,
}

impl Pail {
    fn new(rate: Rate) -> Pail {
        let bucket = None;
        Pail { rate, bucket }
    }

    /// Whether one may start.
    ///
    /// # Errors
    /// From when on it may.
    fn admits(&self, now: Time) -> Result<(), Time> {
        let tokens = Tokens::new(self.rate, self.bucket, now);
        match tokens.spent() {
            true => Err(now.after(tokens.until_one(self.rate))),
            false => Ok(()),
        }
    }

    fn charge(&mut self, now: Time) {
        let mut tokens = Tokens::new(self.rate, self.bucket, now);
        tokens.charge(1);
        self.bucket = Some(tokens.bucket(now));
    }
}

/// Places of classes that limits are about.
fn classes(limits: &Limits) -> impl Iterator<Item = (&String, f64)> {
    let fractions = limits.account_fraction.iter();
    fractions.filter_map(|(class, fractions)| Some((class, *fractions.get(CORES)?)))
}

/// What the limits say of each job of a workload.
pub(super) fn claims<'w>(
    policy: &Policy,
    workload: &'w Workload,
) -> impl Fn(&SimJob) -> Claim + use<'w> {
    let names: Vec<String> = classes(&policy.queue.limits)
        .map(|(name, _)| name.clone())
        .collect();
    let default = policy.placement.default_class.clone();
    let class = |name: &String| names.iter().position(|known| known == name);
    let place = |name: &String| class(name).map(|at| at as u32);
    let by_terms = workload.terms.iter();
    let known = |class: &&String| policy.placement.classes.contains_key(*class);
    let by_terms = by_terms.map(|terms| {
        let class = terms.class.as_ref().filter(known);
        place(class.unwrap_or(&default))
    });
    let by_terms: Vec<Option<u32>> = by_terms.collect();
    let default = place(&default);
    move |job| Claim {
        owner: job.owner,
        class: by_terms.get(job.terms as usize).copied().unwrap_or(default),
        procs: job.procs,
    }
}

impl<R: Room> Limited<R> {
    /// The limits of a policy over a room of a machine.
    pub(super) fn new(room: R, policy: &Policy, machine: &Machine) -> Limited<R> {
        let limits = &policy.queue.limits;
        let all = machine.procs() as f64;
        // A cast of what is too large gives the largest.
        let part = |fraction: f64| (all * fraction).round() as u64;
        let bounds = (*limits != Limits::default()).then(|| Bounds {
            rate: limits.rate.map(Pail::new),
            account_rate: limits.account_rate,
            accounts: BTreeMap::new(),
            pass_most: limits
                .pass_fraction
                .get(CORES)
                .map_or(u64::MAX, |fraction| part(*fraction)),
            started: 0,
            most: classes(limits)
                .map(|(_, fraction)| part(fraction))
                .collect(),
            has: BTreeMap::new(),
            now: Time(i64::MIN),
            again: None,
        });
        Limited { room, bounds }
    }

    /// Whether a job could start if everything were free and nothing had been started: one that
    /// cannot is kept out of the queue.
    pub(super) fn can_ever(&mut self, asked: &Asked<R::Need>, now: Time, span: Span) -> bool {
        let bounds = self.bounds.as_ref();
        let allowed = bounds.is_none_or(|bounds| asked.claim.procs <= bounds.most(asked.claim));
        allowed && !matches!(self.room.fit(&asked.need, now, span), Err(Blocked::Never))
    }

    /// Whether anything is limited.
    pub(super) fn is_limited(&self) -> bool {
        self.bounds.is_some()
    }

    /// A pass begins.
    pub(super) fn begin(&mut self, now: Time) {
        if let Some(bounds) = &mut self.bounds {
            bounds.now = now;
            bounds.started = 0;
            bounds.again = None;
        }
    }

    /// When there is to be a pass though nothing happens: a limit was in the way until then.
    pub(super) fn again(&self) -> Option<Time> {
        self.bounds.as_ref().and_then(|bounds| bounds.again)
    }

    /// One is to start: counted, unless what was started since it was planned used up the limits.
    pub(super) fn start(&mut self, claim: Claim) -> Result<(), Blocked> {
        match &mut self.bounds {
            Some(bounds) => bounds.start(claim),
            None => Ok(()),
        }
    }

    /// One ended when it was said to, and its spot is free.
    pub(super) fn over(&mut self, claim: Claim) {
        if let Some(bounds) = &mut self.bounds {
            bounds.count(claim, |has| has.saturating_sub(claim.procs));
        }
    }
}

impl Bounds {
    fn start(&mut self, claim: Claim) -> Result<(), Blocked> {
        self.may_start(claim.owner)?;
        if let Some(pail) = &mut self.rate {
            pail.charge(self.now);
        }
        if let Some(rate) = self.account_rate {
            let pail = self.accounts.entry(claim.owner);
            pail.or_insert_with(|| Pail::new(rate)).charge(self.now);
        }
        self.started = self.started.saturating_add(claim.procs);
        Ok(())
    }

    /// Rates and the pass, which are the same for a job that has a reservation.
    fn may_start(&mut self, owner: u32) -> Result<(), Blocked> {
        let rate = self.rate.as_ref();
        let mut again = rate.map_or(Ok(()), |pail| pail.admits(self.now));
        if let (Ok(()), Some(pail)) = (again, self.accounts.get(&owner)) {
            again = pail.admits(self.now);
        }
        if again.is_ok() && self.started > self.pass_most {
            again = Err(self.now.after(AGAIN));
        }
        again.map_err(|at| {
            self.again = Some(self.again.map_or(at, |before| before.min(at)));
            Blocked::Busy {
                what: "starts",
                asked: 1,
                free: 0,
            }
        })
    }

    /// All limits, for one that has nothing reserved.
    fn admits(&mut self, claim: Claim) -> Result<(), Blocked> {
        if let Some(class) = claim.class {
            let most = self.most(claim);
            let has = self.has.get(&(claim.owner, class)).copied().unwrap_or(0);
            if has.saturating_add(claim.procs) > most {
                return Err(Blocked::Busy {
                    what: "cores of its account",
                    asked: claim.procs,
                    free: most.saturating_sub(has),
                });
            }
        }
        self.may_start(claim.owner)
    }

    /// What an account may have of the class.
    fn most(&self, claim: Claim) -> u64 {
        let most = claim.class.and_then(|class| self.most.get(class as usize));
        most.copied().unwrap_or(u64::MAX)
    }

    fn count(&mut self, claim: Claim, change: impl FnOnce(u64) -> u64) {
        if let Some(class) = claim.class {
            let has = self.has.entry((claim.owner, class)).or_insert(0);
            *has = change(*has);
        }
    }
}

impl<R: Room> Room for Limited<R> {
    type Need = Asked<R::Need>;
    type Spot = Granted<R::Spot>;

    fn least(&self, need: &Self::Need) -> u64 {
        self.room.least(&need.need)
    }

    fn ceiling(&mut self, now: Time, ceiling: &mut Ceiling) {
        self.room.ceiling(now, ceiling);
    }

    fn fit(&mut self, need: &Self::Need, now: Time, span: Span) -> Result<Self::Spot, Blocked> {
        let claim = need.claim;
        if let Some(bounds) = &mut self.bounds {
            bounds.admits(claim)?;
        }
        let spot = self.room.fit(&need.need, now, span)?;
        Ok(Granted { spot, claim })
    }

    /// Nothing is reserved for one that a limit is in the way of: nobody knows for when.
    fn earliest(
        &mut self,
        need: &Self::Need,
        from: Time,
        span: Span,
    ) -> Result<(Time, Self::Spot), Blocked> {
        let claim = need.claim;
        if let Some(bounds) = &mut self.bounds {
            bounds.admits(claim)?;
        }
        let (at, spot) = self.room.earliest(&need.need, from, span)?;
        Ok((at, Granted { spot, claim }))
    }

    fn sooner(
        &mut self,
        need: &Self::Need,
        from: Time,
        (old, at): (&Self::Spot, Time),
        span: Span,
    ) -> Option<(Time, Self::Spot)> {
        let old = (&old.spot, at);
        let (at, spot) = self.room.sooner(&need.need, from, old, span)?;
        let claim = need.claim;
        Some((at, Granted { spot, claim }))
    }

    fn at_once(
        &mut self,
        need: &Self::Need,
        now: Time,
        (old, at): (&Self::Spot, Time),
        span: Span,
    ) -> Option<Self::Spot> {
        let claim = need.claim;
        if let Some(bounds) = &mut self.bounds {
            bounds.may_start(claim.owner).ok()?;
        }
        let spot = self.room.at_once(&need.need, now, (&old.spot, at), span)?;
        Some(Granted { spot, claim })
    }

    fn take(&mut self, spot: &Self::Spot, from: Time, span: Span) {
        let claim = spot.claim;
        if let Some(bounds) = &mut self.bounds {
            bounds.count(claim, |has| has.saturating_add(claim.procs));
        }
        self.room.take(&spot.spot, from, span);
    }

    fn give(&mut self, spot: &Self::Spot, from: Time, span: Span) {
        self.over(spot.claim);
        self.room.give(&spot.spot, from, span);
    }

    fn forget(&mut self, before: Time) {
        self.room.forget(before);
    }
}

#[cfg(test)]
mod tests;
