//! Lines of output behind the number of their task, each whole however its pieces were read.
//!
//! Kept by whoever shows a job's output. Without numbers nothing is kept: what comes is written as it comes.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use eddy_client::frames::{Frame, Stream};

/// A line that is longer than this is written in parts, each behind the number: a task that writes no newline
/// must not be kept for ever.
const LINE_MAX: usize = 64 << 10;
/// So much of lines without an end is kept of all tasks together; what is beyond it is written as it comes.
const HELD_MAX: usize = 64 << 20;

/// Whether each line of output is shown with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// As it was written.
    Plain,
    /// That of its task: `3: line`
    Task,
    /// That of the rank its task runs on, where there is one task on each.
    Rank(Arc<[u32]>),
}

impl Label {
    fn number(&self, task: u32) -> Option<u32> {
        match self {
            Label::Plain => None,
            Label::Task => Some(task),
            Label::Rank(ranks) => Some(ranks.get(task as usize).copied().unwrap_or(task)),
        }
    }
}

/// One of the two streams of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Stdout,
    Stderr,
}

/// Lines that were begun and have no newline yet.
#[derive(Debug, Default)]
pub struct Lines {
    begun: BTreeMap<(u32, Of), Vec<u8>>,
    held: usize,
}

impl Lines {
    /// Writes these bytes of a frame to our standard output or error.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn show(&mut self, frame: &Frame, bytes: &[u8], label: &Label) -> io::Result<()> {
        let to = (&mut io::stdout().lock(), &mut io::stderr().lock());
        self.write(frame, bytes, label, to)
    }

    /// Writes what was begun there, each line with a newline: no more comes.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(&mut self, label: &Label) -> io::Result<()> {
        let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
        self.end_to(label, (&mut out, &mut err))?;
        out.flush()
    }

    fn write(
        &mut self,
        frame: &Frame,
        bytes: &[u8],
        label: &Label,
        (out, err): (&mut impl Write, &mut impl Write),
    ) -> io::Result<()> {
        let task = frame.task;
        match frame.stream {
            Stream::Stdout => self.add((task, Of::Stdout), bytes, label, out),
            Stream::Stderr => self.add((task, Of::Stderr), bytes, label, err),
            Stream::StdoutEnd => self.close((task, Of::Stdout), label, out),
            Stream::StderrEnd => self.close((task, Of::Stderr), label, err),
            Stream::Note if bytes.is_empty() => Ok(()),
            Stream::Note => writeln!(err, "eddy: {}", String::from_utf8_lossy(bytes).trim_end()),
        }
    }

    fn end_to(
        &mut self,
        label: &Label,
        (out, err): (&mut impl Write, &mut impl Write),
    ) -> io::Result<()> {
        let all: Vec<(u32, Of)> = self.begun.keys().copied().collect();
        all.into_iter().try_for_each(|of| match of.1 {
            Of::Stdout => self.close(of, label, out),
            Of::Stderr => self.close(of, label, err),
        })
    }

    fn add(
        &mut self,
        of: (u32, Of),
        bytes: &[u8],
        label: &Label,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let Some(number) = label.number(of.0) else {
            return out.write_all(bytes);
        };
        let newline = bytes.iter().rposition(|byte| *byte == b'\n');
        let (whole, rest) = bytes.split_at(newline.map_or(0, |at| at + 1));
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            write!(out, "{number}: ")?;
            out.write_all(&self.take(of))?;
            out.write_all(line)?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let begun = self.begun.entry(of).or_default();
        begun.extend_from_slice(rest);
        self.held += rest.len();
        match begun.len() >= LINE_MAX || self.held >= HELD_MAX {
            true => self.close(of, label, out),
            false => Ok(()),
        }
    }

    /// Ends a line that was begun, if one was.
    fn close(&mut self, of: (u32, Of), label: &Label, out: &mut impl Write) -> io::Result<()> {
        let begun = self.take(of);
        match label.number(of.0) {
            Some(number) if !begun.is_empty() => {
                write!(out, "{number}: ")?;
                out.write_all(&begun)?;
                out.write_all(b"\n")
            }
            Some(_) | None => out.write_all(&begun),
        }
    }

    fn take(&mut self, of: (u32, Of)) -> Vec<u8> {
        let begun = self.begun.remove(&of).unwrap_or_default();
        self.held -= begun.len();
        begun
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn write(
        (lines, label): (&mut Lines, &Label),
        pieces: &[(u32, Stream, &str)],
    ) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        for (task, stream, text) in pieces {
            let bytes = Bytes::copy_from_slice(text.as_bytes());
            let frame = Frame {
                task: *task,
                stream: *stream,
                bytes: bytes.clone(),
            };
            lines
                .write(&frame, &bytes, label, (&mut out, &mut err))
                .expect("memory");
        }
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (text(out), text(err))
    }

    fn end(lines: &mut Lines, label: &Label) -> String {
        let mut out = Vec::new();
        let ended = lines.end_to(label, (&mut out, &mut io::sink()));
        ended.expect("memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_line_that_is_read_in_pieces_is_one_line() {
        let mut lines = Lines::default();
        let (out, err) = write(
            (&mut lines, &Label::Task),
            &[
                (0, Stream::Stdout, "a"),
                (1, Stream::Stdout, "one\ntw"),
                (0, Stream::Stderr, "no"),
                (0, Stream::Stdout, "b\n\n"),
                (0, Stream::StderrEnd, ""),
                (1, Stream::Stdout, "o"),
            ],
        );
        assert_eq!(
            (out.as_str(), err.as_str()),
            ("1: one\n0: ab\n0: \n", "0: no\n")
        );
        assert_eq!(end(&mut lines, &Label::Task), "1: two\n");
        assert_eq!(
            (lines.held, end(&mut lines, &Label::Task).as_str()),
            (0, "")
        );
    }

    #[test]
    fn what_is_left_of_one_stream_is_written_at_its_end() {
        let mut lines = Lines::default();
        let pieces = [
            (3, Stream::Stdout, "a\nb"),
            (3, Stream::StderrEnd, ""),
            (3, Stream::StdoutEnd, ""),
            (3, Stream::StdoutEnd, ""),
        ];
        let of = (&mut lines, &Label::Task);
        assert_eq!(write(of, &pieces).0, "3: a\n3: b\n");
        let ranks = Label::Rank([4, 9].into());
        let rank = [(1, Stream::Stdout, "\nd"), (1, Stream::StdoutEnd, "")];
        assert_eq!(write((&mut lines, &ranks), &rank).0, "9: \n9: d\n");
    }

    #[test]
    fn without_numbers_what_comes_is_written_as_it_comes() {
        let mut lines = Lines::default();
        let pieces = [(3, Stream::Stdout, "a"), (3, Stream::StdoutEnd, "")];
        let of = (&mut lines, &Label::Plain);
        assert_eq!(write(of, &pieces).0, "a");
        assert_eq!(end(&mut lines, &Label::Plain), "");
    }

    #[test]
    fn a_line_without_an_end_is_kept_up_to_a_limit() {
        let mut lines = Lines::default();
        let half = "x".repeat(LINE_MAX / 2);
        let first = write((&mut lines, &Label::Task), &[(0, Stream::Stdout, &half)]);
        assert_eq!(first.0, "");
        let second = write((&mut lines, &Label::Task), &[(0, Stream::Stdout, &half)]);
        assert_eq!(second.0, format!("0: {half}{half}\n"));
        assert_eq!(lines.held, 0);
    }
}
