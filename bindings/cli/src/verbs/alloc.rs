//! `eddy alloc`: an instance around a command, or around your own shell.

use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use eddy_client::uri::URI_VARIABLE;
use eddy_client::{Client, ClientError, EndFeed, Uri};
use eddy_wire::error::Code;
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::child::{ChildRow, Children, ChildrenRequest, Stage};
use eddy_wire::services::instance::{Ping, PingRequest, Shutdown, ShutdownRequest};
use eddy_wire::services::job::{JobEnd, JobSet};
use tokio::process::{Child, Command};

use super::start::OF_A_TASK;
use super::submit::begin;
use crate::attach::{How, INT, Interrupt, Label, QUIT, Watches, attach, given_up};
use crate::listing::{Filter, Question};
use crate::request::Stdin;
use crate::request::nested::{InstanceOptions, Program};
use crate::session::Global;
use crate::{ids, instance, output};

/// How long nothing is said while the job waits.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// The pause before a stream that broke is asked for again.
const AGAIN: Duration = Duration::from_millis(50);

/// Get an instance and run a command in it, or your shell
///
/// Waits until there is room and says why it waits. The command runs on the first node of what
/// was given; its output is shown, our input goes to it, its exit code is ours, and its end is
/// the end of the instance. ctrl-C twice cancels it.
///
/// Without a command your shell ($SHELL) runs here, on this host and at this terminal, with
/// EDDY_URI of the new instance: tasks have no terminal of their own yet. When the shell ends the
/// instance is shut down. Until it begins, as with --bg, one ctrl-C cancels it.
///
/// With --bg it returns when the instance takes work, prints its job id and leaves it:
/// `eddy --at ID VERB` uses it, `eddy shutdown ID` ends it.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Return when the instance takes work, and let it stay
    #[arg(long, help_heading = "Submission")]
    bg: bool,
    #[command(flatten)]
    options: InstanceOptions,
    /// Program and its arguments; options end here [default: $SHELL, here]
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  eddy alloc -N2 -t 2h                  # a shell here, two nodes there
  eddy alloc -n8 ./workflow.py          # a program that submits jobs into its own instance
  id=$(eddy alloc -n4 --bg); eddy --at \"$id\" submit --cc=1-100 ./step; eddy shutdown \"$id\"";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    ensure!(
        args.command
            .first()
            .is_none_or(|program| !program.is_empty()),
        "the command is empty; allowed is a program, or none for your shell"
    );
    let mut options = args.options.clone();
    let name = args.command.first().map(|program| {
        let last = program.rsplit('/').find(|part| !part.is_empty());
        last.unwrap_or(program).to_owned()
    });
    let terms = &mut options.terms;
    terms.eligible.name_copies(global)?;
    let name = name.unwrap_or_else(|| "alloc".to_owned());
    terms.job_name.get_or_insert(name);
    let (stdin, forward) = super::run::stdin(terms);
    let (program, stdin) = match args.command.is_empty() {
        true => (Program::None, Stdin::Empty),
        false => (Program::Command(args.command.clone()), stdin),
    };
    ensure!(
        options.terms.signal.is_none() || !args.command.is_empty(),
        "--signal: given without a command, so there is nobody to warn; allowed is with one"
    );
    if options.terms.dry_run {
        output::json(&options.jobspec(&program, stdin)?)?;
        return Ok(0);
    }
    let label = match options.terms.label_io {
        true => Label::Task,
        false => Label::Plain,
    };
    let request = options.request(&program, stdin)?;
    global.session(async |client| {
        let how = |job| How {
            job,
            label,
            forward,
            interrupt: Interrupt::Own,
            verb: "alloc",
        };
        let begun = begin(global, (&client, &request), (Interrupt::Own, how));
        let (how, mut watches) = match begun.await? {
            Ok(begun) => begun,
            Err(code) => return Ok(code),
        };
        let job = how.job;
        let said = tokio::spawn(say_why(global.clone(), client.uri().clone(), job));
        let code = match (args.bg, &program) {
            (false, Program::None) => shell(global, &client, &how, &mut watches).await,
            (false, _) => {
                let left = attach(&client, global.options(), how, &mut watches).await?;
                Ok(left.code())
            }
            (true, _) => match serving(global, &client, &how, &mut watches).await? {
                Ok(_) => {
                    output::lines([ids::show(job)])?;
                    Ok(0)
                }
                Err(code) => Ok(code),
            },
        };
        said.abort();
        code
    })
}

/// Says on standard error why a job waits that has not got its resources soon.
async fn say_why(global: Global, uri: Uri, job: JobId) {
    tokio::time::sleep(TOLD_AFTER).await;
    let row = async {
        let client = Client::connect(&uri, global.options()).await?;
        let question = Question {
            filter: Filter::active(),
            jobs: JobSet::one(job),
            ..Question::default()
        };
        question.rows(&client).await
    };
    if let Some(row) = row.await.unwrap_or_default().first()
        && row.state != JobState::Run
        && row.state != JobState::Cleanup
    {
        let (job, reason) = (ids::show(job), global.hinted(&row.reason));
        match reason.starts_with("waits") {
            true => eprintln!("eddy alloc: job {job} {reason}"),
            false => eprintln!("eddy alloc: job {job} waits: {reason}"),
        }
    }
}

