//! The one audited path by which a process of a job comes to be.
//!
//! Called by the threads of the pool. One clone(CLONE_VM | CLONE_VFORK |
//! CLONE_PIDFD), so nothing of the shell's memory is copied however large it
//! is, a handful of system calls in the child, one exec. It never decides what
//! a failure means and never waits for the task to end.
//!
//! A task is killed by the kernel when the *thread* that spawned it ends
//! (PR_SET_PDEATHSIG counts threads): spawn from threads that live as long as
//! the shell does.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::affinity::CpuSet;
use super::child::{self, Plan, Report};
use super::{procfs, reap};

/// Stack of a child before its exec. The kernel's part of exec does not use
/// it; the child's own frames take about 1 KiB.
const STACK_BYTES: usize = 64 << 10;
/// Page below the stack that faults instead of overwriting what lies there.
const GUARD_BYTES: usize = 4 << 10;
/// Where execvp(3) looks when the environment has no PATH.
const PATH_DEFAULT: &[u8] = b"/bin:/usr/bin";
/// Longest path the kernel takes, with its final zero (PATH_MAX).
const PATH_BYTES: usize = 4096;
/// Longest PATH that is looked at, the kernel's limit for one string.
const PATH_VARIABLE_BYTES: usize = 128 << 10;

/// How often a program that is being written is tried again.
const BUSY_LOOKS: u32 = 20;
/// How long between two tries; a clone and exec takes some 0.1 ms.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// A process to start, all of it decided.
#[derive(Clone, Debug)]
pub struct Command {
    /// Program and arguments. A program without `/` is looked for in the PATH
    /// of `env`, as execvp(3) does.
    pub argv: Vec<CString>,
    /// The whole environment, `NAME=value`; nothing is added.
    pub env: Vec<CString>,
    /// Working directory; relative programs and PATH entries count from it.
    pub cwd: CString,
    /// Becomes descriptor 0.
    pub stdin: Arc<OwnedFd>,
    /// Becomes descriptor 1.
    pub stdout: Arc<OwnedFd>,
    /// Becomes descriptor 2.
    pub stderr: Arc<OwnedFd>,
    /// Processors it may run on; `None` leaves those of the shell.
    pub cpus: Option<CpuSet>,
    /// Limits to set; others are those of the shell.
    pub rlimits: Vec<Rlimit>,
}

/// One resource limit, units as in setrlimit(2), `u64::MAX` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rlimit {
    /// `RLIMIT_...` of the kernel.
    pub resource: u32,
    /// The limit that is enforced.
    pub soft: u64,
    /// The highest the task may raise it to.
    pub hard: u64,
}

/// A started task. Its number stays its own until it is reaped.
#[derive(Debug)]
pub struct Child {
    /// Process id, which is also its session and process group.
    pub pid: i32,
    /// Refers to this process and no later one; readable once it has ended.
    pub pidfd: OwnedFd,
    /// Field 22 of `/proc/PID/stat`, clock ticks since boot; 0 without /proc.
    pub start_time: u64,
}

/// What a start was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Step {
    /// Making the process.
    Clone = 1,
    /// Tying its life to the shell's.
    ParentDeath,
    /// Lifting the signal mask.
    Signals,
    /// Becoming a session of its own.
    Setsid,
    /// Binding it to processors.
    Affinity,
    /// Entering the working directory.
    Chdir,
    /// Placing standard input, output and error.
    Stdio,
    /// Setting a resource limit.
    Rlimit,
    /// Executing the program.
    Exec,
}

impl Step {
    const ALL: [Step; 9] = [
        Step::Clone,
        Step::ParentDeath,
        Step::Signals,
        Step::Setsid,
        Step::Affinity,
        Step::Chdir,
        Step::Stdio,
        Step::Rlimit,
        Step::Exec,
    ];

    fn attempt(self) -> &'static str {
        match self {
            Step::Clone => "make a process for",
            Step::ParentDeath => "tie to the shell",
            Step::Signals => "lift the signal mask of",
            Step::Setsid => "make a session for",
            Step::Affinity => "bind to processors",
            Step::Chdir => "enter the working directory",
            Step::Stdio => "open",
            Step::Rlimit => "set the limit",
            Step::Exec => "execute",
        }
    }
}

/// A task that did not start. Nothing of it is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {} {what}: {}", .step.attempt(), describe(*.errno))]
pub struct SpawnError {
    /// What failed.
    pub step: Step,
    /// Error number of the system.
    pub errno: i32,
    /// The program, directory, limit or stream concerned.
    pub what: String,
}

