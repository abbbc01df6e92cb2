//! `eddy shell`: the parent of the tasks of one broker, in this process.
//!
//! Hidden: a broker starts it before its first task and says what it must know.

pub use eddy_brokerd::shell::process::ShellArgs as Args;

use super::code;

/// Runs the shell until it is told to end.
pub fn run(args: Args) -> anyhow::Result<u8> {
    Ok(code(eddy_brokerd::shell::process::run_shell(args)))
}
