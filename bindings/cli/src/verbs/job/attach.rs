//! `eddy job attach`: be with a job, also one that is over.

use std::cell::RefCell;

use anyhow::bail;
use eddy_client::Client;
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::services::job::JobSet;

use crate::attach::{Forward, How, Interrupt, Label, Left, Shown, Watches, attach_on, exit_code};
use crate::ids;
use crate::listing::{Filter, Question};
use crate::number::number;
use crate::session::Global;
use crate::table::escaped;
use crate::verbs::submit::show;

/// Show a job's output from its beginning and exit with its exit code
///
/// Works before, during and after the job runs. Standard input goes to the tasks unless
/// --read-only. ctrl-C twice cancels the job; ctrl-C then ctrl-Z leaves it running.
#[derive(clap::Args)]
pub struct Args {
    /// Put the task's number before each line
    #[arg(short = 'l', long)]
    label_io: bool,
    /// Keep standard input here
    #[arg(short = 'r', long)]
    read_only: bool,
    /// Show what this attempt of it wrote, from 1, and no later one; standard input stays here, and the exit code
    /// is 0 whatever became of the job
    #[arg(long, value_name = "N", value_parser = number(1..=u32::MAX))]
    attempt: Option<u32>,
    /// The job; of an instance 905/f5
    #[arg(value_name = "ID")]
    id: String,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&[&args.id])?;
    let how = How {
        job: ids::single(ids)?,
        label: if args.label_io {
            Label::Task
        } else {
            Label::Plain
        },
        forward: if args.read_only {
            Forward::No
        } else {
            Forward::Yes
        },
        interrupt: Interrupt::Ask,
        verb: "job attach",
    };
    if let Some(attempt) = args.attempt {
        let shown = async |client: Client| {
            had(&client, &args.id, (how.job, attempt)).await?;
            let job = (how.job, Some(Attempt(attempt)));
            show(&client, how.verb, job, &how.label).await
        };
        return global.session(shown).map(|()| 0);
    }
    let seen = RefCell::new(Shown::default());
    let left = |left| match left {
        Left::Ended(end) => exit_code(&end),
        Left::Detached => 0,
        Left::GivenUp(code) => code,
    };
    let with = async |client: Client, how: How, mut own: Shown| {
        let mut watches = Watches::begin(how.interrupt)?;
        let ended = attach_on(&client, global.options(), how, (&mut own, &mut watches)).await;
        seen.replace(own);
        Ok(left(ended?))
    };
    let with_it = async |client: Client| with(client, how.clone(), seen.take()).await;
    // What is left of an instance has all of the output: what was not shown yet is.
    let after_it = async |client: Client| {
        let mut own = seen.take();
        own.begins_again();
        let how = How {
            forward: Forward::No,
            ..how.clone()
        };
        with(client, how, own).await
    };
    let left = global.session_or_left(with_it, after_it);
    // Nobody goes on with what was begun.
    seen.take().lines.end(&how.label)?;
    left
}

/// Refuses an attempt that a job has not had: of one that is over nothing else tells that from one that wrote nothing.
async fn had(client: &Client, given: &str, (job, attempt): (JobId, u32)) -> anyhow::Result<()> {
    let question = Question {
        filter: Filter::all(),
        jobs: JobSet::one(job),
        ..Question::default()
    };
    let rows = question.rows(client).await?;
    match rows.first().map(|row| row.attempt.0) {
        Some(last) if attempt > last => bail!(
            "attempt: {attempt} given, job {} has had attempts 1 to {last}",
            escaped(given)
        ),
        // That there is no such job is said by who is asked for its output.
        Some(_) | None => Ok(()),
    }
}
