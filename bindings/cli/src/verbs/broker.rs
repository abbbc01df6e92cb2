//! `eddy broker`: the leader of an instance, in this process.
//!
//! Hidden: `eddy start` or an administrator's service starts it.

pub use eddy_brokerd::leader::BrokerArgs as Args;

use super::code;

/// Leads until the instance ends.
pub fn run(args: Args) -> anyhow::Result<u8> {
    // Who waits for the start is a command at a terminal, whose keys and whose
    // end are not for the leader. A service's leader stays where it was put.
    if args.ready_fd.is_some() {
        let _ = rustix::process::setsid();
    }
    Ok(code(eddy_brokerd::leader::run_broker(args)))
}
