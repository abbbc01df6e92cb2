//! What really runs, against what the records say may run.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::job::exit_code;
use eddy_wire::jobspec::Work;
use eddy_wire::shell::{Part, Role, Start};

use super::ledger::Ledger;

/// Every task there ever was.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    /// By attempt, then by task rank.
    attempts: BTreeMap<(JobId, Attempt), BTreeMap<u32, Fate>>,
    /// Lives of shells that have ended.
    dead: BTreeSet<Epoch>,
}

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It runs, on this rank.
    Runs(Rank),
    Ended(i32),
    /// It died with its shell: nobody knows how it would have ended.
    Lost,
}

impl Tasks {
    /// A task begins. It must be the first time, and a durable grant must say so.
    pub fn begin(
        &mut self,
        durable: &Ledger,
        start: &Start,
        shell: Epoch,
        task: u32,
    ) -> Result<(), String> {
        let part = start.part;
        let tasks = self.attempts.entry((part.job, part.attempt)).or_default();
        let before = tasks.insert(task, Fate::Runs(part.rank));
        // A leader that died is started again by its shell.
        let again = start.role == Role::Leader && matches!(before, Some(Fate::Ended(_)));
        if before.is_some() && !again {
            return Err(format!("task {task} of part {part} started a second time"));
        }
        let held = durable
            .jobs
            .get(&part.job)
            .filter(|job| job.attempt == part.attempt)
            .and_then(|job| job.grant());
        let Some(grant) = held else {
            return Err(format!(
                "task {task} of part {part} runs without a recorded grant"
            ));
        };
        if grant.shells.get(&part.rank) != Some(&shell) {
            return Err(format!(
                "part {part} runs on shell {shell}, which its grant does not name"
            ));
        }
        let node = grant.set.nodes.get(&part.rank);
        if node.is_none_or(|node| node.cores != start.cores || node.gpus != start.gpus) {
            return Err(format!(
                "part {part} runs on other cores than it was granted"
            ));
        }
        Ok(())
    }

    /// Forgets these jobs.
    pub fn let_go(&mut self, over: &BTreeSet<JobId>) {
        self.attempts.retain(|(job, _), _| !over.contains(job));
    }

    /// A task ended, or could not be started at all.
    pub fn end(&mut self, part: Part, task: u32, status: i32) {
        let tasks = self.attempts.entry((part.job, part.attempt)).or_default();
        tasks.insert(task, Fate::Ended(status));
    }

    /// A task died with its shell.
    pub fn lose(&mut self, part: Part, task: u32) {
        let tasks = self.attempts.entry((part.job, part.attempt)).or_default();
        tasks.insert(task, Fate::Lost);
    }

    /// A life of a shell ended.
    pub fn shell_ended(&mut self, shell: Epoch) {
        self.dead.insert(shell);
    }

    /// The tasks that run.
    pub fn running(&self) -> impl Iterator<Item = (Part, u32)> + '_ {
        self.attempts.iter().flat_map(|((job, attempt), tasks)| {
            tasks.iter().filter_map(|(task, fate)| match fate {
                Fate::Runs(rank) => {
                    let (job, attempt, rank) = (*job, *attempt, *rank);
                    Some((Part { job, attempt, rank }, *task))
                }
                Fate::Ended(_) | Fate::Lost => None,
            })
        })
    }

    /// Nothing of this attempt may run any more: `what` was recorded.
    pub fn is_over(&self, job: JobId, attempt: Attempt, what: &str) -> Result<(), String> {
        let tasks = self.attempts.get(&(job, attempt));
        let runs =
            tasks.and_then(|tasks| tasks.iter().find(|(_, fate)| matches!(fate, Fate::Runs(_))));
        match runs {
            Some((task, _)) => Err(format!(
                "`{what}` of job {job} (attempt {attempt}) while its task {task} runs"
            )),
            None => Ok(()),
        }
    }

    /// The status recorded for an attempt, against what its tasks really ended with.
    pub fn ended_with(&self, ledger: &Ledger, job: JobId, status: i32) -> Result<(), String> {
        let Some(found) = ledger.jobs.get(&job) else {
            return Ok(());
        };
        if ledger.away.contains_key(&job) {
            // They ran elsewhere.
            return Ok(());
        }
        self.is_over(job, found.attempt, "finish")?;
        let none = BTreeMap::new();
        let tasks = self.attempts.get(&(job, found.attempt)).unwrap_or(&none);
        let request = &found.submit.spec.request;
        let request = match found.placed() {
            Some(grant) => request.granted(&grant.set),
            None => Cow::Borrowed(request),
        };
        // An instance is one task: its leader.
        let expected = match request.work {
            Work::Tasks => request.ntasks,
            Work::Instance { .. } => 1,
            Work::Ground { .. } => 0,
        };
        let whole = tasks.len() as u32 == expected;
        let lost = tasks.values().any(|fate| *fate == Fate::Lost);
        if found.end.is_none() && (lost || !whole) {
            return Err(format!(
                "job {job} ends without its tasks and without an exception"
            ));
        }
        if self.lost_a_shell(ledger, job) {
            return Ok(());
        }
        let codes = tasks.values().filter_map(|fate| match fate {
            Fate::Ended(status) => Some(exit_code(*status)),
            Fate::Runs(_) | Fate::Lost => None,
        });
        let worst = codes.max();
        let recorded = exit_code(status);
        match worst {
            Some(worst) if whole && worst != recorded => Err(format!(
                "job {job} ended with {worst}, recorded is {recorded}"
            )),
            // Those that never started count as killed.
            worst if !whole && recorded != worst.unwrap_or(0).max(137) => Err(format!(
                "job {job} did not start all its tasks, recorded is {recorded}"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// A node failed only if a shell did.
    pub fn may_fail(&self, ledger: &Ledger, job: JobId) -> Result<(), String> {
        // Whether the instance did that it was passed to its own judge knows.
        match ledger.away.contains_key(&job) || self.lost_a_shell(ledger, job) {
            true => Ok(()),
            false => Err(format!("job {job} lost a node, but all its shells live")),
        }
    }

    fn lost_a_shell(&self, ledger: &Ledger, job: JobId) -> bool {
        let placed = ledger.jobs.get(&job).and_then(|job| job.placed());
        placed.is_some_and(|grant| grant.shells.values().any(|shell| self.dead.contains(shell)))
    }
}
