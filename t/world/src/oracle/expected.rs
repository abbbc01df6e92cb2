//! Which elastic instances are expected where they are not reached: for a moment from the beginning of a leader, which
//! finds its jobs before its instances are there, and from when one was last passed a job, which it was reached for.
//!
//! Knows the records, nothing of channels.

use std::collections::BTreeMap;

use eddy_wire::event::{Kind, Record};
use eddy_wire::time::{Span, Time};

use super::Oracle;

/// So long who waits for one keeps his turn.
const EXPECTED: Span = Span::seconds(10);

/// Since when.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    /// When the leader began.
    began: Option<Time>,
    /// When each was passed a job last.
    passed: BTreeMap<String, Time>,
}

impl Expected {
    /// One more record.
    pub(super) fn apply(&mut self, record: &Record) {
        let t = record.event.t;
        if let Kind::LeaderStart(_) = record.event.kind {
            self.began = Some(t);
        }
        if let Some(to) = record.event.kind.passed_to() {
            self.passed.insert(to.instance.clone(), t);
        }
    }

    fn has(&self, name: &str, now: Time) -> bool {
        let since = self.began.into_iter().chain(self.passed.get(name).copied());
        since.max().is_some_and(|since| now < since.after(EXPECTED))
    }
}

impl Oracle {
    /// Whether an elastic instance is expected now, where it is not reached.
    pub fn expects(&self, name: &str, now: Time) -> bool {
        self.expected.has(name, now)
    }
}
