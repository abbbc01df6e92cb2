//! Where a task's standard input comes from and its output goes to.
//!
//! Called by the shell's loop before a start (to open) and while the task runs
//! (to read its output in bounded slices and to feed its input). Output that
//! goes to a file the user named never passes through here: the task has the
//! file itself. Nothing here waits.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, open, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// The most that is read from one pipe before others have their turn: what a
/// pipe of the usual size holds.
pub const SLICE_BYTES: usize = 64 << 10;

/// The word in place of a file name that means no file.
pub const NONE: &str = "none";

/// Opens `/dev/null` for reading and writing. Once per shell is enough; every
/// task can share it.
pub fn null() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(open(
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )?))
}

/// A pipe for output: the shell's end, which does not block, and the task's.
/// Drop the latter once the task is started, or its end is never seen.
pub fn output_pipe() -> io::Result<(OwnedFd, Arc<OwnedFd>)> {
    let (ours, task) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&ours, OFlags::NONBLOCK)?;
    Ok((ours, Arc::new(task)))
}

/// What there was in a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes at the front of the buffer.
    Bytes(usize),
    /// Nothing now.
    Later,
    /// Nobody has the other end any more.
    End,
}

/// Reads at most the buffer, give it [`SLICE_BYTES`].
pub fn read_slice(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<Read> {
    loop {
        match rustix::io::read(&fd, &mut *buffer) {
            Ok(0) => return Ok(Read::End),
            Ok(bytes) => return Ok(Read::Bytes(bytes)),
            Err(Errno::AGAIN) => return Ok(Read::Later),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What to do with what a named output file holds already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Begin anew. Only for the first start of an attempt.
    Truncate,
    /// Go on behind it.
    Append,
}

/// What a file that a user named is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUse {
    /// Standard input.
    Input,
    /// Standard output or error.
    Output,
}

impl std::fmt::Display for FileUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FileUse::Input => "input",
            FileUse::Output => "output",
        })
    }
}

/// A file the user named that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {} for {purpose}", .path.display())]
pub struct FileError {
    /// As named, after tags.
    pub path: PathBuf,
    /// What for.
    pub purpose: FileUse,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Opens a named output file, relative to the job's working directory, making
/// it if needed. It is always opened to append as well, so that tasks on
/// several nodes do not write over each other's lines. `none` is `/dev/null`.
/// A named pipe without a reader is refused: the shell waits for nobody. What is made has not the rights of
/// `umask`, which is this process's for as long: tasks are told theirs, and what else another thread may make
/// meanwhile (directories of cgroups) has a mode of its own.
pub fn open_output(
    cwd: &Path,
    name: &str,
    mode: OpenMode,
    umask: u32,
) -> Result<Arc<OwnedFd>, FileError> {
    let before = rustix::process::umask(Mode::from_raw_mode(umask));
    let opened = open_named(cwd, name, output_flags(mode), FileUse::Output);
    rustix::process::umask(before);
    opened
}

/// How an output file is opened.
pub fn output_flags(mode: OpenMode) -> OFlags {
    let how = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
    match mode {
        OpenMode::Truncate => how | OFlags::TRUNC,
        OpenMode::Append => how,
    }
}

/// What is added for every file that a user names. NONBLOCK so that neither a named pipe nor a
/// terminal holds up the shell; [`expect_to_wait`] takes it off again.
pub fn guarded(how: OFlags) -> OFlags {
    how | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK
}

/// A file as its task expects it: one that waits.
pub fn expect_to_wait(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    Ok(fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?)
}

/// Opens a named input file, relative to the job's working directory. `none` is
/// `/dev/null`.
pub fn open_input(cwd: &Path, name: &str) -> Result<Arc<OwnedFd>, FileError> {
    open_named(cwd, name, OFlags::RDONLY, FileUse::Input)
}

fn open_named(
    cwd: &Path,
    name: &str,
    how: OFlags,
    purpose: FileUse,
) -> Result<Arc<OwnedFd>, FileError> {
    let name = if name == NONE { "/dev/null" } else { name };
    let failed = |source: io::Error| FileError {
        path: name.into(),
        purpose,
        source,
    };
    let path = cwd.join(name);
    let fd = openat(CWD, &path, guarded(how), Mode::from_raw_mode(0o666));
    let fd = fd.map_err(|errno| failed(errno.into()))?;
    expect_to_wait(&fd).map_err(failed)?;
    Ok(Arc::new(fd))
}

/// What became of bytes that a task was to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// The pipe took so many of them.
    Bytes(usize),
    /// The pipe is full: give them again when it is writable.
    Full,
    /// Nobody reads any more. The pipe is closed.
    Closed,
}

