//! `eddy job attach`: be with a job, also one that is over.

use std::cell::RefCell;

use eddy_client::Client;

use crate::attach::{Forward, How, Interrupt, Label, Left, Shown, Watches, attach_on, exit_code};
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
