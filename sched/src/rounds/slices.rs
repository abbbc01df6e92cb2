//! Slices: what is offered is cut by the inverse of each account's priority, and
//! what is left after the slices is drawn for (seed 000, Armada's first scheduler).
//!
//! The formulas are here as functions of numbers, in units of each resource; the
//! pass that deals by them is called by a round. The only randomness is a draw
//! with the seed of the state, which comes back advanced.

use super::limits::Scope;
use super::outcome::Reason;
use super::round::{Bunch, Round};
use crate::amounts::{Amounts, KINDS_MAX, UNIT};
use crate::policy::{Charge, Remainder, Share, SliceBasis};

/// An amount of each kind, in its unit.
pub type Units = [f64; KINDS_MAX];

/// The least usage of an account where the policy does not say (Armada, HTCondor).
const FLOOR: f64 = 0.5;

/// Capacity below which a resource is left out (Armada).
const NOTHING: f64 = 1e-5;

/// What an account claims of what is offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Priority times factor, above 0; lower has more.
    pub effective: f64,
    /// What it has already.
    pub used: Units,
    /// The most it may be given; infinite where nothing limits.
    pub most: Units,
}

/// What an account may be given in this round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Portion {
    /// What is left of its limits.
    pub most: Units,
    /// What is left of its slice; drawn by.
    pub share: Units,
    /// What is left of its slice within its limits.
    pub adjusted: Units,
}

impl Portion {
    /// Takes what was started off the portion. The slice shrinks in the proportion in which it is
    /// larger than what the limits leave of it, so that a limited account is not drawn for more.
    pub fn consume(&mut self, used: &Units) {
        for (at, &used) in used.iter().enumerate() {
            let scale = match self.adjusted[at] > 0.0 {
                true => self.share[at] / self.adjusted[at],
                false => 0.0,
            };
            self.share[at] = (self.share[at] - used * scale).max(0.0);
            self.most[at] = (self.most[at] - used).max(0.0);
            self.adjusted[at] = (self.adjusted[at] - used).max(0.0);
        }
    }
}

/// One number for an amount: each kind times its weight.
pub fn scalar(amount: &Units, weights: &Units) -> f64 {
    amount
        .iter()
        .zip(weights)
        .map(|(amount, weight)| amount * weight)
        .sum()
}

/// Cuts an offer by the inverse of the priorities; the order of the claims is kept.
///
/// With [`SliceBasis::TotalMinusUsed`] everything is cut, what the account has is taken off its
/// part, at least nothing is left, and the parts are scaled to the offer.
pub fn cut(claims: &[Claim], offer: &Units, weights: &Units, basis: SliceBasis) -> Vec<Units> {
    let inverse: Vec<f64> = claims.iter().map(|claim| 1.0 / claim.effective).collect();
    let sum: f64 = inverse.iter().sum();
    let even: Vec<f64> = inverse.iter().map(|inverse| inverse / sum).collect();
    let parts = match basis {
        SliceBasis::Offered => even,
        SliceBasis::TotalMinusUsed => {
            let used: Vec<f64> = claims
                .iter()
                .map(|claim| scalar(&claim.used, weights))
                .collect();
            let all = scalar(offer, weights) + used.iter().sum::<f64>();
            let due: Vec<f64> = even
                .iter()
                .zip(&used)
                .map(|(part, used)| (all * part - used).max(0.0))
                .collect();
            let sum: f64 = due.iter().sum();
            match sum > 0.0 {
                true => due.iter().map(|due| due / sum).collect(),
                // Everybody has what is due, or nothing is offered: as if nobody had anything.
                false => even,
            }
        }
    };
    parts
        .into_iter()
        .map(|part| offer.map(|amount| amount * part))
        .collect()
}

/// Cuts an offer among the claims that may be given anything, within their limits.
pub fn portions(
    claims: &[Claim],
    offer: &Units,
    weights: &Units,
    basis: SliceBasis,
) -> Vec<Portion> {
    let may = |claim: &&Claim| claim.most.iter().any(|most| *most > 0.0);
    let able: Vec<Claim> = claims.iter().filter(may).copied().collect();
    let mut slices = cut(&able, offer, weights, basis).into_iter();
    let portion = |claim: &Claim| {
        let share = match may(&claim) {
            true => slices.next().unwrap_or_default(),
            false => Units::default(),
        };
        Portion {
            most: claim.most,
            share,
            adjusted: std::array::from_fn(|at| share[at].min(claim.most[at])),
        }
    };
    claims.iter().map(portion).collect()
}

/// What an account may still be given of a resource: its part of a round, and what is left of its
/// limit, which a fraction of the total of its own replaces.
pub fn remaining(round: f64, limit: f64, fraction: Option<f64>, total: f64, has: f64) -> f64 {
    let limit = fraction.map_or(limit, |fraction| fraction * total);
    round.min((limit - has).max(0.0))
}

/// The weight of each resource: capacity of the base over capacity of it. The base is the first
/// resource that has capacity; one without is left out.
pub fn scarcity(capacity: &Units) -> Units {
    let base = capacity.iter().copied().find(|&amount| amount >= NOTHING);
    let base = base.unwrap_or(0.0);
    capacity.map(|amount| match amount >= NOTHING {
        true => base / amount,
        false => 0.0,
    })
}

