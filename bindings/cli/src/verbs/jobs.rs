//! `eddy jobs`: list jobs.

mod recursive;
mod streamed;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use anyhow::bail;
use eddy_client::{Client, ClientError, Options};
use eddy_wire::ending::Ends;
use eddy_wire::error::Code;
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::services::child::{ChildRow, Children, ChildrenRequest};
use eddy_wire::services::instance::{Ping, PingRequest};
use eddy_wire::services::job::{Detail, JobRow, JobSet};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::field::{Format, Scene};
use crate::ids::{self, Spelling};
use crate::listing::{Filter, Question, ended};
use crate::names::Users;
use crate::number::{ANY, number};
use crate::session::Global;
use crate::table::{Table, escaped};
use crate::{output, request, when};

/// List jobs
///
/// Without options: your jobs that are not over, waiting ones in the order of
/// the queue (urgency, then submission), then running ones; with -a ended ones behind them, latest first. In which
/// turn those that wait start is the policy's to say: eddy priority lists them so.
#[derive(clap::Args)]
#[command(after_long_help = FIELDS)]
pub struct Args {
    /// Also jobs that are over
    #[arg(short = 'a', long)]
    all: bool,
    /// Jobs of all users
    #[arg(short = 'A', long = "all-users")]
    everybody: bool,
    /// Only in these states or with these results, such as running,failed
    #[arg(short = 'f', long, value_name = "STATE|RESULT,...")]
    filter: Option<String>,
    /// Jobs of this user, by name or number
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,
    /// At most so many; 0 is all [default: 1000, and a word on standard error when there are more]
    #[arg(short = 'c', long, value_name = "N", value_parser = number(ANY))]
    count: Option<u32>,
    /// No heading
    #[arg(short = 'n', long = "no-header", visible_alias = "suppress-header")]
    no_header: bool,
    /// Names of fields, a template, or one of default, long, endreason
    #[arg(
        short = 'o',
        long,
        visible_alias = "fmt",
        value_name = "FORMAT",
        default_value = "default"
    )]
    format: String,
    /// Only with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Of ended jobs only those that ended since then: -1h, 2026-01-31, seconds since 1970
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,
    /// Only in this queue
    #[arg(short = 'q', long, value_name = "NAME")]
    queue: Option<String>,
    /// Only charged to this account
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Only of this set of jobs
    #[arg(long, value_name = "NAME", value_parser = request::job_set)]
    job_set: Option<String>,
    /// One array of objects with all fields
    #[arg(long)]
    json: bool,
    /// Print how many jobs there are of each kind, and nothing else; with --json as one object
    ///
    /// The exit code is 1 where none of them is still to come or runs, as of `flux jobs --stats-only`.
    /// Jobs that an instance that is over left without an end are unended: nothing of them is to come.
    /// With -A and nothing else that chooses, those that are forgotten (history.keep_jobs) are counted, too.
    #[arg(long, visible_alias = "stats-only")]
    stats: bool,
    /// Also the jobs of all instances in this one, with their paths
    ///
    /// Those of an instance that is over are not among them: eddy --at ID jobs -a shows them. Every
    /// other that can be asked is; one that cannot is named on standard error and makes the
    /// exit code 1. Instances of other users, which may not be asked, are named there, too, and change no exit
    /// code. Without -c the first 1000 jobs are shown; instances behind them are not asked. No ids can be given.
    #[arg(short = 'R', long, conflicts_with = "ids")]
    recursive: bool,
    /// Show ids with the path of their instance, as 905/f3
    #[arg(long)]
    path: bool,
    /// Only these jobs, also when they are over; exit code 1 if one that is named is not there
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

/// So many rows are shown where no number is given.
const SHOWN: u32 = 1000;
/// So many that are not shown are counted.
const COUNTED: u32 = 100_000;

/// So many instances that are over are asked about what is left of them.
const OVER_MAX: usize = 1000;

/// How long an instance of a queue is asked which of its jobs are instances.
const PASSED: Duration = Duration::from_secs(1);

