//! Starting an instance's leader as a process, and ending it.
//!
//! Used by `start` and `demo`. The leader writes its URI to a pipe when it takes
//! work. It is started in a session of its own (the `broker` verb sees to that),
//! so that a key pressed here does not reach it.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{ArgAction, Args};
use eddy_brokerd::inventory::IDS_MAX;
use eddy_brokerd::leader::SIZE_MAX;
use eddy_client::{Client, Options, Uri};
use eddy_wire::services::instance::{Shutdown, ShutdownRequest};

use crate::number::number;

/// The log of a leader, in its state directory.
const LOG: &str = "log";
/// The most a leader says about its start.
const READY_BYTES_MAX: u64 = 64 << 10;
/// How long a leader may take to end in order before it is killed.
pub const END_PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two looks at an ending leader.
const END_LOOK: Duration = Duration::from_millis(5);

/// What an instance is started with.
#[derive(Args, Clone, Debug, Default)]
pub struct StartOptions {
    /// Take the resources from this file (R version 1, RFC 20) instead of this machine
    #[arg(long, value_name = "FILE", conflicts_with = "cores")]
    pub resources: Option<String>,
    /// Pretend to have these nodes; tasks last -S exec.test.run_duration (default 0 s)
    #[arg(
        long,
        value_name = "nodes=N,sockets=N,cores=N,gpus=N,memory=SIZE",
        conflicts_with_all = ["resources", "cores"]
    )]
    pub fake: Option<String>,
    /// Declare so many cores, also more than the machine has
    #[arg(long, value_name = "N", value_parser = number(1..=IDS_MAX))]
    pub cores: Option<u32>,
    /// So many nodes, each with an agent of its own on this machine, as if each were a host
    #[arg(long, value_name = "N", value_parser = number(1..=SIZE_MAX as u32))]
    pub size: Option<u32>,
    /// Configuration file [default: config.toml in the state directory, else what was given last]
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// Set a key of the configuration
    #[arg(short = 'S', long = "setattr", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Start on what is whole of a damaged journal
    #[arg(long)]
    pub recover: bool,
    /// The state directory was copied to where it is, and what it was copied from is not used any more
    #[arg(long)]
    pub moved: bool,
}

impl StartOptions {
    /// The same as arguments of `eddy broker`.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut put = |name: &str, value: &Option<String>| {
            if let Some(value) = value {
                arguments.push(format!("--{name}={value}"));
            }
        };
        put("resources", &self.resources);
        put("fake", &self.fake);
        put("cores", &self.cores.map(|cores| cores.to_string()));
        put("size", &self.size.map(|size| size.to_string()));
        put("config", &self.config);
        if self.recover {
            arguments.push("--recover".to_owned());
        }
        if self.moved {
            arguments.push("--moved".to_owned());
        }
        for set in &self.set {
            arguments.extend(["-S".to_owned(), set.clone()]);
        }
        arguments
    }
}

/// Whether a leader ends with the command that started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It ends in order when the command has ended, however that was.
    OfCommand,
    /// It goes on.
    Own,
}

/// How a leader that was told to end did so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with what it started.
    InOrder,
    /// It hung and was killed: what it started goes on.
    Killed,
}

/// A leader that was started from here and takes work.
pub struct Leader {
    child: Child,
    /// Where it is reached.
    pub uri: Uri,
}

impl Leader {
    /// Starts a leader on this state directory and waits until it takes work.
    pub fn start(statedir: &Path, options: &StartOptions, life: Life) -> anyhow::Result<Leader> {
        make_statedir(statedir)?;
        let log_path = statedir.join(LOG);
        let log = OpenOptions::new().create(true).append(true).open(&log_path);
        let log = log.with_context(|| format!("cannot open {}", log_path.display()))?;
        let (ready, told) = rustix::pipe::pipe().context("cannot make a pipe")?;
        // The leader inherits only the end that it writes to.
        rustix::io::fcntl_setfd(&ready, rustix::io::FdFlags::CLOEXEC)?;
        let program = std::env::current_exe().context("cannot find the program of this command")?;
        let with_parent = match life {
            Life::OfCommand => Some(format!("--with-parent={}", std::process::id())),
            Life::Own => None,
        };
        let mut child = Command::new(program)
            .arg("broker")
            .arg("--statedir")
            .arg(statedir)
            .arg(format!("--ready-fd={}", told.as_raw_fd()))
            .args(with_parent)
            .args(options.arguments())
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("cannot share the log")?)
            .stderr(log)
            .spawn()
            .context("cannot start the leader")?;
        drop(told);
        match first_words(ready.into()) {
            Ok(uri) => Ok(Leader { child, uri }),
            Err(said) => {
                let status = child.wait().context("cannot wait for the leader")?;
                match said.is_empty() {
                    true => bail!(
                        "the leader ended before it took work ({}); see {}",
                        describe(status),
                        log_path.display()
                    ),
                    false => bail!("{said}"),
                }
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot look at the leader")
    }

    /// Kills it as the kernel or an administrator might.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("cannot kill the leader")?;
        self.child.wait().context("cannot wait for the leader")?;
        Ok(())
    }

