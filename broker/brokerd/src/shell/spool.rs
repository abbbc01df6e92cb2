//! Output that no user gave a file for: one append-only file for each (job,
//! attempt, rank), read by `attach` at any time until the job is purged.
//!
//! Called by the shell's loop, which writes, and by whoever streams output to
//! clients, who reads, in another process and at the same time. The form is in
//! doc/protocol/spool.md. Nothing is synced to disk: output survives a kill of
//! the shell, not a power cut. A task without output makes no file.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::frame::{
    self, Decoded, FRAME_HEAD_BYTES, FRAME_MAX, Frame, FrameError, HEAD_BYTES, Stream,
};

/// The most output kept of one job on one rank, unless configured otherwise.
pub const LIMIT_BYTES: u64 = 1 << 30;
/// Room that is left on the disk for the journal, which is on the same one: at least so much, and this part of a
/// large disk; on a small one a tenth.
const RESERVE_BYTES: u64 = 256 << 20;
const RESERVE_PART: u64 = 50;
const RESERVE_MOST: u64 = 10;
/// What a reader asks the kernel for at a time.
const READ_BYTES: usize = 64 << 10;

/// Which spool file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpoolId {
    /// Number of the job.
    pub job: u64,
    /// Attempt, from 1.
    pub attempt: u32,
    /// Rank whose shell writes it.
    pub rank: u32,
}

impl SpoolId {
    /// Its file below the spool directory: `JOB.ATTEMPT.RANK`.
    pub fn path(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.{}.{}", self.job, self.attempt, self.rank))
    }
}

/// A spool that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The system refused.
    #[error("cannot {attempt} {}", .path.display())]
    Io {
        /// `make`, `write`, `read`.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It holds something else than frames.
    #[error("{} is damaged at byte {offset}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the frame begins that cannot be read.
        offset: u64,
        /// What is wrong with it.
        #[source]
        source: FrameError,
    },
}

/// The one writer of a spool file.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    limit: u64,
    /// What is left free on a disk of so many bytes.
    reserve: fn(u64) -> u64,
    state: State,
}

/// What output leaves free on a disk of so many bytes.
fn reserve(disk: u64) -> u64 {
    RESERVE_BYTES
        .max(disk / RESERVE_PART)
        .min(disk / RESERVE_MOST)
}

#[derive(Debug)]
enum State {
    /// No output yet, no file.
    Absent,
    /// Frames up to `end` are whole.
    Open { file: File, end: u64 },
    /// The limit was met, or the disk is nearly full, which the last note says.
    Cut { file: File, end: u64 },
}

/// What became of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the file, whose length is now this: what a reader may be told.
    Kept {
        /// Bytes of the file.
        end: u64,
    },
    /// It is beyond the limit or what the disk has room for, or it ends an output that has no file.
    Dropped,
}

impl Writer {
    /// A writer for a file that is made at the first byte of output. `limit`
    /// bounds the file; a note and the ends of streams may come on top.
    pub fn new(directory: &Path, id: SpoolId, limit: u64) -> Writer {
        Writer {
            path: id.path(directory),
            limit,
            reserve,
            state: State::Absent,
        }
    }

