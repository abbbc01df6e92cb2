//! `eddy completion`: what a shell needs to complete this command.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::output;

/// Print the completions for an interactive shell
///
/// For bash: eddy completion bash > ~/.local/share/bash-completion/completions/eddy
#[derive(clap::Args)]
pub struct Args {
    /// Which
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "eddy", &mut text);
    output::lines([String::from_utf8_lossy(&text)])?;
    Ok(0)
}
