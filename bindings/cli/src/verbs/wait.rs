//! `eddy wait`: wait for the end of jobs, by their ids or by their set.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use eddy_client::{Client, ClientError, EndFeed};
use eddy_wire::error::Code;
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::{JobEnd, JobRow, JobSet, List, ListRequest};

use crate::attach::exit_code;
use crate::declared::{left_out, several, unending};
use crate::ids;
use crate::listing::{Question, end_to_json};
use crate::output;
use crate::request;
use crate::session::Global;
use crate::verbs::submit::{GATHER, progress, tell, wait_each};

/// Between two looks at an instance that ends or begins.
const BETWEEN: Duration = Duration::from_millis(250);
/// The attempt in which a job that is not known is not awaited.
const FIRST: Attempt = Attempt(1);

/// Wait for the end of jobs; exit with the highest exit code
///
/// Says which did not end well. With --job-set: for all jobs of that set that the instance knows when it
/// is asked, also those that are over by then; a set that no job is of is an error. It collects no results:
/// that is eddy job wait. A declared instance, which ends by itself never, is waited for where it is named alone, and
/// that is said; of lists, ranges and sets it is left out.
/// Where the instance of a job is requeued, the job of that number in its next attempt is waited for.
#[derive(clap::Args)]
#[command(after_long_help = CODES)]
pub struct Args {
    /// Your jobs of this set, also those that are over; user 0 waits for those of all users
    #[arg(long, value_name = "NAME", value_parser = request::job_set, conflicts_with = "ids")]
    job_set: Option<String>,
    /// One array of objects when all are over: id, result, returncode, exception (as in eddy jobs --json)
    #[arg(long)]
    json: bool,
    /// Jobs: f2JL, 1000, lists and ranges (f5-f9), copies (f5_all, f5_3), of an instance 905/f5
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

/// Flux has no command that waits for any jobs; `flux job wait` says 0, 1 and 2 alike of all that went wrong. 125 is
/// what timeout(1) and others of its kind end with where they failed themselves.
const CODES: &str = "Exit codes:
  0          all ended well
  1 to 124, 126 to 255
             the highest exit code of the jobs: that of the highest task, 128 + signal of one that was killed; of a job
             that was cancelled, ran out of its time, or never began at least 1
  2          also: the options are wrong, and nothing was asked
  125        the command failed: there is no such job or set, the instance refused, or was not reached any more. How the
             jobs end is not known by it. A job whose own exit code is 125 is told apart by --json, which
             prints nothing then";

/// The exit code where it is not the jobs that failed.
pub const FAILED: u8 = 125;

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&args.ids)?;
    let named = ids::many(ids)?;
    if named.is_empty() && args.job_set.is_none() {
        bail!("no jobs given; allowed are ids and --job-set NAME");
    }
    if let (Some((around, instance)), None) = (global.around(), &args.job_set) {
        let ends = wait_inside(global, (&around, instance), named)?;
        return told(args, ends);
    }
    let ends = global.session_again(async |client| {
        let jobs = match &args.job_set {
            None => named.clone(),
            Some(set) => {
                let question = Question::of_set(set.clone());
                let rows = question.rows(&client).await?;
                if rows.is_empty()
                    && let Some(unknown) = question.unknown(&client).await?
                {
                    bail!(unknown);
                }
                JobSet::of(rows.iter().map(|row| row.id))
            }
        };
        let (jobs, left) = several(&client, jobs).await?;
        left_out("wait", &left);
        unending(global, &client, ("wait", &jobs)).await?;
        let mut ends = Vec::new();
        if !jobs.is_empty() {
            let say = |end: &JobEnd| tell("wait", &global.job(end.id), end);
            wait_each(&client, jobs, say, |end| ends.push(end)).await?;
        }
        Ok(ends)
    })?;
    told(args, ends)
}

