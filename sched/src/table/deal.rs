//! Slices by share first, then a draw among the accounts for what is left.
//!
//! The formulas are those of [`crate::rounds::slices`]; here they are walked in
//! steps. The draw goes on where that of the round before ended.

use std::collections::{BTreeMap, VecDeque};

use eddy_wire::time::Time;

use super::{Entry, Next, Offered, Stuck, Table, Verdicts};
use crate::accounts::amounts;
use crate::amounts::{Amounts, KINDS_MAX};
use crate::occupancy::Occupancy;
use crate::policy::{Remainder, SliceBasis, Walk};
use crate::rooms::Room;
use crate::rounds::slices::{Claim, Portion, Units, pick, portions, scalar, scarcity, units};
use crate::turns::{Turn, Turns};

/// A round by slices.
#[derive(Clone, Debug)]
pub(super) struct Deal {
    draw: fastrand::Rng,
    remainder: Remainder,
    weights: Units,
    hands: Vec<Hand>,
    /// Places of those who may still be drawn, and what each is due.
    shares: Vec<(usize, f64)>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// This account gets what fits its slice.
    Slice(usize),
    /// Nobody is drawn yet.
    Draw,
    /// The first of this account with room anywhere starts.
    Drawn(usize),
}

/// What is left to be dealt to an account.
#[derive(Clone, Debug)]
struct Hand {
    account: String,
    portion: Portion,
    /// Looked at up to here.
    after: Option<Turn>,
    seen: u32,
    /// Larger than the slice; those that are drawn for, the next first.
    later: VecDeque<Turn>,
}

impl Deal {
    /// Where the next draw begins.
    pub fn seed(&self) -> u64 {
        self.draw.get_seed()
    }

    /// Slices are dealt: all are drawn for what is left.
    fn draw_all(&mut self) {
        let share = |hand: &Hand| scalar(&hand.portion.share, &self.weights);
        self.shares = self.hands.iter().map(share).enumerate().collect();
        self.stage = Stage::Draw;
    }
}

impl Table {
    pub(super) fn deal(
        &self,
        room: &Occupancy,
        turns: &Turns,
        basis: SliceBasis,
        remainder: Remainder,
        now: Time,
    ) -> Deal {
        let books = room.accounts();
        let weights = self.weights(room);
        let used = turns.used_by_accounts(now);
        let claim = |account: &String| Claim {
            effective: self.effective(account, &used),
            used: units(&books.has(account)),
            most: [f64::INFINITY; KINDS_MAX],
        };
        let claims: Vec<Claim> = self.lines.keys().map(claim).collect();
        let portions = portions(&claims, &units(&offered(room)), &weights, basis);
        let hand = |(account, portion): (&String, Portion)| Hand {
            account: account.clone(),
            portion,
            after: None,
            seen: 0,
            later: VecDeque::new(),
        };
        Deal {
            draw: fastrand::Rng::with_seed(self.seed),
            remainder,
            weights,
            hands: self.lines.keys().zip(portions).map(hand).collect(),
            shares: Vec::new(),
            stage: Stage::Slice(0),
        }
    }

    /// What an account is behind by: lower has more.
    pub(super) fn effective(&self, account: &str, used: &BTreeMap<String, f64>) -> f64 {
        let usage = used.get(account).copied().unwrap_or(0.0);
        usage.max(self.rules.floor).max(f64::MIN_POSITIVE) / self.weight(account)
    }

    pub(super) fn weights(&self, room: &Occupancy) -> Units {
        let books = room.accounts();
        if self.rules.is_by_scarcity() {
            return scarcity(&units(books.total()));
        }
        let mut weights = Units::default();
        for (at, name) in books.kinds().names().iter().enumerate() {
            let weight = self.rules.policy.usage.weights.get(name);
            weights[at] = weight.copied().unwrap_or(0.0);
        }
        weights
    }

