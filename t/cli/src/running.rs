//! One command under way: what it prints is kept and can be waited for, and it
//! ends within a limit or the test does not pass.
//!
//! Made by `place`. It looks at the command's own process only.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::Signal;

use crate::process::Handle;

/// How long any one command may take: far more than it needs, so that a slow machine is not a
/// failure and a hang is one.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What a command printed so far.
#[derive(Debug, Default)]
struct Printed {
    bytes: Mutex<Vec<u8>>,
    more: Condvar,
}

/// A command that was started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    handle: Handle,
    line: String,
    out: Arc<Printed>,
    err: Arc<Printed>,
    readers: Vec<JoinHandle<()>>,
}

/// A command that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its exit code, 128 + the signal if one ended it.
    pub code: i32,
    /// What it printed on standard output.
    pub out: String,
    /// What it printed on standard error.
    pub err: String,
    /// What was run.
    pub line: String,
}

impl Ran {
    /// Standard output of a command that ended with 0.
    ///
    /// # Errors
    /// It ended with another code.
    pub fn ok(self) -> anyhow::Result<String> {
        match self.code {
            0 => Ok(self.out),
            code => bail!("{}: exit code {code}: {}", self.line, self.err.trim()),
        }
    }

    /// The one line that a command which refused printed on standard error.
    ///
    /// # Errors
    /// It ended with 0, or printed less or more than a line.
    pub fn refusal(&self) -> anyhow::Result<&str> {
        let Ran {
            code, err, line, ..
        } = self;
        match (code, err.trim_end().lines().count()) {
            (0, _) => bail!("{line}: was to be refused"),
            (_, 1) => Ok(err.trim_end()),
            (code, count) => bail!("{line}: exit code {code} and {count} lines of error: {err}"),
        }
    }
}

impl Running {
    /// Starts a command; its standard input is what was set.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command) -> anyhow::Result<Running> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line = words
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {line}"))?;
        let handle = Handle::of_child(&child)?;
        let (out, err) = (Arc::<Printed>::default(), Arc::<Printed>::default());
        let readers = vec![
            keep(child.stdout.take().context("a pipe was asked for")?, &out),
            keep(child.stderr.take().context("a pipe was asked for")?, &err),
        ];
        Ok(Running {
            child,
            handle,
            line,
            out,
            err,
            readers,
        })
    }

    /// Starts a command, writes all of `input` to it and closes its input.
    ///
    /// # Errors
    /// It cannot be started, or does not read.
    pub fn start_with_input(mut command: Command, input: &[u8]) -> anyhow::Result<Running> {
        command.stdin(Stdio::piped());
        let mut running = Running::start(command)?;
        let mut pipe = running.child.stdin.take().context("a pipe was asked for")?;
        pipe.write_all(input)?;
        Ok(running)
    }

    /// Waits until it has printed `text` on standard output.
    ///
    /// # Errors
    /// It does not.
    pub fn prints(&self, text: &str) -> anyhow::Result<()> {
        self.waits(&self.out, text)
    }

    /// Waits until it has printed `text` on standard error.
    ///
    /// # Errors
    /// It does not.
    pub fn complains(&self, text: &str) -> anyhow::Result<()> {
        self.waits(&self.err, text)
    }

    fn waits(&self, printed: &Printed, text: &str) -> anyhow::Result<()> {
        let until = Instant::now() + LIMIT;
        let mut bytes = printed.bytes.lock().expect("readers do not panic");
        while !bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("{}: does not print `{text}`", self.line);
            }
            bytes = printed
                .more
                .wait_timeout(bytes, left)
                .expect("readers do not panic")
                .0;
        }
        Ok(())
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It may not be signalled.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.handle.signal(signal)
    }

    /// Whether it ends within this time; it goes on if not.
    #[must_use]
    pub fn ends_within(&self, limit: Duration) -> bool {
        self.handle.ends_within(limit)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It does not end within [`LIMIT`]; it is killed then.
    pub fn wait(mut self) -> anyhow::Result<Ran> {
        let in_time = self.handle.ends_within(LIMIT);
        if !in_time {
            self.child.kill()?;
        }
        let status = self.child.wait()?;
        // Whoever inherited its output could hold it open for ever.
        let closed = self
            .readers
            .drain(..)
            .map(JoinHandle::join)
            .all(|joined| joined.is_ok());
        let ran = Ran {
            code: code(status),
            out: self.out.text(),
            err: self.err.text(),
            line: self.line.clone(),
        };
        if !in_time || !closed {
            bail!(
                "{}: no end within {LIMIT:?}; it printed {} {}",
                ran.line,
                ran.out,
                ran.err
            );
        }
        Ok(ran)
    }
}

impl Drop for Running {
    /// A command that nobody waited for belongs to a test that failed.
    fn drop(&mut self) {
        let _ended_meanwhile = self.child.kill();
        let _waited_for_already = self.child.wait();
    }
}

impl Printed {
    fn text(&self) -> String {
        let bytes = self.bytes.lock().expect("readers do not panic");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Reads a pipe to its end, on a thread.
fn keep(mut pipe: impl Read + Send + 'static, printed: &Arc<Printed>) -> JoinHandle<()> {
    let printed = Arc::clone(printed);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = pipe.read(&mut buffer) {
            let mut bytes = printed.bytes.lock().expect("readers do not panic");
            bytes.extend_from_slice(&buffer[..read]);
            printed.more.notify_all();
        }
    })
}

/// The code a command interpreter would show.
fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .unwrap_or(-1)
}
