//! Where one test happens: a directory, a mark that everything started there
//! carries, and an environment that leads to no other instance.
//!
//! The guard of the tests: when it goes, everything with its mark has ended, or
//! is ended and the test fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::fifo::Fifo;
use crate::process::{Process, naming};
use crate::program;
use crate::running::{Ran, Running};

/// The variable of the mark.
const MARK_VARIABLE: &str = "EDDY_TEST_PLACE";
/// How long what was told to end may take.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// What leads to other instances, or would be taken for a task's own.
const FOREIGN: &[&str] = &[
    "EDDY_URI",
    "EDDY_RECONNECT",
    "EDDY_LOG",
    "EDDY_TASK",
    "EDDY_JOB_ID",
    "FLUX_JOB_ID",
    "FLUX_URI",
    "XDG_RUNTIME_DIR",
];

/// A directory of one test and all that runs for it.
#[derive(Debug)]
pub struct Place {
    folder: Option<tempfile::TempDir>,
    path: PathBuf,
    eddy: PathBuf,
}

impl Place {
    /// A new one below `/tmp`: sockets need short paths.
    ///
    /// # Errors
    /// There is no `eddy`, or no room.
    pub fn new() -> anyhow::Result<Place> {
        let folder = tempfile::Builder::new()
            .prefix("eddy-t.")
            .tempdir_in("/tmp")?;
        let path = folder.path().to_owned();
        for name in ["run", "tmp"] {
            std::fs::create_dir(path.join(name))?;
        }
        Ok(Place {
            folder: Some(folder),
            path,
            eddy: program::eddy()?,
        })
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in it, as text.
    #[must_use]
    pub fn join(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// `NAME=VALUE` in the environment of everything that runs here.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("{MARK_VARIABLE}={}", self.path.display())
    }

    /// A named pipe in it.
    ///
    /// # Errors
    /// There is one of that name.
    pub fn fifo(&self, name: &str) -> anyhow::Result<Fifo> {
        Fifo::make(self.path.join(name))
    }

    /// A program of the system that carries the mark.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        for name in FOREIGN {
            command.env_remove(name);
        }
        command
            .env(MARK_VARIABLE, &self.path)
            .env("XDG_RUNTIME_DIR", self.path.join("run"))
            .env("TMPDIR", self.path.join("tmp"))
            .env("LC_ALL", "C")
            .current_dir(&self.path)
            .stdin(Stdio::null());
        command
    }

    /// The `eddy` command with these arguments.
    #[must_use]
    pub fn eddy(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.eddy);
        command.args(arguments);
        command
    }

    /// The path of the `eddy` command.
    #[must_use]
    pub fn program(&self) -> String {
        self.eddy.display().to_string()
    }

    /// Has an `eddy` command of its own from now on, whose file may be replaced.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn own_program(&mut self) -> anyhow::Result<()> {
        let own = self.path.join("eddy");
        std::fs::copy(&self.eddy, &own)?;
        self.eddy = own;
        Ok(())
    }

    /// Runs `eddy` with these arguments to its end.
    ///
    /// # Errors
    /// It cannot be started or does not end.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<Ran> {
        Running::start(self.eddy(arguments))?.wait()
    }

    /// Everything that runs here.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        naming(&self.path.display().to_string())
    }

    /// The only process here that is `eddy VERB`.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn only(&self, verb: &str) -> anyhow::Result<Process> {
        let mut found = self.processes();
        found.retain(|process| process.is_eddy(verb));
        // A child that has not come to its own program yet still looks like its parent.
        let numbers: Vec<i32> = found.iter().map(|process| process.pid).collect();
        found.retain(|process| !numbers.contains(&process.parent));
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => bail!("no `eddy {verb}` runs here"),
            several => bail!("{} of `eddy {verb}` run here: {several:?}", several.len()),
        }
    }

    /// Waits until nothing runs here any more.
    ///
    /// # Errors
    /// Something does, which is then ended.
    pub fn nothing_is_left(&self) -> anyhow::Result<()> {
        // Looked at twice: while one is waited for it may have started another.
        for _ in 0..2 {
            let left: Vec<Process> = self
                .processes()
                .into_iter()
                .filter(|one| !one.ends_within(ENDS_WITHIN))
                .collect();
            if !left.is_empty() {
                let names: Vec<String> = left.iter().map(ToString::to_string).collect();
                self.end_all()?;
                bail!(
                    "left running in {}: {}",
                    self.path.display(),
                    names.join(", ")
                );
            }
        }
        Ok(())
    }

    /// Ends everything here, however often it starts anew.
    ///
    /// # Errors
    /// Something cannot be ended.
    pub fn end_all(&self) -> anyhow::Result<()> {
        for _ in 0..20 {
            let mut found = self.processes();
            if found.is_empty() {
                return Ok(());
            }
            // First who would start others again.
            found.sort_by_key(|process| !process.is_eddy("broker"));
            for process in found {
                process.kill()?;
            }
        }
        bail!(
            "{}: something starts faster than it is ended",
            self.path.display()
        )
    }

    /// Keeps the directory when this goes, to be looked at.
    pub fn keep(&mut self) {
        if let Some(folder) = self.folder.take() {
            let path = folder.keep();
            eprintln!("kept: {}", path.display());
        }
    }

    /// Writes an executable script and gives its path.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn script(&self, name: &str, text: &str) -> anyhow::Result<String> {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(path.display().to_string())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What it was doing is what is to be looked at.
            self.keep();
            if let Err(error) = self.end_all() {
                eprintln!("{error:#}");
            }
            return;
        }
        if let Err(error) = self.nothing_is_left() {
            self.keep();
            panic!("{error:#}");
        }
    }
}
