//! Whose turn it is: accounts by cost, each with its first gang.
//!
//! A heap of one seat for each account that has something left. Only the account
//! that was served costs more afterwards, so only its seat changes. Called by a
//! round before and after more urgent jobs pushed others out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::limits::{Denial, Scope};
use super::order::{JobKey, Turn, TurnKey};
use super::outcome::Reason;
use super::round::{Counting, Phase, Round};
use crate::policy::{Source, Walk};

/// An account that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seat {
    key: TurnKey,
    /// Where accounts do not take turns: the order of the jobs themselves.
    job: Option<JobKey<u32>>,
    pub line: u32,
}

impl Round<'_> {
    /// Puts what waits into the lines of its accounts, behind what was put back.
    pub(super) fn line_up(&mut self) {
        let mut of_line: Vec<Vec<u32>> = vec![Vec::new(); self.lines.len()];
        for task in 0..self.tasks.len() {
            if self.tasks[task].phase != Phase::Waiting {
                continue;
            }
            match (self.tasks[task].line, self.tasks[task].class) {
                (None, _) => self.reasons[task] = Some(Reason::Account),
                (Some(_), None) => self.reasons[task] = Some(Reason::Class),
                (Some(line), Some(_)) => of_line[line as usize].push(task as u32),
            }
        }
        for (line, tasks) in of_line.into_iter().enumerate() {
            self.gather(line as u32, tasks, Counting::Declared);
        }
    }

    /// The seat of an account with its next bunch.
    pub(super) fn seat(&self, line: u32) -> Option<Seat> {
        let of = &self.lines[line as usize];
        let bunch = of.bunches.get(of.at)?;
        let members = &of.members[bunch.from as usize..(bunch.from + bunch.len) as usize];
        let class = members
            .iter()
            .map(|&task| self.class_priority(task))
            .min()?;
        let turn = match self.policy.queue.source {
            Source::PerAccountCost | Source::PerAccountSlices { .. } => {
                let sum = self.sum(members);
                Turn {
                    class,
                    proposed: self.cost(&(of.has + sum)) / of.weight,
                    current: self.cost(&of.has) / of.weight,
                    budget: of.budget,
                    size: self.cost(&sum) * of.weight,
                }
            }
            Source::Global | Source::ByQueue => Turn {
                class,
                proposed: 0.0,
                current: 0.0,
                budget: 0.0,
                size: 0.0,
            },
        };
        Some(Seat {
            key: turn.key(self.large),
            job: match self.policy.queue.source {
                Source::PerAccountCost | Source::PerAccountSlices { .. } => None,
                Source::Global | Source::ByQueue => Some(self.key(members[0])),
            },
            line,
        })
    }

    /// The class priority a task has now: where it was put back, that at which it ran.
    fn class_priority(&self, task: u32) -> i64 {
        let task = &self.tasks[task as usize];
        match task.phase {
            Phase::Evicted { level, .. } => self.priorities[level - 1],
            Phase::Waiting
            | Phase::Placed { .. }
            | Phase::Taken { .. }
            | Phase::Lost { .. }
            | Phase::Elsewhere => self.priorities[task.level - 1],
        }
    }

    /// Serves the accounts in turn until nobody has anything left that may start.
    ///
    /// Where the rate of preemptions is used up, what was put back goes first from then on, so
    /// that nothing new takes its room; then what is new goes on.
    pub(super) fn fill(&mut self) {
        let mut seats: BinaryHeap<Reverse<Seat>> = (0..self.lines.len() as u32)
            .filter_map(|line| self.seat(line))
            .map(Reverse)
            .collect();
        let mut back: usize = self.lines.iter().map(|line| line.put_back).sum();
        let mut parked: Vec<u32> = Vec::new();
        let mut members = Vec::new();
        loop {
            let Some(Reverse(seat)) = seats.pop() else {
                if parked.is_empty() {
                    return;
                }
                // Nothing put back is left.
                back = 0;
                seats.extend(
                    parked
                        .drain(..)
                        .filter_map(|line| self.seat(line))
                        .map(Reverse),
                );
                continue;
            };
            let line = seat.line as usize;
            let at = self.lines[line].at;
            let bunch = self.lines[line].bunches[at];
            let spent = self.preempt_tokens.is_some_and(|tokens| tokens.spent());
            members.clear();
            let range = bunch.from as usize..(bunch.from + bunch.len) as usize;
            members.extend_from_slice(&self.lines[line].members[range]);
            if at < self.lines[line].put_back {
                back = back.saturating_sub(1);
                self.place_back(&members);
            } else if self.stop.is_some() || self.lines[line].stop.is_some() {
                continue;
            } else if self
                .policy
                .queue
                .lookback
                .is_some_and(|most| bunch.seen > most)
            {
                self.lines[line].stop = Some(Reason::Lookback);
                continue;
            } else if spent && back > 0 {
                parked.push(seat.line);
                continue;
            } else {
                self.serve(line, &members);
            }
            self.lines[line].at += 1;
            seats.extend(self.seat(seat.line).map(Reverse));
        }
    }

    /// Offers what is new, and keeps what it stops.
    pub(super) fn serve(&mut self, line: usize, members: &[u32]) -> Option<Denial> {
        let denial = self.offer(members).err()?;
        for &task in members {
            self.reasons[task as usize] = Some(denial.reason);
        }
        match denial.scope {
            Scope::Round => self.stop = Some(Reason::Stopped),
            Scope::Account => self.lines[line].stop = Some(Reason::AccountStopped),
            Scope::Gang => match self.policy.queue.walk {
                Walk::Stop => {
                    let first = self.tasks[members[0] as usize].job.id;
                    self.lines[line].stop = Some(Reason::Behind(first));
                }
                // What is reserved is the planner's; here a job that does not fit is passed.
                Walk::Skip | Walk::Reserve { .. } => {}
            },
        }
        Some(denial)
    }
}