impl SpawnError {
    /// The exit code scripts expect: 127 for a program that is not there, 126
    /// for everything else that kept it from running.
    pub fn exit_code(&self) -> i32 {
        match (self.step, self.errno) {
            (Step::Exec, libc::ENOENT) => 127,
            _ => 126,
        }
    }
}

fn describe(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}

/// What one thread needs to spawn: a stack for its children.
#[derive(Debug)]
pub struct Spawner {
    stack: Stack,
    shell: i32,
    /// Clock ticks per second.
    ticks: u64,
}

impl Spawner {
    /// Maps the stack. Fails only for want of memory.
    pub fn new() -> io::Result<Spawner> {
        Ok(Spawner {
            stack: Stack::map()?,
            shell: std::process::id() as i32,
            ticks: rustix::param::clock_ticks_per_second(),
        })
    }

    /// Starts a process and returns once it executes its program, or says which
    /// step failed. Takes as long as clone and exec do, usually below 1 ms; a
    /// program on a hanging network disk holds this thread.
    pub fn spawn(&mut self, command: &Command) -> Result<Child, SpawnError> {
        // A file that the shell itself has just written (a batch script) can be
        // held open for writing by a child of the other spawner between clone
        // and exec, and the kernel refuses to execute it for that instant.
        for _ in 0..BUSY_LOOKS {
            match self.try_spawn(command) {
                Err(SpawnError {
                    step: Step::Exec,
                    errno: libc::ETXTBSY,
                    ..
                }) => {
                    std::thread::sleep(BUSY_PAUSE);
                }
                answer => return answer,
            }
        }
        self.try_spawn(command)
    }

    fn try_spawn(&mut self, command: &Command) -> Result<Child, SpawnError> {
        let candidates = candidates(command);
        let candidates: Vec<*const c_char> = candidates.iter().map(|path| path.as_ptr()).collect();
        let argv = pointers(&command.argv);
        let mut script = vec![c"/bin/sh".as_ptr(), ptr::null()];
        script.extend(argv.iter().skip(1));
        // An empty argv has no null of its own left after the skip.
        script.push(ptr::null());
        let envp = pointers(&command.env);
        let report = Report::default();
        let plan = Plan {
            shell: self.shell,
            cpus: command.cpus.as_ref().map(CpuSet::words),
            rlimits: &command.rlimits,
            cwd: command.cwd.as_ptr(),
            stdio: [
                command.stdin.as_raw_fd(),
                command.stdout.as_raw_fd(),
                command.stderr.as_raw_fd(),
            ],
            candidates: &candidates,
            argv: argv.as_ptr(),
            script: script.as_mut_ptr(),
            envp: envp.as_ptr(),
            ticks: self.ticks,
            report: &report,
        };
        // Signals wait outside: a handler must not run on the child's borrowed
        // memory. Raw, because libc keeps two signals from being blocked.
        let mask = set_signal_mask(u64::MAX);
        let before = child::boot_ticks(self.ticks);
        let cloned = self.clone_child(&plan);
        set_signal_mask(mask);
        let (pid, pidfd) = cloned.map_err(|errno| refused(command, Step::Clone, errno, 0))?;
        match report.step.load(Relaxed) {
            0 => {
                // It started between these two readings. If a tick went by just
                // then we have to look: it is not reaped before we return, so
                // there is a stat. Not always, since that costs 25 µs.
                let start_time = match report.began.load(Relaxed) {
                    began if began == before => began,
                    _ => procfs::stat(pid).map_or(0, |stat| stat.start_time),
                };
                Ok(Child {
                    pid,
                    pidfd,
                    start_time,
                })
            }
            step => {
                // It has exited; take it away. Its status says nothing more.
                let _ = reap::wait(pidfd.as_fd());
                let step = Step::ALL.into_iter().find(|known| *known as i32 == step);
                let (errno, which) = (report.errno.load(Relaxed), report.which.load(Relaxed));
                Err(refused(command, step.unwrap_or(Step::Exec), errno, which))
            }
        }
    }

