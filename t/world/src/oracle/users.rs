//! Nobody changes another's job, nor makes his own more urgent than others; and a task runs as its job's user.

use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::JobState;
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
        Kind::Urgency(_, user) | Kind::Order(_, user) => Some(*user),
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

/// Whether whoever made a job that urgent might. What a filter has changed is an administrator's word.
/// Asked before the record is folded.
pub(super) fn may_urge(ledger: &Ledger, record: &Record) -> Result<(), String> {
    let (Some(job), kind) = (record.event.job, &record.event.kind) else {
        return Ok(());
    };
    let before = ledger.jobs.get(&job);
    let before = before.map_or(0, |job| job.urgency.max(job.urgency_before));
    let (by, urgency) = match kind {
        Kind::Submit(submit) if submit.filtered.is_none() && submit.pass.is_none() => {
            (submit.asked_by.unwrap_or(submit.user), submit.urgency)
        }
        Kind::Urgency(urgency, by) => (*by, *urgency),
        _ => return Ok(()),
    };
    // What an instance declares it submits as whom it runs as.
    let is_users = ![OWNER, 0].contains(&by);
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
