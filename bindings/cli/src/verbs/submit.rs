//! `eddy submit`: enqueue a job, or many copies of one.

use std::io::IsTerminal;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use eddy_client::{Client, EndFeed, EventFeed, OutputFeed};
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::idset::Idset;
use eddy_wire::services::job::{JobEnd, JobSet, Submit, SubmitRequest, Submitted};
use eddy_wire::time::Span;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::attach::{How, Interrupt, Label, Lines, Watches, exit_code, miss, write_frames};
use crate::request::eligible::ArrayOption;
use crate::request::{JobOptions, Stdin};
use crate::session::{Global, told};
use crate::verbs::job::wait_event::event;
use crate::{ids, output, request};

/// How long ends are kept to be told together: what is wanted of them is shown
/// to a person, or the code of the last.
pub const GATHER: Span = Span::millis(100);
/// A submission that is not answered by then is said to wait: later than a filter is given up as a rule.
const PATIENCE: Duration = Duration::from_secs(10);
const TAKES_LONG: &str =
    "the instance to take the submission; a filter, or the instance around it, does not answer";
/// Jobs whose output is followed at a time.
const WATCHED_MAX: usize = 64;

/// Submit a job and print its id
///
/// Options end at the first word that is none: what follows is the command.
/// Standard input of the tasks is empty unless --input names a file.
///
/// With --cc=IDSET one message submits a copy for each number; {cc} in the
/// command and environment is replaced by it, and FLUX_JOB_CC holds it.
///
/// In words of the command {{id}}, {{name}}, {{taskid}}, {{node.name}} and {{node.id}} are replaced as in --output.
/// The environment keeps them: eddy submit --env='T={{id}}' sh -c 'echo "$T"'.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES, mut_arg("label_io", |label| label.requires("watch")))]
pub struct Args {
    /// Submit a copy for each number of this set, such as 1-100
    #[arg(
        long,
        value_name = "IDSET",
        conflicts_with = "array",
        help_heading = "Submission"
    )]
    cc: Option<Idset>,
    #[command(flatten)]
    array: ArrayOption,
    /// Wait for the end of all; exit with the highest exit code
    #[arg(long, help_heading = "Submission")]
    wait: bool,
    /// As --wait, and show the output
    #[arg(long, help_heading = "Submission")]
    watch: bool,
    /// Return when this event has happened to each job
    #[arg(long, value_name = "NAME", value_parser = event, help_heading = "Submission")]
    wait_event: Option<String>,
    /// Submit once: who submits the same with the same key again (of `eddy job key`) is told the ids of the
    /// first time, whatever his environment is by then; a begin time that is in a while counts from when the key, a
    /// UUID of version 7, was made. Needed only where another command is to repeat it
    #[arg(long, value_name = "UUID", value_parser = request::key, help_heading = "Submission")]
    key: Option<Uuid>,
    /// Print no ids
    #[arg(long, help_heading = "Submission")]
    quiet: bool,
    #[command(flatten)]
    options: JobOptions,
}

const EXAMPLES: &str = "Examples:
  eddy submit -n4 -t 10 ./solve input.dat
  eddy submit --cc=1-1000 --wait ./step {cc}
  eddy submit --array=0-99%4 ./step {cc}        # at most four at a time
  id=$(eddy submit ./first); eddy submit --dependency=afterok:$id ./second";

pub fn run(global: &Global, mut args: Args) -> anyhow::Result<u8> {
    args.options.terms.eligible.name_copies(global)?;
    if args.options.terms.dry_run {
        return dry_run(&args.options, Stdin::Empty);
    }
    // Said again later, `in an hour` is to be the same time, and the same job.
    args.options.terms.eligible.counts_from = args.key.and_then(request::made);
    let request = match &args.array.array {
        None => args.options.request(args.cc.clone(), Stdin::Empty)?,
        Some(array) => args.options.array_request(array)?,
    };
    let request = SubmitRequest {
        key: args.key.unwrap_or(request.key),
        ..request
    };
    let label = match args.options.terms.label_io {
        true => Label::Task,
        false => Label::Plain,
    };
    global.session(async |client| {
        let submitted = submitted(&client, &request).await?;
        if !args.quiet {
            print_ids(submitted)?;
        }
        if let Some(name) = &args.wait_event {
            wait_event(&client, submitted, name).await?;
        }
        match (args.wait, args.watch) {
            (_, true) => watch(&client, submitted, &label).await,
            (true, false) => wait(&client, "submit", submitted).await,
            (false, false) => Ok(0),
        }
    })
}

/// Hands a submission in. Where the answer takes its time that is said, once: an instance inside another may
/// have handed it on there, where it may have been taken, so that nobody but that one can tell.
pub async fn submitted(client: &Client, request: &SubmitRequest) -> anyhow::Result<Submitted> {
    let mut answer = pin!(client.call::<Submit>(request));
    tokio::select! {
        answer = &mut answer => return Ok(answer?),
        () = tokio::time::sleep(PATIENCE) => told(TAKES_LONG),
    }
    Ok(answer.await?)
}

