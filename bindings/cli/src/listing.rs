//! Which jobs a listing asks for, and its rows as they come.
//!
//! Used by `jobs`, `job last` and the demo. One listing may be
//! several requests, because the conditions of one request hold together while
//! `-f running,failed` means either.

use std::collections::{BTreeSet, VecDeque};

use anyhow::bail;
use eddy_client::owners::owners;
use eddy_client::{Client, ClientError};
use eddy_wire::ending::Ends;
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::queue::UNNAMED;
use eddy_wire::services::account::List as Accounts;
use eddy_wire::services::job::{Detail, Ended, JobEnd, JobRow, JobSet, List, ListRequest, Over};
use eddy_wire::services::queue::List as Queues;
use eddy_wire::services::usage;
use eddy_wire::time::Time;
use serde_json::{Map, Value, json};

use crate::names::Users;

/// How many queues an error tells.
const QUEUES_TOLD: usize = 16;
/// So many of those that are over are asked for at a time: an answer nobody has read yet has a limit.
const PAGE: u32 = 20_000;

/// States and results that a listing wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// In any of these states.
    pub states: Vec<JobState>,
    /// Or over with any of these results.
    pub results: Vec<JobResult>,
}

const PENDING: &[JobState] = &[JobState::Depend, JobState::Priority, JobState::Sched];
const RUNNING: &[JobState] = &[JobState::Run, JobState::Cleanup];
const ACTIVE: &[JobState] = &[
    JobState::New,
    JobState::Depend,
    JobState::Priority,
    JobState::Sched,
    JobState::Run,
    JobState::Cleanup,
];

/// The states that a word names; none if it is not one.
fn states(word: &str) -> Option<&'static [JobState]> {
    Some(match word {
        "new" => &[JobState::New],
        "depend" => &[JobState::Depend],
        "priority" => &[JobState::Priority],
        "sched" => &[JobState::Sched],
        "run" => &[JobState::Run],
        "cleanup" => &[JobState::Cleanup],
        "inactive" => &[JobState::Inactive],
        "pending" => PENDING,
        "running" => RUNNING,
        "active" => ACTIVE,
        "all" => &JobState::ALL,
        _ => return None,
    })
}

fn result(word: &str) -> Option<JobResult> {
    Some(match word {
        "completed" => JobResult::Completed,
        "failed" => JobResult::Failed,
        "canceled" | "cancelled" => JobResult::Canceled,
        "timeout" => JobResult::Timeout,
        _ => return None,
    })
}

impl Filter {
    /// Jobs that are not over.
    pub fn active() -> Filter {
        Filter {
            states: ACTIVE.to_vec(),
            results: Vec::new(),
        }
    }

    /// All jobs.
    pub fn all() -> Filter {
        Filter {
            states: JobState::ALL.to_vec(),
            results: Vec::new(),
        }
    }

    /// What `-f` and `-S` take: words with commas between.
    pub fn parse(text: &str) -> anyhow::Result<Filter> {
        let mut filter = Filter::default();
        for word in text.split(',').map(|word| word.trim().to_ascii_lowercase()) {
            match (states(&word), result(&word)) {
                (Some(states), _) => filter.states.extend(states),
                (None, Some(result)) => filter.results.push(result),
                (None, None) => bail!(
                    "`{word}` is not a state or result; allowed are depend priority sched run cleanup inactive pending running active all completed failed canceled timeout"
                ),
            }
        }
        Ok(filter)
    }
}

/// What a listing asks for.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Which states and results.
    pub filter: Filter,
    /// Only these jobs; all when empty.
    pub jobs: JobSet,
    /// Only of this user.
    pub user: Option<u32>,
    /// Only with this name.
    pub name: Option<String>,
    /// Only in this queue.
    pub queue: Option<String>,
    /// Only charged to this account.
    pub account: Option<String>,
    /// Only of this set of jobs.
    pub job_set: Option<String>,
    /// Of those that are over, only the ones over since then.
    pub since: Option<Time>,
    /// Asked of a queue instance: only what is in it.
    pub here: bool,
    /// At most so many; 0 is no limit.
    pub limit: u32,
    /// How much each row tells.
    pub detail: Detail,
}

