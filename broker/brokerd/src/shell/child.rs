//! What a new process does between clone and exec, in the memory of the shell.
//!
//! Called only by spawn. From [`run`] to the exec nothing may allocate, take a
//! lock, panic or touch a libc structure: other threads of the shell go on and
//! the thread that cloned is stopped until the exec, its stack and thread-local
//! storage being lent to the child. So: system calls by number, on memory that
//! was prepared before.

use std::ffi::{c_char, c_int, c_long};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use super::spawn::{Rlimit, Step};

/// Highest signal number of Linux (`_NSIG`).
const SIGNALS: c_long = 64;
/// Bytes of the kernel's signal set.
const SIGSET_BYTES: c_long = 8;

/// All a child needs, prepared by its parent.
pub(super) struct Plan<'a> {
    /// Process id of the shell, to notice that it died in between.
    pub shell: i32,
    /// Whose rights it takes; `None` keeps those of the shell.
    pub rights: Option<Rights<'a>>,
    pub cpus: Option<&'a [u64]>,
    pub rlimits: &'a [Rlimit],
    pub umask: u32,
    pub cwd: *const c_char,
    /// Descriptors that become 0, 1 and 2.
    pub stdio: [RawFd; 3],
    /// Paths to try in turn.
    pub candidates: &'a [*const c_char],
    pub search: Search,
    pub argv: *const *const c_char,
    /// `/bin/sh`, an empty place for the path, the arguments, null.
    pub script: *mut *const c_char,
    pub envp: *const *const c_char,
    /// Clock ticks per second.
    pub ticks: u64,
    pub report: &'a Report,
}

/// Where the paths to try come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// The program has a slash: it is the one path.
    Named,
    /// It is looked for in the directories of PATH.
    Path,
}

/// Rights that a child takes for good.
#[derive(Clone, Copy)]
pub(super) struct Rights<'a> {
    pub uid: u32,
    pub gid: u32,
    pub groups: &'a [u32],
}

/// What a child needs that opens a file with the rights of its user and ends.
pub(super) struct OpenPlan<'a> {
    pub rights: Rights<'a>,
    pub umask: u32,
    pub path: *const c_char,
    pub flags: c_int,
    pub report: &'a Report,
    /// The descriptor, once it is open.
    pub opened: &'a AtomicI32,
}

/// Where the child leaves word for its parent; `step` 0 means that none failed.
/// Atomics because two processes use the same memory, never at the same time.
#[derive(Default)]
pub(super) struct Report {
    pub step: AtomicI32,
    pub errno: AtomicI32,
    /// Which of the limits or descriptors.
    pub which: AtomicI32,
    /// Clock ticks from boot to the child's first moment.
    pub began: AtomicU64,
}

impl Report {
    /// What failed, if anything did.
    pub fn failed(&self) -> Option<(Step, c_int, c_int)> {
        let step = Step::of_number(self.step.load(Relaxed))?;
        Some((step, self.errno.load(Relaxed), self.which.load(Relaxed)))
    }
}

/// A step that failed, its number, and which of several.
type Failure = (Step, c_int, c_int);

/// Goes through the plan. Returns only if a step failed, with that written to
/// `plan.report`.
///
/// # Safety
/// Only in a fresh child of clone(CLONE_VM | CLONE_VFORK) without CLONE_SIGHAND
/// and CLONE_FILES, with all signals blocked, every pointer of the plan valid
/// and its arrays ending in null.
pub(super) unsafe fn run(plan: &Plan<'_>) {
    plan.report.began.store(boot_ticks(plan.ticks), Relaxed);
    // SAFETY: the caller's promise is that of each step.
    let failed = unsafe { steps(plan) };
    let (step, errno, which) = failed;
    plan.report.errno.store(errno, Relaxed);
    plan.report.which.store(which, Relaxed);
    plan.report.step.store(step as c_int, Relaxed);
}

/// # Safety
/// As [`run`].
unsafe fn steps(plan: &Plan<'_>) -> Failure {
    // SAFETY: as promised by the caller, in this order.
    unsafe {
        match prepare(plan) {
            Ok(()) => (Step::Exec, exec(plan), 0),
            Err(failure) => failure,
        }
    }
}

