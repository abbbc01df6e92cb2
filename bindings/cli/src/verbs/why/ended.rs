//! What `eddy why` tells of a job that did not end well: how, where, when, by whom, and where its output is.
//!
//! The rows say most of it; who ended it is in its event log, where its output goes in its jobspec. What may not be
//! read, as the jobspec of another user, is left out.

use std::collections::BTreeMap;

use eddy_client::{Client, ClientError, EventFeed};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Jobspec;
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::services::job::{Info, InfoKey, InfoRequest, JobRow};
use eddy_wire::template::{Names, expand, is_per_task};
use eddy_wire::time::Span;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::names::Users;
use crate::table::escaped;
use crate::{signals, when};

/// The file whose output nobody has.
const DROPPED: &str = "none";
/// How the reason of a job begins that lost a node: no user raises it.
const NODE_FAILURE: &str = "node-failure: ";
/// How the note of such a reason ends where it is the queue instance that a job was in that is over.
const INSTANCE_ENDED: &str = " ended";
/// Of so many jobs it is asked at a time: each costs two questions.
const ASKED_MAX: usize = 16;

/// What the row of a job does not say of its end.
#[derive(Default)]
pub struct Ended {
    /// The user who ended it, where one did.
    by: Option<u32>,
    /// Where its output is: files, or the instance that keeps it; nothing where that may not be known.
    output: Option<Output>,
    /// The command that shows what the instance keeps of it.
    shows: String,
}

/// Where the output of a job is.
struct Output {
    stdout: Sink,
    stderr: Sink,
}

/// Where one stream of a job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sink {
    /// The instance keeps it; of standard error also what goes where standard output does.
    Kept,
    /// Nobody has it.
    Dropped,
    File(String),
}

impl Sink {
    fn file(&self) -> Option<&str> {
        match self {
            Sink::File(path) => Some(path),
            Sink::Kept | Sink::Dropped => None,
        }
    }
}

/// What of an exception is asked for.
#[derive(Deserialize)]
struct Raised {
    #[serde(rename = "type")]
    kind: String,
    severity: u8,
    #[serde(default)]
    note: String,
    userid: Option<u32>,
}

impl Raised {
    /// As the row of a job says what ended it.
    fn is_reason_of(&self, row: &JobRow) -> bool {
        let separator = if self.note.is_empty() { "" } else { ": " };
        self.severity == 0 && row.reason == format!("{}{separator}{}", self.kind, self.note)
    }
}

/// Of those that are over and did not end well; `shows` is the command for what the instance keeps of one's output.
pub async fn told_of(
    client: &Client,
    rows: &[JobRow],
    shows: impl Fn(JobId) -> String,
) -> anyhow::Result<BTreeMap<JobId, Ended>> {
    let (mut told, mut asked) = (BTreeMap::new(), JoinSet::new());
    for row in rows.iter().filter(|row| is_bad(row)) {
        if asked.len() == ASKED_MAX {
            let one = asked.join_next().await.expect("some are asked about");
            told.extend([one??]);
        }
        let (client, row, shows) = (client.clone(), row.clone(), shows(row.id));
        asked.spawn(async move { one(&client, &row, shows).await.map(|one| (row.id, one)) });
    }
    while let Some(one) = asked.join_next().await {
        told.extend([one??]);
    }
    Ok(told)
}

async fn one(client: &Client, row: &JobRow, shows: String) -> Result<Ended, ClientError> {
    Ok(Ended {
        by: or_none(by_whom(client, row).await)?,
        output: or_none(output(client, row).await)?,
        shows,
    })
}

fn is_bad(row: &JobRow) -> bool {
    let is_over = row.state == JobState::Inactive && row.t_unended.is_none();
    is_over && row.result.is_some_and(|how| how != JobResult::Completed)
}

/// Nothing where that is refused, as it is by who only reads what an instance left.
fn or_none<T>(found: Result<Option<T>, ClientError>) -> Result<Option<T>, ClientError> {
    match found {
        Err(ClientError::Refused(_)) => Ok(None),
        found => found,
    }
}