impl Question {
    /// All jobs of a set, also those that are over: of whoever asks, since two users may have sets of one name, and
    /// of all for user 0, who acts on all of them by that name, too.
    pub fn of_set(name: String) -> Question {
        let own = rustix::process::getuid();
        Question {
            filter: Filter::all(),
            user: (!own.is_root()).then_some(own.as_raw()),
            job_set: Some(name),
            ..Question::default()
        }
    }

    fn requests(&self) -> Vec<ListRequest> {
        let with =
            |states: Vec<JobState>, results: &[JobResult], since: Option<Time>| ListRequest {
                jobs: self.jobs.clone(),
                states,
                results: results.to_vec(),
                user: self.user,
                name: self.name.clone(),
                queue: self.queue.clone(),
                account: self.account.clone(),
                job_set: self.job_set.clone(),
                since,
                limit: self.limit,
                here: self.here,
                detail: self.detail,
                ..ListRequest::default()
            };
        let over = |state: &JobState| *state == JobState::Inactive;
        let (ended, active): (Vec<JobState>, Vec<JobState>) =
            self.filter.states.iter().copied().partition(over);
        let mut requests = Vec::new();
        if !active.is_empty() {
            requests.push(with(active, &[], None));
        }
        if !ended.is_empty() {
            requests.push(with(ended, &[], self.since));
        } else if !self.filter.results.is_empty() {
            requests.push(with(
                vec![JobState::Inactive],
                &self.filter.results,
                self.since,
            ));
        }
        requests
    }

    /// Gives each row to `each`, in the order of the listing: waiting jobs by
    /// their place in the queue, then running, then ended ones, latest first.
    pub async fn ask(
        &self,
        client: &Client,
        mut each: impl FnMut(JobRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut pages = self.pages(client);
        while let Some(rows) = pages.next().await? {
            rows.into_iter().try_for_each(&mut each)?;
        }
        Ok(())
    }

    /// The same by pages: all that are not over, then so many at a time that are.
    pub fn pages<'a>(&self, client: &'a Client) -> Pages<'a> {
        Pages {
            client,
            left: match self.limit {
                0 => u64::MAX,
                limit => limit.into(),
            },
            seen: BTreeSet::new(),
            requests: self.requests().into(),
        }
    }

    /// What it names that nothing here has, of its set, queue and account; asked where it has no rows, since
    /// a name that was mistyped lists as nothing as one that there are no jobs of. What is there no more
    /// and has jobs yet is known by them, whosever they are.
    pub async fn unknown(&self, client: &Client) -> anyhow::Result<Option<String>> {
        if let Some(set) = named(&self.job_set) {
            let of_set = Question {
                job_set: self.job_set.clone(),
                ..Question::default()
            };
            if !of_set.finds_any(client).await? {
                let set = set.escape_debug();
                return Ok(Some(format!(
                    "--job-set: `{set}` given, there are no jobs of that set"
                )));
            }
        }
        if let Some(queue) = named(&self.queue)
            && let Some(there) = other_queues(client, queue).await?
        {
            let in_queue = Question {
                queue: self.queue.clone(),
                ..Question::default()
            };
            if !in_queue.finds_any(client).await? {
                let queue = queue.escape_debug();
                return Ok(Some(format!("--queue: `{queue}` given, {there}")));
            }
        }
        if let Some(account) = named(&self.account) {
            let book = client.call::<Accounts>(&()).await?.book();
            let charged = Question {
                account: self.account.clone(),
                ..Question::default()
            };
            if let Err(unknown) = book.named("--account", account)
                && !charged.finds_any(client).await?
            {
                return Ok(Some(unknown.to_string()));
            }
        }
        Ok(None)
    }

    /// Whether there is such a job in any state.
    async fn finds_any(self, client: &Client) -> anyhow::Result<bool> {
        let first = Question {
            filter: Filter::all(),
            limit: 1,
            ..self
        };
        Ok(!first.rows(client).await?.is_empty())
    }

    /// All rows at once.
    pub async fn rows(&self, client: &Client) -> anyhow::Result<Vec<JobRow>> {
        let mut rows = Vec::new();
        self.ask(client, |row| {
            rows.push(row);
            Ok(())
        })
        .await?;
        Ok(rows)
    }
}

