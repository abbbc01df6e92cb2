//! `eddy job`: what concerns one job, or a few.

pub mod attach;
pub mod eventlog;
pub mod info;
pub mod last;
pub mod status;
pub mod wait;
pub mod wait_event;

pub mod key;
pub mod kill;
pub mod raise;
pub mod requeue;
pub mod submit;
pub mod urgency;

use clap::Subcommand;

use crate::session::Global;

/// Watch, change and end single jobs
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = false,
    disable_help_subcommand = true
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Attach(attach::Args),
    Status(status::Args),
    Wait(wait::Args),
    WaitEvent(wait_event::Args),
    Eventlog(eventlog::Args),
    Info(info::Args),
    Kill(kill::Args),
    Raise(raise::Args),
    Urgency(urgency::Args),
    Last(last::Args),
    Requeue(requeue::Args),
    Submit(submit::Args),
    Key(key::Args),
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    match args.verb {
        Verb::Attach(args) => attach::run(global, &args),
        Verb::Status(args) => status::run(global, &args),
        Verb::Wait(args) => wait::run(global, &args),
        Verb::WaitEvent(args) => wait_event::run(global, &args),
        Verb::Eventlog(args) => eventlog::run(global, &args),
        Verb::Info(args) => info::run(global, &args),
        Verb::Kill(args) => kill::run(global, &args),
        Verb::Raise(args) => raise::run(global, &args),
        Verb::Urgency(args) => urgency::run(global, &args),
        Verb::Last(args) => last::run(global, &args),
        Verb::Requeue(args) => requeue::run(global, &args),
        Verb::Submit(args) => submit::run(global, &args),
        Verb::Key(args) => key::run(&args),
    }
}
