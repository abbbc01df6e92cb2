//! `eddy history`: reads what an instance that is over has left.
//!
//! Hidden: a command that was asked about such an instance starts it.

use eddy_brokerd::history::{HistoryArgs, run_history};

use super::code;

/// Answer questions about an instance that is over
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    history: HistoryArgs,
}

/// Answers until its standard input ends.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    Ok(code(run_history(&args.history)))
}
