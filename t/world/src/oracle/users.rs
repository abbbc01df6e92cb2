//! Nobody changes another's job, nor makes his own more urgent than others, nor the instance unless it is his;
//! and a task runs as its job's user.

use eddy_modules::live::Change;
use eddy_wire::account::NOBODY;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::JobState;
use eddy_wire::reservation::Kept;
use eddy_wire::services::job::URGENCY_DEFAULT;
use eddy_wire::shell::Start;
use eddy_wire::time::Span;
use eddy_wire::update;
use serde_json::{Map, Value};

use super::Ledger;
use crate::client::OWNER;

/// Whether who is named in a record of a job may have changed it: its user, or the owner.
pub(super) fn may_record(ledger: &Ledger, job: JobId, kind: &Kind) -> Result<(), String> {
    let by = match kind {
        Kind::Exception(exception) => exception.userid,
        // An instance asks anew about one who waits.
        Kind::Urgency(_, user) if *user == NOBODY => None,
        Kind::Urgency(_, user) | Kind::Order(_, user) => Some(*user),
        Kind::Suspend(by) | Kind::Resume(by) => *by,
        Kind::JobspecUpdate(map) => by_whom(map),
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

/// Whether who is named in a record of the instance's own may have changed it: its owner, or who runs it.
pub(super) fn may_govern(record: &Record) -> Result<(), String> {
    let by = match &record.event.kind {
        _ if record.event.job.is_some() => None,
        Kind::Drain(_, _, user) => Some(*user),
        Kind::Undrain(_, by) => *by,
        Kind::ShellLost(_, by) => by.as_ref().map(|by| by.userid),
        Kind::Account(changed) => Some(changed.userid),
        Kind::Queue(turned) => Some(turned.userid),
        Kind::Reservation(kept) => match &**kept {
            Kept::Made(made) => Some(made.userid),
            Kept::Deleted { userid, .. } => Some(*userid),
            Kept::Over { .. } => None,
        },
        Kind::Memo(memo) => Change::told(memo).map(|change| change.userid),
        _ => None,
    };
    // What an instance gives back by itself nobody takes out of service.
    match by.filter(|by| ![OWNER, 0, NOBODY].contains(by)) {
        Some(by) => Err(format!(
            "user {by} changed the instance by `{}`",
            record.event.kind.name()
        )),
        None => Ok(()),
    }
}

/// Whether somebody may send a signal to the tasks of a job: of one that is not known here its instance says.
pub(super) fn may_signal(ledger: &Ledger, job: JobId, by: u32) -> bool {
    let user = ledger.jobs.get(&job).map(|job| job.submit.user);
    by == OWNER || user.is_none_or(|user| user == by)
}

/// Whether whoever made a job that urgent might. What a filter has changed is an administrator's word.
/// Asked before the record is folded.
pub(super) fn may_urge(ledger: &Ledger, record: &Record) -> Result<(), String> {
    let (Some(job), kind) = (record.event.job, &record.event.kind) else {
        return Ok(());
    };
    let before = ledger.jobs.get(&job);
    let is = before.map(|job| job.urgency);
    let before = before.map_or(0, |job| job.urgency.max(job.urgency_before));
    let (by, urgency) = match kind {
        Kind::Submit(submit) if submit.filtered.is_none() && submit.pass.is_none() => {
            (submit.asked_by.unwrap_or(submit.user), submit.urgency)
        }
        Kind::Urgency(urgency, NOBODY) if is == Some(*urgency) => return Ok(()),
        Kind::Urgency(urgency, by) => (*by, *urgency),
        _ => return Ok(()),
    };
    // What an instance declares it submits as whom it runs as.
    let is_users = ![OWNER, 0].contains(&by);
    if by == NOBODY {
        return Err(format!("job {job} got urgency {urgency} by nobody"));
    }
    match is_users && urgency > URGENCY_DEFAULT.max(before) {
        true => Err(format!("user {by} made job {job} of urgency {urgency}")),
        false => Ok(()),
    }
}

/// Whether whoever gave a job more time that had begun might. Asked before the record is folded.
pub(super) fn may_extend(ledger: &Ledger, record: &Record) -> Result<(), String> {
    let Kind::JobspecUpdate(map) = &record.event.kind else {
        return Ok(());
    };
    let job = record.event.job.and_then(|job| ledger.jobs.get(&job));
    let runs = job.filter(|job| job.state == JobState::Run);
    let (Some(job), Some(limit)) = (runs, update::duration(map)) else {
        return Ok(());
    };
    let before = job.submit.spec.request.duration;
    let by = by_whom(map).filter(|by| *by != OWNER);
    match (by, before) {
        (Some(by), Some(before)) if limit.0 > before => Err(format!(
            "user {by} gave job {} {limit} s, which had begun with {} s",
            job.id,
            Span(before)
        )),
        _ => Ok(()),
    }
}

fn by_whom(map: &Map<String, Value>) -> Option<u32> {
    u32::try_from(map.get("userid")?.as_u64()?).ok()
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
