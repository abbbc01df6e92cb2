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
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::affinity::CpuSet;
use super::cgroup::Cgroups;
use super::child::{self, OpenPlan, Plan, Report, Search};
use super::clone::{self, Entry, Stack, Start};
use super::overdue::{Lateness, Overdue, START_MAX};
use super::rights::{Rights, Stream, with_identity};
use super::{procfs, reap, stdio};
use crate::users::{Account, Accounts, UserError};

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

/// How often the cgroup of a user is made that another process removes each time.
const CGROUP_LOOKS: u32 = 2;

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
    /// Whose rights it has.
    pub rights: Rights,
    /// Becomes descriptor 0.
    pub stdin: Stream,
    /// Becomes descriptor 1.
    pub stdout: Stream,
    /// Becomes descriptor 2.
    pub stderr: Stream,
    /// Processors it may run on; `None` leaves those of the shell.
    pub cpus: Option<CpuSet>,
    /// Limits to set; others are those of the shell.
    pub rlimits: Vec<Rlimit>,
    /// Which rights files that it makes have not.
    pub umask: u32,
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
    /// Taking the rights of its user.
    Rights,
}

impl Step {
    const ALL: [Step; 10] = [
        Step::Clone,
        Step::ParentDeath,
        Step::Signals,
        Step::Setsid,
        Step::Affinity,
        Step::Chdir,
        Step::Stdio,
        Step::Rlimit,
        Step::Exec,
        Step::Rights,
    ];

    /// The step of that number; none failed where it is 0.
    pub(super) fn of_number(number: i32) -> Option<Step> {
        Step::ALL.into_iter().find(|known| *known as i32 == number)
    }

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
            Step::Rights => "take the rights of",
        }
    }
}

/// A task that did not start. Nothing of it is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// The system refused a step.
    #[error("cannot {} {what}: {}", .step.attempt(), describe(*.errno))]
    Step {
        /// What failed.
        step: Step,
        /// Error number of the system.
        errno: i32,
        /// The program, directory, limit or stream concerned.
        what: String,
    },
    /// Whose rights it is to have is not known.
    #[error(transparent)]
    User(#[from] UserError),
    /// A start under a user's rights, on which the user had it wait.
    #[error("cannot execute {what}: the start took longer than {} s", START_MAX.as_secs())]
    Late {
        /// The program or file.
        what: String,
    },
}

impl SpawnError {
    /// The exit code scripts expect: 127 for a program that is not there, 126
    /// for everything else that kept it from running.
    pub fn exit_code(&self) -> i32 {
        match self {
            SpawnError::Step {
                step: Step::Exec,
                errno: libc::ENOENT,
                ..
            } => 127,
            SpawnError::Step { .. } | SpawnError::User(_) | SpawnError::Late { .. } => 126,
        }
    }
}

fn describe(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}

/// A command with all that is looked up and opened for it.
struct Prepared<'a> {
    command: &'a Command,
    env: &'a [CString],
    stdio: [RawFd; 3],
    account: Option<&'a Account>,
}

/// What one thread needs to spawn: a stack for its children.
#[derive(Debug)]
pub struct Spawner {
    stack: Stack,
    shell: i32,
    /// Clock ticks per second.
    ticks: u64,
    accounts: Arc<Accounts>,
    cgroups: Arc<Cgroups>,
    watched: Arc<Overdue>,
}

impl Spawner {
    /// Maps the stack. Fails only for want of memory.
    pub fn new(accounts: Arc<Accounts>, cgroups: Arc<Cgroups>) -> io::Result<Spawner> {
        Ok(Spawner {
            stack: Stack::map()?,
            shell: std::process::id() as i32,
            ticks: rustix::param::clock_ticks_per_second(),
            accounts,
            cgroups,
            watched: Arc::default(),
        })
    }

    /// By what another thread ends a start that a user holds up.
    pub fn watched(&self) -> Arc<Overdue> {
        Arc::clone(&self.watched)
    }

