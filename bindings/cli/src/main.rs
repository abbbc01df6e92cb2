//! `eddy`: one command with a verb for everything a person or a script does
//! with an instance. One file for each verb, in `verbs`; the table of them is
//! [`Verb`].
//!
//! Parses, calls the verb, prints its error in one line and ends with its exit
//! code. Nothing is started, read or connected before the arguments are whole.

#[macro_use]
mod tell;

mod accounts;
mod arguments;
mod array;
mod imports;
mod output;
mod session;

mod copies;
mod ids;
mod names;
mod number;
mod signals;
mod table;
mod text;
mod when;

mod environment;
mod request;

mod attach;
mod declared;
mod explained;
mod field;
mod hints;
mod listing;
mod suppose;

mod instance;

mod verbs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use session::Global;

/// What the loop makes of a job is freed by the thread of the journal, which costs the allocator of glibc a tenth
/// of a leader's CPU.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run jobs in an instance, and instances in jobs.
#[derive(Parser)]
#[command(
    name = "eddy",
    version,
    subcommand_required = true,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// Every verb and the file that does it. The options of one are put together when it is asked for:
/// those of all others take as long as beginning a process.
#[derive(Subcommand)]
#[command(defer = true)]
enum Verb {
    Start(verbs::start::Args),
    #[command(flatten)]
    Work(Box<Work>),
    Exec(verbs::exec::Args),
    Jobs(verbs::jobs::Args),
    Job(verbs::job::Args),
    Why(verbs::why::Args),
    Priority(verbs::priority::Args),
    Shares(verbs::shares::Args),
    Usage(verbs::usage::Args),
    Account(verbs::account::Args),
    Audit(verbs::audit::Args),
    Cancel(verbs::cancel::Args),
    Wait(verbs::wait::Args),
    Hold(verbs::hold::HoldArgs),
    Release(verbs::hold::ReleaseArgs),
    Suspend(verbs::suspend::SuspendArgs),
    Resume(verbs::suspend::ResumeArgs),
    Update(verbs::update::Args),
    Order(verbs::order::Args),
    Resource(verbs::resource::Args),
    Grant(verbs::grant::Args),
    Queue(verbs::queue::Args),
    Reservation(verbs::reservation::Args),
    Kvs(verbs::kvs::Args),
    Events(verbs::events::Args),
    Ping(verbs::ping::Args),
    Uri(verbs::uri::Args),
    Tree(verbs::tree::Args),
    Overlay(verbs::overlay::Args),
    Config(verbs::config::Args),
    Policy(verbs::policy::Args),
    Sim(verbs::sim::Args),
    Shutdown(verbs::shutdown::Args),
    Trace(verbs::trace::Args),
    Demo(verbs::demo::Args),
    Completion(verbs::completion::Args),
    Man(verbs::man::Args),
    #[command(flatten)]
    Process(Process),
    #[command(hide = true)]
    History(verbs::history::Args),
}

/// What submits work.
#[derive(Subcommand)]
#[command(defer = true)]
enum Work {
    Submit(verbs::submit::Args),
    Run(verbs::run::Args),
    Batch(verbs::batch::Args),
    Alloc(verbs::alloc::Args),
}

impl Work {
    fn run(self, global: &Global) -> anyhow::Result<u8> {
        match self {
            Work::Submit(args) => verbs::submit::run(global, args),
            Work::Run(args) => verbs::run::run(global, args),
            Work::Batch(args) => verbs::batch::run(global, &args),
            Work::Alloc(args) => verbs::alloc::run(global, &args),
        }
    }
}

/// The processes that an instance is of.
#[derive(Subcommand)]
#[command(defer = true)]
enum Process {
    #[command(hide = true)]
    Broker(verbs::broker::Args),
    #[command(hide = true)]
    Agent(verbs::agent::Args),
    #[command(hide = true)]
    Shell(verbs::shell::Args),
}

impl Process {
    fn run(self) -> anyhow::Result<u8> {
        match self {
            Process::Broker(args) => verbs::broker::run(args),
            Process::Agent(args) => verbs::agent::run(args),
            Process::Shell(args) => verbs::shell::run(args),
        }
    }
}

impl Cli {
    /// The exit code where the command itself fails.
    fn failed(&self) -> u8 {
        match self.verb {
            Verb::Wait(_) => verbs::wait::FAILED,
            _ => output::FAILED,
        }
    }

    fn run(self) -> anyhow::Result<u8> {
        let global = &self.global;
        match self.verb {
            Verb::Start(args) => verbs::start::run(args),
            Verb::Work(work) => work.run(global),
            Verb::Exec(args) => verbs::exec::run(global, &args),
            Verb::Jobs(args) => verbs::jobs::run(global, &args),
            Verb::Job(args) => verbs::job::run(global, args),
            Verb::Why(args) => verbs::why::run(global, &args),
            Verb::Priority(args) => verbs::priority::run(global, &args),
            Verb::Shares(args) => verbs::shares::run(global, &args),
            Verb::Usage(args) => verbs::usage::run(global, &args),
            Verb::Account(args) => verbs::account::run(global, args),
            Verb::Audit(args) => verbs::audit::run(global, &args),
            Verb::Cancel(args) => verbs::cancel::run(global, &args),
            Verb::Wait(args) => verbs::wait::run(global, &args),
            Verb::Hold(args) => verbs::hold::hold(global, &args),
            Verb::Order(args) => verbs::order::run(global, &args),
            Verb::Release(args) => verbs::hold::release(global, &args),
            Verb::Update(args) => verbs::update::run(global, &args),
            Verb::Suspend(args) => verbs::suspend::suspend(global, &args),
            Verb::Resume(args) => verbs::suspend::resume(global, &args),
            Verb::Resource(args) => verbs::resource::run(global, args),
            Verb::Grant(args) => verbs::grant::run(global, args),
            Verb::Queue(args) => verbs::queue::run(global, args),
            Verb::Reservation(args) => verbs::reservation::run(global, args),
            Verb::Kvs(args) => verbs::kvs::run(global, args),
            Verb::Events(args) => verbs::events::run(global, &args),
            Verb::Ping(args) => verbs::ping::run(global, &args),
            Verb::Uri(args) => verbs::uri::run(global, &args),
            Verb::Tree(args) => verbs::tree::run(global, &args),
            Verb::Overlay(args) => verbs::overlay::run(global, args),
            Verb::Config(args) => verbs::config::run(global, args),
            Verb::Sim(args) => verbs::sim::run(global, &args),
            Verb::Policy(args) => verbs::policy::run(global, args),
            Verb::Shutdown(args) => verbs::shutdown::run(global, &args),
            Verb::Trace(args) => verbs::trace::run(global, &args),
            Verb::Demo(args) => verbs::demo::run(&args),
            Verb::Completion(args) => verbs::completion::run(&args),
            Verb::Man(args) => verbs::man::run(&args),
            Verb::Process(process) => process.run(),
            Verb::History(args) => verbs::history::run(&args),
        }
    }
}

fn main() -> ExitCode {
    let (verb, cli, typed) = match arguments::parse::<Cli>() {
        Ok(parsed) => parsed,
        Err(exit) => return exit,
    };
    let failed = cli.failed();
    match cli.run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => output::failed(&verb, failed, &error, typed),
    }
}
