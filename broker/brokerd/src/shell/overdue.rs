//! Starts under a user's rights that the user holds up: seen by another thread, and ended.
//!
//! Written by the thread that starts ([`super::spawn`]), read by the loop that waits. It starts
//! nothing itself.

use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a child may not borrow the shell's memory longer than when a user could hold it up: between
/// the change of its rights and its exec that user may stop it, or be asked for the program by a
/// file system of his own.
pub const START_MAX: Duration = Duration::from_secs(5);

/// A start under a user's rights that is under way in one thread, seen by another.
#[derive(Debug)]
pub struct Overdue {
    state: Mutex<Underway>,
    /// The kernel writes it before the child runs; it is good as long as the state is `Since`.
    pub(super) pidfd: AtomicI32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Underway {
    Nothing,
    Since(Instant),
    Ended,
}

/// Whether a start was ended for taking too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lateness {
    /// It was not.
    InTime,
    /// It was.
    Ended,
}

impl Default for Overdue {
    fn default() -> Overdue {
        let state = Mutex::new(Underway::Nothing);
        let pidfd = AtomicI32::new(-1);
        Overdue { state, pidfd }
    }
}

impl Overdue {
    /// When the start that is under way is to be ended.
    pub fn due(&self) -> Option<Instant> {
        match *self.lock() {
            Underway::Since(since) => Some(since + START_MAX),
            Underway::Nothing | Underway::Ended => None,
        }
    }

    /// Ends a start that has taken too long.
    pub fn end_late(&self, now: Instant) {
        let mut state = self.lock();
        let fd = self.pidfd.load(Relaxed);
        let is_late = matches!(*state, Underway::Since(since) if now >= since + START_MAX);
        if !is_late || fd < 0 {
            return;
        }
        // SAFETY: under the lock, so the thread that has it has not gone on and closed it.
        let pidfd = unsafe { BorrowedFd::borrow_raw(fd) };
        tracing::warn!("a start under a user's rights took too long and is ended");
        let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
        *state = Underway::Ended;
    }

    /// A start begins.
    pub(super) fn begin(&self) {
        self.pidfd.store(-1, Relaxed);
        *self.lock() = Underway::Since(Instant::now());
    }

    /// It came to its exec or its end.
    pub(super) fn end(&self) -> Lateness {
        match std::mem::replace(&mut *self.lock(), Underway::Nothing) {
            Underway::Ended => Lateness::Ended,
            Underway::Nothing | Underway::Since(_) => Lateness::InTime,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Underway> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
