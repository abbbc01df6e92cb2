//! `eddy job attach`: be with a job, also one that is over.

use anyhow::Context;
use eddy_client::{Client, EndFeed};
use eddy_wire::services::job::JobSet;

use crate::attach::{Forward, How, Interrupt, Label, Left, attach, exit_code};
use crate::ids;
use crate::session::Global;

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
    let job = how.job;
    let with_it = async |client: Client| match attach(&client, global.options(), how).await? {
        Left::Ended(end) => Ok(exit_code(&end)),
        Left::Detached => Ok(0),
        Left::GivenUp(code) => Ok(code),
    };
    // What was shown already is not known to what is left of an instance, so nothing is shown again.
    let after_it = async |client: Client| {
        let ends = EndFeed::of(&client, JobSet::one(job))?.next().await?;
        let end = ends.and_then(|ends| ends.into_iter().next());
        let end = end.context("the instance does not say how the job ended")?;
        eprintln!(
            "eddy job attach: the instance of job {} is over; the job's output is in its history",
            ids::show(job)
        );
        Ok(exit_code(&end))
    };
    global.session_or_left(with_it, after_it)
}
