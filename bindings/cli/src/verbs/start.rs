//! `eddy start`: a fresh instance around a command, or one that stays.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use eddy_client::uri::URI_VARIABLE;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::instance::{
    END_PATIENCE, Ending, Leader, Life, StartOptions, absolute, describe, exit_code, leave,
    temporary_statedir,
};
use crate::output;
use crate::session::block_on;

/// Deaths of the leader that are made good within [`DEATHS_WITHIN`].
const DEATHS_MAX: usize = 3;
/// See [`DEATHS_MAX`].
const DEATHS_WITHIN: Duration = Duration::from_secs(60);
/// How often the leader is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// What a command in a fresh instance must not believe of itself: that it is a task.
pub(super) const OF_A_TASK: &[&str] = &[
    "EDDY_JOB_",
    "EDDY_TASK_",
    "FLUX_JOB_",
    "FLUX_TASK_",
    "PMI_",
    "PMIX_",
    "PALS_",
    "SLURM_",
];

/// Start an instance and run a command in it
///
/// The command finds the instance by EDDY_URI. When it ends, the instance is shut down and the
/// exit code is the command's, also when the command or somebody else has shut the instance down
/// before. Without --statedir all that the instance kept is removed then. A leader that hangs at the
/// end is killed after 30 s, and another is started that ends what it left running. Where eddy start
/// itself is ended by SIGKILL the instance ends, and the command is left to whoever started it.
///
/// With --background the instance stays: one line EDDY_URI=... is printed when it takes work.
/// On a state directory that was used before it goes on where it ended.
///
/// It takes work before its ranks are there, which come in the moments after, also again after a restart: a job
/// waits for those that it needs, eddy exec does not. `eddy run -N NODES true` is back when so many are there.
#[derive(clap::Args)]
pub struct Args {
    /// Return when the instance takes work, and let it stay
    #[arg(long, requires = "statedir", conflicts_with = "command")]
    background: bool,
    /// Where the instance keeps its journal, output and log
    #[arg(long, value_name = "DIR")]
    statedir: Option<String>,
    #[command(flatten)]
    options: StartOptions,
    /// Program and its arguments; options end here [default: $SHELL]
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: Args) -> anyhow::Result<u8> {
    let mut options = args.options;
    for file in [&mut options.resources, &mut options.config]
        .into_iter()
        .flatten()
    {
        *file = absolute(file)?
            .into_os_string()
            .into_string()
            .expect("made of UTF-8");
    }
    let kept = args.statedir.as_deref().map(absolute).transpose()?;
    if let (true, Some(statedir)) = (args.background, &kept) {
        let uri = leave(Leader::start(statedir, &options, Life::Own)?);
        output::lines([format!("{URI_VARIABLE}={uri}")])?;
        return Ok(0);
    }
    let temporary = if kept.is_none() {
        Some(temporary_statedir()?)
    } else {
        None
    };
    let statedir = match (&kept, &temporary) {
        (Some(kept), _) => kept.as_path(),
        (None, Some(temporary)) => temporary.path(),
        (None, None) => unreachable!("a directory is given or made"),
    };
    let command = match args.command.is_empty() {
        true => vec![std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())],
        false => args.command,
    };
    let leader = Leader::start(statedir, &options, Life::OfCommand)?;
    block_on(around(statedir, &options, leader, &command))
}

/// Runs the command, keeps its instance alive meanwhile, ends it afterwards.
async fn around(
    statedir: &Path,
    options: &StartOptions,
    mut leader: Leader,
    command: &[String],
) -> anyhow::Result<u8> {
    let mut child = match spawn(command, &leader) {
        Ok(child) => child,
        Err(error) => {
            let note = "its command could not be started";
            end(statedir, options, &mut leader, note).await?;
            return Err(error);
        }
    };
    let ended = attend(statedir, options, &mut leader, &mut child).await;
    if ended.is_err() {
        let _ = child.kill().await;
    }
    end(statedir, options, &mut leader, "its command ended").await?;
    Ok(exit_code(ended?))
}

/// Ends the instance. What a leader that hangs has started knows nothing of an end: another leader finds
/// it all in the journal, as after any death of the one before.
async fn end(
    statedir: &Path,
    options: &StartOptions,
    leader: &mut Leader,
    note: &str,
) -> anyhow::Result<()> {
    match leader.end(note).await? {
        Ending::InOrder => return Ok(()),
        Ending::Killed => eprintln!(
            "eddy start: the leader did not end within {} s and was killed; another ends what it left",
            END_PATIENCE.as_secs()
        ),
    }
    *leader = Leader::start(statedir, options, Life::OfCommand)?;
    leader.shutdown(note).await
}

fn spawn(command: &[String], leader: &Leader) -> anyhow::Result<Child> {
    let (program, arguments) = command.split_first().expect("a command has a program");
    let mut child = Command::new(program);
    child
        .args(arguments)
        .env(URI_VARIABLE, leader.uri.to_string());
    for (name, _) in std::env::vars_os() {
        let of_a_task = |prefix: &&str| name.to_str().is_some_and(|name| name.starts_with(prefix));
        if OF_A_TASK.iter().any(of_a_task) {
            child.env_remove(name);
        }
    }
    child
        .spawn()
        .with_context(|| format!("cannot start {program}"))
}

/// Waits for the command; starts the leader again if it dies.
async fn attend(
    statedir: &Path,
    options: &StartOptions,
    leader: &mut Leader,
    child: &mut Child,
) -> anyhow::Result<ExitStatus> {
    // The terminal sends ctrl-C to the command as well, which decides.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut ends = signal(SignalKind::terminate())?;
    let mut hangups = signal(SignalKind::hangup())?;
    let mut look = tokio::time::interval(LOOK);
    let mut deaths: Vec<Instant> = Vec::new();
    loop {
        tokio::select! {
            status = child.wait() => return status.context("cannot wait for the command"),
            _ = interrupts.recv() => {}
            _ = ends.recv() => pass_on(child, rustix::process::Signal::TERM),
            _ = hangups.recv() => pass_on(child, rustix::process::Signal::HUP),
            _ = look.tick() => {
                let Some(status) = leader.ended()? else { continue };
                restart(statedir, options, leader, status, &mut deaths)?;
            }
        }
    }
}

/// A leader that died by a signal comes back; one that exited had a reason.
fn restart(
    statedir: &Path,
    options: &StartOptions,
    leader: &mut Leader,
    status: ExitStatus,
    deaths: &mut Vec<Instant>,
) -> anyhow::Result<()> {
    if status.signal().is_none() {
        // Ended in order, by `eddy shutdown`: the command may go on without it.
        if status.success() {
            return Ok(());
        }
        bail!("the leader ended ({})", describe(status));
    }
    deaths.retain(|death| death.elapsed() < DEATHS_WITHIN);
    deaths.push(Instant::now());
    if deaths.len() > DEATHS_MAX {
        let within = DEATHS_WITHIN.as_secs();
        bail!(
            "the leader died {} times within {within} s ({})",
            deaths.len(),
            describe(status)
        );
    }
    eprintln!(
        "eddy start: the leader died ({}) and is started again",
        describe(status)
    );
    *leader = Leader::start(statedir, options, Life::OfCommand)?;
    Ok(())
}

fn pass_on(child: &Child, signal: rustix::process::Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}
