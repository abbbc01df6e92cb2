//! An instance to be measured: started as a user would, reached by its URI, read from /proc, ended when
//! dropped. Used by every bench that needs eddy. Speaks no protocol of its own: it runs the command.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::Setup;
use crate::process::{self, Process};

/// How long a process may take to be gone once it was told to.
const GONE_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The `eddy` command: EDDY_BIN, or the one beside this program.
///
/// # Errors
/// There is none.
pub fn eddy() -> anyhow::Result<PathBuf> {
    let path = match std::env::var_os("EDDY_BIN") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()
            .context("the path of this program")?
            .with_file_name("eddy"),
    };
    ensure!(
        path.is_file(),
        "no {}: cargo build --release -p eddy-cli, or set EDDY_BIN",
        path.display()
    );
    Ok(path)
}

/// Seconds of CPU used by the parts of eddy, tasks not among them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// The process with the journal and the scheduler.
    pub leader: f64,
    /// The process that parents the tasks; 0 before the first task.
    pub shell: f64,
}

/// How one run of a command went.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Seconds from start to end.
    pub wall: f64,
    /// Seconds of CPU of the command itself.
    pub client: f64,
    /// Seconds of CPU of the instance meanwhile.
    pub instance: Cpu,
}

/// One running instance in a state directory of its own.
pub struct Instance {
    eddy: PathBuf,
    options: Vec<String>,
    uri: String,
    folder: tempfile::TempDir,
}

impl Instance {
    /// Starts one with these options of `eddy start`.
    ///
    /// # Errors
    /// It does not start, or prints no URI.
    pub fn start(setup: &Setup, options: &[&str]) -> anyhow::Result<Self> {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let folder = setup.fresh_folder()?;
        let mut instance = Self {
            eddy: eddy()?,
            options,
            uri: String::new(),
            folder,
        };
        instance.start_again()?;
        Ok(instance)
    }

    /// Starts the leader on the same state directory, after [`Self::kill_leader`].
    ///
    /// # Errors
    /// It does not start, or prints no URI.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(&self.eddy);
        command
            .args(["start", "--background", "--statedir"])
            .arg(self.state())
            .args(&self.options);
        // A file and not a pipe: what runs in the background would hold a pipe open for ever.
        let said = self.folder.path().join("start.out");
        command
            .env_remove("EDDY_URI")
            .stdin(Stdio::null())
            .stdout(File::create(&said)?);
        let status = command.status().context("eddy start")?;
        let text = std::fs::read_to_string(&said)?;
        ensure!(
            status.success(),
            "eddy start {}: {status}",
            self.options.join(" ")
        );
        let uri = text.lines().find_map(|line| line.strip_prefix("EDDY_URI="));
        self.uri = uri
            .with_context(|| format!("eddy start printed no EDDY_URI= but `{text}`"))?
            .to_owned();
        Ok(())
    }

    /// Where it keeps its state.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// An `eddy` command that reaches this instance.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.eddy);
        command
            .args(arguments)
            .env("EDDY_URI", &self.uri)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command and gives what it printed.
    ///
    /// # Errors
    /// It does not end with 0.
    pub fn output(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut child = self
            .command(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .context("eddy")?;
        let mut text = String::new();
        child
            .stdout
            .take()
            .context("a pipe was asked for")?
            .read_to_string(&mut text)?;
        let status = child.wait()?;
        ensure!(status.success(), "eddy {}: {status}", arguments.join(" "));
        Ok(text)
    }

    /// Runs a command, output thrown away, and measures it.
    ///
    /// # Errors
    /// It does not end with 0.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<Ran> {
        let before = self.cpu()?;
        let begun = Instant::now();
        let child = self
            .command(arguments)
            .stdout(Stdio::null())
            .spawn()
            .context("eddy")?;
        let (status, client) = process::wait_with_cpu(&child)?;
        let wall = begun.elapsed().as_secs_f64();
        ensure!(status.success(), "eddy {}: {status}", arguments.join(" "));
        let after = self.cpu()?;
        let instance = Cpu {
            leader: after.leader - before.leader,
            shell: after.shell - before.shell,
        };
        Ok(Ran {
            wall,
            client,
            instance,
        })
    }

    /// Submits `count` jobs in as many pieces as needed to stay far below any limit, and waits for
    /// each piece to end if `arguments` say so.
    ///
    /// # Errors
    /// A piece is refused.
    pub fn submit_many(&self, count: usize, arguments: &[&str]) -> anyhow::Result<()> {
        const PIECE: usize = 50_000;
        let mut left = count;
        while left > 0 {
            let piece = left.min(PIECE);
            let ids = format!("--cc=1-{piece}");
            let mut line = vec!["submit", "--quiet", &ids];
            line.extend(arguments);
            self.run(&line)?;
            left -= piece;
        }
        Ok(())
    }

    /// CPU used so far. A shell that died takes its figures with it.
    ///
    /// # Errors
    /// The leader is gone.
    pub fn cpu(&self) -> anyhow::Result<Cpu> {
        let leader = process::cpu_of(self.leader()?)?;
        let shell = self.shell().map_or(Ok(0.0), process::cpu_of)?;
        Ok(Cpu { leader, shell })
    }

    /// Pid of the leader, found as an administrator would: by the state directory on its command line.
    ///
    /// # Errors
    /// There is none.
    pub fn leader(&self) -> anyhow::Result<u32> {
        self.verb("broker")
            .with_context(|| format!("no `broker --statedir {}`", self.state().display()))
    }

    /// Pid of the shell, if it has been started.
    #[must_use]
    pub fn shell(&self) -> Option<u32> {
        self.verb("shell")
    }

    fn verb(&self, verb: &str) -> Option<u32> {
        let mut all = process::all().into_iter();
        all.find(|process| is_part(process, verb, &self.state(), &self.uri))
            .map(|process| process.pid)
    }

    /// Every process of the instance and of what nests in it: leaders, agents, shells.
    #[must_use]
    pub fn parts(&self) -> Vec<u32> {
        let all = process::all();
        let parts = all.into_iter().filter(|process| {
            let verb = process.arguments.get(1).map_or("", String::as_str);
            let is_named = is_part(process, verb, &self.state(), &self.uri);
            // Leaders of instances in it are told their place by their environment.
            let is_told = || process::environment_names(process.pid, &self.state());
            ["broker", "agent", "shell"].contains(&verb) && (is_named || is_told())
        });
        parts.map(|process| process.pid).collect()
    }

    /// Ends the leader with SIGKILL and waits until it is gone.
    ///
    /// # Errors
    /// It cannot be signalled or does not go.
    pub fn kill_leader(&self) -> anyhow::Result<()> {
        let pid = self.leader()?;
        kill(pid)?;
        wait_until("the leader to be gone", GONE_WITHIN, || Ok(!is_alive(pid)))
    }
}

