//! Questions of modules to the journal, and its answers in their words.
//!
//! Runs on a reader's thread. It reads durable records and derived rows only, and those rows that the
//! store has not written yet and hands along. It holds no state.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use eddy_broker::Answer;
use eddy_broker::Query;
use eddy_broker::effect::{KeyFound, RANGE_BYTES};
use eddy_wire::event::{Requeue, Sent, Waitable};
use eddy_wire::hash::Hash;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::queue::UNNAMED;
use eddy_wire::services::job::{EventsLine, JobRow, ListRequest, Over, Told};
use eddy_wire::time::Time;
use serde::Deserialize;
use uuid::Uuid;

use crate::journal::{Cursor, Filter, Finished, ReadError, Reader, Row};

/// Rows looked through for one answer: 20 ms. Who wants more asks again, behind whoever waits.
const PORTION: u32 = 2_000;
/// The most job numbers that are looked up one by one.
const IDS_MAX: u64 = 10_000;
/// Who asks for the rows of so many jobs or less waits for no other's long answer.
const FEW_MAX: u64 = 16;
/// Records that share their blobs (see the journal's schema).
pub const GENERATION: u64 = 1 << 14;

/// Why the journal could not answer.
#[derive(Debug, thiserror::Error)]
enum Why {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("a stored row cannot be read: {0}")]
    Row(#[from] serde_json::Error),
    #[error("the stored row of job {0} cannot be read, nor made again of its records")]
    Damaged(JobId),
}

/// Rows that may not be written yet.
type Late<'l> = &'l [Arc<Finished>];
/// Rows, and behind which one to go on.
type Rows = (Vec<JobRow>, Option<Over>);

/// The answer to a question, of the journal and of rows that may not be in it yet.
pub fn answer(reader: &Reader, query: &Query, late: Late<'_>) -> Answer {
    let answer = match query {
        Query::Key(user, key) => by_key(reader, *user, key, late),
        Query::Rows(request) => {
            rows(reader, request, late).map(|(rows, more)| Answer::Rows(rows, more))
        }
        Query::Finished(job) => finished(reader, *job, late).map(Answer::Finished),
        Query::Records(seqs) => records(reader, seqs).map(Answer::Records),
        Query::Range(from, count) => range(reader, *from, *count).map(Answer::Records),
        Query::Blob(hash) => blob(reader, hash).map(Answer::Blob),
        // The loop has a process read that; a history looks into no other.
        Query::Within(_) => Ok(Answer::Failed("this journal is of one instance".to_owned())),
    };
    answer.unwrap_or_else(|why| {
        let cause = std::error::Error::source(&why).map(ToString::to_string);
        tracing::error!(?query, %why, cause, "the journal cannot answer");
        Answer::Failed(why.to_string())
    })
}

/// Whether others are not to wait for its answer.
pub fn is_long(query: &Query) -> bool {
    let few = 1..=FEW_MAX;
    matches!(query, Query::Rows(request) if !few.contains(&request.jobs.len()))
}

/// The parts of a `submit` record that say which submission it is of.
#[derive(Deserialize)]
struct Submission {
    #[serde(default)]
    index: u32,
    #[serde(default = "one")]
    count: u32,
    jobspec: Hash,
    #[serde(default)]
    cc: Option<u32>,
    #[serde(default)]
    waitable: Waitable,
    #[serde(default)]
    requeue: Requeue,
    /// What was sent, where that is not what is recorded.
    #[serde(default)]
    sent: Option<Sent>,
}

fn one() -> u32 {
    1
}

fn by_key(reader: &Reader, user: u32, key: &Uuid, late: Late<'_>) -> Result<Answer, Why> {
    let is_of = |job: &&Arc<Finished>| job.user == user && job.key == *key.as_bytes();
    let late = || late.iter().find(is_of).map(|job| Finished::clone(job));
    let Some(job) = reader.by_key(user, key.as_bytes())?.or_else(late) else {
        return Ok(match made_before(key, reader.purged()?.t_submit) {
            true => Answer::KeyForgotten,
            false => Answer::Key(None),
        });
    };
    let first = job.events.first().copied().unwrap_or(0);
    let submit = reader
        .from_seq(first, 1)?
        .pop()
        .filter(|row| row.seq == first);
    let Some(submit) = submit.filter(|row| row.name == "submit") else {
        return Ok(Answer::Key(None));
    };
    let submission: Submission = serde_json::from_str(&submit.context)?;
    let sent = submission.sent.map(|sent| sent.jobspec);
    Ok(Answer::Key(Some(KeyFound {
        first: JobId(job.id.saturating_sub(u64::from(submission.index))),
        count: submission.count,
        jobspec: sent.unwrap_or(submission.jobspec),
        cc: submission.cc,
        waitable: submission.waitable,
        requeue: submission.requeue,
    })))
}

