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
/// How long one that was ended may take to be over.
const END_MAX: Duration = Duration::from_secs(1);

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
    /// It was ended then.
    Ended(Instant),
    /// It was ended in vain: a file system of the user's own may keep even one that was killed.
    Stuck,
}

/// How a start is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// None is under way, or not for too long.
    InTime,
    /// It was ended, and its thread is about to come back.
    Late,
    /// Its thread does not come back.
    Stuck,
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
    /// When the start that is under way is to be ended, or to be over.
    pub fn due(&self) -> Option<Instant> {
        match *self.lock() {
            Underway::Since(since) => Some(since + START_MAX),
            Underway::Ended(at) => Some(at + END_MAX),
            Underway::Nothing | Underway::Stuck => None,
        }
    }

    /// How it is on its way, by what [`Overdue::end_late`] saw last.
    pub fn pace(&self) -> Pace {
        match *self.lock() {
            Underway::Nothing | Underway::Since(_) => Pace::InTime,
            Underway::Ended(_) => Pace::Late,
            Underway::Stuck => Pace::Stuck,
        }
    }

    /// Ends a start that has taken too long.
    pub fn end_late(&self, now: Instant) {
        let mut state = self.lock();
        match *state {
            Underway::Since(since) if now >= since + START_MAX => {}
            Underway::Ended(at) if now >= at + END_MAX => {
                *state = Underway::Stuck;
                return;
            }
            Underway::Nothing | Underway::Since(_) | Underway::Ended(_) | Underway::Stuck => return,
        }
        let fd = self.pidfd.load(Relaxed);
        if fd < 0 {
            return;
        }
        // SAFETY: under the lock, so the thread that has it has not gone on and closed it.
        let pidfd = unsafe { BorrowedFd::borrow_raw(fd) };
        tracing::warn!("a start under a user's rights took too long and is ended");
        let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
        *state = Underway::Ended(now);
    }

    /// A start begins.
    pub(super) fn begin(&self) {
        self.pidfd.store(-1, Relaxed);
        *self.lock() = Underway::Since(Instant::now());
    }

    /// It came to its exec or its end.
    pub(super) fn end(&self) -> Lateness {
        match std::mem::replace(&mut *self.lock(), Underway::Nothing) {
            Underway::Ended(_) | Underway::Stuck => Lateness::Ended,
            Underway::Nothing | Underway::Since(_) => Lateness::InTime,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Underway> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn one_that_is_not_over_a_while_after_it_was_ended_is_stuck_until_it_comes_back() {
        let start = Overdue::default();
        start.begin();
        // Nobody's process: what is no pidfd is sent no signal.
        let none = std::fs::File::open("/dev/null").expect("a null device");
        start.pidfd.store(none.as_raw_fd(), Relaxed);
        let late = start.due().expect("it is under way");
        start.end_late(late - Duration::from_millis(1));
        assert_eq!((start.pace(), start.due()), (Pace::InTime, Some(late)));
        start.end_late(late);
        assert_eq!(
            (start.pace(), start.due()),
            (Pace::Late, Some(late + END_MAX))
        );
        start.end_late(late + END_MAX);
        assert_eq!((start.pace(), start.due()), (Pace::Stuck, None));
        assert_eq!(start.end(), Lateness::Ended);
        assert_eq!((start.pace(), start.due()), (Pace::InTime, None));
    }
}
