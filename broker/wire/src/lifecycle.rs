//! The whole life of a job in one match.
//!
//! [`JobState::next`] is the transition table (RFC 21, with eddy's further
//! lives); [`Job`](crate::job::Job) is the fold that uses it. Nothing here
//! decides what is to be done: that is the manager's `owed`.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::event::{Final, Kind};

/// Where a job is in its life. The numbers are RFC 21's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[repr(u8)]
pub enum JobState {
    /// Submitted, not yet checked.
    New = 1,
    /// Waits for dependencies.
    Depend = 2,
    /// Waits for its place in the queue.
    Priority = 4,
    /// Waits for resources.
    Sched = 8,
    /// Holds resources.
    Run = 16,
    /// Ends: tasks being killed, resources being given back.
    Cleanup = 32,
    /// Over.
    Inactive = 64,
}

/// How a job ended, for people (RFC 21 result).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobResult {
    /// All tasks exited 0.
    Completed,
    /// A task failed, or the job could not run.
    Failed,
    /// Somebody ended it.
    Canceled,
    /// It reached its time limit.
    Timeout,
}

/// An event that cannot happen in this state: the journal or a module is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("event `{event}` cannot happen in state {state:?}")]
pub struct Illegal {
    /// The state the job was in.
    pub state: JobState,
    /// The event's name.
    pub event: &'static str,
}

impl JobState {
    /// All states, in the order of a life.
    pub const ALL: [JobState; 7] = [
        JobState::New,
        JobState::Depend,
        JobState::Priority,
        JobState::Sched,
        JobState::Run,
        JobState::Cleanup,
        JobState::Inactive,
    ];

    /// One letter for listings.
    pub fn letter(self) -> char {
        match self {
            JobState::New => 'N',
            JobState::Depend => 'D',
            JobState::Priority => 'P',
            JobState::Sched => 'S',
            JobState::Run => 'R',
            JobState::Cleanup => 'C',
            JobState::Inactive => 'I',
        }
    }

    /// The name as listings print it.
    pub fn name(self) -> &'static str {
        match self {
            JobState::New => "NEW",
            JobState::Depend => "DEPEND",
            JobState::Priority => "PRIORITY",
            JobState::Sched => "SCHED",
            JobState::Run => "RUN",
            JobState::Cleanup => "CLEANUP",
            JobState::Inactive => "INACTIVE",
        }
    }

    /// Waiting for something, never started in this attempt.
    pub fn is_pending(self) -> bool {
        matches!(
            self,
            JobState::Depend | JobState::Priority | JobState::Sched
        )
    }

    /// The state after `event`; an error when it cannot happen now.
    ///
    /// Events of the instance never reach a job and are illegal in all states.
    pub fn next(self, event: &Kind) -> Result<JobState, Illegal> {
        use JobState::{Cleanup, Depend, Inactive, New, Priority, Run, Sched};
        let illegal = Err(Illegal {
            state: self,
            event: event.name(),
        });
        match (self, event) {
            (New, Kind::Submit(_)) => Ok(New),
            (New, Kind::Validate) => Ok(Depend),
            (Depend, Kind::Depend) => Ok(Priority),
            (Priority, Kind::Priority(_)) => Ok(Sched),
            (Sched, Kind::Priority(_)) => Ok(Sched),
            // A change of what is asked for or how urgently sends a queued job
            // back for a new place in the queue.
            (Sched, Kind::Urgency(..) | Kind::JobspecUpdate(_)) => Ok(Priority),
            (Sched, Kind::Alloc(_)) => Ok(Run),
            (
                Run,
                Kind::Finish(_) | Kind::Release(_, Final::Free(Some(_)) | Final::Over(Some(_))),
            ) => Ok(Cleanup),
            (Depend | Priority | Sched | Run, Kind::Exception(e)) if e.severity == 0 => Ok(Cleanup),
            (Cleanup, Kind::Clean) => Ok(Inactive),
            (Cleanup, Kind::Requeue(_)) => Ok(Priority),

            // Facts that never move a job, where they can be true.
            (
                Cleanup,
                Kind::Finish(_) | Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)),
            ) => Ok(self),
            (Run | Cleanup, Kind::Release(_, Final::No | Final::Yes)) => Ok(self),
            (Run | Cleanup, Kind::Start) => Ok(self),
            (Run | Cleanup, Kind::PrologStart(_) | Kind::PrologFinish(..)) => Ok(self),
            (Cleanup, Kind::EpilogStart(_) | Kind::EpilogFinish(..)) => Ok(self),
            (New | Depend, Kind::DependencyAdd(_) | Kind::DependencyRemove(_)) => Ok(self),
            (Run, Kind::Suspend(_) | Kind::Resume(_)) => Ok(self),
            (Run, Kind::Preempted(_) | Kind::Shrink(_)) => Ok(self),
            (Run | Cleanup, Kind::GrantChanged(_)) => Ok(self),
            (Run | Cleanup, Kind::Adopt(_) | Kind::IdBlock(_)) => Ok(self),
            (Sched, Kind::Passed(_)) => Ok(self),
            (Run | Cleanup, Kind::Recalled(_)) => Ok(self),
            (New | Depend | Priority | Run | Cleanup, Kind::Urgency(..)) => Ok(self),
            (New | Depend | Priority | Sched | Run | Cleanup, Kind::Order(..)) => Ok(self),
            (New | Depend | Priority | Run, Kind::JobspecUpdate(_)) => Ok(self),
            (Depend | Priority | Sched | Run | Cleanup, Kind::Exception(_)) => Ok(self),
            (Inactive, Kind::Waited) => Ok(self),
            (_, Kind::Memo(_)) => Ok(self),

            (Inactive, _) => illegal,
            (
                _,
                Kind::Submit(_)
                | Kind::Validate
                | Kind::JobspecUpdate(_)
                | Kind::DependencyAdd(_)
                | Kind::DependencyRemove(_)
                | Kind::Depend
                | Kind::Priority(_)
                | Kind::Alloc(_)
                | Kind::PrologStart(_)
                | Kind::PrologFinish(..)
                | Kind::Start
                | Kind::Finish(_)
                | Kind::EpilogStart(_)
                | Kind::EpilogFinish(..)
                | Kind::Release(..)
                | Kind::Free
                | Kind::Clean
                | Kind::Exception(_)
                | Kind::Waited
                | Kind::Requeue(_)
                | Kind::Suspend(_)
                | Kind::Resume(_)
                | Kind::Preempted(_)
                | Kind::Shrink(_)
                | Kind::Passed(_)
                | Kind::Recalled(_)
                | Kind::GrantChanged(_)
                | Kind::Adopt(_)
                | Kind::IdBlock(_)
                | Kind::LeaderStart(_)
                | Kind::LeaderStop
                | Kind::ResourceDefine(..)
                | Kind::ShellStart(..)
                | Kind::ShellLost(..)
                | Kind::Drain(..)
                | Kind::Undrain(..)
                | Kind::GiveBack(_)
                | Kind::Put(..)
                | Kind::Delete(..)
                | Kind::Account(_)
                | Kind::Queue(_)
                | Kind::Reservation(_)
                | Kind::Usage(_)
                | Kind::UsageDay(_),
            ) => illegal,
        }
    }
}
