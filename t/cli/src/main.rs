//! `eddy-cli-tests chaos`: real instances with real tasks, hurt at random
//! moments, held to what was promised. `eddy-cli-tests shares`: what two
//! accounts have of a real tree, by their shares and by others set meanwhile.
//!
//! Chaos is run by `t/run` for a few rounds and by hand for hundreds. Each round
//! is a seed; one that fails is replayed by it, as far as a real machine allows.

mod chaos;
mod shares;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Hurts real instances, and measures them.
#[derive(Parser)]
#[command(name = "eddy-cli-tests")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Kill and stop leaders, shells and clients under a random workload, and look that nothing is
    /// lost, doubled, stuck or left behind
    Chaos(chaos::Args),
    /// Have two accounts submit through two queue instances, three shares to one and then one to
    /// three, and look that each has what it is due within 5 %
    Shares(shares::Args),
}

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Chaos(args) => match chaos::run(&args) {
            chaos::Outcome::Kept => ExitCode::SUCCESS,
            chaos::Outcome::Broken => ExitCode::FAILURE,
        },
        Verb::Shares(args) => match shares::run(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("eddy-cli-tests shares: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}
