//! What is said in portions: to one who is told much, no more at a time than can wait for one who reads slowly.
//!
//! Used by `nest` for jobs that it passes to an instance, where they carry much. Each is answered. Holds keys and
//! sizes, not what is said: that is made anew when its turn comes, of what is so by then. Gone with the connection.

use std::collections::{BTreeMap, VecDeque};

/// While so much is not answered nothing more is said: with the longest message on top it is half of the least that
/// `limits.reply_bytes` may be and that a link lets be under way.
pub(crate) const PORTION_BYTES: u64 = 8 << 20;

/// What was said to one and is not answered, and what waits for that.
#[derive(Debug)]
pub(crate) struct Portion<K> {
    bytes: u64,
    said: BTreeMap<K, u64>,
    waiting: VecDeque<K>,
}

impl<K> Default for Portion<K> {
    fn default() -> Portion<K> {
        Portion {
            bytes: 0,
            said: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }
}

impl<K: Ord + Copy> Portion<K> {
    /// Whether something more may be said now, however long it is.
    pub fn has_room(&self) -> bool {
        self.bytes < PORTION_BYTES
    }

    /// So much is said now; of what is said again the last time counts.
    pub fn says(&mut self, key: K, bytes: u64) {
        self.is_answered(&key);
        self.said.insert(key, bytes);
        self.bytes += bytes;
    }

    /// There is no room: it is said in its turn.
    pub fn waits(&mut self, key: K) {
        self.waiting.push_back(key);
    }

    /// It was answered, or nobody answers it any more.
    pub fn is_answered(&mut self, key: &K) {
        self.bytes -= self.said.remove(key).unwrap_or(0);
    }

    /// Whether that one waits, which then waits no longer: it is to be said whether or not there is room.
    pub fn hurries(&mut self, key: &K) -> bool {
        let place = self.waiting.iter().position(|waiting| waiting == key);
        place.and_then(|at| self.waiting.remove(at)).is_some()
    }

    /// Who is to be said next, if there is room.
    pub fn next(&mut self) -> Option<K> {
        match self.has_room() {
            true => self.waiting.pop_front(),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_has_its_turn_when_something_was_answered() {
        let mut portion = Portion::default();
        portion.says(1, PORTION_BYTES - 1);
        assert!(portion.has_room());
        portion.says(2, 5);
        assert!(!portion.has_room());
        portion.waits(3);
        portion.waits(5);
        portion.waits(4);
        portion.is_answered(&7);
        assert_eq!(
            [5, 5, 1].map(|key| portion.hurries(&key)),
            [true, false, false]
        );
        assert_eq!(portion.next(), None);
        portion.is_answered(&2);
        assert_eq!(portion.next(), Some(3));
        portion.says(3, PORTION_BYTES);
        assert_eq!(portion.next(), None);
        portion.is_answered(&3);
        portion.is_answered(&1);
        assert_eq!((portion.next(), portion.bytes), (Some(4), 0));
    }

    #[test]
    fn what_is_said_again_counts_once() {
        let mut portion = Portion::default();
        portion.says(1, PORTION_BYTES);
        portion.says(1, 3);
        assert_eq!(portion.bytes, 3);
    }
}
