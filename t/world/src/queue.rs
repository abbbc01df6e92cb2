//! What is still to happen, ordered by time and then by when it was asked for.

use std::collections::BTreeMap;

use eddy_wire::time::Time;

/// The one queue of the world.
#[derive(Debug)]
pub struct Queue<T> {
    waiting: BTreeMap<(Time, u64), T>,
    sequence: u64,
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
        self.sequence += 1;
        self.waiting.insert((at, self.sequence), what);
    }

    /// Takes what happens next.
    pub fn pop(&mut self) -> Option<(Time, T)> {
        let ((at, _), what) = self.waiting.pop_first()?;
        Some((at, what))
    }

    /// When that is.
    pub fn next_at(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
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