const FIELDS: &str = "Fields of --json, null where there is none:
  id           number of the job
  f58          the same as text, in ASCII: f2JL. What is printed for people begins with ƒ where the locale has it, as
               in Flux (id.f58 and id.f58plain of -o); commands take either
  name         its name
  userid       user id of its submitter
  user         name of its submitter
  state        NEW DEPEND PRIORITY SCHED RUN CLEANUP INACTIVE
  result       COMPLETED FAILED CANCELED TIMEOUT, once it is over
  returncode   the code scripts expect, once it is over: highest of its tasks, 128+signal
  status       largest wait status of its tasks
  attempt      which run of it, from 1
  preemptions  how many of its attempts were ended for the sake of another job
  preempted    the last of them: attempt, t, by (a job), until, cause, mode, grace, why; with --json only
  queue        its queue; empty for the instance's only one
  account qos class
               whom it is charged to, and as what; empty for none, or the policy's default
  job_set      the set of jobs it belongs to; empty is none
  urgency      0 (held) to 31
  priority     its place in the queue: larger is earlier
  reason       why it waits, or the exception that ended it
  nnodes ncores ngpus ntasks
               what it holds, or asks for
  nodelist     the hosts it is or was on (RFC 29)
  standing     of one that runs: runs, stopping, suspended (eddy suspend), resuming
  suspended    how long it was suspended, in seconds, until it last went on
  duration     its time limit in seconds
  t_submit t_alloc t_run t_finish t_inactive t_suspend
               when it was submitted, got resources, had started, had ended, was over, was suspended:
               seconds since 1970 with fraction
  t_unended    of one without an end in an instance that is over: the last moment that one recorded
  exception    as in Flux: occurred, and where it did severity, type, note of the exception that ended it; --json only
  dependencies what it still waits for, a list of texts such as after-success=f5; --json only
  key          of its submission, which its copies have, too (eddy submit --key); --json only
  cwd          the working directory of its tasks; --json only
  is_instance  whether it is an instance, of which `instance` tells more
  path         with -R: of its instance; empty is the root
  instance     null, or for a job that is an instance: id, uri, statedir, stage (waiting starting
               serving away ending over), queues, summary (pending running completed failed
               cores_used instances); of those that are over, of the first 1000 listed

Fields of -o: these and id.f58 id.f58plain id.dec id.hex id.dothex username state_single
  status (a state, SUSPENDED, the result, or UNENDED: its instance was over before it) status_abbrev
  result_abbrev waitstatus runtime contextual_time contextual_info t_cleanup bank uri path
  instance.X with X of id uri statedir stage summary pending running completed failed cores_used
  instances. contextual_info is the reason or the hosts, and of one that waits again since its attempt was ended for
  another job that first (preempted for job f5; ...). In a template, {name:>12.12} is right in 12 columns and cut to 12 characters; !F shows a length of time with a unit, !H as H:MM:SS,
  !d an instant as date and time.";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let users = Users::read();
    if args.recursive {
        return global.session(async |client| recursive::run(global, client, args, users).await);
    }
    let (global, ids) = &global.inside(&args.ids)?;
    let question = question(args, ids, &users)?;
    let format = Format::parse(&args.format)?;
    if args.json && !args.stats {
        return streamed::run(global, &question, (ids, &users));
    }
    global.session_again(async |client| {
        let mut rows = question.rows(&client).await?;
        if rows.is_empty()
            && let Some(unknown) = question.unknown(&client).await?
        {
            bail!(unknown);
        }
        // Nobody asked for a number of them: one more than is shown was asked for.
        if question.limit == SHOWN + 1 && rows.len() > SHOWN as usize {
            rows.truncate(SHOWN as usize);
            let more = more(&question, &client).await?;
            eprintln!("eddy jobs: {SHOWN} jobs are shown and {more} more are not: -c 0 shows all");
        }
        let listed = rows.iter().map(|row| row.id).collect();
        let code = known(&client, ids, &listed).await?;
        if args.stats {
            let ends = match is_of_all(args) {
                true => ended(&client).await?,
                false => None,
            };
            let counted = stats(&rows);
            tell_stats(args, ends.map_or(counted, |ends| with_ends(counted, ends)))?;
            return Ok(match rows.iter().any(is_to_come) {
                true => code,
                false => output::FAILED,
            });
        }
        let children = children_and_passed(&client, &rows).await?;
        let scene = Scene {
            users: users.clone(),
            now: when::now(),
            spelling: Spelling::of_locale(),
            children,
            path: match args.path {
                true => Some(client.call::<Ping>(&PingRequest::default()).await?.path),
                false => None,
            },
        };
        for row in &mut rows {
            row.reason = global.hinted(&row.reason);
        }
        print(&rows, &format, &scene, args.no_header)?;
        Ok(code)
    })
}

