//! `eddy job key`: a key for a submission that a script may have to repeat.

use uuid::Uuid;

use crate::output;

/// Print a new key for `eddy submit --key`
///
/// A script that keeps it before it submits may submit again when it was cut off before the answer: what was
/// taken the first time is not taken twice, and its ids are told again. Also from another shell: the
/// environment is that of the first time. What asks for something else under the same key is refused. A key
/// is good for 30 days.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {}

const EXAMPLES: &str = "Examples:
  [ -s step.key ] || eddy job key >step.key
  eddy submit --key=$(cat step.key) --cc=1-1000 ./step {cc}";

pub fn run() -> anyhow::Result<u8> {
    output::lines([Uuid::now_v7().to_string()])?;
    Ok(0)
}
