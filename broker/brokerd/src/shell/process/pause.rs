//! Stops everything of a part: what its tasks started, too, wherever it hangs below the shell.
//!
//! Used by the shell's loop. A process that is forked while others are being stopped is found in the
//! next round; when two readings of the node in a row find nothing that runs, the part is stopped. What
//! cannot be stopped at once, since it waits for a disk, is looked at again, for as long as it is to be.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use eddy_wire::shell::Part;

use crate::shell::leftover::{self, Process, Quarry};
use crate::shell::{procfs, reap};

/// The first pause before the next look.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// So many readings in a row must find nothing that runs.
const QUIET_ROUNDS: u32 = 2;

/// Parts that are being stopped.
#[derive(Debug, Default)]
pub struct Pausing {
    parts: BTreeMap<Part, Round>,
}

#[derive(Debug)]
struct Round {
    quarry: Quarry,
    /// For which time it is to stop.
    stop: u32,
    next: Instant,
    pause: Duration,
    quiet: u32,
}

impl Pausing {
    /// Stops what is of a part, from the next look on, for that time.
    pub fn begin(&mut self, now: Instant, (part, stop): (Part, u32), quarry: Quarry) {
        let round = Round {
            quarry,
            stop,
            next: now,
            pause: PAUSE_MIN,
            quiet: 0,
        };
        self.parts.insert(part, round);
    }

    /// It need not be stopped any more.
    pub fn forget(&mut self, part: Part) {
        self.parts.remove(&part);
    }

    /// When to look next.
    pub fn next(&self) -> Option<Instant> {
        self.parts.values().map(|round| round.next).min()
    }

    /// Looks at those that are due; the parts of which nothing runs any more, and for which time.
    pub fn due(&mut self, now: Instant) -> Vec<(Part, u32)> {
        let mut stopped = Vec::new();
        for (part, round) in self.parts.iter_mut().filter(|(_, one)| one.next <= now) {
            match round.step() {
                Ok(0) => round.quiet += 1,
                Ok(_) => round.quiet = 0,
                Err(error) => {
                    tracing::error!(%part, %error, "cannot look for processes to be stopped");
                }
            }
            if round.quiet >= QUIET_ROUNDS {
                stopped.push((*part, round.stop));
                continue;
            }
            if round.quiet == 0 {
                round.next = now + round.pause;
                round.pause = (round.pause * 2).min(PAUSE_MAX);
            }
        }
        stopped.iter().for_each(|(part, _)| self.forget(*part));
        stopped
    }
}

impl Round {
    /// Sends STOP to whatever runs; to how many.
    fn step(&self) -> io::Result<usize> {
        let mut running = 0;
        for process in leftover::find(&self.quarry)? {
            let stat = procfs::stat(process.pid);
            if stat.is_some_and(|stat| stat.is_stopped() || stat.is_ended()) {
                continue;
            }
            running += signal(process, libc::SIGSTOP)?;
        }
        Ok(running)
    }
}

/// Lets all of them go on.
pub fn proceed(processes: &BTreeSet<Process>) -> io::Result<()> {
    for process in processes {
        signal(*process, libc::SIGCONT)?;
    }
    Ok(())
}

/// How many were there to be signalled: that one, or none.
fn signal(process: Process, number: i32) -> io::Result<usize> {
    let Some(pidfd) = reap::open_exact(process.pid, process.start_time)? else {
        return Ok(0);
    };
    match reap::signal(pidfd.as_fd(), number) {
        Ok(reap::Delivery::Sent) => Ok(1),
        Ok(reap::Delivery::Gone) => Ok(0),
        Err(error) => {
            tracing::warn!(pid = process.pid, number, %error, "the signal cannot be sent");
            Ok(0)
        }
    }
}