    /// A writer that goes on behind the last whole frame of a file that another
    /// shell left; a part of a frame behind it is cut off. Without a file it is
    /// as [`Writer::new`]. Reads the whole file once.
    pub fn resume(directory: &Path, id: SpoolId, limit: u64) -> Result<Writer, SpoolError> {
        let mut writer = Writer::new(directory, id, limit);
        let mut reader = match Reader::open(directory, id) {
            Ok(reader) => reader,
            Err(error) if is_absent(&error) => return Ok(writer),
            Err(error) => return Err(error),
        };
        loop {
            match reader.next() {
                Ok(Next::Frame(_)) => {}
                Ok(Next::NotYet) | Err(SpoolError::Damaged { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        // A head that is not whole, or not ours, is written anew.
        let end = reader.offset();
        writer.state = writer
            .begin(end)
            .map_err(|source| writer.failed("write", source))?;
        Ok(writer)
    }

    /// Appends one piece of output; more than [`FRAME_MAX`] bytes become several
    /// frames. On an error (a full disk) the file still ends with a whole frame
    /// and the output may be offered again or dropped, as the caller decides.
    pub fn write(&mut self, frame: &Frame<'_>) -> Result<Written, SpoolError> {
        let mut written = Written::Dropped;
        if frame.bytes.is_empty() {
            return self.write_one(frame);
        }
        for bytes in frame.bytes.chunks(FRAME_MAX) {
            written = self.write_one(&Frame { bytes, ..*frame })?;
        }
        Ok(written)
    }

    fn write_one(&mut self, frame: &Frame<'_>) -> Result<Written, SpoolError> {
        match self.append(frame) {
            Ok(written) => Ok(written),
            Err(source) => {
                let attempt = if matches!(self.state, State::Absent) {
                    "make"
                } else {
                    "write"
                };
                Err(self.failed(attempt, source))
            }
        }
    }

    fn append(&mut self, frame: &Frame<'_>) -> io::Result<Written> {
        let marks_end = matches!(frame.stream, Stream::StdoutEnd | Stream::StderrEnd);
        if let State::Absent = self.state {
            if marks_end || frame.bytes.is_empty() {
                return Ok(Written::Dropped);
            }
            self.state = self.begin(0)?;
        }
        match &mut self.state {
            State::Absent => unreachable!("begun above"),
            State::Cut { .. } if !marks_end => Ok(Written::Dropped),
            State::Cut { file, end } => put(file, end, frame),
            State::Open { file, end } => {
                let more = (FRAME_HEAD_BYTES + frame.bytes.len()) as u64;
                let text = match *end + more <= self.limit {
                    _ if marks_end => return put(file, end, frame),
                    true if has_room(file, more, self.reserve)? => return put(file, end, frame),
                    true => "output cut: the disk of this node is nearly full\n".to_owned(),
                    false => format!("output cut: more than {} bytes on this node\n", self.limit),
                };
                let bytes = text.as_bytes();
                let written = put(
                    file,
                    end,
                    &Frame {
                        stream: Stream::Note,
                        bytes,
                        ..*frame
                    },
                )?;
                self.state = match std::mem::replace(&mut self.state, State::Absent) {
                    State::Open { file, end } => State::Cut { file, end },
                    other => other,
                };
                Ok(written)
            }
        }
    }

    /// Opens the file with whole frames up to `end`, 0 for a new one.
    fn begin(&self, end: u64) -> io::Result<State> {
        let mut how = OpenOptions::new();
        let how = how.create(true).append(true).mode(0o600);
        let mut file = match (how.open(&self.path), self.path.parent()) {
            // The first output of the rank makes the directory, too.
            (Err(error), Some(directory)) if error.kind() == io::ErrorKind::NotFound => {
                let mut make = DirBuilder::new();
                make.recursive(true).mode(0o700).create(directory)?;
                how.open(&self.path)?
            }
            (opened, _) => opened?,
        };
        if end >= HEAD_BYTES as u64 {
            file.set_len(end)?;
            return Ok(State::Open { file, end });
        }
        file.set_len(0)?;
        file.write_all(&frame::head())?;
        Ok(State::Open {
            file,
            end: HEAD_BYTES as u64,
        })
    }

    fn failed(&self, attempt: &'static str, source: io::Error) -> SpoolError {
        SpoolError::Io {
            attempt,
            path: self.path.clone(),
            source,
        }
    }
}

/// Whether so much more may be written: output of one user's jobs is not to take the room in which what happens to
/// everybody's is recorded.
fn has_room(file: &File, more: u64, reserve: fn(u64) -> u64) -> io::Result<bool> {
    let disk = rustix::fs::fstatvfs(file)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let all = disk.f_blocks.saturating_mul(disk.f_frsize);
    Ok(free >= reserve(all).saturating_add(more))
}

/// Appends a frame, or none of it.
fn put(file: &mut File, end: &mut u64, frame: &Frame<'_>) -> io::Result<Written> {
    let head = frame::frame_head(frame);
    if let Err(error) = write_both(file, &head, frame.bytes) {
        // A disk that filled up in the middle of it: take the part away, so that
        // the next frame begins where a reader looks for it.
        file.set_len(*end)?;
        return Err(error);
    }
    *end += (head.len() + frame.bytes.len()) as u64;
    Ok(Written::Kept { end: *end })
}

fn write_both(file: &mut File, head: &[u8], body: &[u8]) -> io::Result<()> {
    let mut slices = [IoSlice::new(head), IoSlice::new(body)];
    let mut left = &mut slices[..];
    while left.iter().any(|slice| !slice.is_empty()) {
        match file.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => IoSlice::advance_slices(&mut left, bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What a reader has next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A whole frame; the offset is behind it now.
    Frame(Frame<'a>),
    /// Nothing whole is there yet: ask again once the file has grown. After its
    /// writer has died this is the end.
    NotYet,
}

/// Reads a spool file while it grows. Holds at most one frame.
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: PathBuf,
    /// Of the file: where `buffer[used..]` begins.
    offset: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl Reader {
    /// Opens a spool at its begin. A job without output has no file, for which
    /// the error's source is `NotFound`; see [`is_absent`].
    pub fn open(directory: &Path, id: SpoolId) -> Result<Reader, SpoolError> {
        Reader::open_at(directory, id, 0)
    }

    /// Opens a spool at an offset that [`Reader::offset`] once gave. Any other
    /// is found to be damage.
    pub fn open_at(directory: &Path, id: SpoolId, offset: u64) -> Result<Reader, SpoolError> {
        let path = id.path(directory);
        match File::open(&path) {
            Ok(file) => Ok(Reader {
                file,
                path,
                offset,
                buffer: Vec::new(),
                used: 0,
            }),
            Err(source) => Err(SpoolError::Io {
                attempt: "read",
                path,
                source,
            }),
        }
    }

    /// Where the next frame begins: what to keep in order to go on later.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next frame, if it is whole.
    #[allow(
        clippy::should_implement_trait,
        reason = "lends its frame, as no Iterator can"
    )]
    pub fn next(&mut self) -> Result<Next<'_>, SpoolError> {
        if self.offset < HEAD_BYTES as u64 && !self.read_head()? {
            return Ok(Next::NotYet);
        }
        let mut needed = FRAME_HEAD_BYTES;
        let length = loop {
            let filled = self.fill(needed)?;
            match frame::decode(&self.buffer[self.used..]) {
                Ok(Decoded::Whole(_, length)) => break length,
                Ok(Decoded::Part { .. }) if !filled => return Ok(Next::NotYet),
                Ok(Decoded::Part { needed: more }) => needed = more,
                Err(source) => return Err(self.damaged(source)),
            }
        };
        let begin = self.used;
        self.used += length;
        self.offset += length as u64;
        match frame::decode(&self.buffer[begin..]) {
            Ok(Decoded::Whole(frame, _)) => Ok(Next::Frame(frame)),
            other => unreachable!("the frame was whole a moment ago, now {other:?}"),
        }
    }

    /// Whether the head is there; goes past it.
    fn read_head(&mut self) -> Result<bool, SpoolError> {
        self.offset = 0;
        if !self.fill(HEAD_BYTES)? {
            return Ok(false);
        }
        let head = self.buffer[self.used..]
            .first_chunk()
            .expect("filled above");
        frame::check_head(head).map_err(|source| self.damaged(source))?;
        self.used += HEAD_BYTES;
        self.offset = HEAD_BYTES as u64;
        Ok(true)
    }

    /// Has at least `needed` bytes from the offset, if the file has them.
    fn fill(&mut self, needed: usize) -> Result<bool, SpoolError> {
        if self.buffer.len() - self.used >= needed {
            return Ok(true);
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        while self.buffer.len() < needed {
            let have = self.buffer.len();
            self.buffer.resize(have + READ_BYTES.max(needed - have), 0);
            let read = self
                .file
                .read_at(&mut self.buffer[have..], self.offset + have as u64);
            self.buffer.truncate(have + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let path = self.path.clone();
                    return Err(SpoolError::Io {
                        attempt: "read",
                        path,
                        source,
                    });
                }
            }
        }
        Ok(true)
    }

    fn damaged(&self, source: FrameError) -> SpoolError {
        SpoolError::Damaged {
            path: self.path.clone(),
            offset: self.offset,
            source,
        }
    }
}

/// Whether an error says that there is no such file: no output yet, or none at
/// all.
pub fn is_absent(error: &SpoolError) -> bool {
    matches!(error, SpoolError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