/// Whether a UUIDv7 was made at or before `t` (microseconds since 1970). Its own
/// time is in whole milliseconds.
fn made_before(key: &Uuid, t: i64) -> bool {
    let made = key.get_timestamp().map(|stamp| stamp.to_unix());
    made.is_none_or(|(seconds, nanos)| {
        let millis = i64::try_from(seconds)
            .unwrap_or(i64::MAX)
            .saturating_mul(1000);
        millis.saturating_add(i64::from(nanos / 1_000_000)) <= t / 1000
    })
}

/// A finished job's row and the places of its records.
type Found = Option<Box<(JobRow, Vec<Seq>)>>;

fn finished(reader: &Reader, job: JobId, late: Late<'_>) -> Result<Found, Why> {
    let late = late.iter().find(|late| late.id == job.0);
    let found = match late {
        Some(late) => Some(Finished::clone(late)),
        None => reader.job(job.0)?,
    };
    let Some(found) = found else {
        return Ok(None);
    };
    let row = row_of(reader, &found).ok_or(Why::Damaged(job))?;
    Ok(Some(Box::new((
        row,
        found.events.into_iter().map(Seq).collect(),
    ))))
}

fn rows(reader: &Reader, request: &ListRequest, late: Late<'_>) -> Result<Rows, Why> {
    // Rows are of jobs that are over.
    if !request.states.is_empty() && !request.states.contains(&JobState::Inactive) {
        return Ok((Vec::new(), None));
    }
    let mut filter = filter(request);
    let limit = match request.limit {
        0 => usize::MAX,
        limit => limit as usize,
    };
    let (mut rows, known) = newest(request, &filter, late)?;
    let most = match filter.ids.len() {
        0 => PORTION,
        ids => ids as u32,
    };
    let most = match takes_all(request) {
        true => most.min(u32::try_from(limit.saturating_sub(rows.len())).unwrap_or(most)),
        false => most,
    };
    // Looked for here: the journal would go through all there is for one that is rare.
    let rare = Filter {
        name: filter.name.take(),
        results: std::mem::take(&mut filter.results),
        ..Filter::default()
    };
    filter.limit = most;
    let page = reader.finished(&filter)?;
    for job in page.iter().filter(|job| !known.contains(&job.id)) {
        if rows.len() < limit && (job.row.is_empty() || rare.takes(job)) {
            let row = row_of(reader, job).filter(|row| {
                matches(request, row) && (!job.row.is_empty() || is_meant(request, row))
            });
            rows.extend(row);
        }
    }
    rows.truncate(limit);
    let is_all = page.len() < most as usize || page.len() == filter.ids.len();
    let last = page.last().filter(|_| !is_all && rows.len() < limit);
    let behind = last.map(|job| Over {
        t: Time(job.t_inactive),
        id: JobId(job.id),
    });
    Ok((rows, behind))
}

/// The row of a job that is over. A damaged one is made again of its records; where those are not whole either, the
/// job is left out with an error in the log, as one bad row is not to hide all others.
fn row_of(reader: &Reader, job: &Finished) -> Option<JobRow> {
    let damage = match serde_json::from_str(&job.row) {
        Ok(row) => return Some(row),
        Err(damage) => damage,
    };
    let made = super::rows::again(reader, JobId(job.id));
    let made = made.map(|made| serde_json::from_str(&made?.row).ok());
    match &made {
        Ok(Some(_)) => {
            tracing::warn!(job = job.id, %damage, "a stored row is made again of its records")
        }
        Ok(None) => {
            tracing::error!(job = job.id, %damage, "a stored row cannot be made again: its records do not end")
        }
        Err(error) => {
            let why = super::chain(error);
            tracing::error!(job = job.id, %damage, "a stored row cannot be made again: {why}");
        }
    }
    made.ok().flatten()
}

/// Whether a row that was made again is one that the journal was asked for.
fn is_meant(request: &ListRequest, row: &JobRow) -> bool {
    let result = |result: &JobResult| row.result.as_ref() == Some(result);
    request.user.is_none_or(|user| user == row.userid)
        && request.name.as_ref().is_none_or(|name| *name == row.name)
        && (request.results.is_empty() || request.results.iter().any(result))
        && request
            .since
            .is_none_or(|since| row.t_inactive.is_some_and(|t| t >= since))
}

/// Whether it asks for all that the journal finds for it.
fn takes_all(request: &ListRequest) -> bool {
    request.name.is_none()
        && request.results.is_empty()
        && request.jobs.len() <= IDS_MAX
        && request.queue.is_none()
        && request.queues.is_empty()
        && request.account.is_none()
        && request.job_set.is_none()
}

