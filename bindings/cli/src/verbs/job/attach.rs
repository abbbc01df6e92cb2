//! `eddy job attach`: be with a job, also one that is over.

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
    global.session(
        async |client| match attach(&client, global.options(), how).await? {
            Left::Ended(end) => Ok(exit_code(&end)),
            Left::Detached => Ok(0),
            Left::GivenUp(code) => Ok(code),
        },
    )
}