/// # Safety
/// As [`run`].
unsafe fn prepare(plan: &Plan<'_>) -> Result<(), Failure> {
    // SAFETY: each call is a raw system call on memory the plan keeps alive; the
    // process is fresh, so what it changes (session, limits, directory, table of
    // descriptors, dispositions) is its own.
    unsafe {
        die_with_the_shell(plan.shell)?;
        reset_dispositions();
        call(libc::SYS_setsid, [0; 4]).map_err(|errno| (Step::Setsid, errno, 0))?;
        if let Some(rights) = &plan.rights {
            take_rights(rights)?;
            // The kernel forgets this when rights change.
            die_with_the_shell(plan.shell)?;
        }
        if let Some(cpus) = plan.cpus {
            let args = [0, size_of_val(cpus) as c_long, cpus.as_ptr() as c_long, 0];
            call(libc::SYS_sched_setaffinity, args).map_err(|e| (Step::Affinity, e, 0))?;
        }
        set_umask(plan.umask);
        let cwd = [plan.cwd as c_long, 0, 0, 0];
        call(libc::SYS_chdir, cwd).map_err(|errno| (Step::Chdir, errno, 0))?;
        place_stdio(plan.stdio)?;
        // Last, so that a small limit on files or memory hits the task alone.
        for (which, limit) in plan.rlimits.iter().enumerate() {
            let pair: [u64; 2] = [limit.soft, limit.hard];
            let args = [0, c_long::from(limit.resource), pair.as_ptr() as c_long, 0];
            call(libc::SYS_prlimit64, args).map_err(|e| (Step::Rlimit, e, which as c_int))?;
        }
        let none: u64 = 0;
        let args = [
            libc::SIG_SETMASK.into(),
            (&raw const none) as c_long,
            0,
            SIGSET_BYTES,
        ];
        call(libc::SYS_rt_sigprocmask, args).map_err(|errno| (Step::Signals, errno, 0))?;
        Ok(())
    }
}

/// Opens a file with the rights of a user, for the shell: descriptors are shared with it. Returns
/// in any case; what failed is written to the report.
///
/// # Safety
/// Only in a fresh child of clone(CLONE_VM | CLONE_VFORK | CLONE_FILES) without CLONE_SIGHAND, with
/// all signals blocked and every pointer of the plan valid.
pub(super) unsafe fn open(plan: &OpenPlan<'_>) {
    // SAFETY: the caller's promise; the path is a C string that the plan keeps alive.
    let done = unsafe {
        take_rights(&plan.rights).and_then(|()| {
            set_umask(plan.umask);
            let (at, mode) = (c_long::from(libc::AT_FDCWD), 0o666);
            let args = [at, plan.path as c_long, c_long::from(plan.flags), mode];
            call(libc::SYS_openat, args).map_err(|errno| (Step::Stdio, errno, 0))
        })
    };
    match done {
        Ok(fd) => plan.opened.store(fd as c_int, Relaxed),
        Err((step, errno, which)) => {
            plan.report.errno.store(errno, Relaxed);
            plan.report.which.store(which, Relaxed);
            plan.report.step.store(step as c_int, Relaxed);
        }
    }
}

/// `KEYCTL_JOIN_SESSION_KEYRING`: a new one without a name.
const JOIN_SESSION_KEYRING: c_long = 1;
/// Version 3 of the kernel's capability sets, for this process: 64 bits each.
const CAPABILITIES: [u32; 2] = [0x2008_0522, 0];