async fn by_whom(client: &Client, row: &JobRow) -> Result<Option<u32>, ClientError> {
    if row.reason.is_empty() {
        return Ok(None);
    }
    let mut feed = EventFeed::so_far(client, row.id)?;
    while let Some(lines) = feed.next().await? {
        let raised = lines.iter().filter(|line| line.name == "exception");
        let mut raised = raised.filter_map(|line| {
            let context = line.context.as_ref()?.get();
            serde_json::from_str::<Raised>(context).ok()
        });
        if let Some(raised) = raised.find(|raised| raised.is_reason_of(row)) {
            return Ok(raised.userid);
        }
    }
    Ok(None)
}

async fn output(client: &Client, row: &JobRow) -> Result<Option<Output>, ClientError> {
    let (id, key) = (row.id, InfoKey::Jobspec);
    let reply = client.call::<Info>(&InfoRequest { id, key }).await?;
    let Ok(spec) = serde_json::from_value::<Jobspec>(reply.document) else {
        return Ok(None);
    };
    let cwd = spec.attributes.system.cwd.as_deref().unwrap_or_default();
    let sink = |stream: &str| {
        let path = spec.shell_option(&format!("output.{stream}.path"));
        sink(row, cwd, path.and_then(Value::as_str))
    };
    Ok(Some(Output {
        stdout: sink("stdout"),
        stderr: sink("stderr"),
    }))
}

/// Where a stream with that path goes. Of more than one task or node the name is as it was given.
fn sink(row: &JobRow, cwd: &str, path: Option<&str>) -> Sink {
    let f58 = row.id.f58();
    let names = Names {
        job: row.id.0,
        job_f58: &f58,
        attempt: row.attempt.0,
        name: &row.name,
        task: 0,
        host: &row.nodelist,
        node: 0,
    };
    placed((row.nnodes, row.ntasks), &names, cwd, path)
}

fn placed((nodes, tasks): (u32, u32), names: &Names<'_>, cwd: &str, path: Option<&str>) -> Sink {
    let path = match path {
        None => return Sink::Kept,
        Some(DROPPED) => return Sink::Dropped,
        Some(path) => path,
    };
    let is_one = nodes <= 1 && (tasks <= 1 || !is_per_task(path));
    let expanded = expand(path, names).ok().filter(|_| is_one);
    let path = expanded.unwrap_or_else(|| path.to_owned());
    Sink::File(match path.starts_with('/') || cwd.is_empty() {
        true => path,
        false => format!("{}/{path}", cwd.trim_end_matches('/')),
    })
}

/// The lines of one that ended so.
pub fn lines(row: &JobRow, ended: &Ended, users: &Users) -> Vec<String> {
    let mut words = vec![how(row, ended, users)];
    if !row.nodelist.is_empty() {
        words.push(format!("on {}", escaped(&row.nodelist)));
    }
    if let Some(at) = row.t_finish.or(row.t_inactive) {
        words.push(format!("at {}", when::local(at)));
        if let Some(begun) = row.t_run {
            let after = when::short(Span((at - begun).0));
            words.push(format!("({after} after it began)"));
        }
    }
    let mut lines = vec![format!("  ended:  {}", words.join(" "))];
    // What never ran wrote nothing.
    let may_have_run = row.t_run.is_some() || is_lost(row);
    let output = ended.output.as_ref().filter(|_| may_have_run);
    lines.extend(output.map(|output| format!("  output: {}", said(output, &ended.shows))));
    lines
}

/// What ended it, in words.
fn how(row: &JobRow, ended: &Ended, users: &Users) -> String {
    match row.result {
        Some(JobResult::Timeout) => match row.duration {
            Some(limit) => {
                let limit = when::short(Span((limit * 1e6) as i64));
                format!("at its time limit of {limit}")
            }
            None => "at its time limit".to_owned(),
        },
        Some(JobResult::Canceled) => match ended.by {
            Some(by) => format!("cancelled by user {}", escaped(&users.name(by))),
            None => "cancelled by the instance".to_owned(),
        },
        Some(JobResult::Failed | JobResult::Completed) | None => failed(row),
    }
}

