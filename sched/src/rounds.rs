//! Rounds over accounts: parts (d) and (e) where accounts take turns.
//!
//! One round is a function of the state and the policy: put back what runs for
//! accounts above their share, serve the accounts in turn (by cost or by slices),
//! place each gang whole by the ladder, put back again what more urgent jobs were
//! placed over, and undo all of it if it helped nobody. Nothing here reads a
//! clock or keeps anything: time, seed and buckets are in the state and come back.
//! In the order in which a round is made:
//!
//! - `state`, `outcome`: what a round looks at, what it decides.
//! - `admit`: what is taken of a submission, before it is part of a state.
//! - `order`, `limits`: who is first, how much may start.
//! - `setting`, `field`: which nodes a job may use, and what is free on them.
//! - `rules`, `round`: what the policy means here, and all of that for one round.
//! - `evict`, `turns`, `slices`: who is put back, whose turn it is.
//! - `place`: where a gang goes, or why not.

pub mod admit;

mod evict;

mod field;

pub(crate) mod limits;

mod order;

mod outcome;

mod place;

mod round;

mod rules;

mod setting;

pub mod slices;

mod state;

mod turns;

pub(crate) use limits::{Tokens, fractions};
pub use order::{JobKey, Stage, Turn, TurnKey};
pub use outcome::{Decision, Left, Method, Outcome, Preemption, Reason};
pub use state::{
    Account, Away, Bucket, Buckets, Gang, Job, Node, Run, Service, Setting, State, Taint,
    Toleration, Wish,
};

use std::collections::BTreeMap;

use eddy_wire::id::JobId;

use crate::policy::{Evict, Policy, Source};
use round::{Means, Phase, Round};
pub(crate) use rules::{all_alike, costs, drf};

#[cfg(test)]
mod tests;

/// One round: what becomes of every job, with the reason.
///
/// The same state and policy give the same outcome, whatever the order of the lists. A round
/// that would preempt without starting anything starts nothing that needs a preemption instead.
pub fn schedule(state: &State, policy: &Policy) -> Outcome {
    let outcome = once(state, policy, Means::Policy);
    match outcome.counts() {
        (0, 1..) => once(state, policy, Means::FreeOnly),
        (_, _) => outcome,
    }
}

fn once(state: &State, policy: &Policy, means: Means) -> Outcome {
    let mut round = Round::new(state, policy, means);
    if round.evict == Evict::FairShare {
        round.put_back();
    }
    round.line_up();
    let seed = match policy.queue.source {
        Source::PerAccountSlices { basis, remainder } => round.deal(basis, remainder),
        Source::PerAccountCost | Source::Global | Source::ByQueue => {
            round.fill();
            state.seed
        }
    };
    round.resolve();
    round.outcome(seed)
}

/// A round in which gangs are offered one by one, in the order of the caller: what a gang would
/// find, beside all limits and all that was offered before.
#[derive(Debug)]
pub struct Trial<'a>(Round<'a>);

impl<'a> Trial<'a> {
    /// A round in which everything runs on where it is.
    pub fn new(state: &'a State, policy: &'a Policy) -> Trial<'a> {
        Trial(Round::new(state, policy, Means::Policy))
    }

    /// Puts back what the policy allows, and names the accounts of it in the order in which it
    /// would be placed again.
    pub fn put_back(&mut self) -> Vec<&'a str> {
        self.0.put_back();
        let name = |line: u32| self.0.lines[line as usize].account.name.as_str();
        self.0.order_of_lines().into_iter().map(name).collect()
    }

    /// Offers a gang: the rank of the node of each member that was placed, and how.
    ///
    /// # Errors
    /// The reason why it does not start.
    pub fn offer(&mut self, gang: &[JobId]) -> Result<Vec<(JobId, u32, Method)>, Reason> {
        let round = &mut self.0;
        let waiting = round.tasks.partition_point(|task| task.start.is_some());
        let mut members = Vec::with_capacity(gang.len());
        for id in gang {
            let found = round.tasks[waiting..].binary_search_by_key(id, |task| task.job.id);
            members.push((waiting + found.map_err(|_| Reason::Account)?) as u32);
        }
        if members.is_empty() {
            return Ok(Vec::new());
        }
        round.offer(&members).map_err(|denial| denial.reason)?;
        let placed = members.into_iter().filter_map(|task| {
            let method = round.method(task)?;
            match round.tasks[task as usize].phase {
                Phase::Placed { node, .. } => Some((
                    round.tasks[task as usize].job.id,
                    round.nodes[node as usize].rank,
                    method,
                )),
                Phase::Waiting
                | Phase::Evicted { .. }
                | Phase::Taken { .. }
                | Phase::Lost { .. }
                | Phase::Elsewhere => None,
            }
        });
        Ok(placed.collect())
    }
}

