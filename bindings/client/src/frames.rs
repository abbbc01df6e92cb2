//! Output as it comes in the tail of `job.output`: frames of a spool file
//! (doc/protocol/spool.md).
//!
//! Read by attach and watch. It checks lengths, not sums: the shell did that
//! when it read the file, and a socket does not change bytes.

use bytes::{Buf, Bytes};
use thiserror::Error;

/// Bytes of a frame before its own.
const HEAD_BYTES: usize = 24;

/// What the bytes of a frame are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output of the task.
    Stdout,
    /// Standard error of the task.
    Stderr,
    /// The task has no more of its standard output.
    StdoutEnd,
    /// The task has no more of its standard error.
    StderrEnd,
    /// Text of the shell for a person, such as that output was cut.
    Note,
}

/// One piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Number of the task in the job.
    pub task: u32,
    /// What the bytes are.
    pub stream: Stream,
    /// What was written.
    pub bytes: Bytes,
}

/// Bytes that are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("output is damaged: {left} bytes are no frame")]
pub struct Damaged {
    /// How many could not be read.
    pub left: usize,
}

/// The frames in a tail, without copying what was written.
pub struct Frames(Bytes);

impl Frames {
    /// The frames of this tail.
    pub fn of(tail: Bytes) -> Frames {
        Frames(tail)
    }

    fn take(&mut self) -> Option<Frame> {
        let head: &[u8; HEAD_BYTES] = self.0.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| head[at + i]));
        let (length, task) = (word(0) as usize, word(16));
        let stream = match head[20..24] {
            [1, 0, 0, 0] => Stream::Stdout,
            [2, 0, 0, 0] => Stream::Stderr,
            [3, 0, 0, 0] => Stream::StdoutEnd,
            [4, 0, 0, 0] => Stream::StderrEnd,
            [5, 0, 0, 0] => Stream::Note,
            _ => return None,
        };
        if self.0.len() - HEAD_BYTES < length {
            return None;
        }
        self.0.advance(HEAD_BYTES);
        Some(Frame {
            task,
            stream,
            bytes: self.0.split_to(length),
        })
    }
}

impl Iterator for Frames {
    type Item = Result<Frame, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let frame = self.take();
        let left = self.0.len();
        if frame.is_none() {
            self.0.clear();
        }
        Some(frame.ok_or(Damaged { left }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(task: u32, stream: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = (bytes.len() as u32).to_le_bytes().to_vec();
        out.extend([0; 12]);
        out.extend(task.to_le_bytes());
        out.extend([stream, 0, 0, 0]);
        out.extend(bytes);
        out
    }

    #[test]
    fn frames_come_in_order_with_their_task_and_stream() {
        let tail = [frame(0, 1, b"out"), frame(7, 2, b"err"), frame(7, 4, b"")].concat();
        let frames: Vec<Frame> = Frames::of(tail.into()).map(|f| f.expect("whole")).collect();
        assert_eq!(
            frames[0],
            Frame {
                task: 0,
                stream: Stream::Stdout,
                bytes: "out".into()
            }
        );
        assert_eq!((frames[1].task, frames[1].stream), (7, Stream::Stderr));
        assert_eq!(frames[2].stream, Stream::StderrEnd);
    }

    #[test]
    fn what_is_no_frame_ends_the_reading_with_one_error() {
        let mut tail = frame(0, 1, b"out");
        tail.extend([0; 40]);
        let read: Vec<_> = Frames::of(tail.into()).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[1], Err(Damaged { left: 40 }));
        assert!(
            Frames::of(frame(0, 1, b"cut")[..26].to_vec().into())
                .next()
                .expect("one")
                .is_err()
        );
    }
}
