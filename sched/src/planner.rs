//! The planner: deltas in, verdicts out.
//!
//! Owned by the sched module's driver, which feeds it every change in the order
//! of the records and asks it for verdicts in bounded passes. It never records
//! and never assumes: what it proposes it holds until told how that went.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::plan::{Delta, Outcome, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;

use crate::inventory::Inventory;
use crate::placement::{Beside, Unplaced, place, place_beside};
use crate::queue::Queue;

/// Plans first come, first served over the state its deltas describe. Holds no clock.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    inventory: Inventory,
    queue: Queue,
    holdings: BTreeMap<JobId, Holding>,
}

/// What a job holds, and since when that is certain.
#[derive(Clone, Debug)]
enum Holding {
    /// A verdict said so; it is not known to be recorded.
    Proposed(Arc<ResourceSet>),
    /// It is recorded.
    Held(Arc<ResourceSet>),
}

impl Holding {
    fn set(&self) -> &ResourceSet {
        match self {
            Holding::Proposed(set) | Holding::Held(set) => set,
        }
    }
}

impl Planner {
    /// A planner that knows nothing: no inventory, no rank in service, no job.
    pub fn new() -> Planner {
        Planner::default()
    }

    /// Takes one change in. The same again changes nothing.
    ///
    /// - `Inventory` replaces the one before; holdings stay. Until the first, and while it has
    ///   no nodes, every job waits.
    /// - `Up`, `Down`: a rank never named is not in service. Whether it is drained or offline
    ///   makes no difference but to jobs that take nothing, which drained ranks serve. Ranks may
    ///   be named before the inventory has them.
    /// - `Want` of a job whose start is proposed keeps the proposal if it asks for the same,
    ///   else withdraws it. Of a job that still holds what an earlier attempt was given: it
    ///   waits until that is free.
    /// - `Unwant` withdraws a proposal. What is recorded as held stays held.
    /// - `Held` ends the wait and confirms a proposal, or replaces it if it names other resources.
    /// - `Freed` gives back what is held or proposed. A job that still wants waits in its turn.
    pub fn apply(&mut self, delta: Delta) {
        match delta {
            Delta::Inventory(set) => {
                self.inventory
                    .replace(set, self.holdings.values().map(Holding::set));
                self.queue.wake_all();
            }
            Delta::Up(ranks) => {
                self.inventory.bring(&ranks);
                self.queue.wake(&ranks);
            }
            Delta::Down(ranks, why) => {
                self.inventory.withdraw(&ranks, why);
                self.queue.wake(&ranks);
            }
            Delta::Want(job, want) => self.want(job, want),
            Delta::Unwant(job) => {
                self.queue.unwant(job);
                self.withdraw(job);
            }
            Delta::Held(job, _, set) => self.held(job, set),
            Delta::Freed(job) => self.free(job),
            Delta::Policy(_) | Delta::Explain(_) => {}
        }
    }

    /// Looks at the jobs that take nothing, then at the head of the queue until one job waits or
    /// `steps` verdicts are given.
    ///
    /// A `Start` is held from here on, and not said again unless it is given back. A job that
    /// gets `Never` is forgotten. `now` becomes the start of the grants.
    pub fn plan(&mut self, now: Time, steps: u32) -> Outcome {
        let mut outcome = Outcome::default();
        self.plan_beside(now, steps, &mut outcome);
        while let Some((job, request)) = self.queue.first() {
            if outcome.verdicts.len() as u64 >= u64::from(steps) {
                outcome.unfinished = true;
                break;
            }
            let verdict = match place(&self.inventory, request, now) {
                Ok(set) => Verdict::Start(self.propose(job, set)),
                Err(Unplaced::Never(reason)) => {
                    self.queue.unwant(job);
                    Verdict::Never(reason)
                }
                Err(Unplaced::Wait(reason)) => {
                    outcome.head = Some((job, reason));
                    break;
                }
            };
            outcome.verdicts.push((job, verdict));
        }
        outcome
    }

    /// Looks at the jobs that take nothing, each at most once until a rank it waits for comes.
    fn plan_beside(&mut self, now: Time, steps: u32, outcome: &mut Outcome) {
        if self.inventory.is_empty() {
            return;
        }
        while let Some((job, request)) = self.queue.first_beside() {
            let found = place_beside(&self.inventory, request, now);
            if let Beside::WaitFor(rank) = found {
                self.queue.sleep(job, rank);
                continue;
            }
            // Only now, so that nobody hears of more to come when all that is left waits.
            if outcome.verdicts.len() as u64 >= u64::from(steps) {
                outcome.unfinished = true;
                return;
            }
            let verdict = match found {
                Beside::Start(set) => Verdict::Start(self.propose(job, set)),
                Beside::Never(reason) => {
                    self.queue.unwant(job);
                    Verdict::Never(reason)
                }
                Beside::WaitFor(_) => unreachable!("handled above"),
            };
            outcome.verdicts.push((job, verdict));
        }
    }

    fn propose(&mut self, job: JobId, set: ResourceSet) -> Arc<ResourceSet> {
        let set = Arc::new(set);
        self.inventory.take(&set);
        self.holdings.insert(job, Holding::Proposed(set.clone()));
        self.queue.aside(job);
        set
    }

    fn want(&mut self, job: JobId, want: Want) {
        if self
            .queue
            .request(job)
            .is_some_and(|before| *before != want.request)
        {
            self.withdraw(job);
        }
        self.queue.want(job, want);
        if self.holdings.contains_key(&job) {
            self.queue.aside(job);
        }
    }

    fn held(&mut self, job: JobId, set: Arc<ResourceSet>) {
        match self.holdings.get(&job) {
            // Said again: a want that came since then is the next attempt's.
            Some(Holding::Held(before)) if before.nodes == set.nodes => return,
            Some(Holding::Proposed(before)) if before.nodes == set.nodes => {
                self.holdings.insert(job, Holding::Held(set));
            }
            Some(_) | None => {
                self.free(job);
                self.inventory.take(&set);
                self.holdings.insert(job, Holding::Held(set));
            }
        }
        self.queue.unwant(job);
    }

    /// Gives back what is only proposed.
    fn withdraw(&mut self, job: JobId) {
        if let Some(Holding::Proposed(_)) = self.holdings.get(&job) {
            self.free(job);
        }
    }

    fn free(&mut self, job: JobId) {
        if let Some(holding) = self.holdings.remove(&job) {
            self.inventory
                .give(holding.set(), self.holdings.values().map(Holding::set));
        }
        self.queue.recall(job);
    }
}