    /// Looks at one job.
    pub(super) fn deal_step(
        &mut self,
        deal: &mut Deal,
        stuck: &mut Stuck,
        room: &mut Occupancy,
        now: Time,
        out: &mut Verdicts,
    ) -> Next {
        match deal.stage {
            Stage::Slice(at) => match deal.hands.get_mut(at) {
                Some(hand) => match self.slice_step(hand, stuck, room, now, out) {
                    Next::Done => {
                        deal.stage = Stage::Slice(at + 1);
                        Next::More
                    }
                    next => next,
                },
                None => {
                    deal.draw_all();
                    Next::More
                }
            },
            Stage::Draw if self.stop.is_some() => Next::Done,
            Stage::Draw => match pick(&deal.shares, deal.remainder, &mut deal.draw) {
                Some(at) => {
                    deal.stage = Stage::Drawn(at);
                    Next::More
                }
                None => Next::Done,
            },
            Stage::Drawn(at) => {
                let next = self.drawn_step(&mut deal.hands[at], stuck, room, now, out);
                match next {
                    Next::Started => {
                        // What it is due is less by what it was given.
                        let share = scalar(&deal.hands[at].portion.share, &deal.weights);
                        let known = deal.shares.iter_mut().find(|(of, _)| *of == at);
                        known.into_iter().for_each(|(_, known)| *known = share);
                        deal.stage = Stage::Draw;
                    }
                    Next::More => {}
                    Next::Done => {
                        // An account in which nothing fits must not stop the others.
                        deal.shares.retain(|(of, _)| *of != at);
                        deal.stage = Stage::Draw;
                        return Next::More;
                    }
                }
                next
            }
        }
    }

    /// The next job of an account, if it fits what is left of its slice.
    fn slice_step(
        &mut self,
        hand: &mut Hand,
        stuck: &mut Stuck,
        room: &mut Occupancy,
        now: Time,
        out: &mut Verdicts,
    ) -> Next {
        let most = self.rules.policy.queue.lookback;
        if most.is_some_and(|most| hand.seen >= most) {
            return Next::Done;
        }
        let after = (hand.after.as_ref(), hand.seen);
        let Some((turn, entry)) = self.behind(&hand.account, after, stuck) else {
            return Next::Done;
        };
        let (turn, asks) = (*turn, units(&entry.asks));
        hand.after = Some(turn);
        hand.seen += 1;
        let mut both = asks.iter().zip(&hand.portion.adjusted);
        if !both.all(|(asks, slice)| asks <= slice) {
            hand.later.push_back(turn);
            return Next::More;
        }
        match self.offer((&hand.account, &turn), stuck, room, now, out) {
            Offered::Started => {
                hand.portion.consume(&asks);
                Next::Started
            }
            Offered::Never => {
                hand.seen -= 1;
                Next::More
            }
            Offered::No => Next::More,
            Offered::Account | Offered::All => Next::Done,
        }
    }

    /// The next job of an account that was drawn, wherever there is room.
    fn drawn_step(
        &mut self,
        hand: &mut Hand,
        stuck: &mut Stuck,
        room: &mut Occupancy,
        now: Time,
        out: &mut Verdicts,
    ) -> Next {
        if self.stop.is_some() || self.stops.contains_key(&hand.account) {
            return Next::Done;
        }
        let line = self.lines.get(&hand.account);
        let waits = |turn: &Turn| line.and_then(|line| line.jobs.get(turn));
        let is_first = self.rules.policy.queue.walk == Walk::Stop;
        let may_fit =
            |entry: &Entry| is_first || entry.shape.is_none_or(|shape| !stuck.contains(&shape));
        // Those that fit nowhere are no draw for anybody.
        let next = loop {
            let Some(turn) = hand.later.pop_front() else {
                return Next::Done;
            };
            if let Some(entry) = waits(&turn).filter(|entry| may_fit(entry)) {
                break (turn, entry);
            }
        };
        let (turn, entry) = next;
        let asks = units(&entry.asks);
        match self.offer((&hand.account, &turn), stuck, room, now, out) {
            Offered::Started => {
                hand.portion.consume(&asks);
                Next::Started
            }
            Offered::No | Offered::Never => Next::More,
            Offered::Account | Offered::All => Next::Done,
        }
    }
}

/// What is free on the nodes that take jobs.
fn offered(room: &Occupancy) -> Amounts {
    let inventory = room.inventory();
    let serving = (0..inventory.len()).filter(|at| inventory.is_serving(*at));
    serving.fold(Amounts::NONE, |sum, at| {
        let mut free = inventory.free().room(at);
        if free.memory == Room::NO_LIMIT {
            free.memory = 0;
        }
        sum + amounts(&free)
    })
}
