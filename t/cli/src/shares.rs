//! `eddy-cli-tests shares`: the contest of two accounts at any length, in figures.

use anyhow::ensure;
use eddy_cli_tests::contest::{Had, play};

/// By how much of its due an account may have less or more.
const OFF_MAX: f64 = 0.05;

/// What `shares` is run with.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// About how long by each of the two shares, on a machine that does nothing else
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: usize,
}

/// Plays it and tells what each had.
///
/// # Errors
/// It cannot be played, or one has not what it is due.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let played = play(args.seconds.max(1))?;
    let parts = [
        ("3:1", played.before),
        ("1:3, set while jobs ran", played.after),
    ];
    for (shares, had) in parts {
        let Had { three, one } = had;
        println!(
            "shares {shares}: {:.1} and {:.1} core-seconds, off by {:.2} % of what is due at worst",
            three as f64 / 1e6,
            one as f64 / 1e6,
            had.off() * 100.0
        );
    }
    for (shares, had) in parts {
        let off = had.off();
        ensure!(
            off <= OFF_MAX,
            "shares {shares}: off by {:.1} %",
            off * 100.0
        );
    }
    Ok(())
}
