//! How much of a job was shown: where its instance is over meanwhile, what that left shows the rest and nothing again.
//!
//! Kept by whoever is with a job. What ranks wrote may come in another order there, so it is counted for each task and
//! stream; an attempt that is another is another's.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes};
use eddy_client::frames::{Frame, Stream};
use eddy_wire::id::Attempt;

/// Bytes that were shown, and exceptions.
#[derive(Debug, Default)]
pub struct Shown {
    attempt: Option<Attempt>,
    bytes: BTreeMap<(u32, u8), usize>,
    exceptions: usize,
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

    /// What of this frame of an attempt was not shown yet; it is from now on.
    pub fn fresh(&mut self, attempt: Option<Attempt>, frame: &Frame) -> Bytes {
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
        Stream::End => 3,
        Stream::Note => 4,
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
