//! The least needs and the shortest spans of a part of a line, by size class.
//!
//! Least and shortest alone would admit a part that has a narrow long job and a
//! wide short one; by class of a factor of two the two are told apart. Only the
//! line asks it.

use eddy_wire::time::Span;

use super::ceiling::Ceiling;

/// Classes: 0, 1, 2..4, 4..8 and so on; the last is open.
const CLASSES: usize = 24;

/// By class of need, the least need and the shortest span.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Bit by class: whether anybody is in it.
    there: u32,
    least: [u64; CLASSES],
    shortest: [Span; CLASSES],
}

impl Default for Extent {
    fn default() -> Extent {
        Extent {
            there: 0,
            least: [u64::MAX; CLASSES],
            shortest: [Span(i64::MAX); CLASSES],
        }
    }
}

impl Extent {
    /// Whether somebody within may fit.
    pub fn may(&self, ceiling: &Ceiling) -> bool {
        let mut rest = self.there;
        while rest != 0 {
            let class = rest.trailing_zeros() as usize;
            if ceiling.admits(self.least[class], self.shortest[class]) {
                return true;
            }
            rest &= rest - 1;
        }
        false
    }

    /// One more is within.
    pub fn add(&mut self, least: u64, span: Span) {
        let class = class(least);
        self.there |= 1 << class;
        self.least[class] = self.least[class].min(least);
        self.shortest[class] = self.shortest[class].min(span);
    }

    /// All that is within another is within.
    pub fn cover(&mut self, other: &Extent) {
        let mut rest = other.there;
        while rest != 0 {
            let class = rest.trailing_zeros() as usize;
            self.cover_class(class, other);
            rest &= rest - 1;
        }
    }

    /// One is not within any more; those that are left.
    pub fn remove(&mut self, (least, span): (u64, Span), rest: impl Iterator<Item = (u64, Span)>) {
        let class = class(least);
        let before = self.bounds(class);
        if least > before.0 && span > before.1 {
            return;
        }
        self.clear(class);
        for (least, span) in rest.filter(|&(least, _)| self::class(least) == class) {
            self.add(least, span);
            // Mostly others are as it was, and the first of them says so.
            if self.bounds(class) == before {
                return;
            }
        }
    }

    /// One is not within any of these any more.
    pub fn uncover<'a>(
        &mut self,
        (least, span): (u64, Span),
        parts: impl Iterator<Item = &'a Extent>,
    ) {
        let class = class(least);
        let before = self.bounds(class);
        if least > before.0 && span > before.1 {
            return;
        }
        self.clear(class);
        for part in parts.filter(|part| part.there & (1 << class) != 0) {
            self.cover_class(class, part);
            if self.bounds(class) == before {
                return;
            }
        }
    }

    fn bounds(&self, class: usize) -> (u64, Span) {
        (self.least[class], self.shortest[class])
    }

    fn clear(&mut self, class: usize) {
        self.there &= !(1 << class);
        self.least[class] = u64::MAX;
        self.shortest[class] = Span(i64::MAX);
    }

    fn cover_class(&mut self, class: usize, other: &Extent) {
        self.there |= 1 << class;
        self.least[class] = self.least[class].min(other.least[class]);
        self.shortest[class] = self.shortest[class].min(other.shortest[class]);
    }
}

fn class(least: u64) -> usize {
    ((u64::BITS - least.leading_zeros()) as usize).min(CLASSES - 1)
}
