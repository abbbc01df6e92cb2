//! `eddy broker`: the leader of an instance, in this process.
//!
//! Hidden: `eddy start` or an administrator's service starts it.

use eddy_brokerd::leader::{BrokerArgs, run_broker};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setsid};

use super::code;

/// Lead an instance
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    broker: BrokerArgs,
    /// End in order when the process of this id, which started this one, has ended
    #[arg(long, value_name = "PID")]
    with_parent: Option<i32>,
}

/// Leads until the instance ends.
pub fn run(args: Args) -> anyhow::Result<u8> {
    // Who waits for the start is a command at a terminal, whose keys are not for
    // the leader. A service's leader stays in the session where it was put.
    if args.broker.ready_fd.is_some() {
        let _ = setsid();
    }
    if let Some(parent) = args.with_parent {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // It may have died before we asked to hear of it.
        anyhow::ensure!(
            getppid().map(Pid::as_raw_nonzero).map(i32::from) == Some(parent),
            "process {parent} is not the parent of this one"
        );
    }
    Ok(code(run_broker(args.broker)))
}
