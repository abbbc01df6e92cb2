//! Other processes: found by what they carry in their environment or on their
//! command line, named by number and start time, waited for and signalled by pidfd.
//!
//! Called by `place` and `instance`. It never signals a number alone.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its parent's number.
    pub parent: i32,
    /// Clock ticks from boot to its start, which tell it from a later one of the same number.
    pub start_time: u64,
    /// Its command line.
    pub arguments: Vec<String>,
}

/// A process that is held, so that its number cannot be taken by another.
#[derive(Debug)]
pub struct Handle {
    pidfd: OwnedFd,
}

/// Every process but this one that names `path` in its environment or on its command line and has
/// not ended. Tasks carry it in a variable of the tests; an instance that another declares has
/// none of those, but a state directory.
#[must_use]
pub fn naming(path: &str) -> Vec<Process> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let carries = |pid: &i32| {
        let names = |file: &str| {
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            text.windows(path.len()).any(|part| part == path.as_bytes())
        };
        names("environ") || names("cmdline")
    };
    pids.filter(|pid| *pid != own)
        .filter(carries)
        .filter_map(Process::of)
        .collect()
}

impl Process {
    /// The process of this number; none if it has ended, even if nobody has collected it.
    #[must_use]
    pub fn of(pid: i32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold both blanks and parentheses.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        let parent = fields.next()?.parse().ok()?;
        let start_time = fields.nth(17)?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = line
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty());
        let arguments = words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        Some(Process {
            pid,
            parent,
            start_time,
            arguments,
        })
    }

    /// Whether it is `eddy VERB ...`.
    #[must_use]
    pub fn is_eddy(&self, verb: &str) -> bool {
        self.arguments.get(1).is_some_and(|first| first == verb)
            && self.arguments[0].ends_with("eddy")
    }

    /// Holds it; none if it has ended.
    #[must_use]
    pub fn hold(&self) -> Option<Handle> {
        let pidfd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Between the look and the hold the number may have changed hands.
        let still = Process::of(self.pid)?.start_time == self.start_time;
        still.then_some(Handle { pidfd })
    }

    /// Sends a signal; nothing happens if it has ended.
    ///
    /// # Errors
    /// It may not be signalled.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        match self.hold() {
            Some(handle) => handle.signal(signal).with_context(|| self.to_string()),
            None => Ok(()),
        }
    }

    /// Ends it with SIGKILL and waits until it has ended.
    ///
    /// # Errors
    /// It may not be signalled, or does not end.
    pub fn kill(&self) -> anyhow::Result<()> {
        let Some(handle) = self.hold() else {
            return Ok(());
        };
        handle
            .signal(Signal::KILL)
            .with_context(|| self.to_string())?;
        let ended = handle.ends_within(Duration::from_secs(10));
        anyhow::ensure!(ended, "{self} outlives SIGKILL");
        Ok(())
    }

    /// Waits until it has ended; false if it does not in this time.
    #[must_use]
    pub fn ends_within(&self, limit: Duration) -> bool {
        self.hold().is_none_or(|handle| handle.ends_within(limit))
    }

    /// A number of kibibytes from its status, such as `VmHWM`; 0 if it has ended.
    #[must_use]
    pub fn kib(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        let value = lines
            .find(|(name, _)| *name == field)
            .map(|(_, value)| value);
        value
            .and_then(|value| value.split_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    }
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} `{}`", self.pid, self.arguments.join(" "))
    }
}

impl Handle {
    /// Holds a child of this process.
    ///
    /// # Errors
    /// The kernel has no room for another descriptor.
    pub fn of_child(child: &std::process::Child) -> anyhow::Result<Handle> {
        let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        Ok(Handle { pidfd })
    }

    /// Sends a signal; nothing happens if it has ended.
    ///
    /// # Errors
    /// It may not be signalled.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits until it has ended; false if it does not in this time.
    #[must_use]
    pub fn ends_within(&self, limit: Duration) -> bool {
        readable_within(&self.pidfd, limit)
    }
}

/// Waits until there is something to read; false if there is not in this time.
#[must_use]
pub fn readable_within(descriptor: impl AsFd, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("limits are short");
        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
        match poll(&mut polled, Some(&left)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
