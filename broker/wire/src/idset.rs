//! A set of small numbers and its text form (RFC 22): `0-3,7`.
//!
//! Ranks of a grant, cores and GPUs of a node, `--cc`. Kept as ranges, so that
//! `0-2147483647` costs as much as `5`; holds no bits and never expands itself.

use std::cmp::{max, min};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::{SmallVec, smallvec};
use thiserror::Error;

/// The largest id of a set (RFC 22: `INT_MAX`).
pub const ID_MAX: u32 = i32::MAX as u32;

/// An ordered set of ids from 0 to [`ID_MAX`]. Text and JSON string are the range form.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Idset {
    /// First and last id of each run: ascending, with at least one id missing between two.
    ranges: Ranges,
}

/// First and last of each run. Most sets are a core, the cores of a node or a few ranks, and there are several of
/// them in all that is said of a job: two runs lie in the set itself, where an allocation's address would.
type Ranges = SmallVec<[(u32, u32); 2]>;

/// Why a text is not an idset. Places count bytes from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdsetError {
    /// Something other than an id where an id belongs.
    #[error("idset has {found} at position {at}; allowed is a number")]
    NotANumber {
        /// What is there.
        found: Found,
        /// Where.
        at: usize,
    },
    /// Something after an id that is neither a comma nor a range.
    #[error("idset has {found} at position {at}; allowed are `,` and `-`")]
    NotASeparator {
        /// What is there.
        found: Found,
        /// Where.
        at: usize,
    },
    /// An id is written with a zero before it.
    #[error("idset has a leading zero at position {at}; allowed is none")]
    LeadingZero {
        /// Where.
        at: usize,
    },
    /// An id is over [`ID_MAX`].
    #[error("idset has an id that is too large at position {at}; allowed are 0 to {ID_MAX}")]
    TooLarge {
        /// Where.
        at: usize,
    },
    /// The range goes down.
    #[error(
        "idset has the range {first}-{last} at position {at}; the last must not be below the first"
    )]
    Backwards {
        /// Its first id.
        first: u32,
        /// Its last id.
        last: u32,
        /// Where it begins.
        at: usize,
    },
    /// An id is not above the one before it.
    #[error("idset has {id} after {before} at position {at}; ids must ascend")]
    NotAscending {
        /// The id.
        id: u32,
        /// The id before it.
        before: u32,
        /// Where.
        at: usize,
    },
    /// A bracket without its partner.
    #[error(
        "idset has a bracket without another at position {at}; allowed are one pair around all, and none"
    )]
    Bracket {
        /// Where.
        at: usize,
    },
}

/// What stands at a place of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This character.
    Char(char),
    /// The end of the text.
    End,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Char(c) => write!(f, "{c:?}"),
            Found::End => f.write_str("its end"),
        }
    }
}

impl Idset {
    /// The empty set.
    pub const fn new() -> Idset {
        Idset {
            ranges: Ranges::new_const(),
        }
    }

    /// The set of one id. An id over [`ID_MAX`] is a bug and panics, here and below.
    pub fn one(id: u32) -> Idset {
        Idset::range(id, id)
    }

    /// The ids from `first` to `last`, both included; empty if `last` is below `first`.
    pub fn range(first: u32, last: u32) -> Idset {
        assert!(last <= ID_MAX, "id {last} must be at most {ID_MAX}");
        if last < first {
            Idset::new()
        } else {
            Idset {
                ranges: smallvec![(first, last)],
            }
        }
    }

    /// The ids `0..count`.
    pub fn first_ids(count: u32) -> Idset {
        if count == 0 {
            Idset::new()
        } else {
            Idset::range(0, count - 1)
        }
    }

    /// How many ids.
    pub fn len(&self) -> u64 {
        self.ranges
            .iter()
            .map(|&(first, last)| u64::from(last - first) + 1)
            .sum()
    }

    /// Whether it holds no id.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether `id` is in it.
    pub fn contains(&self, id: u32) -> bool {
        let after = self.ranges.partition_point(|&(first, _)| first <= id);
        after > 0 && self.ranges[after - 1].1 >= id
    }

