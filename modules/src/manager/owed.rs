//! What a job is owed now: the whole decision, in one total match.

use eddy_wire::event::Final;
use eddy_wire::id::Attempt;
use eddy_wire::job::{Holding, Job};
use eddy_wire::jobspec::Need;
use eddy_wire::lifecycle::JobState;
use eddy_wire::preempt::Mode;
use eddy_wire::suspension::Standing;

/// The next record the manager owes a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: another module, the user or time moves it on.
    Nothing,
    /// To be said what it waits for: the next of its needs.
    Need(Need),
    /// It was checked by ingest before it was recorded.
    Validate,
    /// It waits for nothing any more.
    Depend,
    /// A place in the queue.
    Priority,
    /// Its resources are free: nothing of it runs.
    Free,
    /// To end, as was decided for the sake of another.
    End,
    /// To be stopped, as was decided for the sake of another.
    Suspend,
    /// To go on, after it was.
    Resume,
    /// To end, since a text of its jobspec is lost and nothing can be started by it.
    GiveUp,
    /// Another attempt.
    Requeue(Attempt),
    /// It is over.
    Clean,
}

/// What `job` is owed. Asked after every record and after each restart, so
/// every answer is safe to repeat until its record is there.
pub fn owed(job: &Job, attempts_max: u32) -> Action {
    match (job.state, &job.holding, job.release) {
        // They are added in their order, and none is removed before all are.
        // What one waited for that was passed down is met: its parent has seen to that.
        (JobState::New, _, _) if job.submit.pass.is_some() => Action::Validate,
        (JobState::New, _, _) => match job.submit.spec.needs.get(job.dependencies.len()) {
            Some(need) => Action::Need(*need),
            None => Action::Validate,
        },
        // Whoever has begun goes on: who runs it has what it needs.
        (JobState::Depend | JobState::Priority | JobState::Sched, _, _)
            if job.submit.spec.is_lost() =>
        {
            Action::GiveUp
        }
        (JobState::Depend, _, _) if job.dependencies.is_empty() => Action::Depend,
        // What it waits for is met in `waits`.
        (JobState::Depend, _, _) => Action::Nothing,
        (JobState::Priority, _, _) => Action::Priority,
        // Of one that was passed down the parent says how it ends.
        (JobState::Run, _, _) if job.submit.pass.is_none() => running(job),
        // sched allocates, exec starts and reports the end.
        (JobState::Sched | JobState::Run, _, _) => Action::Nothing,
        // exec ends what runs and records the release.
        (JobState::Cleanup, Holding::Held(_), Final::No) => Action::Nothing,
        (JobState::Cleanup, Holding::Held(_), Final::Yes | Final::Free(_) | Final::Over(_)) => {
            Action::Free
        }
        (JobState::Cleanup, Holding::Nothing | Holding::Freed(_), _) => {
            if runs_again(job, attempts_max) {
                Action::Requeue(job.attempt.next())
            } else {
                Action::Clean
            }
        }
        (JobState::Inactive, _, _) => Action::Nothing,
    }
}

/// Whether the attempt that ends is followed by another.
pub fn runs_again(job: &Job, attempts_max: u32) -> bool {
    job.is_to_be_requeued() && tried(job) < attempts_max
}

/// What one that runs is owed for the sake of others.
fn running(job: &Job) -> Action {
    match (
        job.preemption().map(|one| one.mode),
        job.suspension.standing(),
    ) {
        (Some(Mode::Requeue | Mode::Cancel), _) => Action::End,
        (Some(Mode::Suspend), Standing::Runs) => Action::Suspend,
        (None, Standing::Suspended) if job.suspension.is_to_go_on() => Action::Resume,
        // exec stops it and records that; sched finds it cores.
        (_, Standing::Runs | Standing::Stopping | Standing::Suspended | Standing::Resuming) => {
            Action::Nothing
        }
    }
}

/// How many attempts had their chance: one that came back from where it was passed to had none, nor
/// had one that ended for the sake of another.
fn tried(job: &Job) -> u32 {
    job.attempt.0.saturating_sub(job.recalls + job.preemptions)
}
