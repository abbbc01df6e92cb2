//! What `/proc` says of processes: parent, session, start time, task marker.
//!
//! Called by spawn (the start time that names a process for good), reap,
//! leftover and sweep. It never signals, waits or caches: each answer was true
//! when it was read and may be old when it is used, which is why whoever acts
//! on one asks again through a pidfd.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;
use std::time::Duration;

/// Name of the variable that marks every task of a job (see [`Marker`]).
pub const MARKER_VARIABLE: &str = "EDDY_TASK";

/// The most bytes of one environment that are looked at. Linux lets arguments
/// and environment together grow to 6 MiB with the usual stack limit.
const ENVIRON_MAX: usize = 8 << 20;

/// The most bytes of one marker variable that are read as markers: sixteen
/// nested instances with long names fit many times over.
const MARKER_MAX: usize = 8 << 10;

/// How often processes in the middle of an exec are looked at again in one reading of the node, all together.
const EXEC_LOOKS: u32 = 1000;
/// How long between two looks; an exec takes some 100 µs.
const EXEC_PAUSE: Duration = Duration::from_micros(100);

/// One line of `/proc/PID/stat`, as far as the shell needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Process id.
    pub pid: i32,
    /// Process id of the parent.
    pub ppid: i32,
    /// Session id: the pid of the process that called setsid.
    pub session: i32,
    /// State letter: `Z` is a zombie, `X` is gone.
    pub state: u8,
    /// Field 22: clock ticks from boot to the start of the process. With the
    /// pid it names a process for as long as the node is up.
    pub start_time: u64,
}

impl Stat {
    /// Whether it has ended and only waits to be reaped.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Whether it was stopped by a signal, or by who traces it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Reads one line in the form of proc(5). The command name is skipped from
    /// the last `)`, since it may itself hold spaces and brackets.
    pub fn parse(line: &[u8]) -> Option<Stat> {
        let text = std::str::from_utf8(line.get(..line.iter().position(|b| *b == b' ')?)?).ok()?;
        let pid = text.parse().ok()?;
        let close = line.iter().rposition(|b| *b == b')')?;
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let ppid = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let start_time = fields.nth(15)?.parse().ok()?;
        Some(Stat {
            pid,
            ppid,
            session,
            state,
            start_time,
        })
    }
}

/// Reads the state of one process; `None` if there is no such process, or it
/// ended while it was read.
pub fn stat(pid: i32) -> Option<Stat> {
    let mut line = [0u8; 1024];
    let mut file = File::open(format!("/proc/{pid}/stat")).ok()?;
    let mut have = 0;
    while have < line.len() {
        match file.read(&mut line[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Stat::parse(&line[..have])
}

/// The state of every process that can be seen, in rising order of pid.
pub fn all() -> io::Result<Vec<Stat>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|text| text.parse().ok()) else {
            continue;
        };
        found.extend(stat(pid));
    }
    found.sort_by_key(|process| process.pid);
    Ok(found)
}

/// The real user id of a process, `None` if it is gone.
pub fn user(pid: i32) -> Option<u32> {
    let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&status);
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Whose task a process is: the value of `EDDY_TASK` in its environment,
/// `INSTANCE/JOB.ATTEMPT.RANK`. Inside nested instances the variable is a list
/// separated by colons, outermost first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Marker {
    /// Identity of the instance, as its leader writes it; without `:`.
    pub instance: String,
    /// Number of the job.
    pub job: u64,
    /// Attempt of the job, from 1.
    pub attempt: u32,
    /// Rank of the instance whose shell started it.
    pub rank: u32,
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}.{}.{}",
            self.instance, self.job, self.attempt, self.rank
        )
    }
}

/// A text that is not a marker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task marker {given:?} is not INSTANCE/JOB.ATTEMPT.RANK")]
pub struct MarkerError {
    /// The text that was read, at most 64 characters of it.
    pub given: String,
}

impl FromStr for Marker {
    type Err = MarkerError;

    fn from_str(text: &str) -> Result<Marker, MarkerError> {
        let read = || {
            let (instance, numbers) = text.rsplit_once('/')?;
            let mut numbers = numbers.split('.');
            let marker = Marker {
                instance: (!instance.is_empty() && !instance.contains(':'))
                    .then(|| instance.to_owned())?,
                job: numbers.next()?.parse().ok()?,
                attempt: numbers.next()?.parse().ok()?,
                rank: numbers.next()?.parse().ok()?,
            };
            numbers.next().is_none().then_some(marker)
        };
        read().ok_or_else(|| MarkerError {
            given: text.chars().take(64).collect(),
        })
    }
}

/// How long one reading of the node waits for processes in the middle of an exec: for all of them no longer than
/// for one, since who makes many of them would hold up whoever reads.
#[derive(Debug)]
pub struct ExecWait {
    looks: u32,
}

impl Default for ExecWait {
    fn default() -> ExecWait {
        ExecWait { looks: EXEC_LOOKS }
    }
}

impl ExecWait {
    /// Waits a moment, if that is left.
    fn wait(&mut self) -> bool {
        let is_left = self.looks > 0;
        if is_left {
            self.looks -= 1;
            std::thread::sleep(EXEC_PAUSE);
        }
        is_left
    }
}

