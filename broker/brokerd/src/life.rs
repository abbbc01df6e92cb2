//! Lives of other processes, by pidfd: whether one has ended is waited for in
//! the runtime, without a thread.
//!
//! Called where shells and agents are watched. A process is named by its number
//! and start time, or is a child that was not waited for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::shell::leftover::Process;
use crate::shell::reap::{self, Delivery};

/// A process that is watched.
#[derive(Debug)]
pub struct Life {
    pidfd: AsyncFd<OwnedFd>,
    child: Option<Child>,
}

impl Life {
    /// Of a process that was started here.
    pub fn of_child(child: Child) -> io::Result<Life> {
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        Ok(Life {
            pidfd: watched(pidfd)?,
            child: Some(child),
        })
    }

    /// Of a process that somebody else started; `None` when it has ended.
    pub fn of(process: Process) -> io::Result<Option<Life>> {
        let Some(pidfd) = reap::open_exact(process.pid, process.start_time)? else {
            return Ok(None);
        };
        Ok(Some(Life {
            pidfd: watched(pidfd)?,
            child: None,
        }))
    }

    /// Waits for its end. How it ended is known of children only.
    pub async fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        drop(self.pidfd.readable().await?);
        // It has ended: this collects it and does not wait.
        self.child.as_mut().map(Child::wait).transpose()
    }

    /// Sends it a signal.
    pub fn signal(&self, number: i32) -> io::Result<Delivery> {
        reap::signal(self.pidfd.get_ref().as_fd(), number)
    }
}

/// The new name of this function is unsafe for the sake of types whose
/// descriptor may change; that of an `OwnedFd` does not.
#[expect(deprecated, reason = "the other one is unsafe and does the same")]
fn watched(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd, Interest::READABLE)
}