/// The rows that are asked for of those that may not be written: they ended last, so they come first. And
/// the numbers of all of them, since some may be written meanwhile.
fn newest(
    request: &ListRequest,
    filter: &Filter,
    late: Late<'_>,
) -> Result<(Vec<JobRow>, BTreeSet<u64>), Why> {
    let known = late.iter().map(|job| job.id).collect();
    let mut late: Vec<&Arc<Finished>> = late.iter().filter(|job| filter.takes(job)).collect();
    late.sort_by_key(|job| std::cmp::Reverse((job.t_inactive, job.id)));
    let mut rows = Vec::new();
    for job in late {
        let row: JobRow = serde_json::from_str(&job.row)?;
        if matches(request, &row) {
            rows.push(row);
        }
    }
    Ok((rows, known))
}

fn filter(request: &ListRequest) -> Filter {
    let ids = match request.jobs.len() {
        0 => Vec::new(),
        few if few <= IDS_MAX => request
            .jobs
            .ranges
            .iter()
            .flat_map(|(first, last)| first.0..=last.0)
            .collect(),
        _ => Vec::new(),
    };
    Filter {
        ids,
        user: request.user,
        name: request.name.clone(),
        results: request
            .results
            .iter()
            .map(|result| result_name(*result).to_owned())
            .collect(),
        since: request.since.map(|since| since.0),
        before: request.behind.map(|over| Cursor {
            t_inactive: over.t.0,
            id: over.id.0,
        }),
        limit: 0,
    }
}

fn matches(request: &ListRequest, row: &JobRow) -> bool {
    (request.jobs.is_empty() || request.jobs.contains(row.id))
        && request
            .queue
            .as_ref()
            .is_none_or(|queue| *queue == row.queue || is_unnamed(queue, row))
        && (request.queues.is_empty() || request.queues.contains(&row.queue))
        && request
            .account
            .as_ref()
            .is_none_or(|account| *account == row.account)
        && request
            .job_set
            .as_ref()
            .is_none_or(|set| *set == row.job_set)
}

/// Whether jobs that name no queue are asked for, and it is one. Rows do not tell which of those are in no
/// queue at all.
fn is_unnamed(queue: &str, row: &JobRow) -> bool {
    queue == UNNAMED && row.queue.is_empty()
}

/// The word for a result in the journal's rows.
pub fn result_name(result: JobResult) -> &'static str {
    match result {
        JobResult::Completed => "completed",
        JobResult::Failed => "failed",
        JobResult::Canceled => "canceled",
        JobResult::Timeout => "timeout",
    }
}

type Lines = Vec<(Option<JobId>, EventsLine)>;

fn records(reader: &Reader, seqs: &[Seq]) -> Result<Lines, Why> {
    let mut lines = Vec::with_capacity(seqs.len());
    let mut rest = seqs;
    while let Some(first) = rest.first() {
        // Neighbours are read together: those of one job mostly are.
        let run = rest
            .iter()
            .zip(first.0..)
            .take_while(|(seq, at)| seq.0 == *at)
            .count();
        let last = first.0 + run as u64 - 1;
        let read = reader.from_seq(first.0, run as u32)?;
        let read = read.into_iter().filter(|row| row.seq <= last);
        lines.extend(read.flat_map(lines_of));
        rest = &rest[run..];
    }
    Ok(lines)
}

fn range(reader: &Reader, from: Seq, count: u32) -> Result<Lines, Why> {
    let (mut lines, mut bytes) = (Lines::new(), 0);
    reader.from_seq_while(from.0, count, |row| {
        let told = lines_of(row);
        lines.extend(told.inspect(|(_, line)| {
            let context = line.context.as_ref();
            bytes += context.map_or(0, |context| context.get().len());
        }));
        bytes < RANGE_BYTES
    })?;
    Ok(lines)
}

fn lines_of(row: Row) -> impl Iterator<Item = (Option<JobId>, EventsLine)> {
    let job = (row.job > 0).then_some(JobId(row.job));
    let told = Told {
        version: row.version,
        line: EventsLine {
            seq: Seq(row.seq),
            timestamp: Time(row.t),
            name: row.name.into_owned(),
            context: EventsLine::raw(row.context),
        },
    };
    told.lines().into_iter().map(move |line| (job, line))
}

