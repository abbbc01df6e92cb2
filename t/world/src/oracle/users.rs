//! Nobody changes another's job, and a task runs as its job's user.

use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::shell::Start;

use super::Ledger;
use crate::client::OWNER;

/// Whether who is named in a record of a job may have changed it: its user, or the owner.
pub(super) fn may_record(ledger: &Ledger, job: JobId, kind: &Kind) -> Result<(), String> {
    let by = match kind {
        Kind::Exception(exception) => exception.userid,
        Kind::Urgency(_, user) | Kind::Order(_, user) => Some(*user),
        _ => None,
    };
    let user = ledger.jobs.get(&job).map(|job| job.submit.user);
    match (by, user) {
        (Some(by), Some(user)) if by != user && by != OWNER => Err(format!(
            "user {by} changed job {job} of user {user} by `{}`",
            kind.name()
        )),
        _ => Ok(()),
    }
}

/// Whether a task is to run as the user whose job it is.
pub(super) fn may_run(user: Option<u32>, start: &Start) -> Result<(), String> {
    match user {
        Some(user) if user != start.user => Err(format!(
            "part {} of a job of user {user} was ordered to start as user {}",
            start.part, start.user
        )),
        _ => Ok(()),
    }
}