/// The rows of a listing as they are asked for; it keeps none.
pub struct Pages<'a> {
    client: &'a Client,
    left: u64,
    /// One that ends between two of the requests is in the answers to both; of those that are over none is in two
    /// pages, and they may be very many.
    seen: BTreeSet<JobId>,
    requests: VecDeque<ListRequest>,
}

impl Pages<'_> {
    /// The next rows, in the order of the listing; none when all were told.
    pub async fn next(&mut self) -> anyhow::Result<Option<Vec<JobRow>>> {
        let Some(mut request) = self.requests.pop_front().filter(|_| self.left > 0) else {
            return Ok(None);
        };
        // Those that are named may be of several instances.
        let is_over = request.states == [JobState::Inactive] && request.jobs.is_empty();
        if is_over {
            request.limit = u32::try_from(self.left).map_or(PAGE, |left| left.min(PAGE));
        }
        let asked = request.limit as usize;
        let mut rows = rows_of_all(self.client, request.clone()).await?;
        let last = rows
            .last()
            .and_then(|last| Some((last.t_inactive?, last.id)));
        if let Some((t, id)) = last.filter(|_| is_over && rows.len() >= asked) {
            request.behind = Some(Over { t, id });
            self.requests.push_front(request);
        }
        rows.retain(|row| match is_over {
            true => !self.seen.contains(&row.id),
            false => self.seen.insert(row.id),
        });
        rows.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= rows.len() as u64;
        Ok(Some(rows))
    }
}

/// What an option names: an empty name is that of what has none.
fn named(option: &Option<String>) -> Option<&str> {
    option.as_deref().filter(|name| !name.is_empty())
}

/// Which queues there are, in the words that refuse a submission; nothing where this is one of them or may be.
async fn other_queues(client: &Client, queue: &str) -> anyhow::Result<Option<String>> {
    let rows = client.call::<Queues>(&()).await?;
    // A declared instance has no default: its queues are its parent's, and it knows those that were used.
    if rows.iter().any(|row| row.name == queue) || !rows.iter().any(|row| row.default) {
        return Ok(None);
    }
    let names = rows.iter().map(|row| row.name.as_str());
    let mut names: Vec<&str> = names.filter(|name| *name != UNNAMED).collect();
    let more = names.len().saturating_sub(QUEUES_TOLD);
    names.truncate(QUEUES_TOLD);
    let more = (more > 0).then(|| format!("{more} more"));
    names.extend(more.as_deref());
    Ok(Some(match names.is_empty() {
        true => "this instance has no named queues".to_owned(),
        false => format!("there are {}", names.join(", ")),
    }))
}

/// The rows of one request, which may name jobs of several instances.
async fn rows_of_all(client: &Client, request: ListRequest) -> Result<Vec<JobRow>, ClientError> {
    let error = match rows(client, request.clone()).await {
        Err(error) => error,
        rows => return rows,
    };
    let mut all = Vec::new();
    for jobs in owners(client, &request.jobs, error).await? {
        let request = ListRequest {
            jobs,
            ..request.clone()
        };
        all.extend(rows(client, request).await?);
    }
    Ok(all)
}

/// The rows of one request; asked again from the beginning after a restart of
/// the leader, so kept until all have come.
async fn rows(client: &Client, request: ListRequest) -> Result<Vec<JobRow>, ClientError> {
    loop {
        let mut parts = client.stream::<List>(&request)?;
        let mut rows = Vec::new();
        loop {
            match parts.next().await {
                Some(Ok((part, _))) => rows.extend(part),
                Some(Err(ClientError::Lost { .. })) => break,
                Some(Err(error)) => return Err(error),
                None => return Ok(rows),
            }
        }
    }
}

