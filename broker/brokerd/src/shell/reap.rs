//! How tasks end: their exit statuses, signals to them, and orphans.
//!
//! Called by the shell's loop. A task is only ever named by its pidfd, or by
//! its number while it is known not to have been reaped. It never decides to
//! signal, and never reaps a task the loop did not ask about.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use super::procfs;

/// The most orphans listed at a time; more are seen the next time.
const LIST_BYTES: usize = 64 << 10;
/// `PIDFD_SIGNAL_PROCESS_GROUP`, since Linux 6.9.
const PIDFD_SIGNAL_PROCESS_GROUP: u32 = 4;

/// Becomes the parent of every process whose own parent is gone, below this
/// one. To be called once, before the first task.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: sets an attribute of this process; reads registers only.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How a task ended and what it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Wait status in the form of wait(2): exit code times 256, or the signal,
    /// plus 128 if there is a core dump.
    pub status: i32,
    /// Time in its own code, microseconds, with its reaped children.
    pub user: i64,
    /// Time in the kernel, microseconds, with its reaped children.
    pub system: i64,
    /// Most memory that it or one of those had at once, bytes.
    pub memory_max: i64,
}

impl Exit {
    /// The code a script sees: the exit code, or 128 + signal.
    pub fn code(&self) -> i32 {
        match self.status & 0x7f {
            0 => (self.status >> 8) & 0xff,
            signal => 128 + signal,
        }
    }
}

/// The exit of a task, `None` while it runs. Reaps it: the next call for the
/// same task fails with ECHILD.
pub fn try_wait(pidfd: BorrowedFd<'_>) -> io::Result<Option<Exit>> {
    wait_for(
        libc::P_PIDFD,
        pidfd.as_raw_fd() as u32,
        libc::WEXITED | libc::WNOHANG,
    )
}

/// Waits for the end of a process. Only for one that is known to be ending.
pub fn wait(pidfd: BorrowedFd<'_>) -> io::Result<Exit> {
    let exit = wait_for(libc::P_PIDFD, pidfd.as_raw_fd() as u32, libc::WEXITED)?;
    exit.ok_or_else(|| io::ErrorKind::WouldBlock.into())
}

fn wait_for(kind: libc::idtype_t, id: u32, options: i32) -> io::Result<Option<Exit>> {
    loop {
        // SAFETY: both are plain numbers, for which zeros are a value.
        let (mut end, mut usage): (libc::siginfo_t, libc::rusage) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: the kernel writes to the two structures only. The raw call,
        // since libc's has no place for the usage.
        let answer = unsafe {
            let (end, usage) = (&raw mut end, &raw mut usage);
            libc::syscall(libc::SYS_waitid, kind, id, end, options, usage)
        };
        if answer == 0 {
            return Ok(exit_of(&end, &usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn exit_of(end: &libc::siginfo_t, usage: &libc::rusage) -> Option<Exit> {
    // SAFETY: waitid fills in the fields of a SIGCHLD, or leaves zeros.
    let (pid, value) = unsafe { (end.si_pid(), end.si_status()) };
    if pid == 0 {
        return None;
    }
    let status = match end.si_code {
        libc::CLD_EXITED => (value & 0xff) << 8,
        libc::CLD_DUMPED => value | 0x80,
        _ => value,
    };
    let micros = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    Some(Exit {
        status,
        user: micros(usage.ru_utime),
        system: micros(usage.ru_stime),
        memory_max: usage.ru_maxrss * 1024,
    })
}

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It was sent.
    Sent,
    /// There is nobody left to send it to.
    Gone,
}

/// Sends a signal to one process. 0 only asks whether it is there.
pub fn signal(pidfd: BorrowedFd<'_>, number: i32) -> io::Result<Delivery> {
    send(pidfd, number, 0)
}

/// Sends a signal to the process group of a task.
///
/// `pid` must be that of a task this process has not reaped: as long as that is
/// so, neither its number nor its group's can be anybody else's, which is what
/// kernels before 6.9 rely on here.
pub fn signal_group(pidfd: BorrowedFd<'_>, pid: i32, number: i32) -> io::Result<Delivery> {
    match send(pidfd, number, PIDFD_SIGNAL_PROCESS_GROUP) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
        answer => return answer,
    }
    assert!(pid > 1, "the group of process {pid} is not a task's");
    // SAFETY: a number in, no memory touched.
    match unsafe { libc::kill(-pid, number) } {
        0 => Ok(Delivery::Sent),
        _ => gone_or(io::Error::last_os_error()),
    }
}

fn send(pidfd: BorrowedFd<'_>, number: i32, flags: u32) -> io::Result<Delivery> {
    let none = std::ptr::null::<libc::siginfo_t>();
    let fd = pidfd.as_raw_fd();
    // SAFETY: a null siginfo means one as kill(2) makes it.
    match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, none, flags) } {
        0 => Ok(Delivery::Sent),
        _ => gone_or(io::Error::last_os_error()),
    }
}

fn gone_or(error: io::Error) -> io::Result<Delivery> {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(Delivery::Gone),
        _ => Err(error),
    }
}

