//! What is still to happen, ordered by time and then by when it was asked for.

use std::collections::BTreeMap;

use eddy_wire::time::Time;

/// The one queue of the world.
#[derive(Debug)]
pub struct Queue<T> {
    waiting: BTreeMap<(Time, Turn, u64), T>,
    sequence: u64,
}

/// Which goes first of what happens at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Usual,
    Last,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue {
            waiting: BTreeMap::new(),
            sequence: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Adds what happens at `at`, after everything already asked for at that time.
    pub fn push(&mut self, at: Time, what: T) {
        self.insert(at, Turn::Usual, what);
    }

    /// Adds what happens at `at`, after everything else at that time, also what is asked for later.
    pub fn push_last(&mut self, at: Time, what: T) {
        self.insert(at, Turn::Last, what);
    }

    fn insert(&mut self, at: Time, turn: Turn, what: T) {
        self.sequence += 1;
        self.waiting.insert((at, turn, self.sequence), what);
    }

    /// Takes what happens next.
    pub fn pop(&mut self) -> Option<(Time, T)> {
        let ((at, _, _), what) = self.waiting.pop_first()?;
        Some((at, what))
    }

    /// When that is.
    pub fn next_at(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|((at, _, _), _)| *at)
    }

    /// How much waits.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
