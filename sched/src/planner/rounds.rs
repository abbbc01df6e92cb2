//! Where accounts take turns: the rounds of the table, and why somebody waits there.
//!
//! Called by the planner in the place of the walk. A round goes on from call to call,
//! at its own time; what comes meanwhile is looked at by the next.

use eddy_wire::plan::{Breakdown, Outcome, Reason};
use eddy_wire::time::{Span, Time};

use super::{LOOKS, Pass, Planner};
use crate::accounts::{Stop, account_of};
use crate::table::{Halt, Next};
use crate::turns::Turn;

impl Planner {
    /// Rounds until all that can be decided is, or so many verdicts are given.
    pub(super) fn rounds(&mut self, now: Time, steps: u32, outcome: &mut Outcome) {
        let mut found = Vec::new();
        let mut looks = LOOKS * u64::from(steps.max(1));
        loop {
            if outcome.verdicts.len() as u64 >= u64::from(steps) || looks == 0 {
                outcome.unfinished = true;
                return;
            }
            self.begin_pass(now);
            let Some(table) = &mut self.table else {
                return;
            };
            let (room, turns) = (&mut self.occupancy, &self.turns);
            let next = table.round(room, turns, now, &mut looks, &mut found);
            for verdict in found.drain(..) {
                self.take(verdict, outcome);
            }
            if next == Next::Done {
                match std::mem::replace(&mut self.pass, Pass::Over) {
                    Pass::Over | Pass::Current => return,
                    Pass::Stale => {}
                }
            }
        }
    }

    /// All who wait for resources in the order of their turn, with how many are ahead.
    pub(super) fn turns(&self, now: Time) -> Vec<(u64, Turn)> {
        let turns = match &self.table {
            Some(table) => {
                let mut turns: Vec<Turn> = self.out_of_line().collect();
                turns.extend(table.order(&self.occupancy, &self.turns, now));
                turns
            }
            None => {
                let mut turns: Vec<Turn> = self.rows.turns().collect();
                turns.sort_unstable();
                turns
            }
        };
        (0..).zip(turns).collect()
    }

    /// Who is first of all who wait for resources.
    pub(super) fn first(&self, now: Time) -> Option<Turn> {
        let claimed = self.out_of_line().min();
        match &self.table {
            Some(table) => claimed.or_else(|| table.first(&self.occupancy, &self.turns, now)),
            None => self
                .agenda
                .first()
                .copied()
                .into_iter()
                .chain(claimed)
                .min(),
        }
    }

    /// What its turn comes from: its account's, where accounts take turns.
    pub(super) fn breakdown(&self, turn: Turn, now: Time) -> Breakdown {
        let want = &self.waiting[&turn.job].want;
        let Some(table) = &self.table else {
            return self.turns.breakdown(want, now);
        };
        let terms = table.terms(&turn, &want.owner, &self.occupancy, &self.turns, now);
        Breakdown {
            policy: self.policy.preset.clone(),
            value: terms.iter().map(|term| term.contribution).sum(),
            terms,
        }
    }

    /// The limit, or the rule of accounts, that holds back a job for which there is room.
    pub(super) fn held_back(&self, turn: Turn, now: Time) -> Option<Reason> {
        let want = &self.waiting[&turn.job].want;
        let halt = self
            .table
            .as_ref()
            .and_then(|table| table.halt(&turn, &want.owner));
        let (ask, _) = self.ask_of(turn.job);
        let halt = halt.or_else(|| self.occupancy.limit(&ask).map(Halt::Limit))?;
        let account = account_of(&want.owner);
        let within = |at: Time| Some(Span((at - now).0.max(0)));
        let (limit, why, within) = match halt {
            Halt::Limit(Stop::Pass) => (
                "queue.limits.pass_fraction",
                "a pass has started as much as it may".to_owned(),
                None,
            ),
            Halt::Limit(Stop::Rate(at)) => (
                "queue.limits.rate",
                "as many were started as may be".to_owned(),
                within(at),
            ),
            Halt::Limit(Stop::AccountRate(at)) => (
                "queue.limits.account_rate",
                format!("account {account} started as many as it may"),
                within(at),
            ),
            Halt::Limit(Stop::Fraction) => (
                "queue.limits.account_fraction",
                format!("account {account} would hold more than its part"),
                None,
            ),
            Halt::Lookback(most) => (
                "queue.lookback",
                format!("{most} of account {account} are looked at in a round"),
                None,
            ),
            Halt::Behind(job) => {
                return Some(Reason::Behind {
                    head: job,
                    why: format!("is ahead of it in account {account} and has no room"),
                });
            }
        };
        Some(Reason::Limit {
            limit: limit.to_owned(),
            why,
            within,
        })
    }
}