/// How many there are beyond those that are shown.
async fn more(question: &Question, client: &Client) -> anyhow::Result<String> {
    let question = Question {
        limit: SHOWN + COUNTED,
        ..question.clone()
    };
    let mut all = 0;
    let count = |_| {
        all += 1;
        Ok(())
    };
    question.ask(client, count).await?;
    Ok(match all == question.limit {
        true => format!("at least {COUNTED}"),
        false => (all - SHOWN).to_string(),
    })
}

/// Says which of the jobs that were named one by one there are not, and gives
/// the exit code. One that other options leave out of the listing is known.
async fn known(client: &Client, texts: &[String], listed: &BTreeSet<JobId>) -> anyhow::Result<u8> {
    let mut missing = ids::singles(texts);
    missing.retain(|(_, job)| !listed.contains(job));
    if missing.is_empty() {
        return Ok(0);
    }
    let question = Question {
        filter: Filter::all(),
        jobs: JobSet::of(missing.iter().map(|(_, job)| *job)),
        ..Question::default()
    };
    let there = question.rows(client).await?;
    let there: BTreeSet<JobId> = there.iter().map(|row| row.id).collect();
    missing.retain(|(_, job)| !there.contains(job));
    let unknown: Vec<&str> = missing.iter().map(|(text, _)| *text).collect();
    if unknown.is_empty() {
        return Ok(0);
    }
    eprintln!("eddy jobs: no such job here: {}", unknown.join(" "));
    Ok(output::FAILED)
}

/// The instances among the jobs, by job.
async fn children(client: &Client) -> anyhow::Result<BTreeMap<JobId, ChildRow>> {
    let rows = client.call::<Children>(&ChildrenRequest::default()).await;
    match rows {
        Ok(rows) => Ok(rows.into_iter().map(|row| (row.job, row)).collect()),
        // A listing of jobs is whole without them.
        Err(ClientError::Refused(_)) => Ok(BTreeMap::new()),
        Err(error) => Err(error.into()),
    }
}