/// Becomes a user for good: groups while it may, then the group, then the user, all three ids of
/// each; then it tries to come back, which must fail. By number and not through libc, which would
/// have every thread of the shell do the same.
///
/// The memory is still the shell's: until the exec it is said not to be dumpable, whatever the machine says of changes
/// of ids (`fs.suid_dumpable`). So the kernel keeps others of that user from looking into it, and a signal of his
/// dumps no core, with which kernels before 5.16 end all who share the memory.
///
/// # Safety
/// As [`run`].
unsafe fn take_rights(rights: &Rights<'_>) -> Result<(), Failure> {
    let failed = |which| move |errno| (Step::Rights, errno, which);
    let (uid, gid) = (c_long::from(rights.uid), c_long::from(rights.gid));
    let keep = c_long::from(u32::MAX);
    let groups = [
        rights.groups.len() as c_long,
        rights.groups.as_ptr() as c_long,
        0,
        0,
    ];
    let none = [0u32; 6];
    // SAFETY: reads the groups, and the capability sets, on memory that lives; changes only this
    // process, which is fresh.
    unsafe {
        call(libc::SYS_setgroups, groups).map_err(failed(0))?;
        call(libc::SYS_setresgid, [gid, gid, gid, 0]).map_err(failed(1))?;
        call(libc::SYS_setresuid, [uid, uid, uid, 0]).map_err(failed(2))?;
        let undumpable = [libc::PR_SET_DUMPABLE.into(), 0, 0, 0];
        call(libc::SYS_prctl, undumpable).map_err(failed(2))?;
        // The inheritable set is the one that a change of ids leaves.
        let sets = [
            CAPABILITIES.as_ptr() as c_long,
            none.as_ptr() as c_long,
            0,
            0,
        ];
        call(libc::SYS_capset, sets).map_err(failed(3))?;
        // The administrator's keys are not the user's. Some kernels have none to give.
        let keyring = [JOIN_SESSION_KEYRING, 0, 0, 0];
        let _ = call(libc::SYS_keyctl, keyring);
        if call(libc::SYS_setresuid, [keep, 0, keep, 0]).is_ok() {
            return Err((Step::Rights, libc::EPERM, 4));
        }
        if rights.gid != 0 && call(libc::SYS_setresgid, [keep, 0, keep, 0]).is_ok() {
            return Err((Step::Rights, libc::EPERM, 4));
        }
    }
    Ok(())
}

/// Which rights files have not that the process makes. Always said: what it would have otherwise is what the
/// shell has at that moment, which is another one's while the shell opens a file for him.
///
/// # Safety
/// As [`run`].
unsafe fn set_umask(umask: u32) {
    // SAFETY: reads a register. Fails never, and answers with the one before.
    let _ = unsafe { call(libc::SYS_umask, [c_long::from(umask), 0, 0, 0]) };
}

/// A task must not outlive its shell unseen: the kernel kills it when the
/// *thread* that cloned it ends. If the shell is gone already, the kernel has
/// nothing left to wait for and the child ends by itself.
///
/// # Safety
/// As [`run`].
unsafe fn die_with_the_shell(shell: i32) -> Result<(), Failure> {
    let args = [
        c_long::from(libc::PR_SET_PDEATHSIG),
        c_long::from(libc::SIGKILL),
        0,
        0,
    ];
    // SAFETY: both calls only read registers.
    unsafe {
        call(libc::SYS_prctl, args).map_err(|errno| (Step::ParentDeath, errno, 0))?;
        match call(libc::SYS_getppid, [0; 4]) {
            Ok(parent) if parent == c_long::from(shell) => Ok(()),
            _ => Err((Step::ParentDeath, libc::ESRCH, 0)),
        }
    }
}

/// Every signal to its default. Handlers first of all because they point into
/// the shell and would run here as soon as the mask is lifted; ignored ones
/// because exec keeps them (Rust's runtime ignores SIGPIPE).
///
/// # Safety
/// As [`run`].
unsafe fn reset_dispositions() {
    // The kernel's struct sigaction is at most handler, flags, restorer and a
    // 64-bit mask on every Linux Rust runs on; zeros mean SIG_DFL.
    let default = [0u64; 8];
    for signal in 1..=SIGNALS {
        if signal != c_long::from(libc::SIGKILL) && signal != c_long::from(libc::SIGSTOP) {
            let args = [signal, default.as_ptr() as c_long, 0, SIGSET_BYTES];
            // SAFETY: reads `default` only. Cannot fail for a valid number.
            let _ = unsafe { call(libc::SYS_rt_sigaction, args) };
        }
    }
}

