//! Descriptors that were handed to this process by their numbers.
//!
//! Called once by a leader at its start, for the descriptor of whoever waits
//! for it, and by a shell, for what some of its tasks are to have. It opens
//! nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::str::FromStr;
use std::sync::Arc;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

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

/// Copies of this process's standard streams that programs it executes have, too.
pub fn duplicates() -> io::Result<[OwnedFd; 3]> {
    let copy = |of: BorrowedFd<'_>| -> io::Result<OwnedFd> {
        let fd = fcntl_dupfd_cloexec(of, 3)?;
        fcntl_setfd(&fd, FdFlags::empty())?;
        Ok(fd)
    };
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    Ok([
        copy(stdin.as_fd())?,
        copy(stdout.as_fd())?,
        copy(stderr.as_fd())?,
    ])
}

/// The numbers of three descriptors that stand for 0, 1 and 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams(pub [RawFd; 3]);

/// Why there are no such streams.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamsError {
    /// Not three numbers.
    #[error("streams are `{given}`; allowed are three different numbers from 3 on, as 3,4,5")]
    Numbers {
        /// As given.
        given: String,
    },
    /// A number that no descriptor has.
    #[error("descriptor {number} was not handed to this process")]
    Absent {
        /// The number.
        number: RawFd,
    },
}

impl FromStr for Streams {
    type Err = StreamsError;

    fn from_str(text: &str) -> Result<Streams, StreamsError> {
        let wrong = || StreamsError::Numbers {
            given: text.chars().take(64).collect(),
        };
        let numbers: Result<Vec<RawFd>, _> = text.split(',').map(str::parse).collect();
        let numbers: [RawFd; 3] = numbers
            .ok()
            .and_then(|numbers| numbers.try_into().ok())
            .ok_or_else(wrong)?;
        let [one, two, three] = numbers;
        let differ = one != two && two != three && one != three;
        match differ && numbers.iter().all(|number| *number > 2) {
            true => Ok(Streams(numbers)),
            false => Err(wrong()),
        }
    }
}

impl Streams {
    /// The descriptors, as this process's own; no program it executes has them
    /// by these numbers. To be called once.
    pub fn take(self) -> Result<[Arc<OwnedFd>; 3], StreamsError> {
        let [stdin, stdout, stderr] = self.0.map(|number| {
            let fd = inherited(number).ok_or(StreamsError::Absent { number })?;
            // It fails for a descriptor that is not open only.
            let _ = fcntl_setfd(&fd, FdFlags::CLOEXEC);
            Ok(Arc::new(fd))
        });
        Ok([stdin?, stdout?, stderr?])
    }
}
