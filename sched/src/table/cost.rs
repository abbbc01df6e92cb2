//! The account that would cost least with its next job is next.
//!
//! A heap of one seat for each account; only the account that was served costs
//! more afterwards, so only its seat changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;
use std::sync::Arc;

use eddy_wire::time::Time;

use super::{Entry, Next, Offered, Stuck, Table, Verdicts, weight};
use crate::amounts::Amounts;
use crate::occupancy::Occupancy;
use crate::policy::Preference;
use crate::rounds::{self, TurnKey, costs};
use crate::share::adjusted::{Wanting, adjusted_fair_shares};
use crate::share::drf::Costs;
use crate::turns::Turn;

/// An account and its next job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seat {
    key: TurnKey,
    pub account: String,
    pub turn: Turn,
}

/// A round by cost.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    pub scale: Scale,
    seats: BinaryHeap<Reverse<Seat>>,
    /// Who was served; what it holds now counts.
    served: Option<(String, Turn)>,
    seen: BTreeMap<String, u32>,
}

/// What accounts cost.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    costs: Option<Costs>,
    large: Preference,
    /// What each account may cost, where that counts.
    budgets: BTreeMap<String, f64>,
    weights: Arc<BTreeMap<String, f64>>,
}

impl Scale {
    /// What having so much costs an account.
    pub fn cost(&self, account: &str, has: &Amounts) -> f64 {
        self.plain(has) / weight(&self.weights, account)
    }

    fn plain(&self, has: &Amounts) -> f64 {
        self.costs.map_or(0.0, |costs| costs.cost(has))
    }

    /// The turn of an account that has this with a job.
    pub fn key(&self, account: &str, has: &Amounts, entry: &Entry) -> TurnKey {
        let turn = rounds::Turn {
            class: entry.class,
            proposed: self.cost(account, &(*has + entry.asks)),
            current: self.cost(account, has),
            budget: self.budgets.get(account).copied().unwrap_or(0.0),
            size: self.plain(&entry.asks) * weight(&self.weights, account),
        };
        turn.key(self.large)
    }
}

impl Table {
    /// A round by cost begins: all accounts with their first jobs.
    pub(super) fn cost(&self, room: &Occupancy, stuck: &Stuck) -> Cost {
        let mut cost = Cost {
            scale: self.scale(room),
            seats: BinaryHeap::new(),
            served: None,
            seen: BTreeMap::new(),
        };
        for account in self.lines.keys() {
            self.seat(&mut cost, room, account, None, stuck);
        }
        cost
    }

    pub(super) fn scale(&self, room: &Occupancy) -> Scale {
        let books = room.accounts();
        let resources = self.rules.resources.clone();
        let mut scale = Scale {
            costs: costs(*books.total(), books.kinds(), resources),
            large: self.rules.large,
            budgets: BTreeMap::new(),
            weights: Arc::clone(&self.weights),
        };
        if scale.large == Preference::On {
            scale.budgets = self.budgets(&scale, room);
        }
        scale
    }

    fn budgets(&self, scale: &Scale, room: &Occupancy) -> BTreeMap<String, f64> {
        let books = room.accounts();
        let waiting = self.lines.keys().map(String::as_str);
        let all: BTreeSet<&str> = waiting.chain(books.holders()).collect();
        let wanting = all.iter().map(|account| {
            let asked = self.lines.get(*account).map(|line| line.asked);
            let demand = books.has(account) + asked.unwrap_or(Amounts::NONE);
            Wanting {
                weight: self.weight(account),
                demand: scale.plain(&demand),
            }
        });
        let dues = adjusted_fair_shares(&wanting.collect::<Vec<_>>());
        let due = all.iter().zip(dues);
        due.map(|(account, due)| ((*account).to_owned(), due.capped / self.weight(account)))
            .collect()
    }

    /// Seats an account with its first job behind a turn that may fit.
    fn seat(
        &self,
        cost: &mut Cost,
        room: &Occupancy,
        account: &str,
        after: Option<&Turn>,
        stuck: &Stuck,
    ) {
        let seen = cost.seen.get(account).copied().unwrap_or(0);
        let Some((turn, entry)) = self.behind(account, (after, seen), stuck) else {
            return;
        };
        let has = room.accounts().has(account);
        let key = cost.scale.key(account, &has, entry);
        // Who does not fit is passed in his turn: before it others may be next.
        let passed = self.between(account, after, turn);
        let passed = passed.map(|entry| cost.scale.key(account, &has, entry));
        cost.seats.push(Reverse(Seat {
            key: passed.fold(key, TurnKey::max),
            account: account.to_owned(),
            turn: *turn,
        }));
    }

    /// Those of an account behind one turn and before another.
    fn between<'t>(
        &'t self,
        account: &str,
        after: Option<&Turn>,
        before: &Turn,
    ) -> impl Iterator<Item = &'t Entry> {
        let from = after.map_or(Bound::Unbounded, |turn| Bound::Excluded(*turn));
        let range = (from, Bound::Excluded(*before));
        let line = self.lines.get(account).into_iter();
        line.flat_map(move |line| line.jobs.range(range).map(|(_, entry)| entry))
    }

    /// Looks at the next account's next job.
    pub(super) fn cost_step(
        &mut self,
        cost: &mut Cost,
        stuck: &mut Stuck,
        room: &mut Occupancy,
        now: Time,
        out: &mut Verdicts,
    ) -> Next {
        if let Some((account, turn)) = cost.served.take() {
            self.seat(cost, room, &account, Some(&turn), stuck);
        }
        let Some(Reverse(Seat { account, turn, .. })) = cost.seats.pop() else {
            return Next::Done;
        };
        let seen = cost.seen.get(&account).copied().unwrap_or(0);
        if self.is_beyond(&account, seen) {
            return Next::More;
        }
        let offered = self.offer((&account, &turn), stuck, room, now, out);
        if !matches!(offered, Offered::Never) {
            cost.seen.insert(account.clone(), seen + 1);
        }
        match offered {
            Offered::Started => {
                cost.served = Some((account, turn));
                return Next::Started;
            }
            Offered::No | Offered::Never => {
                self.seat(cost, room, &account, Some(&turn), stuck);
            }
            Offered::Account => {}
            Offered::All => return Next::Done,
        }
        Next::More
    }
}
