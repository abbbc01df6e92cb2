//! A descriptor that was handed to this process by its number.
//!
//! Called once by a leader at its start, for the descriptor of whoever waits
//! for it. It opens nothing.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The descriptor with this number, as this process's own. `None` if there is
/// none, or if it is one of the standard three. To be called once for a number.
pub fn inherited(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: asks about a number; touches no memory.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if number <= 2 || flags < 0 {
        return None;
    }
    // SAFETY: it is open, and was opened by whoever started this process: it is
    // asked for before this process opens anything, so nothing here owns it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}