    /// Starts a process and returns once it executes its program, or says which
    /// step failed. Takes as long as clone and exec do, usually below 1 ms; a
    /// program on a hanging network disk holds this thread.
    pub fn spawn(&mut self, command: &Command) -> Result<Child, SpawnError> {
        let account = match command.rights {
            Rights::Kept => None,
            Rights::Of(user) => Some(self.accounts.get(user)?),
        };
        let stdio = [
            self.stream(&command.stdin, account.as_deref())?,
            self.stream(&command.stdout, account.as_deref())?,
            self.stream(&command.stderr, account.as_deref())?,
        ];
        let env = account
            .as_deref()
            .map(|account| with_identity(&command.env, account));
        let ready = Prepared {
            command,
            env: env.as_deref().unwrap_or(&command.env),
            stdio: stdio.each_ref().map(|fd| fd.as_raw_fd()),
            account: account.as_deref(),
        };
        // A file that the shell itself has just written (a batch script) can be
        // held open for writing by a child of the other spawner between clone
        // and exec, and the kernel refuses to execute it for that instant.
        for _ in 0..BUSY_LOOKS {
            match self.try_spawn(&ready) {
                Err(SpawnError::Step {
                    step: Step::Exec,
                    errno: libc::ETXTBSY,
                    ..
                }) => {
                    std::thread::sleep(BUSY_PAUSE);
                }
                answer => return answer,
            }
        }
        self.try_spawn(&ready)
    }

    /// An open stream. One that a user named is opened by the first task that has it, in a process
    /// with its rights and by no other.
    fn stream(
        &mut self,
        stream: &Stream,
        account: Option<&Account>,
    ) -> Result<Arc<OwnedFd>, SpawnError> {
        let named = match stream {
            Stream::Open(fd) => return Ok(Arc::clone(fd)),
            Stream::Named(named) => named,
        };
        let mut opened = named.lock();
        if let Some(fd) = &*opened {
            return Ok(Arc::clone(fd));
        }
        let name = || named.path.to_string_lossy().into_owned();
        let failed = |step, errno| {
            let what = match step {
                Step::Stdio => format!("{} for {}", name(), named.purpose),
                _ => name(),
            };
            SpawnError::Step { step, errno, what }
        };
        let account = account.ok_or_else(|| failed(Step::Rights, libc::EINVAL))?;
        let (report, number) = (Report::default(), AtomicI32::new(-1));
        let plan = OpenPlan {
            rights: rights(account),
            umask: named.umask,
            path: named.path.as_ptr(),
            flags: stdio::guarded(named.how).bits() as c_int,
            report: &report,
            opened: &number,
        };
        let argument = ptr::from_ref(&plan).cast_mut().cast::<c_void>();
        let open = (enter_open as Entry, argument, libc::CLONE_FILES);
        let (late, cloned) = self.clone_blocked(open, Rights::Of(account.uid));
        let (_, pidfd) = cloned.map_err(|errno| failed(Step::Clone, errno))?;
        let _ = reap::wait(pidfd.as_fd());
        let fd = number.load(Relaxed);
        if fd < 0 {
            return Err(match (late, report.failed()) {
                (_, Some((step, errno, _))) => failed(step, errno),
                (Lateness::Ended, None) => SpawnError::Late { what: name() },
                (Lateness::InTime, None) => failed(Step::Stdio, libc::EINTR),
            });
        }
        // SAFETY: the process that shared our table of descriptors opened it for us just now.
        let fd = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        stdio::expect_to_wait(&fd).map_err(|_| failed(Step::Stdio, libc::EIO))?;
        *opened = Some(Arc::clone(&fd));
        Ok(fd)
    }

