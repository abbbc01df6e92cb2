//! `eddy broker`: the leader of an instance, in this process.
//!
//! Hidden: `eddy start` or an administrator's service starts it.

/// Lead an instance
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<u8> {
    anyhow::bail!("not linked in")
}