/// Submits a job to be with, and watches for signals from before that on: how to be with it. Where a signal came
/// first, the exit code to end with.
pub async fn begin(
    global: &Global,
    (client, request): (&Client, &SubmitRequest),
    (interrupt, how): (Interrupt, impl FnOnce(JobId) -> How),
) -> anyhow::Result<Result<(How, Watches), u8>> {
    let mut watches = Watches::begin(interrupt)?;
    let from = (client, global.options());
    let how = watches
        .first_of(submitted(client, request), from, how)
        .await?;
    Ok(how.map(|how| (how, watches)))
}

/// Prints the jobspec.
pub fn dry_run(options: &JobOptions, stdin: Stdin) -> anyhow::Result<u8> {
    output::json(&options.jobspec(stdin)?)?;
    Ok(0)
}

fn jobs(submitted: Submitted) -> impl Iterator<Item = JobId> {
    let first = submitted.first.0;
    (first..first + u64::from(submitted.count)).map(JobId)
}

fn set(submitted: Submitted) -> JobSet {
    let last = submitted.first.0 + u64::from(submitted.count.max(1)) - 1;
    JobSet {
        ranges: vec![(submitted.first, JobId(last))],
    }
}

/// Prints the ids, one a line.
pub fn print_ids(submitted: Submitted) -> anyhow::Result<()> {
    let spelling = ids::Spelling::of_locale();
    Ok(output::lines(
        jobs(submitted).map(|job| spelling.show(job)),
    )?)
}

/// Waits until that has happened to all of them.
pub async fn wait_event(client: &Client, submitted: Submitted, name: &str) -> anyhow::Result<()> {
    for job in jobs(submitted) {
        let mut events = EventFeed::following(client, job)?;
        loop {
            let lines = events
                .next()
                .await?
                .with_context(|| format!("job {}: event {name} did not happen", ids::show(job)))?;
            if lines.iter().any(|line| line.name == name) {
                break;
            }
        }
    }
    Ok(())
}

/// Waits for all; the highest exit code.
pub async fn wait(client: &Client, verb: &str, submitted: Submitted) -> anyhow::Result<u8> {
    wait_for(client, verb, set(submitted)).await
}

/// The same for any jobs, for the verb of this name.
pub async fn wait_for(client: &Client, verb: &str, jobs: JobSet) -> anyhow::Result<u8> {
    let mut highest = 0;
    let each = |end: JobEnd| highest = highest.max(exit_code(&end));
    let say = |end: &JobEnd| tell(verb, &ids::show(end.id), end);
    wait_each(client, jobs, say, each).await?;
    Ok(highest)
}

/// The same, and says and gives each end as it comes.
pub async fn wait_each(
    client: &Client,
    jobs: JobSet,
    say: impl Fn(&JobEnd),
    mut each: impl FnMut(JobEnd),
) -> anyhow::Result<()> {
    let bar = progress(jobs.len());
    let mut ends = EndFeed::gathered(client, jobs, GATHER)?;
    while let Some(batch) = ends.next().await? {
        bar.inc(batch.len() as u64);
        for end in batch {
            bar.suspend(|| say(&end));
            each(end);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Waits for the ends of all, also over a restart of the leader, and says nothing of them.
pub async fn until_over(client: &Client, jobs: JobSet) -> anyhow::Result<()> {
    let mut ends = EndFeed::gathered(client, jobs, GATHER)?;
    while ends.next().await?.is_some() {}
    Ok(())
}

/// Says how a job of this name ended that did not end well.
pub fn tell(verb: &str, job: &str, end: &JobEnd) {
    if exit_code(end) == 0 {
        return;
    }
    match &end.exception {
        Some(exception) => eprintln!("eddy {verb}: job {job}: {}", output::one_line(exception)),
        None => eprintln!("eddy {verb}: job {job}: exit code {}", end.returncode),
    }
}

/// A bar for many jobs on a terminal; nothing otherwise.
pub fn progress(count: u64) -> ProgressBar {
    if count < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {eta}");
    ProgressBar::new(count).with_style(style.expect("a template of known words"))
}

/// Shows the output of all jobs, each from its beginning, some at a time.
async fn watch(client: &Client, submitted: Submitted, label: &Label) -> anyhow::Result<u8> {
    let mut shown = JoinSet::new();
    for job in jobs(submitted) {
        if shown.len() == WATCHED_MAX {
            shown.join_next().await.expect("some are shown")??;
        }
        let (client, label) = (client.clone(), label.clone());
        shown.spawn(async move { show(&client, "submit", (job, None), &label).await });
    }
    while let Some(done) = shown.join_next().await {
        done??;
    }
    wait(client, "submit", submitted).await
}

/// Shows the output of one attempt of a job, of the latest where none is named.
pub async fn show(
    client: &Client,
    verb: &str,
    (job, attempt): (JobId, Option<Attempt>),
    label: &Label,
) -> anyhow::Result<()> {
    let (mut feed, mut lines) = (
        OutputFeed::following(client, job, attempt)?,
        Lines::default(),
    );
    while let Some((_, frames)) = feed.next().await? {
        write_frames(frames, label, &mut lines)?;
    }
    lines.end(label)?;
    if !feed.missing().is_empty() {
        miss(verb, feed.missing());
    }
    Ok(())
}