/// Puts the three descriptors to 0, 1 and 2 and marks all others to close.
///
/// # Safety
/// As [`run`].
unsafe fn place_stdio(mut stdio: [RawFd; 3]) -> Result<(), Failure> {
    // SAFETY: the table of descriptors is this child's own copy.
    unsafe {
        // 1. Those that stand where another is to go move out of the way.
        for (which, fd) in stdio.iter_mut().enumerate() {
            if *fd < 3 {
                let args = [c_long::from(*fd), libc::F_DUPFD_CLOEXEC.into(), 3, 0];
                let moved = call(libc::SYS_fcntl, args);
                *fd = moved.map_err(|errno| (Step::Stdio, errno, which as c_int))? as RawFd;
            }
        }
        // 2. dup3 clears close-on-exec.
        for (which, fd) in stdio.iter().enumerate() {
            let args = [c_long::from(*fd), which as c_long, 0, 0];
            call(libc::SYS_dup3, args).map_err(|errno| (Step::Stdio, errno, which as c_int))?;
        }
        // 3. All ours are opened to close on exec; this catches what a library
        // or whoever started the shell left open. Linux 5.11; without it the
        // first half of the sentence has to do.
        let args = [
            3,
            c_long::from(u32::MAX),
            libc::CLOSE_RANGE_CLOEXEC.into(),
            0,
        ];
        let _ = call(libc::SYS_close_range, args);
    }
    Ok(())
}

/// Tries the candidates as execvp(3) does and returns the error that a shell would tell: that a program may not be
/// executed is so only of one that was found. execvp(3) says it also where a directory may not be looked into, and
/// whoever has one of those in his PATH would never be told that a program is not there.
///
/// # Safety
/// As [`run`].
unsafe fn exec(plan: &Plan<'_>) -> c_int {
    let mut answer = libc::ENOENT;
    for path in plan.candidates {
        // SAFETY: path, argv and envp are C strings and arrays ending in null.
        let errno = unsafe { exec_one(plan, *path) };
        match errno {
            // SAFETY: as above.
            libc::EACCES if plan.search == Search::Named || unsafe { is_there(*path) } => {
                answer = libc::EACCES;
            }
            libc::EACCES => {}
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
            other => return other,
        }
    }
    answer
}

/// Whether there is a file of that name, as far as this process may know.
///
/// # Safety
/// As [`run`].
unsafe fn is_there(path: *const c_char) -> bool {
    let at = c_long::from(libc::AT_FDCWD);
    // SAFETY: path is a C string.
    unsafe {
        call(
            libc::SYS_faccessat,
            [at, path as c_long, libc::F_OK.into(), 0],
        )
    }
    .is_ok()
}

/// # Safety
/// As [`run`].
unsafe fn exec_one(plan: &Plan<'_>, path: *const c_char) -> c_int {
    let envp = plan.envp as c_long;
    // SAFETY: as promised by the caller; on success it does not return.
    let errno = unsafe {
        call(
            libc::SYS_execve,
            [path as c_long, plan.argv as c_long, envp, 0],
        )
    };
    if errno != Err(libc::ENOEXEC) {
        return errno.err().unwrap_or(0);
    }
    // Neither a binary nor `#!`: a script for sh, as execvp(3) has it.
    // SAFETY: `script` has a place at index 1 that nobody else reads now.
    unsafe {
        ptr::write(plan.script.add(1), path);
        let shell = c"/bin/sh".as_ptr() as c_long;
        call(libc::SYS_execve, [shell, plan.script as c_long, envp, 0])
            .err()
            .unwrap_or(0)
    }
}

/// Clock ticks since boot, counted as field 22 of `/proc/PID/stat` is. Allowed in
/// the child: clock_gettime reads a page of the kernel's.
pub(super) fn boot_ticks(per_second: u64) -> u64 {
    // SAFETY: writes to `now` only; zeros are a value of it.
    let now = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now);
        now
    };
    let (seconds, nanos) = (now.tv_sec as u64, now.tv_nsec as u64);
    // Neither overflows: hundreds of ticks a second, and centuries since boot.
    seconds
        .wrapping_mul(per_second)
        .wrapping_add(nanos.wrapping_mul(per_second) / 1_000_000_000)
}

/// One system call, its error as a number.
///
/// # Safety
/// As the call itself demands.
unsafe fn call(number: c_long, args: [c_long; 4]) -> Result<c_long, c_int> {
    // SAFETY: the caller vouches for number and arguments. errno is that of the
    // stopped thread; it does not read it before its own next call.
    unsafe {
        let answer = libc::syscall(number, args[0], args[1], args[2], args[3]);
        if answer < 0 {
            Err(*libc::__errno_location())
        } else {
            Ok(answer)
        }
    }
}