    /// The lowest id.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|&(first, _)| first)
    }

    /// The highest id.
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|&(_, last)| last)
    }

    /// The ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| first..=last)
    }

    /// The runs of neighbouring ids as (first, last), ascending.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// Puts `id` in; whether it is there already does not matter.
    pub fn insert(&mut self, id: u32) {
        self.insert_range(id, id);
    }

    /// Puts the ids from `first` to `last` in, both included.
    pub fn insert_range(&mut self, first: u32, last: u32) {
        assert!(last <= ID_MAX, "id {last} must be at most {ID_MAX}");
        if last < first {
            return;
        }
        // Most sets are made in order, as of the nodes of a resource set: nothing is looked for then.
        let is_behind = |&(_, end): &(u32, u32)| end.saturating_add(1) < first;
        if self.ranges.last().is_none_or(is_behind) {
            return self.ranges.push((first, last));
        }
        // The runs that touch or neighbour the new one melt into it.
        let from = self
            .ranges
            .partition_point(|&(_, end)| end.saturating_add(1) < first);
        let to = self.ranges.partition_point(|&(start, _)| start <= last + 1);
        if from == to {
            self.ranges.insert(from, (first, last));
            return;
        }
        let melted = (
            min(first, self.ranges[from].0),
            max(last, self.ranges[to - 1].1),
        );
        self.ranges[from] = melted;
        self.ranges.drain(from + 1..to);
    }

    /// Takes `id` out; whether it is there does not matter.
    pub fn remove(&mut self, id: u32) {
        let after = self.ranges.partition_point(|&(first, _)| first <= id);
        if after == 0 || self.ranges[after - 1].1 < id {
            return;
        }
        let at = after - 1;
        let (first, last) = self.ranges[at];
        match (first == id, last == id) {
            (true, true) => drop(self.ranges.remove(at)),
            (true, false) => self.ranges[at].0 = id + 1,
            (false, true) => self.ranges[at].1 = id - 1,
            (false, false) => {
                self.ranges[at].1 = id - 1;
                self.ranges.insert(after, (id + 1, last));
            }
        }
    }

    /// The ids that are in either.
    #[must_use]
    pub fn union(&self, other: &Idset) -> Idset {
        let mut ranges = Ranges::with_capacity(self.ranges.len());
        let (mut left, mut right) = (self.ranges.as_slice(), other.ranges.as_slice());
        loop {
            let next = match (left.first(), right.first()) {
                (Some(l), Some(r)) if l.0 <= r.0 => take_first(&mut left),
                (Some(_), None) => take_first(&mut left),
                (_, Some(_)) => take_first(&mut right),
                (None, None) => return Idset { ranges },
            };
            match ranges.last_mut() {
                Some(before) if next.0 <= before.1 + 1 => before.1 = max(before.1, next.1),
                _ => ranges.push(next),
            }
        }
    }

    /// The ids that are in both.
    #[must_use]
    pub fn intersect(&self, other: &Idset) -> Idset {
        let mut ranges = Ranges::new();
        let (mut l, mut r) = (0, 0);
        while l < self.ranges.len() && r < other.ranges.len() {
            let (left, right) = (self.ranges[l], other.ranges[r]);
            let (first, last) = (max(left.0, right.0), min(left.1, right.1));
            if first <= last {
                ranges.push((first, last));
            }
            if left.1 <= right.1 { l += 1 } else { r += 1 }
        }
        Idset { ranges }
    }

    /// The ids of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Idset) -> Idset {
        let mut ranges = Ranges::with_capacity(self.ranges.len());
        let mut r = 0;
        for &(first, last) in &self.ranges {
            let mut from = first;
            // Whole runs of `other` below this one are of no more use.
            while r < other.ranges.len() && other.ranges[r].1 < first {
                r += 1;
            }
            let mut at = r;
            while at < other.ranges.len() && other.ranges[at].0 <= last && from <= last {
                let (hole_first, hole_last) = other.ranges[at];
                if hole_first > from {
                    ranges.push((from, hole_first - 1));
                }
                from = hole_last + 1;
                at += 1;
            }
            if from <= last {
                ranges.push((from, last));
            }
        }
        Idset { ranges }
    }

    /// Whether every id of `other` is in this set.
    pub fn contains_all(&self, other: &Idset) -> bool {
        other.ranges.iter().all(|&(first, last)| {
            let after = self.ranges.partition_point(|&(start, _)| start <= first);
            after > 0 && self.ranges[after - 1].1 >= last
        })
    }

    /// Whether no id is in both.
    pub fn is_disjoint(&self, other: &Idset) -> bool {
        let (mut l, mut r) = (0, 0);
        while l < self.ranges.len() && r < other.ranges.len() {
            let (left, right) = (self.ranges[l], other.ranges[r]);
            if max(left.0, right.0) <= min(left.1, right.1) {
                return false;
            }
            if left.1 <= right.1 { l += 1 } else { r += 1 }
        }
        true
    }

    /// The lowest `count` ids, or all if there are fewer.
    #[must_use]
    pub fn lowest(&self, count: u64) -> Idset {
        let mut ranges = Ranges::new();
        let mut left = count;
        for &(first, last) in &self.ranges {
            if left == 0 {
                break;
            }
            let size = u64::from(last - first) + 1;
            let taken = min(size, left);
            // `taken` is from 1 to 2^31, so the difference fits.
            ranges.push((first, first + (taken - 1) as u32));
            left -= taken;
        }
        Idset { ranges }
    }
}

