//! In which order submissions go on whose keys the journal is asked about.
//!
//! The journal has several readers, and whoever has the shorter way answers first. Who sends submissions one
//! after another is given numbers in that order all the same, and of two with one key the first counts. So an answer
//! waits for those before it; they are all there within the same moment, since none is long.

use std::collections::{BTreeMap, VecDeque};

use eddy_broker::Answer;

/// Look-ups that are not given on, as many as there are submissions under way.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    /// Their tags, the first asked first.
    asked: VecDeque<u64>,
    /// Answers that came before it was their turn.
    early: BTreeMap<u64, Answer>,
}

impl Lookups {
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    pub(super) fn ask(&mut self, tag: u64) {
        self.asked.push_back(tag);
    }

    /// Whether that is such a look-up, and no other question. Tags rise.
    pub(super) fn has(&self, tag: u64) -> bool {
        self.asked.binary_search(&tag).is_ok()
    }

    pub(super) fn answered(&mut self, tag: u64, answer: Answer) {
        self.early.insert(tag, answer);
    }

    /// Whether the first is answered.
    pub(super) fn is_ready(&self) -> bool {
        let first = self.asked.front();
        first.is_some_and(|first| self.early.contains_key(first))
    }

    /// The first, if it is answered.
    pub(super) fn next(&mut self) -> Option<(u64, Answer)> {
        let answer = self.early.remove(self.asked.front()?)?;
        Some((self.asked.pop_front()?, answer))
    }
}