/// The instances that are over, so many of them: each is asked about alone, of what is left of it.
/// What a queue instance that is not reached would tell is named on standard error: nobody takes it for no instance.
async fn over(
    client: &Client,
    rows: &[JobRow],
    (all, most): (&mut BTreeMap<JobId, ChildRow>, usize),
) -> anyhow::Result<()> {
    let is_over = |row: &&JobRow| row.is_instance && row.state == JobState::Inactive;
    let over = rows.iter().filter(is_over);
    let mut untold: BTreeMap<String, usize> = BTreeMap::new();
    for row in over.take(most) {
        let request = ChildrenRequest {
            job: Some(row.id),
            ..ChildrenRequest::default()
        };
        match client.call::<Children>(&request).await {
            Ok(found) => all.extend(found.into_iter().map(|child| (child.job, child))),
            Err(ClientError::Refused(refusal)) => {
                // Else it never said hello, or is another user's.
                if matches!(
                    refusal.code,
                    Code::Unreachable | Code::NotReady | Code::Busy
                ) {
                    *untold.entry(refusal.text).or_default() += 1;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    for (why, jobs) in untold {
        let why = escaped(&why);
        eprintln!(
            "eddy jobs: what is left of instances that are over ({jobs}) is not known: {why}"
        );
    }
    Ok(())
}

/// The same, with jobs of queues that are instances where they run.
async fn children_and_passed(
    client: &Client,
    rows: &[JobRow],
) -> anyhow::Result<BTreeMap<JobId, ChildRow>> {
    let mut all = children(client).await?;
    over(client, rows, (&mut all, OVER_MAX)).await?;
    let runs = |row: &&JobRow| row.state == JobState::Run && !row.queue.is_empty();
    let queues: BTreeSet<&str> = rows
        .iter()
        .filter(runs)
        .map(|row| row.queue.as_str())
        .collect();
    let is_asked = |child: &&ChildRow| {
        child
            .queues
            .iter()
            .any(|name| queues.contains(name.as_str()))
    };
    let asked: Vec<String> = all
        .values()
        .filter(is_asked)
        .filter_map(|child| child.uri.clone())
        .collect();
    let listed: BTreeSet<JobId> = rows.iter().map(|row| row.id).collect();
    let mut work = JoinSet::new();
    for uri in asked {
        work.spawn(async move {
            let there = async {
                let client = Client::connect(&uri.parse()?, Options { wait: PASSED }).await?;
                children(&client).await
            };
            tokio::time::timeout(PASSED, there).await
        });
    }
    for found in work.join_all().await {
        // Where one does not answer the listing is whole without them.
        let Ok(Ok(found)) = found else { continue };
        let passed = found.into_iter().filter(|(job, _)| listed.contains(job));
        for (job, row) in passed {
            all.entry(job).or_insert(row);
        }
    }
    Ok(all)
}

fn instance(row: &ChildRow) -> Value {
    json!({
        "id": row.instance,
        "uri": row.uri,
        "statedir": row.statedir,
        "stage": row.stage,
        "queues": row.queues,
        "summary": row.summary,
    })
}

fn question(args: &Args, ids: &[String], users: &Users) -> anyhow::Result<Question> {
    let jobs = ids::many(ids)?;
    let filter = match (
        &args.filter,
        args.all || args.stats || !jobs.is_empty() || args.since.is_some(),
    ) {
        (Some(text), _) => Filter::parse(text)?,
        (None, true) => Filter::all(),
        (None, false) => Filter::active(),
    };
    let user = match &args.user {
        Some(user) if user == "all" => None,
        Some(user) => Some(users.number(user)?),
        None if args.everybody || !jobs.is_empty() => None,
        None => Some(rustix::process::getuid().as_raw()),
    };
    Ok(Question {
        filter,
        jobs,
        user,
        name: args.name.clone(),
        queue: args.queue.clone(),
        account: args.account.clone(),
        job_set: args.job_set.clone(),
        since: args.since.as_deref().map(when::since).transpose()?,
        here: false,
        limit: match (args.stats, args.count) {
            (true, _) => 0,
            (false, Some(count)) => count,
            // One more tells whether there are more.
            (false, None) => SHOWN + 1,
        },
        detail: match args.json {
            true => Detail::All,
            false => Detail::Usual,
        },
    })
}

fn print(rows: &[JobRow], format: &Format, scene: &Scene, no_header: bool) -> std::io::Result<()> {
    let mut out = output::stdout();
    match format {
        Format::Template(template) => {
            if !no_header {
                writeln!(out, "{}", template.heading())?;
            }
            for row in rows {
                writeln!(out, "{}", template.row(row, scene))?;
            }
        }
        Format::Columns(columns) => {
            let headings = columns.iter().map(|(title, align, _)| (*title, *align));
            let mut table = Table::new(headings);
            for row in rows {
                table.push(
                    columns
                        .iter()
                        .map(|(_, _, shown)| shown.cell(row, scene))
                        .collect(),
                );
            }
            match no_header {
                true => table.write_rows(&mut out)?,
                false => table.write(&mut out)?,
            }
        }
    }
    out.flush()
}

/// Whether all jobs of everybody are asked for: of those the instance itself knows how they ended, also of those that
/// are forgotten.
fn is_of_all(args: &Args) -> bool {
    let narrowed = [
        &args.filter,
        &args.name,
        &args.since,
        &args.queue,
        &args.account,
        &args.job_set,
    ];
    let is_narrowed = narrowed.into_iter().any(Option::is_some) || !args.ids.is_empty();
    let everybody = match args.user.as_deref() {
        Some(user) => user == "all",
        None => args.everybody,
    };
    everybody && !is_narrowed
}

/// Puts what an instance says of all ends in place of what was counted of them.
fn with_ends(mut all: Stats, ends: Ends) -> Stats {
    for (kind, count) in &mut all {
        *count = match *kind {
            COMPLETED => ends.completed,
            FAILED => ends.failed,
            CANCELED => ends.canceled,
            TIMEOUT => ends.timeout,
            _ => continue,
        };
    }
    all
}

/// Prints numbers of jobs by kind, as text or as JSON.
fn tell_stats(args: &Args, all: Stats) -> anyhow::Result<()> {
    if args.json {
        let all = all.map(|(kind, count)| (kind.to_owned(), Value::from(count)));
        return output::json(&Value::Object(all.into_iter().collect()));
    }
    // None but an instance that is over has such.
    let told = all
        .iter()
        .filter(|(kind, count)| *kind != UNENDED || *count > 0);
    let told: Vec<String> = told
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    Ok(output::lines([told.join(", ")])?)
}

const COMPLETED: &str = "completed";
const FAILED: &str = "failed";
const CANCELED: &str = "canceled";
const TIMEOUT: &str = "timeout";
/// What jobs are called that have no end.
const UNENDED: &str = "unended";

/// Numbers of jobs by kind.
type Stats = [(&'static str, u64); 7];

fn stats(rows: &[JobRow]) -> Stats {
    let count = |is: &dyn Fn(&JobRow) -> bool| rows.iter().filter(|row| is(row)).count() as u64;
    let of = |wanted: JobResult| count(&|row| row.result == Some(wanted));
    [
        ("pending", count(&|row| is_to_come(row) && !runs(row))),
        ("running", count(&|row| is_to_come(row) && runs(row))),
        (COMPLETED, of(JobResult::Completed)),
        (FAILED, of(JobResult::Failed)),
        (CANCELED, of(JobResult::Canceled)),
        (TIMEOUT, of(JobResult::Timeout)),
        (UNENDED, count(&|row| row.t_unended.is_some())),
    ]
}

fn runs(row: &JobRow) -> bool {
    matches!(row.state, JobState::Run | JobState::Cleanup)
}

/// Whether one still waits or runs. What an instance that is over left without an end keeps the state it had then.
fn is_to_come(row: &JobRow) -> bool {
    row.state != JobState::Inactive && row.t_unended.is_none()
}

#[cfg(test)]
mod tests {
    use eddy_wire::time::Time;

    use super::*;

    #[test]
    fn what_was_left_without_an_end_neither_waits_nor_runs() {
        let row = |state, t_unended| JobRow {
            state,
            t_unended,
            ..crate::field::tests::row()
        };
        let left = Some(Time(1));
        let mut rows = vec![row(JobState::Sched, left), row(JobState::Run, left)];
        let counted = |rows: &[JobRow]| stats(rows).map(|(_, count)| count);
        assert_eq!(counted(&rows), [0, 0, 0, 0, 0, 0, 2]);
        assert!(!rows.iter().any(is_to_come));
        rows.extend([row(JobState::Sched, None), row(JobState::Cleanup, None)]);
        assert_eq!(counted(&rows), [1, 1, 0, 0, 0, 0, 2]);
        assert!(rows.iter().any(is_to_come));
    }
}