/// Prints how all ended where that is wanted; the highest exit code.
fn told(args: &Args, mut ends: Vec<JobEnd>) -> anyhow::Result<u8> {
    if args.json {
        ends.sort_by_key(|end| end.id);
        output::json(&ends.iter().map(end_to_json).collect::<Vec<_>>())?;
    }
    Ok(ends.iter().map(exit_code).max().unwrap_or(0))
}

/// Waits for jobs in an instance that is a job of another. One that ended since its instance is to run again
/// comes again with that, and is waited for then.
fn wait_inside(
    global: &Global,
    (around, instance): (&Global, JobId),
    mut left: JobSet,
) -> anyhow::Result<Vec<JobEnd>> {
    let mut all = Vec::new();
    // One that never began is refused by its path; one that is between two attempts comes to its jobs again.
    let first = |row: &JobRow| row.attempt == FIRST || has_begun(row);
    let mut began = around.session(async |client| row_when(&client, instance, first).await)?;
    let mut asked = match &began {
        Some(row) if row.attempt > FIRST => Asked::Again,
        Some(_) | None => Asked::First,
    };
    loop {
        let ends = RefCell::new(BTreeMap::new());
        let waited = global.session_again(async |client| gather(&client, &left, &ends).await);
        let now = around.session(async |client| settled(&client, instance).await)?;
        let attempt = |row: &Option<JobRow>| row.as_ref().map(|row| row.attempt);
        let comes_again = attempt(&now) != attempt(&began);
        let mut ends = ends.into_inner();
        ends.retain(|_, end| !comes_again || end.exception.is_none());
        for end in ends.values() {
            tell("wait", &global.job(end.id), end);
        }
        left = left.without(&ends.keys().copied().collect());
        all.extend(ends.into_values());
        match waited {
            _ if left.is_empty() => return Ok(all),
            Ok(()) if !comes_again => return Ok(all),
            // It has not come to it yet.
            Err(error) if asked == Asked::Again && is_unknown(&error) && runs(&now) => {
                std::thread::sleep(BETWEEN);
            }
            Err(error) if !comes_again => return Err(error),
            Ok(()) | Err(_) => asked = Asked::Again,
        }
        began = around.session(async |client| row_when(&client, instance, has_begun).await)?;
    }
}

/// Whether the instance of which it is asked is known to have begun anew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    First,
    Again,
}

/// Hears of the ends of all of them.
async fn gather(
    client: &Client,
    jobs: &JobSet,
    ends: &RefCell<BTreeMap<JobId, JobEnd>>,
) -> anyhow::Result<()> {
    let bar = progress(jobs.len());
    let mut feed = EndFeed::gathered(client, jobs.clone(), GATHER)?;
    while let Some(batch) = feed.next().await? {
        bar.inc(batch.len() as u64);
        let batch = batch.into_iter().map(|end| (end.id, end));
        ends.borrow_mut().extend(batch);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Whether its jobs can be asked for, or are over.
fn has_begun(row: &JobRow) -> bool {
    matches!(row.state, JobState::Run | JobState::Inactive)
}

/// The row of an instance once it does not end any more: its attempt is another then, if one follows.
async fn settled(client: &Client, instance: JobId) -> anyhow::Result<Option<JobRow>> {
    row_when(client, instance, |row| row.state != JobState::Cleanup).await
}

/// Its row once that is so; none where nothing is known of it.
async fn row_when(
    client: &Client,
    instance: JobId,
    is_so: impl Fn(&JobRow) -> bool,
) -> anyhow::Result<Option<JobRow>> {
    let request = ListRequest {
        jobs: JobSet::one(instance),
        ..ListRequest::default()
    };
    loop {
        let row = client.call::<List>(&request).await?.pop();
        if row.as_ref().is_none_or(&is_so) {
            return Ok(row);
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

fn runs(row: &Option<JobRow>) -> bool {
    row.as_ref().is_some_and(|row| row.state == JobState::Run)
}

fn is_unknown(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused(refusal)) => refusal.code == Code::NotFound,
        _ => false,
    }
}
