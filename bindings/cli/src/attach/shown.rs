//! How much of a job was shown: where its instance is over meanwhile, what that left shows the rest and nothing again.
//!
//! Kept by whoever is with a job. What ranks wrote may come in another order there, so it is counted for each task and
//! stream; an attempt that is another is another's.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bytes::{Buf, Bytes};
use eddy_client::frames::{Frame, Frames, Stream};
use eddy_wire::id::Attempt;

use super::{Label, Lines};

/// Bytes that were shown, and exceptions.
#[derive(Debug, Default)]
pub struct Shown {
    attempt: Option<Attempt>,
    bytes: BTreeMap<(u32, u8), usize>,
    exceptions: usize,
    /// What was shown in part.
    pub lines: Lines,
    /// Of these what comes was shown before.
    again: Again,
}

#[derive(Debug, Default)]
struct Again {
    bytes: BTreeMap<(u32, u8), usize>,
    exceptions: usize,
}

impl Shown {
    /// All comes once more from its beginning.
    pub fn begins_again(&mut self) {
        self.again = Again {
            bytes: std::mem::take(&mut self.bytes),
            exceptions: std::mem::take(&mut self.exceptions),
        };
    }

    /// Writes what of these frames of an attempt was not shown yet to our standard output and error.
    ///
    /// # Errors
    /// They are no frames, or cannot be written.
    pub fn show(
        &mut self,
        attempt: Option<Attempt>,
        frames: Bytes,
        label: &Label,
    ) -> anyhow::Result<()> {
        if self.attempt != attempt {
            self.lines.end(label)?;
        }
        for frame in Frames::of(frames) {
            let frame = frame?;
            let bytes = self.fresh(attempt, &frame);
            self.lines.show(&frame, &bytes, label)?;
        }
        Ok(io::stdout().flush()?)
    }

    /// What of this frame of an attempt was not shown yet; it is from now on.
    fn fresh(&mut self, attempt: Option<Attempt>, frame: &Frame) -> Bytes {
        if self.attempt != attempt {
            self.attempt = attempt;
            self.bytes.clear();
            self.again.bytes.clear();
        }
        let of = (frame.task, number(frame.stream));
        *self.bytes.entry(of).or_default() += frame.bytes.len();
        let mut bytes = frame.bytes.clone();
        if let Some(before) = self.again.bytes.get_mut(&of) {
            let known = (*before).min(bytes.len());
            *before -= known;
            bytes.advance(known);
        }
        bytes
    }

    /// Whether the next exception was not shown yet; it is from now on.
    pub fn is_fresh_exception(&mut self) -> bool {
        self.exceptions += 1;
        self.exceptions > self.again.exceptions
    }
}

fn number(stream: Stream) -> u8 {
    match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
        Stream::StdoutEnd => 3,
        Stream::StderrEnd => 4,
        Stream::Note => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(task: u32, text: &'static str) -> Frame {
        Frame {
            task,
            stream: Stream::Stdout,
            bytes: Bytes::from_static(text.as_bytes()),
        }
    }

    #[test]
    fn what_was_shown_is_not_shown_again_however_it_is_cut() {
        let (mut shown, first) = (Shown::default(), Some(Attempt(1)));
        assert_eq!(shown.fresh(first, &frame(0, "abc")), "abc");
        assert_eq!(shown.fresh(first, &frame(1, "x")), "x");
        assert!(shown.is_fresh_exception());
        shown.begins_again();
        assert_eq!(shown.fresh(first, &frame(1, "xy")), "y");
        assert_eq!(shown.fresh(first, &frame(0, "ab")), "");
        assert_eq!(shown.fresh(first, &frame(0, "cd")), "d");
        assert_eq!(shown.fresh(first, &frame(0, "e")), "e");
        assert!(!shown.is_fresh_exception() && shown.is_fresh_exception());
    }

    #[test]
    fn another_attempt_is_shown_from_its_beginning() {
        let mut shown = Shown::default();
        drop(shown.fresh(Some(Attempt(1)), &frame(0, "abc")));
        shown.begins_again();
        assert_eq!(shown.fresh(Some(Attempt(2)), &frame(0, "abc")), "abc");
    }
}