/// The markers a process was started with, outermost first. Empty if it has
/// none, is gone, or belongs to somebody whose environment may not be read. A
/// process may change its environment at will: no marker proves nothing.
///
/// In the middle of an exec a process has no environment for a moment; that is
/// waited out, at most 0.1 s for all that one reading of the node finds.
pub fn markers(pid: i32, wait: &mut ExecWait) -> Vec<Marker> {
    loop {
        let Ok(file) = File::open(format!("/proc/{pid}/environ")) else {
            return Vec::new();
        };
        let mut environ = Vec::new();
        if file
            .take(ENVIRON_MAX as u64)
            .read_to_end(&mut environ)
            .is_err()
        {
            return Vec::new();
        }
        if !environ.is_empty() {
            return environ
                .split(|byte| *byte == 0)
                .find_map(markers_of)
                .unwrap_or_default();
        }
        let is_over = match environment(pid) {
            Environment::None => true,
            Environment::Some | Environment::InExec => !wait.wait(),
        };
        if is_over {
            return Vec::new();
        }
    }
}

/// How an environment that reads as empty stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Environment {
    /// It is empty: a kernel thread, a zombie, a program started without any.
    None,
    /// It is not: the one that was read belonged to the program before.
    Some,
    /// The new program has none yet.
    InExec,
}

/// Reads fields 23 (size of memory), 50 and 51 (begin and end of environment).
fn environment(pid: i32) -> Environment {
    let line = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let close = line
        .iter()
        .rposition(|byte| *byte == b')')
        .map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(&line[close..]);
    let mut fields = text
        .split_ascii_whitespace()
        .map(|field| field.parse().unwrap_or(0u64));
    let (memory, begin, end) = (fields.nth(20), fields.nth(26), fields.next());
    match (memory, begin, end) {
        (Some(1..), Some(0), Some(0)) => Environment::InExec,
        (Some(1..), Some(begin), Some(end)) if begin < end => Environment::Some,
        _ => Environment::None,
    }
}

/// Reads one `NAME=value` of an environment; `None` if it is another variable.
fn markers_of(variable: &[u8]) -> Option<Vec<Marker>> {
    let value = variable
        .strip_prefix(MARKER_VARIABLE.as_bytes())?
        .strip_prefix(b"=")?;
    let text = std::str::from_utf8(value.get(..value.len().min(MARKER_MAX))?).ok()?;
    Some(text.split(':').filter_map(|one| one.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_a_command_name_with_brackets() {
        let line = b"42 (a) Z (b) S 7 42 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 0 0\n";
        let read = Stat::parse(line).unwrap();
        assert_eq!(
            read,
            Stat {
                pid: 42,
                ppid: 7,
                session: 9,
                state: b'S',
                start_time: 777
            }
        );
    }

    #[test]
    fn stat_cut_anywhere_is_no_process() {
        let line = b"42 (sh) S 7 42 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777";
        for cut in 0..line.len() - 3 {
            assert_eq!(Stat::parse(&line[..cut]), None, "at {cut}");
        }
    }

    #[test]
    fn own_stat_names_own_parent_and_session() {
        let own = stat(std::process::id() as i32).unwrap();
        assert_eq!(own.ppid as u32, std::os::unix::process::parent_id());
        assert!(own.start_time > 0 && !own.is_ended());
    }

    #[test]
    fn own_environment_is_there_and_that_of_a_kernel_thread_is_not() {
        assert_eq!(environment(std::process::id() as i32), Environment::Some);
        assert_eq!(environment(0), Environment::None);
        let threads = all().unwrap().into_iter().find(|process| process.ppid == 2);
        assert!(threads.is_none_or(|thread| environment(thread.pid) == Environment::None));
    }

    #[test]
    fn a_reading_waits_no_longer_for_many_than_for_one() {
        let mut wait = ExecWait { looks: 2 };
        assert!(wait.wait() && wait.wait());
        assert!(!wait.wait() && !wait.wait());
    }

    #[test]
    fn marker_survives_its_own_spelling() {
        let marker = Marker {
            instance: "a/b".into(),
            job: 905,
            attempt: 2,
            rank: 3,
        };
        assert_eq!(marker.to_string().parse(), Ok(marker));
    }

    #[test]
    fn marker_refuses_what_is_not_one() {
        for text in [
            "",
            "x",
            "x/",
            "/1.1.0",
            "x/1.1",
            "x/1.1.0.0",
            "x/-1.1.0",
            "a:x/1.1.0",
        ] {
            assert!(text.parse::<Marker>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn nested_markers_are_read_outermost_first() {
        let read = markers_of(b"EDDY_TASK=root/905.1.0:905/3.1.0:rubbish").unwrap();
        let spelled: Vec<String> = read.iter().map(Marker::to_string).collect();
        assert_eq!(spelled, ["root/905.1.0", "905/3.1.0"]);
        assert_eq!(markers_of(b"EDDY_TASKS=root/905.1.0"), None);
    }
}