    fn clone_child(&mut self, plan: &Plan<'_>) -> Result<(i32, OwnedFd), i32> {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let mut pidfd: c_int = -1;
        let argument = ptr::from_ref(plan).cast_mut().cast::<c_void>();
        // SAFETY: `enter` runs on our own stack, which no other child uses: with
        // CLONE_VFORK this thread is stopped until the child has executed or
        // ended, and `&mut self` keeps other threads away. `plan` outlives that.
        // Neither CLONE_FILES nor CLONE_SIGHAND is set and all signals are
        // blocked, as `child::run` demands. `pidfd` is written before return.
        let (pid, errno) = unsafe {
            let pid = libc::clone(enter, self.stack.top(), flags, argument, &raw mut pidfd);
            (pid, *libc::__errno_location())
        };
        if pid < 0 {
            return Err(errno);
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else has it.
        Ok((pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
    }
}

/// First and last code of the child that is ours.
extern "C" fn enter(argument: *mut c_void) -> c_int {
    // SAFETY: `argument` is the plan handed to clone, alive while we run, and
    // this is the child that `run` asks for. exit_group takes no lock and runs
    // no handler; it ends this process only, the thread group being its own.
    unsafe {
        child::run(&*argument.cast::<Plan<'_>>());
        libc::syscall(libc::SYS_exit_group, 127);
    }
    127
}

/// Sets the signal mask of this thread and returns the one before.
fn set_signal_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: reads and writes the two words given, 8 bytes as the kernel's
    // signal set has; cannot fail with valid arguments.
    unsafe {
        let (new, old) = (&raw const mask, &raw mut before);
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            new,
            old,
            8usize,
        );
    }
    before
}

/// An array of C pointers ending in null.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|text| text.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// The paths to try, as execvp(3): the program itself if it has a slash, else
/// each directory of the job's PATH, an empty one meaning the working directory.
fn candidates(command: &Command) -> Vec<CString> {
    let Some(program) = command.argv.first() else {
        return Vec::new();
    };
    let name = program.to_bytes();
    if name.is_empty() {
        return Vec::new();
    }
    if name.contains(&b'/') {
        return vec![program.clone()];
    }
    let path = command
        .env
        .iter()
        .find_map(|variable| variable.to_bytes().strip_prefix(b"PATH="));
    let path = path.unwrap_or(PATH_DEFAULT);
    path[..path.len().min(PATH_VARIABLE_BYTES)]
        .split(|byte| *byte == b':')
        .filter(|directory| directory.len() + name.len() + 2 <= PATH_BYTES)
        .filter_map(|directory| {
            let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
            CString::new([directory, slash, name].concat()).ok()
        })
        .collect()
}

/// Puts a name to what failed.
fn refused(command: &Command, step: Step, errno: i32, which: i32) -> SpawnError {
    let program = || command.argv.first().map_or(c"", CString::as_c_str);
    let spelled = |text: &CStr| text.to_string_lossy().into_owned();
    let what = match step {
        Step::Chdir => spelled(&command.cwd),
        Step::Stdio => ["stdin", "stdout", "stderr"][which.clamp(0, 2) as usize].to_owned(),
        Step::Rlimit => {
            let limit = command.rlimits.get(which.max(0) as usize);
            limit.map_or_else(String::new, |l| {
                format!("{} to {}:{}", l.resource, l.soft, l.hard)
            })
        }
        Step::Affinity => command
            .cpus
            .as_ref()
            .map_or_else(String::new, |cpus| cpus.to_string()),
        Step::Clone | Step::ParentDeath | Step::Signals | Step::Setsid | Step::Exec => {
            spelled(program())
        }
    };
    SpawnError { step, errno, what }
}

/// Mapped memory with a guard page below, given back when dropped.
#[derive(Debug)]
struct Stack {
    base: *mut c_void,
}

// SAFETY: plain memory, used by one thread at a time through `&mut Spawner`.
unsafe impl Send for Stack {}

impl Stack {
    fn map() -> io::Result<Stack> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping at an address of the kernel's choice, then its
        // lowest page made unreadable; nobody has a pointer into it yet.
        unsafe {
            let base = libc::mmap(ptr::null_mut(), STACK_BYTES, protection, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let stack = Stack { base };
            if libc::mprotect(base, GUARD_BYTES, libc::PROT_NONE) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(stack)
        }
    }

    /// One past its highest byte, aligned to 16 as both x86-64 and arm64 ask.
    fn top(&mut self) -> *mut c_void {
        // SAFETY: one past the end of the mapping we own.
        unsafe { self.base.byte_add(STACK_BYTES) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: maps exactly what `map` mapped; no child runs on it, see
        // `clone_child`.
        unsafe { libc::munmap(self.base, STACK_BYTES) };
    }
}
