//! Reads other processes from /proc and our own use of the CPU. Used by `instance`, `spawn` and
//! `memory`; sends no signals.

use std::fs;
use std::path::Path;
use std::process::{Child, ExitStatus};

use anyhow::Context as _;

/// Pid and arguments of a process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its command line, the program first.
    pub arguments: Vec<String>,
}

/// Every process that runs now and has a command line.
#[must_use]
pub fn all() -> Vec<Process> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let arguments: Vec<String> = line
            .split(|byte| *byte == 0)
            .filter(|part| !part.is_empty())
            .map(|part| String::from_utf8_lossy(part).into_owned())
            .collect();
        (!arguments.is_empty()).then_some(Process { pid, arguments })
    })
    .collect()
}

/// Whether the environment a process began with names a place below `folder`.
#[must_use]
pub fn environment_names(pid: u32, folder: &Path) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let folder = folder.as_os_str().as_encoded_bytes();
    environment
        .split(|byte| *byte == 0)
        .filter_map(|pair| pair.strip_prefix(b"EDDY_JOB_STATEDIR="))
        .any(|place| place.starts_with(folder))
}

/// Seconds of CPU that a process has used itself, without its children. The kernel counts them in
/// ticks, so take the difference over many jobs.
///
/// # Errors
/// The process is gone.
pub fn cpu_of(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
    ticks(&stat)
        .map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
        .with_context(|| path)
}

/// User and system ticks of a line of /proc/PID/stat. The name in it may hold blanks and parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Seconds of CPU of this process and of the children it has waited for.
///
/// # Errors
/// The kernel's, which cannot happen for these two.
pub fn own_cpu() -> anyhow::Result<f64> {
    let mut total = 0.0;
    for who in [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN] {
        // SAFETY: rusage is plain numbers, for which all zeros is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: getrusage writes one rusage to the place it is given, and keeps nothing.
        let result = unsafe { libc::getrusage(who, &raw mut usage) };
        if result != 0 {
            return Err(std::io::Error::last_os_error()).context("getrusage");
        }
        total += seconds(&usage);
    }
    Ok(total)
}

/// Waits for a child and tells how it ended and how many seconds of CPU it used.
///
/// # Errors
/// The child was waited for before.
pub fn wait_with_cpu(child: &Child) -> anyhow::Result<(ExitStatus, f64)> {
    use std::os::unix::process::ExitStatusExt as _;
    let pid = i32::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: waits for a child of our own; writes only the status and the usage.
    let ended = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if ended != pid {
        return Err(std::io::Error::last_os_error()).with_context(|| format!("wait4 of {pid}"));
    }
    Ok((ExitStatus::from_raw(status), seconds(&usage)))
}

fn seconds(usage: &libc::rusage) -> f64 {
    let of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Memory of a process that is in use now (VmRSS), in megabytes of 10^6 bytes.
///
/// # Errors
/// The process is gone.
pub fn memory_of(pid: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = field(&status, "VmRSS").with_context(|| format!("VmRSS of {pid}"))?;
    Ok(kib * 1024.0 / 1e6)
}

/// Memory that this process has asked for and not given back, in megabytes of 10^6 bytes; what was
/// given back may still be in use for the kernel.
#[must_use]
pub fn own_memory() -> f64 {
    // SAFETY: mallinfo2 takes nothing, and gives plain numbers.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as f64 / 1e6
}

/// How often the threads of a process have gone to sleep by themselves since each began, which is how
/// often they were woken.
///
/// # Errors
/// The process is gone.
pub fn wakeups_of(pid: u32) -> anyhow::Result<f64> {
    let mut total = 0.0;
    for thread in fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"))? {
        let status = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        total += field(&status, "voluntary_ctxt_switches").unwrap_or(0.0);
    }
    Ok(total)
}

fn field(status: &str, name: &str) -> Option<f64> {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| *key == name)?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_strange_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 1 2 3 4 150 25 9 9 20 0 1 0 100";
        assert_eq!(ticks(stat), Some(175));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let pid = std::process::id();
        assert!(cpu_of(pid).unwrap() >= 0.0 && own_cpu().unwrap() > 0.0);
        assert!(memory_of(pid).unwrap() > 0.1);
        assert!(wakeups_of(pid).unwrap() >= 0.0);
        assert!(all().iter().any(|process| process.pid == pid));
    }

    #[test]
    fn a_child_is_charged_for_what_it_used() {
        let mut command = std::process::Command::new("sh");
        let child = command
            .args([
                "-c",
                "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3",
            ])
            .spawn();
        let (status, cpu) = wait_with_cpu(&child.unwrap()).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(cpu > 0.0);
    }
}
