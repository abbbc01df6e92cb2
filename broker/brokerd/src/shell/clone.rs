//! How a child comes to be: on a stack of its own and in the memory of its parent, which waits until it
//! has executed its program or ended.
//!
//! Called by [`super::spawn`] alone, which says what runs in the child. It looks nothing up.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

/// Stack of a child before its exec. The kernel's part of exec does not use
/// it; the child's own frames take about 1 KiB.
const STACK_BYTES: usize = 64 << 10;
/// Page below the stack that faults instead of overwriting what lies there.
const GUARD_BYTES: usize = 4 << 10;

/// What all children have in common.
const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;

/// What runs in a child, from its first instruction to its last: it does not return.
pub(super) type Entry = extern "C" fn(*mut c_void) -> c_int;

/// A child to be.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    pub run: Entry,
    /// What `run` is given.
    pub argument: *mut c_void,
    /// Beside what all have.
    pub flags: c_int,
    /// Where the kernel writes the pidfd before the child runs.
    pub pidfd: &'a AtomicI32,
    /// The directory of the cgroup that it is born into; `None` is the parent's.
    pub cgroup: Option<BorrowedFd<'a>>,
}

/// Makes the child; its number and what refers to it, or the error number.
///
/// # Safety
/// `run` keeps to what a process may do that has the memory of another, and what `argument` points to
/// lives until it has executed or ended; all signals of this thread are blocked.
pub(super) unsafe fn clone(stack: &mut Stack, start: &Start<'_>) -> Result<(i32, OwnedFd), c_int> {
    let pid = match start.cgroup {
        // SAFETY: the caller's promise. The stack is no other child's: with CLONE_VFORK this thread is
        // stopped until the child has executed or ended, and `&mut` keeps other threads away.
        None => unsafe { plain(stack, start) },
        // SAFETY: the same.
        Some(cgroup) => unsafe { within(stack, start, cgroup) },
    }?;
    // SAFETY: the kernel just gave us this descriptor and nobody else has it.
    Ok((pid, unsafe {
        OwnedFd::from_raw_fd(start.pidfd.load(Relaxed))
    }))
}

/// # Safety
/// As [`clone`].
unsafe fn plain(stack: &mut Stack, start: &Start<'_>) -> Result<i32, c_int> {
    let flags = FLAGS | start.flags | libc::SIGCHLD;
    // SAFETY: the caller's promise; `pidfd` is written before return.
    let (pid, errno) = unsafe {
        let pidfd = start.pidfd.as_ptr();
        let pid = libc::clone(start.run, stack.top(), flags, start.argument, pidfd);
        (pid, *libc::__errno_location())
    };
    match pid {
        ..0 => Err(errno),
        pid => Ok(pid),
    }
}

/// `CLONE_INTO_CGROUP`, since Linux 5.7: nothing has to be moved, which would have all others wait that
/// make processes at the time.
#[cfg(target_arch = "x86_64")]
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// By clone3, which libc does not offer: the child goes on behind the call with the new stack, on which
/// nothing is to return to.
///
/// # Safety
/// As [`clone`].
#[cfg(target_arch = "x86_64")]
unsafe fn within(
    stack: &mut Stack,
    start: &Start<'_>,
    cgroup: BorrowedFd<'_>,
) -> Result<i32, c_int> {
    use std::os::fd::AsRawFd;

    // SAFETY: plain numbers, for which zeros are a value: that of what is not given.
    let mut asked: libc::clone_args = unsafe { std::mem::zeroed() };
    asked.flags = CLONE_INTO_CGROUP | u64::from((FLAGS | start.flags).cast_unsigned());
    asked.pidfd = start.pidfd.as_ptr() as u64;
    asked.exit_signal = libc::SIGCHLD as u64;
    asked.stack = stack.base as u64;
    asked.stack_size = STACK_BYTES as u64;
    asked.cgroup = cgroup.as_raw_fd() as u64;
    let answer: i64;
    // SAFETY: the parent goes from the system call to the end; it loses what is named and no more. The
    // child has the stack of `asked`, aligned to 16 as a call asks, and never comes to the end.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {argument}",
            "call {run}",
            "ud2",
            "2:",
            argument = in(reg) start.argument,
            run = in(reg) start.run,
            inlateout("rax") libc::SYS_clone3 => answer,
            in("rdi") &raw const asked,
            in("rsi") size_of_val(&asked),
            out("rcx") _,
            out("r11") _,
        );
    }
    match i32::try_from(answer).unwrap_or(-libc::EINVAL) {
        errno @ ..0 => Err(-errno),
        pid => Ok(pid),
    }
}

/// Elsewhere none is born into another cgroup than its parent's.
///
/// # Safety
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn within(_: &mut Stack, _: &Start<'_>, _: BorrowedFd<'_>) -> Result<i32, c_int> {
    Err(libc::ENOSYS)
}

/// Mapped memory with a guard page below, given back when dropped.
#[derive(Debug)]
pub(super) struct Stack {
    base: *mut c_void,
}

// SAFETY: plain memory, used by one thread at a time through `&mut`.
unsafe impl Send for Stack {}

impl Stack {
    /// A new one. Fails only for want of memory.
    pub fn map() -> io::Result<Stack> {
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
        // `clone`.
        unsafe { libc::munmap(self.base, STACK_BYTES) };
    }
}
