//! `eddy demo`: trees of instances at work, whose leaders are killed meanwhile.

mod ground;
mod processes;

mod dice;

mod evidence;
mod survive;
mod victims;

mod burst;
mod one_queue;
mod tree_tax;

mod show;

use crate::number::number;

/// Show a tree of instances: run jobs at every level, kill leaders, lose nothing
///
/// Starts a root of four made-up hosts with two queue instances that share them on a temporary
/// directory, and two accounts, one with three shares and one with one, that each submit jobs to a
/// queue. Shares order them; before all others is a job of nine tenths of all cores, which is
/// promised a start and for which cores are kept, and a workflow three instances deep, to which a
/// node goes over from the other instance. While they run the leader of a queue instance and then
/// the root's are killed with SIGKILL.
/// At the end it is told what each account was due and used. It is checked that every job ran
/// exactly once, that the wide job began no later than it was promised, and that every second of a
/// core is accounted for once and charged to one of the accounts.
/// Takes some seconds; the exit code is 1 if anything was lost or a promise was broken.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// Number of jobs, a third of them of each account and in the workflow
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = number(6..=10_000_u32))]
    jobs: u32,
}

/// What else can be shown.
#[derive(clap::Subcommand)]
enum Other {
    Survive(survive::Args),
    TreeTax(tree_tax::Args),
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.other {
        None => show::run(args.jobs),
        Some(Other::Survive(args)) => survive::run(args),
        Some(Other::TreeTax(args)) => tree_tax::run(args),
    }
}
