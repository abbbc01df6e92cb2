//! The processes of a demo: those that name its directory, on their command line, in
//! their environment or as where they work.
//!
//! Called by `ground`, `survive` and `victims`. It never signals a number alone: between the look and
//! the signal another process may have come by it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How often all are looked for anew, since who is ended late may have started another.
const ROUNDS_MAX: usize = 50;

/// A process that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub pid: Pid,
}

/// Every process but this one that names the directory and has not ended.
pub fn naming(directory: &Path) -> Vec<Found> {
    all(|pid| names(pid, directory.as_os_str().as_bytes()))
}

/// Every one that has `NAME=` with the directory in its environment.
pub fn carrying(name: &str, directory: &Path) -> Vec<Found> {
    let wanted = [name.as_bytes(), b"=", directory.as_os_str().as_bytes()].concat();
    all(|pid| holds(pid, "environ", &wanted))
}

/// Kills the process of this number if it names the directory; whether it was there.
pub fn kill(pid: u32, directory: &Path) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let held = pid.and_then(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?)));
    // The number is held now: is it still whom it was?
    held.is_some_and(|(pid, pidfd)| {
        names(pid, directory.as_os_str().as_bytes())
            && pidfd_send_signal(&pidfd, Signal::KILL).is_ok()
    })
}

/// Ends every process that names the directory, however often they start others.
pub fn end_all(directory: &Path) {
    for _ in 0..ROUNDS_MAX {
        let left = naming(directory);
        if left.is_empty() {
            return;
        }
        for one in left {
            let Ok(pidfd) = pidfd_open(one.pid, PidfdFlags::empty()) else {
                continue;
            };
            // The number is held now: is it still whom it was?
            if names(one.pid, directory.as_os_str().as_bytes()) {
                let _ended_already = pidfd_send_signal(&pidfd, Signal::KILL);
                let mut ended = [rustix::event::PollFd::new(
                    &pidfd,
                    rustix::event::PollFlags::IN,
                )];
                let second = rustix::event::Timespec {
                    tv_sec: 1,
                    tv_nsec: 0,
                };
                let _seen_in_the_next_round = rustix::event::poll(&mut ended, Some(&second));
            }
        }
    }
}

fn all(wanted: impl Fn(Pid) -> bool) -> Vec<Found> {
    let own = rustix::process::getpid();
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    folder
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter(|pid| *pid != own && wanted(*pid))
        .map(|pid| Found { pid })
        .collect()
}

/// One that has ended has neither a command line nor an environment nor a place.
fn names(pid: Pid, directory: &[u8]) -> bool {
    let works_there = || {
        let place = fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero()));
        place.is_ok_and(|place| place.as_os_str().as_bytes().starts_with(directory))
    };
    holds(pid, "cmdline", directory) || holds(pid, "environ", directory) || works_there()
}

fn holds(pid: Pid, file: &str, wanted: &[u8]) -> bool {
    let text = fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap_or_default();
    text.windows(wanted.len()).any(|part| part == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_was_left_is_found_and_ended() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(naming(directory.path()), []);
        // Each says back what it is told, and then waits for more.
        let waits = || {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        };
        let mut there = waits();
        there.current_dir(directory.path());
        let mut marked = waits();
        marked.env("EDDY_DEMO_OF", directory.path());
        let mut children = [there, marked].map(|mut one| one.spawn().expect("started"));
        // A start is told before the new program has its environment; one that answers has it.
        for child in &mut children {
            let (stdin, stdout) = (child.stdin.as_mut(), child.stdout.as_mut());
            stdin.expect("piped").write_all(b"there").expect("written");
            let mut said = [0; 5];
            stdout.expect("piped").read_exact(&mut said).expect("said");
        }
        let mut left: Vec<u32> = naming(directory.path())
            .iter()
            .map(|one| one.pid.as_raw_nonzero().get().cast_unsigned())
            .collect();
        left.sort_unstable();
        let mut pids = [children[0].id(), children[1].id()];
        pids.sort_unstable();
        assert_eq!(left, pids);
        assert_eq!(carrying("EDDY_DEMO_OF", directory.path()).len(), 1);
        end_all(directory.path());
        assert_eq!(naming(directory.path()), []);
        for child in &mut children {
            assert!(!child.wait().expect("ended").success());
        }
    }
}