/// The row of the job once its instance takes clients; the exit code when a signal
/// came first, which cancels the job.
async fn serving(
    global: &Global,
    client: &Client,
    how: &How,
    watches: &mut Watches,
) -> anyhow::Result<Result<ChildRow, u8>> {
    let job = how.job;
    let mut ends = EndFeed::of(client, JobSet::one(job))?;
    tokio::select! {
        row = served(global, client, job) => Ok(Ok(row?)),
        end = ends.next() => bail!("{}", early(job, end?.and_then(|ends| ends.into_iter().next()).as_ref())),
        signal = watches.next() => {
            drop(ends);
            Ok(Err(given_up(client.uri(), global.options(), how, signal).await))
        }
    }
}

/// The row of the job once its instance answers.
async fn served(global: &Global, client: &Client, job: JobId) -> anyhow::Result<ChildRow> {
    let request = ChildrenRequest {
        job: Some(job),
        follow: true,
        ..ChildrenRequest::default()
    };
    let takes = |row: &ChildRow| row.job == job && row.stage == Stage::Serving && row.uri.is_some();
    let mut rows = client.feed::<Children>(&request)?;
    loop {
        match rows.next().await {
            Some(Ok((part, _))) => {
                if let Some(row) = part.into_iter().find(takes) {
                    answers(global, &row).await?;
                    return Ok(row);
                }
            }
            Some(Err(error)) if !may_come(&error) => return Err(error.into()),
            _ => {
                tokio::time::sleep(AGAIN).await;
                rows = client.feed::<Children>(&request)?;
            }
        }
    }
}

/// Waits until the instance answers: its parent knows it from its hello on, before it has a socket.
async fn answers(global: &Global, row: &ChildRow) -> anyhow::Result<()> {
    let uri = row.uri.as_deref().unwrap_or_default().parse()?;
    let instance = Client::connect(&uri, global.options()).await?;
    instance.call::<Ping>(&PingRequest::default()).await?;
    Ok(())
}

/// Whether rows may come when asked again: the instance that has the job
/// restarts, or the job is over, of which its end tells.
fn may_come(error: &ClientError) -> bool {
    let again = [Some(Code::NotFound), Some(Code::Unreachable)];
    matches!(error, ClientError::Lost { .. }) || again.contains(&error.code())
}

fn early(job: JobId, end: Option<&JobEnd>) -> String {
    let why = end
        .and_then(|end| end.exception.clone())
        .unwrap_or_else(|| {
            let code = end.map_or(-1, |end| end.returncode);
            format!("exit code {code}")
        });
    let job = ids::show(job);
    output::one_line(&format!(
        "job {job} ended before its instance took work: {why}"
    ))
}

/// Runs the user's shell here until it ends, or its instance does.
async fn shell(
    global: &Global,
    client: &Client,
    how: &How,
    watches: &mut Watches,
) -> anyhow::Result<u8> {
    let row = match serving(global, client, how, watches).await? {
        Ok(row) => row,
        Err(code) => return Ok(code),
    };
    let job = how.job;
    let uri = row.uri.expect("it takes clients");
    let program = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
    let mut child = match spawn(&program, &uri) {
        Ok(child) => child,
        Err(error) => {
            end(global, &uri).await?;
            return Err(error);
        }
    };
    let mut ends = EndFeed::of(client, JobSet::one(job))?;
    match attend(&mut child, &mut ends, watches).await? {
        Attended::Shell(status) => {
            end(global, &uri).await?;
            // Its job is over when nothing of it is left.
            ends.next().await?;
            Ok(instance::exit_code(status))
        }
        Attended::Job(ended) => {
            eprintln!(
                "eddy alloc: {}",
                ended.map_or_else(
                    || format!("job {} ended", ids::show(job)),
                    |end| early(job, Some(&end)).replace(" before its instance took work", "")
                )
            );
            Ok(output::FAILED)
        }
    }
}

fn spawn(program: &str, uri: &str) -> anyhow::Result<Child> {
    let mut command = Command::new(program);
    command.env(URI_VARIABLE, uri);
    for (name, _) in std::env::vars_os() {
        let of_a_task = |prefix: &&str| name.to_str().is_some_and(|name| name.starts_with(prefix));
        if OF_A_TASK.iter().any(of_a_task) {
            command.env_remove(name);
        }
    }
    let child = command.spawn();
    child.with_context(|| format!("cannot start {program}"))
}

/// What ended first.
enum Attended {
    Shell(ExitStatus),
    Job(Option<JobEnd>),
}

async fn attend(
    child: &mut Child,
    ends: &mut EndFeed,
    watches: &mut Watches,
) -> anyhow::Result<Attended> {
    loop {
        tokio::select! {
            status = child.wait() => return Ok(Attended::Shell(status.context("cannot wait for the shell")?)),
            ended = ends.next() => {
                hang_up(child);
                child.wait().await.context("cannot wait for the shell")?;
                return Ok(Attended::Job(ended?.and_then(|ends| ends.into_iter().next())));
            }
            signal = watches.next() => match signal {
                // The terminal sends ctrl-C and ctrl-\ to the shell as well, which decides.
                INT | QUIT => {}
                _ => hang_up(child),
            },
        }
    }
}

/// As a terminal does that goes away: an interactive shell ignores TERM.
fn hang_up(child: &Child) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::HUP);
    }
}

async fn end(global: &Global, uri: &str) -> anyhow::Result<()> {
    let client = Client::connect(&uri.parse()?, global.options()).await?;
    let request = ShutdownRequest {
        note: "the shell of eddy alloc ended".to_owned(),
        declared: None,
    };
    match client
        .call_once::<Shutdown>(&request, bytes::Bytes::new())
        .await
    {
        // A leader that is gone before its answer was read did what was asked.
        Ok(_) | Err(ClientError::Lost { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