fn take_first(ranges: &mut &[(u32, u32)]) -> (u32, u32) {
    let (first, rest) = ranges.split_first().expect("the caller has looked");
    *ranges = rest;
    *first
}

impl FromIterator<u32> for Idset {
    fn from_iter<T: IntoIterator<Item = u32>>(ids: T) -> Idset {
        let mut set = Idset::new();
        set.extend(ids);
        set
    }
}

impl Extend<u32> for Idset {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, ids: T) {
        ids.into_iter().for_each(|id| self.insert(id));
    }
}

impl fmt::Display for Idset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, &(first, last)) in self.ranges.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Idset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Idset({self})")
    }
}

impl FromStr for Idset {
    type Err = IdsetError;

    fn from_str(text: &str) -> Result<Idset, IdsetError> {
        let (body, start) = match (text.strip_prefix('['), text.ends_with(']')) {
            (Some(rest), true) => (&rest[..rest.len() - 1], 1),
            (None, false) => (text, 0),
            (Some(_), false) => return Err(IdsetError::Bracket { at: 0 }),
            (None, true) => {
                let at = text.len() - 1;
                return Err(IdsetError::Bracket { at });
            }
        };
        let mut set = Idset::new();
        if body.is_empty() {
            return Ok(set);
        }
        let mut reader = Reader { body, at: 0, start };
        loop {
            let at = reader.place();
            let (first, last) = reader.range()?;
            match set.ranges.last_mut() {
                Some(&mut (_, before)) if first <= before => {
                    let id = first;
                    return Err(IdsetError::NotAscending { id, before, at });
                }
                Some(run) if first == run.1 + 1 => run.1 = last,
                _ => set.ranges.push((first, last)),
            }
            match reader.next() {
                Found::End => return Ok(set),
                Found::Char(',') => reader.at += 1,
                found => {
                    return Err(IdsetError::NotASeparator {
                        found,
                        at: reader.place(),
                    });
                }
            }
        }
    }
}

/// The text of an idset within its brackets, and how far it has been read.
struct Reader<'t> {
    body: &'t str,
    at: usize,
    start: usize,
}

impl Reader<'_> {
    fn next(&self) -> Found {
        self.body[self.at..]
            .chars()
            .next()
            .map_or(Found::End, Found::Char)
    }

    fn place(&self) -> usize {
        self.start + self.at
    }

    fn range(&mut self) -> Result<(u32, u32), IdsetError> {
        let at = self.place();
        let first = self.number()?;
        if self.next() != Found::Char('-') {
            return Ok((first, first));
        }
        self.at += 1;
        let last = self.number()?;
        if last < first {
            return Err(IdsetError::Backwards { first, last, at });
        }
        Ok((first, last))
    }

    fn number(&mut self) -> Result<u32, IdsetError> {
        let rest = &self.body[self.at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let at = self.place();
        if digits == 0 {
            return Err(IdsetError::NotANumber {
                found: self.next(),
                at,
            });
        }
        if digits > 1 && rest.starts_with('0') {
            return Err(IdsetError::LeadingZero { at });
        }
        self.at += digits;
        match rest[..digits].parse() {
            Ok(id) if id <= ID_MAX => Ok(id),
            _ => Err(IdsetError::TooLarge { at }),
        }
    }
}

impl Serialize for Idset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Idset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Idset, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
