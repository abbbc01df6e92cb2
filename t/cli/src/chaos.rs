//! Rounds of chaos: each starts an instance, gives it a random workload and
//! random faults, waits until all is quiet and checks.
//!
//! What may be random is drawn from the seed of the round; which fault meets
//! which step is the machine's to say.

mod dice;

mod task;

mod client;

mod fault;

mod round;

mod oracle;

mod tree;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use round::Played;

/// What `chaos` is run with.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u64,
    /// Seed of the first round; the next has the next number [default: by the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// About how many jobs in each round
    #[arg(long, value_name = "N", default_value_t = 60)]
    jobs: u32,
    /// Only rounds on trees of ranks with instances in instances
    #[arg(long, conflicts_with = "flat")]
    tree: bool,
    /// Only rounds on one instance of one node
    #[arg(long)]
    flat: bool,
}

/// What a round is played on.
#[derive(Clone, Copy, Debug)]
enum Ground {
    Flat,
    Tree,
}

impl Ground {
    /// As was asked for; else every second seed is a tree.
    fn of(args: &Args, seed: u64) -> Ground {
        match (args.tree, args.flat) {
            (true, _) => Ground::Tree,
            (false, true) => Ground::Flat,
            (false, false) if seed.is_multiple_of(2) => Ground::Tree,
            (false, false) => Ground::Flat,
        }
    }

    fn option(self) -> &'static str {
        match self {
            Ground::Flat => "--flat",
            Ground::Tree => "--tree",
        }
    }
}

/// Whether every promise was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All were.
    Kept,
    /// At least one round broke one.
    Broken,
}

/// Plays the rounds and tells of each in a line.
#[must_use]
pub fn run(args: &Args) -> Outcome {
    let first = args.seed.unwrap_or_else(of_the_clock);
    let mut failed = 0;
    for seed in first..first + args.rounds {
        let begun = Instant::now();
        let ground = Ground::of(args, seed);
        let played = match ground {
            Ground::Flat => round::play(seed, args.jobs),
            Ground::Tree => tree::play(seed, args.jobs),
        };
        let seconds = begun.elapsed().as_secs_f64();
        match played {
            Ok(Played {
                jobs,
                faults,
                moves,
            }) => {
                let moves = moves.map(|moves| format!(", {moves}")).unwrap_or_default();
                println!(
                    "seed {seed} {}: {jobs} jobs{moves}, {}: ok, {seconds:.1} s",
                    ground.option(),
                    faults.join(", ")
                );
            }
            Err(broken) => {
                failed += 1;
                println!("seed {seed}: FAILED after {seconds:.1} s: {broken:#}");
                println!(
                    "    again: cargo run --release -p eddy-cli-tests -- chaos --rounds 1 {} --seed {seed} --jobs {}",
                    ground.option(),
                    args.jobs
                );
            }
        }
    }
    println!("{} passed, {failed} failed", args.rounds - failed);
    match failed {
        0 => Outcome::Kept,
        _ => Outcome::Broken,
    }
}

/// A seed that nobody chose, small enough to be typed.
fn of_the_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |since| {
        u64::from(since.subsec_nanos()) ^ (since.as_secs() % 1_000_000)
    })
}
