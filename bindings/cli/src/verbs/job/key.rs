//! `eddy job key`: a key for a submission that a script may have to repeat.

use uuid::Uuid;

use crate::number::number;
use crate::output;

/// Print a new key for `eddy submit --key`, or many
///
/// A script that keeps it before it submits may submit again when it was cut off before the answer: what was
/// taken the first time is not taken twice, and its ids are told again. Also from another shell: the
/// environment is that of the first time. What asks for something else under the same key is refused. A key
/// is good for 30 days.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// So many keys, one a line
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = number(1..=KEYS_MAX))]
    number: u32,
}

/// So many at a time: as many as an instance has jobs at most that are not over, where nothing else is set.
const KEYS_MAX: u32 = 1_000_000;

const EXAMPLES: &str = "Examples:
  [ -s step.key ] || eddy job key >step.key
  eddy submit --key=$(cat step.key) --cc=1-1000 ./step {cc}";

pub fn run(args: &Args) -> anyhow::Result<u8> {
    output::lines((0..args.number).map(|_| Uuid::now_v7().to_string()))?;
    Ok(0)
}
