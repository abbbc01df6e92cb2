//! The order in which accounts would be served, and what keeps one waiting: for who
//! asks.
//!
//! The order is that in which all would start were there room for all. It changes
//! nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use eddy_wire::plan::{Owner, Term};
use eddy_wire::time::Time;

use super::cost::Scale;
use super::{Entry, Halt, Table, Taking};
use crate::accounts::account_of;
use crate::amounts::Amounts;
use crate::occupancy::{Ask, Occupancy};
use crate::policy::Preference;
use crate::rounds::slices::{scalar, units};
use crate::rounds::{self, TurnKey};
use crate::turns::{Turn, Turns};

/// By what accounts are compared.
enum Measure {
    Cost(Scale),
    /// What each is behind by, and what resources weigh.
    Slices(BTreeMap<String, f64>, rounds::slices::Units),
}

impl Measure {
    fn key(&self, account: &str, has: &Amounts, entry: &Entry) -> TurnKey {
        match self {
            Measure::Cost(scale) => scale.key(account, has, entry),
            Measure::Slices(effective, weights) => {
                let effective = effective.get(account).copied().unwrap_or(1.0);
                let proposed = scalar(&units(&(*has + entry.asks)), weights) * effective;
                let turn = rounds::Turn {
                    class: 0,
                    proposed,
                    current: 0.0,
                    budget: 0.0,
                    size: 0.0,
                };
                turn.key(Preference::Off)
            }
        }
    }
}

impl Table {
    fn measure(&self, room: &Occupancy, turns: &Turns, now: Time) -> Measure {
        match self.rules.turns {
            Taking::ByCost => Measure::Cost(self.scale(room)),
            Taking::BySlices(..) => {
                let used = turns.used_by_accounts(now);
                let effective =
                    |account: &String| (account.clone(), self.effective(account, &used));
                let all = self.lines.keys().map(effective).collect();
                Measure::Slices(all, self.weights(room))
            }
        }
    }

    /// Who is first.
    pub fn first(&self, room: &Occupancy, turns: &Turns, now: Time) -> Option<Turn> {
        let measure = self.measure(room, turns, now);
        let firsts = self.lines.iter().filter_map(|(account, line)| {
            let (turn, entry) = line.jobs.iter().next()?;
            let key = measure.key(account, &room.accounts().has(account), entry);
            Some((key, account, *turn))
        });
        firsts.min().map(|(_, _, turn)| turn)
    }

    /// All who wait, in order.
    pub fn order(&self, room: &Occupancy, turns: &Turns, now: Time) -> Vec<Turn> {
        let measure = self.measure(room, turns, now);
        let mut lines = Vec::new();
        let mut seats = BinaryHeap::new();
        for (account, line) in &self.lines {
            let has = room.accounts().has(account);
            let mut jobs = line.jobs.iter().peekable();
            if let Some((_, entry)) = jobs.peek() {
                seats.push(Reverse((measure.key(account, &has, entry), lines.len())));
            }
            lines.push((account, has, jobs));
        }
        let mut order = Vec::new();
        while let Some(Reverse((_, at))) = seats.pop() {
            let (account, has, jobs) = &mut lines[at];
            if let Some((turn, entry)) = jobs.next() {
                order.push(*turn);
                *has += entry.asks;
            }
            if let Some((_, entry)) = jobs.peek() {
                seats.push(Reverse((measure.key(account, has, entry), at)));
            }
        }
        order
    }

    /// What each account asks for altogether.
    pub fn asked(&self) -> impl Iterator<Item = (&str, Amounts)> {
        let lines = self.lines.iter();
        lines.map(|(account, line)| (account.as_str(), line.asked))
    }

    /// So many of each account, the first, with the place of each in it.
    pub fn firsts(&self, per: usize) -> impl Iterator<Item = (Turn, &Arc<Ask>, i64)> {
        self.lines.values().flat_map(move |line| {
            let jobs = line.jobs.iter().take(per).zip(0..);
            jobs.map(|((turn, entry), place)| (*turn, &entry.ask, place))
        })
    }

    /// What kept a job from being looked at in the last round.
    pub fn halt(&self, turn: &Turn, owner: &Owner) -> Option<Halt> {
        let of_account = self.stops.get(&account_of(owner)).copied();
        let halt = self.stop.or(of_account)?;
        match halt {
            Halt::Behind(job) if job == turn.job => None,
            Halt::Behind(_) | Halt::Lookback(_) | Halt::Limit(_) => Some(halt),
        }
    }

    /// What the turn of a job's account comes from; less is earlier, so that all is below 0.
    pub fn terms(
        &self,
        turn: &Turn,
        owner: &Owner,
        room: &Occupancy,
        turns: &Turns,
        now: Time,
    ) -> Vec<Term> {
        let account = account_of(owner);
        let term = |name: &str, factor: f64| Term {
            name: name.to_owned(),
            factor,
            weight: -1.0,
            contribution: -factor,
        };
        let line = self.lines.get(&account);
        let Some(entry) = line.and_then(|line| line.jobs.get(turn)) else {
            return Vec::new();
        };
        match self.rules.turns {
            Taking::ByCost => {
                let scale = self.scale(room);
                let has = room.accounts().has(&account);
                let held = scale.cost(&account, &has);
                let with = scale.cost(&account, &(has + entry.asks));
                vec![term("held", held), term("asked", with - held)]
            }
            Taking::BySlices(..) => {
                let used = turns.used_by_accounts(now);
                vec![term("usage", self.effective(&account, &used))]
            }
        }
    }
}