/// How all jobs ended that are over, also those that are forgotten, if the instance tells that.
///
/// # Errors
/// It does not answer.
pub async fn ended(client: &Client) -> Result<Option<Ends>, ClientError> {
    match client.call::<usage::Ended>(&()).await {
        // An earlier version is not asked that.
        Err(ClientError::Refused(_)) => Ok(None),
        answer => answer,
    }
}

/// Whether it may be without its cores: only one that runs has some to be without.
pub fn has_standing(row: &JobRow) -> bool {
    row.state == JobState::Run && row.t_unended.is_none()
}

/// The exception that ended a job, as Flux has it in JSON.
fn exception(ended: Option<&Ended>) -> Value {
    match ended {
        Some(ended) => json!({
            "occurred": true,
            "severity": ended.severity,
            "type": ended.kind,
            "note": ended.note,
        }),
        None => json!({"occurred": false}),
    }
}

/// How a job ended as `--json` shows it, with the exception as in its row.
pub fn end_to_json(end: &JobEnd) -> Value {
    let ended = end.exception.as_deref().map(|said| {
        // A type has no blanks, so this is the first colon before one.
        let (kind, note) = said.split_once(": ").unwrap_or((said, ""));
        Ended {
            kind: kind.to_owned(),
            // No other ends a job.
            severity: 0,
            note: note.to_owned(),
        }
    });
    json!({
        "id": end.id,
        "result": end.result,
        "returncode": end.returncode,
        "exception": exception(ended.as_ref()),
    })
}

/// A row as `--json` shows it: the fields of eddy-jobs(1).
pub fn to_json(row: &JobRow, users: &Users) -> Value {
    let Value::Object(fields) = serde_json::to_value(row).expect("a row is JSON") else {
        panic!("a row is an object");
    };
    let mut object = Map::new();
    for (name, value) in fields {
        let after = match name.as_str() {
            "id" => Some(("f58", row.id.f58_ascii())),
            "userid" => Some(("user", users.name(row.userid))),
            _ => None,
        };
        // Of one that does not run it says nothing.
        let value = match name.as_str() {
            "exception" | "dependencies" | "key" | "cwd" => continue,
            "standing" if !has_standing(row) => Value::Null,
            _ => value,
        };
        object.insert(name, value);
        if let Some((name, value)) = after {
            object.insert(name.to_owned(), value.into());
        }
    }
    // Those that a row leaves out where there is none are in every object.
    object.insert("exception".to_owned(), exception(row.exception.as_ref()));
    object.insert("dependencies".to_owned(), json!(row.dependencies));
    object.insert("key".to_owned(), json!(row.key));
    object.insert("cwd".to_owned(), json!(row.cwd));
    object.insert("t_unended".to_owned(), json!(row.t_unended));
    object.insert("is_instance".to_owned(), json!(row.is_instance));
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_results_are_words_with_commas() {
        let filter = Filter::parse("pending,Failed").expect("words");
        assert_eq!(
            filter,
            Filter {
                states: PENDING.to_vec(),
                results: vec![JobResult::Failed]
            }
        );
        assert!(Filter::parse("pending,bogus").is_err() && Filter::parse("").is_err());
    }

    #[test]
    fn only_what_runs_has_a_standing() {
        let standing = |state| {
            let row = JobRow {
                state,
                ..crate::field::tests::row()
            };
            to_json(&row, &Users::read())["standing"].clone()
        };
        assert_eq!(standing(JobState::Run), "runs");
        for state in [JobState::Sched, JobState::Cleanup, JobState::Inactive] {
            assert_eq!(standing(state), Value::Null);
        }
    }

    #[test]
    fn active_jobs_and_ended_ones_are_asked_for_apart() {
        let ask = |filter: Filter| {
            let question = Question {
                filter,
                since: Some(Time(5)),
                ..Question::default()
            };
            question.requests()
        };
        let all = ask(Filter::all());
        assert_eq!(
            (all.len(), all[0].since, all[1].since),
            (2, None, Some(Time(5)))
        );
        let failed = ask(Filter::parse("running,failed").expect("words"));
        assert_eq!(failed[0].states, RUNNING);
        assert_eq!(failed[1].results, [JobResult::Failed]);
        assert_eq!(ask(Filter::active()).len(), 1);
    }
}