impl Drop for Instance {
    /// Ends everything. What a shutdown leaves is ended by signal and told, since it is a bug.
    fn drop(&mut self) {
        let quiet = self.command(&["shutdown"]).stdout(Stdio::null()).status();
        let parts = self.parts();
        let gone = || Ok(parts.iter().all(|pid| !is_alive(*pid)));
        let ended = wait_until("the instance to end", GONE_WITHIN, gone);
        if ended.is_err() || !quiet.is_ok_and(|status| status.success()) {
            eprintln!(
                "eddy-bench: eddy shutdown left something of {}",
                self.state().display()
            );
        }
        for pid in parts.into_iter().filter(|pid| is_alive(*pid)) {
            eprintln!("eddy-bench: ending process {pid}");
            let _gone_meanwhile = kill(pid);
        }
    }
}

/// True for `eddy VERB ...` with the state directory, or something in the directory of the URI's
/// socket, among its arguments.
fn is_part(process: &Process, verb: &str, state: &Path, uri: &str) -> bool {
    let state = state.to_string_lossy();
    let socket = uri.split_once("://").map_or(uri, |(_, path)| path);
    let place = Path::new(socket)
        .parent()
        .map(Path::to_string_lossy)
        .unwrap_or_default();
    let names = |text: &str| {
        text.contains(state.as_ref()) || (place.len() > 1 && text.contains(place.as_ref()))
    };
    process.arguments.get(1).is_some_and(|first| first == verb)
        && process.arguments.iter().any(|text| names(text))
}

fn kill(pid: u32) -> anyhow::Result<()> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .context("a pid")?;
    kill_process(pid, Signal::KILL).context("SIGKILL")
}

/// A process that has ended and waits to be reaped by somebody is gone.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Looks at a condition until it holds.
///
/// # Errors
/// It does not hold in time, or cannot be looked at.
pub fn wait_until(
    what: &str,
    limit: Duration,
    mut holds: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > limit {
            bail!("waited {} s for {what}", limit.as_secs());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart_by_verb_and_place() {
        let process = |line: &str| Process {
            pid: 1,
            arguments: line.split(' ').map(str::to_owned).collect(),
        };
        let is = |line, verb| {
            is_part(
                &process(line),
                verb,
                Path::new("/x/bench-a/state"),
                "local:///run/e/abc/local",
            )
        };
        assert!(is("eddy broker --statedir /x/bench-a/state", "broker"));
        assert!(is(
            "eddy broker --statedir=/x/bench-a/state --cores 2",
            "broker"
        ));
        assert!(is("eddy shell --socket /run/e/abc/shell", "shell"));
        assert!(!is("eddy shell --statedir /x/bench-b/state", "shell"));
        assert!(!is("vi broker /x/bench-a/other", "broker"));
        assert!(!is("eddy start --statedir /x/bench-a/state", "broker"));
    }

    #[test]
    fn a_condition_that_never_holds_is_named() {
        let error = wait_until("rain", Duration::ZERO, || Ok(false)).unwrap_err();
        assert_eq!(error.to_string(), "waited 0 s for rain");
    }
}