/// A text by its hash alone: the newest copy.
fn blob(reader: &Reader, hash: &Hash) -> Result<Option<Bytes>, Why> {
    let mut seq = reader.counts()?.last_seq;
    loop {
        match reader.blob(seq, &hash.0) {
            Ok(bytes) => return Ok(Some(bytes.into())),
            // One that is lost may be whole in an earlier generation.
            Err(ReadError::NoBlob { .. } | ReadError::LostBlob { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match seq.checked_sub(GENERATION) {
            Some(earlier) => seq = earlier,
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use eddy_wire::services::job::JobSet;

    use super::*;
    use crate::journal::{Batch, Journal, Options, Recover, Sync};

    /// A journal with so many jobs that are over, every tenth by the name of `rare`.
    fn journal(dir: &std::path::Path, jobs: u64) -> Journal {
        let options = Options {
            sync: Sync::Normal,
            recover: Recover::Refuse,
            ballast_bytes: 0,
            size_max: None,
        };
        let (mut journal, _) = Journal::open(dir, &options).expect("a journal");
        let row = |id: u64| Row {
            seq: id,
            t: id as i64,
            job: id,
            name: "clean".into(),
            version: 3,
            context: String::new(),
        };
        let finished = |id: u64| Finished {
            id,
            user: 7,
            key: [0; 16],
            name: if id.is_multiple_of(10) { "rare" } else { "x" }.to_owned(),
            result: "completed".to_owned(),
            t_submit: 1,
            t_inactive: 1_000 + id as i64,
            events: vec![id],
            row: row_of(id),
        };
        let batch = Batch {
            rows: (1..=jobs).map(row).collect(),
            finished: (1..=jobs).map(|id| finished(id).into()).collect(),
            ..Batch::default()
        };
        journal.commit(batch).expect("committed");
        journal
    }

    fn row_of(id: u64) -> String {
        let (job_set, t) = (format!("s{}", id % 2), 1_000 + id);
        let row = serde_json::json!({
            "id": id, "name": "x", "userid": 7, "state": "INACTIVE", "result": null,
            "returncode": 0, "status": 0, "attempt": 1, "queue": "", "job_set": job_set,
            "urgency": 16, "priority": null, "reason": "", "nnodes": 1, "ncores": 1, "ngpus": 0,
            "ntasks": 1, "nodelist": "", "duration": null, "t_submit": 1, "t_alloc": null,
            "t_run": null, "t_finish": null, "t_inactive": t,
        });
        row.to_string()
    }

    /// However rare they are, and however many are asked for: so many rows are looked through at a time.
    #[test]
    fn rows_are_looked_for_in_portions() {
        let dir = tempfile::tempdir().expect("a directory");
        let _journal = journal(dir.path(), 5_000);
        let reader = Reader::open(dir.path()).expect("a reader");
        let all = |mut request: ListRequest| {
            let (mut ids, mut portions) = (Vec::new(), 0);
            loop {
                let (found, more) = rows(&reader, &request, &[]).expect("rows");
                portions += 1;
                ids.extend(found.iter().map(|row| row.id.0));
                match more {
                    Some(behind) => request.behind = Some(behind),
                    None => return (ids, portions),
                }
            }
        };
        let down = |step: usize, first: u64| (1..=first).rev().step_by(step).collect::<Vec<_>>();
        let asked = ListRequest::default;
        assert_eq!(all(asked()), (down(1, 5_000), 3));
        let set = ListRequest {
            job_set: Some("s0".to_owned()),
            ..asked()
        };
        assert_eq!(all(set), (down(2, 5_000), 3));
        let name = ListRequest {
            name: Some("rare".to_owned()),
            ..asked()
        };
        assert_eq!(all(name.clone()), (down(10, 5_000), 3));
        let first = ListRequest { limit: 3, ..name };
        assert_eq!(all(first), (vec![5_000, 4_990, 4_980], 1));
        let named = ListRequest {
            jobs: JobSet::of([1, 3_000, 9_000].map(JobId)),
            ..asked()
        };
        assert_eq!(all(named), (vec![3_000, 1], 1));
    }

    #[test]
    fn a_range_of_long_records_is_read_in_parts() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut journal = journal(dir.path(), 2);
        let row = |seq: u64| Row {
            seq,
            t: 1,
            job: 0,
            name: "memo".into(),
            version: 3,
            context: format!(r#"{{"x":"{}"}}"#, "y".repeat(RANGE_BYTES / 2)),
        };
        let batch = Batch {
            rows: (3..=6).map(row).collect(),
            ..Batch::default()
        };
        journal.commit(batch).expect("committed");
        let reader = Reader::open(dir.path()).expect("a reader");
        let seqs = |from| -> Vec<u64> {
            let lines = range(&reader, Seq(from), 512).expect("lines");
            lines.iter().map(|(_, line)| line.seq.0).collect()
        };
        assert_eq!(seqs(1), [1, 2, 3, 4]);
        assert_eq!(seqs(5), [5, 6]);
    }
}