fn failed(row: &JobRow) -> String {
    if is_lost(row) {
        return lost(row);
    }
    if row.t_run.is_none() {
        return "before its tasks ran".to_owned();
    }
    let tasks = match row.ntasks {
        0 | 1 => "its task",
        _ => "one of its tasks or more",
    };
    let status = row.status.unwrap_or_default();
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, 0) => "by what its reason says".to_owned(),
        (0, code) => format!("as {tasks} ended with exit code {code}"),
        (signal, _) => {
            let name = signals::named(signal);
            let name = name.map_or_else(String::new, |name| format!(" ({name})"));
            format!("as {tasks} was ended by signal {signal}{name}")
        }
    }
}

fn is_lost(row: &JobRow) -> bool {
    row.reason.starts_with(NODE_FAILURE)
}

/// What its tasks ended with nobody has seen: that is put in where they were lost. Some may have run where not all
/// were heard of before.
fn lost(row: &JobRow) -> String {
    // With a queue instance go the nodes that its jobs had of it, which are there all the same.
    let note = row.reason.trim_start_matches(NODE_FAILURE);
    if note.ends_with(INSTANCE_ENDED) {
        return format!("as {}", escaped(note));
    }
    let node = match row.nnodes {
        0 | 1 => "its node",
        _ => "one of its nodes",
    };
    match row.t_run {
        Some(_) => format!("as {node} was lost"),
        None => format!("as {node} was lost before all its tasks were known to run"),
    }
}

fn said(output: &Output, shows: &str) -> String {
    let words = |sink: &Sink| match sink {
        Sink::Kept => shows.to_owned(),
        Sink::Dropped => "dropped".to_owned(),
        Sink::File(path) => escaped(path).into_owned(),
    };
    let out = words(&output.stdout);
    match &output.stderr {
        Sink::Kept => out,
        err => format!("{out}, of standard error {}", words(err)),
    }
}

/// The same as data.
pub fn object(row: &JobRow, ended: &Ended) -> Value {
    let output = ended.output.as_ref();
    json!({
        "t": row.t_finish.or(row.t_inactive),
        "status": row.status,
        "returncode": row.returncode,
        "nodelist": row.nodelist,
        "by": ended.by,
        "stdout": output.and_then(|output| output.stdout.file()),
        "stderr": output.and_then(|output| output.stderr.file()),
    })
}

#[cfg(test)]
mod tests {
    use eddy_wire::time::Time;

    use super::*;

    #[test]
    fn who_lost_a_node_may_have_run_on_others() {
        let told = |nnodes, t_run| {
            failed(&JobRow {
                nnodes,
                t_run,
                reason: format!("{NODE_FAILURE}: burnt"),
                ..crate::field::tests::row()
            })
        };
        assert_eq!(told(1, Some(Time(1))), "as its node was lost");
        assert_eq!(
            told(2, None),
            "as one of its nodes was lost before all its tasks were known to run"
        );
    }

    #[test]
    fn who_was_in_an_instance_that_ended_lost_no_node() {
        for note in ["its queue instance ended", "small (job f2) ended"] {
            let row = JobRow {
                t_run: Some(Time(1)),
                reason: format!("{NODE_FAILURE}{note}"),
                ..crate::field::tests::row()
            };
            assert_eq!(failed(&row), format!("as {note}"));
        }
    }

    #[test]
    fn output_is_where_the_shell_put_it() {
        let names = Names {
            job: 905,
            job_f58: "fGb",
            attempt: 1,
            name: "train",
            task: 0,
            host: "n7",
            node: 0,
        };
        let of = |path| placed((1, 1), &names, "/data/", path);
        let file = |path: &str| Sink::File(path.to_owned());
        assert_eq!(of(None), Sink::Kept);
        assert_eq!(of(Some("none")), Sink::Dropped);
        assert_eq!(of(Some("/tmp/out")), file("/tmp/out"));
        assert_eq!(
            of(Some("eddy-{{id}}.{{name}}")),
            file("/data/eddy-905.train")
        );
        let many = placed((1, 2), &names, "", Some("{{taskid}}"));
        assert_eq!(many, file("{{taskid}}"));
        let dropped = Output {
            stdout: Sink::Kept,
            stderr: Sink::Dropped,
        };
        let shows = "eddy job attach 7/f2";
        assert_eq!(
            said(&dropped, shows),
            "eddy job attach 7/f2, of standard error dropped"
        );
    }
}
