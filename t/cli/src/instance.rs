//! A running instance in a place, driven by the `eddy` command.
//!
//! Made by tests and by `chaos`. It is shut down when it goes; what a shutdown
//! leaves is the place's to find.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use eddy_client::{Client, ClientError, Options, Uri};
use eddy_wire::services::job::{Submit, SubmitRequest, Submitted};
use serde_json::Value;

use crate::place::Place;
use crate::process::Process;
use crate::running::{Ran, Running};

/// A leader and its shell on a state directory.
#[derive(Debug)]
pub struct Instance {
    options: Vec<String>,
    uri: String,
    state: PathBuf,
    /// Where it runs. Goes last: it looks for what is left.
    pub place: Place,
}

impl Instance {
    /// Starts one with these options of `eddy start`, in a place of its own.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(options: &[&str]) -> anyhow::Result<Instance> {
        let place = Place::new()?;
        let state = place.path().join("state");
        Instance::start_in(place, state, options)
    }

    /// The same on a given state directory.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_in(place: Place, state: PathBuf, options: &[&str]) -> anyhow::Result<Instance> {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut instance = Instance {
            options,
            uri: String::new(),
            state,
            place,
        };
        instance.uri = instance.begin_leader()?;
        Ok(instance)
    }

    /// Starts the leader on the same state directory, after it has ended.
    ///
    /// # Errors
    /// It does not start, or is to be reached elsewhere than before.
    pub fn start_again(&self) -> anyhow::Result<()> {
        let uri = self.begin_leader()?;
        ensure!(uri == self.uri, "it was at {} and is at {uri}", self.uri);
        Ok(())
    }

    /// The URI that `eddy start` prints in its one line.
    fn begin_leader(&self) -> anyhow::Result<String> {
        let printed = Running::start(self.starting())?.wait()?.ok()?;
        let mut lines = printed.lines();
        let uri = lines.next().and_then(|line| line.strip_prefix("EDDY_URI="));
        let uri = uri
            .with_context(|| format!("eddy start printed `{printed}`"))?
            .to_owned();
        ensure!(
            lines.next().is_none(),
            "eddy start printed more than a line: `{printed}`"
        );
        Ok(uri)
    }

    /// The command that starts it in the background.
    #[must_use]
    pub fn starting(&self) -> Command {
        let mut command = self.place.eddy(&["start", "--background", "--statedir"]);
        command.arg(&self.state).args(&self.options);
        command
    }

    /// Where it keeps its state.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Where it is reached.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The path of the socket for clients.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        PathBuf::from(self.uri.trim_start_matches("local://"))
    }

    /// `eddy` with these arguments, for this instance.
    #[must_use]
    pub fn eddy(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.eddy(arguments);
        command.env("EDDY_URI", &self.uri);
        command
    }

    /// Runs `eddy` with these arguments to its end.
    ///
    /// # Errors
    /// It cannot be started or does not end.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<Ran> {
        self.begin(arguments)?.wait()
    }

    /// Starts `eddy` with these arguments.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin(&self, arguments: &[&str]) -> anyhow::Result<Running> {
        Running::start(self.eddy(arguments))
    }

    /// Runs `eddy` with these arguments; what it printed, without the last line break.
    ///
    /// # Errors
    /// It does not end with 0.
    pub fn ok(&self, arguments: &[&str]) -> anyhow::Result<String> {
        Ok(self.run(arguments)?.ok()?.trim_end().to_owned())
    }

    /// Runs `eddy` with these arguments; what it printed, as JSON.
    ///
    /// # Errors
    /// It does not end with 0 or prints something else.
    pub fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let text = self.ok(arguments)?;
        serde_json::from_str(&text)
            .with_context(|| format!("eddy {}: `{text}`", arguments.join(" ")))
    }

    /// The id of a job that is submitted with these arguments of `eddy submit`.
    ///
    /// # Errors
    /// It is refused.
    pub fn submit(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.ok(&[&["submit"], arguments].concat())
    }

    /// The same, back when its tasks run.
    ///
    /// # Errors
    /// It is refused or does not start.
    pub fn submit_started(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.submit(&[&["--wait-event=start"], arguments].concat())
    }

    /// The exit code of a job, after waiting for its end.
    ///
    /// # Errors
    /// It does not end.
    pub fn code(&self, job: &str) -> anyhow::Result<i32> {
        Ok(self.run(&["job", "status", job])?.code)
    }

    /// The instance's shell on a node that is not its leader's.
    ///
    /// # Errors
    /// There is none.
    pub fn shell_on(&self, rank: u32) -> anyhow::Result<Process> {
        let lock = self.state().join(format!("ranks/{rank}/shell.lock"));
        let text = std::fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
        let pid = text.split_whitespace().next().unwrap_or_default();
        let shell = Process::of(pid.parse()?).context("the shell has ended")?;
        anyhow::ensure!(shell.is_eddy("shell"), "{shell}");
        Ok(shell)
    }

    /// The row of a job as `eddy jobs --json` shows it.
    ///
    /// # Errors
    /// There is no such job.
    pub fn row(&self, job: &str) -> anyhow::Result<Value> {
        let rows = self.json(&["jobs", "--json", job])?;
        Ok(rows
            .get(0)
            .with_context(|| format!("no row of job {job}"))?
            .clone())
    }

    /// Names of the events of a job so far.
    ///
    /// # Errors
    /// There is no such job.
    pub fn events(&self, job: &str) -> anyhow::Result<Vec<String>> {
        let lines = self.ok(&["job", "eventlog", "--format=json", job])?;
        let name = |line: &str| {
            let event: Value = serde_json::from_str(line)?;
            Ok(event["name"]
                .as_str()
                .context("an event has a name")?
                .to_owned())
        };
        lines.lines().map(name).collect()
    }

    /// Waits until this event has happened to a job.
    ///
    /// # Errors
    /// It does not happen.
    pub fn event(&self, job: &str, name: &str) -> anyhow::Result<()> {
        self.ok(&["job", "wait-event", "--quiet", job, name])
            .map(drop)
    }

    /// Submits by the client library, for what the command cannot say.
    ///
    /// # Errors
    /// The refusal.
    pub fn submit_request(&self, request: &SubmitRequest) -> Result<Submitted, ClientError> {
        let uri: Uri = self.uri.parse().expect("it came from eddy");
        on_this_thread(async {
            let client = Client::connect(&uri, Options::default()).await?;
            client.call::<Submit>(request).await
        })
    }

    /// The leader's process.
    ///
    /// # Errors
    /// There is none.
    pub fn leader(&self) -> anyhow::Result<Process> {
        self.place.only("broker")
    }

    /// The shell's process.
    ///
    /// # Errors
    /// There is none.
    pub fn shell(&self) -> anyhow::Result<Process> {
        self.place.only("shell")
    }

    /// The state directory of a queue instance of this one, of two nodes, on whichever its leader is.
    ///
    /// # Errors
    /// There is none.
    pub fn state_of(&self, name: &str) -> anyhow::Result<PathBuf> {
        let nodes = [self.state().to_owned(), self.state().join("ranks/1")];
        let mut states = nodes.iter().map(|node| node.join("children").join(name));
        let found = states.find(|state| state.is_dir());
        found.with_context(|| format!("no state of {name}"))
    }

    /// Ends the leader with SIGKILL; back when it is gone.
    ///
    /// # Errors
    /// There is none.
    pub fn kill_leader(&self) -> anyhow::Result<()> {
        self.leader()?.kill()
    }

    /// Ends the shell with SIGKILL; back when it is gone.
    ///
    /// # Errors
    /// There is none.
    pub fn kill_shell(&self) -> anyhow::Result<()> {
        self.shell()?.kill()
    }

    /// Ends the instance in order and looks that nothing is left of it.
    ///
    /// # Errors
    /// It does not end, or leaves something.
    pub fn shut_down(&self) -> anyhow::Result<()> {
        self.ok(&["shutdown"])?;
        self.place.nothing_is_left()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let leads = |one: &Process| one.is_eddy("broker");
        if std::thread::panicking() || !self.place.processes().iter().any(leads) {
            return;
        }
        match self.run(&["shutdown"]) {
            Ok(ran) if ran.code == 0 => {}
            Ok(ran) => eprintln!("eddy shutdown: exit code {}: {}", ran.code, ran.err),
            Err(error) => eprintln!("{error:#}"),
        }
    }
}

/// Runs one task of the client library to its end.
pub fn on_this_thread<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime of one thread").block_on(work)
}

/// The leader that holds a state directory.
///
/// # Errors
/// None lives there.
pub fn leader_of(state: &Path) -> anyhow::Result<Process> {
    let text = std::fs::read_to_string(state.join("lock"))?;
    let leader = Process::of(text.trim().parse()?).context("its leader has ended")?;
    ensure!(leader.is_eddy("broker"), "{leader}");
    Ok(leader)
}
