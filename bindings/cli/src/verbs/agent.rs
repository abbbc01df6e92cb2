//! `eddy agent`: the ranks of one node that do not lead, in this process.
//!
//! Hidden: a leader or an administrator's service starts it.

pub use eddy_brokerd::agent::AgentArgs as Args;

use super::code;

/// Hosts until it is told to end.
pub fn run(args: Args) -> anyhow::Result<u8> {
    Ok(code(eddy_brokerd::agent::run_agent(args)))
}