/// Who is served next of these shares: by a draw in their proportion, or the largest. Where
/// nothing is left of any, all are alike. `None` where there is nobody.
pub fn pick(
    shares: &[(usize, f64)],
    remainder: Remainder,
    draw: &mut fastrand::Rng,
) -> Option<usize> {
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    match remainder {
        Remainder::Largest => {
            let first = |best: (usize, f64), next: &(usize, f64)| match next.1 > best.1 {
                true => *next,
                false => best,
            };
            let (head, rest) = shares.split_first()?;
            Some(rest.iter().fold(*head, first).0)
        }
        Remainder::Random if sum > 0.0 => {
            let mut point = draw.f64() * sum;
            let hit = shares.iter().find(|(_, share)| {
                point -= share;
                point < 0.0
            });
            // Rounding may leave the point just beyond the last that has a share.
            let last = || shares.iter().rfind(|(_, share)| *share > 0.0);
            hit.or_else(last).map(|(at, _)| *at)
        }
        Remainder::Random if shares.is_empty() => None,
        Remainder::Random => Some(shares[draw.usize(..shares.len())].0),
    }
}

/// Amounts in units.
pub(crate) fn units(amounts: &Amounts) -> Units {
    std::array::from_fn(|at| amounts[at] as f64 / UNIT as f64)
}

/// What is left to be dealt to an account.
struct Hand {
    line: usize,
    portion: Portion,
    /// Bunches not started yet, the next last.
    open: Vec<Bunch>,
}

/// What became of an attempt to start one bunch of an account.
enum Attempt {
    Started,
    Nothing,
}

