//! `eddy-cli-tests chaos`: real instances with real tasks, hurt at random
//! moments, held to what was promised.
//!
//! Run by `t/run` for a few rounds and by hand for hundreds. Each round is a
//! seed; one that fails is replayed by it, as far as a real machine allows.

mod chaos;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Hurts real instances.
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
}

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Chaos(args) => match chaos::run(&args) {
            chaos::Outcome::Kept => ExitCode::SUCCESS,
            chaos::Outcome::Broken => ExitCode::FAILURE,
        },
    }
}