impl Round<'_> {
    /// What the round decided.
    fn outcome(self, seed: u64) -> Outcome {
        let mut decisions = BTreeMap::new();
        for at in 0..self.tasks.len() {
            let decision = match self.tasks[at].start {
                Some(_) => self.of_run(at),
                None => self.of_job(at),
            };
            decisions.insert(self.tasks[at].job.id, decision);
        }
        let now = self.state.now;
        let bucket = |tokens: Tokens| tokens.bucket(now);
        Outcome {
            decisions,
            ledger: self
                .lines
                .iter()
                .map(|line| (line.account.name.clone(), line.has))
                .collect(),
            seed,
            buckets: Buckets {
                all: self.tokens.map(bucket),
                preempt: self.preempt_tokens.map(bucket),
                accounts: self
                    .lines
                    .iter()
                    .filter_map(|line| Some((line.account.name.clone(), bucket(line.tokens?))))
                    .collect(),
            },
        }
    }

    fn of_run(&self, at: usize) -> Decision {
        let task = &self.tasks[at];
        let grace = task.job.grace;
        let id = |task: u32| self.tasks[task as usize].job.id;
        match task.phase {
            Phase::Placed { .. } | Phase::Elsewhere | Phase::Waiting => Decision::Keep,
            Phase::Taken { by } => Decision::Preempt {
                by: Some(id(by)),
                kind: Preemption::FairShare,
                grace,
            },
            Phase::Lost { node } | Phase::Evicted { node, .. } => {
                let by = self.urgent.get(&node).map(|&by| id(by));
                Decision::Preempt {
                    by,
                    kind: match by {
                        Some(_) => Preemption::Urgency,
                        None => Preemption::Capacity,
                    },
                    grace,
                }
            }
        }
    }

    fn of_job(&self, at: usize) -> Decision {
        let task = &self.tasks[at];
        if let Some(&other) = self.failed.get(&(at as u32)) {
            return match self.of_job(other as usize) {
                // The gang was overtaken whole: it waits on whole.
                wait @ Decision::Wait(_) => wait,
                Decision::Start { .. }
                | Decision::Keep
                | Decision::Preempt { .. }
                | Decision::Fail => Decision::Fail,
            };
        }
        match task.phase {
            Phase::Placed {
                node,
                level,
                method,
            } => Decision::Start {
                node: self.nodes[node as usize].rank,
                priority: self.priorities[level - 1],
                method,
            },
            Phase::Taken { by } => {
                Decision::Wait(Reason::Overtaken(self.tasks[by as usize].job.id))
            }
            Phase::Lost { node } | Phase::Evicted { node, .. } => {
                let by = self.urgent.get(&node).copied().unwrap_or(at as u32);
                Decision::Wait(Reason::Overtaken(self.tasks[by as usize].job.id))
            }
            Phase::Waiting | Phase::Elsewhere => Decision::Wait(self.why(at)),
        }
    }

    /// Why a job that was not placed waits: what was said of it, or what stopped all like it.
    fn why(&self, at: usize) -> Reason {
        let of_line = || {
            let line = self.tasks[at].line?;
            self.lines[line as usize].stop
        };
        self.reasons[at]
            .or_else(of_line)
            .or(self.stop)
            .unwrap_or(Reason::Stopped)
    }
}