    /// Ends the instance: what runs is cancelled, then the leader exits.
    pub async fn shutdown(&mut self, note: &str) -> anyhow::Result<()> {
        match self.end(note).await? {
            Ending::InOrder => Ok(()),
            Ending::Killed => bail!(
                "the leader did not end within {} s and was killed",
                END_PATIENCE.as_secs()
            ),
        }
    }

    /// The same, and says whether it had to be killed.
    pub async fn end(&mut self, note: &str) -> anyhow::Result<Ending> {
        let until = Instant::now() + END_PATIENCE;
        let request = ShutdownRequest {
            note: note.to_owned(),
            declared: None,
        };
        let options = Options { wait: END_PATIENCE };
        if self.ended()?.is_none() {
            let uri = self.uri.clone();
            let asked = async {
                let client = Client::connect(&uri, options).await?;
                client
                    .call_once::<Shutdown>(&request, bytes::Bytes::new())
                    .await
            };
            tokio::select! {
                // A leader that is gone before it answered has done what was asked,
                // one that somebody else told to end does it.
                _ = asked => {}
                ended = self.until_ended() => return ended.map(|()| Ending::InOrder),
                // One that hangs answers never.
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
        while self.ended()?.is_none() {
            if Instant::now() > until {
                self.kill()?;
                return Ok(Ending::Killed);
            }
            tokio::time::sleep(END_LOOK).await;
        }
        Ok(Ending::InOrder)
    }

    async fn until_ended(&mut self) -> anyhow::Result<()> {
        while self.ended()?.is_none() {
            tokio::time::sleep(END_LOOK).await;
        }
        Ok(())
    }
}

/// A leader that nobody took over ends with who started it.
impl Drop for Leader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets a leader go on without this command.
pub fn leave(leader: Leader) -> Uri {
    let uri = leader.uri.clone();
    std::mem::forget(leader);
    uri
}

/// How a process ended, in words.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_owned(),
    }
}

/// The exit code that scripts expect of a command that ran another.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(crate::output::FAILED)
}

fn make_statedir(statedir: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(statedir);
    made.with_context(|| format!("cannot make the state directory {}", statedir.display()))
}

/// The URI that a leader writes when it takes work, or what it says instead. What
/// it says in more lines is for people.
fn first_words(mut ready: File) -> Result<Uri, String> {
    let mut text = String::new();
    let read = ready
        .by_ref()
        .take(READY_BYTES_MAX)
        .read_to_string(&mut text);
    let mut lines = text.lines();
    let line = lines.next().unwrap_or_default().trim();
    for note in lines {
        eprintln!("eddy start: {note}");
    }
    match (read, line.starts_with("local://")) {
        (Ok(_), true) => line.parse::<Uri>().map_err(|error| error.to_string()),
        _ => Err(line.to_owned()),
    }
}

/// A state directory that is there for this command only.
pub fn temporary_statedir() -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::Builder::new().prefix("eddy-").tempdir();
    directory.context("cannot make a temporary state directory")
}

/// The absolute form of a path, which outlives a change of directory.
pub fn absolute(path: &str) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("`{path}` is not a path"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn said(text: &str) -> Result<Uri, String> {
        let (ready, told) = rustix::pipe::pipe().expect("a pipe");
        File::from(told)
            .write_all(text.as_bytes())
            .expect("written");
        first_words(ready.into())
    }

    #[test]
    fn a_leader_says_where_it_is_or_why_not() {
        assert_eq!(
            said("local:///tmp/x/local\n").expect("a URI").path(),
            Path::new("/tmp/x/local")
        );
        assert_eq!(
            said("journal is newer\n"),
            Err("journal is newer".to_owned())
        );
        assert_eq!(said(""), Err(String::new()));
    }

    #[test]
    fn options_reach_the_broker_as_they_were_given() {
        let options = StartOptions {
            fake: Some("nodes=2".into()),
            cores: Some(16),
            size: Some(4),
            set: vec!["a=b c".into()],
            recover: true,
            moved: true,
            ..StartOptions::default()
        };
        assert_eq!(
            options.arguments(),
            [
                "--fake=nodes=2",
                "--cores=16",
                "--size=4",
                "--recover",
                "--moved",
                "-S",
                "a=b c"
            ]
        );
    }
}