impl Round<'_> {
    /// Deals slices, then draws for what is left. The seed comes back advanced.
    pub(super) fn deal(&mut self, basis: SliceBasis, remainder: Remainder) -> u64 {
        let mut draw = fastrand::Rng::with_seed(self.state.seed);
        self.deal_back();
        let weights = self.weights();
        let mut hands = self.hands(&weights, basis);
        for hand in &mut hands {
            self.deal_slice(hand);
        }
        while self.stop.is_none() {
            let shares: Vec<(usize, f64)> = hands
                .iter()
                .enumerate()
                .map(|(at, hand)| (at, scalar(&hand.portion.share, &weights)))
                .collect();
            let Some(at) = pick(&shares, remainder, &mut draw) else {
                break;
            };
            match self.deal_one(&mut hands[at]) {
                Attempt::Started => {}
                // An account in which nothing fits must not stop the others.
                Attempt::Nothing => drop(hands.remove(at)),
            }
        }
        draw.get_seed()
    }

    /// What was put back goes first.
    fn deal_back(&mut self) {
        for line in 0..self.lines.len() {
            for at in 0..self.lines[line].put_back {
                let members = self.members(line, self.lines[line].bunches[at]);
                self.place_back(&members);
            }
        }
    }

    fn members(&self, line: usize, bunch: Bunch) -> Vec<u32> {
        self.lines[line].members[bunch.from as usize..(bunch.from + bunch.len) as usize].to_vec()
    }

    fn weights(&self) -> Units {
        let rules = &self.policy.usage;
        match rules.charge {
            Charge::Scarcity => scarcity(&units(&self.total)),
            Charge::Sum | Charge::MaxOfNode => {
                let mut weights = Units::default();
                for (at, name) in self.state.kinds.names().iter().enumerate() {
                    weights[at] = rules.weights.get(name).copied().unwrap_or(0.0);
                }
                weights
            }
        }
    }

    fn hands(&self, weights: &Units, basis: SliceBasis) -> Vec<Hand> {
        let floor = match self.policy.share.algorithm {
            Share::PriorityFloor { floor } => floor,
            Share::None
            | Share::Classic { .. }
            | Share::Ticket { .. }
            | Share::FairTree
            | Share::ProjectRatio { .. }
            | Share::PbsTree { .. }
            | Share::Drf { .. } => FLOOR,
        };
        let lines: Vec<usize> = (0..self.lines.len())
            .filter(|&line| self.lines[line].bunches.len() > self.lines[line].put_back)
            .collect();
        let claim = |&line: &usize| {
            let line = &self.lines[line];
            let most = line.account.round_most;
            Claim {
                effective: line.account.usage.max(floor).max(f64::MIN_POSITIVE) / line.weight,
                used: units(&line.has),
                most: most.map_or([f64::INFINITY; KINDS_MAX], |most| {
                    std::array::from_fn(|at| match most[at] {
                        i64::MAX => f64::INFINITY,
                        amount => amount as f64 / UNIT as f64,
                    })
                }),
            }
        };
        let claims: Vec<Claim> = lines.iter().map(claim).collect();
        let portions = portions(&claims, &units(&self.offered()), weights, basis);
        let hand = |(line, portion): (usize, Portion)| Hand {
            line,
            portion,
            open: {
                let new = &self.lines[line].bunches[self.lines[line].put_back..];
                let within = |bunch: &&Bunch| {
                    self.policy
                        .queue
                        .lookback
                        .is_none_or(|most| bunch.seen <= most)
                };
                new.iter().filter(within).rev().copied().collect()
            },
        };
        lines.into_iter().zip(portions).map(hand).collect()
    }

    /// What is free on the nodes that take jobs.
    fn offered(&self) -> Amounts {
        (0..self.nodes.len() as u32)
            .filter(|&node| self.grounds.group(node).is_some())
            .fold(Amounts::NONE, |sum, node| {
                sum + self.field.free(node, 0).most(&Amounts::NONE)
            })
    }

    /// Starts what fits the slice, in the order of the account.
    fn deal_slice(&mut self, hand: &mut Hand) {
        let mut later = Vec::new();
        while let Some(bunch) = hand.open.pop() {
            let members = self.members(hand.line, bunch);
            let asks = units(&self.sum(&members));
            let within = asks
                .iter()
                .zip(&hand.portion.adjusted)
                .all(|(asks, slice)| asks <= slice);
            if !within {
                later.push(bunch);
                continue;
            }
            match self.start(hand, &members) {
                Ok(()) => {}
                Err(Scope::Gang) => {}
                Err(Scope::Account | Scope::Round) => break,
            }
        }
        later.reverse();
        hand.open.extend(later);
    }

    /// Starts the first that has room anywhere.
    fn deal_one(&mut self, hand: &mut Hand) -> Attempt {
        while self.stop.is_none() && self.lines[hand.line].stop.is_none() {
            let Some(bunch) = hand.open.pop() else {
                break;
            };
            let members = self.members(hand.line, bunch);
            let asks = units(&self.sum(&members));
            if asks
                .iter()
                .zip(&hand.portion.most)
                .any(|(asks, most)| asks > most)
            {
                for &task in &members {
                    self.reasons[task as usize] = Some(Reason::AccountFull);
                }
            } else if self.start(hand, &members).is_ok() {
                return Attempt::Started;
            }
        }
        Attempt::Nothing
    }

    fn start(&mut self, hand: &mut Hand, members: &[u32]) -> Result<(), Scope> {
        let before = self.lines[hand.line].given;
        if let Some(denial) = self.serve(hand.line, members) {
            return Err(denial.scope);
        }
        let given = self.lines[hand.line].given - before;
        hand.portion.consume(&units(&given));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(amount: f64) -> Units {
        let mut units = Units::default();
        units[0] = amount;
        units
    }

    fn claim(effective: f64, used: f64) -> Claim {
        Claim {
            effective,
            used: only(used),
            most: [f64::INFINITY; KINDS_MAX],
        }
    }

    #[test]
    fn what_an_account_has_counts_unless_only_the_offer_is_cut() {
        let claims = [claim(1.0, 2.0), claim(1.0, 0.0)];
        let total = cut(&claims, &only(6.0), &only(1.0), SliceBasis::TotalMinusUsed);
        assert_eq!((total[0][0], total[1][0]), (2.0, 4.0));
        let offered = cut(&claims, &only(6.0), &only(1.0), SliceBasis::Offered);
        assert_eq!((offered[0][0], offered[1][0]), (3.0, 3.0));
        let by_priority = [claim(1.0, 0.0), claim(2.0, 0.0)];
        let slices = cut(
            &by_priority,
            &only(9.0),
            &only(1.0),
            SliceBasis::TotalMinusUsed,
        );
        assert!((slices[0][0] - 6.0).abs() < 1e-12 && (slices[1][0] - 3.0).abs() < 1e-12);
    }

    #[test]
    fn nobody_divides_by_nothing() {
        assert!(cut(&[], &only(4.0), &only(1.0), SliceBasis::Offered).is_empty());
        let idle = [claim(1.0, 0.0), claim(3.0, 0.0)];
        let slices = cut(&idle, &only(0.0), &only(1.0), SliceBasis::TotalMinusUsed);
        assert_eq!(slices, vec![only(0.0); 2]);
        assert_eq!(scarcity(&Units::default()), Units::default());
    }

    #[test]
    fn draws_follow_the_shares() {
        let shares = [(0, 3.0), (1, 0.0), (2, 1.0)];
        let mut hits = [0_u32; 3];
        for seed in 0..10_000 {
            let mut draw = fastrand::Rng::with_seed(seed);
            if let Some(at) = pick(&shares, Remainder::Random, &mut draw) {
                hits[at] += 1;
            }
        }
        // Three standard deviations of 10,000 draws of 3/4.
        let sigma = (10_000.0_f64 * 0.75 * 0.25).sqrt();
        assert_eq!(hits[1], 0);
        assert!(
            (f64::from(hits[0]) - 7500.0).abs() < 3.0 * sigma,
            "{hits:?}"
        );
        let mut draw = fastrand::Rng::with_seed(1);
        assert_eq!(pick(&shares, Remainder::Largest, &mut draw), Some(0));
        assert_eq!(pick(&[], Remainder::Random, &mut draw), None);
        let none = [(4, 0.0), (5, 0.0)];
        assert!(matches!(
            pick(&none, Remainder::Random, &mut draw),
            Some(4 | 5)
        ));
    }
}