    fn try_spawn(&mut self, ready: &Prepared<'_>) -> Result<Child, SpawnError> {
        let command = ready.command;
        let candidates = candidates(command, ready.env);
        let candidates: Vec<*const c_char> = candidates.iter().map(|path| path.as_ptr()).collect();
        let argv = pointers(&command.argv);
        let mut script = vec![c"/bin/sh".as_ptr(), ptr::null()];
        script.extend(argv.iter().skip(1));
        // An empty argv has no null of its own left after the skip.
        script.push(ptr::null());
        let envp = pointers(ready.env);
        let report = Report::default();
        let plan = Plan {
            shell: self.shell,
            rights: ready.account.map(rights),
            cpus: command.cpus.as_ref().map(CpuSet::words),
            rlimits: &command.rlimits,
            umask: command.umask,
            cwd: command.cwd.as_ptr(),
            stdio: ready.stdio,
            candidates: &candidates,
            search: search(command),
            argv: argv.as_ptr(),
            script: script.as_mut_ptr(),
            envp: envp.as_ptr(),
            ticks: self.ticks,
            report: &report,
        };
        let before = child::boot_ticks(self.ticks);
        let argument = ptr::from_ref(&plan).cast_mut().cast::<c_void>();
        let (late, cloned) = self.clone_blocked((enter, argument, 0), command.rights);
        let (pid, pidfd) = cloned.map_err(|errno| refused(command, Step::Clone, errno, 0))?;
        if late == Lateness::Ended {
            let _ = reap::wait(pidfd.as_fd());
            let program = command.argv.first().map_or(c"", CString::as_c_str);
            let what = program.to_string_lossy().into_owned();
            return Err(SpawnError::Late { what });
        }
        match report.failed() {
            None => {
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
            Some((step, errno, which)) => {
                // It has exited; take it away. Its status says nothing more.
                let _ = reap::wait(pidfd.as_fd());
                Err(refused(command, step, errno, which))
            }
        }
    }

    /// One child, with all signals of this thread blocked meanwhile: a handler must not run on the
    /// memory that the child borrows. Raw, because libc keeps two signals from being blocked.
    fn clone_blocked(
        &mut self,
        (run, argument, flags): (Entry, *mut c_void, c_int),
        rights: Rights,
    ) -> (Lateness, Result<(i32, OwnedFd), i32>) {
        let mask = set_signal_mask(u64::MAX);
        let watched = Arc::clone(&self.watched);
        if rights != Rights::Kept {
            watched.begin();
        }
        let start = Start {
            run,
            argument,
            flags,
            pidfd: &watched.pidfd,
            cgroup: None,
        };
        let cloned = self.clone_for(start, rights);
        let late = watched.end();
        set_signal_mask(mask);
        (late, cloned)
    }

    /// In the cgroup of its user if there is one, which another may just have removed.
    fn clone_for(&mut self, start: Start<'_>, rights: Rights) -> Result<(i32, OwnedFd), i32> {
        for _ in 0..CGROUP_LOOKS {
            let Rights::Of(user) = rights else { break };
            let Some(cgroup) = self.cgroups.of(user) else {
                break;
            };
            let within = Start {
                cgroup: Some(cgroup.as_fd()),
                ..start
            };
            // SAFETY: as below.
            match unsafe { clone::clone(&mut self.stack, &within) } {
                Ok(child) => {
                    self.cgroups.served();
                    return Ok(child);
                }
                // What an administrator allows those of the user holds for the next as well.
                Err(errno @ (libc::EAGAIN | libc::ENOMEM)) => return Err(errno),
                Err(errno) => self.cgroups.failed(user, errno),
            }
        }
        // SAFETY: what `run` is given outlives the child's use of it: this thread waits meanwhile.
        // CLONE_SIGHAND is not set, CLONE_FILES only for `child::open`, and all signals are blocked, as
        // both demand.
        unsafe { clone::clone(&mut self.stack, &start) }
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

/// The same of a child that opens a file.
extern "C" fn enter_open(argument: *mut c_void) -> c_int {
    // SAFETY: as in `enter`, for the plan of `open`.
    unsafe {
        child::open(&*argument.cast::<OpenPlan<'_>>());
        libc::syscall(libc::SYS_exit_group, 0);
    }
    0
}

fn rights(account: &Account) -> child::Rights<'_> {
    child::Rights {
        uid: account.uid,
        gid: account.gid,
        groups: &account.groups,
    }
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

/// Whether the program is looked for.
fn search(command: &Command) -> Search {
    let program = command.argv.first();
    match program.is_some_and(|program| program.to_bytes().contains(&b'/')) {
        true => Search::Named,
        false => Search::Path,
    }
}

/// The paths to try, as execvp(3): the program itself if it has a slash, else
/// each directory of the job's PATH, an empty one meaning the working directory.
fn candidates(command: &Command, env: &[CString]) -> Vec<CString> {
    let Some(program) = command.argv.first() else {
        return Vec::new();
    };
    let name = program.to_bytes();
    if name.is_empty() {
        return Vec::new();
    }
    if search(command) == Search::Named {
        return vec![program.clone()];
    }
    let path = env
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
        Step::Rights => match command.rights {
            Rights::Of(user) => format!("user {user}"),
            Rights::Kept => spelled(program()),
        },
        Step::Clone | Step::ParentDeath | Step::Signals | Step::Setsid | Step::Exec => {
            spelled(program())
        }
    };
    SpawnError::Step { step, errno, what }
}