/// Standard input that arrives bit by bit. It keeps nothing: what the pipe does not take stays with the caller.
#[derive(Debug)]
pub struct InputPipe {
    pipe: Option<OwnedFd>,
}

impl InputPipe {
    /// A pipe for input: ours, and the end that becomes the task's stdin.
    pub fn open() -> io::Result<(InputPipe, Arc<OwnedFd>)> {
        let (task, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&ours, OFlags::NONBLOCK)?;
        Ok((InputPipe { pipe: Some(ours) }, Arc::new(task)))
    }

    /// The descriptor to watch while it is [`Given::Full`]; none once closed.
    pub fn fd(&self) -> Option<impl AsFd + '_> {
        self.pipe.as_ref()
    }

    /// Hands on what the pipe takes of these now.
    pub fn give(&mut self, bytes: &[u8]) -> Given {
        loop {
            let Some(pipe) = &self.pipe else {
                return Given::Closed;
            };
            match rustix::io::write(pipe, bytes) {
                Ok(bytes) => return Given::Bytes(bytes),
                Err(Errno::AGAIN) => return Given::Full,
                Err(Errno::INTR) => {}
                // Nobody reads: EPIPE, SIGPIPE being ignored in the shell.
                Err(_) => self.pipe = None,
            }
        }
    }

    /// Says that no more comes. The task sees the end after what it was given.
    pub fn end(&mut self) {
        self.pipe = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_pipe_gives_its_bytes_then_its_end() {
        let (ours, task) = output_pipe().unwrap();
        let mut buffer = [0; 8];
        assert_eq!(read_slice(&ours, &mut buffer).unwrap(), Read::Later);
        rustix::io::write(&*task, b"0123456789").unwrap();
        assert_eq!(read_slice(&ours, &mut buffer).unwrap(), Read::Bytes(8));
        assert_eq!(read_slice(&ours, &mut buffer).unwrap(), Read::Bytes(2));
        drop(task);
        assert_eq!(read_slice(&ours, &mut buffer).unwrap(), Read::End);
    }

    #[test]
    fn input_is_given_as_the_task_reads_and_ends_after_the_last_byte() {
        let (mut feed, task) = InputPipe::open().unwrap();
        let all = vec![7u8; 1 << 20];
        let mut left = &all[..];
        let mut read = File::from(Arc::try_unwrap(task).unwrap());
        let mut got = 0;
        let mut buffer = vec![0; SLICE_BYTES];
        while !left.is_empty() {
            match feed.give(left) {
                Given::Bytes(bytes) => left = &left[bytes..],
                Given::Full => got += read.read(&mut buffer).unwrap(),
                Given::Closed => panic!("somebody reads"),
            }
        }
        feed.end();
        got += io::copy(&mut read, &mut io::sink()).unwrap() as usize;
        assert_eq!(got, all.len());
    }

    #[test]
    fn input_for_a_task_that_closed_its_side_is_dropped() {
        let (mut feed, task) = InputPipe::open().unwrap();
        drop(task);
        assert_eq!(feed.give(b"late"), Given::Closed);
        assert_eq!(feed.give(b"later"), Given::Closed);
        assert!(feed.fd().is_none());
    }

    #[test]
    fn output_files_are_relative_to_the_job_and_keep_or_lose_what_they_had() {
        let cwd = tempfile::tempdir().unwrap();
        let write = |mode, text: &str| {
            let fd = open_output(cwd.path(), "out", mode, 0o27).unwrap();
            File::from(Arc::try_unwrap(fd).unwrap())
                .write_all(text.as_bytes())
                .unwrap();
            std::fs::read_to_string(cwd.path().join("out")).unwrap()
        };
        assert_eq!(write(OpenMode::Truncate, "a"), "a");
        assert_eq!(write(OpenMode::Append, "b"), "ab");
        assert_eq!(write(OpenMode::Truncate, "c"), "c");
        let made = std::fs::metadata(cwd.path().join("out")).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_named_pipe_without_a_reader_does_not_hold_up_the_shell() {
        let cwd = tempfile::tempdir().unwrap();
        let path = cwd.path().join("fifo");
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        let error = open_output(cwd.path(), "fifo", OpenMode::Append, 0o22).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::ENXIO));
        assert_eq!(error.to_string(), "cannot open fifo for output");
    }

    #[test]
    fn none_is_no_file() {
        let cwd = tempfile::tempdir().unwrap();
        open_output(cwd.path(), NONE, OpenMode::Truncate, 0o22).unwrap();
        open_input(cwd.path(), NONE).unwrap();
        assert_eq!(std::fs::read_dir(cwd.path()).unwrap().count(), 0);
        assert!(open_input(cwd.path(), "absent").is_err());
    }
}