/// The orphans that this process has adopted as subreaper.
///
/// They become children of the process's *first* thread, so that one list in
/// `/proc` has them and nothing else, provided that thread starts no processes
/// itself, which in the shell only the pool does.
#[derive(Debug)]
pub struct Orphans {
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// `/proc/PID/task/PID/children`, kept open: about 2 µs a look.
    List(File),
    /// A kernel without CONFIG_PROC_CHILDREN: all of `/proc`, by parent. Then
    /// tasks are found as well, and told apart by the caller.
    Scan,
}

impl Source {
    /// Orphans are the first thread's children, as the list has them: the kernel gives them to it. A task that ended
    /// so early that nobody knows it yet is a spawner's, which is still to take its status.
    fn whose(&self) -> i32 {
        match self {
            Source::List(_) => 0,
            // Asked by the first thread.
            Source::Scan => libc::__WNOTHREAD,
        }
    }
}

impl Orphans {
    /// Opens the list of this process.
    pub fn open() -> Orphans {
        let pid = std::process::id();
        let source = File::open(format!("/proc/{pid}/task/{pid}/children"));
        Orphans {
            source: source.map_or(Source::Scan, Source::List),
        }
    }

    /// Whether there is any orphan, ended or not: what to ask after each end of
    /// a task. `is_task` tells a task by its number.
    pub fn has_strays(&self, is_task: impl Fn(i32) -> bool) -> io::Result<bool> {
        match &self.source {
            Source::List(file) => {
                // Nearly always there is nothing, which one small read says.
                let mut list = [0u8; 256];
                match file.read_at(&mut list, 0)? {
                    0 => Ok(false),
                    _ => Ok(!self.list(is_task)?.is_empty()),
                }
            }
            Source::Scan => Ok(!self.list(is_task)?.is_empty()),
        }
    }

    /// The orphans, ended or not, in rising order.
    pub fn list(&self, is_task: impl Fn(i32) -> bool) -> io::Result<Vec<i32>> {
        let mut found: Vec<i32> = match &self.source {
            Source::List(file) => numbers(&read_list(file)?).collect(),
            Source::Scan => {
                let own = std::process::id() as i32;
                let children = procfs::all()?
                    .into_iter()
                    .filter(|process| process.ppid == own);
                children.map(|process| process.pid).collect()
            }
        };
        found.retain(|pid| !is_task(*pid));
        found.sort_unstable();
        Ok(found)
    }

    /// Takes away the orphans that have ended and returns how many. Their
    /// statuses are nobody's. To be called after each end of a task, and now
    /// and then while there are strays.
    pub fn reap(&self, is_task: impl Fn(i32) -> bool) -> io::Result<usize> {
        let mut reaped = 0;
        let options = libc::WEXITED | libc::WNOHANG | self.source.whose();
        for pid in self.list(is_task)? {
            // By number: a child of ours keeps it until this very call.
            match wait_for(libc::P_PID, pid as u32, options) {
                Ok(Some(_)) => reaped += 1,
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(reaped)
    }
}

/// Reads the list page by page, as the kernel gives it.
fn read_list(file: &File) -> io::Result<Vec<u8>> {
    let mut list = Vec::new();
    while list.len() < LIST_BYTES {
        let have = list.len();
        list.resize(LIST_BYTES, 0);
        let bytes = file.read_at(&mut list[have..], have as u64)?;
        list.truncate(have + bytes);
        if bytes == 0 {
            break;
        }
    }
    Ok(list)
}

/// The numbers of a list with a space after each; one cut off by the end of
/// the buffer has none and is left out.
fn numbers(list: &[u8]) -> impl Iterator<Item = i32> + '_ {
    let whole = list
        .iter()
        .rposition(|byte| *byte == b' ')
        .map_or(0, |at| at + 1);
    let words = list[..whole].split(|byte| *byte == b' ');
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

/// Refers to the process with this number and start time, `None` if it is gone
/// and the number perhaps somebody else's.
pub fn open_exact(pid: i32, start_time: u64) -> io::Result<Option<OwnedFd>> {
    let Some(number) = rustix::process::Pid::from_raw(pid) else {
        return Ok(None);
    };
    let pidfd = match rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Read after it was opened: if the start time is still the same, the number
    // had one owner all the while and the pidfd is his.
    let same = procfs::stat(pid).is_some_and(|stat| stat.start_time == start_time);
    Ok(same.then_some(pidfd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_as_scripts_expect() {
        let exit = |status| Exit {
            status,
            user: 0,
            system: 0,
            memory_max: 0,
        };
        assert_eq!(exit(0).code(), 0);
        assert_eq!(exit(3 << 8).code(), 3);
        assert_eq!(exit(9).code(), 137);
        assert_eq!(exit(11 | 0x80).code(), 139);
    }

    #[test]
    fn a_number_cut_by_the_buffer_is_left_out() {
        assert_eq!(numbers(b"12 345 67").collect::<Vec<_>>(), [12, 345]);
        assert_eq!(numbers(b"67").count(), 0);
        assert_eq!(numbers(b"").count(), 0);
    }

    #[test]
    fn a_process_with_another_start_time_is_not_opened() {
        let own = procfs::stat(std::process::id() as i32).unwrap();
        assert!(open_exact(own.pid, own.start_time).unwrap().is_some());
        assert!(open_exact(own.pid, own.start_time + 1).unwrap().is_none());
        assert!(open_exact(0, 0).unwrap().is_none());
    }
}
