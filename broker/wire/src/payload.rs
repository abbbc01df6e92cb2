//! What jobs carry, their jobspecs and environments, said once over a connection: what both of its ends know of
//! those that were said last.
//!
//! Who says and who hears each hold [`Payloads`] that keep as much, and keep in them what was said, in that order.
//! So both agree on what need not be said again without a word about it. Said by `exec` to shells and by `nest` to
//! queue instances (eddy-modules), heard by `shellbook` (eddy-broker) and by `passed`; gone with the connection.
//! Hashes are taken as they are told: this checks none.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::hash::Hash;

/// How many one may keep.
pub const KEPT_MAX: u32 = 256;

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keeps {
    /// So many payloads, up to [`KEPT_MAX`].
    pub count: u32,
    /// So many bytes of them together. One that is longer is not kept.
    pub bytes: u64,
}

/// The payloads that were said last, each with what this end has of it.
#[derive(Debug)]
pub struct Payloads<V> {
    keeps: Keeps,
    bytes: u64,
    /// In the order in which they were said.
    order: VecDeque<(Hash, u64)>,
    kept: BTreeMap<Hash, V>,
}

impl<V> Default for Payloads<V> {
    fn default() -> Payloads<V> {
        Payloads::new(Keeps::default())
    }
}

impl<V> Payloads<V> {
    /// None yet.
    pub fn new(keeps: Keeps) -> Payloads<V> {
        Payloads {
            keeps,
            bytes: 0,
            order: VecDeque::new(),
            kept: BTreeMap::new(),
        }
    }

    /// What this end has of one that is kept.
    pub fn get(&self, hash: &Hash) -> Option<&V> {
        self.kept.get(hash)
    }

    /// One was said, of so many bytes. Those that were said first go for it; one that is kept stays where it is.
    ///
    /// That use keeps none longer is meant: when each is used, the ends do not see in the same order.
    pub fn keep(&mut self, hash: Hash, bytes: u64, value: V) {
        let is_too_long = bytes > self.keeps.bytes || self.keeps.count == 0;
        if is_too_long || self.kept.contains_key(&hash) {
            return;
        }
        self.kept.insert(hash, value);
        self.order.push_back((hash, bytes));
        self.bytes += bytes;
        while self.order.len() > self.keeps.count as usize || self.bytes > self.keeps.bytes {
            let Some((first, bytes)) = self.order.pop_front() else {
                return;
            };
            self.kept.remove(&first);
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hash(of: u8) -> Hash {
        Hash([of; 32])
    }

    fn keeps(count: u32, bytes: u64) -> Payloads<u8> {
        Payloads::new(Keeps { count, bytes })
    }

    #[test]
    fn who_was_said_first_goes_first() {
        let mut payloads = keeps(2, 100);
        payloads.keep(hash(1), 10, 1);
        payloads.keep(hash(2), 10, 2);
        payloads.keep(hash(1), 10, 9);
        payloads.keep(hash(3), 10, 3);
        let kept = [1, 2, 3].map(|of| payloads.get(&hash(of)).copied());
        assert_eq!(kept, [None, Some(2), Some(3)]);
    }

    #[test]
    fn a_long_one_takes_the_room_of_several_and_one_too_long_of_none() {
        let mut payloads = keeps(8, 100);
        payloads.keep(hash(1), 40, 1);
        payloads.keep(hash(2), 40, 2);
        payloads.keep(hash(3), 101, 3);
        let kept =
            |payloads: &Payloads<u8>| [1, 2, 3, 4].map(|of| payloads.get(&hash(of)).copied());
        assert_eq!(kept(&payloads), [Some(1), Some(2), None, None]);
        payloads.keep(hash(4), 90, 4);
        assert_eq!(kept(&payloads), [None, None, None, Some(4)]);
    }

    #[test]
    fn who_keeps_none_is_told_all() {
        let mut payloads = Payloads::default();
        payloads.keep(hash(1), 0, 1);
        assert_eq!(payloads.get(&hash(1)), None);
    }

    proptest! {
        /// Whatever is said: what one end takes as known the other has, and it is that very one.
        #[test]
        fn both_ends_know_the_same(
            said in prop::collection::vec(0u8..12, 0..200),
            count in 0u32..6,
            bytes in 0u64..150,
        ) {
            let mut says = Payloads::new(Keeps { count, bytes });
            let mut hears = keeps(count, bytes);
            for of in said {
                let (hash, length) = (hash(of), u64::from(of) * 5);
                let is_known = says.get(&hash).is_some();
                prop_assert_eq!(hears.get(&hash).copied(), is_known.then_some(of));
                if !is_known {
                    says.keep(hash, length, ());
                    hears.keep(hash, length, of);
                }
                prop_assert!(hears.bytes <= bytes && hears.order.len() <= count as usize);
                prop_assert_eq!(hears.order.len(), hears.kept.len());
                let sum: u64 = hears.order.iter().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(hears.bytes, sum);
            }
        }
    }
}
